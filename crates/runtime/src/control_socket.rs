//! The control socket of a lead's process. Other processes of the same user send requests to this
//! socket for actions that only the lead can sign.
//!
//! The socket is a unix socket in pitcrew's own folder for the team. Each connection carries one
//! request and one answer, each as one JSON line. Only [`ControlRequest::Follow`] keeps its
//! connection: more lines come after the answer. `docs/control-protocol.md` describes all lines.
//!
//! This module uses the kernel's data about the caller (`pitcrew_process::unix_socket`) to decide who may send a request. The caller
//! must run as the same user, and must not have been started by a tool of an agent. The code of the
//! team's run carries out the request, or the host of the run gets it as a [`Visitor`]. The host gets
//! its requests also while the run waits for a slow disk.
//!
//! A process that a tool started can escape this check: it can start a new POSIX session and clear
//! its environment before it sends a request. The gate and the sandbox must prevent that.
//!
//! The socket works only on Linux, because other systems do not identify the caller well enough.

mod client;
mod request;
mod server;
mod visitor;

use std::io;
use std::time::Duration;

use pitcrew_protocol::{ApiError, ErrorCode};
use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

pub use client::{KnockError, STREAM_LINE_MOST, Stream, control_request, follow};
pub use request::{ControlRequest, Notifies};
pub(crate) use server::{Call, ControlServer};
pub(crate) use visitor::VISITORS_WAITING;
pub use visitor::{Caller, Visitor};

/// The file name of the socket.
const NAME: &str = "door";

/// The name of the error detail that contains the lead's version. The lead adds this detail when it
/// does not know the request.
pub const LEAD_VERSION: &str = "lead_version";

/// The version of the event stream that this version of pitcrew sends and reads. It changes when an
/// older reader would understand a line of the stream wrongly. New events and new fields do not
/// change it.
pub const PROTOCOL: u64 = 1;

/// Maximum length in bytes of a request or an answer, including the line break.
pub const LINE_MOST: u64 = 64 * 1024;

/// Time limit for a caller to send its request, and also for the lead to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The field of the answer to [`ControlRequest::EndTeam`] and [`ControlRequest::StopRun`] that says why the run was already ending.
/// The field is null if the run was not ending yet.
pub const ENDING: &str = "ending";

/// The field of the answer to [`ControlRequest::EndTeam`] that says when the teammates that have not
/// left are ended, in milliseconds since 1970. It is absent if the run was already ending.
pub const ENDED_BY: &str = "ended_by_ms";

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

async fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads one line of limited length and returns it without its line break.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(LINE_MOST).read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        let said = format!("a line of at most {LINE_MOST} bytes was expected");
        return Err(io::Error::new(io::ErrorKind::InvalidData, said));
    }
    Ok(line)
}

#[cfg(test)]
mod tests;
