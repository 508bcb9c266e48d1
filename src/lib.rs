//! Train empathetic language models with verifiable emotion rewards.
//!
//! A policy talks with simulated users whose emotion, a number from 0 to 100, moves after every reply. The emotion a
//! dialogue ends with is its reward, and PPO or GRPO updates the policy (RLVER, arXiv 2507.03112). Everything happens
//! in one process, on Burn, without libtorch and without Python. The data flows one way:
//!
//! ```text
//! profile ─▶ simulated user ─▶ dialogue ─▶ episode ─▶ advantages ─▶ update ─▶ checkpoint
//!              ▲  appraisal,     │ reply     (token truth)  (objective)   (kernels)    │
//!              └──── emotion ◀───┘                                                    ▼
//!                                                             evaluation ─▶ report
//! ```
//!
//! [`dialogue`] holds profiles, prompts and the reading of thoughts; [`user`] the simulated users; [`rollout`] runs
//! many dialogues at once and writes [`rollout::Episode`]s; [`objective`] turns rewards into advantages and losses;
//! [`train`] updates the networks and keeps the run's folder; [`evaluate`] measures a policy on held-out people; [`report`] makes
//! a run readable. A [`recipe`] describes a run completely.
//!
//! One simulated person, without any model:
//!
//! ```
//! use rlver::dialogue::ProfileSet;
//! use rlver::user::builtin::BuiltinUser;
//! use rlver::user::{Emotion, SessionSettings, UserEngine};
//!
//! let profiles = ProfileSet::builtin_train();
//! let settings = SessionSettings { start: Emotion::new(40).unwrap(), seed: 1 };
//! let mut user = BuiltinUser::new().open(profiles.get(0).clone(), settings);
//! println!("user: {}", user.opening()?);
//! let turn = user.respond("嗯。")?;
//! assert!(turn.after < turn.before, "a bare acknowledgement helps nobody");
//! println!("{} → {}: {}", turn.before, turn.after, turn.line);
//! # Ok::<(), rlver::user::UserError>(())
//! ```

pub mod audit;
pub mod bench;
pub mod device;
pub mod dialogue;
mod error;
pub mod evaluate;
pub mod metrics;
pub mod objective;
pub mod plan;
pub mod recipe;
pub mod report;
pub mod rollout;
pub mod seed;
pub mod supporter;
pub mod train;
pub mod user;

pub use error::Error;
