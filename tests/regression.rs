//! One test per fault found so far, with what went wrong. Some faults are covered where the rule they broke is tested:
//!
//! - `rules::gradients`: rows of one dialogue that were not neighbours entered a mini-batch twice.
//! - `rules::advantages`: whitening moved groups that compare nothing away from advantage 0.
//! - `rules::scoring`: a step without any scored dialogue reported a mean emotion of 0.
//! - `rules::scoring`: a run stopped for unscored dialogues lost what it had learnt since its last checkpoint.
//! - `rules::reproduction`: a finished warm start left no checkpoint, so it could not be made longer.
//! - `cli`: a reader that went away (`rlver train … | head`) ended the process with a panic, and with it the run.
//! - `kernels`, `logprob::no_rows_give_no_numbers_and_no_gradient`: log-probabilities of no tokens at all panicked.
//! - `kernels`, `ppo::the_value_loss_reproduces_the_fixtures`: with a clip range so wide that it never holds, rounding
//!   counted as clipping.
//! - `cli::interrupt`: the command printed on Ctrl-C forgot the overrides the run was started with, and was refused.
//! - `cli::recipe`: `dual_clip = nan` passed the check, and `critic_warmup` without a critic was silently ignored.
//! - `rules::shaping`: a KL penalty in the reward was silently ignored by every estimator that compares whole dialogues.
//! - `kernels`, unit tests of `simd`: a product of one row, of few numbers, or of great depth took another path in the matrix
//!   library, so that sampled log-probabilities differed from the trainer's (`rules::sampling`, rule 6).
//! - `parity::adamw`, `wgpu` in a build with `fusion`: beside an empty tensor made by `zeros`, Burn's fusion layer computed nothing for
//!   tensors of one number, so that the moments of such a parameter were whatever had been in memory.
//! - `kernels`, `sum::half_precision_stays_what_it_is` in such a build: the same fault left the sum of an empty tensor unwritten.
//! - `judge::attacks`, `Debris`: policies trained against the calibrated user put the chat template's marks, broken characters and
//!   Chinese ones in English talk into their replies, and it did not mind.
//! - `judge::attacks`, `Misquoted`: the same policies quoted people with words in no order, and the user took it for listening.
//! - unit tests of `user::judge::quote`: words *to* the person ("I want to tell you: …") and words somebody might say were held
//!   against what the person had said, and cost honest replies their effect.
//! - unit tests of `user::judge::model`: the calibrated user was fitted again and kept its version, so that runs recorded with the
//!   earlier fit were audited as if their numbers were wrong.
//! - unit tests of `user::judge::fit::logistic`: the fit of the emotion model stopped far above its minimum, since its columns lie
//!   far from zero and the search scaled them all alike.
//! - `rules::shaping`: `gae-rlver` was given action tokens only, so that it computed the same as `gae`.

use std::sync::Arc;

use rlver::Error;
use rlver::dialogue::{Language, Profile, ProfileSet};
use rlver::recipe::Recipe;
use rlver::user::builtin::BuiltinUser;
use rlver::user::{Emotion, SessionSettings, UserEngine};

use crate::tiny::{self, Home};

/// A size of 0 passed the recipe's check and panicked when the configuration was built from it.
#[test]
fn sizes_of_zero_are_refused_with_the_recipe() {
    for key in ["hidden_size", "intermediate_size", "max_positions", "layers", "heads", "kv_heads"] {
        let set = [format!("sft.{key}=0")];
        let error = Recipe::parse("r.toml", "[run]\nalgorithm = \"sft\"", &set).unwrap_err().to_string();
        assert!(error.contains(&format!("sft.{key}")) || error.contains("sft.heads"), "{error}");
    }
}

/// Sizes that no machine holds went to the allocator, which ended the process.
#[test]
fn absurd_sizes_are_refused_with_the_recipe() {
    let huge = 1_000_000_000_000u64;
    for (algorithm, keys) in [
        ("sft", &["vocab_size", "layers", "hidden_size", "intermediate_size", "max_positions", "dialogues"][..]),
        ("ppo", &["rollout.n", "eval.seeds"]),
    ] {
        for key in keys {
            let key = if algorithm == "sft" { format!("sft.{key}") } else { (*key).to_string() };
            let text = format!("[run]\nalgorithm = \"{algorithm}\"");
            let error = Recipe::parse("r.toml", &text, &[format!("{key}={huge}")]).unwrap_err().to_string();
            assert!(error.contains(&key) && error.contains("at most"), "{error}");
        }
    }
}

