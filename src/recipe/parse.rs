use std::path::Path;

use toml::{Table, Value};

use super::{Recipe, RecipeError, SECTIONS};

impl Recipe {
    /// Reads a recipe file, applies `section.key=value` overrides and checks everything.
    ///
    /// # Errors
    /// Names file, key and, for unknown keys, the most similar known one.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Recipe, RecipeError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| RecipeError::Read { path: path.to_path_buf(), source })?;
        Recipe::parse(&path.display().to_string(), &text, overrides)
    }

    /// As [`Recipe::load`], from text; `origin` is what errors call it.
    ///
    /// # Errors
    /// As [`Recipe::load`].
    pub fn parse(origin: &str, text: &str, overrides: &[String]) -> Result<Recipe, RecipeError> {
        let mut table: Table =
            toml::from_str(text).map_err(|e| RecipeError::Syntax { origin: origin.into(), problem: e.to_string() })?;
        check_keys(origin, &table)?;
        let mut recipe = read(origin, &table)?;
        for assignment in overrides {
            let origin = format!("--set {assignment}");
            let (section, key, value) = parse_override(&origin, assignment)?;
            let sections = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(keys) = sections {
                keys.insert(key, value);
            }
            check_keys(&origin, &table)?;
            recipe = read(&origin, &table)?;
        }
        recipe.check()?;
        Ok(recipe)
    }
}

fn parse_override(origin: &str, assignment: &str) -> Result<(String, String, Value), RecipeError> {
    let syntax = |problem: &str| RecipeError::Syntax { origin: origin.into(), problem: problem.into() };
    let (path, value) = assignment.split_once('=').ok_or_else(|| syntax("expected section.key=value"))?;
    let (section, key) = match path.trim().split_once('.') {
        Some((section, key)) => (section.to_string(), key.to_string()),
        None => {
            let matching: Vec<&str> =
                SECTIONS.iter().filter(|s| s.keys.iter().any(|k| k.name == path.trim())).map(|s| s.name).collect();
            match matching.as_slice() {
                [section] => (section.to_string(), path.trim().to_string()),
                [] => return Err(unknown(origin, path.trim())),
                several => {
                    return Err(syntax(&format!("`{path}` is in several sections: {}", several.join(", "))));
                }
            }
        }
    };
    // What is not a TOML value is taken as a string, so that --set model.policy=some/folder needs no quotes.
    let value = toml::from_str::<Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(value.to_string()));
    Ok((section, key, value))
}

/// Refuses unknown sections and keys.
fn check_keys(origin: &str, table: &Table) -> Result<(), RecipeError> {
    for (section_name, value) in table {
        let Some(section) = SECTIONS.iter().find(|s| s.name == section_name) else {
            return Err(unknown(origin, section_name));
        };
        let Value::Table(keys) = value else {
            return Err(RecipeError::Mistyped {
                origin: origin.into(),
                key: section_name.clone(),
                problem: format!("is a section: write [{section_name}] on a line of its own"),
            });
        };
        if let Some(key) = keys.keys().find(|key| !section.keys.iter().any(|k| k.name == *key)) {
            return Err(unknown(origin, &format!("{section_name}.{key}")));
        }
    }
    Ok(())
}

/// The error for an unknown key, with the most similar known one.
fn unknown(origin: &str, key: &str) -> RecipeError {
    let bare = key.rsplit('.').next().unwrap_or(key);
    let suggestion = SECTIONS
        .iter()
        .flat_map(|s| s.keys.iter().map(move |k| (format!("{}.{}", s.name, k.name), k.name)))
        .chain(SECTIONS.iter().filter(|_| !key.contains('.')).map(|s| (s.name.to_string(), s.name)))
        .map(|(full, name)| (strsim::jaro_winkler(key, &full).max(strsim::jaro_winkler(bare, name)), full))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name);
    RecipeError::UnknownKey { origin: origin.into(), key: key.into(), suggestion }
}

/// Deserialises section by section and key by key, so that a mistyped value is reported with its key.
fn read(origin: &str, table: &Table) -> Result<Recipe, RecipeError> {
    if let Ok(recipe) = Recipe::deserialize_table(table) {
        return Ok(recipe);
    }
    for (section, value) in table {
        for (key, value) in value.as_table().into_iter().flatten() {
            let mut only = Table::new();
            only.insert(section.clone(), Value::Table(Table::from_iter([(key.clone(), value.clone())])));
            if let Err(error) = Recipe::deserialize_table(&only) {
                let problem = error.to_string();
                return Err(RecipeError::Mistyped {
                    origin: origin.into(),
                    key: format!("{section}.{key}"),
                    problem: format!("= {value}: {}", problem.lines().next().unwrap_or("has the wrong type")),
                });
            }
        }
    }
    unreachable!("a table whose keys all read alone reads as a whole")
}

impl Recipe {
    fn deserialize_table(table: &Table) -> Result<Recipe, toml::de::Error> {
        Value::Table(table.clone()).try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, overrides: &[&str]) -> String {
        let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
        Recipe::parse("r.toml", text, &overrides).unwrap_err().to_string()
    }

    #[test]
    fn unknown_keys_suggest_the_right_one() {
        let message = error("[objective]\nclip_lo = 0.1", &[]);
        assert!(message.contains("objective.clip_lo") && message.contains("objective.clip_low"), "{message}");
        assert!(error("[objectiv]\n", &[]).contains("did you mean"), "{}", error("[objectiv]\n", &[]));
        assert!(error("", &["rollout.max_turn=3"]).contains("rollout.max_turns"));
        assert!(error("", &["stepz=3"]).contains("run.steps"));
    }

    #[test]
    fn mistyped_values_name_their_key() {
        assert!(error("[run]\nsteps = \"many\"", &[]).contains("`run.steps`"));
        assert!(error("[objective]\nadvantage = \"gea\"", &[]).contains("`objective.advantage`"));
        assert!(error("run = 3", &[]).contains("[run]"));
        assert!(error("[run", &[]).contains("not valid TOML"));
        assert!(error("", &["run.steps"]).contains("section.key=value"));
        assert!(error("", &["every=1"]).contains("several sections"));
    }

    #[test]
    fn overrides_take_numbers_words_and_bare_names() {
        let set = ["run.steps=7", "model.policy=some/folder", "temperature=0.5", "advantage=gae"];
        let message = error("", &set);
        assert!(message.contains("several sections"), "temperature is ambiguous: {message}");
        let set = ["run.steps=7", "model.policy=some/folder", "clip_high=0.3"].map(String::from);
        let recipe = Recipe::parse("r.toml", "", &set).unwrap();
        assert_eq!((recipe.run.steps, recipe.objective.clip_high), (7, 0.3));
        assert_eq!(recipe.model.policy, "some/folder");
    }

    #[test]
    fn a_written_recipe_reads_back_as_itself() {
        let recipe = Recipe::parse("r.toml", "[rollout]\nmode = \"think\"", &[]).unwrap();
        assert_eq!(Recipe::parse("r.toml", &recipe.to_toml(), &[]).unwrap(), recipe);
    }
}
