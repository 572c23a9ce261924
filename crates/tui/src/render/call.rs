//! Draws the call of a tool: a command as text, an edit as a diff, a plan as markdown, and all
//! other calls as their fields. Every field of the call is drawn.

use pitcrew_protocol::{CallEffect, CallView, ToolTraits};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::{Map, Value};

use super::diff::{self, Numbers};
use super::markdown::{hides_text, markdown};
use super::text::clean;
use super::wrap::{Blanks, rows, width_of};
use crate::theme::Theme;

/// The indentation below the name of the tool.
const INDENT: usize = 2;

/// Draws a call of a tool as a whole.
#[must_use]
pub fn call(tool: &str, input: &Value, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut drawing = Drawing { theme, width: usize::from(width), lines: Vec::new() };
    // A model can send any JSON value as input.
    let Value::Object(fields) = input else {
        drawing.heading(tool, &input.to_string());
        return drawing.lines;
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    if ToolTraits::of(tool).effect == CallEffect::StartsAgent {
        drawing.spawn(tool, (text("name"), text("description")), fields);
        return drawing.lines;
    }
    match (ToolTraits::of(tool).view, text("command"), text("file_path"), text("plan")) {
        (CallView::Command, Some(command), ..) => drawing.command(tool, command, fields),
        (CallView::WholeFile, _, Some(file), _) => {
            drawing.heading(tool, file);
            drawing.fields(fields, &["file_path", "content"]);
            drawing.change("", text("content").unwrap_or_default(), file, Numbers::Shown);
        }
        (CallView::Replacement, _, Some(file), _) => {
            drawing.heading(tool, file);
            drawing.fields(fields, &["file_path", "old_string", "new_string"]);
            let [old, new] =
                ["old_string", "new_string"].map(|name| text(name).unwrap_or_default());
            drawing.change(old, new, file, Numbers::Hidden);
        }
        (CallView::Plan, _, _, Some(plan)) => {
            drawing.heading(tool, "");
            drawing.fields(fields, &["plan"]);
            drawing.plan(plan);
        }
        // The tool has no special form, or the call lacks the field that the form needs.
        (
            CallView::Fields
            | CallView::Command
            | CallView::WholeFile
            | CallView::Replacement
            | CallView::Plan,
            ..,
        ) => drawing.all_fields(tool, fields),
    }
    drawing.lines
}

struct Drawing<'t> {
    theme: &'t Theme,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Drawing<'_> {
    /// Draws the name of the tool and the text that says most about the call.
    fn heading(&mut self, tool: &str, about: &str) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut spans = vec![
            Span::styled("● ", self.theme.accent),
            Span::styled(clean(tool).into_owned(), bold),
        ];
        let mut about = about.split('\n');
        let first = about.next().unwrap_or_default();
        if !first.is_empty() {
            spans.push(Span::styled(format!(" {}", clean(first)), self.theme.text));
        }
        self.indented(&spans, 0, INDENT, Blanks::Kept);
        for line in about {
            self.text(line, self.theme.text);
        }
    }

    /// Draws the start of an agent: its name and what it does first, then its other fields.
    fn spawn(
        &mut self,
        tool: &str,
        (name, description): (Option<&str>, Option<&str>),
        fields: &Map<String, Value>,
    ) {
        let (about, shown) = match (name, description) {
            (Some(name), Some(does)) => (format!("{name}: {does}"), &["name", "description"][..]),
            (Some(name), None) => (name.to_owned(), &["name"][..]),
            (None, Some(does)) => (does.to_owned(), &["description"][..]),
            (None, None) => (String::new(), &[][..]),
        };
        self.heading(tool, &about);
        self.fields(fields, shown);
    }

    fn command(&mut self, tool: &str, command: &str, fields: &Map<String, Value>) {
        let says = fields.get("description").and_then(Value::as_str).unwrap_or_default();
        self.heading(tool, says);
        let shown = if says.is_empty() { &["command"][..] } else { &["command", "description"] };
        self.fields(fields, shown);
        for line in command.lines() {
            let spans = [Span::styled(clean(line).into_owned(), self.theme.text)];
            let margins =
                [Span::styled("  │ ", self.theme.dim), Span::styled("  ┊ ", self.theme.dim)];
            self.with_margin(&spans, margins, Blanks::Kept);
        }
    }

    /// Draws a changed file. The whole width is used, because code is wide.
    fn change(&mut self, old: &str, new: &str, file: &str, numbers: Numbers) {
        let width = self.width.saturating_sub(INDENT);
        for row in diff::changes(old, new, file, width, self.theme, numbers) {
            self.push_indented(row.line);
        }
    }

    fn plan(&mut self, plan: &str) {
        // A text that markdown would not show completely is drawn as it was written.
        if hides_text(plan) {
            for line in plan.lines() {
                self.text(line, self.theme.text);
            }
            return;
        }
        let width = u16::try_from(self.width.saturating_sub(INDENT)).unwrap_or(u16::MAX);
        for line in markdown(plan, width, self.theme) {
            self.push_indented(line);
        }
    }

    /// Draws all fields beside the tool's name if they fit there, and otherwise below it.
    fn all_fields(&mut self, tool: &str, fields: &Map<String, Value>) {
        let each: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}: {}", written(value))).collect();
        let joined = each.join(", ");
        let room = self.width.saturating_sub(2 * INDENT + tool.len() + 1);
        if !joined.contains('\n') && width_of(&[Span::raw(clean(&joined))]) <= room {
            self.heading(tool, &joined);
        } else {
            self.heading(tool, "");
            self.fields(fields, &[]);
        }
    }

    /// Draws all fields that are not in `shown`. A text of several lines begins below its name.
    fn fields(&mut self, fields: &Map<String, Value>, shown: &[&str]) {
        let rest = fields.iter().filter(|(name, _)| !shown.contains(&name.as_str()));
        for (name, value) in rest {
            let value = match value {
                Value::Array(_) | Value::Object(_) => format!("{value:#}"),
                Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                    written(value)
                }
            };
            let name = Span::styled(format!("{}: ", clean(name)), self.theme.dim);
            if value.contains('\n') {
                self.indented(&[name], INDENT, INDENT, Blanks::Kept);
                for line in value.lines() {
                    let spans = [Span::styled(clean(line).into_owned(), self.theme.text)];
                    self.indented(&spans, 2 * INDENT, 2 * INDENT, Blanks::Kept);
                }
            } else {
                let value = Span::styled(clean(&value).into_owned(), self.theme.text);
                self.indented(&[name, value], INDENT, 2 * INDENT, Blanks::Kept);
            }
        }
    }

    fn text(&mut self, line: &str, style: Style) {
        let spans = [Span::styled(clean(line).into_owned(), style)];
        self.indented(&spans, INDENT, INDENT, Blanks::Kept);
    }

    /// Draws spans with one indentation in the first row and another in the next rows.
    fn indented(&mut self, spans: &[Span<'_>], first: usize, next: usize, blanks: Blanks) {
        let margins = [first, next].map(|indent| Span::raw(" ".repeat(indent)));
        self.with_margin(spans, margins, blanks);
    }

    fn with_margin(&mut self, spans: &[Span<'_>], margins: [Span<'static>; 2], blanks: Blanks) {
        let [first, next] = margins;
        let margin = first.width().max(next.width());
        let mut first = Some(first);
        for row in rows(spans, self.width.saturating_sub(margin), blanks) {
            let before = first.take().unwrap_or_else(|| next.clone());
            self.lines.push(Line::from_iter(std::iter::once(before).chain(row)));
        }
    }

    fn push_indented(&mut self, line: Line<'static>) {
        let style = line.style;
        let indent = std::iter::once(Span::raw(" ".repeat(INDENT)));
        let spans = line.spans.into_iter().map(|span| {
            let patched = style.patch(span.style);
            span.style(patched)
        });
        self.lines.push(Line::from_iter(indent.chain(spans)));
    }
}

