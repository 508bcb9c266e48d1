use std::fmt::Write;

use super::SECTIONS;

/// The reference of all keys, as markdown. `docs/recipes.md` is this text; a test keeps it true.
pub fn explain() -> String {
    let mut out = String::from(
        "# Recipe reference\n\n\
         Written by `rlver recipe explain`; do not edit. Every key has a default, so a recipe holds only what differs.\n",
    );
    for section in SECTIONS {
        let _ = write!(
            out,
            "\n## `[{}]`\n\n{}\n\n| key | default | meaning |\n|---|---|---|\n",
            section.name,
            words(section.about)
        );
        for key in section.keys {
            let meaning = words(key.doc).replace('|', "\\|");
            let _ = writeln!(out, "| `{}` | `{}` | {meaning} |", key.name, (key.default)());
        }
    }
    out
}

/// Documentation lines joined to one.
fn words(lines: &[&str]) -> String {
    lines.iter().map(|l| l.trim()).collect::<Vec<_>>().join(" ")
}
