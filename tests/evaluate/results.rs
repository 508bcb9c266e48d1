//! `docs/results.md` shows the numbers of `docs/results.json`. With RLVER_UPDATE_DOCS=1 the page is written anew.

use std::path::Path;

use serde_json::{Map, Value};

/// A table of the objects' keys; `null` is a dash.
fn table(rows: &[Map<String, Value>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let keys: Vec<String> = rows[0].keys().cloned().collect();
    let mut text = line(keys.clone()) + &format!("|{}\n", "---|".repeat(keys.len()));
    for row in rows {
        let cell = |key: &String| match &row[key] {
            Value::Null => "–".to_string(),
            Value::String(s) if key == "command" => format!("`{s}`"),
            Value::String(s) => s.clone(),
            Value::Number(n) => format!("{:.1}", n.as_f64().expect("a finite number")),
            other => panic!("{key} is {other}"),
        };
        text += &line(keys.iter().map(cell).collect());
    }
    text
}

#[test]
fn results_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = std::fs::read_to_string(docs.join("results.md")).unwrap();
    let json: Map<String, Value> =
        serde_json::from_slice(&std::fs::read(docs.join("results.json")).unwrap()).expect("an object");
    let mut wanted = page.clone();
    for (name, rows) in json.iter().filter(|(name, _)| *name != "about") {
        let rows: Vec<Map<String, Value>> =
            rows.as_array().unwrap().iter().map(|r| r.as_object().unwrap().clone()).collect();
        let begin = format!("<!-- ours: {name} -->\n");
        let from = wanted.find(&begin).unwrap_or_else(|| panic!("the page has a place for {name}")) + begin.len();
        let to = from + wanted[from..].find("<!-- end -->").expect("an end");
        wanted.replace_range(from..to, &table(&rows));
    }
    if std::env::var_os("RLVER_UPDATE_DOCS").is_some() {
        std::fs::write(docs.join("results.md"), &wanted).unwrap();
        return;
    }
    assert_eq!(page, wanted, "run this test with RLVER_UPDATE_DOCS=1");
}
