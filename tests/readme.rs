//! `README.md` and `README.zh-CN.md` say the same: commands, code blocks, names in code, links and numbers are equal,
//! section by section.

use std::collections::BTreeMap;

const ENGLISH: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
const CHINESE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/README.zh-CN.md"));

/// What a section holds apart from its words.
#[derive(Default)]
struct Section {
    heading: String,
    /// Lines of code blocks, without the comments behind commands.
    blocks: Vec<Vec<String>>,
    /// Code within the text.
    names: Vec<String>,
    /// Where links and pictures lead.
    links: Vec<String>,
    /// Numbers within the text.
    numbers: Vec<String>,
}

fn sections(page: &str) -> Vec<Section> {
    let (mut all, mut block, mut prose) = (vec![Section::default()], None::<Vec<String>>, vec![String::new()]);
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (Some(_), Some(_)) => {
                let done = block.take().expect("matched");
                all.last_mut().expect("one at least").blocks.push(done);
            }
            (None, Some(kind)) => block = Some(vec![kind.to_string()]),
            (Some(lines), None) => {
                let command = if lines[0] == "sh" { line.split(" # ").next().unwrap_or_default() } else { line };
                lines.push(command.trim_end().to_string());
            }
            (None, None) if line.starts_with("## ") || line.starts_with("### ") => {
                all.push(Section { heading: line.trim_start_matches('#').trim().into(), ..Section::default() });
                prose.push(String::new());
            }
            (None, None) => *prose.last_mut().expect("one at least") += &format!("{line}\n"),
        }
    }
    for (section, text) in all.iter_mut().zip(&prose) {
        let mut rest = String::new();
        // Every second piece stands between backticks.
        for (i, piece) in text.split('`').enumerate() {
            if i % 2 == 1 { section.names.push(piece.into()) } else { rest += piece }
        }
        let mut text = String::new();
        for (i, piece) in rest.split("](").enumerate() {
            let (link, words) = piece.split_once(')').filter(|_| i > 0).unwrap_or(("", piece));
            // Each page links to the other at its top.
            if !link.is_empty() && !link.starts_with("README") {
                section.links.push(link.into());
            }
            text += words;
            text.push(' ');
        }
        section.numbers = numbers(&text);
    }
    all
}

/// The numbers of a text; `2.4 million` and `240 万` are the same one.
fn numbers(text: &str) -> Vec<String> {
    let digits = |c: char| c.is_ascii_digit();
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find(digits) {
        rest = &rest[start..];
        let mut end = rest.find(|c| !digits(c)).unwrap_or(rest.len());
        // A point or a comma between digits belongs to the number.
        while rest[end..].starts_with(['.', ',']) && rest[end + 1..].starts_with(digits) {
            end += 1;
            end += rest[end..].find(|c| !digits(c)).unwrap_or(rest.len() - end);
        }
        let (number, after) = rest.split_at(end);
        let scale = [("million", 1e6), ("万", 1e4)].into_iter().find(|(word, _)| after.trim_start().starts_with(word));
        found.push(match (scale, number.parse::<f64>()) {
            (Some((_, scale)), Ok(value)) => (value * scale).round().to_string(),
            _ => number.to_string(),
        });
        rest = after;
    }
    found
}

/// What one list has more often than the other, in words.
fn difference(english: &[String], chinese: &[String]) -> Vec<String> {
    let mut count: BTreeMap<&str, i32> = BTreeMap::new();
    english.iter().for_each(|item| *count.entry(item).or_default() += 1);
    chinese.iter().for_each(|item| *count.entry(item).or_default() -= 1);
    let more = |(item, n): (&str, i32)| {
        let page = if n > 0 { "README.md" } else { "README.zh-CN.md" };
        (n != 0).then(|| format!("{item:?} is {} times more in {page}", n.abs()))
    };
    count.into_iter().filter_map(more).collect()
}

#[test]
fn both_readmes_have_the_same_commands_and_numbers() {
    let (english, chinese) = (sections(ENGLISH), sections(CHINESE));
    let headings = |all: &[Section]| all.iter().map(|s| s.heading.clone()).collect::<Vec<_>>();
    assert_eq!(english.len(), chinese.len(), "sections: {:?} and {:?}", headings(&english), headings(&chinese));
    let mut wrong = Vec::new();
    for (a, b) in english.iter().zip(&chinese) {
        let mut say = |what: String| wrong.push(format!("“{}” ({}): {what}", a.heading, b.heading));
        if a.blocks.len() != b.blocks.len() {
            say(format!("{} code blocks in README.md, {} in README.zh-CN.md", a.blocks.len(), b.blocks.len()));
        }
        for (a, b) in a.blocks.iter().zip(&b.blocks) {
            let longest = a.len().max(b.len());
            let line = |block: &[String], i: usize| block.get(i).cloned().unwrap_or_default();
            for i in (0..longest).filter(|i| line(a, *i) != line(b, *i)) {
                say(format!("README.md has the line {:?}, README.zh-CN.md {:?}", line(a, i), line(b, i)));
            }
        }
        for (what, a, b) in
            [("number", &a.numbers, &b.numbers), ("code", &a.names, &b.names), ("link", &a.links, &b.links)]
        {
            difference(a, b).into_iter().for_each(|difference| say(format!("the {what} {difference}")));
        }
    }
    assert!(wrong.is_empty(), "the two pages differ:\n{}", wrong.join("\n"));
}

#[test]
fn differences_are_found_and_named() {
    let page = |number: &str, command: &str| {
        format!("# x\nfrom 40 to {number} `name`\n## y\n```sh\n{command}   # why\n```\nsee [z](docs/z.md)\n")
    };
    let (a, b) = (sections(&page("65.5", "rlver eval")), sections(&page("65", "rlver play")));
    assert_eq!(a[0].numbers, ["40", "65.5"]);
    assert_eq!(a[1].links, ["docs/z.md"]);
    let found = difference(&a[0].numbers, &b[0].numbers);
    assert_eq!(found, ["\"65\" is 1 times more in README.zh-CN.md", "\"65.5\" is 1 times more in README.md"]);
    assert_eq!((a[1].blocks[0][1].as_str(), b[1].blocks[0][1].as_str()), ("rlver eval", "rlver play"));
    assert_eq!(numbers("2.4 million, 240 万, 1e-9"), ["2400000", "2400000", "1", "9"]);
}
