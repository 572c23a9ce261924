//! `pitcrew devices`: lists, pairs and removes the devices that may call `pitcrew serve`.

mod add;
mod remove;

use std::sync::Arc;

use pitcrew_process::job::TAG_VARIABLE;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_team::SystemClock;
use pitcrew_team::store::FileBackend;
use pitcrew_web::{Device, DeviceError, Scope, WaitingCode};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::{output, when};

/// List, pair and remove the devices and programs that may call `pitcrew serve`
///
/// Each device has a token of its own with a scope: watch reads everything, answer also answers
/// questions and plans and writes messages, everything does what you can do. Only hashes of the
/// tokens are stored. A removed device is refused at its next request, and its open event streams
/// end within seconds. Without a subcommand the devices are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew devices
  pitcrew devices add --name phone --scope answer
  pitcrew devices remove phone")]
pub(crate) struct Devices {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Add(add::Add),
    Remove(remove::Remove),
}

#[derive(Debug, Serialize)]
struct Listed {
    devices: Vec<Row>,
    /// The codes that wait for their devices.
    codes: Vec<CodeRow>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    scope: Scope,
    paired_at_ms: i64,
}

#[derive(Debug, Serialize)]
struct CodeRow {
    name: String,
    scope: Scope,
    ends_at_ms: i64,
}

impl Devices {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self.action {
            None => list(context),
            Some(Action::Add(command)) => command.run(context),
            Some(Action::Remove(command)) => command.run(context),
        }
    }
}

fn list(context: &Context) -> Result<(), Failure> {
    let devices = of_user(context)?;
    let (paired, waiting) = context.briefly(async {
        let waiting = devices.waiting().await.map_err(failed)?;
        Ok::<_, Failure>((devices.list().await.map_err(failed)?, waiting))
    })?;
    let row = |Device { name, scope, paired_at_ms, .. }: Device| Row { name, scope, paired_at_ms };
    let code =
        |WaitingCode { name, scope, ends_at_ms }: WaitingCode| CodeRow { name, scope, ends_at_ms };
    let devices = paired.into_iter().map(row).collect();
    let listed = Listed { devices, codes: waiting.into_iter().map(code).collect() };
    context.output.answer(&listed, table)
}

fn table(Listed { devices, codes }: &Listed) -> String {
    if devices.is_empty() && codes.is_empty() {
        return "no device is paired; `pitcrew devices add` pairs one".to_owned();
    }
    let device = |row: &Row| {
        let at = when::day(row.paired_at_ms).unwrap_or_default();
        [row.name.clone(), row.scope.as_str().to_owned(), at]
    };
    let code = |row: &CodeRow| {
        let until = when::time_of_day(row.ends_at_ms).unwrap_or_default();
        let waits = format!("its code waits until {until} UTC");
        [row.name.clone(), row.scope.as_str().to_owned(), waits]
    };
    let rows: Vec<_> = devices.iter().map(device).chain(codes.iter().map(code)).collect();
    output::table(["NAME", "SCOPE", "PAIRED"], &rows)
}

/// Returns the devices below the root. Refuses a process that a tool of an agent started, because
/// it may not act as the user.
fn of_user(context: &Context) -> Result<pitcrew_web::Devices, Failure> {
    files_of_user(context).map(of_files)
}

/// Returns the files below the root, for what only the user may do.
fn files_of_user(context: &Context) -> Result<FileBackend, Failure> {
    if context.environment.contains_key(TAG_VARIABLE) {
        let said = "a tool of an agent started this, and only the user may manage devices";
        return Err(ApiError::new(ErrorCode::PermissionDenied, said).into());
    }
    context.files(&context.usable_settings())
}

fn of_files(files: FileBackend) -> pitcrew_web::Devices {
    pitcrew_web::Devices::new(files, Arc::new(SystemClock))
}

fn failed(error: DeviceError) -> Failure {
    let hint = match &error {
        DeviceError::Unknown { names, .. } if names.is_empty() => {
            Some("no device is paired".to_owned())
        }
        DeviceError::Unknown { names, .. } => {
            Some(format!("the devices are: {}", names.join(", ")))
        }
        DeviceError::Unreadable { .. } => {
            Some("remove the file, then pair your devices again".to_owned())
        }
        DeviceError::Store(_)
        | DeviceError::Name
        | DeviceError::Taken { .. }
        | DeviceError::TooMany { .. } => None,
    };
    let kind = match &error {
        DeviceError::Store(_) | DeviceError::Unreadable { .. } => FailureKind::Internal,
        DeviceError::Name => FailureKind::Usage,
        DeviceError::Taken { .. } => FailureKind::Conflict,
        DeviceError::Unknown { .. } => FailureKind::NotFound,
        DeviceError::TooMany { .. } => FailureKind::RateLimit,
    };
    let failure = Failure::new(kind, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
