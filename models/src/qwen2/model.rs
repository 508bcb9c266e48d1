use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rlver_kernels::attention::attention;
use rlver_kernels::cache::{Spans, cached_attention, write};
use rlver_kernels::host::{Decoder, DecoderWeights, LayerWeights, Projection as HostProjection};
use rlver_kernels::linear::{linear, streamed};
use rlver_kernels::logprob::{LogProb, linear_logprob};
use rlver_kernels::norm::rms_norm;
use rlver_kernels::rotary::{RotaryTable, rotate};
use rlver_kernels::swiglu::swiglu;
use rlver_kernels::{Segments, ShapeError};

use super::parameters::{EMBEDDING, placeholder, shapes};
use super::{HeadKind, Packed, Parameter, Qwen2Config, Slot};
use crate::ModelError;
use crate::generate::KvCache;

/// A Qwen2 network with a vocabulary head (policy) or a value head (critic).
#[derive(Debug, Clone)]
pub struct Qwen2 {
    config: Qwen2Config,
    embed_tokens: Tensor<2>,
    layers: Vec<Block>,
    norm: Tensor<1>,
    head: Head,
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // there is one per network
enum Head {
    Tied,
    Untied { weight: Tensor<2> },
    Value { weight: Tensor<2>, bias: Tensor<1> },
}

#[derive(Debug, Clone)]
struct Block {
    input_layernorm: Tensor<1>,
    q_proj: Projection,
    k_proj: Projection,
    v_proj: Projection,
    o_proj: Tensor<2>,
    post_attention_layernorm: Tensor<1>,
    gate_proj: Tensor<2>,
    up_proj: Tensor<2>,
    down_proj: Tensor<2>,
}

#[derive(Debug, Clone)]
struct Projection {
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
}

/// How a block's attention finds the keys and values.
enum Memory<'a> {
    /// Within the packed tokens.
    Packed(&'a Segments),
    /// In a cache, which takes the new ones first.
    Cached(&'a mut KvCache, &'a Spans),
}

impl Qwen2 {
    /// A network whose parameters are still empty; every one must be set through [`Qwen2::visit`].
    pub(crate) fn skeleton(config: Qwen2Config, head: HeadKind, device: &Device) -> Qwen2 {
        let vector = || placeholder::<1>(device);
        let matrix = || placeholder::<2>(device);
        let projection = || Projection { weight: matrix(), bias: config.attention_bias.then(vector) };
        let layers = (0..config.num_hidden_layers)
            .map(|_| Block {
                input_layernorm: vector(),
                q_proj: projection(),
                k_proj: projection(),
                v_proj: projection(),
                o_proj: matrix(),
                post_attention_layernorm: vector(),
                gate_proj: matrix(),
                up_proj: matrix(),
                down_proj: matrix(),
            })
            .collect();
        let head = match head {
            HeadKind::Vocabulary if config.tie_word_embeddings => Head::Tied,
            HeadKind::Vocabulary => Head::Untied { weight: matrix() },
            HeadKind::Value => Head::Value { weight: matrix(), bias: vector() },
        };
        Qwen2 { embed_tokens: matrix(), layers, norm: vector(), head, config }
    }

    /// A freshly initialised network: matrices from N(0, `initializer_range`²), residual outputs scaled by
    /// 1/√(2·layers), normalisations 1, biases 0. `normal` draws standard normal numbers.
    pub fn init(config: Qwen2Config, device: &Device, mut normal: impl FnMut() -> f64) -> Qwen2 {
        let mut model = Qwen2::skeleton(config.clone(), HeadKind::Vocabulary, device);
        let residual = 1.0 / (2.0 * config.num_hidden_layers as f64).sqrt();
        model.visit(&mut |name, shape, mut slot| {
            let n = shape.iter().product();
            let values = if name.ends_with("norm.weight") {
                vec![1.0; n]
            } else if name.ends_with("bias") {
                vec![0.0; n]
            } else {
                let outputs = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
                let std = config.initializer_range * if outputs { residual } else { 1.0 };
                (0..n).map(|_| (normal() * std) as f32).collect()
            };
            slot.set(values, shape, device);
        });
        model
    }

