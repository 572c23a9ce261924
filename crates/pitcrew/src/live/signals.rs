//! The signals that end a run: Ctrl-C, SIGTERM and the hangup of the terminal.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::blocked;
use crate::failure::{Failure, FailureKind};

/// Receives the signals that end a run.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// A signal that arrived while something else was awaited.
    early: Option<EndSignal>,
}

/// Longest time that work goes on after a signal, for example the start of a run. It is much longer
/// than work takes that waits for nobody.
const GRACE: Duration = Duration::from_secs(1);

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
            early: None,
        })
    }

    /// Awaits `work`, such as the start of a run. If a signal arrives, the work has a moment to end.
    /// Then the next call of [`Signals::next`] returns the signal. Otherwise the work is given up: it
    /// waits for a lock or a slow disk.
    ///
    /// # Errors
    /// Returns the errors of `work`. Also returns an error if the work is given up.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = std::pin::pin!(work);
        let signal = tokio::select! {
            done = &mut work => return done,
            signal = self.next() => signal,
        };
        match tokio::time::timeout(GRACE, work).await {
            Ok(done) => {
                self.early = Some(signal);
                done
            }
            Err(_elapsed) => {
                Err(Failure::new(signal.failure(), "stopped before the run had started"))
            }
        }
    }

    /// Waits for the next signal. If two signals arrive at the same time, Ctrl-C has precedence.
    pub(crate) async fn next(&mut self) -> EndSignal {
        if let Some(early) = self.early.take() {
            return early;
        }
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
