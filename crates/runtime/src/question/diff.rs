//! A change of a file as a diff against the file as it is: the one whose path was judged, and no other.

use std::io::ErrorKind;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::content::{Kind, Line};
use super::model::AskedFile;
use super::visible::{visible, visible_text};
use crate::given_file::{Refused, contents, open_real};
use crate::handle::is_link_in_the_way;
use crate::tools::edited;

/// The largest file that is compared; of a larger one only the change itself is shown, which is whole all the same.
const MOST_BYTES: u64 = 1 << 20;

/// How long the shortest diff is looked for; after that a longer one will do.
const EFFORT: Duration = Duration::from_millis(500);

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// What an Edit replaces.
pub(super) struct Edit<'a> {
    pub(super) old: Option<&'a str>,
    pub(super) new: Option<&'a str>,
    pub(super) everywhere: bool,
}

/// A file as it is now.
enum Now {
    Text(String),
    Missing,
    /// It cannot be compared, and why.
    Unread(String),
}

/// The lines of a file that is written anew.
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

/// The lines of an edited file.
pub(super) fn of_edit(file: &str, asked: Option<&AskedFile>, edit: &Edit<'_>) -> Vec<Line> {
    let (old, new) = (edit.old.unwrap_or_default(), edit.new.unwrap_or_default());
    let mut lines = named(file, asked);
    let before = match read(asked) {
        Now::Text(before) => Ok(Some(before)),
        Now::Missing => Ok(None),
        Now::Unread(why) => Err(why),
    };
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

/// The name of the file, and where a link in its path leads to.
fn named(file: &str, asked: Option<&AskedFile>) -> Vec<Line> {
    let mut lines = vec![note(&format!("file {file}"))];
    if let Some(AskedFile { real, is_by_link: true }) = asked {
        lines.push(note(&format!("which is {} by a link", real.display())));
    }
    lines
}

/// Reads the file of the judged path, if it is a plain one of bounded size and no link has come into the path.
fn read(asked: Option<&AskedFile>) -> Now {
    let Some(AskedFile { real, .. }) = asked else {
        return Now::Unread("its path leads nowhere".to_owned());
    };
    match open_real(real).and_then(|file| contents(file, MOST_BYTES)) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_or_else(|_| Now::Unread("the file is no text".to_owned()), Now::Text),
        Err(Refused::Io(error)) if error.kind() == ErrorKind::NotFound => Now::Missing,
        Err(Refused::Io(error)) if is_link_in_the_way(&error) => {
            Now::Unread("a link stands in its path now".to_owned())
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
            // A bare carriage return ends a line for the diff; to a reader it would be nothing at all.
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
    // Its parts may come from outside: one line, and nothing hidden.
    Line { kind: Kind::Note, text: visible(&text.replace('\n', "<U+000A>")) }
}
