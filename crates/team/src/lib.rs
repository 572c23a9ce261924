//! The operations of a team: every operation of the API with its rules, identities, limits and
//! receipts.
//!
//! This crate makes all decisions about a team. It touches no file. It keeps no state in memory,
//! except the data about a deleted team and journal entries that could not be written (module
//! `life`). Each answer comes from the store, and each decision is made inside one of the store's
//! edits. Therefore any number of processes can decide at the same time. The crate `store` stores
//! the data, `protocol` defines its form, and `runtime` runs the agents.
//!
//! # Who is trusted
//! Any process of the same user can write below the root directory. Such a process can forge an
//! inbox entry, because the named dialect (the format of older reference clients) has no
//! signatures: the field `from` is only a claim.
//!
//! This crate checks everything that is sent through it. The calling process states who the caller
//! is; a message never states this. No member, user or outside writer is able to send a text that a
//! reader mistakes for a frame or for another sender's message.
//!
//! This crate also checks everything that it reads. A frame counts only if its sender is allowed to
//! send it to that receiver ([`Mail`]). Everything else is text. If pitcrew itself leads the team,
//! the lead also signs its commands ([`LeadSigner`]). A handle that knows the lead's key
//! ([`Team::trusting`]) accepts only signed commands, even if other programs are able to write the
//! files.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod actor;
mod after_deletion;
mod another;
mod archive;
mod asked;
mod bounds;
mod claimed;
mod clock;
mod conversations;
mod delivery;
mod document;
mod dropped;
mod edit;
mod ended;
mod entropy;
mod escaped;
mod handshakes;
mod join;
mod kept;
mod lead;
mod lead_signer;
mod life;
mod mail;
mod members;
mod mode_record;
mod named;
mod new_name;
mod ours;
mod pane_hosts;
mod places;
mod plans;
mod prompt;
mod records;
mod refusal;
mod requests;
mod secret_digests;
mod seen;
mod send;
mod send_once;
mod started;
mod take_over;
mod task_rules;
mod tasks;
mod team;
mod teams;
mod trace;
mod views;

/// The store behind a team. Callers use the store directly for data to which no rules apply: agent
/// logs, the lease and file watches.
pub use pitcrew_store as store;

pub use actor::{Actor, OPERATOR, USER};
pub use another::AnotherTeam;
pub use archive::ArchiveEntry;
pub use asked::asked_name;
pub use bounds::RunBounds;
pub use claimed::lead_reads_inbox;
pub use clock::{Clock, SystemClock};
pub use conversations::{ClientConversation, sent_at_ms};
pub use delivery::{DeliveryState, MAIL_WAITS_MS, Receipt};
pub use document::UnreadEntry;
pub use dropped::MembersMended;
pub use ended::MemberEnd;
pub use escaped::{ArchivedEscapes, Escaped};
pub use handshakes::{AnswerFound, Asked, PermissionAnswer, PermissionAsk};
pub use join::JoinMember;
pub use lead::RefusedFrame;
pub use lead_signer::{LeadKeys, LeadSigner, NotRenewed, Trust, VerifyKey, VerifyKeyError};
pub use mail::{Collected, IdleNotice, IdleReason, InboxOwner, Mail};
pub use members::{Enlisted, MemberRemoved, ModeLowered, SpawnMember};
pub use mode_record::{KnownMode, ModeLook, RefusedMode};
pub use named::team_of;
pub use ours::SpawnRecord;
pub use pane_hosts::PanePlace;
pub use plans::{PlanState, PlanView};
pub use records::TeamRecords;
pub use requests::{Answer, Request, RequestKind};
pub use secret_digests::{
    CountedBytes, DigestKey, FILTER_BYTES, Mac, SecretDigest, SecretDigests, SecretText,
};
pub use send::Sent;
pub use send_once::{Once, OnceTask};
pub use started::Started;
pub use take_over::TakeOver;
pub use team::Team;
pub use teams::{CreateTeam, FirstRun, MadeBy, OnTaken, TeamSummary, Teams};
pub use trace::{DeadLetter, MessageTrace};
pub use views::{
    MessageView, SentView, SpawnView, TaskListView, TaskRowView, TaskView, task_times,
};
