//! Lays out one part of a conversation as lines.

use std::borrow::Cow;

use pitcrew_protocol::{CallEffect, ToolTraits};
use pitcrew_view::conversation::{Call, Part, Permission};
use pitcrew_view::text::{first_line, in_one_line};
use pitcrew_view::wording::{end_in_words, frame_in_words};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::render;
use crate::theme::Theme;

/// The name under which a message of the person at the terminal is sent.
const USER: &str = "user";

/// The maximum number of characters of a text that is shown as one line.
const BRIEF_CHARS: usize = 160;

/// The maximum number of rows of a call, unless all of it is shown.
const CALL_ROWS: usize = 24;

/// The maximum number of rows of a notice, unless all of it is shown.
const NOTICE_ROWS: usize = 4;

/// How much is shown of long calls, outputs, thoughts and notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Length {
    /// Their beginnings.
    #[default]
    Short,
    /// All of them.
    Whole,
}

/// Returns the lines of a part in this width.
pub(crate) fn part_lines(
    part: &Part,
    width: u16,
    length: Length,
    theme: &Theme,
) -> Vec<Line<'static>> {
    match part {
        Part::Prompt { text } => said("you", text, theme.accent, width, theme),
        Part::Mail { from, summary, frame, text } => match frame {
            None if from == USER => said("you", text, theme.accent, width, theme),
            None => said(from, text, theme.heading, width, theme),
            // A frame is JSON for programs. Its sender's summary says more to a person.
            Some(kind) => {
                let summary = summary.as_deref().map(|text| format!(": {text}"));
                let words = frame_in_words(kind);
                let text = format!("{from} {words}{}", summary.unwrap_or_default());
                brief(&text, theme.dim, width)
            }
        },
        Part::Text { text } => render::markdown(text, width, theme),
        Part::Notice { text } => notice(text, width, length, theme),
        Part::Thinking { text } => whole_or_brief("thinks", text, width, length, theme),
        Part::Call(call) => call_lines(call, width, length, theme),
        Part::Summary { text, .. } => whole_or_brief("summary", text, width, length, theme),
        Part::Event { text } => brief(text, theme.dim, width),
        Part::Ended { status, reason } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}"));
            let text = format!("ended, {}{}", end_in_words(*status), reason.unwrap_or_default());
            brief(&text, theme.heading, width)
        }
    }
}

/// The lines of a message, with its sender in front of the first line.
fn said(from: &str, text: &str, style: Style, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let from = in_one_line(from);
    let mut lines = vec![Line::styled(format!("{from}:"), style)];
    lines.extend(indented(render::wrap(text, width.saturating_sub(2), theme.text), "  "));
    lines
}

fn whole_or_brief(
    name: &str,
    text: &str,
    width: u16,
    length: Length,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let text = format!("{name}: {}", text.trim());
    match length {
        Length::Whole => render::wrap(&text, width, theme.dim),
        Length::Short => brief(&in_one_line(&text), theme.dim, width),
    }
}

/// The lines of a notice of pitcrew. What it reports is often not in its first line.
fn notice(text: &str, width: u16, length: Length, theme: &Theme) -> Vec<Line<'static>> {
    if length == Length::Whole {
        return whole_or_brief("note", text, width, length, theme);
    }
    let filled: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let text = format!("note: {}", filled.join("\n"));
    let mut lines = render::wrap(&text, width, theme.dim);
    let left_out = lines.len().saturating_sub(NOTICE_ROWS);
    if left_out > 0 {
        lines.truncate(NOTICE_ROWS);
        lines.push(more_lines(left_out, theme));
    }
    lines
}

/// The line in place of those that are left out.
fn more_lines(left_out: usize, theme: &Theme) -> Line<'static> {
    let noun = if left_out == 1 { "line" } else { "lines" };
    Line::styled(format!("  … {left_out} more {noun}: Ctrl-O"), theme.dim)
}

/// A text as one line, which is cut at the width.
fn brief(text: &str, style: Style, width: u16) -> Vec<Line<'static>> {
    let text = first_line(&in_one_line(text), BRIEF_CHARS);
    render::wrap(&text, width, style).into_iter().take(1).collect()
}

fn call_lines(call: &Call, width: u16, length: Length, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = render::call(&call.tool, &call.input, width, theme);
    let left_out = lines.len().saturating_sub(CALL_ROWS);
    if length == Length::Short && left_out > 0 {
        lines.truncate(CALL_ROWS);
        lines.push(more_lines(left_out, theme));
    }
    match &call.permission {
        Some(Permission::Asked) => lines.push(Line::styled("  asks permission", theme.warning)),
        Some(Permission::Denied(reason)) => {
            let text = format!("denied: {reason}");
            let inner = width.saturating_sub(2);
            lines.extend(indented(render::wrap(&text, inner, theme.error), "  "));
        }
        Some(Permission::Allowed) | None => {}
    }
    if let Some(result) = &call.result {
        let is_open = length == Length::Whole;
        // A subagent's result is its report. An error can have its reason in any line.
        let is_brief = !is_open && !result.is_error && !is_subagent(call);
        let text = match is_brief {
            true => render::for_people(&call.tool, &result.text),
            false => Cow::Borrowed(result.text.as_str()),
        };
        lines.extend(render::output(&text, result.is_error, is_open, width, theme));
    }
    lines
}

/// Returns true if the call starts a subagent, which has no name.
fn is_subagent(call: &Call) -> bool {
    ToolTraits::of(&call.tool).effect == CallEffect::StartsAgent && call.input.get("name").is_none()
}

fn indented(
    lines: impl IntoIterator<Item = Line<'static>>,
    by: &'static str,
) -> impl Iterator<Item = Line<'static>> {
    lines.into_iter().map(move |mut line| {
        line.spans.insert(0, Span::raw(by));
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ThemeKind;

    #[test]
    fn a_notice_shows_what_it_is_about() {
        let text = "You are about to end the run, and this is still open:\n- 1 task is open: #1 Paint\n\nBring it to its end.\nThen write the final answer.\nOr say so.\n";
        let part = Part::Notice { text: text.to_owned() };
        let lines = part_lines(&part, 80, Length::Short, &Theme::new(ThemeKind::NoColor));
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "note: You are about to end the run, and this is still open:",
                "- 1 task is open: #1 Paint",
                "Bring it to its end.",
                "Then write the final answer.",
                "  … 1 more line: Ctrl-O",
            ]
        );
    }
}
