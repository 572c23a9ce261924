//! The layered settings (API reference "Claude Code Settings"): reading and merging them, and adding a rule to the user's.
//!
//! The caller says where the files are; nothing here reads the environment or knows the home folder.
//! How much of a project's layers counts is decided in `trust`; what never counts is the table in `never`.
//! What a rule means is the gate's business, what a hook does is the hooks'.

mod error;
mod files;
mod keys;
mod layers;
mod never;
mod saving;
mod values;
mod views;

pub use error::SettingsError;
pub use files::Paths;
pub use files::read;
pub use layers::{Layer, Settings, Source};
pub use never::strip;
pub use never::{NEVER_FROM_PROJECT, Never, Refusal, What};
pub use saving::save_allowing_rule;
pub use views::{Permissions, SourcedRule};
