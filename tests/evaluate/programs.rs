//! The built-in programming tasks can be solved, and wrong programs fail them.

use std::process::Command;
use std::time::Duration;

use rlver::evaluate::retention::{CodeRunner, RetentionSet};

/// One solution a task, in order.
const SOLUTIONS: [&str; 8] = [
    "print(int(input()) ** 2)",
    "print(sum(map(int, input().split())))",
    "print(input()[::-1])",
    "print(*sorted(input() for _ in range(int(input()))), sep='\\n')",
    "n = int(input())\nprint('yes' if n > 1 and all(n % d for d in range(2, n)) else 'no')",
    "print(sum(c in 'aeiou' for c in input().lower()))",
    "import math\nprint(math.gcd(*map(int, input().split())))",
    "a, b, out = 1, 1, []\nfor _ in range(int(input())):\n    out.append(a)\n    a, b = b, a + b\nprint(*out)",
];

#[test]
fn the_built_in_programs_are_run_and_compared() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|said| said.status.success()) {
        eprintln!("SKIPPED: programs of the built-in set: python3 is not there");
        return;
    }
    let set = RetentionSet::builtin_programs();
    assert_eq!(set.items.len(), SOLUTIONS.len());
    let runner = CodeRunner::new("python3 {file}", Duration::from_secs(60)).unwrap();
    let responses: Vec<String> = SOLUTIONS.iter().map(|code| format!("Here:\n```python\n{code}\n```\n")).collect();
    let checked = set.check(&responses, Some(&runner)).unwrap();
    for answered in &checked {
        assert!(answered.right, "{}: {:?}", answered.id, answered.parts);
    }
    assert_eq!(set.score(&checked).accuracy.mean, 1.0);
    // Each task's solution is wrong for the next.
    let mut moved = responses.clone();
    moved.rotate_left(1);
    assert_eq!(set.score(&set.check(&moved, Some(&runner)).unwrap()).accuracy.mean, 0.0);
    // Without a runner nothing is run, and nothing is right.
    assert_eq!(set.score(&set.check(&responses, None).unwrap()).accuracy.mean, 0.0);
}