/// "start the run without --resume" was the advice for a folder that then was refused because it exists.
#[test]
fn the_advice_for_a_folder_without_a_checkpoint_can_be_followed() {
    let home = Home::new();
    let run = home.path("run");
    std::fs::create_dir(&run).unwrap();
    let recipe = home.recipe("ppo", &[]);
    let error = tiny::train(&recipe, &run, tiny::FICKLE, true, None).unwrap_err();
    assert!(matches!(error, Error::NothingToResume(_)));
    let advice = error.to_string();
    assert!(advice.contains("remove") && advice.contains("--out"), "{advice}");
    let again = tiny::train(&recipe, &run, tiny::FICKLE, false, None).unwrap_err().to_string();
    assert!(again.contains("exists"), "{again}");
}

/// A context far beyond the model's positions asked for as much memory at once.
#[test]
fn a_huge_context_is_lowered_to_the_models() {
    let home = Home::new();
    let recipe = home.recipe("ppo", &["rollout.max_context=1000000000000", "run.steps=1"]);
    tiny::train(&recipe, &home.path("run"), tiny::FICKLE, false, None).unwrap();
}

/// The weight file came out readable for its owner only, so that nobody else could use the model.
#[cfg(unix)]
#[test]
fn weights_are_as_readable_as_the_configuration() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let mode = |name| std::fs::metadata(home.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("policy/model.safetensors"), mode("policy/config.json"));
}

/// Holds a dialogue with a person whose profile is as strange as the format allows.
fn talk(profile: Profile) {
    let line = serde_json::to_string(&profile).unwrap();
    let set = ProfileSet::parse("strange", &line).unwrap_or_else(|e| panic!("{e}"));
    let settings = SessionSettings { start: Emotion::new(50).unwrap(), seed: 3 };
    let mut user = BuiltinUser::new().open(set.get(0).clone(), settings);
    user.opening().unwrap();
    for reply in ["", " \n", "ok", "🙂", "\u{fffd}\u{0}\u{202e}", "你", &"a".repeat(5000), "<|im_end|>", "﷽ ÅÅ\u{301}"]
    {
        let turn = user.respond(reply).unwrap();
        assert_eq!(turn.after, turn.before.after(&turn.appraisal));
    }
}

/// An error whose message names its cause was printed with that cause a second time.
#[test]
fn a_cause_is_told_once() {
    let said = crate::cli::say(&["recipe", "check", "/"]);
    said.refused(&["cannot read recipe /"]);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
}

/// Nothing a profile file may hold can panic the built-in user.
#[test]
fn strange_people_can_be_talked_to() {
    let plain = ProfileSet::builtin_train();
    for language in [None, Some(Language::Zh), Some(Language::En)] {
        for text in
            [".", "。", "🙂", "a", "我", "#### 反应\n", "Name:", "姓名：", "…。！？", "x\u{301}", "** **", "\u{200b}x"]
        {
            for details in [vec![], plain.get(0).details.clone()] {
                let base = Arc::unwrap_or_clone(plain.get(5).clone());
                talk(Profile {
                    id: text.into(),
                    player: text.into(),
                    scene: text.into(),
                    cha_group: vec![],
                    first_talk: Some(text.into()),
                    language,
                    setting: None,
                    details: details.clone(),
                    ..base.clone()
                });
                let only_space = Some(" ".into());
                talk(Profile { scene: text.into(), first_talk: only_space, language, details, ..base });
            }
        }
    }
}

/// The fitted emotion model took whoever came first under an id for the person, also when a curriculum had changed the
/// persona since: what a reply was worth depended on who had been heard before.
#[test]
fn the_fitted_model_reads_the_person_it_is_given() {
    let reply = |language| match language {
        Language::Zh => "你说的房东、猫和那封信，我都听进去了，换了谁心里都不好受。",
        Language::En => "The landlord, the cat and that letter: I heard all of it, and anybody would be hurt.",
    };
    let appraisal = |users: &BuiltinUser, person: &Arc<Profile>| {
        let start = Emotion::new(50).unwrap();
        let mut session = users.open(person.clone(), SessionSettings { start, seed: 3 });
        session.opening().unwrap();
        session.respond(reply(person.language())).unwrap().appraisal
    };
    let mut told_apart = 0;
    for person in ProfileSet::builtin_train().iter() {
        let mut changed = Profile::clone(person);
        changed.player = format!("{}\n{}", changed.player, reply(person.language()));
        let changed = Arc::new(changed);
        let fresh = [person, &changed].map(|p| appraisal(&BuiltinUser::calibrated(), p));
        told_apart += usize::from(fresh[0] != fresh[1]);
        let users = BuiltinUser::calibrated();
        assert_eq!([person, &changed].map(|p| appraisal(&users, p)), fresh, "{}", person.id);
    }
    assert!(told_apart > 0, "the persona decides something");
}

