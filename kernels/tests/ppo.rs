use burn::tensor::{Tensor, TensorData};
use rlver_kernels::ppo::{ActionTokens, PpoLossConfig, ppo_loss, value_loss};

use crate::common::{close, device, read};

fn tensor(values: &[f32]) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &device())
}

const CONFIG: PpoLossConfig =
    PpoLossConfig { clip_low: 0.2, clip_high: 0.2, dual_clip: Some(3.0), entropy_coef: 0.0, kl_coef: 0.0 };

/// Per-token losses computed independently in double precision: old −1,−2,−.5 | −.3,−1.5,−2.5,−.7,−1.1 against
/// new −.7,−2.4,−.5 | −.9,−.2,−2.4,−2.3,−1.0 with advantages +.8 and −1.2.
#[test]
fn the_surrogate_has_the_golden_values() {
    let tokens = ActionTokens {
        old_logprob: tensor(&[-1.0, -2.0, -0.5, -0.3, -1.5, -2.5, -0.7, -1.1]),
        advantage: tensor(&[0.8, 0.8, 0.8, -1.2, -1.2, -1.2, -1.2, -1.2]),
        weight: tensor(&[0.125; 8]),
        reference_logprob: None,
    };
    let logprob = tensor(&[-0.7, -2.4, -0.5, -0.9, -0.2, -2.4, -2.3, -1.0]);
    let out = ppo_loss(logprob, tensor(&[0.0; 8]), &tokens, CONFIG);
    let surrogate = read(&out.diagnostics.narrow(0, 0, 1));
    let golden = [-0.96, -0.536_256, -0.8, 0.96, 3.6, 1.326_205, 0.96, 1.326_205];
    close("surrogate", &surrogate, &golden, 1e-6);
    close("loss", &read(&out.loss), &[0.734_519], 1e-6);
}

#[test]
fn masked_tokens_are_never_read() {
    let run = |poison: f32| {
        let logprob = tensor(&[-1.0, poison, -0.5]).require_grad();
        let entropy = tensor(&[1.0, poison, 2.0]).require_grad();
        let tokens = ActionTokens {
            old_logprob: tensor(&[-1.1, poison, -0.6]),
            advantage: tensor(&[0.5, poison, -0.5]),
            weight: tensor(&[0.5, 0.0, 0.5]),
            reference_logprob: Some(tensor(&[-1.0, poison, -0.7])),
        };
        let config = PpoLossConfig { entropy_coef: 0.01, kl_coef: 0.1, ..CONFIG };
        let out = ppo_loss(logprob.clone(), entropy.clone(), &tokens, config);
        let values = tensor(&[0.3, poison, 0.4]).require_grad();
        let value = value_loss(
            values.clone(),
            tensor(&[0.2, poison, 0.1]),
            tensor(&[1.0, poison, 0.0]),
            tokens.weight,
            Some(0.2),
        )
        .loss;
        let grads = (out.loss.clone() + value.clone()).backward();
        let kept = |t: &Tensor<1>| {
            let g = read(&t.grad(&grads).unwrap());
            [g[0], g[2]]
        };
        (read(&out.loss), read(&value), kept(&logprob), kept(&entropy), kept(&values))
    };
    assert_eq!(run(0.0), run(f32::NAN));
}

#[test]
fn the_value_loss_has_the_golden_values() {
    let run = |clip| {
        let [v, old, returns] = [&[0.9, 0.1, 0.45], &[0.2, 0.0, 0.4], &[1.0, -0.6, 0.5]].map(|x| tensor(x));
        read(&value_loss(v, old, returns, tensor(&[1.0 / 3.0; 3]), clip).loss)
    };
    close("clip 0.5", &run(Some(0.5)), &[0.097_083], 1e-5);
    close("clip 0.2", &run(Some(0.2)), &[0.142_083], 1e-5);
}
