//! One agent as a pure state machine: [`Agent::handle`] takes an [`Event`] and answers with [`Effects`].
//!
//! Nothing here waits, reads a clock, rolls dice or touches a file. The driver carries out the effects in their order,
//! one after the other, and feeds what comes of them back as events; an effect that fails ends the list, and the failure
//! comes back as [`Event::Broken`]. So "written to the transcript, then marked read" is an order in a list. Steps and marks
//! may lag behind on their way to disk, but never behind an effect that waits for them ([`Effect::waits_for`]): an agent
//! thinks ahead of its transcript, and does and says nothing that is not in it.

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
