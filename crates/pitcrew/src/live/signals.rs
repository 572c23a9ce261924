//! The signals that end a run: Ctrl-C, SIGTERM and the hangup of the terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::blocked;
use crate::failure::{Failure, FailureKind};

/// Receives the signals that end a run.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// The user pressed Ctrl-C.
    Interrupt,
    /// The process received SIGTERM, or its terminal is gone.
    Terminate,
}

impl Signals {
    /// Installs the signal handlers. Afterwards these signals do not end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        blocked::watch();
        let on = |kind| signal(kind).map_err(Failure::internal);
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. If two signals arrive at the same time, Ctrl-C has precedence.
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
    /// Returns the kind of failure of a command that this signal ended.
    pub(crate) fn failure(self) -> FailureKind {
        match self {
            Self::Interrupt => FailureKind::Interrupted,
            Self::Terminate => FailureKind::Terminated,
        }
    }
}
