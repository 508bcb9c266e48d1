//! Which parts of an objective go together.

use crate::dialogue::think::ReplyMode;
use crate::objective::{AdvantageEstimator, PolicyLossKind, TurnCredit};

use super::check::{at_least, refuse, within};
use super::{
    Algorithm, KlControl, KlUse, LogprobSource, Recipe, RecipeError, RewardPlacement, RolloutIs, RolloutWeights,
    TurnBaseline, to_toml,
};

impl Recipe {
    pub(super) fn check_objective(&self) -> Result<(), RecipeError> {
        self.check_ranges()?;
        self.check_estimator()?;
        self.check_turns()?;
        self.check_loss()?;
        self.check_kl()?;
        self.check_batch_rules()
    }

    fn check_ranges(&self) -> Result<(), RecipeError> {
        let o = &self.objective;
        within("objective.gamma", o.gamma, 0.0, 1.0)?;
        within("objective.turn_gamma", o.turn_gamma, 0.0, 1.0)?;
        within("objective.lambda", o.lambda, 0.0, 1.0)?;
        within("objective.immediate", o.immediate, 0.0, 1.0)?;
        within("objective.turn_alpha", o.turn_alpha, 0.0, 1e6)?;
        within("objective.std_floor", o.std_floor, 0.0, 1e3)?;
        within("objective.clip_low", o.clip_low, 0.0, 1.0)?;
        within("objective.clip_high", o.clip_high, 0.0, 1e6)?;
        within("objective.value_clip", o.value_clip, 0.0, f64::MAX)?;
        within("objective.entropy_coef", o.entropy_coef, 0.0, 10.0)?;
        at_least("objective.ppo_epochs", o.ppo_epochs, 1)?;
        at_least("objective.micro_batch_tokens", o.micro_batch_tokens, 1)?;
        if o.dual_clip != 0.0 {
            within("objective.dual_clip", o.dual_clip, 0.0, f64::MAX)?;
            if o.dual_clip <= 1.0 {
                return refuse("objective.dual_clip", o.dual_clip, "must be above 1, or 0 to turn it off");
            }
        }
        Ok(())
    }

    fn check_estimator(&self) -> Result<(), RecipeError> {
        let (o, r) = (&self.objective, &self.rollout);
        let advantage = to_toml(&o.advantage);
        match (self.run.algorithm, o.advantage.needs_critic()) {
            (Algorithm::Ppo, false) => {
                let problem = "needs no critic; set run.algorithm = \"grpo\", or use advantage = \"gae\"";
                return refuse("objective.advantage", advantage, problem);
            }
            (Algorithm::Grpo, true) => {
                let problem = "needs a critic; set run.algorithm = \"ppo\", or use advantage = \"grpo\"";
                return refuse("objective.advantage", advantage, problem);
            }
            _ => {}
        }
        if o.advantage.needs_groups() && r.n < 2 {
            return refuse("rollout.n", r.n, "a group baseline needs at least 2 dialogues per profile");
        }
        if o.advantage == AdvantageEstimator::Remax && o.reward != RewardPlacement::Terminal {
            let problem =
                "must be \"terminal\" with advantage = \"remax\", whose baseline is a whole dialogue's reward";
            return refuse("objective.reward", to_toml(&o.reward), problem);
        }
        if o.std_floor > 0.0 && o.advantage != AdvantageEstimator::Grpo {
            let problem = format!("advantage = {advantage} divides by no standard deviation of a group; use \"grpo\"");
            return refuse("objective.std_floor", o.std_floor, problem);
        }
        if o.critic_warmup > 0 && !self.has_critic() {
            let problem = "there is no critic to warm up; set it to 0, or run.algorithm = \"ppo\"";
            return refuse("objective.critic_warmup", o.critic_warmup, problem);
        }
        Ok(())
    }

