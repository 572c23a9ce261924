//! Shows a tool call as readable lines. The lines contain the whole input of the call, in a form
//! that suits the tool.

use pitcrew_protocol::{CallView, ToolTraits};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::diff;
use super::model::AskedFile;
use super::visible::{visible, visible_text};

/// One line of the text that a permission request shows. Invisible characters in it are written
/// out, for example as `<U+202E>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The kind of this line.
    pub kind: Kind,
    /// The text of the line, without a line break.
    #[serde(deserialize_with = "read_visible")]
    pub text: String,
}

/// The kind of a line. A user interface gives each kind its own style.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Text that belongs to the call.
    Text,
    /// A line that a change adds.
    Added,
    /// A line that a change removes.
    Removed,
    /// A remark that pitcrew adds about the text.
    Note,
    /// A row that says how many rows are left out, or which page is shown. It is not part of the
    /// call.
    Mark,
}

/// Creates the lines of a call. For a file change, this function reads the current file, so it may
/// block.
pub(super) fn lines(tool: &str, input: &Value, asked: Option<&AskedFile>) -> Vec<Line> {
    // A model can send any JSON value as input. If the input is not an object, show the JSON text.
    let Value::Object(fields) = input else { return texts(&input.to_string()) };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    match (ToolTraits::of(tool).view, text("command"), text("file_path"), text("plan")) {
        (CallView::Command, Some(command), _, _) => command_lines(command, fields),
        (CallView::WholeFile, _, Some(file), _) => with_rest(
            fields,
            &["file_path", "content"],
            diff::of_write(file, asked, text("content")),
        ),
        (CallView::Replacement, _, Some(file), _) => {
            let everywhere = fields.get("replace_all").and_then(Value::as_bool).unwrap_or_default();
            let change =
                diff::Edit { old: text("old_string"), new: text("new_string"), everywhere };
            with_rest(
                fields,
                &["file_path", "old_string", "new_string"],
                diff::of_edit(file, asked, &change),
            )
        }
        (CallView::Plan, _, _, Some(plan)) => with_rest(fields, &["plan"], prose(plan)),
        // Show all fields in two cases: the tool has no special form, or the call lacks the field
        // that the special form needs.
        (
            CallView::Fields
            | CallView::Command
            | CallView::WholeFile
            | CallView::Replacement
            | CallView::Plan,
            ..,
        ) => field_lines(fields, &[]),
    }
}

/// Returns the lines of a call that runs a command. The other fields of the call come before the
/// command, because a long command could hide them.
fn command_lines(command: &str, fields: &Map<String, Value>) -> Vec<Line> {
    // Leave out the description here, because it is not part of what the call does. It is shown
    // below the call, as the agent's own words.
    let mut lines = notes(fields, &["command", "description"]);
    lines.extend(texts(command));
    lines
}

fn with_rest(fields: &Map<String, Value>, shown: &[&str], lines: Vec<Line>) -> Vec<Line> {
    let mut all = notes(fields, shown);
    all.extend(lines);
    all
}

fn notes(fields: &Map<String, Value>, shown: &[&str]) -> Vec<Line> {
    field_lines(fields, shown).into_iter().map(|line| Line { kind: Kind::Note, ..line }).collect()
}

/// Returns the lines of all fields that are not in `shown`, each with its name. A text of several
/// lines begins on a new line below its name.
fn field_lines(fields: &Map<String, Value>, shown: &[&str]) -> Vec<Line> {
    let rest = fields.iter().filter(|(name, _)| !shown.contains(&name.as_str()));
    rest.flat_map(|(name, value)| field(name, value)).collect()
}

fn field(name: &str, value: &Value) -> Vec<Line> {
    let written = match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => format!("{value:#}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    if !written.contains('\n') {
        return texts(&format!("{}: {written}", name.replace('\n', "\\n")));
    }
    let mut lines = texts(&format!("{}:", name.replace('\n', "\\n")));
    lines.extend(
        texts(&written).into_iter().map(|line| Line { text: format!("  {}", line.text), ..line }),
    );
    lines
}

/// Returns the lines of a command or similar text, with all invisible characters written out.
pub(super) fn texts(text: &str) -> Vec<Line> {
    lines_of(text, visible)
}

/// Returns the lines of a text that is written for people. Right-to-left letters stay as they are.
fn prose(text: &str) -> Vec<Line> {
    lines_of(text, visible_text)
}

fn lines_of(text: &str, shown: fn(&str) -> String) -> Vec<Line> {
    // Do not use `str::lines` here, because it would drop a carriage return.
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n').map(|line| Line { kind: Kind::Text, text: shown(line) }).collect()
}

/// Reads a text of a permission request from another process. Characters that the other process did
/// not write out are written out here, because the text goes to a terminal.
pub(super) fn read_visible<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(visible_text(&text.replace('\n', "<U+000A>")))
}
