//! Edit: replaces an exact piece of text in a file.
//!
//! Models write line ends as `\n`. If a file has `\r\n` line ends, `\n` in the old and new text
//! means `\r\n`. The file then keeps its line ends.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use pitcrew_protocol::{restored, tool_name};
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{FileError, change, in_background, look_in_background, refusal, resolve};
use super::input::parse;
use super::numbered::snippet;
use super::patch::hunks;
use super::{Tool, ToolContext, ToolOutcome};

/// The number of lines that are shown before and after a change.
const SNIPPET_LINES: usize = 4;

/// The tool that replaces an exact piece of text in a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edit;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

#[async_trait]
impl Tool for Edit {
    fn name(&self) -> &str {
        tool_name::EDIT
    }

    fn description(&self) -> &str {
        "Replaces `old_string` in a file by `new_string`. `old_string` must be in the file exactly as given, \
         indentation included and without the line numbers that Read shows, and only once: give more of the \
         lines around it to make it unique, or set `replace_all` to replace every occurrence. Copy `&lt;` \
         before the name of a tag of this conversation as a result shows it: it stands for the sign. An empty \
         `old_string` creates a file that does not exist yet. The file must have been read before and must \
         not have changed since."
    }

    async fn refusal(&self, input: &Value, context: &ToolContext) -> Option<ToolOutcome> {
        match parse::<Input>(self, input.clone()) {
            Ok(input) => look_in_background(context, move |context| check(&input, context)).await,
            Err(outcome) => Some(outcome),
        }
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match parse::<Input>(self, input) {
            Ok(input) => in_background(context, move |context| edit(&input, context)).await,
            Err(outcome) => outcome,
        }
    }
}

/// Returns an error with the reason if an edit of the file's current content would fail.
fn check(input: &Input, context: &ToolContext) -> Result<(), ToolOutcome> {
    let path = named(input, context)?;
    refusal(&path, context, |before| replace(input, before, &path, context).map(drop))
}

/// Returns the absolute path of the file to change.
fn named(input: &Input, context: &ToolContext) -> Result<PathBuf, ToolOutcome> {
    let path = resolve(&context.cwd, &input.file_path)?;
    if input.old_string == input.new_string {
        return Err(ToolOutcome::refused(
            "old_string and new_string are the same: there is nothing to change",
        ));
    }
    Ok(path)
}

fn edit(input: &Input, context: &ToolContext) -> Result<ToolOutcome, ToolOutcome> {
    let path = named(input, context)?;
    let mut place = None;
    let done = change(&path, context, |before| {
        let replaced = replace(input, before, &path, context)?;
        place = Some((replaced.at, replaced.len));
        Ok(replaced.content.into_bytes())
    })?;
    let (at, len) = place.unwrap_or_default();
    let before = String::from_utf8_lossy(done.before.as_deref().unwrap_or_default());
    let after = String::from_utf8_lossy(&done.after);
    let data = json!({
        "filePath": path,
        "oldString": input.old_string,
        "newString": input.new_string,
        "structuredPatch": hunks(&before, &after),
        "replaceAll": input.replace_all,
    });
    let shown = snippet(&after, at, len, SNIPPET_LINES, context.limits.line_chars);
    let verb = if done.before.is_none() { "Created" } else { "Changed" };
    let text = format!("{verb} {}. It now reads:\n{shown}", path.display());
    Ok(ToolOutcome::done(text, data))
}

/// The new content of the file, and the position of the first replacement in it.
#[derive(Debug, PartialEq)]
struct Replaced {
    content: String,
    at: usize,
    len: usize,
}

fn replace(
    input: &Input,
    before: Option<&[u8]>,
    path: &Path,
    context: &ToolContext,
) -> Result<Replaced, ToolOutcome> {
    if input.old_string.is_empty() {
        return match before {
            None | Some([]) => Ok(Replaced {
                content: input.new_string.clone(),
                at: 0,
                len: input.new_string.len(),
            }),
            Some(_) => Err(ToolOutcome::refused(format_args!(
                "{} exists and is not empty: old_string must say what to replace",
                path.display()
            ))),
        };
    }
    let before = before
        .ok_or_else(|| FileError::Missing { path: path.to_owned(), cwd: context.cwd.clone() })?;
    let before =
        std::str::from_utf8(before).map_err(|_| FileError::Binary { path: path.to_owned() })?;
    replace_in(before, &input.old_string, &input.new_string, input.replace_all)
        .map_err(|problem| ToolOutcome::refused(format_args!("{problem} in {}", path.display())))
}

/// Returns the text that a file would have after an Edit. It is shown to the person who is asked
/// for permission.
///
/// # Errors
/// The reason why the Edit would be refused, as text.
pub fn edited(
    before: Option<&str>,
    old: &str,
    new: &str,
    everywhere: bool,
) -> Result<String, String> {
    match before {
        None | Some("") if old.is_empty() => Ok(new.to_owned()),
        None => Err("the file does not exist".to_owned()),
        Some(_) if old.is_empty() => {
            Err("the file is not empty, and no text to replace is given".to_owned())
        }
        Some(before) => {
            let replaced =
                replace_in(before, old, new, everywhere).map_err(|problem| problem.to_string())?;
            Ok(replaced.content)
        }
    }
}

