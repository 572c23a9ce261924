//! Turns texts into lines for the terminal: markdown, program code, diffs, calls of tools and their
//! output.
//!
//! All functions are pure: they return owned lines that fit into the given width, and the caller
//! keeps them. Highlighting is slow, so a caller draws kept lines again and calls these functions
//! only when the text or the width has changed.
//!
//! Every text comes from outside. `text` replaces its control characters and invisible characters,
//! `wrap` measures the width of each character on the screen.
//!
//! - `markdown` and `table` draw markdown, and `live` draws markdown that is still being written.
//! - `code` highlights program code, and `diff` compares two texts.
//! - `call` draws a call of a tool, and `output` its result.

mod call;
mod code;
mod diff;
mod live;
mod markdown;
mod output;
mod table;
mod text;
mod wrap;

pub use call::call;
pub use code::code;
pub use diff::{DiffPlace, DiffRow, diff, diff_rows};
pub use live::LiveMarkdown;
pub use markdown::{hides_text, markdown};
pub use output::{OUTPUT_ROWS, for_people, output};
pub use wrap::wrap;

pub(crate) use text::clean;
pub(crate) use wrap::{Blanks, rows};
