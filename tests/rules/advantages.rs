//! Rule 3: GAE sees action tokens only. Rule 5: groups are compared per dialogue.

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{CharacterType, HiddenIntention, Language, Role};
use rlver::objective::{AdvantageEstimator, gae};
use rlver::recipe::{ObjectiveSection, Recipe};
use rlver::rollout::{EndReason, Episode, Segment, TokenRow};
use rlver::train::{AdvantageInputs, Advantages, TrainRow, compute_advantages};
use rlver::user::Emotion;

/// A segment of `n` tokens; those of the assistant were sampled.
pub(super) fn segment(role: Role, n: usize) -> Segment {
    let logprobs = if role == Role::Assistant { vec![-1.0; n] } else { vec![] };
    Segment { role, turn: 0, ids: (0..n as u32).collect(), logprobs, ..Segment::default() }
}

pub(crate) fn episode(dialogue: u64, group: u64, reward: Option<f64>, rows: Vec<Vec<Segment>>) -> Episode {
    Episode {
        dialogue,
        group,
        profile: "p".into(),
        intention: HiddenIntention::Advice,
        character: CharacterType::Passive,
        language: Language::En,
        user: "test".into(),
        user_seed: 0,
        sampling_seed: 0,
        mode: ReplyMode::Direct,
        system: String::new(),
        opening: String::new(),
        opening_calls: vec![],
        turns: vec![],
        start_emotion: Emotion::new(30).unwrap(),
        final_emotion: Emotion::new(50).unwrap(),
        end: EndReason::TurnLimit,
        reward,
        rows: rows.into_iter().map(|segments| TokenRow { segments }).collect(),
    }
}

fn objective(advantage: AdvantageEstimator) -> ObjectiveSection {
    ObjectiveSection { advantage, gamma: 0.9, lambda: 0.8, ..Recipe::default().objective }
}

fn advantages(episodes: &[Episode], values: Option<&[Vec<f32>]>, objective: &ObjectiveSection) -> Advantages {
    let rows = TrainRow::from_episodes(episodes);
    let old: Vec<Vec<f32>> = rows.iter().map(|r| r.rollout_logprobs.clone()).collect();
    let inputs = AdvantageInputs { episodes, rows: &rows, old_logprobs: &old, values, ..AdvantageInputs::default() };
    compute_advantages(&inputs, objective).unwrap()
}

/// Two dialogues whose user turns are `user` tokens long, the second with a user turn behind its last action.
fn dialogues(user: usize) -> Vec<Episode> {
    use Role::{Assistant, System, User};
    let first = vec![segment(System, 3), segment(Assistant, 2), segment(User, user), segment(Assistant, 3)];
    let mut second = vec![segment(System, 5), segment(Assistant, 4)];
    if user > 0 {
        second.push(segment(User, user));
    }
    vec![episode(0, 0, Some(0.7), vec![first]), episode(1, 1, Some(0.2), vec![second])]
}

#[test]
fn rule_3_user_tokens_never_change_advantages() {
    let values = [vec![0.1, 0.4, -0.3, 0.2, 0.6], vec![0.3, 0.1, 0.0, 0.5]];
    for advantage in [AdvantageEstimator::Gae, AdvantageEstimator::ReinforcePlusPlus] {
        for whiten in [false, true] {
            let objective = ObjectiveSection { whiten, ..objective(advantage) };
            let none = advantages(&dialogues(0), Some(&values), &objective);
            for user in [1, 2, 40] {
                assert_eq!(advantages(&dialogues(user), Some(&values), &objective), none, "{advantage:?} {user}");
            }
        }
    }
}

