//! The emotion model fitted to recorded judgements.

mod attacks;
mod command;
mod stories;
