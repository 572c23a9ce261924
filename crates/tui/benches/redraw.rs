//! Measures how long a screen with 50 agents, 200 tasks and 100,000 timeline entries takes to draw,
//! beside the limit of 16 ms and beside an empty frame of the same size.
//!
//! Exits with 1 if the median of a case is 16 ms or more. A search that finds nothing has no limit:
//! its first letter looks at the whole timeline, once.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot work"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pitcrew_protocol::{AgentName, Color, Status, Task};
use pitcrew_tui::panels::{TaskBoard, TeamList, TimelineView};
use pitcrew_tui::theme::{Theme, ThemeKind};
use pitcrew_view::state::{Happened, Mail, Route, Timeline, TimelineEntry};
use pitcrew_view::{AgentState, TeamState};
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout};
use ratatui::{Frame, Terminal};
use serde_json::json;

const AGENTS: usize = 50;
const TASKS: u64 = 200;
/// The length of most messages, in bytes. A timeline has room for 100,000 of them.
const TEXT_BYTES: usize = 80;
/// The length of each thousandth message, in bytes. It is about the longest that an entry can have.
const LONG_TEXT_BYTES: usize = 16_000;
const ROUNDS: usize = 50;
/// The case without a limit.
const VAIN: &str = "a search that finds nothing";
const LIMIT: Duration = Duration::from_millis(16);

/// The panels of a screen.
struct Screen {
    team: TeamList,
    tasks: TaskBoard,
    timeline: TimelineView,
    theme: Theme,
}

impl Screen {
    fn new() -> Self {
        Self {
            team: TeamList::new(),
            tasks: TaskBoard::new(),
            timeline: TimelineView::new(),
            theme: Theme::new(ThemeKind::Dark),
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, state: &TeamState) {
        let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
        let [above, below] = Layout::vertical(halves).areas(frame.area());
        let [left, right] = Layout::horizontal(halves).areas(above);
        self.team.draw(frame, left, state, &[], &self.theme, false);
        self.tasks.draw(frame, right, &state.tasks, &self.theme, false);
        self.timeline.draw(frame, below, state, &self.theme, true);
    }

    fn keys(&mut self, keys: &[KeyCode]) {
        for code in keys {
            self.timeline.key(KeyEvent::new(*code, KeyModifiers::NONE));
        }
    }
}

fn name(n: usize) -> AgentName {
    AgentName::new(&format!("agent-{n}")).unwrap()
}

fn message(line: u64) -> TimelineEntry {
    let n = usize::try_from(line).unwrap();
    let length = if n.is_multiple_of(1_000) { LONG_TEXT_BYTES } else { TEXT_BYTES };
    let text = format!("Message {n}: the parser drops the last line of a file. ");
    let text: String = text.chars().cycle().take(length).collect();
    let mail = Mail {
        from: name(n % AGENTS).to_string(),
        to: Route::Agent(name((n + 1) % AGENTS)),
        kind: "message".to_owned(),
        summary: None,
        text,
    };
    TimelineEntry { line, what: Happened::Mail(mail) }
}

fn agent(n: usize) -> AgentState {
    let status = [Status::Active, Status::Idle, Status::AwaitingPlanApproval];
    let mut agent = AgentState::new(name(n));
    agent.status = status.into_iter().cycle().nth(n).unwrap();
    agent.color = Some(Color::ALL.into_iter().cycle().nth(n).unwrap());
    agent.model = Some("claude-opus-4-6".to_owned());
    agent.usage.input_tokens = 10_000 + n as u64;
    agent
}

fn task(n: u64) -> Task {
    let blocked_by: Vec<String> = (1..n).rev().take(3).map(|id| id.to_string()).collect();
    let task = json!({
        "id": n.to_string(), "subject": format!("Mend part {n} of the parser"),
        "description": "", "status": "pending", "blocks": [], "blockedBy": blocked_by,
    });
    serde_json::from_value(task).unwrap()
}

fn state() -> TeamState {
    let mut state = TeamState::default();
    state.agents = (0..AGENTS).map(agent).collect();
    state.tasks = (1..=TASKS).map(task).collect();
    (0..Timeline::ENTRIES_MOST as u64).for_each(|line| state.timeline.push(message(line)));
    state
}

/// The times of one case.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut round: impl FnMut() -> Duration) -> Self {
        let mut times: Vec<Duration> = (0..ROUNDS).map(|_| round()).collect();
        times.sort();
        Self(times)
    }

    fn median(&self) -> Duration {
        *self.0.get(self.0.len() / 2).unwrap()
    }

    fn slowest(&self) -> Duration {
        *self.0.last().unwrap()
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    black_box(work());
    started.elapsed()
}

