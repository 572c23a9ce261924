//! What every face shows of a team, and no face owns: the terminal, a page, an editor and a program
//! all read it here.
//!
//! [`fold`](mod@fold) makes the [`state`] of what happens, and [`remark`] says what of it is worth
//! a line. [`stream`] and [`result`] write a run as JSON, [`outcome`] its end. [`running`] and
//! [`member_status`] find out which process runs a team and its members, [`lead`] asks the process
//! that leads one, and [`orphans`] stops what runs without it. [`asking`] keeps the questions that
//! wait for a person.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

pub mod asking;
mod error;
pub mod fold;
pub mod lead;
pub mod member_status;
pub mod orphans;
pub mod outcome;
pub mod remark;
pub mod result;
pub mod running;
pub mod state;
pub mod stream;
pub mod text;
pub mod wording;

pub use error::ViewError;
pub use fold::{ViewEvent, fold};
pub use state::{AgentState, Counts, TeamState};
