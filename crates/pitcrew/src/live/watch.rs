//! The event loop of a run's display. It handles events, signals, keys and questions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::Event as Key;
use pitcrew_protocol::{LEAD_NAME, SendMessageInput};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Ask, RunEnd, RunHandle, RunOutcome};
use pitcrew_team::{Actor, Team};
use pitcrew_tui::Keys;
use pitcrew_view::TeamState;
use pitcrew_view::asking::{Chosen, Questions};
use pitcrew_view::host::{Host, HostEvent, OpenQuestion, What};
use pitcrew_view::remark::{Remark, follow};
use pitcrew_view::stream::Stream;
use tokio::sync::mpsc;

use super::agent_screen::Typed;
use super::board::Board;
use super::log;
use super::signals::{EndSignal, Signals};
use super::stream;
use super::warnings::Remarks;
use crate::detached::host_process::HostFace;
use crate::failure::Failure;
use crate::notifier::Notifier;
use crate::output;
use crate::telemetry::Telemetry;

/// The kind of display of a run.
#[derive(Debug)]
pub(crate) enum Face {
    /// A terminal that shows one line per agent.
    Terminal,
    /// Plain lines on stderr.
    Log,
    /// Plain lines in the log of a detached run.
    Host(HostFace),
    /// JSON lines on stdout.
    Stream(Stream),
}

/// The result of a run that was displayed until it ended.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The outcome that the run reported.
    pub(crate) outcome: RunOutcome,
    /// The signal that ended the run, if a signal ended it.
    pub(crate) signal: Option<EndSignal>,
    /// The state of the team, built from the events of the run.
    pub(crate) state: TeamState,
    /// How long the run was displayed.
    pub(crate) watched: Duration,
    /// The reason why the display could no longer write events to its stream, or `None` if it wrote
    /// all events. After such an error, the run was stopped.
    pub(crate) unwritten: Option<Failure>,
}

/// An input for which the event loop waits.
enum Wake {
    Event(Arc<HostEvent>),
    Over,
    Signal(EndSignal),
    Key(Key),
    Remark(String),
    /// A program that notifies the user failed, for this reason.
    NotNotified(String),
    /// The starter of a detached run must learn that the team runs.
    AnnouncementDue,
}

/// The state of the event loop: what the display shows, the open questions, and how the run ended.
struct Watching {
    face: Face,
    /// The display on a terminal. `None` if the run is displayed in another way.
    board: Option<Board>,
    state: TeamState,
    /// The team of the run. Its lead receives the messages that the user types.
    team: Team,
    questions: Questions,
    signal: Option<EndSignal>,
    /// The reason why the display can no longer write events. `None` if no error has occurred.
    failure: Option<Failure>,
}

