//! Decides which parts of a project's files are used: the effects of the files, and whether the
//! user trusts the project.
//!
//! A project is read only once ([`Project::read`]), so that exactly the judged content is used.
//!
//! - `items` lists the effects of its settings, hooks, MCP servers and agents.
//! - `repository` finds the folder that the trust is about.
//! - `record` stores the user's answers in the root.
//!
//! The user interface asks the user, and `settings` merges the layers.
//!
//! Without trust, only a project's deny and ask rules and its instructions are used. Settings that
//! no project may set, trusted or not, are in `settings::NEVER_FROM_PROJECT`.

mod items;
mod project;
mod record;
mod repository;

pub use items::{Item, ItemKind};
pub use project::{Counted, LeftOut, Project, WhyLeftOut};
pub use record::FILE;
pub use record::{Answer, FolderTrust, TRUSTED_ITEMS, Trust, TrustError, TrustState};
pub use repository::Repository;
