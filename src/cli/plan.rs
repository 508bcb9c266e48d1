use std::path::PathBuf;

use rlver::device::DeviceChoice;
use rlver::plan::{self, RunPlan};
use rlver::recipe::Recipe;

use super::Ended;

/// `rlver plan`: what a recipe will need, before anything is loaded.
///
/// Memory by part, tokens and time per step, disk, and whether it fits; if not, which keys to change. Times come from ten
/// seconds of computing on the device. A Hugging Face id that is not here yet is downloaded first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recipe file.
    recipe: PathBuf,
    /// Override a key: `section.key=value` (the section may be left out where the key is unique).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where to compute; overrides `run.device`.
    #[arg(long)]
    device: Option<String>,
    /// Do not measure this device; times are left out.
    #[arg(long)]
    no_calibration: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let mut set = args.set;
    set.extend(args.device.map(|device| format!("run.device=\"{device}\"")));
    let recipe = Recipe::load(&args.recipe, &set)?;
    let calibration = if args.no_calibration {
        None
    } else {
        super::tell("measuring this device for ten seconds (--no-calibration leaves it out)");
        let device = DeviceChoice::parse(&recipe.run.device).map_err(anyhow::Error::msg)?.open();
        Some(plan::calibrate(&recipe, &plan::networks(&recipe)?, &device)?)
    };
    let plan = RunPlan::new(&recipe, calibration.as_ref())?;
    if args.json {
        say!("{:#}", serde_json::to_value(&plan)?);
    } else {
        say!("{}", plan.text(&args.recipe).trim_end());
    }
    Ok(Ended::Done)
}
