use burn::tensor::{DType, Tensor};

/// [`super::rms_norm`] in plain Burn operations; statistics in f32 whatever the input's type.
pub fn rms_norm(x: Tensor<2>, weight: Tensor<1>, eps: f32) -> Tensor<2> {
    let dtype = x.dtype();
    let x = x.cast(DType::F32);
    let scale = (x.clone().square().mean_dim(1) + eps).sqrt().recip();
    (x * scale).cast(dtype) * weight.unsqueeze()
}
