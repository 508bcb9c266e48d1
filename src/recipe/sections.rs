//! The keys of a recipe. Each is documented where it is defined; `rlver recipe explain` prints this file's contents.

use crate::dialogue::Language;
use crate::dialogue::think::ReplyMode;
use crate::objective::{
    AdvantageEstimator, Aggregation, CispoBounds, CorrectionMode, KlClamp, KlEstimator, LrDecay, PolicyLossKind,
    StdConvention, TurnCredit,
};
use crate::user::llm::engine::ResponseFormat;
use crate::user::llm::prompt::Variant;

use super::choices::{
    Algorithm, CurriculumChoice, EmotionModelChoice, Environment, KernelChoice, KlControl, KlUse, LogprobSource,
    RewardPlacement, RolloutIs, RolloutWeights, SavedType, TurnBaseline,
};
use super::section::section;

section! {
    /// What is run, where and how long.
    RunSection {
        /// What the recipe does: `ppo` (with a critic), `grpo` (group baselines, no critic) or `sft` (supervised warm start).
        algorithm: Algorithm = Algorithm::Ppo,
        /// Seed of everything random. The same recipe, seed and device give the same bytes.
        seed: u64 = 1,
        /// Number of training steps (rollout and update; for `sft`, optimizer steps).
        steps: usize = 60,
        /// Folder that run folders are made in; the run's own folder is named after the recipe file unless `--out` says otherwise.
        out: String = "runs".into(),
        /// Where to compute: `flex` (CPU), and with the cargo feature of that name `cuda`, `cuda:1`, `vulkan`, `wgpu`, `cpu`.
        device: String = "flex".into(),
        /// `fused` uses our kernels, `reference` plain Burn operations everywhere (a debugging aid).
        kernels: KernelChoice = KernelChoice::Fused,
    }
}

section! {
    /// The policy and the critic.
    ModelSection {
        /// The starting policy: `builtin:pico`, a checkpoint folder, or a Hugging Face id such as `Qwen/Qwen2.5-0.5B-Instruct`.
        policy: String = "builtin:pico".into(),
        /// Branch, tag or commit of a Hugging Face id; empty means its main branch.
        revision: String = String::new(),
        /// The checkpoint the critic starts from; empty means the policy's. A value head is added if it has none.
        critic: String = String::new(),
        /// Type that final checkpoints are written in: `f32` or `bf16`. Resumable checkpoints are always `f32`.
        save_dtype: SavedType = SavedType::F32,
    }
}

section! {
    /// Whom the policy talks with.
    UserSection {
        /// The simulated user: `builtin`, `llm` (a language model, see `[llm]`), or `replay:RUN` (the recorded users of a run). `docs/users.md` says which to choose.
        engine: String = "builtin".into(),
        /// How hard the built-in people are to please: `vanilla`, or `challenging` (RLVER's second environment), where every rise of the emotion counts five points less. Evaluation is always `vanilla`.
        environment: Environment = Environment::Vanilla,
        /// How the built-in user's emotion moves: `rules` (hand-made, the default) or `calibrated` (fitted to recorded
        /// judgements of a language model; see `rlver user fit`).
        model: EmotionModelChoice = EmotionModelChoice::Rules,
        /// Training profiles: `builtin`, or a JSONL file in the published RLVER format.
        profiles: String = "builtin".into(),
        /// Languages to train on; profiles in others are left out.
        languages: Vec<Language> = Language::ALL.to_vec(),
        /// Emotion a dialogue starts with (RLVER's released training simulator: 30).
        start_emotion: u8 = 30,
        /// Largest share of dialogues of a step whose user may fail before the run stops.
        max_unscored: f64 = 0.2,
    }
}

