//! Measures of the line that is answered: what state the person was in.

use super::hearing::Hearing;
use super::words;
use crate::user::builtin::text::normalise;

/// The measures, in a fixed order.
pub(super) fn measures(hearing: &Hearing) -> Vec<f32> {
    let language = hearing.person.language;
    let line = &hearing.line;
    let norm = normalise(line, language);
    let size = line.chars().count() as f32;
    let mut measures = vec![
        (size / 20.0).ln_1p(),
        (hearing.turn as f32).ln_1p(),
        f32::from(u8::from(hearing.turn == 0)),
        line.matches(['？', '?']).count() as f32,
        line.matches(['！', '!']).count() as f32,
    ];
    let per = 50.0 / (size + 20.0);
    measures.extend(words::lists(language).values().map(|w| words::count(&norm, w, language) as f32 * per));
    measures
}