#[test]
fn rule_3_the_reward_sits_on_the_last_action_and_the_recursion_skips_users() {
    let values = [vec![0.1, 0.4, -0.3, 0.2, 0.6], vec![0.3, 0.1, 0.0, 0.5]];
    let objective = ObjectiveSection { whiten: false, ..objective(AdvantageEstimator::Gae) };
    let ours = advantages(&dialogues(3), Some(&values), &objective);
    // By hand, last token first: δ = 0.7 − 0.6, then 0.9·0.6 − 0.2 + 0.72·A …
    let mut expected = vec![0.7 - f64::from(0.6f32)];
    for t in [3usize, 2, 1, 0] {
        let (v, next) = (f64::from(values[0][t]), f64::from(values[0][t + 1]));
        expected.insert(0, 0.9 * next - v + 0.9 * 0.8 * expected[0]);
    }
    for (a, b) in ours.advantages[0].iter().zip(&expected) {
        assert!((a - b).abs() < 1e-12, "{:?} {expected:?}", ours.advantages[0]);
    }
    // The masked form on the whole row says the same, whatever stands at user tokens.
    let mask = [false, false, true, true, false, true, true, true];
    let spread = |at: &[f32]| {
        let mut next = at.iter();
        mask.map(|action| if action { f64::from(*next.next().unwrap()) } else { f64::NAN })
    };
    let mut rewards = mask.map(|action| if action { 0.0 } else { f64::NAN });
    rewards[7] = 0.7;
    let masked = gae(&rewards, &spread(&values[0]), &mask, 0.9, 0.8).unwrap();
    let actions: Vec<f64> = masked.advantages.iter().zip(mask).filter(|(_, m)| *m).map(|(a, _)| *a).collect();
    assert_eq!(actions, ours.advantages[0]);
}

/// A dialogue of `rows` think-mode rows of `tokens` action tokens each.
fn thinking(dialogue: u64, group: u64, reward: Option<f64>, rows: usize, tokens: usize) -> Episode {
    let row = || vec![segment(Role::User, 4), segment(Role::Assistant, tokens)];
    episode(dialogue, group, reward, (0..rows).map(|_| row()).collect())
}

const GROUPED: [AdvantageEstimator; 4] = [
    AdvantageEstimator::Grpo,
    AdvantageEstimator::DrGrpo,
    AdvantageEstimator::Rloo,
    AdvantageEstimator::ReinforcePlusPlusBaseline,
];

#[test]
fn rule_5_a_dialogue_counts_once_however_many_rows_it_has() {
    for advantage in [AdvantageEstimator::Grpo, AdvantageEstimator::DrGrpo, AdvantageEstimator::Rloo] {
        let reward = [0.2, 0.5, 0.9];
        let short: Vec<Episode> = (0..3).map(|i| thinking(i, 0, Some(reward[i as usize]), 1, 2)).collect();
        let long: Vec<Episode> =
            (0..3).map(|i| thinking(i, 0, Some(reward[i as usize]), 1 + 3 * i as usize, 2)).collect();
        let (short, long) =
            (advantages(&short, None, &objective(advantage)), advantages(&long, None, &objective(advantage)));
        let first_rows = [0, 1, 5];
        for (i, row) in first_rows.into_iter().enumerate() {
            assert_eq!(long.advantages[row], short.advantages[i], "{advantage:?}");
        }
        assert!(short.advantages[0][0] < 0.0 && short.advantages[2][0] > 0.0);
    }
}

#[test]
fn rule_5_groups_that_compare_nothing_get_zero() {
    for advantage in GROUPED {
        let episodes = [
            thinking(0, 0, Some(0.8), 2, 3), // alone
            thinking(1, 1, Some(0.5), 1, 2), // equal rewards
            thinking(2, 1, Some(0.5 + 5e-7), 1, 4),
            thinking(3, 2, Some(0.1), 2, 2), // a real group
            thinking(4, 2, Some(0.9), 1, 5),
            thinking(5, 3, Some(0.4), 1, 2), // its partner has no score
            thinking(6, 3, None, 1, 2),
        ];
        let found = advantages(&episodes, None, &objective(advantage));
        assert_eq!(found.uninformative_groups, 3, "{advantage:?}");
        assert_eq!(found.advantages.len(), 8, "the unscored dialogue has no row");
        for row in [0, 1, 2, 3, 7] {
            assert!(found.advantages[row].iter().all(|a| *a == 0.0), "{advantage:?} {:?}", found.advantages);
        }
        assert!(found.advantages[4][0] < 0.0 && found.advantages[6][0] > 0.0);
    }
}