section! {
    /// The language model that plays users with `user.engine = "llm"`.
    LlmSection {
        /// Base address of a server that speaks OpenAI's chat-completions protocol, such as `http://127.0.0.1:8000/v1`; empty runs `llm.model` in this process.
        url: String = String::new(),
        /// The server's name for the model; without a server a checkpoint, as in `model.policy`.
        model: String = String::new(),
        /// Environment variable that holds the server's key; empty sends none. The key itself is never written anywhere.
        key_env: String = String::new(),
        /// `vanilla` takes a step in the right direction as one; `challenging` counts only what meets the hidden intention, and lets nothing on.
        variant: Variant = Variant::Vanilla,
        /// Sampling temperature.
        temperature: f64 = 0.5,
        /// Keep the smallest set of tokens of this probability; 1 keeps all.
        top_p: f64 = 1.0,
        /// Most tokens of one answer.
        max_tokens: usize = 512,
        /// Most tokens of a conversation with a model in this process.
        max_context: usize = 4096,
        /// Most requests at once; for a model in this process, conversations side by side.
        concurrency: usize = 32,
        /// Longest time to connect, in seconds.
        connect_timeout_s: f64 = 10.0,
        /// Longest time for one attempt, in seconds, from connecting to the last byte.
        timeout_s: f64 = 120.0,
        /// Attempts beyond the first when the server fails or asks for patience; the wait between them doubles from half a second to a minute.
        retries: usize = 5,
        /// How often a question is asked when its answer cannot be read; after that the user has failed.
        asks: usize = 3,
        /// How JSON is asked for: `json_schema`, `json_object`, `text`, or `auto`, which tries them in this order.
        response_format: ResponseFormat = ResponseFormat::Auto,
        /// Price of a million prompt tokens, for the cost report.
        price_prompt: f64 = 0.0,
        /// Price of a million completion tokens, for the cost report.
        price_completion: f64 = 0.0,
    }
}

section! {
    /// How dialogues are generated.
    RolloutSection {
        /// Dialogues per step that differ in profile (verl: `train_batch_size`).
        dialogues: usize = 32,
        /// Dialogues per profile and step (verl: `rollout.n`); group baselines need at least 2.
        n: usize = 1,
        /// Most replies per dialogue.
        max_turns: usize = 8,
        /// `direct` (reply only; one training row a dialogue) or `think` (thoughts, then reply; one row a turn).
        mode: ReplyMode = ReplyMode::Direct,
        /// Sampling temperature; log-probabilities are taken at this temperature everywhere.
        temperature: f64 = 1.0,
        /// Keep the k most likely tokens; 0 keeps all.
        top_k: usize = 0,
        /// Keep the smallest set of tokens of this probability; 1 keeps all.
        top_p: f64 = 1.0,
        /// Keep tokens at least this fraction as likely as the likeliest; 0 keeps all.
        min_p: f64 = 0.0,
        /// Most tokens per reply, thoughts included.
        max_new_tokens: usize = 64,
        /// Most tokens per dialogue; a dialogue that reaches it ends as truncated and keeps its reward.
        max_context: usize = 1024,
        /// Dialogues generated side by side; finished ones make room for waiting ones.
        batch: usize = 64,
        /// Weights that generate on `flex`: `f32`, whose log-probabilities are the trainer's to the bit, or `bf16`: large networks decode almost twice as fast, and `rollout/logprob_gap` says how far log-probabilities are off (`objective.rollout_is` corrects for it). Other devices know `f32` only.
        weights: RolloutWeights = RolloutWeights::F32,
    }
}

