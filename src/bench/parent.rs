//! The parent's side: children, one at a time, taking turns with one that measures matrix products.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::report::{Report, StageReport};
use super::{BenchError, ModelSource, Sample, Stage, load_average};

/// What to measure.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The program, which serves with `bench --serve`.
    pub program: PathBuf,
    /// The network.
    pub source: &'a ModelSource,
    /// The device's name.
    pub device: String,
    /// The stages.
    pub stages: Vec<Stage>,
    /// Timed runs of each.
    pub repeats: usize,
}

/// Measures every stage in a process of its own; `progress` hears what is being done.
///
/// # Errors
/// When a child cannot be started or fails; its own message stands on standard error.
pub fn measure(plan: &Plan<'_>, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    let config = plan.source.config()?;
    let mut report = Report::new(plan.source, &config, &plan.device);
    report.load_before = load_average();
    let mut gemm = Worker::start(plan, Stage::Gemm)?;
    for &stage in &plan.stages {
        progress(&format!("{}: preparing", stage.name()));
        let mut worker = Worker::start(plan, stage)?;
        let (mut samples, mut peaks) = (Vec::new(), Vec::new());
        for run in 1..=plan.repeats {
            progress(&format!("{}: run {run} of {}", stage.name(), plan.repeats));
            // Whatever disturbs the stage disturbs the peak it is compared with.
            let product = gemm.once()?;
            peaks.push(product.parts.get("flops").copied().unwrap_or(0.0) / product.seconds);
            samples.push(worker.once()?);
        }
        let peak_rss = worker.finish()?;
        report.stages.push(StageReport::new(stage, &samples, &peaks, peak_rss, &config));
    }
    gemm.finish()?;
    report.load_after = load_average();
    Ok(report)
}

struct Worker {
    stage: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(plan: &Plan<'_>, stage: Stage) -> Result<Worker, BenchError> {
        let stage = stage.name();
        let failed =
            |e: std::io::Error| BenchError::Child { stage: stage.clone(), problem: format!("cannot start: {e}") };
        let mut command = Command::new(&plan.program);
        command.args(["bench", "--serve", "--stage", &stage, "--device", &plan.device]);
        match plan.source {
            ModelSource::Shape(shape) => command.args(["--shape", &shape.name]),
            ModelSource::Checkpoint(name) => command.args(["--model", name]),
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped above"));
        let mut worker = Worker { stage, child, input, output };
        worker.hear()?;
        Ok(worker)
    }

    fn once(&mut self) -> Result<Sample, BenchError> {
        if let Some(input) = &mut self.input {
            // A child that is gone is noticed when it does not answer.
            let _ = input.write_all(b"\n").and_then(|()| input.flush());
        }
        let heard = self.hear()?;
        serde_json::from_value(heard).map_err(|e| self.broken(format!("gave no sample: {e}")))
    }

    /// Ends the child; its peak of memory in bytes.
    fn finish(mut self) -> Result<Option<u64>, BenchError> {
        self.input = None;
        let peak = self.hear()?["peak_rss_bytes"].as_u64();
        let status = self.child.wait().map_err(|e| self.broken(format!("did not end: {e}")))?;
        if status.success() { Ok(peak) } else { Err(self.broken(format!("ended with {status}"))) }
    }

    fn hear(&mut self) -> Result<Value, BenchError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|e| self.broken(format!("cannot be heard: {e}")))?;
        if read == 0 {
            let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
            return Err(self.broken(format!("stopped ({status}); its message is above")));
        }
        serde_json::from_str(&line).map_err(|e| self.broken(format!("said {line:?}: {e}")))
    }

    fn broken(&self, problem: String) -> BenchError {
        BenchError::Child { stage: self.stage.clone(), problem }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without effect on a child that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
