//! `rlver chat` with lines from a pipe.

use super::{say, say_with_input, text};
use crate::tiny::{self, Home};

#[test]
fn commands_and_replies() {
    let home = Home::new();
    let folder = home.path("scripted");
    tiny::save(&tiny::scripted(&["<think", ">sad", "</", "think", ">sorry"]), &folder);
    let chat = |more: &[&str], input: &str| {
        let mut arguments = vec!["chat", "--model", text(&folder)];
        arguments.extend(more);
        say_with_input(&arguments, input).well().out
    };
    assert_eq!(chat(&[], "hello\n"), "<think>sad</think>sorry\n");
    assert_eq!(
        chat(&["--think"], "hello\n\nagain\n"),
        "sorry\nsorry\n",
        "thoughts are hidden, empty lines passed over"
    );
    assert_eq!(chat(&["--think", "--show-thoughts"], "hello\n"), "<think>sad</think>sorry\n");
    assert_eq!(
        chat(&["--think"], "/thoughts\nhello\n/quit\nhello\n"),
        "(thoughts are shown)\n<think>sad</think>sorry\n"
    );
    let out = chat(&["--think"], "hello\n/reset\n/system Be brief.\n/system\nhello\n/nonsense\n");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["sorry", "(forgotten)"]);
    assert_eq!(lines[3..5], ["(system: Be brief.)", "sorry"]);
    assert!(lines[2].contains("new system prompt") && lines[5].contains("/reset"), "{out}");
    assert_eq!(chat(&["--system", "Mine."], "/system\n"), "(system: Mine.)\n");
    assert_eq!(chat(&[], ""), "");
}

#[test]
fn a_reset_starts_from_nothing() {
    let home = Home::new();
    let folder = home.path("policy");
    let chat = |input: &str| {
        say_with_input(&["chat", "--model", text(&folder), "--temperature", "0", "--max-new-tokens", "12"], input)
            .well()
            .out
    };
    let once = chat("hello\n");
    assert_eq!(chat("hello\n/reset\nhello\n"), format!("{once}(forgotten)\n{once}"));
}

#[test]
fn limits_are_told_not_panicked() {
    let home = Home::new();
    let folder = home.path("policy");
    let chat = |more: &[&str]| {
        let mut arguments = vec!["chat", "--model", text(&folder), "--max-new-tokens", "4"];
        arguments.extend(more);
        say_with_input(&arguments, "hello\nhello\n")
    };
    for context in ["0", "1", "40"] {
        let said = chat(&["--max-context", context]).well();
        assert!(said.out.contains("too long for --max-context"), "{said:?}");
    }
    chat(&["--max-new-tokens", "0"]);
    chat(&["--temperature", "inf"]).refused(&["temperature"]);
    say(&["chat", "--model", "/no/such/model"]).refused(&["/no/such/model"]);
}