/// Returns a value as text. A string has no quotes.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::theme::ThemeKind;

    fn drawn(tool: &str, input: &Value, width: u16) -> String {
        let lines = call(tool, input, width, &Theme::new(ThemeKind::Dark));
        assert!(lines.iter().all(|line| width_of(&line.spans) <= usize::from(width)), "{lines:?}");
        let line = |line: &Line<'_>| line.to_string().trim_end().to_owned();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_command_is_shown_whole_as_text() {
        let input = json!({
            "command": "cd /work && \\\n\tmake \"all\" -j 8 --output-sync=recurse\nrm x\u{1b}[2J",
            "description": "Build it", "timeout": 5000,
        });
        insta::assert_snapshot!(drawn("Bash", &input, 32), @r#"
        ● Bash Build it
          timeout: 5000
          │ cd /work && \
          │     make "all" -j 8
          ┊ --output-sync=recurse
          │ rm x�[2J
        "#);
    }

    #[test]
    fn an_edit_is_a_diff_and_a_new_file_has_numbers() {
        let edit = json!({
            "file_path": "src/a.rs", "old_string": "fn a() {\n    1\n}", "new_string": "fn a() {\n    2\n}",
            "replace_all": true,
        });
        insta::assert_snapshot!(drawn("Edit", &edit, 40), @r"
        ● Edit src/a.rs
          replace_all: true
            fn a() {
          -     1
          +     2
            }
        ");
        let write = json!({"file_path": "notes.md", "content": "# Notes\n\nnone\n"});
        insta::assert_snapshot!(drawn("Write", &write, 40), @r"
        ● Write notes.md
          1 + # Notes
          2 +
          3 + none
        ");
    }

    #[test]
    fn a_plan_is_markdown_unless_that_would_hide_a_part_of_it() {
        insta::assert_snapshot!(drawn("ExitPlanMode", &json!({"plan": "# Plan\n- **do** it"}), 40), @r"
        ● ExitPlanMode
          Plan

          • do it
        ");
        let hidden = json!({"plan": "# Plan\n[x]: rm"});
        insta::assert_snapshot!(drawn("ExitPlanMode", &hidden, 40), @r"
        ● ExitPlanMode
          # Plan
          [x]: rm
        ");
    }

    #[test]
    fn the_start_of_an_agent_begins_with_its_name_and_what_it_does() {
        let spawn = json!({
            "name": "ann", "mode": "plan", "description": "Plan the tests", "prompt": "Plan them.\nThen wait.",
        });
        insta::assert_snapshot!(drawn("Task", &spawn, 40), @r"
        ● Task ann: Plan the tests
          mode: plan
          prompt:
            Plan them.
            Then wait.
        ");
        let subagent = json!({"description": "Look", "prompt": "Look."});
        insta::assert_snapshot!(drawn("Task", &subagent, 40), @r"
        ● Task Look
          prompt: Look.
        ");
    }

    #[test]
    fn other_calls_show_all_their_fields() {
        let read = json!({"file_path": "src/main.rs", "offset": 10});
        insta::assert_snapshot!(drawn("Read", &read, 60), @"● Read file_path: src/main.rs, offset: 10");
        let message =
            json!({"recipient": "bob", "content": "first line\nsecond", "tags": [1, {"a": null}]});
        insta::assert_snapshot!(drawn("SendMessage", &message, 30), @r#"
        ● SendMessage
          recipient: bob
          content:
            first line
            second
          tags:
            [
              1,
              {
                "a": null
              }
            ]
        "#);
        insta::assert_snapshot!(drawn("Odd", &json!("a\nb"), 30), @r#"● Odd "a\nb""#);
        let no_command = json!({"command": 5});
        insta::assert_snapshot!(drawn("Bash", &no_command, 30), @"● Bash command: 5");
    }
}