    /// The architecture.
    pub fn config(&self) -> &Qwen2Config {
        &self.config
    }

    /// What sits on top.
    pub fn head_kind(&self) -> HeadKind {
        if matches!(self.head, Head::Value { .. }) { HeadKind::Value } else { HeadKind::Vocabulary }
    }

    /// The device the parameters live on.
    pub fn device(&self) -> Device {
        self.embed_tokens.device()
    }

    /// Calls `f` with every parameter's checkpoint name, expected shape and slot, in checkpoint order.
    pub fn visit(&mut self, f: &mut dyn FnMut(&str, &[usize], Slot<'_>)) {
        let shapes = shapes(&self.config, self.head_kind());
        let mut slots = Vec::with_capacity(shapes.len());
        slots.push(Slot::Matrix(&mut self.embed_tokens));
        for layer in &mut self.layers {
            slots.push(Slot::Vector(&mut layer.input_layernorm));
            for projection in [&mut layer.q_proj, &mut layer.k_proj, &mut layer.v_proj] {
                slots.push(Slot::Matrix(&mut projection.weight));
                slots.extend(projection.bias.as_mut().map(Slot::Vector));
            }
            slots.push(Slot::Matrix(&mut layer.o_proj));
            slots.push(Slot::Vector(&mut layer.post_attention_layernorm));
            slots.push(Slot::Matrix(&mut layer.gate_proj));
            slots.push(Slot::Matrix(&mut layer.up_proj));
            slots.push(Slot::Matrix(&mut layer.down_proj));
        }
        slots.push(Slot::Vector(&mut self.norm));
        match &mut self.head {
            Head::Tied => {}
            Head::Untied { weight } => slots.push(Slot::Matrix(weight)),
            Head::Value { weight, bias } => slots.extend([Slot::Matrix(weight), Slot::Vector(bias)]),
        }
        assert_eq!(slots.len(), shapes.len(), "parameters and their names are listed in the same order");
        for ((name, shape), slot) in shapes.iter().zip(slots) {
            f(name, shape, slot);
        }
    }

    /// Every parameter with its checkpoint name; the tensors share their data with the model.
    pub fn parameters(&self) -> Vec<(String, Parameter)> {
        let mut all = Vec::new();
        self.clone().visit(&mut |name, _, slot| all.push((name.to_string(), slot.get())));
        all
    }

    /// The same network with parameters that gradients are tracked for, on the autodiff side of its device.
    pub fn tracked(&self) -> Qwen2 {
        let mut model = self.untracked();
        model.visit(&mut |_, _, mut slot| {
            slot.map(|t| Tensor::from_inner(t).require_grad(), |t| Tensor::from_inner(t).require_grad());
        });
        model
    }

    /// The same network without gradient tracking, for generation and reference passes.
    pub fn untracked(&self) -> Qwen2 {
        let mut model = self.clone();
        if self.embed_tokens.is_autodiff() {
            model.visit(&mut |_, _, mut slot| slot.map(Tensor::inner, Tensor::inner));
        }
        model
    }

    /// The same architecture with every parameter empty: what is left where somebody else needs the memory.
    pub fn without_weights(&self) -> Qwen2 {
        Qwen2::skeleton(self.config.clone(), self.head_kind(), &self.device())
    }

    /// The untracked network for generating: its matrices lie as products with few rows read them fastest. It computes the
    /// same bits and holds a copy of the weights. The embedding, which is looked up by row, stays as it is.
    ///
    /// # Errors
    /// When the device does not compute in the weights' type.
    pub fn streamed(&self) -> Result<Qwen2, ModelError> {
        let mut model = self.untracked();
        let mut failure = None;
        model.visit(&mut |name, _, mut slot| {
            if name != EMBEDDING {
                slot.map(
                    |t| t,
                    |t| {
                        streamed(t.clone()).unwrap_or_else(|e| {
                            failure = Some(e);
                            t
                        })
                    },
                );
            }
        });
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(model),
        }
    }

