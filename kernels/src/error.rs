/// Inputs of an operation that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {what} {}, expected {expected}", found_in_words(found))]
pub struct ShapeError {
    /// The operation.
    pub op: &'static str,
    /// The argument.
    pub what: &'static str,
    /// Its shape; empty when something else is wrong with it.
    pub found: Vec<usize>,
    /// What the operation needs, in words.
    pub expected: String,
}

fn found_in_words(found: &[usize]) -> String {
    if found.is_empty() { "does not fit".into() } else { format!("has shape {found:?}") }
}

impl ShapeError {
    /// `Ok` when `found == expected`, otherwise the error that says so.
    pub(crate) fn check(
        op: &'static str,
        what: &'static str,
        found: &[usize],
        expected: &[usize],
    ) -> Result<(), ShapeError> {
        if found == expected {
            return Ok(());
        }
        Err(ShapeError { op, what, found: found.to_vec(), expected: format!("{expected:?}") })
    }
}

/// Refuses head counts that cannot be grouped.
pub(crate) fn check_heads(op: &'static str, q: [usize; 3], kv_heads: usize) -> Result<(), ShapeError> {
    if kv_heads == 0 || !q[1].is_multiple_of(kv_heads) {
        let expected = format!("a number of heads that {kv_heads} key/value heads divide");
        return Err(ShapeError { op, what: "q", found: q.to_vec(), expected });
    }
    Ok(())
}
