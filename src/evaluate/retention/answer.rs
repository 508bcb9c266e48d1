//! Exact-match mathematics: finding the final answer of a solution and comparing it as a number or as normalised text.

/// The final answer of a solution: the last `\boxed{…}`, else what follows the last "answer is" or "答案是", else the last
/// line's last number.
pub fn final_answer(solution: &str) -> Option<String> {
    if let Some(boxed) = last_boxed(solution) {
        return Some(boxed);
    }
    let lower = solution.to_lowercase();
    // Lowering may move bytes; then the phrase is looked for as it stands.
    let text = if lower.len() == solution.len() { &lower } else { solution };
    let phrases = ["answer is", "answer:", "答案是", "答案为", "答案：", "答案:"];
    let after = phrases.iter().filter_map(|p| text.rfind(p).map(|at| at + p.len())).max();
    if let Some(rest) = after.and_then(|at| solution.get(at..)) {
        let line = rest.trim_start_matches([':', '：', ' ']).lines().next().unwrap_or_default();
        let end = line.char_indices().find(|(i, c)| {
            matches!(c, '。' | '，' | ';' | '；')
                || *c == '.' && !line[i + 1..].starts_with(|d: char| d.is_ascii_digit())
        });
        let answer = line[..end.map_or(line.len(), |(i, _)| i)].trim();
        if !answer.is_empty() {
            return Some(answer.to_string());
        }
    }
    last_number(solution)
}

/// The contents of the last `\boxed{…}`, braces balanced.
fn last_boxed(text: &str) -> Option<String> {
    let start = text.rfind("\\boxed")? + "\\boxed".len();
    let rest = text[start..].trim_start().strip_prefix('{')?;
    let mut depth = 1;
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(rest[..at].trim().to_string());
        }
    }
    None
}

fn last_number(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let inside = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'/');
    let mut start = end - 1;
    while start > 0 && inside(bytes[start - 1]) {
        start -= 1;
    }
    if start > 0 && bytes[start - 1] == b'-' {
        start -= 1;
    }
    Some(text[start..end].trim_start_matches([',', '.', '/']).to_string())
}

/// An answer without what writing changes and meaning does not: TeX spacing, delimiters and text marks, units, signs of
/// money and percent, thousands separators, leading `x =`, case and blanks.
pub fn normalise(answer: &str) -> String {
    let mut text = answer.trim().trim_end_matches(['.', '。']).to_string();
    for (from, to) in [
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\left", ""),
        ("\\right", ""),
        ("\\!", ""),
        ("\\,", ""),
        ("\\;", ""),
        ("\\:", ""),
        ("\\ ", ""),
        ("~", ""),
        ("\\$", ""),
        ("$", ""),
        ("\\(", ""),
        ("\\)", ""),
        ("\\%", ""),
        ("%", ""),
        ("^{\\circ}", ""),
        ("^\\circ", ""),
        ("°", ""),
        ("\\cdot", "*"),
        ("\\times", "*"),
        ("×", "*"),
        ("−", "-"),
        ("，", ","),
        ("π", "\\pi"),
        ("√", "\\sqrt"),
    ] {
        text = text.replace(from, to);
    }
    text = without_text_marks(&text);
    if let Some((name, value)) = text.split_once('=')
        && name.trim().chars().count() <= 2
        && name.trim().chars().all(char::is_alphabetic)
    {
        text = value.to_string();
    }
    let text: String = text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
    braced_fractions(&without_separators(&text))
}

/// Drops `\text{…}`, `\mathrm{…}` and the like: a number's unit as a whole, other contents stay.
fn without_text_marks(text: &str) -> String {
    let mut out = text.to_string();
    for mark in ["\\text{", "\\mathrm{", "\\textbf{", "\\mbox{"] {
        while let Some(at) = out.find(mark) {
            let Some(length) = out[at + mark.len()..].find('}') else { break };
            let inside = out[at + mark.len()..at + mark.len() + length].to_string();
            let before_is_number = out[..at].trim_end().ends_with(|c: char| c.is_ascii_digit() || c == '}');
            let kept = if before_is_number { String::new() } else { inside };
            out.replace_range(at..at + mark.len() + length + 1, &kept);
        }
    }
    let units = [
        "dollars", "dollar", "degrees", "degree", "cents", "percent", "units", "cm", "km", "kg", "meters", "hours",
        "minutes", "元", "度", "厘米", "米", "千克", "公斤", "小时", "分钟", "个", "人",
    ];
    for unit in units {
        if let Some(number) = out.trim_end().strip_suffix(unit)
            && number.trim_end().ends_with(|c: char| c.is_ascii_digit())
        {
            return number.trim_end().to_string();
        }
    }
    out
}

/// `1,234,567` without its separators; tuples keep their commas.
fn without_separators(text: &str) -> String {
    let groups: Vec<&str> = text.trim_start_matches('-').split(',').collect();
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let Some((last, middle)) = groups.split_last().filter(|(_, rest)| !rest.is_empty()) else {
        return text.to_string();
    };
    let last_whole = last.split('.').next().unwrap_or_default();
    let grouped = digits(middle[0])
        && middle[0].len() <= 3
        && middle[1..].iter().all(|g| digits(g) && g.len() == 3)
        && digits(last_whole)
        && last_whole.len() == 3;
    if grouped { text.replace(',', "") } else { text.to_string() }
}

