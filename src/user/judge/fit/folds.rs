//! Cells of cross-validation: profiles and reply models held out together.

use std::collections::BTreeSet;

use super::super::recorded::Recorded;
use super::super::scorer::fnv;

/// Profile folds and model folds.
pub(super) const PROFILES: usize = 5;
pub(super) const MODELS: usize = 4;

/// The fold of profile and model of each dialogue.
pub(super) struct Folds {
    pub(super) of: Vec<(usize, usize)>,
}

impl Folds {
    /// Profiles are dealt by the hash of their id, so that neighbours in the file do not fall together; models in order
    /// of name, so that relatives do.
    pub(super) fn of(dialogues: &[Recorded]) -> Folds {
        let models: BTreeSet<&str> = dialogues.iter().map(|d| d.model.as_str()).collect();
        let models: Vec<&str> = models.into_iter().collect();
        let mut ids: Vec<&str> = dialogues.iter().map(|d| d.id.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
        ids.sort_by_key(|id| (fnv(id.bytes()), *id));
        let of = dialogues
            .iter()
            .map(|d| {
                let profile = ids.iter().position(|i| *i == d.id).unwrap_or(0) % PROFILES;
                let model = models.iter().position(|m| *m == d.model).unwrap_or(0) * MODELS / models.len();
                (profile, model)
            })
            .collect();
        Folds { of }
    }
}
