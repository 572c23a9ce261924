//! Lays out a permission request as terminal rows. The lead's terminal, a pane and `pitcrew join`
//! use the same layout. This module does no I/O.

use anstyle::{AnsiColor, Style};
use pitcrew_runtime::question::{
    Kind, Line, Offer, PermissionQuestion, Place, Row, Section, Size, lay_out, wrap,
};
use pitcrew_view::asking::{Current, ShownPages, key};

use crate::output::{FAINT, STRONG};

/// The name of the key that turns to the next page.
pub(super) const TURN: &str = "PgDn";

/// The minimum number of rows for a tool call. If fewer rows would be left, the possible answers
/// are shown in their short form.
const ROWS_FOR_CALL: usize = 6;

/// The minimum number of rows for showing the folder and the reason together with the tool call.
const ROWS_FOR_NOTES: usize = 8;

/// The possible answers on a terminal that is too small for the permission rules that `always`
/// would add.
const SHORTEST: &str = "[y]es [n]o [a]lways";

/// A permission request as laid out for a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panel {
    /// The rows, each in one style. They fit into the terminal.
    pub(crate) rows: Vec<(Style, String)>,
    /// The layout of the permission request on the screen: its pages, and whether its permission
    /// rules are visible.
    pub(crate) seen: ShownPages,
}

/// Lays out a permission request. If the request does not fit on the terminal, a row says so, and
/// the user can turn pages.
pub(crate) fn panel(current: &Current, size: Size) -> Panel {
    let Current { question, waiting, part } = current;
    let Size { columns, rows } = size;
    let count = if *waiting > 1 { format!(" (1 of {waiting})") } else { String::new() };
    let mut heading = wrap(&format!("{}{count}", question.heading()), columns);
    let mut answers = answers(question, columns);
    let mut seen = ShownPages::default();
    // The tool call needs some rows of the terminal. If the heading and the answers leave too few
    // rows, this code saves rows in three steps. First it shortens the answers, then it omits the
    // rules that `always` would add, and then it omits the heading.
    if heading.len() + answers.len() + ROWS_FOR_CALL > rows {
        answers = wrap(&answers_in_short(question), columns);
    }
    if heading.len() + answers.len() >= rows {
        answers = wrap(SHORTEST, columns);
        seen.shows_rules = false;
    }
    if heading.len() + answers.len() >= rows {
        heading.clear();
        answers.truncate(rows.saturating_sub(1));
    }
    let room = Size { columns, rows: rows.saturating_sub(heading.len() + answers.len()).max(1) };
    let call;
    (call, seen.starts) = lay_out_call(question, room, *part);
    seen.pages = seen.starts.len();
    let strong = |text: String| (STRONG, text);
    let rows = heading
        .into_iter()
        .map(strong)
        .chain(call.into_iter().map(styled))
        .chain(answers.into_iter().map(strong));
    Panel { rows: rows.collect(), seen }
}

/// Returns the rows of the folder, the reason and the tool call, and the places at which pages
/// start.
fn lay_out_call(
    question: &PermissionQuestion,
    room: Size,
    part: Section,
) -> (Vec<Row>, Vec<Place>) {
    let notes = question.notes();
    let all: Vec<_> = notes.iter().chain(&question.lines).cloned().collect();
    let shown = lay_out(&all, room, part, TURN);
    if shown.pages == 1 || part != Section::Ends {
        return (shown.rows, shown.starts);
    }
    let whole = |note: &Line| {
        lay_out(std::slice::from_ref(note), Size { rows: usize::MAX, ..room }, part, TURN).rows
    };
    if room.rows < ROWS_FOR_NOTES {
        return (
            beside_hidden_notes(question, notes.iter().map(|note| whole(note).len()).sum(), room),
            shown.starts,
        );
    }
    // Only the first row of each note (folder or reason) is shown. Otherwise a long reason would
    // hide the tool call.
    let first_rows = notes.iter().filter_map(|note| {
        let rows = whole(note);
        let left_out = rows.len() - 1;
        let mut first = rows.into_iter().next()?;
        if left_out > 0 {
            let count = format!("… +{left_out} lines: {TURN}");
            let columns = room.columns.saturating_sub(count.chars().count());
            first.text = format!("{}{count}", wrap(&first.text, columns).first()?.trim_end());
        }
        Some(first)
    });
    let mut rows: Vec<Row> = first_rows.collect();
    let left = Size { rows: room.rows - rows.len(), ..room };
    rows.extend(lay_out(&question.lines, left, Section::Ends, TURN).rows);
    (rows, shown.starts)
}

