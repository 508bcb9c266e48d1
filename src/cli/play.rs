use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use rlver::dialogue::{Profile, ProfileSet};
use rlver::user::{Appraisal, Band, Emotion, SessionSettings, UserTurn};

use super::Ended;

/// `rlver play`: be the supporter yourself, with the emotion meter: the quickest way to judge a simulated user.
///
/// `/why` tells how the last reply was taken, `/who` shows the persona, `/scene` all of the scene (what helps and what they
/// want, too), `/quit` or Ctrl-D ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the person to talk with; `list` shows whom there is.
    #[arg(long)]
    profile: String,
    /// Profiles (published RLVER JSONL); by default the built-in ones, training and held-out.
    #[arg(long)]
    profiles: Option<PathBuf>,
    /// The simulated user: `builtin`, `builtin:calibrated`, `llm:KEY=VALUE,…` with keys of `[llm]`, `replay:RUN`, or
    /// a recipe file.
    #[arg(long, default_value = "builtin")]
    user: String,
    /// Where a model in this process computes: flex, cuda[:n], vulkan, wgpu or cpu.
    #[arg(long, default_value = "flex")]
    device: String,
    /// Tell after every reply how it was taken.
    #[arg(long)]
    appraisal: bool,
    /// Emotion the dialogue starts with.
    #[arg(long, default_value_t = 40)]
    start_emotion: u8,
    /// Most replies.
    #[arg(long, default_value_t = 10)]
    max_turns: usize,
    /// Seed of the user's choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let sets = match &args.profiles {
        Some(path) => vec![ProfileSet::load(path)?],
        None => vec![ProfileSet::builtin_train(), ProfileSet::builtin_heldout()],
    };
    if args.profile == "list" {
        for profile in sets.iter().flat_map(ProfileSet::iter) {
            say!("{:<18} {} {:<9} {}", profile.id, profile.language(), profile.character(), about(profile));
        }
        return Ok(Ended::Done);
    }
    let profile = find(&sets, &args.profile)?;
    let start = super::eval::start_emotion(args.start_emotion)?;
    anyhow::ensure!(args.max_turns > 0, "--max-turns must be at least 1");
    let users = super::user::open_users(&args.user, &args.device)?;
    let mut session = users.open(profile.clone(), SessionSettings { start, seed: args.seed });
    say!("You are the supporter of a simulated person, {}. (/why /who /scene /quit)\n", users.name());
    say!("{}\n", session.opening()?);
    say!("{}", meter(start, None));
    let stdin = std::io::stdin();
    let interactive = stdin.is_terminal();
    let mut last: Option<UserTurn> = None;
    let mut replies = 0;
    while replies < args.max_turns {
        if interactive {
            super::print(format_args!("you> "));
        }
        let mut line = String::new();
        if stdin.lock().read_line(&mut line).context("cannot read standard input")? == 0 {
            break;
        }
        match line.trim() {
            "" => continue,
            "/quit" | "/exit" => break,
            "/who" => say!("{}", profile.player.trim()),
            "/scene" => say!("{}", profile.scene.trim()),
            "/why" => match &last {
                Some(turn) => say!("{}", why(&turn.appraisal, turn.guard.as_deref())),
                None => say!("(nothing was said yet)"),
            },
            command if command.starts_with('/') => say!("(commands: /why /who /scene /quit)"),
            reply => {
                let turn = session.respond(reply)?;
                replies += 1;
                if args.appraisal {
                    say!("{}", why(&turn.appraisal, turn.guard.as_deref()));
                }
                say!("\n{}\n", turn.line);
                say!("{}", meter(turn.after, Some(i32::from(turn.after.score()) - i32::from(turn.before.score()))));
                let farewell = turn.farewell;
                last = Some(turn);
                if farewell {
                    break;
                }
            }
        }
    }
    let end = match session.emotion().band() {
        Band::S => "They leave content: a success.",
        Band::F => "They gave up on you: a failure.",
        _ => "The talk ends here.",
    };
    say!("\n{end} Emotion {} after {replies} replies.", session.emotion());
    say!("What they secretly wanted: {}", profile.task);
    Ok(Ended::Done)
}

fn find(sets: &[ProfileSet], id: &str) -> anyhow::Result<Arc<Profile>> {
    if let Some(profile) = sets.iter().flat_map(ProfileSet::iter).find(|p| p.id == id) {
        return Ok(profile.clone());
    }
    let known = sets.iter().flat_map(ProfileSet::iter).map(|p| p.id.as_str());
    match known.max_by(|a, b| strsim::jaro_winkler(a, id).total_cmp(&strsim::jaro_winkler(b, id))) {
        Some(near) => bail!("there is no profile {id}; did you mean {near}? `--profile list` shows all"),
        None => bail!("there is no profile {id}"),
    }
}

fn about(profile: &Profile) -> String {
    let text: String = profile.player.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(60).collect()
}

/// `[██████░░░░░░░░░░░░░░] 30 C  +5`.
fn meter(emotion: Emotion, change: Option<i32>) -> String {
    let full = usize::from(emotion.score()) / 5;
    let change = change.map(|c| format!("  {c:+}")).unwrap_or_default();
    format!("[{}{}] {emotion} {:?}{change}", "█".repeat(full), "░".repeat(20 - full), emotion.band())
}

fn why(appraisal: &Appraisal, guard: Option<&str>) -> String {
    let a = appraisal;
    let guard = guard.map(|g| format!("\n  guard     {g}")).unwrap_or_default();
    format!(
        "  content   {}\n  fit       {}\n  activity  {}\n  feeling   {}\n  change    {:+}{guard}",
        a.content, a.fit, a.activity, a.feeling, a.change
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_is_twenty_steps_long() {
        assert_eq!(meter(Emotion::new(30).unwrap(), Some(-5)), "[██████░░░░░░░░░░░░░░] 30 C  -5");
        assert_eq!(meter(Emotion::new(100).unwrap(), None), "[████████████████████] 100 S");
    }
}
