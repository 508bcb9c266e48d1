use burn::tensor::{Device, Gradients, Tensor, TensorData};
use rlver_kernels::adamw::{AdamWStep, Updated, adamw};
use rlver_kernels::ordered_sum;
use rlver_models::qwen2::{Parameter, Qwen2, Slot, placeholder};

use crate::recipe::OptimizerSection;

/// Gradients of all parameters of a network, flat, in checkpoint order; sums over micro-batches.
#[derive(Debug, Default)]
pub struct GradientSum(Vec<Option<Tensor<1>>>);

impl GradientSum {
    /// Adds the gradients of one backward pass through `model`, which must be tracked.
    pub fn add(&mut self, model: &Qwen2, grads: &mut Gradients) {
        let parameters = model.parameters();
        self.0.resize(parameters.len(), None);
        for ((_, parameter), sum) in parameters.iter().zip(&mut self.0) {
            let new = match parameter {
                Parameter::Vector(t) => t.grad_remove(grads).map(flat),
                Parameter::Matrix(t) => t.grad_remove(grads).map(flat),
            };
            *sum = match (sum.take(), new) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
    }

    /// Global L2 norm over all parameters.
    pub fn norm(&self) -> f64 {
        let squares: Vec<Tensor<1>> = self.0.iter().flatten().map(|g| ordered_sum(g.clone().square())).collect();
        if squares.is_empty() {
            return 0.0;
        }
        let sums: Vec<f32> = Tensor::cat(squares, 0).into_data().try_into_vec().expect("f32 gradients");
        sums.iter().map(|s| f64::from(*s)).sum::<f64>().sqrt()
    }
}

fn flat<const D: usize>(t: Tensor<D>) -> Tensor<1> {
    let n = t.shape().num_elements();
    t.reshape([n])
}

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101) as torch has it: decoupled weight decay on every parameter,
/// bias-corrected moments, ε outside the root. Moments are f32 whatever the weights are.
#[derive(Debug)]
pub struct AdamW {
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    max_grad_norm: f64,
    /// Updates made.
    steps: u64,
    moments: Vec<(Tensor<1>, Tensor<1>)>,
}

/// A moment tensor by name, for saving and restoring.
pub struct NamedMoment {
    /// `m.` or `v.` and the parameter's name.
    pub name: String,
    /// The values; they share the optimizer's memory.
    pub values: Tensor<1>,
    /// Their number.
    pub shape: [usize; 1],
}

impl AdamW {
    /// An optimizer that has seen nothing.
    pub fn new(settings: &OptimizerSection) -> AdamW {
        AdamW {
            betas: settings.betas,
            eps: settings.eps,
            weight_decay: settings.weight_decay,
            max_grad_norm: settings.max_grad_norm,
            steps: 0,
            moments: Vec::new(),
        }
    }

    /// Updates made so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Updates an untracked network; returns the gradient norm before clipping. A norm that is not finite changes
    /// nothing.
    pub fn update(&mut self, model: &mut Qwen2, gradients: GradientSum, lr: f64) -> f64 {
        let norm = gradients.norm();
        if !norm.is_finite() {
            return norm;
        }
        let scale = (self.max_grad_norm / (norm + 1e-6)).min(1.0);
        self.steps += 1;
        let step = AdamWStep {
            scale,
            learning_rate: lr,
            betas: self.betas,
            eps: self.eps,
            weight_decay: self.weight_decay,
            step: self.steps,
        };
        let mut index = 0;
        let mut gradients = gradients.0.into_iter();
        let moments = &mut self.moments;
        model.visit(&mut |_, _, mut slot| {
            let gradient = gradients.next().flatten();
            if moments.len() == index {
                let zeros = || match slot.get() {
                    Parameter::Vector(t) => flat(t).zeros_like(),
                    Parameter::Matrix(t) => flat(t).zeros_like(),
                };
                moments.push((zeros(), zeros()));
            }
            let Some(gradient) = gradient else {
                index += 1;
                return;
            };
            let gap = placeholder(&gradient.device());
            let (first, second) = std::mem::replace(&mut moments[index], (gap.clone(), gap));
            let change = |weight: Tensor<1>| {
                let updated = adamw(Updated { weight, first, second }, gradient, step)
                    .expect("a gradient and moments have the shape of their parameter");
                moments[index] = (updated.first, updated.second);
                updated.weight
            };
            match &mut slot {
                Slot::Vector(_) => slot.map(change, |t| t),
                Slot::Matrix(_) => slot.map(
                    |t| t,
                    |t| {
                        let shape = t.dims();
                        change(flat(t)).reshape(shape)
                    },
                ),
            }
            index += 1;
        });
        norm
    }

    /// The moments with the names of the network's parameters; none before the first update.
    pub fn state(&self, model: &Qwen2) -> Vec<NamedMoment> {
        let named = |name: String, t: &Tensor<1>| NamedMoment { name, values: t.clone(), shape: t.dims() };
        model
            .parameters()
            .iter()
            .zip(&self.moments)
            .flat_map(|((name, _), (m, v))| [named(format!("m.{name}"), m), named(format!("v.{name}"), v)])
            .collect()
    }

    /// Restores the state of [`AdamW::state`]; `moment` finds a moment by name.
    ///
    /// # Errors
    /// Names the first moment that is missing or of another length.
    pub fn restore(
        &mut self,
        model: &Qwen2,
        steps: u64,
        device: &Device,
        mut moment: impl FnMut(&str) -> Option<Vec<f32>>,
    ) -> Result<(), String> {
        self.steps = steps;
        self.moments.clear();
        if steps == 0 {
            return Ok(());
        }
        for (name, parameter) in model.parameters() {
            let expected: usize = parameter.shape().iter().product();
            let mut find = |kind: char| -> Result<Tensor<1>, String> {
                let name = format!("{kind}.{name}");
                let values = moment(&name).ok_or_else(|| format!("{name} is missing"))?;
                if values.len() != expected {
                    return Err(format!("{name} has {} values instead of {expected}", values.len()));
                }
                Ok(Tensor::from_data(TensorData::new(values, [expected]), device))
            };
            self.moments.push((find('m')?, find('v')?));
        }
        Ok(())
    }
}
