use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use rlver::device::DeviceChoice;
use rlver::train::load_network;
use rlver_models::qwen2::{Packed, Qwen2};
use serde::{Deserialize, Serialize};

use super::Ended;

/// `rlver score`: teacher-forced log-probabilities of given tokens.
///
/// Reads one JSON object a line, `{"ids": […]}`, and writes one a line, `{"logprobs": […], "entropy": […]}`: natural
/// logarithms in f32 for positions 1 … n−1. Needs `config.json` and weights only.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model: `builtin:pico`, a folder or a Hugging Face id.
    #[arg(long)]
    model: String,
    /// File of token ids, `-` for standard input.
    #[arg(long)]
    tokens: PathBuf,
    /// Temperature the logits are divided by.
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// Where to compute.
    #[arg(long, default_value = "flex")]
    device: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    ids: Vec<u32>,
}

#[derive(Serialize)]
struct Output {
    logprobs: Vec<f32>,
    entropy: Vec<f32>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    if !(args.temperature > 0.0 && args.temperature.is_finite()) {
        bail!("--temperature {} must be a number above 0", args.temperature);
    }
    let device = DeviceChoice::parse(&args.device).map_err(anyhow::Error::msg)?.open();
    let model = load_network(&args.model, "", &device)?;
    let name = args.tokens.display().to_string();
    let input: Box<dyn BufRead> = if name == "-" {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        let file = std::fs::File::open(&args.tokens).with_context(|| format!("cannot read {name}"))?;
        Box::new(BufReader::new(file))
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (index, line) in input.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let Input { ids } = serde_json::from_str(&line)
            .with_context(|| format!("{name}, line {}: expected {{\"ids\": [token ids]}}", index + 1))?;
        let scored = score(&model, &ids, args.temperature).with_context(|| format!("{name}, line {}", index + 1))?;
        serde_json::to_writer(&mut out, &scored)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(Ended::Done)
}

fn score(model: &Qwen2, ids: &[u32], temperature: f32) -> anyhow::Result<Output> {
    if ids.len() < 2 {
        return Ok(Output { logprobs: Vec::new(), entropy: Vec::new() });
    }
    let (context, targets) = (&ids[..ids.len() - 1], &ids[1..]);
    let hidden = model.forward(&Packed::new([context]))?;
    let scored = model.logprob(hidden, targets, temperature, model.config().vocab_size)?;
    let read = |t: burn::tensor::Tensor<1>| t.into_data().try_into_vec::<f32>().context("f32 results");
    Ok(Output { logprobs: read(scored.logprob)?, entropy: read(scored.entropy)? })
}
