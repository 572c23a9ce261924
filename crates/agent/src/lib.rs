//! One agent as a pure state machine: [`Agent::handle`] takes an [`Event`] and returns [`Effects`].
//!
//! This crate does no I/O, never waits, and uses no clock and no random numbers. The driver (the
//! code that calls the state machine) carries out the effects in order, and returns their results
//! as events. If an effect fails, the driver does not carry out the effects after it, and returns
//! the failure as [`Event::Broken`]. The order of the effects can therefore guarantee rules such as
//! "write to the transcript first, then mark as read".
//!
//! Steps and read marks can reach the disk later, but always before an effect that waits for them
//! ([`Effect::waits_for`]). An agent can call its model before its steps are in the transcript.
//! Effects that others can see happen only after the steps are in the transcript.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod compact;
mod digest;
mod event;
mod faulty;
mod file_seen;
mod inbox;
mod machine;
mod mail;
mod pause;
mod repeats;
mod round;
pub mod transcript;

pub use digest::Digest;
pub use event::{
    Answerer, Compaction, ContextBound, Effect, Effects, Ending, Event, IdleCause, IdleReport,
    Inspection, Judgement, Judging, ModelFailure, Profile, Question, Role, Settlement, Summary,
    TurnEnd, Wait,
};
pub use file_seen::FileSeen;
pub use machine::Agent;
pub use mail::Mail;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_approval;
#[cfg(test)]
mod tests_compact;
#[cfg(test)]
mod tests_crash;
#[cfg(test)]
mod tests_mail;
#[cfg(test)]
mod tests_repeats;