/// The reason why the old text cannot be replaced.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Unplaced {
    #[error("old_string was not found")]
    NotFound,
    #[error(
        "old_string was found {count} times; give more of the text around it, or set replace_all,"
    )]
    Ambiguous { count: usize },
    #[error(
        "old_string was found both as given and with `<` for `&lt;`; give more of the text around it,"
    )]
    TwoForms,
}

/// Replaces a piece of a text.
///
/// The driver shows a model `&lt;` for the `<` of the conversation's tags. A model that copies such
/// a piece means the tag. The piece is read so if it is not in the text as given. If it is there in
/// both forms, nobody knows which one is meant, and nothing is changed.
fn replace_in(text: &str, old: &str, new: &str, everywhere: bool) -> Result<Replaced, Unplaced> {
    let tags = restored(old);
    let has_tags = tags != old;
    match replace_exactly(text, old, new, everywhere) {
        Err(Unplaced::NotFound) if has_tags => {
            replace_exactly(text, &tags, &restored(new), everywhere)
        }
        Ok(_) if has_tags && text.contains(&tags) => Err(Unplaced::TwoForms),
        replaced => replaced,
    }
}

fn replace_exactly(
    text: &str,
    old: &str,
    new: &str,
    everywhere: bool,
) -> Result<Replaced, Unplaced> {
    // If `old` is found exactly, replace `\n` in `new` by `\r\n` only if all line ends of the file
    // are `\r\n`. If the file has both kinds of line ends, leave `new` unchanged.
    let is_crlf =
        text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
    let (old, new) = if text.contains(old) {
        (Cow::Borrowed(old), if is_crlf { with_crlf(new) } else { Cow::Borrowed(new) })
    } else {
        (with_crlf(old), with_crlf(new))
    };
    let Some(at) = text.find(old.as_ref()) else {
        return Err(Unplaced::NotFound);
    };
    let count = occurrences(text, &old);
    if count > 1 && !everywhere {
        return Err(Unplaced::Ambiguous { count });
    }
    Ok(Replaced { content: text.replace(old.as_ref(), &new), at, len: new.len() })
}

/// Counts the occurrences of a piece in a text. Overlapping occurrences also count, because they
/// also make it unclear which occurrence is meant.
fn occurrences(text: &str, piece: &str) -> usize {
    let step = piece.chars().next().map_or(1, char::len_utf8);
    let mut count = 0;
    let mut rest = text;
    while let Some(at) = rest.find(piece) {
        count += 1;
        rest = rest.get(at + step..).unwrap_or_default();
    }
    count
}

fn with_crlf(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, old: &str, new: &str, everywhere: bool) -> Result<String, Unplaced> {
        replace_in(text, old, new, everywhere).map(|replaced| replaced.content)
    }

    #[test]
    fn a_unique_piece_is_replaced_and_a_missing_last_newline_stays_missing() {
        assert_eq!(check("a\nb", "b", "c", false).unwrap(), "a\nc");
    }

    #[test]
    fn an_ambiguous_piece_is_refused_unless_all_are_meant() {
        assert_eq!(check("x x", "x", "y", false), Err(Unplaced::Ambiguous { count: 2 }));
        assert_eq!(check("x x", "x", "y", true).unwrap(), "y y");
    }

    #[test]
    fn pieces_that_overlap_are_ambiguous() {
        assert_eq!(check("aaa", "aa", "b", false), Err(Unplaced::Ambiguous { count: 2 }));
    }

    #[test]
    fn a_file_with_crlf_keeps_it() {
        assert_eq!(check("a\r\nb\r\n", "a\nb", "c\nd", false).unwrap(), "c\r\nd\r\n");
        assert_eq!(check("a\r\nb\r\n", "a", "c\nd", false).unwrap(), "c\r\nd\r\nb\r\n");
        assert_eq!(check("a\r\nb\r\n", "a\r\n", "c\r\n", false).unwrap(), "c\r\nb\r\n");
    }

    #[test]
    fn a_tag_of_the_conversation_is_found_as_it_is_shown_and_stays_a_tag() {
        let file = "a\n<system-reminder>\nb\n";
        let shown = pitcrew_protocol::neutralised(file).into_owned();
        assert_ne!(shown, file);
        let changed = shown.replace("b", "c");
        assert_eq!(check(file, &shown, &changed, false).unwrap(), file.replace("b", "c"));
        assert_eq!(check(file, "b", "x", false).unwrap(), file.replace("b", "x"));
        // A file that has the escaped form itself keeps it.
        let escaped = "&lt;system-reminder> x";
        assert_eq!(check(escaped, escaped, "y", false).unwrap(), "y");
        let both = format!("{escaped}\n<system-reminder> x");
        assert_eq!(check(&both, escaped, "y", false), Err(Unplaced::TwoForms));
        assert_eq!(
            check(&both, "&amp;lt;system-reminder> x", "y", false).unwrap(),
            "y\n<system-reminder> x"
        );
        // Other tags are shown as they are.
        assert_eq!(check("&lt;b>", "&lt;b>", "<b>", false).unwrap(), "<b>");
    }

    #[test]
    fn a_piece_that_is_not_there_is_refused() {
        assert_eq!(check("a", "b\nc", "d", false), Err(Unplaced::NotFound));
    }
}
