//! The one loop of a run's face: events, signals and questions meet here.

use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{RunHandle, RunOutcome};

use super::asking::{Heard, Questions};
use super::board::Board;
use super::log;
use super::signals::{EndSignal, Signals};
use super::stream::Stream;
use super::tally::Tally;
use super::view::{Remark, View};
use crate::failure::Failure;
use crate::output;

/// How a run is shown while it goes on.
#[derive(Debug)]
pub(crate) enum Face {
    /// A line an agent, on a terminal.
    Board(Board),
    /// Plain lines on stderr.
    Log,
    /// JSON lines on stdout.
    Stream(Stream),
}

/// How a run that was watched ended.
#[derive(Debug)]
pub(crate) struct Watched {
    /// What the run says.
    pub(crate) outcome: RunOutcome,
    /// The signal that ended it.
    pub(crate) signal: Option<EndSignal>,
    /// What it took.
    pub(crate) tally: Tally,
}

/// All that can wake the loop.
enum Wake {
    Event(Box<RunEvent>),
    Over,
    Signal(EndSignal),
    Heard(Heard),
}

/// Shows a run until it ends. The first signal stops everyone where they are, the second kills what we own.
///
/// # Errors
/// When an event cannot be written.
pub(crate) async fn watch(
    mut handle: RunHandle,
    mut face: Face,
    mut signals: Signals,
    mut questions: Option<Questions>,
) -> Result<Watched, Failure> {
    let stopper = handle.stopper();
    let mut view = View::default();
    let mut tally = Tally::new();
    let mut signal = None;
    loop {
        let wake = tokio::select! {
            event = handle.events.recv() => event.map_or(Wake::Over, |event| Wake::Event(Box::new(event))),
            signal = signals.next() => Wake::Signal(signal),
            heard = heard(questions.as_mut()) => Wake::Heard(heard),
        };
        match wake {
            Wake::Event(event) => {
                tally.add(&event);
                face.show(&mut view, &event)?;
            }
            Wake::Signal(first) if signal.is_none() => {
                signal = Some(first);
                face.remark(&view, "stopping; once more kills what still runs");
                stopper.stop();
            }
            Wake::Signal(_) => stopper.kill(),
            Wake::Heard(heard) => {
                if let Some(question) = questions.as_mut().and_then(|questions| questions.take(heard)) {
                    face.ask(&question);
                }
            }
            Wake::Over => break,
        }
    }
    face.clear();
    Ok(Watched { outcome: handle.outcome().await, signal, tally })
}

async fn heard(questions: Option<&mut Questions>) -> Heard {
    match questions {
        Some(questions) => questions.next().await,
        None => std::future::pending().await,
    }
}

impl Face {
    fn show(&mut self, view: &mut View, event: &RunEvent) -> Result<(), Failure> {
        let remarks = view.apply(event);
        match self {
            Self::Board(board) => board.show(view, &remarks),
            Self::Log => remarks.iter().for_each(log::write),
            Self::Stream(stream) => stream.write(event)?,
        }
        Ok(())
    }

    fn remark(&mut self, view: &View, text: &str) {
        let remark = Remark { agent: None, text: text.to_owned() };
        match self {
            Self::Board(board) => board.show(view, &[remark]),
            Self::Log | Self::Stream(_) => log::write(&remark),
        }
    }

    fn ask(&self, question: &str) {
        match self {
            Self::Board(board) => board.aside(|| output::remark(question)),
            Self::Log | Self::Stream(_) => output::remark(question),
        }
    }

    fn clear(&self) {
        match self {
            Self::Board(board) => board.clear(),
            Self::Log | Self::Stream(_) => {}
        }
    }
}
