use rlver_models::qwen2::Qwen2Config;
use rlver_models::tokenizer::ChatFormat;
use serde::Serialize;

use crate::Error;
use crate::dialogue::think::ReplyMode;
use crate::dialogue::{ProfileSet, prompt};
use crate::recipe::{Algorithm, Recipe};
use crate::train::{load_profiles, load_tokenizer};
use crate::user::builtin::BuiltinUser;
use crate::user::{Emotion, SessionSettings, UserEngine};

/// People that are listened to, to learn how long their lines are.
const LISTENED_TO: usize = 24;

/// How many tokens dialogues have, at most.
#[derive(Debug, Clone, Serialize)]
pub struct DialogueSize {
    /// Tokens of the system prompt with its template.
    pub system_tokens: usize,
    /// Tokens of a user's line with the template around it, on average.
    pub user_tokens: usize,
    /// Tokens of a reply.
    pub reply_tokens: usize,
    /// Rows a step trains on.
    pub rows: usize,
    /// Tokens of the longest row.
    pub tokens_per_row: usize,
    /// Tokens of all rows of a step.
    pub tokens_per_step: u64,
    /// Tokens sampled in a step.
    pub sampled_per_step: u64,
    /// Tokens in the largest forward and backward pass.
    pub micro_batch: usize,
    /// Forward and backward passes per optimizer step.
    pub micro_batches: usize,
    /// Ids that can be sampled.
    pub vocabulary: usize,
}

impl DialogueSize {
    pub(super) fn of(recipe: &Recipe, policy: &Qwen2Config) -> Result<DialogueSize, Error> {
        if recipe.run.algorithm == Algorithm::Sft {
            return Ok(DialogueSize::supervised(recipe));
        }
        let tokenizer = load_tokenizer(&recipe.model.policy)?;
        let chat = ChatFormat::probe(&tokenizer)?;
        let mode = recipe.rollout.mode;
        let languages = &recipe.user.languages;
        // Two template tokens and a line feed around a message, as around a user's.
        let around = chat.continuation_ids("").len();
        let system = |l: &_| tokenizer.encode(prompt::system(mode, *l)).len() + around;
        let system_tokens = languages.iter().map(system).max().unwrap_or(around);
        let profiles = load_profiles(&recipe.user.profiles, ProfileSet::builtin_train)?;
        let lines = lines(&profiles, recipe);
        let tokens: usize = lines.iter().map(|line| chat.continuation_ids(line).len()).sum();
        let user_tokens = tokens.div_ceil(lines.len().max(1));
        let r = &recipe.rollout;
        let turn = user_tokens + r.max_new_tokens;
        let limit = r.max_context.min(policy.max_position_embeddings);
        let dialogues = r.dialogues * r.n;
        // In think mode every turn is a row of its own, with the replies before it but not their thoughts; how much of
        // a reply is thought is not known, so all of it counts.
        let row = |turns: usize| (system_tokens + turns * turn).min(limit);
        let per_dialogue: Vec<usize> = match mode {
            ReplyMode::Direct => vec![row(r.max_turns)],
            ReplyMode::Think => (1..=r.max_turns).map(row).collect(),
        };
        let tokens_per_row = row(r.max_turns);
        let fitting = (limit.saturating_sub(system_tokens) / turn.max(1)).clamp(1, r.max_turns);
        let tokens_per_dialogue: usize = per_dialogue.iter().sum();
        let o = &recipe.objective;
        let together = if o.mini_batch == 0 { dialogues } else { o.mini_batch.min(dialogues) };
        let rows_together = together * per_dialogue.len();
        let most = (o.micro_batch_tokens / tokens_per_row.max(1)).max(1).min(rows_together);
        Ok(DialogueSize {
            system_tokens,
            user_tokens,
            reply_tokens: r.max_new_tokens,
            rows: dialogues * per_dialogue.len(),
            tokens_per_row,
            tokens_per_step: (dialogues * tokens_per_dialogue) as u64,
            sampled_per_step: (dialogues * fitting * r.max_new_tokens) as u64,
            micro_batch: (most * tokens_per_row).min(together * tokens_per_dialogue),
            micro_batches: rows_together.div_ceil(most),
            vocabulary: tokenizer.vocab_size(),
        })
    }

    fn supervised(recipe: &Recipe) -> DialogueSize {
        let tokens = recipe.sft.batch_tokens;
        DialogueSize {
            system_tokens: 0,
            user_tokens: 0,
            reply_tokens: 0,
            rows: 1,
            tokens_per_row: tokens,
            tokens_per_step: tokens as u64,
            sampled_per_step: 0,
            micro_batch: tokens.min(recipe.objective.micro_batch_tokens),
            micro_batches: tokens.div_ceil(recipe.objective.micro_batch_tokens),
            vocabulary: recipe.sft.vocab_size,
        }
    }

    /// Action tokens among the tokens of rows: replies, not what users and templates say.
    pub fn action_share(&self) -> f64 {
        self.reply_tokens as f64 / (self.reply_tokens + self.user_tokens).max(1) as f64
    }
}

/// What built-in people say over a dialogue; users played by a model are taken to talk as much.
fn lines(profiles: &ProfileSet, recipe: &Recipe) -> Vec<String> {
    let users = BuiltinUser::new();
    let start = Emotion::new(90).expect("an emotion");
    let chosen = profiles.iter().filter(|p| recipe.user.languages.contains(&p.language()));
    let mut lines = Vec::new();
    for (seed, profile) in chosen.take(LISTENED_TO).enumerate() {
        let mut session = users.open(profile.clone(), SessionSettings { start, seed: seed as u64 });
        lines.extend(session.opening());
        for _ in 1..recipe.rollout.max_turns {
            match session.respond("我在听。 I am listening.") {
                Ok(turn) if !turn.farewell => lines.push(turn.line),
                _ => break,
            }
        }
    }
    lines
}
