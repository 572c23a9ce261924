//! The panes that teams have recorded. Commands use the records to stop the programs in these
//! panes.

use pitcrew_runtime::supervision::RecordedPanes;

use super::named_programs;
use crate::context::Context;

/// Returns the recorded panes of the teams below this root. Only pane programs that the user named
/// may be run.
pub(crate) fn recorded_panes(context: &Context) -> RecordedPanes {
    RecordedPanes::below(&context.root).with_named_programs(named_programs(context))
}
