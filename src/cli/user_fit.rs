use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rlver::dialogue::{Language, ProfileSet};
use rlver::user::judge::figures::{Compared, Figures, intervals};
use rlver::user::judge::fit::robust::earned;
use rlver::user::judge::fit::{Held, Material, common, pairs};
use rlver::user::judge::recorded::Recorded;
use serde_json::json;

use super::Ended;

/// `rlver user fit`: fits the calibrated built-in user to recorded judgements.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files of recorded dialogues with emotions (SAGE records), of several reply models.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    transcripts: Vec<PathBuf>,
    /// The profiles the dialogues were held with (published RLVER JSONL).
    #[arg(long)]
    profiles: PathBuf,
    /// The weights to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also cross-validate, with profiles and reply models held out together and with profiles alone, and write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    figures: Option<PathBuf>,
    /// Also leave each family of edits out of the gate's fit in turn, and write what edits of unseen good replies earn as JSON.
    #[arg(long, value_name = "FILE")]
    robustness: Option<PathBuf>,
    /// Also write the lists of what is common in such talk to this folder. They are built into the program (`assets/judge`):
    /// build it again, then fit again.
    #[arg(long, value_name = "FOLDER")]
    common: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let profiles = ProfileSet::load(&args.profiles)?;
    let mut dialogues = Vec::new();
    for path in &args.transcripts {
        dialogues.extend(super::judge::read(path, Some(&profiles))?);
    }
    let scored = dialogues.iter().filter(|d| d.turns.iter().any(|t| t.emotion.is_some())).count();
    anyhow::ensure!(scored > 0, "none of the {} dialogues has recorded emotions to fit to", dialogues.len());
    let people = ProfileSet::builtin_train();
    if let Some(folder) = &args.common {
        let lists = Language::ALL.map(|l| (format!("common.{l}.txt"), common(&dialogues, &people, l)));
        for (name, list) in lists.into_iter().chain([("pairs.zh.txt".into(), pairs(&dialogues))]) {
            let path = folder.join(name);
            std::fs::write(&path, list).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let material = Material::read(&dialogues, &people)?;
    let weights = material.fit();
    std::fs::write(&args.out, serde_json::to_string(&weights)? + "\n")
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    say!("{} dialogues; weights in {}", dialogues.len(), args.out.display());
    if let Some(path) = &args.robustness {
        robustness(&material, &dialogues, path)?;
    }
    let Some(path) = &args.figures else { return Ok(Ended::Done) };
    let both = cross_validated(&material, &dialogues, Held::ProfilesAndModels)?;
    say!("\nThe same with the person unseen and the reply model seen:");
    let profiles_only = cross_validated(&material, &dialogues, Held::Profiles)?;
    let result = json!({ "profiles_and_models_unseen": both, "profiles_unseen": profiles_only });
    std::fs::write(path, serde_json::to_string_pretty(&result)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Ended::Done)
}

/// Cross-validates, prints the figures and returns them.
fn cross_validated(material: &Material, dialogues: &[Recorded], held: Held) -> anyhow::Result<serde_json::Value> {
    let bar = indicatif::ProgressBar::new(0);
    let judged = material.cross_validate(dialogues, held, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let mut guards: BTreeMap<&str, usize> = BTreeMap::new();
    for guard in judged.iter().filter_map(|(_, guard)| *guard) {
        *guards.entry(guard.name()).or_default() += 1;
    }
    let compared: Vec<Compared> = judged.into_iter().map(|(compared, _)| compared).collect();
    let figures = Figures::of(&compared).context("no recorded change was compared")?;
    let intervals = intervals(&compared);
    let result = json!({ "figures": figures, "intervals": {
        "teacher_forced": intervals[0], "free_running": intervals[1], "reply_only": intervals[2],
        "state_only": intervals[3], "teacher_forced_minus_state_only": intervals[4],
    }, "false_alarms": guards });
    super::judge::agreement(&figures, &intervals);
    let refused: usize = guards.values().sum();
    say!("\n{refused} of {} recorded replies refused by a guard", compared.len());
    for (guard, n) in guards {
        say!("  {guard:<28}{n:>6}");
    }
    Ok(result)
}

/// Edits of good replies whose profile and reply model the judge has not seen: with all families in the gate's fit, and
/// each with a gate that has not seen the family.
fn robustness(material: &Material, dialogues: &[Recorded], path: &Path) -> anyhow::Result<()> {
    let unseen: Vec<&Recorded> =
        dialogues.iter().zip(Material::held_out(dialogues)).filter(|(_, out)| *out).map(|(d, _)| d).collect();
    let judge = material.judge_without_a_cell();
    let (originals, with) = earned(&judge, &unseen, EDITED, 1);
    let mut families = serde_json::Map::new();
    say!("\n{:<20}{:>10}{:>16}{:>12}", "edit", "raises", "family unseen", "above");
    say!("{:<20}{:>10.3}", "(none)", originals.rate());
    for (family, seen) in with {
        let without = earned(&material.without_family(&judge, family), &unseen, EDITED, 1).1[&family];
        let name = format!("{family:?}");
        say!("{name:<20}{:>10.3}{:>16.3}{:>12}", seen.rate(), without.rate(), seen.above);
        families.insert(name, json!({ "seen": seen, "unseen": without }));
    }
    let result = json!({ "original": originals, "families": families });
    std::fs::write(path, serde_json::to_string_pretty(&result)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Good replies that are edited.
const EDITED: usize = 200;
