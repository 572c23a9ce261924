//! Ending what was started to run members: in what order it is tried, and what a dead process left behind.
//!
//! What was started is recorded by the team; how one process is stopped is `identity`'s, and a pane its backend's.

mod escapes;
mod recorded;
mod stop;

pub(crate) use escapes::EscapeLog;
pub use escapes::{LeftRunning, escaped, forget_ended};
pub use pitcrew_process::strays::{Stray, adopt_strays, end_strays};
pub use recorded::{PaneClosed, RecordedPanes, TaggedPane};
pub(crate) use stop::program_of;
pub use stop::{
    StoppedMember, left_by_started, left_running, own_process, stop_member, stop_members, sweep,
};
