use std::collections::{HashMap, VecDeque};

use rlver_models::generate::{Engine, Finish, RowId, Sampler, SamplingSettings};
use rlver_models::tokenizer::ChatMessage;

use crate::Error;
use crate::rollout::Policy;
use crate::seed;

/// The instruction that single questions are asked under; it leaves the policy's role open.
pub const NEUTRAL_SYSTEM: &str = "You are a helpful assistant.";

/// How single questions are answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerSettings {
    /// How tokens are chosen.
    pub sampling: SamplingSettings,
    /// Most tokens per answer.
    pub max_new_tokens: usize,
    /// Seed of the sampling.
    pub seed: u64,
}

/// Asks every question on its own, under [`NEUTRAL_SYSTEM`], several at once. A question longer than the engine's context gets
/// an empty answer. `progress` hears how many are done.
///
/// # Errors
/// When the policy cannot be run.
pub fn answer_questions(
    policy: &Policy,
    engine: &mut Engine,
    questions: &[&str],
    settings: AnswerSettings,
    mut progress: impl FnMut(usize),
) -> Result<Vec<String>, Error> {
    let stop = policy.stop_ids();
    let mut answers = vec![String::new(); questions.len()];
    let mut waiting: VecDeque<usize> = (0..questions.len()).collect();
    let mut active: HashMap<RowId, (usize, Vec<u32>)> = HashMap::new();
    let mut done = 0;
    while !waiting.is_empty() || !active.is_empty() {
        while !waiting.is_empty()
            && let Some(row) = engine.open()
        {
            let question = waiting.pop_front().expect("checked above");
            let messages = [ChatMessage::system(NEUTRAL_SYSTEM), ChatMessage::user(questions[question])];
            let prompt = policy.chat.prompt_ids(&messages)?;
            if prompt.len() >= engine.capacity() {
                engine.close(row);
                done += 1;
                continue;
            }
            let sampler = Sampler::new(settings.sampling, seed::mix(&[settings.seed, question as u64]));
            engine.set_prompt(row, prompt);
            engine.start_turn(row, sampler, settings.max_new_tokens, &stop);
            active.insert(row, (question, Vec::new()));
        }
        if active.is_empty() {
            continue;
        }
        for sampled in engine.step()? {
            let (_, ids) = active.get_mut(&sampled.row).expect("every sampling row has a question");
            if sampled.finish != Some(Finish::Stop) {
                ids.push(sampled.id);
            }
            if sampled.finish.is_some() {
                let (question, ids) = active.remove(&sampled.row).expect("looked up above");
                answers[question] = policy.tokenizer.decode(&ids, true).trim().to_string();
                engine.close(sampled.row);
                done += 1;
            }
        }
        progress(done);
    }
    Ok(answers)
}