section! {
    /// What is optimised. `docs/objectives.md` has the formula and source of every choice.
    ObjectiveSection {
        /// Advantage estimator. With a critic (`algorithm = "ppo"`): `gae`, `gae-rlver`. Without: `grpo`, `dr_grpo`, `rloo`, `reinforce_plus_plus_baseline` compare the dialogues of a group; `reinforce_plus_plus` and `remax` (against a greedy dialogue) need no group; `turn-rloo` and `distance-potential` judge every turn.
        advantage: AdvantageEstimator = AdvantageEstimator::Gae,
        /// Where a dialogue's reward goes: `terminal` (RLVER), or `emotion-potential`: each turn's emotion change on that turn. For `gae`, `gae-rlver` and `reinforce_plus_plus`; the others place it themselves.
        reward: RewardPlacement = RewardPlacement::Terminal,
        /// Discount γ per action token.
        gamma: f64 = 1.0,
        /// Discount from one turn to the next, for `gae` (beside γ), `turn-rloo` and `distance-potential`; 1 leaves turns alone.
        turn_gamma: f64 = 1.0,
        /// Whom `turn-rloo` judges a turn against: `step` (all other dialogues of the step), `intention` (those with the same hidden intention and language) or `group` (those with the same profile).
        turn_baseline: TurnBaseline = TurnBaseline::Step,
        /// Share of the immediate decrease in `distance-potential`; the rest goes to the return.
        immediate: f64 = 0.5,
        /// Credit per turn on top of a group estimator: `none`, or `turn-centred` (CTC-GRPO).
        turn_credit: TurnCredit = TurnCredit::None,
        /// `turn-centred` adds this times the turn's reward minus the dialogue's mean turn reward (rewards on the 0–1 scale).
        turn_alpha: f64 = 1.0,
        /// GAE's λ.
        lambda: f64 = 1.0,
        /// Whether advantages are whitened over the step: `gae`'s over its action tokens, `turn-rloo`'s over its turns.
        whiten: bool = true,
        /// Standard deviation of group advantages: `verl` (ε 1e-6), `trl` (ε 1e-4) or `trl-batch`.
        std_convention: StdConvention = StdConvention::Verl,
        /// `grpo` divides by at least this standard deviation.
        std_floor: f64 = 0.0,
        /// Policy loss: `clip` (PPO), `gspo` (one ratio per row) or `cispo`.
        policy_loss: PolicyLossKind = PolicyLossKind::Clip,
        /// The probability ratio is clipped below at 1 − this.
        clip_low: f64 = 0.2,
        /// The probability ratio is clipped above at 1 + this.
        clip_high: f64 = 0.2,
        /// What the clip range means to `cispo`: `verl` (1 − low, 1 + high) or `trl` (0, high).
        cispo_bounds: CispoBounds = CispoBounds::Verl,
        /// Dual clip: bound of the loss for negative advantages, as a multiple of −A; 0 turns it off.
        dual_clip: f64 = 3.0,
        /// Values move at most this far from the old ones in the value loss; 0 turns it off.
        value_clip: f64 = 0.5,
        /// How token losses are averaged: `token-mean`, `seq-mean-token-sum`, `seq-mean-token-mean`, `seq-mean-token-sum-norm`, `dialogue-mean`.
        aggregation: Aggregation = Aggregation::TokenMean,
        /// Coefficient of the entropy bonus.
        entropy_coef: f64 = 0.001,
        /// KL to the starting policy: `none`, `loss` or `reward`.
        kl: KlUse = KlUse::None,
        /// Estimator of the KL: `k1`, `k2`, `k3`, `abs`, or `k1+` and `k3+`, whose gradient is `k2`'s.
        kl_estimator: KlEstimator = KlEstimator::K3,
        /// Whether `k3` is bounded: `verl` (±20 before, ±10 after the exponential) or `none` (TRL).
        kl_clamp: KlClamp = KlClamp::Verl,
        /// Coefficient of the KL; with `kl_control = "adaptive"` the one it starts with.
        kl_coef: f64 = 0.001,
        /// `fixed`, or `adaptive`: the coefficient moves toward `kl_target`.
        kl_control: KlControl = KlControl::Fixed,
        /// KL per token that the adaptive coefficient holds.
        kl_target: f64 = 0.1,
        /// Rows over which the adaptive coefficient may change by its own size.
        kl_horizon: f64 = 10_000.0,
        /// Optimizer passes over each step's data.
        ppo_epochs: usize = 1,
        /// Dialogues per optimizer step; 0 means all of the step.
        mini_batch: usize = 0,
        /// Most tokens per forward and backward; changes memory, never gradients.
        micro_batch_tokens: usize = 8192,
        /// Old log-probabilities: `recompute` by the trainer, or `rollout` as sampled (saves a forward pass).
        old_logprobs: LogprobSource = LogprobSource::Recompute,
        /// Rollout importance correction: weights the policy loss by recomputed over sampled probability, per `token` or `sequence`; `none` turns it off.
        rollout_is: RolloutIs = RolloutIs::None,
        /// What happens to such a weight outside its bounds: `truncate` or `mask`.
        rollout_is_mode: CorrectionMode = CorrectionMode::Truncate,
        /// Its upper bound.
        rollout_is_threshold: f64 = 2.0,
        /// Its lower bound; 0 for none.
        rollout_is_threshold_lower: f64 = 0.0,
        /// DAPO's dynamic sampling: groups whose rewards are equal are left out, and others are sampled for them.
        dynamic_sampling: bool = false,
        /// Rounds of sampling that `dynamic_sampling` may spend on a step, the first included; then it trains on what there is.
        max_rounds: usize = 3,
        /// DAPO's overlong shaping: the last so many tokens before `rollout.max_new_tokens` cost a reply reward; 0 turns it off.
        overlong_buffer: usize = 0,
        /// What a reply of full length costs its dialogue, divided by the dialogue's number of replies.
        overlong_factor: f64 = 1.0,
        /// Whether dialogues cut off by the context length are left out of the loss (they still count in baselines).
        overlong_mask: bool = false,
        /// Steps in which only the critic learns.
        critic_warmup: usize = 0,
    }
}

