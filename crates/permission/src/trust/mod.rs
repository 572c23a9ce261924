//! How far a project's files count: what they would do, and whether the user trusts it.
//!
//! A project is read once ([`Project::read`]), so that what was judged is what is used. `items` lists what its settings,
//! hooks, MCP servers and agents would do; `repository` finds the folder that trust is about; `record` keeps the
//! user's answers in the root. Asking the user is the face's business, merging layers that of `settings`.
//!
//! Without trust only a project's deny and ask rules and its instructions count. What no project may set, trusted or
//! not, is `settings::NEVER_FROM_PROJECT`.

mod items;
mod project;
mod record;
mod repository;

pub use items::{Item, ItemKind};
pub use project::{Counted, LeftOut, Project, WhyLeftOut};
pub use record::FILE;
pub use record::{Answer, FolderTrust, TRUSTED_ITEMS, Trust, TrustError, TrustState};
pub use repository::Repository;
