//! Programs that a policy wrote, run against inputs and outputs: LiveCodeBench's tasks with standard input. Nothing is run
//! unless somebody gives the command that runs it, and each run has a time limit. The command decides what a program may do:
//! ours only keeps it in a fresh folder, with an environment that holds `PATH` alone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

/// Longest output of a program that is read, in bytes; a longer one is wrong.
const LONGEST_OUTPUT: u64 = 1 << 20;

/// One input of a program and what it has to print.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Case {
    /// Standard input.
    pub input: String,
    /// Standard output.
    pub output: String,
    /// `stdin`, or `functional` for tasks that call a function.
    #[serde(default = "standard_input")]
    testtype: String,
}

fn standard_input() -> String {
    "stdin".into()
}

/// The cases of a line of LiveCodeBench: `public_test_cases`, a list or the text of one. Empty when the task calls a
/// function. The published private cases are pickled objects, which are not read.
pub(super) fn cases(task: &Value) -> Result<Vec<Case>, String> {
    let fail = |problem: String| format!("`public_test_cases` {problem}");
    let cases = match task.get("public_test_cases") {
        Some(Value::String(text)) => serde_json::from_str(text),
        Some(list) => serde_json::from_value(list.clone()),
        None => return Err(fail("is missing".into())),
    };
    let cases: Vec<Case> = cases.map_err(|e| fail(format!("is no list of {{input, output}}: {e}")))?;
    if cases.is_empty() {
        return Err(fail("is empty".into()));
    }
    Ok(if cases.iter().all(|case| case.testtype == "stdin") { cases } else { Vec::new() })
}

/// The program of a response: its last fenced code block.
pub fn program(response: &str) -> Option<&str> {
    let (before, _) = response.rsplit_once("```")?;
    let (_, block) = before.rsplit_once("```")?;
    let (_, code) = block.split_once('\n')?;
    Some(code)
}

/// Why programs cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The command names neither the program's file nor its folder.
    #[error("the command {0:?} that runs programs must name {{file}} or {{dir}}, such as: python3 {{file}}")]
    Template(String),
    /// The command does not start.
    #[error("cannot run {command:?}: {problem}; is it installed?")]
    Start {
        /// The command.
        command: String,
        /// The cause.
        problem: String,
    },
    /// The folder for programs cannot be used.
    #[error("cannot use the folder {folder} for programs: {problem}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        problem: String,
    },
}

/// Runs programs with a command that somebody gave.
#[derive(Debug, Clone)]
pub struct CodeRunner {
    words: Vec<String>,
    limit: Duration,
}

impl CodeRunner {
    /// A runner by `template`, words with blanks between them, in which `{file}` stands for the program's file and `{dir}`
    /// for its folder; no shell reads it. Each run may take `limit`.
    ///
    /// # Errors
    /// When neither is in it.
    pub fn new(template: &str, limit: Duration) -> Result<CodeRunner, CodeError> {
        if !template.contains("{file}") && !template.contains("{dir}") {
            return Err(CodeError::Template(template.into()));
        }
        Ok(CodeRunner { words: template.split_whitespace().map(String::from).collect(), limit })
    }

    /// For each case whether `code` prints what it has to. After a run that takes too long the others count as wrong.
    ///
    /// # Errors
    /// When the command cannot be started; what a program does is no error.
    pub fn run(&self, code: &str, cases: &[Case]) -> Result<Vec<bool>, CodeError> {
        let folder = Folder::new()?;
        let file = folder.0.join("solution.py");
        let fail = |e: std::io::Error| CodeError::Folder { folder: folder.0.clone(), problem: e.to_string() };
        std::fs::write(&file, code).map_err(fail)?;
        let mut met = Vec::with_capacity(cases.len());
        for case in cases {
            let (input, output) = (folder.0.join("input"), folder.0.join("output"));
            std::fs::write(&input, &case.input).map_err(fail)?;
            // Files instead of pipes: neither side waits for the other, and no child that is left keeps us waiting.
            let (from, to) = (File::open(&input).map_err(fail)?, File::create(&output).map_err(fail)?);
            let mut command = self.command(&folder.0, &file);
            let mut child = command
                .stdin(from)
                .stdout(to)
                .stderr(Stdio::null())
                .spawn()
                .map_err(|e| CodeError::Start { command: self.words.join(" "), problem: e.to_string() })?;
            let Some(well) = self.wait(&mut child, &output) else { break };
            let printed = std::fs::read(&output).map_err(fail)?;
            met.push(well && same_lines(&String::from_utf8_lossy(&printed), &case.output));
        }
        met.resize(cases.len(), false);
        Ok(met)
    }

