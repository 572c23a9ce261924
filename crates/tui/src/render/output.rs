//! Draws the output of a tool. A long output is folded: its first rows are drawn, with the number of
//! lines that are left out and the key that shows them.

use std::borrow::Cow;

use pitcrew_protocol::{CallEffect, ToolTraits};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::text::clean;
use super::wrap::{Blanks, rows};
use crate::theme::Theme;

/// The number of rows that are drawn of a folded output.
pub const OUTPUT_ROWS: usize = 8;

/// Draws the output of a tool. If it is not open, at most [`OUTPUT_ROWS`] rows of it are drawn.
#[must_use]
pub fn output(
    text: &str,
    is_error: bool,
    is_open: bool,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let (sign, style) = if is_error { ("  ✗ ", theme.error) } else { ("  └ ", theme.dim) };
    let room = usize::from(width).saturating_sub(sign.chars().count());
    let mut drawn = Vec::new();
    let mut push = |text: Vec<Span<'static>>| {
        let margin = if drawn.is_empty() { Span::styled(sign, style) } else { Span::raw("    ") };
        drawn.push(Line::from_iter(std::iter::once(margin).chain(text)));
    };
    if text.trim().is_empty() {
        push(vec![Span::styled("(no output)", theme.dim)]);
        return drawn;
    }
    let most = if is_open { usize::MAX } else { OUTPUT_ROWS };
    let mut count = 0;
    let mut lines = text.trim_end_matches('\n').lines();
    while let Some(line) = lines.next() {
        let line = without_colors(line);
        let spans = [Span::styled(clean(&line), if is_error { theme.text } else { theme.dim })];
        for row in rows(&spans, room, Blanks::Kept) {
            if count == most {
                push(vec![folded(1 + lines.clone().count(), theme)]);
                return drawn;
            }
            count += 1;
            push(row);
        }
    }
    if count > OUTPUT_ROWS {
        push(vec![Span::styled("(Ctrl-O folds)", theme.dim)]);
    }
    drawn
}

/// Returns the part of a tool's result that is for people. The results of the tools for messages
/// and teammates also have ids and names for the model.
#[must_use]
pub fn for_people<'t>(tool: &str, result: &'t str) -> Cow<'t, str> {
    match ToolTraits::of(tool).effect {
        CallEffect::StartsAgent => Cow::Borrowed(result.lines().next().unwrap_or_default()),
        CallEffect::SendsMessage => match serde_json::from_str(result) {
            Ok(Value::Object(mut fields)) => match fields.remove("message") {
                Some(Value::String(message)) => Cow::Owned(message),
                Some(_) | None => Cow::Borrowed(result),
            },
            Ok(_) | Err(_) => Cow::Borrowed(result),
        },
        CallEffect::None
        | CallEffect::WritesFile
        | CallEffect::EditsFile
        | CallEffect::SubmitsPlan
        | CallEffect::CreatesTask
        | CallEffect::ChangesTask
        | CallEffect::ChecksTasks
        | CallEffect::EndsTeam => Cow::Borrowed(result),
    }
}

fn folded(lines: usize, theme: &Theme) -> Span<'static> {
    let noun = if lines == 1 { "line" } else { "lines" };
    Span::styled(format!("… {lines} more {noun} (Ctrl-O opens)"), theme.accent)
}

/// Removes the control sequences that only set colors. Programs write them even if nobody asked,
/// and they carry no text.
fn without_colors(line: &str) -> Cow<'_, str> {
    if !line.contains("\u{1b}[") {
        return Cow::Borrowed(line);
    }
    let mut parts = line.split("\u{1b}[");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let parameters = part.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':'));
        match parameters.and_then(|end| part.get(end..)?.strip_prefix('m')) {
            Some(text) => kept.push_str(text),
            None => {
                kept.push_str("\u{1b}[");
                kept.push_str(part);
            }
        }
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ThemeKind;

    fn drawn(text: &str, is_error: bool, is_open: bool) -> String {
        let lines = output(text, is_error, is_open, 30, &Theme::new(ThemeKind::NoColor));
        let line = |line: &Line<'_>| line.to_string().trim_end().to_owned();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_short_output_is_shown_whole_and_an_error_has_a_sign() {
        insta::assert_snapshot!(drawn("first\n  second\n", false, false), @r"
          └ first
              second
        ");
        insta::assert_snapshot!(drawn("it failed", true, false), @"  ✗ it failed");
        insta::assert_snapshot!(drawn("\n", false, false), @"  └ (no output)");
    }

    #[test]
    fn a_long_output_says_how_many_lines_are_left_out_and_which_key_shows_them() {
        let text: String = (1..=20).map(|number| format!("line {number}\n")).collect();
        insta::assert_snapshot!(drawn(&text, false, false), @r"
          └ line 1
            line 2
            line 3
            line 4
            line 5
            line 6
            line 7
            line 8
            … 12 more lines (Ctrl-O opens)
        ");
        let open = drawn(&text, false, true);
        assert!(open.contains("line 20") && open.ends_with("(Ctrl-O folds)"), "{open}");
        let eight: String = (1..=8).map(|number| format!("line {number}\n")).collect();
        assert!(!drawn(&eight, false, false).contains("Ctrl-O"));
    }

    #[test]
    fn the_ids_in_the_results_of_team_tools_are_for_the_model() {
        let sent =
            "{\n  \"success\": true,\n  \"message\": \"Sent to bob\",\n  \"target\": \"bob\"\n}";
        assert_eq!(for_people("SendMessage", sent), "Sent to bob");
        assert_eq!(for_people("Bash", sent), sent, "the output of a command is shown as it is");
        for other in ["", "{}", "no JSON", r#"{"message": 5}"#] {
            assert_eq!(for_people("SendMessage", other), other);
        }
        let spawned = "Spawned successfully.\nagent_id: bob@work";
        assert_eq!(for_people("Task", spawned), "Spawned successfully.");
    }

    #[test]
    fn one_very_long_line_is_folded_too_and_nothing_controls_the_terminal() {
        let shown = drawn(&"x".repeat(1 << 20), false, false);
        assert!(shown.ends_with("… 1 more line (Ctrl-O opens)"), "{shown}");
        assert_eq!(shown.lines().count(), OUTPUT_ROWS + 1);
        insta::assert_snapshot!(drawn("\u{1b}[1;32mok\u{1b}[0m \u{1b}[2Jx\rb", false, false), @"  └ ok �[2Jx�b");
    }
}
