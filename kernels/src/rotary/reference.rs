use burn::tensor::Tensor;

use super::RotaryTable;

/// [`super::rotate`] in plain Burn operations.
pub fn rotate(x: Tensor<3>, table: &RotaryTable) -> Tensor<3> {
    let [_, _, head_dim] = x.dims();
    let half = head_dim / 2;
    let (cos, sin) = (&table.cos, &table.sin);
    let [cos, sin] = [cos, sin].map(|t| t.clone().cast(x.dtype()).unsqueeze_dim::<3>(1));
    let first = x.clone().narrow(2, 0, half);
    let second = x.narrow(2, half, half);
    Tensor::cat(vec![first.clone() * cos.clone() - second.clone() * sin.clone(), second * cos + first * sin], 2)
}
