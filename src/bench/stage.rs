use burn::tensor::{Device, Distribution, Tensor};
use rlver_kernels::host::WeightFormat;

use super::generation::{Decode, Prefill};
use super::step::Steps;
use super::update::Update;
use super::{BenchError, ModelSource, Sample};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The device's matrix products, f32: what model FLOPs are compared with.
    Gemm,
    /// A prompt of 512 tokens, to the first sampled token.
    Prefill,
    /// 64 tokens for so many sequences side by side, after prompts of 128.
    Decode(usize),
    /// The same with the rollouts' weights in bf16.
    DecodeBf16(usize),
    /// Forward, backward, clipping and AdamW on 4 rows of 256 tokens.
    Update,
    /// 8 dialogues of up to 8 turns, then PPO with a critic: `rlver train`.
    Step,
    /// As `Update` on one dialogue of so many tokens.
    Dialogue(usize),
    /// As `Update` on so many tokens in dialogues of 512.
    Packed(usize),
}

/// Something that can be done again and again under the clock.
pub(super) trait Measured {
    fn once(&mut self) -> Result<Sample, BenchError>;
}

impl Stage {
    /// The stages of `rlver bench`, in order.
    pub const ALL: [Stage; 5] = [Stage::Prefill, Stage::Decode(1), Stage::Decode(8), Stage::Update, Stage::Step];

    /// How cost grows with the length of a dialogue, and with the number of tokens alone.
    pub fn scaling() -> Vec<Stage> {
        let lengths = [512, 1024, 2048, 4096, 8192];
        lengths.map(Stage::Packed).into_iter().chain(lengths.map(Stage::Dialogue)).collect()
    }

    /// Reads a stage's name.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn parse(name: &str) -> Result<Stage, BenchError> {
        let unknown = || BenchError::Stage(name.into());
        let count = |text: &str| text.parse().ok().filter(|n| (1..=65_536).contains(n)).ok_or_else(unknown);
        match name.split_once('-') {
            None => match name {
                "gemm" => Ok(Stage::Gemm),
                "prefill" => Ok(Stage::Prefill),
                "update" => Ok(Stage::Update),
                "step" => Ok(Stage::Step),
                _ => Err(unknown()),
            },
            Some(("decode", n)) => match n.strip_suffix("-bf16") {
                Some(n) => Ok(Stage::DecodeBf16(count(n)?)),
                None => Ok(Stage::Decode(count(n)?)),
            },
            Some(("dialogue", n)) => Ok(Stage::Dialogue(count(n)?)),
            Some(("packed", n)) => Ok(Stage::Packed(count(n)?)),
            Some(_) => Err(unknown()),
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Stage::Gemm => "gemm".into(),
            Stage::Prefill => "prefill".into(),
            Stage::Decode(rows) => format!("decode-{rows}"),
            Stage::DecodeBf16(rows) => format!("decode-{rows}-bf16"),
            Stage::Update => "update".into(),
            Stage::Step => "step".into(),
            Stage::Dialogue(tokens) => format!("dialogue-{tokens}"),
            Stage::Packed(tokens) => format!("packed-{tokens}"),
        }
    }

    pub(super) fn prepare(
        self,
        source: &ModelSource,
        device_name: &str,
        device: &Device,
    ) -> Result<Box<dyn Measured>, BenchError> {
        Ok(match self {
            Stage::Gemm => Box::new(Gemm::new(device)),
            Stage::Prefill => Box::new(Prefill::new(source.network(device)?)),
            Stage::Decode(rows) => Box::new(Decode::new(source.network(device)?, rows, WeightFormat::F32)),
            Stage::DecodeBf16(rows) => Box::new(Decode::new(source.network(device)?, rows, WeightFormat::Bf16)),
            Stage::Update => Box::new(Update::new(source.network(device)?, &[256; 4])?),
            Stage::Dialogue(tokens) => Box::new(Update::new(source.network(device)?, &[tokens])?),
            Stage::Packed(tokens) => {
                let rows: Vec<usize> = (0..tokens).step_by(512).map(|from| (tokens - from).min(512)).collect();
                Box::new(Update::new(source.network(device)?, &rows)?)
            }
            Stage::Step => Box::new(Steps::start(source, device_name, device)?),
        })
    }
}

/// Token ids that follow no pattern, below `vocabulary`.
pub(crate) fn ids(n: usize, seed: u64, vocabulary: usize) -> Vec<u32> {
    (0..n as u64).map(|i| (crate::seed::mix(&[seed, i]) % vocabulary as u64) as u32).collect()
}

/// Square matrix products; the fastest of several counts.
struct Gemm {
    a: Tensor<2>,
    b: Tensor<2>,
}

const GEMM_SIZE: usize = 1024;
const GEMM_TRIES: usize = 8;

impl Gemm {
    fn new(device: &Device) -> Gemm {
        let random = || Tensor::random([GEMM_SIZE, GEMM_SIZE], Distribution::Uniform(-1.0, 1.0), device);
        Gemm { a: random(), b: random() }
    }
}

impl Measured for Gemm {
    fn once(&mut self) -> Result<Sample, BenchError> {
        let mut best = f64::INFINITY;
        for _ in 0..GEMM_TRIES {
            let begun = std::time::Instant::now();
            let product = self.a.clone().matmul(self.b.clone());
            // Reading one number waits for all of them.
            let _ = product.slice([0..1, 0..1]).into_data();
            best = best.min(begun.elapsed().as_secs_f64());
        }
        let mut sample = Sample::new(best, 0);
        sample.note("flops", 2.0 * (GEMM_SIZE as f64).powi(3));
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for stage in Stage::ALL.into_iter().chain(Stage::scaling()).chain([Stage::Gemm, Stage::DecodeBf16(8)]) {
            assert_eq!(Stage::parse(&stage.name()).unwrap(), stage);
        }
        assert!(Stage::parse("decode-0").unwrap_err().to_string().contains("decode-8"));
    }
}
