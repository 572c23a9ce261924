//! The event loop of `pitcrew attach`. It displays a team that another process runs, and sends that
//! process the answers of the user. It handles events of the host, keys and signals.

use std::time::Duration;

use crossterm::event::Event as Key;
use pitcrew_protocol::{LEAD_NAME, Task};
use pitcrew_runtime::control_socket::Notifies;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::RunOutcome;
use pitcrew_team::Team;
use pitcrew_tui::{Keys, Onward};
use pitcrew_view::asking::{Chosen, Questions};
use pitcrew_view::client::{self, HostLink, News};
use pitcrew_view::host::{HostEvent, HostState, What};
use pitcrew_view::lead::LeadError;
use pitcrew_view::remark::{Remark, follow};
use pitcrew_view::{TeamState, ViewEvent, fold};
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::agent_screen::Typed;
use super::board::Board;
use super::log;
use super::signals::{EndSignal, Signals};
use super::warnings::Remarks;
use super::watch::{pressed, remark, send};
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::place_of_panes;
use crate::notifier::Attention;
use crate::output::{self, printable, shell_word};

/// How long the first answer of the host may take before the user learns that it is missing.
const FIRST_ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// The kind of display of a team that another process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachFace {
    /// A terminal that shows one line per agent, and takes answers and messages.
    Terminal,
    /// Plain lines on stdout.
    Log,
    /// JSON lines on stdout.
    Lines,
}

/// Why the display of a team ended.
#[derive(Debug)]
pub(crate) enum Left {
    /// The run has ended.
    Ended {
        /// The outcome that the host reported.
        outcome: Box<RunOutcome>,
        /// The state of the team at the end.
        state: Box<TeamState>,
    },
    /// No process ran the team when the display opened.
    NobodyRuns,
    /// The run that this process started ended before it could be followed.
    AlreadyOver,
    /// The user left, and the team goes on.
    ByUser,
    /// The user chose to go on elsewhere.
    Onward(Onward),
    /// A signal ended this process, or its terminal is gone. The team goes on.
    Signal(EndSignal),
    /// The host ended without a word, for example because it was killed.
    HostGone,
    /// The team was archived or deleted while no process ran it.
    TeamGone,
}

/// An input for which the event loop waits.
enum Wake {
    News(Result<News, LeadError>),
    Signal(EndSignal),
    Key(Key),
    Remark(String),
    /// The host exists and has not answered in time.
    Silence,
}

/// One JSON line of the display.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonLine<'a> {
    /// The connection is open.
    Attached { team: &'a str, version: &'a str },
    /// The state of the host. It replaces everything that earlier lines said.
    Snapshot { state: &'a HostState },
    /// The state of the team's files, if the host was gone before its last event. It replaces
    /// everything that earlier lines said. Its numbers are not those of the host's events.
    Recorded { team: &'a TeamState, tasks: &'a [Task] },
    /// An event.
    Event(&'a HostEvent),
}

/// The display, as the event loop keeps it.
struct Attached {
    team: Team,
    face: AttachFace,
    /// The display on a terminal. `None` if the team is displayed in another way.
    board: Option<Board>,
    state: TeamState,
    questions: Questions,
    host: HostPresence,
    panes: PanesNamed,
}

/// Whether the user knows where the panes of the teammates are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PanesNamed {
    /// There was no pane yet.
    NotYet,
    /// There may be a pane now.
    Due,
    /// The user knows it.
    Done,
}

/// What is known about the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostPresence {
    /// The connection was never open.
    Unknown,
    /// The connection was never open, and the user knows that this process waits for the host.
    Silent,
    /// The connection is open, or is being opened again.
    Here,
    /// No process runs the team, and the user knows it.
    Gone,
}