/// Displays a run until the run ends, and is the host of the run for the user's other processes.
/// `asked` receives the permission requests of the run, if a person is asked. `notifier` notifies
/// the user, and `telemetry` records the events. The first signal stops all agents immediately, and the second kills the processes that
/// pitcrew started. If the terminal is gone, that counts as the first signal. On a terminal, a line
/// that the user types answers the shown question. If no question is shown, the line is a message
/// to the lead.
///
/// # Errors
/// Returns an error if the terminal cannot be switched to single-key input.
pub(crate) async fn watch(
    handle: RunHandle,
    team: Team,
    face: Face,
    mut signals: Signals,
    asked: Option<mpsc::Receiver<Ask>>,
    (mut notifier, mut telemetry): (Notifier, Telemetry),
) -> Result<Watched, Failure> {
    let began = Instant::now();
    let mut host = Host::open(handle, team.clone(), asked);
    let board = match face {
        Face::Terminal => Some(Board::open().map_err(Failure::internal)?),
        Face::Log | Face::Host(_) | Face::Stream(_) => None,
    };
    let mut keys = match board.as_ref().filter(|board| board.has_keys()) {
        Some(_) => Some(Keys::open().map_err(Failure::internal)?),
        None => None,
    };
    let mut remarks = board.as_ref().map(|_| Remarks::open());
    let mut watching = Watching {
        face,
        board,
        state: TeamState::default(),
        team,
        questions: Questions::default(),
        signal: None,
        failure: None,
    };
    loop {
        let wake = tokio::select! {
            event = host.next() => event.map_or(Wake::Over, Wake::Event),
            signal = signals.next() => Wake::Signal(signal),
            remark = remark(remarks.as_mut()) => Wake::Remark(remark),
            reason = notifier.failure() => Wake::NotNotified(reason),
            key = pressed(keys.as_mut()) => Wake::Key(key),
            () = announcement_due(&watching.face) => Wake::AnnouncementDue,
        };
        let shown = match wake {
            Wake::Event(event) => {
                telemetry.observe(&event);
                match &event.what {
                    What::Notify(notification) => watching.notify(notifier.notify(notification)),
                    what => watching.happened(what),
                }
            }
            Wake::Signal(signal) => watching.end(&host, signal),
            Wake::Remark(text) => watching.show(&[Remark { agent: None, text }]),
            Wake::NotNotified(reason) => watching.remark(Remark::of_run(reason)),
            Wake::Key(key) => watching.pressed(&host, key).await,
            Wake::AnnouncementDue => watching.announce(),
            Wake::Over => break,
        };
        if let Err(failure) = shown {
            watching.give_up(&host, failure);
        }
    }
    let Watching { board, state, signal, failure, .. } = watching;
    // The terminal is restored first. Then the remaining remarks are printed directly.
    drop(board);
    remarks.map(Remarks::left).into_iter().flatten().for_each(|remark| output::remark(&remark));
    let outcome = host.outcome().await;
    telemetry.finish().await.iter().for_each(|lost| output::remark(lost));
    notifier.finish().await.iter().for_each(|reason| output::remark(reason));
    Ok(Watched { outcome, signal, state, watched: began.elapsed(), unwritten: failure })
}

/// Waits for the next remark. Without a display that takes remarks, this function waits forever.
pub(super) async fn remark(remarks: Option<&mut Remarks>) -> String {
    match remarks {
        Some(remarks) => remarks.next().await,
        None => std::future::pending().await,
    }
}

async fn announcement_due(face: &Face) {
    match face {
        Face::Host(host) => host.is_due().await,
        Face::Terminal | Face::Log | Face::Stream(_) => std::future::pending().await,
    }
}

