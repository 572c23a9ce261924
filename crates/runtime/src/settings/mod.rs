//! The layered settings (API reference "Claude Code Settings"): reading, merging and editing them.
//!
//! The caller says where the files are; nothing here reads the environment or knows the home folder.
//! What a rule means is the gate's business, what a hook does is the hooks'.

mod error;
mod files;
mod layers;
mod views;

pub use error::SettingsError;
pub use files::{Paths, edit_layer};
pub use layers::{Layer, Settings, Source};
pub use views::{Permissions, SourcedRule};
