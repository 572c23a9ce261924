//! Decides which parts of a project's files are used. The decision depends on the effects of the
//! files, and on whether the user trusts the project.
//!
//! A project is read only once ([`Project::read`]), so that exactly the checked content is used.
//!
//! - `items` lists the effects of the project's settings, hooks, MCP servers and agents.
//! - `repository` finds the folder for which the user's answer is stored.
//! - `record` stores the user's answers in the configuration root.
//! - `stores` answers which git folders outside of a checkout are trusted.
//!
//! The user interface asks the user, and `settings` merges the layers.
//!
//! Without trust, only a project's deny and ask rules and its instructions are used.
//! `settings::NEVER_FROM_PROJECT` lists the settings that no project is allowed to set, trusted or
//! not.

mod items;
mod project;
mod record;
mod repository;
mod stores;

pub use items::{Item, ItemKind};
pub use project::{Counted, LeftOut, Project, WhyLeftOut};
pub use record::FILE;
pub use record::{Answer, FolderTrust, TRUSTED_ITEMS, Trust, TrustError, TrustState};
pub use repository::Repository;
pub use stores::trusted_stores;
