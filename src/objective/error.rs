//! What can be inconsistent in the inputs of an objective.

/// An input that does not fit the formula it was given to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ObjectiveError {
    /// Two slices that describe the same tokens, rows or dialogues have different lengths.
    #[error("`{what}` has {found} entries, expected {expected} to match `{reference}`")]
    LengthMismatch {
        /// The slice that was checked.
        what: &'static str,
        /// The slice it has to match.
        reference: &'static str,
        /// Length of the reference.
        expected: usize,
        /// Length found.
        found: usize,
    },
    /// A score or distance is NaN or infinite; unscored dialogues have to be left out before this point.
    #[error("`{what}` number {index} is {value}; leave unscored dialogues out before computing advantages")]
    NotFinite {
        /// The input that was checked.
        what: &'static str,
        /// Position of the value.
        index: usize,
        /// The value found.
        value: f64,
    },
    /// A setting is outside the range in which its formula means anything.
    #[error("`{key}` is {value}, expected {expected}")]
    OutOfRange {
        /// The recipe key.
        key: &'static str,
        /// The value found.
        value: f64,
        /// What would have been accepted.
        expected: &'static str,
    },
}

/// Refuses `found` unless it equals the length of `reference`.
pub(super) fn same_length(
    what: &'static str,
    found: usize,
    reference: &'static str,
    expected: usize,
) -> Result<(), ObjectiveError> {
    if found == expected { Ok(()) } else { Err(ObjectiveError::LengthMismatch { what, reference, expected, found }) }
}

/// Refuses the first value that is NaN or infinite.
pub(super) fn all_finite(what: &'static str, values: &[f64]) -> Result<(), ObjectiveError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(ObjectiveError::NotFinite { what, index, value: values[index] }),
        None => Ok(()),
    }
}

/// Refuses a setting for which `accepted` is false.
pub(super) fn in_range(
    key: &'static str,
    value: f64,
    accepted: bool,
    expected: &'static str,
) -> Result<(), ObjectiveError> {
    if accepted { Ok(()) } else { Err(ObjectiveError::OutOfRange { key, value, expected }) }
}
