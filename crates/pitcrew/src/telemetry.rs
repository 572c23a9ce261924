//! Sends the traces and metrics of a run to the collector that the user's environment names.
//!
//! The cargo feature `otlp` decides whether the binary can do that. Without it, this module does
//! nothing.

use std::sync::Arc;

use pitcrew_team::Team;
use pitcrew_view::host::HostEvent;

use crate::context::Context;

/// The telemetry of a run. It does nothing unless the environment names a collector.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otlp")]
    sender: Option<pitcrew_telemetry::Telemetry>,
}

#[cfg(feature = "otlp")]
impl Telemetry {
    /// Opens the telemetry of a run. A variable that cannot be used switches it off, with a
    /// warning. It never keeps a run from starting.
    pub(crate) fn of(context: &Context, team: &Team) -> Self {
        use crate::failure::chain;
        use crate::output::{remark, visible};

        let off = |error: String| {
            remark(&format!("warning: telemetry is off: {}", visible(&error)));
            None
        };
        let config = match pitcrew_telemetry::Config::of(&context.environment) {
            Ok(config) => config,
            Err(error) => return Self { sender: off(chain(&error)) },
        };
        let open = |config| pitcrew_telemetry::Telemetry::open(&config, team.clone());
        let sender = match config.map(open).transpose() {
            Ok(sender) => sender,
            Err(error) => off(chain(&error)),
        };
        Self { sender }
    }

    /// Takes an event of the host. It never waits.
    pub(crate) fn observe(&mut self, event: &Arc<HostEvent>) {
        if let Some(sender) = &mut self.sender {
            sender.observe(event);
        }
    }

    /// Sends what is left, for at most three seconds. Returns a text for each kind of loss.
    pub(crate) async fn finish(self) -> Vec<String> {
        match self.sender {
            Some(sender) => sender.finish().await.lines(),
            None => Vec::new(),
        }
    }
}

#[cfg(not(feature = "otlp"))]
impl Telemetry {
    /// Returns telemetry that does nothing.
    pub(crate) fn of(_context: &Context, _team: &Team) -> Self {
        Self::default()
    }

    /// Does nothing.
    pub(crate) fn observe(&mut self, _event: &Arc<HostEvent>) {}

    /// Does nothing.
    pub(crate) async fn finish(self) -> Vec<String> {
        Vec::new()
    }
}
