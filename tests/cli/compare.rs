//! `rlver compare`.

use super::{say, text};
use crate::tiny::Home;

#[test]
fn recipes_are_run_once_and_put_side_by_side() {
    let home = Home::new();
    for name in ["first", "second"] {
        std::fs::write(home.path(&format!("{name}.toml")), home.recipe_text("grpo")).unwrap();
    }
    let (first, second, out) = (home.path("first.toml"), home.path("second.toml"), home.path("compared"));
    let all = [
        "compare",
        text(&first),
        text(&second),
        "--seeds",
        "3,4",
        "--set",
        "run.steps=1",
        "--goal",
        "0",
        "--out",
        text(&out),
    ];
    let said = say(&all).well().out;
    assert_eq!(said.matches("run ").count(), 4, "{said}");
    let table = std::fs::read_to_string(out.join("compare.md")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4);
    let cells: Vec<&str> = lines[2].split('|').map(str::trim).collect();
    assert_eq!((cells[1], cells[2], cells[9]), ("first", "2", "8"), "{table}");
    assert!(cells[3].contains('±') && cells[8] == "1", "{table}");
    // Equal recipes with equal seeds came to the same.
    assert_eq!(cells[2..8], lines[3].split('|').map(str::trim).collect::<Vec<_>>()[2..8]);
    let svg = std::fs::read_to_string(out.join("compare.svg")).unwrap();
    assert!(svg.contains("first") && svg.contains("second"));
    let again = say(&all).well().out;
    assert_eq!(again.matches("run ").count(), 0, "finished runs are not repeated: {again}");
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let home = Home::new();
    let good = home.path("recipe.toml");
    let bad = home.path("bad.toml");
    std::fs::write(&bad, "[objective]\nadvantage = \"gea\"").unwrap();
    let out = home.path("compared");
    say(&["compare", text(&good), text(&bad), "--out", text(&out)]).refused(&["bad.toml", "objective.advantage"]);
    say(&["compare", text(&good), text(&good), "--out", text(&out)]).refused(&["two recipes are called recipe"]);
    assert!(!out.exists());
    // A folder whose evaluation is damaged is named.
    let run = out.join("recipe-seed-1");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("eval-before.json"), "{}").unwrap();
    std::fs::write(run.join("eval-after.json"), "{}").unwrap();
    let arguments = ["compare", text(&good), "--seeds", "1", "--out", text(&out)];
    say(&arguments).refused(&["eval-before.json", "mean_final_emotion"]);
}
