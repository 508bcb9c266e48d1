use burn::tensor::Tensor;

use super::{ActionTokens, PpoLossConfig};
use crate::ShapeError;

fn lengths(op: &'static str, n: usize, others: &[(&'static str, Option<&Tensor<1>>)]) -> Result<(), ShapeError> {
    others.iter().try_for_each(|(what, t)| match t {
        Some(t) => ShapeError::check(op, what, &t.dims(), &[n]),
        None => Ok(()),
    })
}

fn setting(op: &'static str, what: &'static str, ok: bool, expected: &str) -> Result<(), ShapeError> {
    if ok { Ok(()) } else { Err(ShapeError { op, what, found: vec![], expected: expected.into() }) }
}

pub(super) fn check_policy(
    logprob: &Tensor<1>,
    entropy: &Tensor<1>,
    tokens: &ActionTokens,
    config: PpoLossConfig,
) -> Result<(), ShapeError> {
    const OP: &str = "ppo_loss";
    let reference = tokens.reference_logprob.as_ref();
    lengths(
        OP,
        logprob.dims()[0],
        &[
            ("entropy", Some(entropy)),
            ("old_logprob", Some(&tokens.old_logprob)),
            ("advantage", Some(&tokens.advantage)),
            ("weight", Some(&tokens.weight)),
            ("reference_logprob", reference),
            ("importance_weight", tokens.importance_weight.as_ref()),
        ],
    )?;
    setting(OP, "clip_low", (0.0..=1.0).contains(&config.clip_low), "a number in [0, 1]")?;
    setting(OP, "clip_high", config.clip_high >= 0.0 && config.clip_high.is_finite(), "a number from 0 up")?;
    setting(OP, "dual_clip", config.dual_clip.is_none_or(|c| c > 1.0), "a number above 1, or none")?;
    let needs = config.kl_coef != 0.0 && reference.is_none();
    setting(OP, "reference_logprob", !needs, "log-probabilities of the reference policy, since kl_coef is not 0")
}

pub(super) fn check_value(
    values: &Tensor<1>,
    old_values: &Tensor<1>,
    returns: &Tensor<1>,
    weight: &Tensor<1>,
    clip: Option<f32>,
) -> Result<(), ShapeError> {
    const OP: &str = "value_loss";
    let others = [("old_values", Some(old_values)), ("returns", Some(returns)), ("weight", Some(weight))];
    lengths(OP, values.dims()[0], &others)?;
    setting(OP, "clip", clip.is_none_or(|c| c >= 0.0), "a number from 0 up, or none")
}