/// Returns the rows of the tool call when there is no room for its folder and reason. `hidden` is
/// the number of rows of the folder and the reason. The displayed number of hidden lines includes
/// these rows.
fn beside_hidden_notes(question: &PermissionQuestion, hidden: usize, room: Size) -> Vec<Row> {
    let call =
        lay_out(&question.lines, Size { rows: usize::MAX, ..room }, Section::Ends, TURN).rows;
    let marked = |count: usize| {
        let texts = [
            format!("── {count} more lines here, {TURN} shows them ──"),
            format!("{count} more lines: {TURN}"),
        ];
        let fitting = texts.into_iter().find(|text| text.chars().count() <= room.columns);
        Row { kind: Kind::Mark, text: fitting.unwrap_or_else(|| format!("+{count}")) }
    };
    // A single row can show only the number of hidden lines.
    if room.rows < 2 {
        return vec![marked(call.len() + hidden)];
    }
    if call.len() < room.rows {
        return std::iter::once(marked(hidden)).chain(call).collect();
    }
    // If the call fills the room exactly, the call gets one row less. That row is needed for the
    // number of hidden lines.
    let rows = if call.len() == room.rows { room.rows - 1 } else { room.rows };
    let mut shown = lay_out(&question.lines, Size { rows, ..room }, Section::Ends, TURN).rows;
    let left_out = call.len() + 1 - shown.len() + hidden;
    if let Some(mark) = shown.iter_mut().find(|row| row.kind == Kind::Mark) {
        *mark = marked(left_out);
    }
    shown
}

pub(super) fn styled(row: Row) -> (Style, String) {
    let style = match row.kind {
        Kind::Text => Style::new(),
        Kind::Added => AnsiColor::Green.on_default(),
        Kind::Removed => AnsiColor::Red.on_default(),
        Kind::Note => FAINT,
        Kind::Mark => AnsiColor::Yellow.on_default().bold(),
    };
    (style, row.text)
}

/// Formats the possible answers with their full meaning, one answer per line.
fn answers(question: &PermissionQuestion, columns: usize) -> Vec<String> {
    let offers = question.offers.iter().map(|offer| {
        let saving = match offer.rule() {
            Some(_) => format!(" ({} save: in your settings too)", key(offer)),
            None => String::new(),
        };
        match offer {
            Offer::Edits if question.is_plan() => {
                "[a]pproved, and edits are not asked about: mode acceptEdits".to_owned()
            }
            Offer::Exactly { .. } => format!("[a]lways exactly this, in this run{saving}"),
            Offer::Edits => {
                "[a]lways in this run: mode acceptEdits (all edits, and commands that only write in its folder)"
                    .to_owned()
            }
            Offer::Rule(rule) => format!("[p] always {rule}, in this run{saving}"),
        }
    });
    let first = "[y]es, [n]o, or n and the reason".to_owned();
    std::iter::once(first).chain(offers).flat_map(|line| wrap(&line, columns)).collect()
}

