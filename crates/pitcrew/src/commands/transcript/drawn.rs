//! Draws a conversation as text. Nothing in the text can control the terminal.
//!
//! Only a mark of this module begins in the first column. All texts of agents and tools are behind a
//! mark or indented, so that no text passes for another's text or for a prompt of the shell.

use std::borrow::Cow;

use pitcrew_protocol::counted;
use pitcrew_view::conversation::{Call, Conversation, Part, Permission};
use pitcrew_view::wording::{brief, end_in_words};
use serde_json::Value;

use crate::output::{FAINT, STRONG, first_line, in_one_line, marked, printable};

/// The maximum number of characters that are shown of the first line of a result.
const RESULT_CHARS: usize = 120;

/// Draws the parts of a conversation, with an empty line between two parts. Calls that follow each
/// other have no empty line between them.
pub(super) fn drawn(conversation: &Conversation, is_full: bool) -> String {
    let mut text = String::new();
    let mut was_call = false;
    for part in &conversation.parts {
        let Some(lines) = part_drawn(part, is_full) else { continue };
        let is_call = matches!(part, Part::Call(_));
        if !text.is_empty() {
            text.push_str(if was_call && is_call && !is_full { "\n" } else { "\n\n" });
        }
        text.push_str(&lines);
        was_call = is_call;
    }
    text
}

fn part_drawn(part: &Part, is_full: bool) -> Option<String> {
    Some(match part {
        Part::Prompt { text } => headed("> prompt", text),
        Part::Mail { from, summary, frame, text } => {
            let about = frame.map_or_else(
                || {
                    summary
                        .as_deref()
                        .map(|it| format!(": {}", in_one_line(it)))
                        .unwrap_or_default()
                },
                |frame| format!(" [{frame}]"),
            );
            headed(&format!("> {}{about}", in_one_line(from)), text)
        }
        Part::Notice { text } => headed("> notice", text),
        Part::Text { text } => marked(text).join("\n"),
        Part::Thinking { text } if is_full => headed("~ thinks", text),
        Part::Thinking { .. } => return None,
        Part::Call(call) => call_drawn(call, is_full),
        Part::Summary { text, briefing } => {
            let briefing = briefing.as_ref().filter(|_| is_full);
            let briefing = briefing.map(|it| headed("= briefing", it) + "\n").unwrap_or_default();
            briefing + &headed("= summary of what came before", text)
        }
        Part::Event { text } => format!("{FAINT}- {}{FAINT:#}", in_one_line(text)),
        Part::Ended { status, reason } => {
            let reason =
                reason.as_ref().map(|it| format!(": {}", in_one_line(it))).unwrap_or_default();
            format!("{FAINT}- ended, {}{reason}{FAINT:#}", end_in_words(*status))
        }
    })
}

fn call_drawn(call: &Call, is_full: bool) -> String {
    let mut lines =
        vec![format!("{STRONG}*{STRONG:#} {}", in_one_line(&brief(&call.tool, &call.input)))];
    if is_full {
        lines.extend(input_lines(&call.input));
    }
    match &call.permission {
        None | Some(Permission::Allowed) => {}
        Some(Permission::Asked) => lines.push("  (waits for permission)".to_owned()),
        Some(Permission::Denied(reason)) if call.result.is_none() => {
            lines.push(format!("  (no permission: {})", in_one_line(reason)));
        }
        Some(Permission::Denied(_)) => lines.push("  (no permission)".to_owned()),
    }
    match &call.result {
        None => lines.push(format!("  {FAINT}(no result){FAINT:#}")),
        Some(result) => {
            let mark = if result.is_error { "failed: " } else { "" };
            let text = result.text.trim();
            if is_full {
                lines.push(format!(
                    "  {FAINT}{}{FAINT:#}",
                    if result.is_error { "failed:" } else { "result:" }
                ));
                lines.extend(indented(text, 4));
            } else {
                lines.extend(short_result(mark, text));
            }
        }
    }
    lines.join("\n")
}

/// Draws the first line of a result, and the number of the other lines.
fn short_result(mark: &str, text: &str) -> Option<String> {
    if text.is_empty() && mark.is_empty() {
        return None;
    }
    // The first line of JSON text alone says nothing.
    let text: Cow<'_, str> = match text.starts_with('{') {
        true => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
        false => text.into(),
    };
    let rest = text.lines().count().saturating_sub(1);
    let more = if rest > 0 { format!(" ({})", counted(rest, "more line")) } else { String::new() };
    Some(format!("  {FAINT}{mark}{}{more}{FAINT:#}", first_line(&text, RESULT_CHARS)))
}

/// Draws the input of a call: each field on its own lines. A text with several lines is not drawn as
/// JSON.
fn input_lines(input: &Value) -> Vec<String> {
    let Value::Object(fields) = input else { return indented(&input.to_string(), 2) };
    let mut lines = Vec::new();
    for (name, value) in fields {
        let name = in_one_line(name);
        match value {
            Value::String(text) if text.contains('\n') => {
                lines.push(format!("  {name}:"));
                lines.extend(indented(text, 4));
            }
            Value::String(text) => lines.push(format!("  {name}: {}", printable(text))),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                lines.push(format!("  {name}: {}", in_one_line(&value.to_string())));
            }
        }
    }
    lines
}

/// Draws a heading and a text below it.
fn headed(heading: &str, text: &str) -> String {
    let mut lines = vec![format!("{STRONG}{heading}{STRONG:#}")];
    lines.extend(indented(text.trim(), 2));
    lines.join("\n")
}

fn indented(text: &str, columns: usize) -> Vec<String> {
    printable(text).lines().map(|line| format!("{:columns$}{line}", "")).collect()
}
