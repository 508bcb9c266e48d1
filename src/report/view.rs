use serde_json::{Map, Value, json};

use super::digest::Ending;
use super::run::TokenText;
use crate::evaluate::labels;
use crate::evaluate::strategy::{BuiltinLabeller, Labels};
use crate::rollout::{Episode, Segment};
use crate::train::Stage;
use crate::user::UserTurn;

/// A dialogue as the page reads it. Keys are short, as there are many: the page's script names them.
pub(super) fn dialogue(id: &str, run: usize, stage: Stage, episode: &Episode, tokens: Option<&TokenText>) -> Value {
    let labels: Vec<Labels> = labels(episode, &BuiltinLabeller).map(Result::unwrap_or_default).collect();
    let turns: Vec<Value> = episode
        .turns
        .iter()
        .enumerate()
        .map(|(t, turn)| {
            let mut value = Map::new();
            if let Some(thought) = &turn.thought {
                value.insert("th".into(), json!(thought));
            }
            value.insert("re".into(), json!(turn.reply));
            if !turn.well_formed {
                value.insert("bad".into(), json!(true));
            }
            let mut strategies = labels[t].strategies.clone();
            strategies.sort_unstable();
            strategies.dedup();
            value.insert("st".into(), json!(strategies));
            if let Some(user) = &turn.user {
                value.insert("u".into(), answer(user));
            }
            let sampled = episode.rows.iter().flat_map(|r| &r.segments).find(|s| s.is_action() && s.turn == t);
            if let Some(segment) = sampled {
                value.insert("tk".into(), token_numbers(segment, tokens));
            }
            value.into()
        })
        .collect();
    json!({
        "id": id,
        "run": run,
        "stage": stage.label(),
        "step": match stage { Stage::Step(s) | Stage::Evaluation(s) => json!(s), _ => Value::Null },
        "ev": stage.is_evaluation(),
        "profile": episode.profile,
        "intention": episode.intention,
        "character": episode.character,
        "lang": episode.language,
        "user": episode.user,
        "end": Ending::of(episode).name(),
        "why": match &episode.end {
            crate::rollout::EndReason::Unscored(why) => json!(why),
            _ => Value::Null,
        },
        "e0": episode.start_emotion,
        "e1": episode.final_emotion,
        "counted": episode.counted_emotion(),
        "reward": episode.reward,
        "mode": episode.mode,
        "system": episode.system,
        "opening": episode.opening,
        "turns": turns,
    })
}

fn answer(user: &UserTurn) -> Value {
    let a = &user.appraisal;
    let mut value = json!({
        "say": user.line,
        "b": user.before,
        "a": user.after,
        "ap": [a.content, a.fit, a.activity, a.feeling, a.change],
    });
    if user.farewell {
        value["bye"] = json!(true);
    }
    if let Some(guard) = &user.guard {
        value["guard"] = json!(guard);
    }
    value
}

/// Ids, texts, log-probabilities, and what training added: ratios, advantages, values.
fn token_numbers(segment: &Segment, tokens: Option<&TokenText>) -> Value {
    let mut value = Map::new();
    value.insert("id".into(), json!(segment.ids));
    if let Some(text) = tokens {
        value.insert("tx".into(), json!(text(&segment.ids)));
    }
    for (key, numbers) in
        [("lp", &segment.logprobs), ("ra", &segment.ratios), ("ad", &segment.advantages), ("va", &segment.values)]
    {
        if !numbers.is_empty() {
            value.insert(key.into(), numbers.iter().map(|x| short(*x)).collect());
        }
    }
    value.into()
}

/// Four significant digits are enough to read; `null` for what is no number.
fn short(x: f32) -> Value {
    let x = f64::from(x);
    if !x.is_finite() {
        return Value::Null;
    }
    let places = if x == 0.0 { 0 } else { (3 - x.abs().log10().floor() as i32).clamp(0, 6) };
    let scale = 10f64.powi(places);
    json!((x * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_break_the_json() {
        assert_eq!(short(-0.123_456).to_string(), "-0.1235");
        assert_eq!(short(12.345_6).to_string(), "12.35");
        assert_eq!(short(0.0).to_string(), "0.0");
        assert_eq!(short(1e-9).to_string(), "0.0");
        assert_eq!(short(f32::NAN), Value::Null);
        assert_eq!(short(f32::NEG_INFINITY), Value::Null);
    }
}