/// Waits for the next key. If the terminal is gone, this function waits forever.
pub(super) async fn pressed(keys: Option<&mut Keys>) -> Key {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

impl Watching {
    fn happened(&mut self, what: &What) -> Result<(), Failure> {
        match what {
            What::Run(event) => return self.happened_in_run(event),
            What::QuestionOpened(question) => self.questions.opened(OpenQuestion::clone(question)),
            What::QuestionClosed { id, .. } => self.questions.closed(id),
            // A run can be complete before an agent has done anything. Its starter then learns that it
            // ran. Any other end is an error of the start.
            What::Ended(outcome) if matches!(outcome.end, RunEnd::Success { .. }) => {
                return self.announce();
            }
            // The display shows what the run reports. The outcome is shown after the display.
            What::Tasks(_) | What::Config(_) | What::Notify(_) | What::Ended(_) => return Ok(()),
        }
        self.show(&[])
    }

    /// Sends the signals of a notification to the terminal, or says why programs are left out.
    fn notify(&mut self, notified: Result<String, String>) -> Result<(), Failure> {
        match (notified, &self.board) {
            (Ok(characters), Some(board)) => board.signal(&characters).map_err(Failure::internal),
            (Ok(_), None) => Ok(()),
            (Err(reason), _) => self.remark(Remark::of_run(format!("not notified: {reason}"))),
        }
    }

    /// Shows a remark about the run in every kind of display.
    fn remark(&mut self, remark: Remark) -> Result<(), Failure> {
        if self.board.is_none() {
            log::write(&remark);
        }
        self.show(&[remark])
    }

    fn happened_in_run(&mut self, event: &RunEvent) -> Result<(), Failure> {
        let remarks = follow(&mut self.state, event);
        match &mut self.face {
            Face::Terminal => self.show(&remarks),
            Face::Log => {
                remarks.iter().for_each(log::write);
                Ok(())
            }
            Face::Host(host) => {
                remarks.iter().for_each(log::write);
                host.happened(event)
            }
            Face::Stream(lines) => stream::write(lines, &self.state, event),
        }
    }

    fn announce(&mut self) -> Result<(), Failure> {
        match &mut self.face {
            Face::Host(host) => host.announce(),
            Face::Terminal | Face::Log | Face::Stream(_) => Ok(()),
        }
    }

    /// Draws new remarks and the current state on the terminal.
    fn show(&mut self, remarks: &[Remark]) -> Result<(), Failure> {
        let Some(board) = &mut self.board else { return Ok(()) };
        board.ask(self.questions.current());
        board.show(&self.state, remarks).map_err(Failure::internal)?;
        self.questions.show(board.part());
        Ok(())
    }

    /// Stops a run that can no longer be displayed, so that no process of the run is left behind.
    fn give_up(&mut self, host: &Host, failure: Failure) {
        match std::mem::replace(&mut self.face, Face::Log) {
            // The display failed because the terminal is gone. This has the same effect as SIGTERM.
            // If another signal has already been stored in `self.signal`, it stays unchanged.
            Face::Terminal => {
                self.signal.get_or_insert(EndSignal::Terminate);
            }
            Face::Log | Face::Host(_) | Face::Stream(_) => self.failure = Some(failure),
        }
        self.board = None;
        host.stopper().stop();
    }

    fn end(&mut self, host: &Host, signal: EndSignal) -> Result<(), Failure> {
        if self.signal.is_some() {
            host.stopper().kill();
            return Ok(());
        }
        self.signal = Some(signal);
        host.stopper().stop();
        let text = "stopping; press Ctrl-C again to kill the processes that still run";
        self.remark(Remark::of_run(text))
    }

    async fn pressed(&mut self, host: &Host, key: Key) -> Result<(), Failure> {
        let Some(board) = &mut self.board else { return Ok(()) };
        let mut said = None;
        match board.pressed(key) {
            Typed::End => return self.end(host, EndSignal::Interrupt),
            Typed::Suspend => board.suspend().map_err(Failure::internal)?,
            Typed::Line(line) if board.asks() => match self.questions.typed(&line, board.seen()) {
                Ok(chosen) => said = answer(host, chosen).await,
                Err(text) => {
                    board.put_back(&line);
                    said = Some(Remark { agent: None, text });
                }
            },
            Typed::Line(line) => said = Some(send(&self.team, line).await),
            Typed::Turn(turn) => self.questions.turn(turn, board.seen()),
            Typed::Editing | Typed::Resized | Typed::Interrupt => {}
        }
        self.show(said.as_slice())
    }
}

/// Sends the user's answer to the host. Returns a remark if the host does not take it, for example
/// because somebody else answered first.
async fn answer(host: &Host, chosen: Option<Chosen>) -> Option<Remark> {
    let error = host.answer(&chosen?).await.err()?;
    Some(Remark { agent: None, text: format!("not answered: {error}") })
}

/// Sends the user's line to the lead, and returns a remark that reports the result.
pub(super) async fn send(team: &Team, content: String) -> Remark {
    let recipient = LEAD_NAME.to_owned();
    let message = SendMessageInput::Message { recipient, content: content.clone(), summary: None };
    let text = match team.send(&Actor::User, message, None).await {
        Ok(_receipt) => format!("you to {LEAD_NAME}: {content}"),
        Err(error) => format!("not sent ({error}): {content}"),
    };
    Remark { agent: None, text }
}
