//! Prints a stream or the records of a team: first the timeline, then the agents, the tasks and the
//! cost by model.

use std::fmt::Write as _;

use pitcrew_process::given_stream::{GivenStream, Piece};
use pitcrew_protocol::Task;
use pitcrew_view::client_stream::{ClientStream, LinesRead};
use pitcrew_view::recorded::Recorded;
use pitcrew_view::state::{Cleanup, Happened, SessionSummary, TimelineEntry};
use pitcrew_view::{AgentState, TeamState};
use serde::Serialize;

use super::first_lines::{known_lines, unread};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Form, in_one_line, printable};
use crate::when::{day, time_of_day};

/// The size of one read.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;

/// The maximum number of characters of a subject or a name in the summary.
const NAME_CHARS: usize = 60;

/// The result that `pitcrew view` prints.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    state: &'a TeamState,
    /// The numbers of lines of the stream. Null for a team's records.
    lines: Option<LinesRead>,
    /// What could not be read of a team's records.
    unread: &'a [String],
}

/// Prints a stream until it ends. The entries of the timeline are printed as they come.
pub(super) fn stream(
    context: &Context,
    mut stream: GivenStream,
    name: &str,
) -> Result<(), Failure> {
    let (mut reader, mut state) = (ClientStream::new(), TeamState::default());
    let (mut buffer, mut seen) = (vec![0; BLOCK_BYTES], 0);
    loop {
        let is_last = match stream.read(&mut buffer).map_err(|error| unread(name, error))? {
            Piece::Bytes(count) => {
                reader.feed(&mut state, buffer.get(..count).unwrap_or_default());
                false
            }
            Piece::EndForNow | Piece::BegunAgain | Piece::End => {
                reader.finish(&mut state);
                true
            }
        };
        if context.output.form() == Form::Text {
            print_entries(state.timeline.since(seen))?;
            seen = state.timeline.count();
        }
        if is_last {
            break;
        }
    }
    let read = reader.lines_read();
    known_lines(read, name)?;
    let shown = Shown { state: &state, lines: Some(read), unread: &[] };
    context.output.answer(&shown, Shown::text)
}

/// Prints the records of a team.
pub(super) fn records(context: &Context, recorded: &Recorded) -> Result<(), Failure> {
    let state = &recorded.state;
    if context.output.form() == Form::Text {
        print_entries(state.timeline.since(0))?;
    }
    let shown = Shown { state, lines: None, unread: &recorded.unread };
    context.output.answer(&shown, Shown::text)
}

fn print_entries<'a>(entries: impl Iterator<Item = &'a TimelineEntry>) -> Result<(), Failure> {
    let mut lines = String::new();
    for entry in entries {
        let _ = writeln!(lines, "{}  {}", place(entry), entry.text());
    }
    if lines.is_empty() { Ok(()) } else { output::line(printable(lines.trim_end()).as_ref()) }
}

/// Returns the number of the line in the stream, or the time of an entry of a log.
fn place(entry: &TimelineEntry) -> String {
    match &entry.what {
        Happened::Logged(logged) => {
            let at = day(logged.at_ms).zip(time_of_day(logged.at_ms));
            at.map_or_else(|| " ".repeat(19), |(day, time)| format!("{day} {time}"))
        }
        Happened::TeamCreated { .. }
        | Happened::Spawned { .. }
        | Happened::Said { .. }
        | Happened::Mail(_)
        | Happened::Task { .. }
        | Happened::CleanedUp
        | Happened::CleanupFailed { .. }
        | Happened::SessionEnded { .. } => format!("{:>6}", entry.line),
    }
}

impl Shown<'_> {
    fn text(&self) -> String {
        let state = self.state;
        let mut text = format!("\n{}\n", headline(state));
        let rows: Vec<_> = state.agents.iter().map(cells).collect();
        if !rows.is_empty() {
            let heading = ["AGENT", "STATE", "TYPE", "COLOR", "MODEL", "TOKENS", "COST"];
            let _ = writeln!(text, "\n{}", output::table(heading, &rows));
        }
        if !state.tasks.is_empty() {
            let rows: Vec<_> = state.tasks.iter().map(task_cells).collect();
            let heading = ["TASK", "SUBJECT", "STATUS", "OWNER", "BLOCKED BY"];
            let _ = writeln!(text, "\n{}", output::table(heading, &rows));
        }
        if let Some(session) = &state.session {
            let _ = writeln!(text, "\n{}", of_session(session));
        }
        if let Some(read) = self.lines {
            let _ = write!(text, "\n{}", read.in_words());
        }
        text
    }
}

fn headline(state: &TeamState) -> String {
    let team = match state.team.as_str() {
        "" => "no team was made".to_owned(),
        team => format!("team {}", in_one_line(team)),
    };
    match &state.cleanup {
        Some(Cleanup::CleanedUp) => format!("{team}: cleaned_up"),
        Some(Cleanup::Failed(reason)) => format!("{team}: not cleaned up: {}", in_one_line(reason)),
        None => team,
    }
}

fn cells(agent: &AgentState) -> [String; 7] {
    let known = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
    let state = match &agent.reason {
        Some(reason) => format!("{}: {reason}", agent.now()),
        None => agent.now(),
    };
    [
        agent.name.to_string(),
        short(&state),
        short(&known(agent.agent_type.as_deref())),
        known(agent.color.map(|color| color.as_str())),
        short(&known(agent.model.as_deref())),
        known(agent.tokens().as_deref()),
        known(agent.cost().as_deref()),
    ]
}

fn task_cells(task: &Task) -> [String; 5] {
    let blockers: Vec<String> = task.blocked_by.iter().map(|id| format!("#{id}")).collect();
    [
        format!("#{}", task.id),
        short(&task.subject),
        task.status.as_str().replace('_', " "),
        short(task.owner.as_deref().unwrap_or("-")),
        blockers.join(", "),
    ]
}

fn of_session(session: &SessionSummary) -> String {
    let rows: Vec<[String; 3]> = session
        .models
        .iter()
        .map(|model| [short(&model.model), model.cost(), model.tokens()])
        .collect();
    let line = format!("session: {}", session.line());
    if rows.is_empty() {
        return line;
    }
    format!("{line}\n\n{}", output::table(["MODEL", "COST", "TOKENS"], &rows))
}

fn short(text: &str) -> String {
    output::first_line(&in_one_line(text), NAME_CHARS)
}
