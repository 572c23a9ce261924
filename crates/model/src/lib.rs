//! Calls language models.
//!
//! The trait [`Model`] takes a whole conversation and streams one answer. There are three
//! implementations: the Anthropic Messages API, chat completions (OpenAI and many local servers),
//! and scripts, whose answers come from a file. A conversation consists of Anthropic content
//! blocks. Their order is kept, and no block is dropped.
//!
//! This crate runs no tools and stores no transcripts. Of a team, it knows only the name. It reads
//! neither the environment nor the settings. The caller supplies the URLs and keys as
//! [`Endpoints`].
//!
//! Start reading at [`Model`] and [`Request`], then [`open()`].

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")
)]

mod anthropic;
pub mod bounds;
mod call;
mod conversation;
mod emit;
mod endpoints;
mod error;
mod http;
mod ollama;
mod open;
mod openai;
mod pace;
mod price;
mod retry;
mod script;
mod spec;
mod sse;
mod toolless;
mod window;

pub use call::{
    AgentTag, Model, Request, Response, ResponseStream, StopReason, StreamEvent, ToolSpec, Usage,
};
pub use conversation::{Block, Extra, Message, Role, ToolContent};
pub use endpoints::{Endpoints, Secret};
pub use error::ModelError;
pub use ollama::ollama_models;
pub use open::open;
pub use pace::Pace;
pub use price::{LISTED_IN, PriceSource, PriceTable, in_dollars};
pub use retry::{RetryPolicy, Retrying};
pub use script::{COMPACTION, INTERRUPTED, Script, ScriptError, Scripted};
pub use spec::{ALIASES, ModelSpec, default_spec};
pub use window::{UNKNOWN_WINDOW, known_window, window_of};
