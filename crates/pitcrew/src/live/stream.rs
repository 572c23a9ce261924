//! Writes a run as JSON lines to stdout.

use pitcrew_protocol::StreamEvent;
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::TeamState;
use pitcrew_view::stream::Stream;

use crate::failure::Failure;
use crate::output;

/// Returns a new id for an event.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Writes the JSON lines of a run event. Some run events have no JSON line.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub(crate) fn write(
    stream: &mut Stream,
    state: &TeamState,
    event: &RunEvent,
) -> Result<(), Failure> {
    stream.lines(state, event).iter().try_for_each(print)
}

/// Writes an event as one line to stdout.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub(crate) fn print(event: &StreamEvent) -> Result<(), Failure> {
    output::line(&output::escaped_json(&event.to_line().map_err(Failure::internal)?))
}
