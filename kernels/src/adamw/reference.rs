use burn::tensor::Tensor;

use super::{AdamWStep, Updated};

/// [`super::adamw`] in plain Burn operations.
pub fn adamw(parameter: Updated, gradient: Tensor<1>, step: AdamWStep) -> Updated {
    let ([b1, b2], [c1, c2]) = (step.betas, step.corrections());
    let lr = step.learning_rate;
    let gradient = gradient * step.scale;
    let first = parameter.first * b1 + gradient.clone() * (1.0 - b1);
    let second = parameter.second * b2 + gradient.square() * (1.0 - b2);
    let change = first.clone() / c1 / ((second.clone() / c2).sqrt() + step.eps) * lr;
    Updated { weight: parameter.weight * (1.0 - lr * step.weight_decay) - change, first, second }
}
