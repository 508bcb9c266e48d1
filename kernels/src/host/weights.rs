use burn::backend::{BackendTensor, DispatchTensorKind};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use super::packed::{Packed, WeightFormat};
use crate::ShapeError;

/// A network's parameters as the trainer has them.
#[derive(Debug)]
pub struct DecoderWeights {
    /// `[vocabulary, hidden]`.
    pub embedding: Tensor<2>,
    /// From the first.
    pub layers: Vec<LayerWeights>,
    /// The last normalisation.
    pub norm: Tensor<1>,
    /// `[vocabulary, hidden]`.
    pub head: Tensor<2>,
}

/// One layer's parameters.
#[derive(Debug)]
pub struct LayerWeights {
    /// Before attention.
    pub input_norm: Tensor<1>,
    /// Queries, keys and values.
    pub qkv: [Projection; 3],
    /// Of the mixed values.
    pub output: Tensor<2>,
    /// Before the feed-forward part.
    pub post_norm: Tensor<1>,
    /// `[feed-forward, hidden]`.
    pub gate: Tensor<2>,
    /// As `gate`.
    pub up: Tensor<2>,
    /// `[hidden, feed-forward]`.
    pub down: Tensor<2>,
}

/// A weight `[outputs, inputs]` and a bias `[outputs]`.
#[derive(Debug)]
pub struct Projection {
    /// `[outputs, inputs]`.
    pub weight: Tensor<2>,
    /// `[outputs]`.
    pub bias: Option<Tensor<1>>,
}

/// The same, as the decoder reads them. The embedding stays shared with whoever else holds it.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) embedding: FlexTensor,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Vec<f32>,
    pub(super) head: Packed,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) input_norm: Vec<f32>,
    /// With the bias, as long as whole panels.
    pub(super) qkv: [(Packed, Option<Vec<f32>>); 3],
    pub(super) output: Packed,
    pub(super) post_norm: Vec<f32>,
    pub(super) gate: Packed,
    pub(super) up: Packed,
    pub(super) down: Packed,
}

impl Weights {
    /// # Errors
    /// When a tensor is not f32 on Flex.
    pub(super) fn new(from: DecoderWeights, format: WeightFormat) -> Result<Weights, ShapeError> {
        let packed = |tensor: Tensor<2>| {
            let shape = tensor.dims();
            flex(tensor).map(|tensor| Packed::new(values(&tensor), shape, format))
        };
        let vector = |tensor: Tensor<1>| flex(tensor).map(|tensor| values(&tensor).to_vec());
        let projection = |p: Projection| {
            let weight = packed(p.weight)?;
            let bias = p.bias.map(vector).transpose()?.map(|mut bias| {
                bias.resize(super::packed::padded(bias.len()), 0.0);
                bias
            });
            Ok::<_, ShapeError>((weight, bias))
        };
        let layer = |layer: LayerWeights| {
            let [q, k, v] = layer.qkv;
            Ok(Layer {
                input_norm: vector(layer.input_norm)?,
                qkv: [projection(q)?, projection(k)?, projection(v)?],
                output: packed(layer.output)?,
                post_norm: vector(layer.post_norm)?,
                gate: packed(layer.gate)?,
                up: packed(layer.up)?,
                down: packed(layer.down)?,
            })
        };
        Ok(Weights {
            embedding: flex(from.embedding)?,
            layers: from.layers.into_iter().map(layer).collect::<Result<_, ShapeError>>()?,
            norm: vector(from.norm)?,
            head: packed(from.head)?,
        })
    }

    /// Numbers in the embedding, one row after another.
    pub(super) fn embedding(&self) -> &[f32] {
        values(&self.embedding)
    }
}

fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("made contiguous in `flex`")
}

fn flex<const D: usize>(tensor: Tensor<D>) -> Result<FlexTensor, ShapeError> {
    let found = tensor.dims().to_vec();
    match crate::plain(tensor).into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(t)) if t.dtype() == DType::F32 => {
            Ok(if t.as_slice::<f32>().is_some() { t } else { t.to_contiguous() })
        }
        _ => Err(ShapeError { op: "decoder", what: "a weight", found, expected: "f32 numbers on Flex".into() }),
    }
}
