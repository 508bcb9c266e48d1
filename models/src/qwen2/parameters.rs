use burn::tensor::{DType, Device, Tensor, TensorData};

use super::Qwen2Config;

/// A tensor without numbers, to leave where one is taken out. Not `zeros`: Burn's fusion layer (0.22.1) runs that as one
/// kernel with operations on tensors of shape `[1]`, which then compute nothing and hold whatever was in memory.
pub fn placeholder<const D: usize>(device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(Vec::<f32>::new(), [0; D]), device)
}

/// What sits on top of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// A vocabulary projection: the policy.
    Vocabulary,
    /// One number per token, `score.weight` and `score.bias`: the critic.
    Value,
}

/// A parameter by value; cloning shares the data.
#[derive(Debug, Clone)]
pub enum Parameter {
    /// Biases and normalisation weights.
    Vector(Tensor<1>),
    /// Projections `[outputs, inputs]` and the embedding `[vocabulary, hidden]`.
    Matrix(Tensor<2>),
}

/// A parameter in place.
pub enum Slot<'a> {
    /// See [`Parameter::Vector`].
    Vector(&'a mut Tensor<1>),
    /// See [`Parameter::Matrix`].
    Matrix(&'a mut Tensor<2>),
}

impl Slot<'_> {
    /// A copy that shares the data.
    pub fn get(&self) -> Parameter {
        match self {
            Slot::Vector(t) => Parameter::Vector((**t).clone()),
            Slot::Matrix(t) => Parameter::Matrix((**t).clone()),
        }
    }

    /// Replaces the values by `values` (row-major, f32) on `device`.
    ///
    /// # Panics
    /// When the number of values is not that of `shape`.
    pub fn set(&mut self, values: Vec<f32>, shape: &[usize], device: &Device) {
        match self {
            Slot::Vector(t) => **t = Tensor::from_data(TensorData::new(values, [shape[0]]), device),
            Slot::Matrix(t) => **t = Tensor::from_data(TensorData::new(values, [shape[0], shape[1]]), device),
        }
    }

    /// Replaces the tensor by what `matrix` or `vector` makes of it. Where the network alone held it, the closure does.
    pub fn map(&mut self, vector: impl FnOnce(Tensor<1>) -> Tensor<1>, matrix: impl FnOnce(Tensor<2>) -> Tensor<2>) {
        match self {
            Slot::Vector(t) => {
                let gap = placeholder(&t.device());
                **t = vector(std::mem::replace(*t, gap));
            }
            Slot::Matrix(t) => {
                let gap = placeholder(&t.device());
                **t = matrix(std::mem::replace(*t, gap));
            }
        }
    }
}

impl Parameter {
    /// The values in row-major order, as f32.
    pub fn values(&self) -> Vec<f32> {
        let data = match self {
            Parameter::Vector(t) => t.to_data(),
            Parameter::Matrix(t) => t.to_data(),
        };
        data.convert_dtype(DType::F32).try_into_vec().expect("just converted to f32")
    }

    /// The shape.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Parameter::Vector(t) => t.dims().to_vec(),
            Parameter::Matrix(t) => t.dims().to_vec(),
        }
    }
}

/// The embedding's name.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";

/// Name and shape of every parameter of a configuration, in checkpoint order.
pub(crate) fn shapes(config: &Qwen2Config, head: HeadKind) -> Vec<(String, Vec<usize>)> {
    let (h, f) = (config.hidden_size, config.intermediate_size);
    let q = config.num_attention_heads * config.head_dim;
    let kv = config.num_key_value_heads * config.head_dim;
    let mut all = vec![(EMBEDDING.to_string(), vec![config.vocab_size, h])];
    for layer in 0..config.num_hidden_layers {
        let mut add = |name: &str, shape: Vec<usize>| all.push((format!("model.layers.{layer}.{name}"), shape));
        add("input_layernorm.weight", vec![h]);
        for (name, width) in [("q_proj", q), ("k_proj", kv), ("v_proj", kv)] {
            add(&format!("self_attn.{name}.weight"), vec![width, h]);
            if config.attention_bias {
                add(&format!("self_attn.{name}.bias"), vec![width]);
            }
        }
        add("self_attn.o_proj.weight", vec![h, q]);
        add("post_attention_layernorm.weight", vec![h]);
        add("mlp.gate_proj.weight", vec![f, h]);
        add("mlp.up_proj.weight", vec![f, h]);
        add("mlp.down_proj.weight", vec![h, f]);
    }
    all.push(("model.norm.weight".into(), vec![h]));
    match head {
        HeadKind::Vocabulary if config.tie_word_embeddings => {}
        HeadKind::Vocabulary => all.push(("lm_head.weight".into(), vec![config.vocab_size, h])),
        HeadKind::Value => {
            all.push(("score.weight".into(), vec![1, h]));
            all.push(("score.bias".into(), vec![1]));
        }
    }
    all
}