    fn check_turns(&self) -> Result<(), RecipeError> {
        let (o, r) = (&self.objective, &self.rollout);
        if o.turn_credit == TurnCredit::TurnCentred && !o.advantage.needs_groups() {
            let problem = "goes with an estimator that gives a dialogue one advantage: grpo, dr_grpo, rloo, \
                           reinforce_plus_plus_baseline";
            return refuse("objective.turn_credit", to_toml(&o.turn_credit), problem);
        }
        match o.advantage {
            AdvantageEstimator::TurnRloo if o.turn_baseline == TurnBaseline::Group && r.n < 2 => {
                refuse("rollout.n", r.n, "turn_baseline = \"group\" needs at least 2 dialogues per profile")
            }
            AdvantageEstimator::DistancePotential if o.immediate > 0.0 && r.n < 2 => {
                let problem = "distance-potential compares decreases within a group: at least 2 dialogues per profile, \
                               or immediate = 0";
                refuse("rollout.n", r.n, problem)
            }
            AdvantageEstimator::GaeRlver if o.turn_gamma < 1.0 => {
                refuse("objective.turn_gamma", o.turn_gamma, "the release's recursion knows no turns; use gae")
            }
            _ => Ok(()),
        }
    }

    fn check_loss(&self) -> Result<(), RecipeError> {
        let o = &self.objective;
        if o.policy_loss == PolicyLossKind::Cispo && o.clip_high == 0.0 {
            return refuse("objective.clip_high", o.clip_high, "must be above 0 with policy_loss = \"cispo\"");
        }
        if self.rollout.weights == RolloutWeights::Bf16 && o.old_logprobs == LogprobSource::Rollout {
            let problem = "what was sampled with rollout.weights = \"bf16\" has not the policy's own log-probabilities: \
                           use \"recompute\"";
            return refuse("objective.old_logprobs", to_toml(&o.old_logprobs), problem);
        }
        if o.rollout_is != RolloutIs::None {
            if o.old_logprobs == LogprobSource::Rollout {
                let problem = "the ratio already is that to the sampler with old_logprobs = \"rollout\"; correcting again \
                               would count it twice: use \"recompute\", or \"none\" here";
                return refuse("objective.rollout_is", to_toml(&o.rollout_is), problem);
            }
            within("objective.rollout_is_threshold", o.rollout_is_threshold, 1.0, f64::MAX)?;
            within("objective.rollout_is_threshold_lower", o.rollout_is_threshold_lower, 0.0, 1.0)?;
        }
        Ok(())
    }

    fn check_kl(&self) -> Result<(), RecipeError> {
        let (o, r) = (&self.objective, &self.rollout);
        within("objective.kl_coef", o.kl_coef, 0.0, 1e3)?;
        within("objective.kl_target", o.kl_target, 1e-12, 1e6)?;
        within("objective.kl_horizon", o.kl_horizon, 1.0, f64::MAX)?;
        if o.kl_control == KlControl::Adaptive && o.kl == KlUse::None {
            let problem = "there is no KL to control; set objective.kl to \"loss\" or \"reward\"";
            return refuse("objective.kl_control", to_toml(&o.kl_control), problem);
        }
        let per_token = o.advantage.needs_critic() || o.advantage == AdvantageEstimator::ReinforcePlusPlus;
        if r.mode == ReplyMode::Think && o.kl == KlUse::Reward && o.gamma < 1.0 && per_token {
            return refuse("objective.gamma", o.gamma, "must be 1 with per-turn rows and a KL penalty in the reward");
        }
        Ok(())
    }

    fn check_batch_rules(&self) -> Result<(), RecipeError> {
        let (o, r) = (&self.objective, &self.rollout);
        let dialogues = r.dialogues * r.n;
        if o.mini_batch > dialogues {
            let problem = format!("is larger than the step's {dialogues} dialogues (rollout.dialogues x rollout.n)");
            return refuse("objective.mini_batch", o.mini_batch, problem);
        }
        if o.dynamic_sampling {
            at_least("objective.max_rounds", o.max_rounds, 1)?;
            if r.n < 2 {
                let problem =
                    "dynamic sampling keeps groups whose rewards differ; needs at least 2 dialogues per profile";
                return refuse("rollout.n", r.n, problem);
            }
        }
        if o.overlong_buffer > r.max_new_tokens {
            let problem = format!("is larger than rollout.max_new_tokens = {}", r.max_new_tokens);
            return refuse("objective.overlong_buffer", o.overlong_buffer, problem);
        }
        within("objective.overlong_factor", o.overlong_factor, 0.0, 1e3)
    }
}
