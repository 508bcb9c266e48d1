use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor};

use crate::Segments;

/// [`super::attention`] in plain Burn operations: one segment after another, scores materialised.
pub fn attention(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, segments: &Segments) -> Tensor<3> {
    let [_, heads, head_dim] = q.dims();
    let group = heads / k.dims()[1];
    let scale = 1.0 / (head_dim as f64).sqrt();
    let device = q.device();
    let outputs: Vec<Tensor<3>> = segments
        .ranges()
        .filter(|range| !range.is_empty())
        .map(|range| {
            let length = range.len();
            let cut = |x: &Tensor<3>| x.clone().narrow(0, range.start, length).swap_dims(0, 1);
            let expand = |x: Tensor<3>| {
                let [kv_heads, length, head_dim] = x.dims();
                x.unsqueeze_dim::<4>(1).expand([kv_heads, group, length, head_dim]).reshape([
                    kv_heads * group,
                    length,
                    head_dim,
                ])
            };
            let scores = cut(&q).matmul(expand(cut(&k)).transpose()).mul_scalar(scale);
            let future = Tensor::<2, Bool>::tril_mask([length, length], 0, &device);
            let scores = scores.mask_fill(future.unsqueeze_dim::<3>(0).expand([heads, length, length]), -1e30);
            softmax(scores, 2).matmul(expand(cut(&v))).swap_dims(0, 1)
        })
        .collect();
    if outputs.is_empty() { q } else { Tensor::cat(outputs, 0) }
}
