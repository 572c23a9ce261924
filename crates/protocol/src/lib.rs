//! The wire format of agent teams as types: names, config, messages, frames, tasks, tools, stream
//! events, errors and limits.
//!
//! Everything here is pure: no I/O, no async, no clock, no randomness. The types keep unknown
//! fields ([`Foreign`]), so that a rewritten file loses nothing. The crate `store` knows where the
//! files are and how to lock them. The crate `team` decides which actions are allowed.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod answer;
mod chain;
mod config;
mod counted;
mod drift;
mod error;
mod format;
mod frame;
mod graph;
mod inject;
mod input;
mod limits;
mod message;
mod model_settings;
mod names;
mod pane_host;
mod permission_mode;
mod process_ref;
mod program;
mod results;
mod sandbox_profile;
mod schemas;
mod send;
mod status;
mod stream;
mod stream_ours;
mod suggest;
mod task;
mod telling;
mod tolerant;
pub mod tool_name;
mod tool_table;
mod tools;
#[macro_use]
mod wire;
mod yaml;

pub use answer::ToolAnswer;
pub use chain::chain;
pub use config::{BACKEND_IN_PROCESS, LEAD_NAME, LeadProcess, Member, TeamConfig};
pub use counted::{counted, counted_is};
pub use drift::{Drift, DriftKind, RECORDED_VERSIONS, Written, drift};
pub use error::{ApiError, ErrorCode};
pub use format::{FORMAT_VERSION, VERSION_KEY, newer_document, newer_line};
pub use frame::{
    Frame, IdleNotification, PermissionRequest, PermissionResponse, PlanApprovalRequest,
    PlanApprovalResponse, ShutdownApproved, ShutdownRejected, ShutdownRequest, ShutdownResponse,
    TaskAssignment, TaskCompleted, TeammateTerminated,
};
pub use graph::{CircleError, TaskGraph, open_blockers, ready};
pub use inject::{
    Injected, attribute, is_invisible, is_unseen, neutralised, parse as parse_injected, render,
    restored,
};
pub use input::{InputError, InputFault, check_input};
pub use limits::{Limits, Rate};
pub use message::{Message, MessageId, message_ids};
pub use model_settings::{
    ContextWindows, Price, PriceError, WindowError, longest_named, prices_from,
};
pub use names::{AgentId, AgentName, Color, InboxFile, NameError, TeamDir, TeamName, same_name};
pub use pane_host::PaneHost;
pub use permission_mode::PermissionMode;
pub use process_ref::ProcessRef;
pub use program::Program;
pub use results::{
    BroadcastSent, MessageSent, RequestSent, Responded, Routing, Spawned, StatusChanged,
    TaskCreated, TaskDetail, TaskFacts, TaskListed, TaskRow, TaskShown, TaskTimes, TaskTitle,
    TaskUpdated, TeamCreated, TeamDeleted,
};
pub use sandbox_profile::SandboxProfile;
pub use schemas::{subagent_schema, tool_schema};
pub use send::SendMessageInput;
pub use status::Status;
pub use stream::{
    AssistantEvent, AssistantMessage, Block, CacheCreation, Content, FailedAgent, ResultEvent,
    ServerToolUse, StreamEvent, StreamUsage, SystemInit, TeamEvent, TextBlock, ToolResultBlock,
    ToolUseBlock, UserEvent, UserMessage, id_by_rank, normalised_id,
};
pub use stream_ours::{EventIds, RunSummary};
pub use suggest::nearest;
pub use task::{Task, TaskId, TaskStatus};
pub use telling::{TELLING, telling};
pub use tolerant::{ParseError, from_text};
pub use tool_table::{
    CallEffect, CallView, FileParameter, ResultForm, RuleScope, ToolDescriptor, ToolKind, ToolSet,
    ToolTraits, canonical_tool,
};
pub use tools::{
    ExitPlanModeInput, SpawnInput, StatusChange, TaskCreateInput, TaskGetInput, TaskStopInput,
    TaskUpdateInput, TeamCall, TeamCreateInput, TeamDeleteInput,
};
pub use wire::Foreign;
pub use yaml::{YamlBounds, from_yaml};
