//! Rule 1: a turn's prompt extends what came before, or a new row starts. Rule 2: what the template adds is no action.

use rlver::Error;
use rlver::dialogue::Role;
use rlver::dialogue::think::ReplyMode;
use rlver::rollout::{EndReason, Episode, Policy};
use rlver::train::TrainRow;
use rlver::user::builtin::BuiltinUser;
use rlver_models::tokenizer::ChatMessage;

use crate::tiny;

/// The conversation before turn `turn`, as the template writes it.
fn rendered(policy: &Policy, episode: &Episode, turn: usize) -> String {
    let mut messages = vec![ChatMessage::system(&episode.system), ChatMessage::user(&episode.opening)];
    for earlier in &episode.turns[..turn] {
        messages.push(ChatMessage::assistant(&earlier.reply));
        messages.push(ChatMessage::user(&earlier.user.as_ref().expect("a turn follows").line));
    }
    policy.tokenizer.render(&messages, true).expect("a plain conversation")
}

#[test]
fn rule_1_direct_prompts_extend_the_sampled_tokens() {
    let policy = tiny::policy();
    let episodes =
        tiny::roll_out(&policy, &BuiltinUser::new(), tiny::jobs(8), tiny::settings(ReplyMode::Direct, 1.0), 3);
    let mut teeth = 0;
    for episode in &episodes {
        assert_eq!(episode.rows.len(), 1, "one row a dialogue");
        let segments = &episode.rows[0].segments;
        let roles: Vec<Role> = segments.iter().map(|s| s.role).collect();
        assert_eq!(roles[0], Role::System);
        for (i, role) in roles.iter().enumerate().skip(1) {
            assert_eq!(*role, if i % 2 == 1 { Role::Assistant } else { Role::User });
        }
        assert_eq!(segments.iter().filter(|s| s.is_action()).count(), episode.turns.len());
        for turn in 0..episode.turns.len() {
            // What the policy saw reads as the template writes it, where its replies are text at all: a reply that was
            // cut at its limit, or holds bytes or tokens that are no text, reads differently and must not be rewritten.
            let seen: Vec<u32> = segments[..=2 * turn].iter().flat_map(|s| s.ids.iter().copied()).collect();
            let text = policy.tokenizer.decode(&seen, false);
            let clean =
                episode.turns[..turn].iter().all(|t| text.contains(&format!("assistant\n{}<|im_end|>", t.reply)));
            if clean {
                assert_eq!(text, rendered(&policy, episode, turn), "dialogue {}, turn {turn}", episode.dialogue);
            }
            let sampled = &segments[2 * turn + 1].ids;
            teeth += usize::from(policy.tokenizer.encode_plain(&policy.tokenizer.decode(sampled, false)) != *sampled);
        }
    }
    assert!(teeth > 3, "some replies would be other tokens if they were decoded and encoded again");
}

#[test]
fn rule_1_think_mode_starts_a_row_every_turn_without_old_thoughts() {
    let policy = tiny::scripted(&["<think", ">sad", "</", "think", ">sorry"]);
    let episodes = tiny::roll_out(&policy, &tiny::FICKLE, tiny::jobs(4), tiny::settings(ReplyMode::Think, 1.0), 3);
    for episode in &episodes {
        assert_eq!(episode.end, EndReason::TurnLimit);
        assert_eq!((episode.turns.len(), episode.rows.len()), (4, 4), "one row a turn");
        for (turn, row) in episode.rows.iter().enumerate() {
            assert_eq!(episode.turns[turn].thought.as_deref(), Some("sad"));
            assert_eq!(episode.turns[turn].reply, "sorry");
            let [prompt, action] = row.segments.as_slice() else { panic!("a prompt and an action") };
            assert!(!prompt.is_action() && action.is_action());
            let text = policy.tokenizer.decode(&prompt.ids, false);
            assert_eq!(text, rendered(&policy, episode, turn));
            // The system prompt speaks of the tags; no conversation after it does.
            let said = text.split_once("<|im_start|>user").expect("the user speaks").1;
            assert!(!said.contains("<think>") && !said.contains("sad<"), "{said}");
            assert_eq!(policy.tokenizer.decode(&action.ids, false), "<think>sad</think>sorry<|im_end|>");
        }
    }
    assert_eq!(TrainRow::from_episodes(&episodes).len(), 16);
}

#[test]
fn rule_1_the_error_names_dialogue_and_turn() {
    let message = Error::NotAnExtension { dialogue: 417, turn: 3 }.to_string();
    assert!(message.contains("dialogue 417") && message.contains("turn 3"), "{message}");
}

#[test]
fn rule_2_template_tokens_are_never_actions_and_the_sampled_end_is() {
    let policy = tiny::policy();
    let end = policy.tokenizer.im_end_id().unwrap();
    let newline = policy.tokenizer.token_id("Ċ").unwrap();
    let mut jobs = tiny::jobs(12);
    jobs.iter_mut().for_each(|job| job.sampling_seed += 50);
    let episodes = tiny::roll_out(&policy, &tiny::FICKLE, jobs, tiny::settings(ReplyMode::Direct, 1.0), 5);
    let (mut stopped, mut cut) = (0, 0);
    for episode in &episodes {
        let segments = &episode.rows[0].segments;
        for (turn, pair) in segments[1..].chunks(2).enumerate() {
            let action = &pair[0];
            assert!(action.is_action() && action.logprobs.len() == action.ids.len());
            let ended = action.ids.last() == Some(&end);
            let stop = action.ids.last().is_some_and(|last| policy.stop_ids().contains(last));
            assert!(stop || action.ids.len() == 16, "a turn ends by a stop token or at its limit");
            assert!(!action.ids[..action.ids.len() - 1].contains(&end), "nothing is sampled after the end token");
            stopped += usize::from(ended);
            cut += usize::from(!ended);
            let Some(added) = pair.get(1) else { continue };
            assert!(!added.is_action());
            let line = &episode.turns[turn].user.as_ref().unwrap().line;
            let mut expected = if ended { vec![] } else { vec![end] };
            expected.extend(policy.chat.continuation_ids(line));
            assert_eq!(added.ids, expected, "closing newline, user turn and headers come from the template");
            assert_eq!(added.ids[usize::from(!ended)], newline);
        }
    }
    assert!(stopped > 5 && cut > 2, "both ways to end a turn occur: {stopped} and {cut}");
    let rows = TrainRow::from_episodes(&episodes);
    for (row, episode) in rows.iter().zip(&episodes) {
        let sampled: Vec<u32> =
            episode.rows[0].segments.iter().filter(|s| s.is_action()).flat_map(|s| s.ids.clone()).collect();
        let actions: Vec<u32> = row.actions.iter().map(|a| row.ids[*a]).collect();
        assert_eq!(actions, sampled);
        assert_eq!(row.actions.last(), Some(&(row.ids.len() - 1)), "what follows the last action is cut");
        assert_eq!(row.rollout_logprobs, episode.rows[0].logprobs());
        assert!(row.actions.windows(2).all(|w| w[1] == w[0] + 1 || row.ids[w[0]] == end || row.ids[w[0] + 1] == end));
    }
}
