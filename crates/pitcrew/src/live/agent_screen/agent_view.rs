//! Computes what the display of one agent shows: lines that scroll up, and the footer. This module
//! does no I/O.

use std::borrow::Cow;

use anstyle::Style;
use pitcrew_model::Block;
use pitcrew_protocol::{AgentName, Task, counted};
use pitcrew_runtime::events::{Answered, RunEvent};
use pitcrew_runtime::question::Size;
use pitcrew_team::MessageView;
use pitcrew_view::asking::{Current, ShownPages};
use pitcrew_view::remark::follow;
use pitcrew_view::wording::brief;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};

use super::super::board::style;
use super::super::panel::{Panel, panel};
use crate::output::{FAINT, STRONG, first_line, marked, printable};

/// The maximum number of lines of a message that are shown. The inbox contains the whole message.
const MAIL_LINES: usize = 8;

/// The maximum number of characters that are shown of the first line of a tool result.
const RESULT_CHARS: usize = 120;

/// The minimum number of rows for a permission request. If fewer rows would be left, the other
/// lines of the footer are hidden.
const ROWS_FOR_QUESTION: usize = 12;

/// The maximum number of characters of a task's subject in the footer.
const SUBJECT_CHARS: usize = 40;

/// The state of one agent as known from the events of the run.
#[derive(Debug)]
pub(crate) struct AgentView {
    agent: AgentName,
    team: String,
    state: TeamState,
    question: Option<Current>,
}

/// A line of text and its style.
type Line = (Style, String);

/// The footer, which stays visible below the scrolling lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The lines of the footer. Each line has one style and is cut at the width of the terminal.
    pub(crate) lines: Vec<Line>,
    /// The prompt in front of the input line.
    pub(crate) prompt: String,
    /// The layout of the permission request on the screen: its pages, and whether its permission
    /// rules are visible.
    pub(crate) seen: ShownPages,
}

impl Footer {
    /// Builds a footer from these lines, with the question below the lines. If a question is shown
    /// and the terminal has few rows, the lines are hidden. `prompt` is the input prompt when no
    /// question is shown.
    pub(crate) fn of(
        mut lines: Vec<Line>,
        question: Option<&Current>,
        size: Size,
        prompt: &str,
    ) -> Self {
        let Some(question) = question else {
            return Self { lines, prompt: prompt.to_owned(), seen: ShownPages::default() };
        };
        // The last row of the terminal is reserved for the user's answer.
        let rows = size.rows.saturating_sub(1);
        if rows < lines.len() + ROWS_FOR_QUESTION {
            lines.clear();
        }
        let Panel { rows, seen } = panel(question, Size { rows: rows - lines.len(), ..size });
        lines.extend(rows);
        Self { lines, prompt: "answer> ".to_owned(), seen }
    }
}

impl AgentView {
    pub(crate) fn new(agent: AgentName, team: String) -> Self {
        let state = TeamState::of_agent(agent.clone());
        Self { agent, team, state, question: None }
    }

