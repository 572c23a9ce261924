//! Reads the stream-json of another client, and folds it into the same [`TeamState`] as a run of
//! pitcrew.
//!
//! - `reader` cuts the bytes into lines. It counts and skips lines that cannot be used.
//! - `line` and `raw` read the needed fields of a line without copying them.
//! - `session`, `results`, `tasks` and `ending` turn a line into events for the fold. `calls` keeps
//!   the tool calls until their results come.
//! - `ours` reads the events that only pitcrew writes into a stream.
//! - `fact` contains the events that only such a stream has. All others are events of a run.
//!
//! Nothing in a stream is trusted: all sizes and numbers are bounded. The texts in the state can
//! contain any characters; the lines of the timeline are safe for a terminal.
//!
//! [`TeamState`]: crate::TeamState

mod calls;
mod ending;
mod fact;
mod line;
mod ours;
mod raw;
mod reader;
mod results;
mod session;
mod tasks;

pub use fact::StreamFact;
pub(crate) use fact::fold_fact;
pub use reader::{ClientStream, LINE_BYTES_MOST, LinesRead};
