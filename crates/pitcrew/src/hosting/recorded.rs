//! The recorded panes of teams, for commands that stop the programs in these panes.

use pitcrew_runtime::supervision::RecordedPanes;

use super::named_programs;
use crate::context::Context;

/// The recorded panes of the teams below this root, with the pane programs that the user named.
pub(crate) fn recorded_panes(context: &Context) -> RecordedPanes {
    RecordedPanes::below(&context.root).with_named_programs(named_programs(context))
}