    /// Updates the state from an event. Returns the lines that the display must add.
    pub(crate) fn apply(&mut self, event: &RunEvent) -> Vec<String> {
        let remarks = follow(&mut self.state, event);
        match event {
            RunEvent::Answered(answered) => said(answered),
            RunEvent::ToolStarted { tool, input, .. } => {
                vec![format!("{STRONG}*{STRONG:#} {}", printable(&brief(tool, input)))]
            }
            RunEvent::ToolEnded(ended) if !ended.is_error => {
                let text = first_line(&in_a_line(&ended.text), RESULT_CHARS);
                if text.is_empty() { Vec::new() } else { vec![format!("  {FAINT}{text}{FAINT:#}")] }
            }
            // The event contains only the ids of the delivered messages. The caller reads their
            // texts and displays them, so this function returns no line.
            RunEvent::MailDelivered { .. } => Vec::new(),
            RunEvent::Started(_)
            | RunEvent::AgentStarted(_)
            | RunEvent::AgentLaunched { .. }
            | RunEvent::TurnEnded { .. }
            | RunEvent::TaskChanged { .. }
            | RunEvent::PlanHandedIn { .. }
            | RunEvent::AgentChanged { .. }
            | RunEvent::TextDelta { .. }
            | RunEvent::ModelWaits { .. }
            | RunEvent::ModelSilent { .. }
            | RunEvent::Compacted(_)
            | RunEvent::ToolEnded(_)
            | RunEvent::PermissionAsked { .. }
            | RunEvent::PermissionAnswered { .. }
            | RunEvent::AllowedAlways { .. }
            | RunEvent::ModeChanged { .. }
            | RunEvent::ModelChanged { .. }
            | RunEvent::ModeRecorded { .. }
            | RunEvent::ShuttingDown { .. }
            | RunEvent::Warning { .. } => remarks
                .iter()
                .map(|remark| format!("{FAINT}- {}{FAINT:#}", printable(&remark.text)))
                .collect(),
        }
    }

    /// Formats a message that entered the agent's conversation, as lines.
    pub(crate) fn mail(&self, message: &MessageView) -> Vec<String> {
        let about = message.frame.map(|frame| format!(" [{frame}]")).unwrap_or_default();
        let mut lines = vec![format!("{STRONG}> {}{STRONG:#}{about}", printable(&message.from))];
        if message.frame.is_some() {
            return lines;
        }
        let text = printable(&message.text);
        let mut rest = text.lines();
        lines.extend(rest.by_ref().take(MAIL_LINES).map(|line| format!("  {line}")));
        let left = rest.count();
        if left > 0 {
            lines.push(format!("  {FAINT}({}){FAINT:#}", counted(left, "more line")));
        }
        lines
    }

    /// Updates the state from the team's tasks, so that the footer names the agent's current task.
    pub(crate) fn tasks(&mut self, tasks: &[Task]) {
        self.state = fold(std::mem::take(&mut self.state), &ViewEvent::Tasks(tasks));
    }

    /// Returns the state of the agent and its team.
    pub(crate) fn into_state(self) -> TeamState {
        self.state
    }

    /// Returns the question that is shown now, if any.
    pub(crate) fn question(&self) -> Option<&Current> {
        self.question.as_ref()
    }

    /// Sets the question to show. With `None`, no question is shown.
    pub(crate) fn ask(&mut self, question: Option<Current>) {
        self.question = question;
    }

    /// Builds the footer for a terminal of this size. `mail` is the number of unread messages.
    pub(crate) fn footer(&self, mail: usize, size: Size) -> Footer {
        let agent = self.state.agent(&self.agent);
        let colored = agent.and_then(|agent| agent.color).map_or(STRONG, style);
        let mut lines = vec![(
            colored,
            format!("── {} of {}", printable(self.agent.as_str()), printable(&self.team)),
        )];
        let doing = agent.map(AgentState::line);
        let task = agent
            .and_then(|agent| agent.task.as_ref())
            .map(|task| format!("task #{} {}", task.id, first_line(&task.subject, SUBJECT_CHARS)));
        let mail = (mail > 0).then(|| format!("{mail} unread"));
        let parts: Vec<String> = [doing, task, mail].into_iter().flatten().collect();
        lines.push((Style::new(), parts.join("  ")));
        Footer::of(lines, self.question.as_ref(), size, "> ")
    }
}

/// Joins the lines of a JSON result to one line, because the first line of JSON text alone is not
/// informative. Other results are returned without changes.
fn in_a_line(text: &str) -> Cow<'_, str> {
    let text = text.trim_start();
    match text.starts_with('{') {
        true => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
        false => text.into(),
    }
}

