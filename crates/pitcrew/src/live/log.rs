//! The display of a run as plain lines on stderr, for logs and pipes.

use jiff::Zoned;
use pitcrew_view::remark::Remark;

use crate::output;

/// Writes a remark to stderr, with the time of day.
pub(crate) fn write(remark: &Remark) {
    output::remark(&timed(remark));
}

/// Formats a remark as one line that begins with the time of day.
#[expect(clippy::disallowed_methods, reason = "a line of the log begins with the time of day")]
pub(crate) fn timed(remark: &Remark) -> String {
    let time = Zoned::now().strftime("%H:%M:%S");
    format!("{time} {}", output::in_one_line(&line(remark)))
}

/// Formats a remark as one line.
pub(crate) fn line(remark: &Remark) -> String {
    match &remark.agent {
        Some(agent) => format!("{agent} {}", remark.text),
        None => remark.text.clone(),
    }
}