    /// Whether the host's decoder can take over generation.
    pub(crate) fn suits_host(&self) -> bool {
        Decoder::available(&self.device()) && self.embed_tokens.dtype() == DType::F32
    }

    /// The parameters of a policy as the host's decoder takes them, which lets go of each as soon as it has its own copy.
    ///
    /// # Errors
    /// On a critic, which has no vocabulary head.
    pub(crate) fn into_decoder_weights(self) -> Result<DecoderWeights, ModelError> {
        let model = self.untracked();
        drop(self);
        let head = model.vocabulary_head()?;
        let projection = |p: Projection| HostProjection { weight: p.weight, bias: p.bias };
        let layer = |layer: Block| LayerWeights {
            input_norm: layer.input_layernorm,
            qkv: [layer.q_proj, layer.k_proj, layer.v_proj].map(projection),
            output: layer.o_proj,
            post_norm: layer.post_attention_layernorm,
            gate: layer.gate_proj,
            up: layer.up_proj,
            down: layer.down_proj,
        };
        Ok(DecoderWeights {
            embedding: model.embed_tokens,
            layers: model.layers.into_iter().map(layer).collect(),
            norm: model.norm,
            head,
        })
    }

    /// A copy of the trunk with a value head instead: the start of a critic. The value head starts at zero.
    pub fn to_critic(&self) -> Qwen2 {
        let device = self.device();
        let mut critic = self.clone();
        critic.head = Head::Value {
            weight: Tensor::zeros([1, self.config.hidden_size], &device),
            bias: Tensor::zeros([1], &device),
        };
        critic
    }

    /// Hidden states of packed sequences after the final normalisation: `[tokens, hidden]`.
    ///
    /// # Errors
    /// When an id is outside the vocabulary.
    pub fn forward(&self, packed: &Packed) -> Result<Tensor<2>, ModelError> {
        self.run(&packed.ids, &packed.positions, Memory::Packed(&packed.segments), None)
    }

    /// As [`Qwen2::forward`], with the states before every block and the normalised last one: `layers + 1` tensors.
    ///
    /// # Errors
    /// When an id is outside the vocabulary.
    pub fn hidden_states(&self, packed: &Packed) -> Result<Vec<Tensor<2>>, ModelError> {
        let mut states = Vec::new();
        let last = self.run(&packed.ids, &packed.positions, Memory::Packed(&packed.segments), Some(&mut states))?;
        states.push(last);
        Ok(states)
    }

    /// Hidden states of new tokens, whose keys and values go into the cache: `[tokens, hidden]`.
    ///
    /// # Errors
    /// When an id is outside the vocabulary or a span does not fit the cache.
    pub fn forward_cached(&self, ids: &[u32], spans: &Spans, cache: &mut KvCache) -> Result<Tensor<2>, ModelError> {
        let positions = spans.positions();
        self.run(ids, &positions, Memory::Cached(cache, spans), None)
    }

    fn run(
        &self,
        ids: &[u32],
        positions: &[usize],
        mut memory: Memory<'_>,
        mut states: Option<&mut Vec<Tensor<2>>>,
    ) -> Result<Tensor<2>, ModelError> {
        let vocabulary = self.config.vocab_size;
        if let Some(&id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(ModelError::TokenId { id, vocabulary });
        }
        let device = self.device();
        let table = RotaryTable::new(positions, self.config.head_dim, self.config.rope_theta, &device);
        let mut x = self.embed_tokens.clone().select(0, id_tensor(ids, &device));
        for (index, layer) in self.layers.iter().enumerate() {
            if let Some(states) = states.as_deref_mut() {
                states.push(x.clone());
            }
            x = layer.forward(x, &table, &mut memory, index, &self.config)?;
        }
        Ok(rms_norm(x, self.norm.clone(), self.config.rms_norm_eps)?)
    }

    /// Logits over all rows of the vocabulary head: `[n, hidden]` → `[n, vocab_size]`.
    ///
    /// # Errors
    /// On a critic, which has no vocabulary head.
    pub fn logits(&self, hidden: Tensor<2>) -> Result<Tensor<2>, ModelError> {
        Ok(linear(hidden, self.vocabulary_head()?, None)?)
    }