/// Formats the possible answers in one line.
fn answers_in_short(question: &PermissionQuestion) -> String {
    let offers = question.offers.iter().map(|offer| match offer {
        Offer::Exactly { .. } => " [a]lways".to_owned(),
        Offer::Edits => " [a]ll edits".to_owned(),
        Offer::Rule(rule) => format!(" [p] {rule}"),
    });
    std::iter::once("[y]es [n]o".to_owned()).chain(offers).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use pitcrew_permission::gate::{Call, Gate};
    use pitcrew_protocol::AgentName;
    use pitcrew_runtime::question::AskedCall;
    use serde_json::json;

    use super::*;

    /// Builds a permission request of the member bob for a Bash command.
    pub(in super::super) fn question(command: &str) -> PermissionQuestion {
        let (tool, input, folder) = ("Bash", &json!({"command": command}), Path::new("/work"));
        let rules =
            Gate::default().allowing_rules(&Call { tool, input, cwd: folder, plan_file: None });
        let asker = &AgentName::new("bob").unwrap();
        let (file, says) = (None, None);
        PermissionQuestion::of(AskedCall {
            asker,
            tool,
            input,
            folder,
            file,
            reason: command,
            says,
            rules,
        })
    }

    fn shown(
        command: &str,
        waiting: usize,
        (columns, rows): (usize, usize),
        part: Section,
    ) -> String {
        let current = Current { question: question(command), waiting, part };
        let panel = panel(&current, Size { columns, rows });
        assert!(panel.rows.len() <= rows, "{panel:?}");
        assert!(panel.rows.iter().all(|(_, row)| row.chars().count() <= columns), "{panel:?}");
        panel
            .rows
            .into_iter()
            .map(|(_, row)| row.trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_question_is_shown_with_its_place_and_its_answers() {
        insta::assert_snapshot!(shown("npm test --all", 3, (80, 20), Section::Ends), @r"
        bob asks permission for Bash (1 of 3)
          in /work
        │ npm test --all
        [y]es, [n]o, or n and the reason
        [a]lways exactly this, in this run (a save: in your settings too)
        [p] always Bash(npm test:*), in this run (p save: in your settings too)
        ");
    }

    #[test]
    fn of_a_long_reason_what_is_left_out_is_counted_on_a_low_terminal() {
        let mut asked = question("rm -rf build");
        asked.reason = "because of this ".repeat(250);
        let current = Current { question: asked, waiting: 1, part: Section::Ends };
        for rows in 7..30 {
            let panel = panel(&current, Size { columns: 60, rows });
            let text =
                panel.rows.iter().map(|(_, row)| row.as_str()).collect::<Vec<_>>().join("\n");
            assert!(text.contains("rm -rf build"), "{rows} rows: {text}");
            assert!(
                text.contains("lines") && text.contains(TURN) && panel.seen.pages > 1,
                "{rows} rows: {text}"
            );
        }
    }

    #[test]
    fn of_a_long_command_the_end_is_seen_on_a_low_terminal_too() {
        let echoes: String = (0..40).map(|number| format!("echo {number}\n")).collect();
        let command = format!("{echoes}rm -rf /");
        insta::assert_snapshot!(shown(&command, 1, (60, 16), Section::Ends), @r"
        bob asks permission for Bash
          in /work
        │ echo 0
        │ echo 1
        │ echo 2
        │ echo 3
        │ echo 4
        │ echo 5
        ── 30 more lines here, PgDn shows them ──
        │ echo 36
        │ echo 37
        │ echo 38
        │ echo 39
        │ rm -rf /
        [y]es, [n]o, or n and the reason
        [a]lways exactly this, in this run
        ");
        insta::assert_snapshot!(shown(&command, 1, (60, 16), Section::Page(4)), @r"
        bob asks permission for Bash
        │ echo 35
        │ echo 36
        │ echo 37
        │ echo 38
        │ echo 39
        │ rm -rf /
        ── page 4 of 4, PgDn turns it ──
        [y]es, [n]o, or n and the reason
        [a]lways exactly this, in this run
        ");
        insta::assert_snapshot!(shown(&command, 1, (24, 6), Section::Ends), @r"
        bob asks permission for
        Bash
        │ echo 0
        40 more lines: PgDn
        │ rm -rf /
        [y]es [n]o [a]lways
        ");
        for rows in 1..30 {
            let text = shown(&command, 2, (30, rows), Section::Ends);
            assert!(
                text.contains("rm -rf /") || text.contains("more") || text.contains('+'),
                "{rows}: {text}"
            );
        }
    }
}
