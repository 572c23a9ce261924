//! Reads the layers of settings and merges them (API reference "Claude Code Settings"). This module
//! also saves what a person decides, such as a permission rule, in the user's settings.
//!
//! The caller passes the paths of the files. This module does not read the environment and does not
//! know the home folder. The module `trust` decides which parts of a project's layers are used. The
//! table in `never` lists the fields that no project is allowed to set. The permission gate
//! interprets rules, and the hooks module of the crate
//! `runtime` interprets hooks; `hooks` here says whose count.

mod error;
mod files;
mod hooks;
mod keys;
mod layers;
mod never;
mod notify;
mod saving;
mod values;
mod views;

pub use error::SettingsError;
pub use files::Paths;
pub use files::read;
pub use hooks::HookSection;
pub use layers::{Layer, Settings, Source};
pub use never::strip;
pub use never::{NEVER_FROM_PROJECT, Never, Refusal, What};
pub use notify::{NotifySettings, TerminalSignal};
pub use saving::{save_allowing_rule, save_model};
pub use views::{Permissions, SourcedRule};
