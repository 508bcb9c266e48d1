//! One HTML file about one or several runs: curves, what the replies do, and every sampled dialogue with the user's
//! appraisals and the tokens' numbers. It needs no network and no server.
//!
//! A run's folder is read into [`RunDigest`]s (counts per episodes file), a sample of dialogues is chosen, and both become
//! data inside the page. Texts from models and profiles reach the page as JSON strings only, and the page shows
//! them as text, never as markup.

mod charts;
mod digest;
mod error;
mod page;
mod run;
mod sample;
mod view;
mod watch;

pub use digest::{Brief, Digest, Ending};
pub use error::ReportError;
pub use page::{Report, ReportOptions, render};
pub use run::{RunDigest, TokenText};
pub use watch::watch;
