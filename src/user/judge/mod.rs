//! The emotion model calibrated on recorded judgements.
//!
//! [`Reading`] measures a reply, [`Judge`] turns the measures into a score and the score into a change; guards and a gate
//! refuse what is no honest reply. [`fit`] is how the weights came about, [`figures`] how well they agree with recorded
//! judgements.

mod context;
pub mod figures;
pub mod fit;
mod flow;
mod grams;
mod guard;
mod hearing;
mod history;
mod lists;
mod model;
mod person;
mod quote;
mod rarity;
mod reading;
pub mod recorded;
mod scorer;
mod transcripts;
mod trees;
mod weights;
mod words;

pub use hearing::Hearing;
pub use model::CalibratedModel;
pub use person::Person;
pub use reading::Reading;
pub use scorer::{Judge, Judged, View, WeightsError};
pub use transcripts::TurnVerdict;
pub use weights::Weights;
