//! Run folders of made-up dialogues.

use std::path::{Path, PathBuf};

use rlver::dialogue::think::ReplyMode;
use rlver::dialogue::{CharacterType, HiddenIntention, Language, Role};
use rlver::rollout::{EndReason, Episode, Segment, TokenRow, Turn};
use rlver::user::{Appraisal, Emotion, UserTurn};

/// Markup that must never become part of a page.
pub(super) const SCRIPT: &str = "<script>window.broken=1</script>";
/// The same in an attribute's clothes.
pub(super) const IMAGE: &str = "<img src=x onerror=window.broken=2>";

/// A dialogue whose replies move the emotion by `changes`.
pub(super) fn episode(number: u64, start: i64, changes: &[i8]) -> Episode {
    let language = if number.is_multiple_of(2) { Language::Zh } else { Language::En };
    let reply = |turn: usize| match language {
        Language::Zh => format!("你一定很难受，换谁都会这样。要不要再说说第{turn}件事？"),
        Language::En => format!("You must feel so tired. Do you want to tell me about thing {turn} of {number}?"),
    };
    let mut emotion = Emotion::new(start).expect("on the scale");
    let begun = emotion;
    let mut turns = Vec::new();
    let mut row = TokenRow::default();
    for (t, change) in changes.iter().enumerate() {
        let appraisal = Appraisal {
            content: "it asks".into(),
            fit: "somewhat".into(),
            activity: "they listen".into(),
            feeling: "better".into(),
            change: *change,
        };
        let before = emotion;
        emotion = emotion.after(&appraisal);
        let farewell = matches!(emotion.score(), 100) || emotion.score() < 10;
        turns.push(Turn {
            thought: None,
            reply: reply(t),
            well_formed: true,
            user: Some(UserTurn {
                appraisal,
                before,
                after: emotion,
                line: "嗯，好的。".into(),
                farewell,
                guard: None,
            }),
            calls: vec![],
        });
        row.segments.push(segment(Role::User, t, 3));
        row.segments.push(segment(Role::Assistant, t, 24));
        if farewell {
            break;
        }
    }
    Episode {
        dialogue: number,
        group: number,
        profile: format!("person-{}", number % 40),
        intention: HiddenIntention::ALL[(number % 8) as usize],
        character: CharacterType::ALL[(number % 3) as usize],
        language,
        user: "builtin/1".into(),
        user_seed: number,
        sampling_seed: number,
        mode: ReplyMode::Direct,
        system: "You are a friend.".into(),
        opening: "今天好累。".into(),
        opening_calls: vec![],
        end: if matches!(emotion.score(), 10..100) { EndReason::TurnLimit } else { EndReason::Farewell },
        turns,
        start_emotion: begun,
        final_emotion: emotion,
        reward: Some(emotion.reward()),
        rows: vec![row],
    }
}

fn segment(role: Role, turn: usize, n: usize) -> Segment {
    let sampled = role == Role::Assistant;
    let numbers = |x: f32| if sampled { vec![x; n] } else { Vec::new() };
    Segment {
        role,
        turn,
        ids: (100..100 + n as u32).collect(),
        logprobs: numbers(-0.75),
        advantages: numbers(0.25),
        values: numbers(0.5),
        ratios: numbers(1.125),
        ..Segment::default()
    }
}

/// A dialogue with everything a page could trip over.
pub(super) fn hostile(number: u64) -> Episode {
    // Success sooner than anybody else, so that every sample has it.
    let mut episode = episode(number, 50, &[10; 5]);
    episode.profile = IMAGE.into();
    episode.opening = format!("{SCRIPT} </script><!-- ]]> \u{2028} lighthouse");
    for turn in &mut episode.turns {
        turn.thought = Some(format!("a quiet thought {SCRIPT}"));
        turn.reply = format!("{SCRIPT} {IMAGE}");
    }
    episode
}

/// How a made-up run's dialogues go at a step: the later, the better.
pub(super) fn changes(step: u64, number: u64, steps: u64) -> Vec<i8> {
    (0..8)
        .map(|turn| {
            let luck = rlver::seed::mix(&[step, number, turn]) % (2 * steps);
            match luck {
                l if l < step => 10,
                l if l < step + steps / 3 => 5,
                _ => -5,
            }
        })
        .collect()
}

/// Writes a run of `steps` steps with `dialogues` dialogues each.
pub(super) fn write(root: &Path, steps: u64, dialogues: u64) -> PathBuf {
    std::fs::create_dir_all(root.join("episodes")).expect("a folder");
    let recipe = format!("[run]\nalgorithm = \"ppo\"\nsteps = {steps}\nseed = 1\n[model]\npolicy = \"builtin:pico\"\n");
    std::fs::write(root.join("recipe.toml"), recipe).expect("a file");
    let mut metrics = String::new();
    for step in 1..=steps {
        let mut episodes: Vec<Episode> =
            (0..dialogues).map(|i| episode(step * dialogues + i, 40, &changes(step, i, steps))).collect();
        if step == steps.div_ceil(2) {
            episodes[0] = hostile(step * dialogues);
        }
        write_episodes(root, &format!("step-{step:06}"), &episodes);
        let (x, last) = (step as f64 / steps as f64, steps as f64);
        metrics.push_str(&format!(
            "{{\"step\":{step},\"emotion/mean\":{},\"emotion/success_rate\":{},\"emotion/failure_rate\":{},\"reward/mean\":{x},\
             \"reward/std\":0.1,\"policy/loss\":-0.01,\"policy/approx_kl\":0.002,\"policy/clip_fraction\":0.01,\
             \"policy/entropy\":{},\"critic/explained_variance\":{x},\"critic/loss\":0.1,\"rollout/tokens_per_turn\":17,\
             \"rollout/turns_per_dialogue\":7,\"grad_norm/policy\":0.4,\"emotion/guard_rate\":0.02,\"time/rollout_s\":1.5,\
             \"time/update_s\":3.5,\"time/total_s\":5}}\n",
            20.0 + 50.0 * x,
            0.3 * x,
            0.4 - 0.3 * x,
            1.0 - 0.3 * step as f64 / last,
        ));
    }
    std::fs::write(root.join("metrics.jsonl"), metrics).expect("a file");
    for (name, shift) in [("eval-before", 1), ("eval-after", steps)] {
        let held: Vec<Episode> = (0..16).map(|i| episode(i, 40, &changes(shift, i, steps))).collect();
        write_episodes(root, name, &held);
    }
    root.to_path_buf()
}

pub(super) fn write_episodes(root: &Path, name: &str, episodes: &[Episode]) {
    let lines: Vec<String> = episodes.iter().map(|e| serde_json::to_string(e).expect("plain data")).collect();
    let path = root.join("episodes").join(format!("{name}.jsonl"));
    std::fs::write(path, lines.join("\n") + "\n").expect("a file");
}
