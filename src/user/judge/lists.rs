//! What a reply says before the list at its end.

/// What remains of a reply when the list items and headings at its end are taken off one by one: a reply with a list behind
/// it has all remains of the reply, and the reply itself.
pub(super) fn remains(reply: &str) -> Vec<String> {
    let lines: Vec<&str> = reply.trim().lines().collect();
    let join = |lines: &[&str]| lines.join("\n").trim().to_string();
    let mut remains = Vec::new();
    let mut end = lines.len();
    while let Some(start) = last_item(&lines[..end]) {
        end = start;
        remains.push(join(&lines[..end]));
    }
    remains
}

/// Where the last list item begins, if nothing but its own continuation follows it. A line that announces a list belongs
/// to its first item.
fn last_item(lines: &[&str]) -> Option<usize> {
    let filled = |at: &usize| !lines[*at].trim().is_empty();
    let continues = |at: &usize| lines[*at].starts_with(['\t', '\u{3000}']) || lines[*at].starts_with("  ");
    let item = (0..lines.len()).rev().filter(filled).find(|at| is_listed(lines[*at]) || !continues(at))?;
    if !is_listed(lines[item]) {
        return None;
    }
    let before = (0..item).rev().find(filled);
    let announces = |at: &usize| lines[*at].trim_end().ends_with([':', '：']) && !is_listed(lines[*at]);
    Some(before.filter(announces).unwrap_or(item))
}

/// Whether a line is a list item or a heading.
pub(super) fn is_listed(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    line.starts_with(['#', '•', '·', '●', '▪', '|'])
        || line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with("+ ")
        || line.starts_with("**")
        || (digits > 0 && line[digits..].starts_with(['.', '、', ')', '）', '．']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_with_a_list_behind_it_has_the_remains_of_the_reply() {
        for own in ["I hear you.", "I hear you.\n\n1. Rest.\n2. Eat.", "# So\n- Rest\n\nThat is all."] {
            for list in ["- a\n- b", "Some advice:\n\n1. **a**\n   more of it\n2. b", "## What to do\n* a"] {
                let edited = remains(&format!("{own}\n\n{list}"));
                assert!(edited.contains(&own.to_string()), "{edited:?}");
                assert!(remains(own).iter().all(|r| edited.contains(r)), "{edited:?}");
            }
        }
        assert!(remains("No list.\n- a\nThat is all.").is_empty());
        assert_eq!(remains("- a\n- b"), ["- a", ""]);
    }
}
