//! What a team can do: every operation of the API with its rules, identity, limits and receipts.
//!
//! This is the only room that decides. It keeps nothing in memory and touches no file: every answer is read from the
//! store, every decision is made inside one of its edits, and so any number of processes may decide at once. Where
//! things are kept is `store`'s, what they look like is `protocol`'s, how agents live is `runtime`'s.
//!
//! # Who is trusted
//! Whoever can write below the root, that is any process of the same user, can forge an entry of an inbox, for the named
//! dialect signs nothing: `from` is a claim. What passes through this crate is checked, since the caller says who it is and
//! never what the message says it is: no member, user or outside writer can make a text that any reader takes for a
//! frame or for another's. What is read is checked too: a frame counts only when its sender may send it to that receiver
//! ([`Mail`]), everything else is text. Where our own process leads, its commands are signed as well ([`LeadSigner`]), and a
//! handle that knows its key ([`Team::trusting`]) takes no others, whoever can write the files.

mod actor;
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
mod ours;
mod pane_hosts;
mod places;
mod plans;
mod prompt;
mod refusal;
mod requests;
mod send;
mod started;
mod take_over;
mod task_rules;
mod tasks;
mod team;
mod teams;
mod trace;
mod views;

/// The store behind a team, for what hangs on it and needs no decision: the logs of its agents, its lease, its watch.
pub use pitcrew_store as store;

pub use actor::{Actor, OPERATOR};
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
pub use escaped::Escaped;
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
pub use requests::{Answer, Request, RequestKind};
pub use send::Sent;
pub use started::Started;
pub use take_over::TakeOver;
pub use team::Team;
pub use teams::{CreateTeam, MadeBy, OnTaken, TeamSummary, Teams};
pub use trace::{DeadLetter, MessageTrace};
pub use views::{
    MessageView, SentView, SpawnView, TaskListView, TaskRowView, TaskView, task_times,
};
