use std::fmt::Write;

/// One documented metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name as written, `family/metric`.
    pub name: &'static str,
    /// Unit, or what a share is a share of.
    pub unit: &'static str,
    /// What the number says.
    pub meaning: &'static str,
}

const fn key(name: &'static str, unit: &'static str, meaning: &'static str) -> Key {
    Key { name, unit, meaning }
}

/// Every metric a run may write, in the order of `docs/metrics.md`.
///
/// A key may be followed by one more segment that narrows it to a group, as in `eval/emotion_mean/zh` or
/// `emotion/mean/praise`.
pub const KEYS: &[Key] = &[
    key("step", "count", "training step; step 0 is the policy as it was loaded"),
    key("emotion/mean", "points, 0–100", "mean final emotion of the step's scored dialogues"),
    key("emotion/success_rate", "share of dialogues", "scored dialogues that ended at 100"),
    key("emotion/failure_rate", "share of dialogues", "scored dialogues that ended below 10"),
    key(
        "emotion/guard_rate",
        "share of replies",
        "replies a guard of the simulated user caught (empty, gibberish, copied …)",
    ),
    key("reward/mean", "reward, 0–1", "mean reward of a dialogue: final emotion / 100, or 0 for a malformed one"),
    key("reward/std", "reward", "standard deviation of the rewards of the step"),
    key("reward/greedy_mean", "reward, 0–1", "mean reward of the greedy dialogues that ReMax compares with"),
    key("policy/loss", "nats", "policy objective with its KL and entropy terms, mean over the step's updates"),
    key("policy/clip_fraction", "share of action tokens", "tokens whose loss was decided by the clip range"),
    key("policy/clip_fraction_lower", "share of action tokens", "tokens with a negative advantage held by dual clip"),
    key(
        "policy/approx_kl",
        "nats per token",
        "mean of old minus new log-probability: how far the step moved the policy",
    ),
    key("policy/kl_reference", "nats per token", "estimated KL divergence of the policy from the reference policy"),
    key("policy/kl_coef", "coefficient", "coefficient of the KL to the reference policy in this step"),
    key("policy/entropy", "nats per token", "mean entropy of the policy at action tokens, at the recipe's temperature"),
    key("policy/ratio_max", "ratio", "largest probability ratio new/old of any action token"),
    key("policy/lr", "per update", "learning rate of the policy at the last update"),
    key("critic/loss", "squared return", "clipped value loss, mean over the step's updates"),
    key("critic/clip_fraction", "share of action tokens", "tokens whose value loss was decided by the clip range"),
    key("critic/explained_variance", "share, at most 1", "1 − Var(return − value) / Var(return) over action tokens"),
    key("critic/lr", "per update", "learning rate of the critic at the last update"),
    key("grad_norm/policy", "L2 norm", "global gradient norm of the policy before clipping, mean over updates"),
    key("grad_norm/critic", "L2 norm", "global gradient norm of the critic before clipping, mean over updates"),
    key("advantage/mean", "reward, whitened or not", "mean advantage over action tokens, as the loss sees it"),
    key(
        "advantage/std",
        "reward, whitened or not",
        "standard deviation of the advantages over action tokens, as the loss sees them",
    ),
    key("group/zero_variance", "count", "groups whose rewards do not differ, so that they teach nothing"),
    key("group/singletons", "count", "of these, groups with one scored dialogue only"),
    key("rollout/dialogues", "count", "dialogues played in the step"),
    key("rollout/tokens", "count", "tokens the policy sampled in the step"),
    key("rollout/tokens_per_turn", "tokens", "mean length of a reply, thoughts included"),
    key("rollout/turns_per_dialogue", "replies", "mean number of replies in a dialogue"),
    key("rollout/unscored", "count", "dialogues left out because the simulated user failed"),
    key("rollout/malformed", "share of dialogues", "dialogues that earned 0 because a reply broke the think format"),
    key("rollout/truncated", "share of dialogues", "dialogues cut off by the context length"),
    key(
        "user/requests",
        "count",
        "questions to the model that plays the users; asking again counts, retrying does not",
    ),
    key("user/retries", "count", "attempts to reach that model beyond the first"),
    key("user/failures", "count", "questions that model gave no answer to"),
    key("user/prompt_tokens", "count", "tokens of the questions to that model, as far as it says so"),
    key("user/completion_tokens", "count", "tokens of its answers, as far as it says so"),
    key("user/request_s", "s", "mean time from a question to its answer, waiting and retries included"),
    key("user/cost", "currency of the prices", "cost of the tokens at llm.price_prompt and llm.price_completion"),
    key("rollout/logprob_gap", "nats", "largest difference between sampled and recomputed log-probability of a token"),
    key("rollout/is_bounded", "share of action tokens", "tokens whose rollout importance weight was out of bounds"),
    key("rollout/rounds", "count", "rounds of dynamic sampling in the step"),
    key(
        "curriculum/pass_rate",
        "share of dialogues",
        "scored dialogues that ended at curriculum.pass_emotion or above",
    ),
    key("curriculum/entropy", "0–1", "how evenly the curriculum draws states: 1 is uniformly, 0 always the same one"),
    key("time/rollout_s", "s", "time spent on dialogues"),
    key("time/update_s", "s", "time spent on advantages and updates of policy and critic"),
    key("time/total_s", "s", "time of the step, without evaluation and checkpoint"),
    key(
        "throughput/tokens_per_s",
        "tokens/s",
        "tokens of the step's training rows, prompts included, per second of the step",
    ),
    key("sft/loss", "nats per token", "cross-entropy of the supervised warm start on its training replies"),
    key("sft/heldout_loss", "nats per token", "cross-entropy of the supervised warm start on held-out replies"),
    key("eval/emotion_mean", "points, 0–100", "mean final emotion on the held-out profiles"),
    key("eval/success_rate", "share of dialogues", "held-out dialogues that ended at 100"),
    key("eval/failure_rate", "share of dialogues", "held-out dialogues that ended below 10"),
];

/// The documentation of a key as a run writes it: of the key itself, or of the key it narrows to a group.
pub fn documented(name: &str) -> Option<&'static Key> {
    let find = |name: &str| KEYS.iter().find(|key| key.name == name);
    find(name)
        .or_else(|| name.rsplit_once('/').filter(|(_, group)| !group.is_empty()).and_then(|(whole, _)| find(whole)))
}

/// [`KEYS`] as a Markdown table.
pub fn markdown_table() -> String {
    let mut table = String::from("| key | unit | meaning |\n|---|---|---|\n");
    for Key { name, unit, meaning } in KEYS {
        let _ = writeln!(table, "| `{name}` | {unit} | {meaning} |");
    }
    table
}
