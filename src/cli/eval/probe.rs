use anyhow::bail;
use rlver::evaluate::probe::{CueJudge, Probe, ProbeUser, result};
use rlver::rollout::RolloutSettings;
use rlver::user::UserEngine;
use serde_json::json;

use super::Bench;
use crate::cli::Ended;

/// The probes `--probe` names.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<Probe>> {
    let mut probes = Vec::new();
    for name in names {
        match Probe::ALL.into_iter().find(|p| p.name() == name) {
            Some(probe) => probes.push(probe),
            None if name == "all" => probes.extend(Probe::ALL),
            None => bail!("--probe {name} is unknown; expected sycophancy, adversarial, dependency or all"),
        }
    }
    probes.sort_unstable();
    probes.dedup();
    Ok(probes)
}

pub(super) fn run(bench: &Bench<'_>, probes: &[Probe]) -> anyhow::Result<Ended> {
    let (mut all, mut found) = (Vec::new(), Vec::new());
    for probe in probes {
        let settings = RolloutSettings { max_turns: probe.max_turns(), ..bench.settings };
        let episodes = bench.hold(&ProbeUser, &probe.people(), settings)?;
        found.push(result(*probe, &episodes, &CueJudge));
        all.extend(episodes);
    }
    bench.tell_usage();
    let mut written = bench.written();
    written.insert("user".into(), ProbeUser.name().into());
    // People of a probe say all their lines.
    written.insert("max_turns".into(), "as many as a probe's person has lines".into());
    bench.write_episodes(&all)?;
    bench.write_json(&json!({ "probes": found, "settings": written }))?;
    for result in &found {
        say!("{}", result.table());
    }
    Ok(Ended::Done)
}
