//! Stops the processes that run members, step by step. Finds the processes that a dead process left
//! running.
//!
//! The team records which processes were started. The module `identity` stops a single process, and
//! the pane backends close panes.

mod escapes;
mod recorded;
mod stop;

pub(crate) use escapes::EscapeLog;
pub use escapes::{LeftRunning, escaped, forget_ended, still_running};
pub use pitcrew_process::strays::{Stray, adopt_strays, end_strays};
pub use recorded::{PaneClosed, RecordedPanes, TaggedPane};
pub(crate) use stop::program_of;
pub use stop::{
    StoppedMember, left_by_started, left_running, own_process, stop_member, stop_members, sweep,
};
