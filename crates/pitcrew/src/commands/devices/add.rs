//! `pitcrew devices add`: makes a one-time code that pairs a device.

use clap::ValueEnum;
use pitcrew_web::{Invitation, Scope};
use serde::Serialize;

use super::{failed, of_user};
use crate::commands::serve::PORT;
use crate::context::Context;
use crate::failure::Failure;

/// Make a one-time code that pairs a device with `pitcrew serve`
///
/// It prints a link for a browser and the code for a program, which sends it as
/// `POST /pair {"code": CODE}` and gets its token. The code works once, within 10 minutes, and ends
/// after five wrong codes. The server listens on this machine only: a browser elsewhere reaches it
/// through a forwarded port, such as that of `ssh -L`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew devices add --scope watch
  pitcrew devices add --name phone --scope answer
  pitcrew devices add --name ci --scope everything --json")]
pub(crate) struct Add {
    /// The name of the device: 1 to 32 letters, digits, '-' and '_' [default: device-N]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// What the device may do
    #[arg(long, value_enum, value_name = "SCOPE")]
    scope: GivenScope,

    /// The port of the server, for the link
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
}

/// The scope of a device, as it is given on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GivenScope {
    /// Read everything
    Watch,
    /// Also answer questions and plans, and write messages
    Answer,
    /// Do everything that you can do
    Everything,
}

#[derive(Debug, Serialize)]
struct Added {
    name: String,
    scope: Scope,
    code: String,
    link: String,
    ends_at_ms: i64,
}

impl Add {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let Self { name, scope, port } = self;
        let scope = match scope {
            GivenScope::Watch => Scope::Watch,
            GivenScope::Answer => Scope::Answer,
            GivenScope::Everything => Scope::Everything,
        };
        let devices = of_user(context)?;
        let made = context.briefly(async { devices.invite(name, scope).await.map_err(failed) })?;
        let Invitation { name, scope, code, ends_at_ms } = made;
        let link = format!("http://127.0.0.1:{port}/pair/{code}");
        let added = Added { name, scope, code, link, ends_at_ms };
        context.output.answer(&added, Added::text)
    }
}

impl Added {
    fn text(&self) -> String {
        let Self { name, scope, code, link, .. } = self;
        format!(
            "pair device {name} (scope {}), once and within 10 minutes, while `pitcrew serve` runs\n  \
             a browser opens   {link}\n  \
             a program sends   POST /pair {{\"code\": \"{code}\"}}",
            scope.as_str()
        )
    }
}