section! {
    /// In which state people come to talk: how much they disclose, how agitated they are, how much they trust.
    CurriculumSection {
        /// `none`, or `dual-loop`: states are drawn where about half of the dialogues succeed (Dual-Loop Self-Evolution).
        controller: CurriculumChoice = CurriculumChoice::None,
        /// Final emotion from which a dialogue counts as passed.
        pass_emotion: u8 = 60,
        /// Weight of the exploration bonus for states that were rarely met.
        exploration: f64 = 0.3,
        /// Share of dialogues whose state is drawn uniformly.
        rehearsal: f64 = 0.2,
        /// Sharpness of the preference for states near a pass rate of one half.
        sharpness: f64 = 5.0,
        /// What a past dialogue counts one step later; the policy changes, so old outcomes fade.
        memory: f64 = 0.9,
    }
}

section! {
    /// AdamW (fp32 state, global-norm clipping) and its schedules.
    OptimizerSection {
        /// Peak learning rate of the policy.
        lr: f64 = 1e-6,
        /// Peak learning rate of the critic.
        critic_lr: f64 = 5e-6,
        /// Steps of linear warm-up, policy.
        warmup_steps: u64 = 0,
        /// Steps of linear warm-up, critic.
        critic_warmup_steps: u64 = 0,
        /// What follows the warm-up: `constant`, `linear`, `cosine`.
        decay: LrDecay = LrDecay::Constant,
        /// Floor of the decay, as a share of the peak.
        min_lr_ratio: f64 = 0.0,
        /// β₁ and β₂.
        betas: [f64; 2] = [0.9, 0.999],
        /// ε.
        eps: f64 = 1e-8,
        /// Decoupled weight decay.
        weight_decay: f64 = 0.01,
        /// Gradients are scaled down to this global norm.
        max_grad_norm: f64 = 1.0,
    }
}

section! {
    /// Evaluation on held-out profiles, before and after training and in between.
    EvalSection {
        /// Held-out profiles: `builtin`, or a JSONL file.
        profiles: String = "builtin".into(),
        /// Evaluate every so many steps; 0 means only before and after.
        every: usize = 0,
        /// Emotion a dialogue starts with (SAGE: 40).
        start_emotion: u8 = 40,
        /// Most replies per dialogue (SAGE: 10).
        max_turns: usize = 10,
        /// Sampling temperature; 0 is greedy.
        temperature: f64 = 1.0,
        /// Dialogues per profile, each with its own seed.
        seeds: usize = 1,
    }
}

section! {
    /// What is kept of a run.
    CheckpointSection {
        /// Write a resumable checkpoint every so many steps; 0 means only at the end and on Ctrl-C.
        every: usize = 20,
        /// Resumable checkpoints kept; older ones are deleted.
        keep: usize = 2,
        /// Write the episodes of every so many steps; 0 writes none.
        episodes_every: usize = 1,
    }
}

section! {
    /// The supervised warm start (`algorithm = "sft"`): a small policy from nothing.
    SftSection {
        /// Vocabulary of the tokenizer that is trained first.
        vocab_size: usize = 4096,
        /// Width of the residual stream.
        hidden_size: usize = 192,
        /// Width of the feed-forward.
        intermediate_size: usize = 512,
        /// Number of blocks.
        layers: usize = 4,
        /// Query heads.
        heads: usize = 6,
        /// Key/value heads.
        kv_heads: usize = 2,
        /// Longest sequence.
        max_positions: usize = 2048,
        /// Scripted dialogues written for the corpus.
        dialogues: usize = 4000,
        /// Share of dialogues in think-then-say form.
        think_share: f64 = 0.25,
        /// Tokens per optimizer step.
        batch_tokens: usize = 8192,
        /// Steps at the beginning that only exercise: saying back what was said, answering what a hint asks for.
        exercise_steps: usize = 0,
        /// Tokens of exercises per step, in those steps and as part of `batch_tokens` in the later ones.
        exercise_batch_tokens: usize = 2048,
        /// Weight of the user's tokens in the loss; the assistant's have weight 1.
        user_weight: f64 = 0.2,
    }
}
