use rlver_models::qwen2::Qwen2Config;

/// Floating-point operations of a network by the usual count: two per weight of a matrix product and token, attention over
/// half the context on average, and twice the forward for a backward. Recomputation is not counted, so that it shows as
/// lower utilisation.
#[derive(Debug, Clone, Copy)]
pub struct Flops<'a> {
    config: &'a Qwen2Config,
}

impl<'a> Flops<'a> {
    /// Of a network.
    pub fn of(config: &'a Qwen2Config) -> Flops<'a> {
        Flops { config }
    }

    /// The blocks' matrix products for one token.
    fn blocks(self) -> f64 {
        let c = self.config;
        let (q, kv) = (c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim);
        let block = c.hidden_size * (2 * q + 2 * kv + 3 * c.intermediate_size);
        2.0 * (c.num_hidden_layers * block) as f64
    }

    /// The vocabulary projection for one token.
    fn head(self) -> f64 {
        2.0 * (self.config.vocab_size * self.config.hidden_size) as f64
    }

    /// Scores and mixing for one token that sees `context` others.
    fn attention(self, context: f64) -> f64 {
        let c = self.config;
        4.0 * (c.num_hidden_layers * c.num_attention_heads * c.head_dim) as f64 * context
    }

    /// A prompt, and logits for its last token.
    pub fn prefill(self, tokens: usize) -> f64 {
        let n = tokens as f64;
        n * (self.blocks() + self.attention(n / 2.0)) + self.head()
    }

    /// One sampled token after `context` others.
    pub fn decode(self, context: f64) -> f64 {
        self.blocks() + self.attention(context) + self.head()
    }

    /// Forward and backward of a row of `tokens` tokens, all of which are trained on.
    pub fn update(self, tokens: usize) -> f64 {
        let n = tokens as f64;
        3.0 * n * (self.blocks() + self.attention(n / 2.0) + self.head())
    }
}

#[cfg(test)]
mod tests {
    use rlver_models::qwen2::Qwen2Shape;

    use super::*;

    #[test]
    fn a_token_costs_two_operations_per_weight() {
        let config = Qwen2Config::new(Qwen2Shape {
            vocab_size: 100,
            hidden_size: 8,
            intermediate_size: 16,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            max_positions: 8,
        });
        // q and o 8·8, k and v 8·4, three matrices 8·16, the head 100·8.
        let weights = 2 * 64 + 2 * 32 + 3 * 128 + 800;
        assert_eq!(Flops::of(&config).decode(0.0), 2.0 * f64::from(weights));
        assert_eq!(Flops::of(&config).decode(10.0) - Flops::of(&config).decode(0.0), 4.0 * 8.0 * 10.0);
    }
}
