//! A run as lines of JSON on stdout.

use pitcrew_protocol::StreamEvent;
use pitcrew_runtime::events::RunEvent;
use pitcrew_view::stream::Stream;

use crate::failure::Failure;
use crate::output;

/// Writes what of the event is in the stream.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn write(stream: &mut Stream, event: &RunEvent) -> Result<(), Failure> {
    stream.lines(event).iter().try_for_each(print)
}

/// Writes an event as a line on stdout.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn print(event: &StreamEvent) -> Result<(), Failure> {
    output::line(&event.to_line().map_err(Failure::internal)?)
}
