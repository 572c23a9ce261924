//! One agent as a pure state machine: [`Agent::handle`] takes an [`Event`] and returns [`Effects`].
//!
//! This module does no I/O, never waits, and uses no clock and no random numbers. The driver
//! carries out the effects in order and returns their results as events. A failing effect ends the
//! list, and the failure returns as [`Event::Broken`]. So "written to the transcript, then marked
//! as read" is the order of two list entries. Steps and read marks may reach the disk later, but
//! always before an effect that waits for them ([`Effect::waits_for`]). An agent may call its model
//! ahead of its transcript. Nothing that others can see happens before the steps for it are in the
//! transcript.

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
