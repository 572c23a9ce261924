//! Reads the stream-json of another client, and folds it into the same [`TeamState`] as a run of
//! pitcrew.
//!
//! - `reader` cuts the bytes into lines. It counts and skips lines that cannot be used.
//! - `json` reads JSON without copying it, `raw` the values of the known fields. `line` and `input`
//!   list these fields.
//! - `session`, `results`, `tasks` and `ending` turn a line into events for the fold. `calls` keeps
//!   the tool calls until their results come.
//! - `conversations` keeps the conversations of the agents, for a person who reads them.
//! - `background` follows the agents that a newer client runs beside the turns of its lead.
//! - `ours` reads the events that only pitcrew writes into a stream.
//! - `fact` contains the events that change the state. The rare ones that a run of pitcrew has too
//!   are events of a run.
//!
//! Nothing in a stream is trusted: all sizes and numbers are bounded. The texts in the state can
//! contain any characters; the lines of the timeline are safe for a terminal.
//!
//! [`TeamState`]: crate::TeamState

mod background;
mod calls;
mod conversations;
mod ending;
mod fact;
mod input;
mod json;
mod line;
mod ours;
mod raw;
mod reader;
mod results;
mod session;
mod tasks;

pub(crate) use conversations::size_of;
pub use reader::{ClientStream, LINE_BYTES_MOST, LinesRead};
