//! Rule 6: the recipe's settings only, ids of the tokenizer only, and log-probabilities the trainer finds again.

use rlver::dialogue::think::ReplyMode;
use rlver::rollout::{Episode, Policy, RolloutSettings};
use rlver::train::{TrainRow, load_policy, score};
use rlver::user::builtin::BuiltinUser;
use rlver_models::generate::{Engine, Sampler, SamplingSettings};
use rlver_models::qwen2::Packed;

use crate::tiny;

fn hold(policy: &Policy, n: usize, temperature: f32, rows: usize) -> Vec<Episode> {
    tiny::roll_out(policy, &tiny::FICKLE, tiny::jobs(n), tiny::settings(ReplyMode::Direct, temperature), rows)
}

/// Index of the largest value.
fn argmax(values: &[f32]) -> usize {
    values.iter().enumerate().fold((0, f32::NEG_INFINITY), |b, (i, &v)| if v > b.1 { (i, v) } else { b }).0
}

fn next_logits(policy: &Policy, ids: &[u32]) -> Vec<f32> {
    let hidden = policy.model.forward(&Packed::new([ids])).unwrap();
    let n = hidden.dims()[0];
    policy.model.logits(hidden.narrow(0, n - 1, 1)).unwrap().into_data().try_into_vec().unwrap()
}

#[test]
fn rule_6_ids_beyond_the_tokenizer_are_never_sampled() {
    let policy = tiny::policy();
    let known = policy.vocabulary();
    assert_eq!(policy.model.config().vocab_size, known + tiny::EXTRA);
    for temperature in [0.0, 0.7, 1.0, 5.0] {
        for episode in hold(&policy, 6, temperature, 4) {
            let row = &episode.rows[0];
            let ids = row.ids();
            assert!(ids.iter().all(|id| (*id as usize) < known));
            let first = row.action_mask().iter().position(|a| *a).unwrap();
            assert!(argmax(&next_logits(&policy, &ids[..first])) >= known, "the head likes an unknown id best");
        }
    }
}

#[test]
fn rule_6_generation_config_is_ignored() {
    let home = tiny::Home::new();
    let load = || load_policy(home.path("policy").to_str().unwrap(), "", &burn::tensor::Device::flex()).unwrap();
    let plain = hold(&load(), 4, 1.0, 4);
    let settings = r#"{"do_sample": false, "temperature": 0.01, "top_k": 1, "top_p": 0.1, "min_p": 0.9,
        "repetition_penalty": 1.5, "max_new_tokens": 2, "bad_words_ids": [[5]], "suppress_tokens": [6, 7]}"#;
    std::fs::write(home.path("policy/generation_config.json"), settings).unwrap();
    assert_eq!(hold(&load(), 4, 1.0, 4), plain);
}

#[test]
fn rule_6_sampled_logprobs_are_what_the_trainer_recomputes() {
    let policy = tiny::policy();
    for temperature in [1.0, 0.7] {
        let alone = hold(&policy, 10, temperature, 1);
        let rows = TrainRow::from_episodes(&alone);
        let mut worst = 0f32;
        for micro in [1, 500, 1_000_000] {
            let scored = score(&policy.model, &rows, temperature, policy.vocabulary(), micro).unwrap();
            for (row, scored) in rows.iter().zip(&scored) {
                assert_eq!(scored.len(), row.rollout_logprobs.len());
                let gap = row.rollout_logprobs.iter().zip(scored).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                worst = worst.max(gap);
            }
        }
        println!("temperature {temperature}: largest gap {worst:.2e}");
        assert!(worst < 1e-5, "temperature {temperature}: {worst}");
        for side_by_side in [3, 10] {
            for (a, b) in alone.iter().zip(hold(&policy, 10, temperature, side_by_side)) {
                assert_eq!(a.rows[0].ids(), b.rows[0].ids(), "dialogue {} among {side_by_side}", a.dialogue);
                let gap = a.rows[0]
                    .logprobs()
                    .iter()
                    .zip(b.rows[0].logprobs())
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f32::max);
                assert!(gap < 1e-5, "{gap}");
            }
        }
    }
}

/// The bundled policy is sharper than a random one, and over thousands of tokens the largest gap shows what the median
/// hides. On Flex both sides add in the same order, so that nothing but the compiler's choice of instructions is left.
#[test]
fn rule_6_the_bundled_policy_gets_the_sampled_logprobs_back() {
    let policy = load_policy("builtin:pico", "", &burn::tensor::Device::flex()).unwrap();
    let settings = RolloutSettings { max_new_tokens: 60, ..tiny::settings(ReplyMode::Direct, 1.0) };
    let episodes = tiny::roll_out(&policy, &BuiltinUser::new(), tiny::jobs(24), settings, 7);
    let rows = TrainRow::from_episodes(&episodes);
    let scored = score(&policy.model, &rows, 1.0, policy.vocabulary(), 3000).unwrap();
    let gaps = rows.iter().flat_map(|r| &r.rollout_logprobs).zip(scored.iter().flatten()).map(|(a, b)| (a - b).abs());
    let (count, worst) = gaps.fold((0, 0f32), |(n, worst), gap| (n + 1, worst.max(gap)));
    println!("{count} tokens, largest gap {worst:.2e}");
    assert!(count > 2000 && worst < 1e-6, "{count} tokens, {worst}");
}

#[test]
fn rule_6_filters_do_not_touch_the_logprob() {
    let policy = tiny::policy();
    let mut settings = tiny::settings(ReplyMode::Direct, 0.9);
    settings.sampling = SamplingSettings { temperature: 0.9, top_k: 20, top_p: 0.8, min_p: 0.01 };
    let episodes = tiny::roll_out(&policy, &tiny::FICKLE, tiny::jobs(4), settings, 2);
    let rows = TrainRow::from_episodes(&episodes);
    let scored = score(&policy.model, &rows, 0.9, policy.vocabulary(), 800).unwrap();
    for (a, b) in rows.iter().flat_map(|r| &r.rollout_logprobs).zip(scored.iter().flatten()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    assert!(
        episodes.iter().all(|e| e.rows[0].segments.iter().filter(|s| s.is_action()).all(|s| s.filtered == s.ids.len()))
    );
}

#[test]
fn rule_6_greedy_with_cache_equals_greedy_without() {
    let policy = tiny::policy();
    let known = policy.vocabulary();
    let prompts = [(1..40).collect::<Vec<u32>>(), vec![300, 2], (50..350).collect(), vec![9]];
    let mut engine = Engine::new(&policy.model, known, 3, 400);
    let mut waiting = prompts.iter().rev();
    let mut open = Vec::new();
    let mut done = Vec::new();
    while done.len() < prompts.len() {
        while let Some(row) = engine.open() {
            let Some(prompt) = waiting.next() else {
                engine.close(row);
                break;
            };
            engine.set_prompt(row, prompt.clone());
            engine.start_turn(row, Sampler::new(SamplingSettings::GREEDY, 0), 20, &[]);
            open.push((row, prompt.len()));
        }
        let finished: Vec<_> = engine.step().unwrap().into_iter().filter(|s| s.finish.is_some()).collect();
        for sampled in finished {
            let at = open.iter().position(|(row, _)| *row == sampled.row).unwrap();
            let (row, prompt) = open.remove(at);
            done.push((engine.ids(row).to_vec(), prompt));
            engine.close(row);
        }
    }
    for (ids, prompt) in done {
        assert_eq!(ids.len(), prompt + 20);
        for end in prompt..ids.len() {
            assert_eq!(argmax(&next_logits(&policy, &ids[..end])[..known]), ids[end] as usize);
        }
    }
}
