use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor};

use super::Spans;

/// [`super::write`] in plain Burn operations.
pub fn write(cache: Tensor<4>, new: Tensor<3>, spans: &Spans) -> Tensor<4> {
    let [_, _, kv_heads, head_dim] = cache.dims();
    let mut taken = 0;
    spans.0.iter().filter(|s| s.length > 0).fold(cache, |cache, s| {
        let values = new.clone().narrow(0, taken, s.length).unsqueeze_dim::<4>(0);
        taken += s.length;
        cache.slice_assign([s.row..s.row + 1, s.start..s.start + s.length, 0..kv_heads, 0..head_dim], values)
    })
}

/// [`super::cached_attention`] in plain Burn operations.
pub fn cached_attention(q: Tensor<3>, keys: Tensor<4>, values: Tensor<4>, spans: &Spans) -> Tensor<3> {
    let [_, heads, head_dim] = q.dims();
    let kv_heads = keys.dims()[2];
    let (group, device) = (heads / kv_heads, q.device());
    let mut taken = 0;
    let outputs: Vec<Tensor<3>> = spans
        .0
        .iter()
        .filter(|s| s.length > 0)
        .map(|s| {
            let seen = s.start + s.length;
            let read = |cache: &Tensor<4>| {
                cache
                    .clone()
                    .slice([s.row..s.row + 1, 0..seen, 0..kv_heads, 0..head_dim])
                    .reshape([seen, kv_heads, 1, head_dim])
                    .expand([seen, kv_heads, group, head_dim])
                    .reshape([seen, heads, head_dim])
                    .swap_dims(0, 1)
            };
            let q = q.clone().narrow(0, taken, s.length).swap_dims(0, 1);
            taken += s.length;
            let scores = q.matmul(read(&keys).transpose()) / (head_dim as f64).sqrt();
            let future = Tensor::<2, Bool>::tril_mask([s.length, seen], s.start as i64, &device);
            let scores = scores.mask_fill(future.unsqueeze_dim::<3>(0).expand([heads, s.length, seen]), -1e30);
            softmax(scores, 2).matmul(read(&values)).swap_dims(0, 1)
        })
        .collect();
    if outputs.is_empty() { q } else { Tensor::cat(outputs, 0) }
}