    fn command(&self, folder: &Path, file: &Path) -> Command {
        let fill = |word: &String| {
            word.replace("{file}", &file.display().to_string()).replace("{dir}", &folder.display().to_string())
        };
        let mut command = Command::new(fill(&self.words[0]));
        command.args(self.words[1..].iter().map(fill)).current_dir(folder).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// Whether the program ended well; `None` when it took or printed too much and was ended.
    fn wait(&self, child: &mut Child, output: &Path) -> Option<bool> {
        let until = Instant::now() + self.limit;
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                // What it started may go on without it.
                end_group(child);
                let length = std::fs::metadata(output).map_or(0, |meta| meta.len());
                return Some(status.success() && length <= LONGEST_OUTPUT);
            }
            let long = std::fs::metadata(output).is_ok_and(|meta| meta.len() > LONGEST_OUTPUT);
            if long || Instant::now() >= until {
                end(child);
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ends a program and, on Unix, what it started: they share a process group of their own.
fn end(child: &mut Child) {
    end_group(child);
    // It may have ended by itself in between.
    let _ = child.kill();
    let _ = child.wait();
}

/// Ends what is left of a program's process group.
fn end_group(child: &Child) {
    if cfg!(unix) {
        let kill = format!("kill -s KILL -- -{}", child.id());
        let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
    }
}

/// A fresh folder, gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, CodeError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("rlver-program-{}-{number}", std::process::id()));
        // One that is there already is somebody else's.
        match std::fs::create_dir(&folder) {
            Ok(()) => Ok(Folder(folder)),
            Err(e) => Err(CodeError::Folder { folder, problem: e.to_string() }),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether two outputs have the same lines; blanks at the ends of lines and empty lines at the end do not count.
fn same_lines(printed: &str, wanted: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>();
    lines(printed) == lines(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(input: &str, output: &str) -> Case {
        Case { input: input.into(), output: output.into(), testtype: standard_input() }
    }

    #[test]
    fn the_last_block_is_the_program() {
        let response = "First:\n```python\nprint(1)\n```\nbetter:\n```\nprint(2)\nprint(3)\n```\ndone";
        assert_eq!(program(response), Some("print(2)\nprint(3)\n"));
        assert_eq!(program("print(1)"), None);
        assert_eq!(program("```"), None);
        assert_eq!(program("one line ```code``` only"), None);
    }

    #[test]
    fn lines_are_compared_without_the_blanks_at_their_ends() {
        assert!(same_lines("1 2 \n3\n\n", "1 2\n3"));
        assert!(!same_lines("1  2", "1 2") && !same_lines("1\n2", "2\n1") && !same_lines("", "1"));
        assert!(!same_lines("\n1", "1"));
    }

    #[test]
    fn cases_are_a_list_or_its_text() {
        let text = r#"[{"input": "1\n", "output": "2\n", "testtype": "stdin"}]"#;
        let list = serde_json::json!([{"input": "1\n", "output": "2\n"}]);
        let found = cases(&serde_json::json!({"public_test_cases": text})).unwrap();
        assert_eq!(found, [case("1\n", "2\n")]);
        assert_eq!(cases(&serde_json::json!({"public_test_cases": list})).unwrap(), found);
        let function = text.replace("stdin", "functional");
        assert_eq!(cases(&serde_json::json!({"public_test_cases": function})).unwrap(), []);
        assert!(cases(&serde_json::json!({"public_test_cases": []})).unwrap_err().contains("empty"));
    }

    #[test]
    fn commands_must_name_the_program() {
        let second = Duration::from_secs(1);
        assert!(CodeRunner::new("python3", second).unwrap_err().to_string().contains("python3 {file}"));
        let nobody = CodeRunner::new("no-such-command-here {file}", second).unwrap();
        let error = nobody.run("", &[case("", "")]).unwrap_err().to_string();
        assert!(error.contains("no-such-command-here"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn programs_are_run_compared_and_ended() {
        let shell = |seconds: f64| CodeRunner::new("sh {file}", Duration::from_secs_f64(seconds)).unwrap();
        let double = "read n\necho $((n * 2))\n";
        assert_eq!(shell(10.0).run(double, &[case("4\n", "8"), case("5", "11")]).unwrap(), [true, false]);
        assert_eq!(shell(10.0).run("echo 8; exit 3", &[case("", "8")]).unwrap(), [false], "it failed");
        assert_eq!(shell(10.0).run("echo ${HOME:-nobody}", &[case("", "nobody")]).unwrap(), [true], "no environment");
        let begun = Instant::now();
        // What it starts is ended with it.
        let forever = "echo 8\nsleep 600 &\nsleep 600\n";
        assert_eq!(shell(0.3).run(forever, &[case("", "8"), case("", "8")]).unwrap(), [false, false]);
        assert_eq!(shell(30.0).run("while :; do echo yyyyyyyyyyyyyyyyyy; done", &[case("", "y")]).unwrap(), [false]);
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    }
}
