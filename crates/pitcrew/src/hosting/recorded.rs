//! The panes that teams have on record, for commands that stop what is in them.

use pitcrew_runtime::supervision::RecordedPanes;

use super::named_programs;
use crate::context::Context;

/// The panes below this root, with the pane programs that the settings name.
pub(crate) fn recorded_panes(context: &Context) -> RecordedPanes {
    RecordedPanes::below(&context.root).with_named_programs(named_programs(context))
}