/// Displays a team until its run ends, its host is gone, or the user leaves. On a terminal, the
/// display outlives a host that was killed, and goes on when the team is resumed.
///
/// # Errors
/// Returns an error if the host refuses this process, or if the display cannot be opened or written.
pub(crate) async fn attach(
    context: &Context,
    team: Team,
    face: AttachFace,
    mut signals: Signals,
    attention: &Attention,
) -> Result<Left, Failure> {
    let notifies = Notifies::from(face == AttachFace::Terminal && !attention.is_silent());
    let mut link = HostLink::new(team.clone()).notifying(notifies);
    let mut attached = Attached {
        team,
        face,
        board: None,
        state: TeamState::default(),
        questions: Questions::default(),
        host: HostPresence::Unknown,
        panes: PanesNamed::NotYet,
    };
    let (mut keys, mut remarks) = (None, None);
    let late = Instant::now() + FIRST_ANSWER_PATIENCE;
    let left = loop {
        let wake = tokio::select! {
            news = link.next() => Wake::News(news),
            signal = signals.next() => Wake::Signal(signal),
            key = pressed(keys.as_mut()) => Wake::Key(key),
            remark = remark(remarks.as_mut()) => Wake::Remark(remark),
            () = sleep_until(late), if attached.host == HostPresence::Unknown => Wake::Silence,
        };
        // The terminal is opened after the host, so that an error before that is printed on an
        // ordinary terminal.
        let is_open = matches!(wake, Wake::News(Ok(News::Open(_))));
        if is_open && attached.board.is_none() && face == AttachFace::Terminal {
            let board = Board::open().map_err(Failure::internal)?;
            if board.has_keys() {
                keys = Some(Keys::open().map_err(Failure::internal)?);
            }
            attached.board = Some(board);
            remarks = Some(Remarks::open());
        }
        if let Wake::News(Ok(News::Event(event))) = &wake
            && let What::Notify(notification) = &event.what
            && link.shows(notification)
        {
            attached.signal(&attention.to(notification));
        }
        if let Some(left) = attached.woken(wake).await? {
            break left;
        }
        if attached.panes == PanesNamed::Due
            && let Some(left) = attached.name_panes(context).await?
        {
            break left;
        }
    };
    // The terminal is restored first. Then the remaining remarks are printed directly.
    drop(attached);
    remarks.map(Remarks::left).into_iter().flatten().for_each(|remark| output::remark(&remark));
    Ok(left)
}

impl Attached {
    /// Handles an input. Returns why the display ends, if it ends.
    async fn woken(&mut self, wake: Wake) -> Result<Option<Left>, Failure> {
        match wake {
            Wake::News(news) => self.heard(news?),
            // Leaving is what Ctrl-C means here.
            Wake::Signal(EndSignal::Interrupt) => Ok(Some(self.left_by_user())),
            Wake::Signal(signal @ EndSignal::Terminate) => Ok(Some(Left::Signal(signal))),
            Wake::Key(key) => self.pressed(key).await,
            Wake::Remark(text) => self.show(&[Remark::of_run(text)]),
            Wake::Silence => {
                self.host = HostPresence::Silent;
                // No display is open yet.
                let team = self.team.name();
                output::remark(&format!(
                    "the process of team {team} does not answer; it may be suspended. Waiting for it; Ctrl-C leaves"
                ));
                Ok(None)
            }
        }
    }

    fn heard(&mut self, news: News) -> Result<Option<Left>, Failure> {
        match news {
            News::Open(version) => self.opened(&version),
            News::Snapshot(state) => self.replaced(*state, |state| JsonLine::Snapshot { state }),
            News::Recorded(state) => self.replaced(*state, |state| JsonLine::Recorded {
                team: &state.team,
                tasks: &state.tasks,
            }),
            News::Event(event) => self.happened(*event),
            News::Nobody => self.lost(),
            News::TeamGone => Ok(Some(Left::TeamGone)),
            News::Unwatched(reason) => {
                let text = format!("warning: {reason}; the team is looked for every second");
                self.show(&[Remark::of_run(text)])
            }
        }
    }