/// Once a person's story was told, nothing they said counted as told any more: quoting it earned nothing, and a long dialogue
/// could only go down.
#[test]
fn people_whose_story_is_told_can_still_be_heard() {
    let banks = [
        (
            Language::Zh,
            include_str!("../assets/builtin_user/voice.zh.toml"),
            "你刚才说：",
            "我在听，你慢慢说，想说多久都可以。",
            ["这件事听着就不容易。", "你说的我都记下了。"],
        ),
        (
            Language::En,
            include_str!("../assets/builtin_user/voice.en.toml"),
            "You told me: ",
            "I am here and I am listening, take all the time you need.",
            ["This is not an easy thing.", "I took in all of that."],
        ),
    ];
    let (mut heard, mut pleased) = (0, 0);
    for (language, bank, opener, listening, neutral) in banks {
        let bank: toml::Table = bank.parse().unwrap();
        let more: Vec<&str> = bank["more"]["say"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
        for person in ProfileSet::builtin_train().iter().filter(|p| p.language() == language) {
            let mut brief = Profile::clone(person);
            brief.details.truncate(1);
            let settings = SessionSettings { start: Emotion::new(85).unwrap(), seed: 3 };
            let open = || BuiltinUser::new().open(Arc::new(brief.clone()), settings);
            let (mut quoted, mut unquoted) = (open(), open());
            let mut line = String::new();
            for user in [&mut quoted, &mut unquoted] {
                user.opening().unwrap();
                for reply in neutral {
                    line = user.respond(reply).unwrap().line;
                }
            }
            // Some hold back what they would have said; nothing can be quoted then.
            let Some(said) = more.iter().find(|m| line.contains(m.trim_end_matches(['.', '。']))) else { continue };
            let clause = said.split([',', '，', '。', '.']).next().unwrap();
            let with = quoted.respond(&format!("{opener}{clause}. {listening}")).unwrap().appraisal.change;
            let without = unquoted.respond(listening).unwrap().appraisal.change;
            assert!(with >= without, "{}: {with} with {clause:?} quoted, {without} without", person.id);
            heard += 1;
            pleased += usize::from(with > without);
        }
    }
    assert!(2 * pleased > heard, "only {pleased} of {heard} people cared to be heard");
    assert!(heard > 40, "only {heard} people said how things are now");
}

/// What a program had started went on after the program itself had ended, although the page on evaluation said otherwise.
#[cfg(unix)]
#[test]
fn what_a_finished_program_started_is_ended_with_it() {
    use rlver::evaluate::retention::{Case, CodeRunner};
    let folder = tempfile::tempdir().unwrap();
    let late = folder.path().join("late");
    let case: Case = serde_json::from_value(serde_json::json!({"input": "", "output": "8"})).unwrap();
    let runner = CodeRunner::new("sh {file}", std::time::Duration::from_secs(30)).unwrap();
    let program = format!("(sleep 1; echo > '{}') &\necho 8\n", late.display());
    assert_eq!(runner.run(&program, &[case]).unwrap(), [true]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(!late.exists(), "a child of the program outlived it");
}

/// Beyond 512 tokens the log-probabilities of generation were not the trainer's to the bit: for one or two keys behind a
/// multiple of 512 the library of matrix products rounded once less in a decoding step than in the trainer's larger
/// block, and later tokens inherited it through the cache.
#[test]
fn long_dialogues_get_the_sampled_logprobs_back_to_the_bit() {
    use rlver::train::{TrainRow, load_policy, score};
    use rlver_models::generate::{Engine, Sampler, SamplingSettings};

    let policy = load_policy("builtin:pico", "", &burn::tensor::Device::flex()).unwrap();
    let known = policy.vocabulary();
    let mut rows = Vec::new();
    for (seed, length) in [498, 505, 511, 1010].into_iter().enumerate() {
        let mut engine = Engine::new(&policy.model, known, 1, 1100);
        let row = engine.open().unwrap();
        engine.set_prompt(row, (0..length).map(|i| (i * 37 % 900 + 20) as u32).collect());
        engine.start_turn(row, Sampler::new(SamplingSettings::at(1.0), seed as u64), 40, &[]);
        let mut rollout_logprobs = Vec::new();
        while engine.is_busy() {
            rollout_logprobs.extend(engine.step().unwrap().iter().map(|sampled| sampled.logprob));
        }
        let ids = engine.ids(row).to_vec();
        let actions: Vec<usize> = (length..ids.len()).collect();
        let turn_ends = vec![(actions.len() - 1, 0)];
        rows.push(TrainRow { episode: seed, ids, actions, turn_ends, rollout_logprobs });
    }
    let scored = score(&policy.model, &rows, 1.0, known, 2000).unwrap();
    for (row, scored) in rows.iter().zip(&scored) {
        assert_eq!(row.rollout_logprobs.len(), 40);
        for (at, (a, b)) in row.rollout_logprobs.iter().zip(scored).enumerate() {
            assert_eq!(a.to_bits(), b.to_bits(), "token {at} behind {}: {a} {b}", row.actions[0]);
        }
    }
}

/// A run whose rollouts used bf16 weights failed its audit: nobody keeps those weights to compute with again.
#[test]
fn a_run_with_rounded_rollout_weights_passes_its_audit() {
    use rlver::audit::{AuditOptions, audit};
    let home = Home::new();
    crate::cli::train(&home, "run", &["rollout.weights=bf16", "objective.old_logprobs=recompute"]).well();
    let mut notes = Vec::new();
    let check = audit(&home.path("run"), AuditOptions::default(), &mut |_| {}, &mut |note| notes.push(note));
    let reports = check.unwrap();
    assert!(reports.iter().all(|r| r.logprobs == 0 && r.tokens > 0), "{reports:?}");
    assert!(notes.iter().any(|n| n.contains("bf16")), "{notes:?}");
}

/// On processors that the CPU's decoder has no code for, and with reference kernels, tokens were drawn from another stream of
/// random numbers, so that the same seed said other words.
#[test]
fn the_same_seed_draws_the_same_tokens_whoever_computes_the_logits() {
    let home = Home::new();
    let ids = |out: &str, kernels: &str| {
        crate::cli::train(&home, out, &["run.steps=1", &format!("run.kernels={kernels}")]).well();
        let text = std::fs::read_to_string(home.path(out).join("episodes/step-000001.jsonl")).unwrap();
        let replies = text.lines().map(|line| {
            let episode: serde_json::Value = serde_json::from_str(line).unwrap();
            episode["turns"].as_array().unwrap().iter().map(|turn| turn["reply"].to_string()).collect::<Vec<_>>()
        });
        replies.collect::<Vec<_>>()
    };
    let fused = ids("fused", "fused");
    assert!(fused.iter().any(|replies| replies.iter().any(|reply| reply.len() > 4)), "{fused:?}");
    assert_eq!(fused, ids("reference", "reference"));
}

/// Whole tensors are summed on GPUs by atomic additions in whatever order threads finish, so the norm that gradients are
/// clipped by, and with it every weight, differed in its last digit from one run to the next.
#[test]
fn on_wgpu_as_elsewhere_the_same_gradients_have_the_same_norm_every_time() {
    use rlver::train::GradientSum;
    use rlver_models::qwen2::{HeadKind, Packed};
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tests/fixtures/qwen2_tiny_untied");
    let device = tiny::test_device();
    let model = rlver_models::weights::load(&folder, HeadKind::Vocabulary, &device).unwrap().tracked();
    let ids: Vec<u32> = (0..24).map(|i| i * 7 % 50).collect();
    let hidden = model.forward(&Packed::new([ids.as_slice()])).unwrap();
    let targets: Vec<u32> = ids.iter().map(|id| (id + 3) % 50).collect();
    let logprob = model.logprob(hidden, &targets, 1.0, 50).unwrap().logprob;
    let mut gradients = GradientSum::default();
    gradients.add(&model, &mut logprob.sum().backward());
    let first = gradients.norm();
    assert!(first > 0.0);
    assert!((0..50).all(|_| gradients.norm().to_bits() == first.to_bits()));
}
