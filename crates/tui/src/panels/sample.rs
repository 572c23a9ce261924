//! A team, its tasks and its timeline for tests, and a screen to draw on.

use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pitcrew_permission::gate::{Call, Gate};
use pitcrew_protocol::{AgentName, Color, Status, Task, TaskId};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{AskedCall, PermissionQuestion};
use pitcrew_view::host::OpenQuestion;
use pitcrew_view::state::{CurrentTask, Happened, Mail, Route, TimelineEntry};
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};
use serde_json::json;

/// Draws on a screen of this size. Returns its lines without blanks at their ends, and without empty
/// lines at the end.
pub(super) fn screen(
    (width, height): (u16, u16),
    draw: impl FnOnce(&mut Frame<'_>, Rect),
) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, frame.area())).unwrap();
    let screen = terminal.backend().to_string();
    let lines: Vec<&str> = screen.lines().map(|line| line.trim_matches('"').trim_end()).collect();
    lines.join("\n").trim_end().to_owned()
}

pub(super) fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

pub(super) fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(super) fn agent(of: &str, color: Option<Color>, status: Status) -> AgentState {
    let mut agent = AgentState::new(name(of));
    (agent.color, agent.status) = (color, status);
    agent
}

pub(super) fn asked_by(asker: &str, tool: &str) -> OpenQuestion {
    let (folder, input) = (Path::new("/work"), json!({"command": "make", "plan": "First this."}));
    let call = Call { tool, input: &input, cwd: folder, plan_file: None };
    let question = PermissionQuestion::of(AskedCall {
        asker: &name(asker),
        tool,
        input: &input,
        folder,
        file: None,
        reason: "",
        says: None,
        rules: Gate::default().allowing_rules(&call),
    });
    OpenQuestion { id: format!("{asker} {tool}"), since_ms: 0, question, input }
}

/// A team with agents in all states.
pub(super) fn team() -> TeamState {
    let mut lead = agent("team-lead", None, Status::Active);
    lead.model = Some("claude-opus-4-6".to_owned());
    lead.usage.input_tokens = 23_400;
    lead.cost_usd = 1.25;
    let mut bob = agent("bob", Some(Color::Blue), Status::Active);
    bob.task =
        Some(CurrentTask { id: TaskId::from_number(2), subject: "Mend the parser".to_owned() });
    bob.usage.output_tokens = 900;
    let mut dora = agent("dora", Some(Color::Red), Status::Failed);
    dora.reason = Some("the model refused the key\nsee the log\u{1b}[2J".to_owned());
    let mut state = TeamState::default();
    state.agents = vec![
        lead,
        agent("ann", Some(Color::Green), Status::Idle),
        bob,
        agent("carl", Some(Color::Yellow), Status::AwaitingPlanApproval),
        dora,
        agent("eve", Some(Color::Pink), Status::Completed),
    ];
    let runs = RunEvent::ToolStarted {
        agent: name("bob"),
        call: "c1".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "cargo test -p parser"}),
    };
    fold(state, &ViewEvent::Run(&runs))
}

pub(super) fn task(id: u64, subject: &str, more: serde_json::Value) -> Task {
    let mut task = json!({
        "id": id.to_string(), "subject": subject, "description": "", "status": "pending",
        "blocks": [], "blockedBy": [],
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(task).unwrap()
}

/// Tasks of all groups, in no order.
pub(super) fn tasks() -> Vec<Task> {
    vec![
        task(4, "Write the release notes", json!({"blockedBy": ["2", "3"]})),
        task(1, "Read the code", json!({"status": "completed", "owner": "ann"})),
        task(3, "Measure it", json!({"blockedBy": ["1"], "blocks": ["4"]})),
        task(
            2,
            "Mend the parser, which drops the last line of a file without a line break at its end",
            json!({"status": "in_progress", "owner": "bob", "description": "First a test.\n\nThen the parser."}),
        ),
        task(9, "bob", json!({"status": "in_progress", "metadata": {"_internal": true}})),
    ]
}

pub(super) fn mail(from: &str, to: Route, text: &str) -> Happened {
    let (from, kind) = (from.to_owned(), "message".to_owned());
    Happened::Mail(Mail { from, to, kind, summary: None, text: text.to_owned() })
}

/// Adds entries to the timeline of a team.
pub(super) fn happened(
    mut state: TeamState,
    entries: impl IntoIterator<Item = Happened>,
) -> TeamState {
    let last = state.timeline.entries().next_back().map_or(0, |entry| entry.line);
    for (line, what) in (last + 1..).zip(entries) {
        state.timeline.push(TimelineEntry { line, what });
    }
    state
}

/// The entries of a short session, of all kinds.
pub(super) fn session() -> Vec<Happened> {
    let (ann, bob) = (name("ann"), name("bob"));
    let spawned = |agent: &AgentName, color| Happened::Spawned {
        agent: agent.clone(),
        color: Some(color),
        agent_type: Some("general-purpose".to_owned()),
        model: Some("haiku".to_owned()),
    };
    let all = Route::Team(vec![ann.clone(), bob.clone()]);
    let long = "I found it: the loop ends one line too early.\nThe test is in parser.rs.\u{1b}[2J";
    vec![
        Happened::TeamCreated { team: "crew".to_owned() },
        spawned(&ann, Color::Green),
        spawned(&bob, Color::Blue),
        mail("team-lead", all, "Please begin."),
        Happened::Task {
            id: TaskId::from_number(2),
            by: bob.clone(),
            change: "in progress".to_owned(),
        },
        Happened::Said { agent: bob.clone(), text: "I read the parser first.".to_owned() },
        Happened::Mail(Mail {
            from: "bob".to_owned(),
            to: Route::Agent(name("team-lead")),
            kind: "message".to_owned(),
            summary: Some("Found it".to_owned()),
            text: long.to_owned(),
        }),
        Happened::Mail(Mail {
            from: "team-lead".to_owned(),
            to: Route::Agent(ann),
            kind: "shutdown_request".to_owned(),
            summary: None,
            text: String::new(),
        }),
        Happened::SessionEnded { outcome: "success".to_owned() },
    ]
}