    /// Says where the panes of the teammates are. They can be in a session that no terminal shows.
    async fn name_panes(&mut self, context: &Context) -> Result<Option<Left>, Failure> {
        self.panes = PanesNamed::NotYet;
        let Some(text) = place_of_panes(context, &self.team).await else { return Ok(None) };
        self.panes = PanesNamed::Done;
        self.show(&[Remark::of_run(text)])
    }

    /// Looks for panes soon, unless the user knows where they are or reads JSON.
    fn panes_changed(&mut self) {
        if self.panes == PanesNamed::NotYet && self.face != AttachFace::Lines {
            self.panes = PanesNamed::Due;
        }
    }

    fn opened(&mut self, version: &str) -> Result<Option<Left>, Failure> {
        self.panes_changed();
        let team = self.team.name();
        if self.face == AttachFace::Lines {
            self.host = HostPresence::Here;
            return print(&JsonLine::Attached { team: team.as_str(), version });
        }
        let text = match std::mem::replace(&mut self.host, HostPresence::Here) {
            HostPresence::Unknown | HostPresence::Silent if self.board.is_some() => format!(
                "attached to team {team}: a line is a message to {LEAD_NAME}, Esc interrupts it, Ctrl-C leaves"
            ),
            HostPresence::Unknown | HostPresence::Silent => format!("attached to team {team}"),
            // The connection broke, and no event was lost.
            HostPresence::Here => return Ok(None),
            HostPresence::Gone => format!("team {team} is run again"),
        };
        let own = env!("CARGO_PKG_VERSION");
        let other = (version != own).then(|| {
            format!("warning: pitcrew {version} runs the team, and this is {own}; some events may be missing")
        });
        let texts = std::iter::once(text).chain(other);
        self.show(&texts.map(Remark::of_run).collect::<Vec<_>>())
    }

    fn replaced(
        &mut self,
        state: HostState,
        line: impl FnOnce(&HostState) -> JsonLine<'_>,
    ) -> Result<Option<Left>, Failure> {
        if self.face == AttachFace::Lines {
            return print(&line(&state));
        }
        self.state = state.team;
        self.questions.replace(state.questions);
        self.show(&[])
    }

    fn happened(&mut self, event: HostEvent) -> Result<Option<Left>, Failure> {
        if self.face == AttachFace::Lines {
            print(&JsonLine::Event(&event))?;
        }
        let remarks = match event.what {
            What::Run(event) => {
                if matches!(event, RunEvent::AgentLaunched { .. }) {
                    self.panes_changed();
                }
                follow(&mut self.state, &event)
            }
            What::QuestionOpened(question) => {
                self.questions.opened(*question);
                Vec::new()
            }
            What::QuestionClosed { id, closed: _ } => {
                self.questions.closed(&id);
                Vec::new()
            }
            // The terminal has its signal already, if this display is to give it.
            What::Notify(_) => return Ok(None),
            What::Tasks(tasks) => self.folded(&ViewEvent::Tasks(&tasks)),
            What::Config(config) => self.folded(&ViewEvent::Config(&config)),
            What::Ended(outcome) => {
                let state = Box::new(std::mem::take(&mut self.state));
                return Ok(Some(Left::Ended { outcome, state }));
            }
        };
        self.show(&remarks)
    }

    fn folded(&mut self, event: &ViewEvent<'_>) -> Vec<Remark> {
        self.state = fold(std::mem::take(&mut self.state), event);
        Vec::new()
    }

    /// Handles that no process runs the team.
    fn lost(&mut self) -> Result<Option<Left>, Failure> {
        match std::mem::replace(&mut self.host, HostPresence::Gone) {
            HostPresence::Unknown => return Ok(Some(Left::NobodyRuns)),
            HostPresence::Silent => return Ok(Some(Left::HostGone)),
            HostPresence::Here => {}
            HostPresence::Gone => return Ok(None),
        }
        if self.board.is_none() {
            return Ok(Some(Left::HostGone));
        }
        // Nobody waits for an answer any more. The resumed team asks again.
        self.questions = Questions::default();
        let team = self.team.name().as_str();
        let text = format!(
            "the process of team {team} is gone; `pitcrew run --resume {}` goes on, and so does this display; Ctrl-C leaves",
            shell_word(team)
        );
        self.show(&[Remark::of_run(text)])
    }

