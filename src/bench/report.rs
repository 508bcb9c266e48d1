use rlver_models::qwen2::Qwen2Config;
use serde::Serialize;

use super::{Flops, ModelSource, Sample, Stage};

/// The middle of several numbers and how far they spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Least.
    pub low: f64,
    /// Largest.
    pub high: f64,
}

impl Spread {
    /// Of numbers; `None` of none.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Spread { median, low, high })
    }
}

/// What a stage came to.
#[derive(Debug, Serialize)]
pub struct StageReport {
    /// The stage.
    pub stage: String,
    /// Tokens of the batch in the last run.
    pub tokens: usize,
    /// Wall time of each run.
    pub seconds: Vec<f64>,
    /// verl's throughput: tokens of the batch over the time of the step and the number of devices, which is one.
    pub tokens_per_s: Option<Spread>,
    /// Of a whole step, as NeMo reports it: sampled tokens over the time of the rollout.
    pub rollout_tokens_per_s: Option<Spread>,
    /// Of a whole step: tokens of the batch over the time of everything behind the rollout; the trainer alone.
    pub trainer_tokens_per_s: Option<Spread>,
    /// Model FLOP/s over the matrix products' FLOP/s that were measured in turn.
    pub model_flop_utilisation: Option<Spread>,
    /// The matrix products' GFLOP/s beside this stage.
    pub gemm_gflops: Option<Spread>,
    /// Most memory the stage's process ever held.
    pub peak_rss_bytes: Option<u64>,
    /// Whatever else the last run said of itself.
    pub parts: std::collections::BTreeMap<String, f64>,
}

impl StageReport {
    pub(super) fn new(
        stage: Stage,
        samples: &[Sample],
        peaks: &[f64],
        peak_rss_bytes: Option<u64>,
        config: &Qwen2Config,
    ) -> StageReport {
        let rate = |tokens: &dyn Fn(&Sample) -> Option<f64>, seconds: &dyn Fn(&Sample) -> Option<f64>| {
            Spread::of(samples.iter().filter_map(|s| Some(tokens(s)? / seconds(s)?)).collect())
        };
        let part = |name: &'static str| move |s: &Sample| s.parts.get(name).copied();
        let used = samples.iter().zip(peaks).filter_map(|(s, peak)| Some(flops(stage, s, config)? / s.seconds / peak));
        StageReport {
            stage: stage.name(),
            tokens: samples.last().map_or(0, |s| s.tokens),
            seconds: samples.iter().map(|s| s.seconds).collect(),
            tokens_per_s: rate(&|s| Some(s.tokens as f64), &|s| Some(s.seconds)),
            rollout_tokens_per_s: rate(&part("rollout/tokens"), &part("time/rollout_s")),
            trainer_tokens_per_s: rate(&|s| Some(s.tokens as f64), &part("time/update_s")),
            model_flop_utilisation: Spread::of(used.collect()),
            gemm_gflops: Spread::of(peaks.iter().map(|p| p / 1e9).collect()),
            peak_rss_bytes,
            parts: samples.last().map(|s| s.parts.clone()).unwrap_or_default(),
        }
    }
}

/// Model FLOPs of a run; `None` for stages whose work is not known beforehand.
fn flops(stage: Stage, sample: &Sample, config: &Qwen2Config) -> Option<f64> {
    let flops = Flops::of(config);
    let n = sample.tokens;
    match stage {
        Stage::Prefill => Some(flops.prefill(n)),
        // Prompts of 128, on average half of the 64 new tokens more.
        Stage::Decode(_) | Stage::DecodeBf16(_) => Some(n as f64 * flops.decode(160.0)),
        Stage::Update => Some(4.0 * flops.update(n / 4)),
        Stage::Dialogue(_) => Some(flops.update(n)),
        Stage::Packed(_) => Some(n as f64 / n.min(512) as f64 * flops.update(n.min(512))),
        Stage::Gemm | Stage::Step => None,
    }
}

/// Everything measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program's version.
    pub rlver: &'static str,
    /// The network.
    pub model: String,
    /// Its parameters.
    pub parameters: usize,
    /// The device.
    pub device: String,
    /// Threads of the CPU device.
    pub threads: usize,
    /// Mean number of runnable processes before.
    pub load_before: Option<f64>,
    /// And after.
    pub load_after: Option<f64>,
    /// The stages.
    pub stages: Vec<StageReport>,
}

impl Report {
    pub(super) fn new(source: &ModelSource, config: &Qwen2Config, device: &str) -> Report {
        Report {
            rlver: env!("CARGO_PKG_VERSION"),
            model: source.name().into(),
            parameters: config.num_parameters(),
            device: device.into(),
            threads: rayon::current_num_threads(),
            load_before: None,
            load_after: None,
            stages: Vec::new(),
        }
    }

    /// As a table in Markdown.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{} ({:.1} M parameters) on {}, {} threads\n\n\
             | stage | tokens | tokens/s (low–high) | model FLOP utilisation | peak memory |\n|---|---|---|---|---|\n",
            self.model,
            self.parameters as f64 / 1e6,
            self.device,
            self.threads,
        );
        let number = |s: Option<Spread>| {
            s.map_or_else(|| "–".into(), |s| format!("{:.0} ({:.0}–{:.0})", s.median, s.low, s.high))
        };
        for stage in &self.stages {
            let used =
                stage.model_flop_utilisation.map_or_else(|| "–".into(), |s| format!("{:.0} %", s.median * 100.0));
            let peak = stage.peak_rss_bytes.map_or_else(|| "–".into(), |b| format!("{:.0} MB", b as f64 / 1e6));
            let (name, tokens) = (&stage.stage, stage.tokens);
            out += &format!("| {name} | {tokens} | {} | {used} | {peak} |\n", number(stage.tokens_per_s));
            if stage.rollout_tokens_per_s.is_some() {
                let sampled = stage.parts.get("rollout/tokens").copied().unwrap_or(0.0);
                out += &format!(
                    "| – rollout, sampled tokens | {sampled} | {} | | |\n",
                    number(stage.rollout_tokens_per_s)
                );
                out += &format!("| – trainer alone | {tokens} | {} | | |\n", number(stage.trainer_tokens_per_s));
            }
        }
        let gemm = Spread::of(self.stages.iter().filter_map(|s| s.gemm_gflops).map(|g| g.median).collect());
        out += &format!("\nmatrix products in turn with the stages: {} GFLOP/s\n", number(gemm));
        if let (Some(before), Some(after)) = (self.load_before, self.load_after) {
            out += &format!("load average {before} before, {after} after");
            if before > 1.0 {
                out += "; other programs were running, so the figures are too low";
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(Spread::of(vec![]), None);
    }
}
