//! Shows a file change as a diff against the current file. This module reads only the file whose
//! path the permission gate has checked.

use std::io::ErrorKind;
use std::time::Duration;

use pitcrew_process::given_file::{Refused, contents, open_real};
use pitcrew_process::handle::is_link_in_the_way;
use pitcrew_tools::edited;
use similar::{ChangeTag, TextDiff};

use super::content::{Kind, Line};
use super::model::AskedFile;
use super::visible::{visible, visible_text};

/// Maximum size in bytes of a file that is compared. For a larger file there is no diff: the texts
/// in the call are shown in full instead.
const MOST_BYTES: u64 = 1 << 20;

/// Time limit for finding the shortest diff. After this time, a longer diff is accepted.
const EFFORT: Duration = Duration::from_millis(500);

/// Number of unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// The replacement that an Edit call makes.
pub(super) struct Edit<'a> {
    pub(super) old: Option<&'a str>,
    pub(super) new: Option<&'a str>,
    pub(super) everywhere: bool,
}

/// The current content of a file.
enum Now {
    Text(String),
    Missing,
    /// The reason why the file cannot be compared.
    Unread(String),
}

/// Returns the lines for a call that writes a whole file.
pub(super) fn of_write(file: &str, asked: Option<&AskedFile>, content: Option<&str>) -> Vec<Line> {
    let content = content.unwrap_or_default();
    let mut lines = named(file, asked);
    match read(asked) {
        Now::Text(before) if before == content => {
            lines.push(note("the file has this content already"))
        }
        Now::Text(before) => lines.extend(compared(&before, content)),
        Now::Missing => {
            lines.push(note("a new file"));
            lines.extend(whole(Kind::Added, content));
        }
        Now::Unread(why) => {
            lines.push(note(&format!("all of the file is replaced; {why}")));
            lines.extend(whole(Kind::Added, content));
        }
    }
    lines
}

/// Returns the lines for a call that edits a file.
pub(super) fn of_edit(file: &str, asked: Option<&AskedFile>, edit: &Edit<'_>) -> Vec<Line> {
    let (old, new) = (edit.old.unwrap_or_default(), edit.new.unwrap_or_default());
    let mut lines = named(file, asked);
    let before = match read(asked) {
        Now::Text(before) => Ok(Some(before)),
        Now::Missing => Ok(None),
        Now::Unread(why) => Err(why),
    };
    // Apply the edit in memory, so that the diff shows its real effect.
    let after = before
        .and_then(|before| Ok((edited(before.as_deref(), old, new, edit.everywhere)?, before)));
    match after {
        Ok((after, before)) => lines.extend(compared(&before.unwrap_or_default(), &after)),
        Err(why) => {
            lines.push(note(&format!("shown without the file: {why}")));
            lines.extend(whole(Kind::Removed, old).chain(whole(Kind::Added, new)));
        }
    }
    lines
}

/// Returns a line with the file's name. If the path contains a link, also returns a line with the
/// link's target.
fn named(file: &str, asked: Option<&AskedFile>) -> Vec<Line> {
    let mut lines = vec![note(&format!("file {file}"))];
    if let Some(AskedFile { real, is_by_link: true }) = asked {
        lines.push(note(&format!("which is {} by a link", real.display())));
    }
    lines
}

/// Reads the file at the path that the permission gate has checked. Reads only a regular file of
/// limited size, and only if its path contains no link now.
fn read(asked: Option<&AskedFile>) -> Now {
    let Some(AskedFile { real, .. }) = asked else {
        return Now::Unread("its path leads nowhere".to_owned());
    };
    match open_real(real).and_then(|file| contents(file, MOST_BYTES)) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_or_else(|_| Now::Unread("the file is no text".to_owned()), Now::Text),
        Err(Refused::Io(error)) if error.kind() == ErrorKind::NotFound => Now::Missing,
        Err(Refused::Io(error)) if is_link_in_the_way(&error) => {
            Now::Unread("its path contains a link now".to_owned())
        }
        Err(Refused::Io(error)) => Now::Unread(format!("the file cannot be read: {error}")),
        Err(Refused::TooLong { .. }) => {
            Now::Unread("the file is too large to be compared".to_owned())
        }
        Err(refused) => Now::Unread(refused.to_string()),
    }
}

fn compared(before: &str, after: &str) -> Vec<Line> {
    let diff = TextDiff::configure().timeout(EFFORT).diff_lines(before, after);
    let mut lines = Vec::new();
    for operations in diff.grouped_ops(CONTEXT_LINES) {
        let starts = operations.first().map_or(0, |operation| operation.old_range().start);
        lines.push(note(&format!("line {}", starts + 1)));
        for change in operations.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let kind = match change.tag() {
                ChangeTag::Equal => Kind::Text,
                ChangeTag::Delete => Kind::Removed,
                ChangeTag::Insert => Kind::Added,
            };
            let value: &str = change.value();
            // The diff treats a lone carriage return as the end of a line. Write the carriage
            // return out, because a person would not see it.
            lines
                .push(Line { kind, text: visible_text(value.strip_suffix('\n').unwrap_or(value)) });
            if change.missing_newline() {
                lines.push(note("no line break at the end"));
            }
        }
    }
    lines
}

fn whole(kind: Kind, text: &str) -> impl Iterator<Item = Line> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines = (!text.is_empty()).then(|| text.split('\n'));
    lines.into_iter().flatten().map(move |line| Line { kind, text: visible_text(line) })
}

fn note(text: &str) -> Line {
    // The text can contain a path or an error message with any characters. Keep it on one line and
    // write out every invisible character.
    Line { kind: Kind::Note, text: visible(&text.replace('\n', "<U+000A>")) }
}
