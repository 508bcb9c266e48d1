use burn::tensor::{Tensor, TensorData};

use super::Gae;
use crate::Segments;

/// [`super::gae`] as the recursion stands in the paper, on the host in f64.
pub fn gae(rewards: Tensor<1>, values: Tensor<1>, segments: &Segments, gamma: f32, lambda: f32) -> Gae {
    let (device, dtype, [n]) = (rewards.device(), rewards.dtype(), rewards.dims());
    let host = |t: Tensor<1>| t.into_data().convert::<f64>().try_to_vec::<f64>().unwrap_or_default();
    let (rewards, values) = (host(rewards), host(values));
    let (gamma, lambda) = (f64::from(gamma), f64::from(lambda));
    let mut advantages = vec![0.0; n];
    for range in segments.ranges() {
        let (mut next_value, mut next_advantage) = (0.0, 0.0);
        for t in range.rev() {
            let delta = rewards[t] + gamma * next_value - values[t];
            next_advantage = delta + gamma * lambda * next_advantage;
            next_value = values[t];
            advantages[t] = next_advantage;
        }
    }
    let returns: Vec<f64> = advantages.iter().zip(&values).map(|(a, v)| a + v).collect();
    let tensor = |v: Vec<f64>| Tensor::from_data(TensorData::new(v, [n]).convert_dtype(dtype), &device);
    Gae { advantages: tensor(advantages), returns: tensor(returns) }
}
