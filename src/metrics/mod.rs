//! What a run writes down about itself: one line of numbers per step ([`MetricsLog`]), the same numbers for
//! TensorBoard ([`EventWriter`]), the learning curve ([`learning_curve_svg`]) and the time that is left ([`Eta`]).
//!
//! [`KEYS`] is the one place where a metric gets its name, unit and meaning.

mod axis;
mod crc32c;
mod curve;
mod error;
mod keys;
mod progress;
mod record;
mod tensorboard;

pub use crc32c::crc32c;
pub use curve::{ReferenceLine, Series, learning_curve_svg};
pub use error::MetricsError;
pub use keys::{KEYS, Key, documented, markdown_table};
pub use progress::{Eta, human_duration};
pub use record::{Metrics, MetricsLog};
pub use tensorboard::EventWriter;