    /// Log-probabilities and entropies of `targets` given the hidden states that predict them.
    ///
    /// # Shapes
    /// - `hidden`: `[n, hidden]`, `targets`: n ids below `vocabulary`
    ///
    /// # Errors
    /// On a critic, or when a target is not below `vocabulary`.
    pub fn logprob(
        &self,
        hidden: Tensor<2>,
        targets: &[u32],
        temperature: f32,
        vocabulary: usize,
    ) -> Result<LogProb, ModelError> {
        if let Some(&id) = targets.iter().find(|id| **id as usize >= vocabulary) {
            return Err(ModelError::TokenId { id, vocabulary });
        }
        let targets = id_tensor(targets, &hidden.device());
        Ok(linear_logprob(hidden, self.vocabulary_head()?, targets, temperature, vocabulary)?)
    }

    /// Values of hidden states: `[n, hidden]` → `[n]`.
    ///
    /// # Errors
    /// On a policy, which has no value head.
    pub fn values(&self, hidden: Tensor<2>) -> Result<Tensor<1>, ModelError> {
        let n = hidden.dims()[0];
        match &self.head {
            Head::Value { weight, bias } => Ok(linear(hidden, weight.clone(), Some(bias.clone()))?.reshape([n])),
            _ => Err(wrong_head("a value head")),
        }
    }

    /// The weight of the vocabulary projection: `[vocab_size, hidden]`.
    ///
    /// # Errors
    /// On a critic, which has none.
    pub fn vocabulary_head(&self) -> Result<Tensor<2>, ModelError> {
        match &self.head {
            Head::Tied => Ok(self.embed_tokens.clone()),
            Head::Untied { weight } => Ok(weight.clone()),
            Head::Value { .. } => Err(wrong_head("a vocabulary head")),
        }
    }
}

fn wrong_head(expected: &str) -> ModelError {
    ModelError::Shape(ShapeError { op: "qwen2", what: "head", found: vec![], expected: expected.into() })
}

fn id_tensor(ids: &[u32], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let n = ids.len();
    Tensor::from_data(TensorData::new(ids, [n]), device)
}

impl Projection {
    fn heads(&self, x: &Tensor<2>, heads: usize) -> Result<Tensor<3>, ShapeError> {
        let y = linear(x.clone(), self.weight.clone(), self.bias.clone())?;
        let [tokens, width] = y.dims();
        Ok(y.reshape([tokens, heads, width / heads]))
    }
}

impl Block {
    fn forward(
        &self,
        x: Tensor<2>,
        table: &RotaryTable,
        memory: &mut Memory<'_>,
        index: usize,
        config: &Qwen2Config,
    ) -> Result<Tensor<2>, ShapeError> {
        let h = rms_norm(x.clone(), self.input_layernorm.clone(), config.rms_norm_eps)?;
        let q = rotate(self.q_proj.heads(&h, config.num_attention_heads)?, table)?;
        let k = rotate(self.k_proj.heads(&h, config.num_key_value_heads)?, table)?;
        let v = self.v_proj.heads(&h, config.num_key_value_heads)?;
        let [tokens, heads, head_dim] = q.dims();
        let mixed = match memory {
            Memory::Packed(segments) => attention(q, k, v, segments)?,
            Memory::Cached(cache, spans) => {
                cache.update(index, |keys, values| Ok((write(keys, k, spans)?, write(values, v, spans)?)))?;
                let (keys, values) = cache.layer(index);
                cached_attention(q, keys, values, spans)?
            }
        };
        let x = x + linear(mixed.reshape([tokens, heads * head_dim]), self.o_proj.clone(), None)?;
        let h = rms_norm(x.clone(), self.post_attention_layernorm.clone(), config.rms_norm_eps)?;
        let gate = linear(h.clone(), self.gate_proj.clone(), None)?;
        let up = linear(h, self.up_proj.clone(), None)?;
        Ok(x + linear(swiglu(gate, up)?, self.down_proj.clone(), None)?)
    }
}
