use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Int, Tensor};

/// [`super::linear_logprob`] in plain Burn operations, as rows `[logprob, entropy, log-sum-exp]` of `[3, n]`.
pub fn linear_logprob(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    temperature: f32,
    vocabulary: usize,
) -> Tensor<2> {
    let [n, _] = hidden.dims();
    let logits = hidden.matmul(weight.narrow(0, 0, vocabulary).transpose()).cast(DType::F32) / temperature;
    let logp = log_softmax(logits.clone(), 1);
    let entropy = (logp.clone().exp() * logp.clone()).sum_dim(1).neg();
    let picked = logp.clone().gather(1, targets.clone().reshape([n, 1]));
    let lse = logits.gather(1, targets.reshape([n, 1])) - picked.clone();
    Tensor::cat(vec![picked, entropy, lse], 1).transpose()
}
