//! The panes that teams have recorded. Commands use the records to stop the programs in these
//! panes.

use pitcrew_runtime::supervision::RecordedPanes;

use super::named_programs;
use crate::context::Context;

/// Returns the recorded panes of all teams below this root. To control a pane, pitcrew may have to
/// run a pane program. It runs a recorded pane program only if the user named that program.
pub(crate) fn recorded_panes(context: &Context) -> RecordedPanes {
    RecordedPanes::below(&context.root).with_named_programs(named_programs(context))
}