/// Returns the whole text of a model's answer, split into marked lines.
fn said(answered: &Answered) -> Vec<String> {
    let texts =
        answered.blocks.iter().filter_map(Block::as_text).filter(|text| !text.trim().is_empty());
    texts.flat_map(marked).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pitcrew_model::{StopReason, Usage};
    use pitcrew_protocol::{MessageId, Status};
    use pitcrew_runtime::question::Section;
    use serde_json::json;

    use super::*;

    fn bob() -> AgentName {
        AgentName::new("bob").unwrap()
    }

    fn agent_view() -> AgentView {
        AgentView::new(bob(), "demo".to_owned())
    }

    fn answer(text: &str) -> RunEvent {
        RunEvent::Answered(Answered {
            agent: bob(),
            parent_call: None,
            message_id: "m".into(),
            model: "x".into(),
            blocks: vec![Block::text(text)],
            stop: StopReason::EndTurn,
            usage: Usage { input_tokens: 12_000, output_tokens: 300, ..Usage::default() },
            cost_usd: Some(0.12),
            took: Duration::ZERO,
        })
    }

    fn plain(lines: &[String]) -> String {
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    fn footer(agent_view: &AgentView, mail: usize) -> String {
        let Footer { lines, prompt, .. } = agent_view.footer(mail, Size { columns: 80, rows: 24 });
        lines.into_iter().map(|(_, line)| line).chain([prompt]).collect::<Vec<_>>().join("\n")
    }

    fn message(text: &str, frame: Option<&'static str>) -> MessageView {
        let (id, from) = (MessageId("1".into()), "ann".to_owned());
        MessageView {
            id,
            from,
            text: text.to_owned(),
            summary: None,
            color: None,
            timestamp: None,
            read: true,
            not_delivered: None,
            frame,
        }
    }

    #[test]
    fn what_it_says_and_does_scrolls_by() {
        let mut agent_view = agent_view();
        let mut lines = agent_view.apply(&answer("I read the parser.\nIt is \u{1b}[2Jsmall."));
        let (call, tool) = ("c".to_owned(), "Bash".to_owned());
        let input = json!({"command": "cargo test"});
        lines.extend(agent_view.apply(&RunEvent::ToolStarted { agent: bob(), call, tool, input }));
        lines.extend(agent_view.mail(&message("look\nthere", None)));
        lines.extend(agent_view.mail(&message("{}", Some("shutdown_request"))));
        insta::assert_snapshot!(plain(&lines), @r"
        < I read the parser.
          It is �[2Jsmall.
        * Bash(cargo test)
        > ann
          look
          there
        > ann [shutdown_request]
        ");
    }

    #[test]
    fn a_long_message_says_how_much_is_left() {
        let text = (1..=20).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert!(
            plain(&agent_view().mail(&message(&text, None))).ends_with("  8\n  (12 more lines)")
        );
    }

    #[test]
    fn the_foot_says_how_it_stands() {
        let mut agent_view = agent_view();
        let _ = agent_view.apply(&answer("hm"));
        let _ = agent_view.apply(&RunEvent::AgentChanged {
            agent: bob(),
            status: Status::Active,
            detail: None,
        });
        let task = json!({"id": "3", "subject": "Fix slug", "description": "", "status": "in_progress", "owner": "bob",
            "blocks": [], "blockedBy": []});
        agent_view.tasks(&[serde_json::from_value(task).unwrap()]);
        insta::assert_snapshot!(footer(&agent_view, 2), @r"
        ── bob of demo
        thinks                          12.3k tokens  $0.12  task #3 Fix slug  2 unread
        >
        ");
        let question = super::super::super::panel::tests::question("make it");
        agent_view.ask(Some(Current { question, waiting: 1, part: Section::Ends }));
        insta::assert_snapshot!(footer(&agent_view, 0), @r"
        ── bob of demo
        thinks                          12.3k tokens  $0.12  task #3 Fix slug
        bob asks permission for Bash
          in /work
        │ make it
        [y]es, [n]o, or n and the reason
        [a]lways exactly this, in this run (a save: in your settings too)
        [p] always Bash(make it:*), in this run (p save: in your settings too)
        answer>
        ");
    }
}
