//! Learning-rate schedules, as a factor on the peak rate.

use serde::{Deserialize, Serialize};

use super::error::{ObjectiveError, in_range};

/// Recipe key `lr_scheduler_type`: what follows the warm-up.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LrDecay {
    /// The peak rate (verl `constant`, RLVER).
    #[default]
    Constant,
    /// A straight line down to the floor (transformers `linear`).
    Linear,
    /// Half a cosine down to the floor (Loshchilov and Hutter 2016, eq. 5; verl `cosine`).
    Cosine,
}

/// Linear warm-up from 0, then the decay.
///
/// For step `s` counted from 0: `s/warmup` while `s < warmup`; afterwards, with `x = (s − warmup)/(total − warmup)`
/// and floor `m`: `1`, or `m + (1 − m)·(1 − x)`, or `m + (1 − m)·(1 + cos πx)/2`. From `total` on the rate stays at the
/// floor. (verl's cosine rises again after `total`.)
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LrSchedule {
    /// What follows the warm-up.
    pub decay: LrDecay,
    /// Steps of the warm-up.
    pub warmup_steps: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// `m`: the floor as a share of the peak rate.
    pub min_lr_ratio: f64,
}

impl LrSchedule {
    /// Factor on the peak rate at optimizer step `step`, counted from 0.
    ///
    /// # Errors
    /// When the floor is outside `[0, 1]`.
    pub fn factor(&self, step: u64) -> Result<f64, ObjectiveError> {
        let floor = self.min_lr_ratio;
        in_range("min_lr_ratio", floor, (0.0..=1.0).contains(&floor), "a number in [0, 1]")?;
        if step < self.warmup_steps {
            return Ok(step as f64 / self.warmup_steps as f64);
        }
        let span = self.total_steps.saturating_sub(self.warmup_steps).max(1) as f64;
        let progress = ((step - self.warmup_steps) as f64 / span).min(1.0);
        let share = match self.decay {
            LrDecay::Constant => return Ok(1.0),
            LrDecay::Linear => 1.0 - progress,
            LrDecay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        };
        Ok(floor + (1.0 - floor) * share)
    }
}