/// `\frac12` and `\sqrt3` with the braces TeX lets one leave out.
fn braced_fractions(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((command, at)) =
        ["\\frac", "\\sqrt"].iter().filter_map(|c| rest.find(c).map(|at| (*c, at))).min_by_key(|(_, at)| *at)
    {
        let end = at + command.len();
        out.push_str(&rest[..end]);
        rest = &rest[end..];
        for _ in 0..if command == "\\frac" { 2 } else { 1 } {
            match rest.chars().next() {
                Some(c) if c.is_ascii_alphanumeric() => {
                    out.extend(['{', c, '}']);
                    rest = &rest[1..];
                }
                Some('{') => {
                    let close = rest.find('}').map_or(rest.len(), |i| i + 1);
                    out.push_str(&rest[..close]);
                    rest = &rest[close..];
                }
                _ => break,
            }
        }
    }
    out + rest
}

/// The value of a normalised number: an integer, a decimal, a fraction or a `\frac`.
fn value(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let plain = |s: &str| -> Option<f64> {
        let number = s.bytes().all(|b| b.is_ascii_digit() || b == b'.') && s.bytes().any(|b| b.is_ascii_digit());
        if number { s.parse().ok() } else { None }
    };
    let quotient = |a: f64, b: f64| (b != 0.0).then(|| a / b);
    let found = if let Some(n) = plain(text) {
        Some(n)
    } else if let Some((a, b)) = text.split_once('/') {
        quotient(plain(a)?, plain(b)?)
    } else {
        let (a, b) = text.strip_prefix("\\frac{")?.strip_suffix('}')?.split_once("}{")?;
        quotient(plain(a)?, plain(b)?)
    };
    found.map(|v| sign * v)
}

/// Whether two answers say the same: the same normalised text, the same number (to one part in 10⁹), or the same
/// list of answers in order.
pub fn same_answer(given: &str, wanted: &str) -> bool {
    let (a, b) = (normalise(given), normalise(wanted));
    if a == b && !a.is_empty() {
        return true;
    }
    if let (Some(x), Some(y)) = (value(&a), value(&b)) {
        return (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1.0);
    }
    let parts = |s: &str| -> Option<(char, Vec<String>)> {
        let (open, close) = (s.chars().next()?, s.chars().next_back()?);
        let bracketed = matches!((open, close), ('(', ')') | ('[', ']') | ('(', ']') | ('[', ')'));
        let inner = if bracketed { &s[1..s.len() - 1] } else { s };
        inner.contains(',').then(|| (if bracketed { open } else { ' ' }, inner.split(',').map(String::from).collect()))
    };
    match (parts(&a), parts(&b)) {
        (Some((open_a, a)), Some((open_b, b))) => {
            open_a == open_b && a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| !x.is_empty() && same_answer(x, y))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_answer_is_found() {
        for (solution, answer) in [
            ("so \\boxed{\\frac{1}{2}} and \\boxed{ 7 }", "7"),
            ("thus $\\boxed{\\sqrt{3}+\\frac{1}{2}}$.", "\\sqrt{3}+\\frac{1}{2}"),
            ("The answer is 3.5. Check: 4", "3.5"),
            ("所以答案是 -12。", "-12"),
            ("2 + 2 makes 4", "4"),
            ("first 1, then -2,500 in all", "-2,500"),
        ] {
            assert_eq!(final_answer(solution).as_deref(), Some(answer), "{solution}");
        }
        assert_eq!(final_answer("no idea"), None);
    }

    #[test]
    fn writing_does_not_matter_and_meaning_does() {
        for (a, b) in [
            ("\\dfrac{1}{2}", "0.5"),
            ("\\frac12", "1/2"),
            ("1,000", "1000"),
            ("$42$", "42.0"),
            ("x = 5", "5"),
            ("50\\%", "50"),
            ("30^\\circ", "30"),
            ("12 \\text{ cm}", "12"),
            ("\\text{Evelyn}", "evelyn"),
            ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})"),
            ("(1, 2)", "( 1.0, 2 )"),
            ("\\sqrt3", "\\sqrt{3}"),
            ("−7", "-7"),
            ("15 dollars", "15"),
            ("3，4", "3,4"),
        ] {
            assert!(same_answer(a, b), "{a} is {b}: {} {}", normalise(a), normalise(b));
            assert!(same_answer(b, a), "{b} is {a}");
        }
        for (a, b) in [
            ("1", "2"),
            ("(1,2)", "(2,1)"),
            ("(1,2)", "[1,2]"),
            ("1/3", "0.333"),
            ("", ""),
            ("-5", "5"),
            ("12,34", "1234"),
            ("\\frac{1}{0}", "0"),
        ] {
            assert!(!same_answer(a, b), "{a} is not {b}: {} {}", normalise(a), normalise(b));
        }
    }
}
