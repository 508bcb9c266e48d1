//! Golden values of published trainers, from beside the repository.

use std::path::PathBuf;

use serde_json::Value;

/// One case of a fixture file.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) inputs: Numbers,
    pub(crate) params: Value,
    pub(crate) expected: Numbers,
}

/// A JSON object whose values are numbers or rows of numbers.
pub(crate) struct Numbers(Value);

impl std::ops::Index<&str> for Numbers {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        &self.0[key]
    }
}

impl Numbers {
    /// A matrix.
    pub(crate) fn rows(&self, key: &str) -> Vec<Vec<f64>> {
        let row = |r: &Value| r.as_array().expect("a row").iter().map(|v| v.as_f64().expect("a number")).collect();
        self.0[key].as_array().unwrap_or_else(|| panic!("{key} is missing")).iter().map(row).collect()
    }

    /// Its numbers, row by row.
    pub(crate) fn flat(&self, key: &str) -> Vec<f32> {
        self.rows(key).concat().iter().map(|v| *v as f32).collect()
    }
}

/// The cases of `../shared/fixtures/<file>`, or `None`, said loudly, where there is no such file.
pub(crate) fn cases(file: &str) -> Option<Vec<Case>> {
    let shared = std::env::var_os("RLVER_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let path = shared.join("fixtures").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: {} is not there; set RLVER_SHARED", path.display());
        }
        return None;
    };
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let case = |c: &Value| Case {
        name: c["name"].as_str().expect("a name").into(),
        inputs: Numbers(match c["inputs_ref"].as_str() {
            Some(name) => all["inputs"][name].clone(),
            None => c["inputs"].clone(),
        }),
        params: c["params"].clone(),
        expected: Numbers(c["expected"].clone()),
    };
    Some(all["cases"].as_array().expect("cases").iter().map(case).collect())
}
