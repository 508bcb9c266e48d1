use super::{CapabilityScores, Coordinate};
use crate::dialogue::Strategy;
use crate::evaluate::strategy::{Labels, RlverGroup, repetition_rate, rlver_group};

/// What reports call the estimates of this file.
pub const ESTIMATE: &str = "heuristic estimate from recognised strategies";

/// Estimates the capabilities a dialogue shows from the labels of its replies, in order. `None` without replies.
///
/// Each level needs the one below it. The fifth levels of the rubric are about meaning that cues cannot show, so the
/// estimate ends at 4. Empathic depth, core insight and solution crafting are means over replies, guidance and style
/// are about the dialogue.
pub fn estimate(replies: &[Labels]) -> Option<CapabilityScores> {
    if replies.is_empty() {
        return None;
    }
    let mean = |level: fn(&Labels) -> f64| replies.iter().map(level).sum::<f64>() / replies.len() as f64;
    Some(CapabilityScores([mean(depth), mean(insight), mean(solution), guidance(replies), style(replies)]))
}

fn has(reply: &Labels, any: &[Strategy]) -> bool {
    any.iter().any(|s| reply.strategies.contains(s))
}

fn depth(reply: &Labels) -> f64 {
    use Strategy::*;
    let feeling = has(reply, &[NameFeeling, AgreeingDisclosure]);
    let event = has(reply, &[RestateProblem]);
    match (feeling, event, has(reply, &[InferNeed])) {
        (true, _, true) | (_, true, true) => 4.0,
        (true, true, false) => 3.0,
        (true, false, false) | (false, _, true) | (false, true, false) => 2.0,
        (false, false, false) => 1.0,
    }
}

fn insight(reply: &Labels) -> f64 {
    use Strategy::*;
    let analysis = has(reply, &[ProblemAnalysis, BothSides, AnalyseOthers]);
    match (analysis, has(reply, &[InferNeed, GuideReflection]), has(reply, &[RestateProblem])) {
        (true, true, _) => 4.0,
        (true, false, _) => 3.0,
        (false, true, _) | (false, false, true) => 2.0,
        (false, false, false) => 1.0,
    }
}

fn solution(reply: &Labels) -> f64 {
    use Strategy::*;
    if !has(reply, &[Advice]) {
        return 1.0;
    }
    let fitted = has(reply, &[NameFeeling, RestateProblem, InferNeed]);
    let grounded = has(reply, &[ProblemAnalysis, BothSides, AnalyseOthers]);
    match (grounded, fitted) {
        (_, true) => 4.0,
        (true, false) => 3.0,
        (false, false) => 2.0,
    }
}

fn guidance(replies: &[Labels]) -> f64 {
    use Strategy::*;
    let asks = replies.iter().any(|r| has(r, &[Question, GuideReflection, HelpVent]));
    if !asks {
        return 1.0;
    }
    // First hearing the person out, then turning to the matter: two phases.
    let half = replies.len().div_ceil(2);
    let (early, late) = replies.split_at(half);
    let share = |part: &[Labels], solving: bool| {
        let groups = part.iter().flat_map(|r| &r.strategies).filter_map(|s| leans(*s));
        let (mut hits, mut all) = (0, 0);
        for leaning in groups {
            hits += usize::from((leaning < 0.0) == solving);
            all += 1;
        }
        hits as f64 / f64::from(all.max(1))
    };
    let phased = !late.is_empty() && share(early, false) > share(late, false) && share(late, true) > 0.0;
    let reflects = replies.iter().any(|r| has(r, &[GuideReflection]));
    match (phased, reflects) {
        (true, true) => 4.0,
        (true, false) | (false, true) => 3.0,
        (false, false) => 2.0,
    }
}

fn style(replies: &[Labels]) -> f64 {
    let formula = replies.iter().filter(|r| has(r, &[Strategy::Boilerplate])).count();
    if 2 * formula > replies.len() {
        return 1.0;
    }
    let repeats = repetition_rate([strategies(replies).as_slice()]).unwrap_or(1.0);
    2.0 + if repeats < 0.6 { 1.0 } else { 0.0 } + if repeats < 0.3 { 1.0 } else { 0.0 }
}

fn strategies(replies: &[Labels]) -> Vec<Vec<Strategy>> {
    replies.iter().map(|r| r.strategies.clone()).collect()
}

/// 1 for strategies of feeling with somebody, −1 for those of solving, `None` for the rest.
fn leans(strategy: Strategy) -> Option<f64> {
    match (rlver_group(strategy), strategy) {
        (Some(RlverGroup::Advice | RlverGroup::ProblemAnalysis), _) => Some(-1.0),
        (Some(_), _) => Some(1.0),
        (None, Strategy::NameFeeling | Strategy::Comfort | Strategy::Exonerate) => Some(1.0),
        (None, Strategy::BothSides | Strategy::AnalyseOthers | Strategy::GuideReflection) => Some(-1.0),
        _ => None,
    }
}

/// Estimates a policy's Social Cognition Coordinate from the labels of its dialogues (one list of replies each):
/// y is 5 times the balance of feeling-with over solving among recognised strategies; x is 5 times how little adjacent
/// replies repeat each other's strategies against how much. `None` when nothing was recognised.
pub fn estimate_coordinate(dialogues: &[Vec<Labels>]) -> Option<Coordinate> {
    let leanings: Vec<f64> = dialogues.iter().flatten().flat_map(|r| &r.strategies).filter_map(|s| leans(*s)).collect();
    let sequences: Vec<Vec<Vec<Strategy>>> = dialogues.iter().map(|d| strategies(d)).collect();
    let repeats = repetition_rate(sequences.iter().map(Vec::as_slice))?;
    if leanings.is_empty() {
        return None;
    }
    let balance = leanings.iter().sum::<f64>() / leanings.len() as f64;
    Some(Coordinate { x: 5.0 * (1.0 - 2.0 * repeats), y: 5.0 * balance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Strategy::*;

    fn replies(all: &[&[Strategy]]) -> Vec<Labels> {
        all.iter().map(|s| Labels { strategies: s.to_vec(), sage: Vec::new() }).collect()
    }

    #[test]
    fn a_bare_acknowledgement_scores_lowest_and_a_full_reply_higher() {
        let low = estimate(&replies(&[&[], &[]])).unwrap();
        assert_eq!(low.0[..4], [1.0; 4]);
        let high = estimate(&replies(&[
            &[NameFeeling, RestateProblem, InferNeed, Question],
            &[ProblemAnalysis, GuideReflection, Advice, NameFeeling],
        ]))
        .unwrap();
        assert!(high.0.iter().zip(low.0).all(|(h, l)| *h >= l), "{high:?}");
        assert!(high.0.iter().all(|s| (1.0..=4.0).contains(s)), "{high:?}");
        assert_eq!(high.get(super::super::Capability::DialogueGuidance), 4.0);
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn the_coordinate_follows_leaning_and_repetition() {
        let warm = estimate_coordinate(&[replies(&[&[NameFeeling], &[PraiseActions]])]).unwrap();
        assert_eq!(warm, Coordinate { x: 5.0, y: 5.0 });
        let dry = estimate_coordinate(&[replies(&[&[Advice], &[Advice]])]).unwrap();
        assert_eq!(dry, Coordinate { x: -5.0, y: -5.0 });
        assert_eq!(estimate_coordinate(&[replies(&[&[], &[]])]), None);
    }
}
