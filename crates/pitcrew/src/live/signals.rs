//! Ctrl-C, SIGTERM and the end of the terminal, as a run hears them.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, FailureKind};

/// Hears the signals that end a run.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, or the terminal is gone.
    Terminate,
}

impl Signals {
    /// Takes the signals over; from here on they do not end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(Failure::internal);
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// The next one; of two at once Ctrl-C.
    pub(crate) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
            _ = self.hang_up.recv() => EndSignal::Terminate,
        }
    }
}

impl EndSignal {
    /// How a command that was ended by it failed.
    pub(crate) fn failure(self) -> FailureKind {
        match self {
            Self::Interrupt => FailureKind::Interrupted,
            Self::Terminate => FailureKind::Terminated,
        }
    }
}
