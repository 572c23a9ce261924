//! What every face shows of a team, and no face owns: the terminal, a page, an editor and a program all read it here.
//!
//! [`fold`] turns events into what is shown, [`stream`] into lines of JSON; [`outcome`] is the end of a run for programs.
//! [`running`] and [`member_status`] find out which process runs a team and its members, [`lead`] asks the process that
//! leads one, and [`orphans`] stops what runs without it. [`asking`] keeps the questions that wait for a person.

pub mod asking;
mod error;
pub mod fold;
pub mod lead;
pub mod member_status;
pub mod orphans;
pub mod outcome;
pub mod running;
pub mod stream;
pub mod tally;
pub mod text;

pub use error::ViewError;
