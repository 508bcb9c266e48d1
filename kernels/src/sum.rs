//! The sum of a vector in a fixed order.
//!
//! Burn sums whole tensors on GPUs with atomic additions, which land in the order in which threads happen to finish: the
//! same numbers give another last digit every time, and a training run that depends on it cannot be repeated.

use burn::tensor::{Tensor, TensorData};

/// Numbers added up by one thread.
const ROW: usize = 256;

/// The sum `[1]` of `values` `[n]`: the same bits every time on the same device. Differentiable.
pub fn ordered_sum(values: Tensor<1>) -> Tensor<1> {
    if crate::is_flex(&values.device().without_autodiff()) {
        return values.sum();
    }
    let (device, dtype) = (values.device(), values.dtype());
    // Not `Tensor::zeros`: beside an empty tensor Burn's fusion layer (0.22.1) fills nothing of shape `[1]`.
    let zeros = |n: usize| {
        let data = TensorData::new(vec![0f32; n], [n]).convert_dtype(dtype);
        Tensor::<1>::from_data(data, (&device, dtype))
    };
    let mut values = values;
    loop {
        let [n] = values.dims();
        if n <= ROW {
            return if n == 0 { zeros(1) } else { values.sum_dim(0) };
        }
        let rows = n.div_ceil(ROW);
        if rows * ROW > n {
            values = Tensor::cat(vec![values, zeros(rows * ROW - n)], 0);
        }
        values = values.reshape([rows, ROW]).sum_dim(1).reshape([rows]);
    }
}