fn terminal((width, height): (u16, u16)) -> Terminal<TestBackend> {
    Terminal::new(TestBackend::new(width, height)).unwrap()
}

/// Draws a frame without content, as ratatui alone needs it.
fn empty_frame(size: (u16, u16)) -> Times {
    let mut terminal = terminal(size);
    Times::of(|| timed(|| terminal.draw(|_| {}).unwrap().area))
}

fn first_paint(size: (u16, u16), state: &TeamState) -> Times {
    Times::of(|| {
        timed(|| {
            let (mut terminal, mut screen) = (terminal(size), Screen::new());
            terminal.draw(|frame| screen.draw(frame, state)).unwrap().area
        })
    })
}

/// Draws again after `before`, which is not measured, and after these keys.
fn redraw(
    size: (u16, u16),
    state: &mut TeamState,
    start: &[KeyCode],
    each: &[KeyCode],
    grows: bool,
) -> Times {
    let (mut terminal, mut screen) = (terminal(size), Screen::new());
    terminal.draw(|frame| screen.draw(frame, state)).unwrap();
    screen.keys(start);
    terminal.draw(|frame| screen.draw(frame, state)).unwrap();
    Times::of(|| {
        if grows {
            let line = state.timeline.entries().next_back().unwrap().line + 1;
            state.timeline.push(message(line));
        }
        timed(|| {
            screen.keys(each);
            terminal.draw(|frame| screen.draw(frame, state)).unwrap().area
        })
    })
}

/// Draws a new search for a text that no entry has. The whole timeline is searched for it.
fn vain_search(size: (u16, u16), state: &TeamState) -> Times {
    Times::of(|| {
        let (mut terminal, mut screen) = (terminal(size), Screen::new());
        terminal.draw(|frame| screen.draw(frame, state)).unwrap();
        screen.keys(&[KeyCode::Char('/'), KeyCode::Char('~')]);
        timed(|| terminal.draw(|frame| screen.draw(frame, state)).unwrap().area)
    })
}

fn main() -> ExitCode {
    let mut state = state();
    let entries = state.timeline.entries().len();
    assert_eq!(entries, Timeline::ENTRIES_MOST);
    println!("{AGENTS} agents, {TASKS} tasks, {entries} timeline entries; {ROUNDS} rounds each");
    let mut is_fast = true;
    for size in [(80, 24), (200, 60)] {
        let empty = empty_frame(size).median();
        println!("\n{} columns, {} rows; an empty frame takes {empty:?}", size.0, size.1);
        let typed = |text: &str| -> Vec<KeyCode> { text.chars().map(KeyCode::Char).collect() };
        let open = |text: &str| [typed(text), vec![KeyCode::Home]].concat();
        let page = [KeyCode::PageDown];
        let cases = [
            ("first paint", first_paint(size, &state)),
            ("one entry more", redraw(size, &mut state, &[], &[], true)),
            ("a page down from the start", redraw(size, &mut state, &open(""), &page, false)),
            ("the same with whole texts", redraw(size, &mut state, &open("o"), &page, false)),
            (
                "mail of one agent, one more",
                redraw(size, &mut state, &typed("/@agent-7"), &[], true),
            ),
            ("a word is searched", redraw(size, &mut state, &typed("/parser"), &[], true)),
            (VAIN, vain_search(size, &state)),
        ];
        for (case, times) in cases {
            let (median, slowest) = (times.median(), times.slowest());
            let of_limit = median.as_secs_f64() / LIMIT.as_secs_f64();
            let of_empty = median.as_secs_f64() / empty.as_secs_f64();
            println!(
                "{case:<28} median {:>8.3} ms, slowest {:>8.3} ms; the median is {of_limit:>5.2} of 16 ms and {of_empty:>6.1} empty frames",
                median.as_secs_f64() * 1e3,
                slowest.as_secs_f64() * 1e3,
            );
            is_fast &= median < LIMIT || case == VAIN;
        }
    }
    if is_fast { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