    /// Sends characters to the terminal that get the user's attention.
    fn signal(&self, characters: &str) {
        if let Some(board) = &self.board {
            // If the terminal is gone, the display ends when it draws the next time.
            let _either = board.signal(characters);
        }
    }

    fn left_by_user(&self) -> Left {
        match self.host {
            HostPresence::Gone => Left::HostGone,
            HostPresence::Unknown | HostPresence::Silent | HostPresence::Here => Left::ByUser,
        }
    }

    /// Draws new remarks and the current state. The display ends if its terminal is gone.
    fn show(&mut self, remarks: &[Remark]) -> Result<Option<Left>, Failure> {
        let Some(board) = &mut self.board else {
            let lines = remarks.iter().filter(|_| self.face == AttachFace::Log);
            let mut lines = lines.map(log::timed);
            return lines.try_for_each(|line| output::line(&printable(&line))).map(|()| None);
        };
        board.ask(self.questions.current());
        // Without a host, no agent does anything, so the last known activities are not shown.
        let nothing = TeamState::default();
        let state = if self.host == HostPresence::Gone { &nothing } else { &self.state };
        let shown = board.show(state, remarks);
        self.questions.show(board.part());
        Ok(shown.err().map(|_terminal_is_gone| Left::Signal(EndSignal::Terminate)))
    }

    async fn pressed(&mut self, key: Key) -> Result<Option<Left>, Failure> {
        let Some(board) = self.board.as_mut() else { return Ok(None) };
        let remark = match board.pressed(key) {
            Typed::End => return Ok(Some(self.left_by_user())),
            Typed::Suspend => match board.suspend() {
                Ok(()) => None,
                Err(_terminal_is_gone) => return Ok(Some(Left::Signal(EndSignal::Terminate))),
            },
            Typed::Interrupt => Some(interrupt(&self.team).await),
            Typed::Line(line) if board.asks() => match self.questions.typed(&line, board.seen()) {
                Ok(Some(chosen)) => self.answer(chosen).await,
                Ok(None) => None,
                Err(text) => {
                    board.put_back(&line);
                    Some(Remark::of_run(text))
                }
            },
            Typed::Line(line) => Some(send(&self.team, line).await),
            Typed::Turn(turn) => {
                self.questions.turn(turn, board.seen());
                None
            }
            Typed::Editing | Typed::Resized => None,
        };
        self.show(remark.as_slice())
    }

    /// Sends an answer to the host. If the host does not take it, the question is shown again until
    /// the host says that it is closed.
    async fn answer(&mut self, chosen: Chosen) -> Option<Remark> {
        let why = match client::answer(&self.team, &chosen).await {
            Ok(true) => return None,
            Ok(false) => "no process runs the team".to_owned(),
            Err(error) => Failure::from(error).chain(),
        };
        self.questions.put_back(chosen.question);
        Some(Remark::of_run(format!("not answered: {why}")))
    }
}

/// Interrupts the turn of the lead, and returns a remark that reports a failure or the request.
async fn interrupt(team: &Team) -> Remark {
    Remark::of_run(match client::interrupt(team, None).await {
        Ok(true) => format!("you interrupt {LEAD_NAME}"),
        Ok(false) => "not interrupted: no process runs the team".to_owned(),
        Err(error) => format!("not interrupted: {}", Failure::from(error).chain()),
    })
}

fn print(line: &JsonLine<'_>) -> Result<Option<Left>, Failure> {
    output::json_line(line)?;
    Ok(None)
}
