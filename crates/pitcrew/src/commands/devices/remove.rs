//! `pitcrew devices remove`: removes a device.

use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use super::{failed, of_user};
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::visible;

/// Remove a device, or the code that waits for it
///
/// A running server refuses the device at its next request, and ends its open event streams within
/// seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pitcrew devices remove phone")]
pub(crate) struct Remove {
    /// The name of the device
    #[arg(add = ArgValueCompleter::new(completing::devices))]
    name: String,
}

#[derive(Debug, Serialize)]
struct Removed {
    name: String,
}

impl Remove {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let devices = of_user(context)?;
        context.briefly(async { devices.remove(&self.name).await.map_err(failed) })?;
        let removed = Removed { name: self.name };
        context.output.answer(&removed, |it| format!("removed device {}", visible(&it.name)))
    }
}
