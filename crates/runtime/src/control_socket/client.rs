//! The caller's end of the control socket.

use std::io;
use std::path::{Path, PathBuf};

use pitcrew_process::unix_socket::{open_folder, place_in};
use pitcrew_protocol::{ApiError, ErrorCode};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;

use super::request::{ControlRequest, Notifies};
use super::{NAME, read_line, write_line};

/// Maximum length in bytes of a line of the event stream, including the line break. A snapshot of a
/// large team is the longest line.
pub const STREAM_LINE_MOST: u64 = 64 * 1024 * 1024;

/// Why a request to the lead failed.
#[derive(Debug, thiserror::Error)]
pub enum KnockError {
    /// No process listens at the socket.
    #[error("no run of this team listens at {}", path.display())]
    Closed {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The lead refused the request.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The lead gave no answer, or an answer that cannot be parsed.
    #[error("the run that listens at {} gave no answer", path.display())]
    Silent {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the connection or of the parser.
        #[source]
        source: io::Error,
    },
}

/// Sends a request to the lead of the team that has this folder.
///
/// # Errors
/// If no lead listens, if the lead refuses the request, or if the lead gives no valid answer. A
/// refused request has changed nothing.
pub async fn control_request(
    folder: &Path,
    control_request: &ControlRequest,
) -> Result<Value, KnockError> {
    match (ask(folder, control_request).await, control_request.plain()) {
        // Some older leads refuse a request with fields that they do not know, so try once more
        // without the optional fields.
        (Err(KnockError::Refused(error)), Some(plain))
            if error.code == ErrorCode::InvalidRequest =>
        {
            ask(folder, &plain).await
        }
        (answer, _) => answer,
    }
}

async fn ask(folder: &Path, control_request: &ControlRequest) -> Result<Value, KnockError> {
    Ok(connect(folder, control_request).await?.0)
}

/// Follows the run of the team that has this folder. Returns the first answer of the lead, and the
/// connection on which the lines of the event stream follow.
///
/// # Errors
/// If no lead listens, if the lead refuses the request, or if the lead gives no valid answer.
pub async fn follow(
    folder: &Path,
    since: Option<u64>,
    run: Option<String>,
    notifies: Notifies,
) -> Result<(Value, Stream), KnockError> {
    let request = ControlRequest::Follow { since, run, notifies };
    let (answer, lines) = connect(folder, &request).await?;
    Ok((answer, Stream { lines, line: Vec::new() }))
}

/// Sends a request, and returns the answer and the connection.
async fn connect(
    folder: &Path,
    control_request: &ControlRequest,
) -> Result<(Value, BufReader<UnixStream>), KnockError> {
    let path = folder.join(NAME);
    let silent = |source| KnockError::Silent { path: path.clone(), source };
    let said = async {
        let folder = open_folder(folder)?;
        let mut stream = UnixStream::connect(place_in(&folder, NAME)).await?;
        // A lead that rejects the caller answers before it reads the request. An answer may
        // therefore arrive even if the write failed.
        let written = write_line(&mut stream, control_request).await;
        let mut lines = BufReader::new(stream);
        let read = read_line(&mut lines).await;
        Ok((read.map_err(|error| written.err().unwrap_or(error))?, lines))
    };
    let (line, lines) = match tokio::time::timeout(control_request.patience(), said).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) if is_nobody_there(&error) => return Err(KnockError::Closed { path }),
        Ok(Err(error)) => return Err(silent(error)),
        Err(late) => return Err(silent(late.into())),
    };
    let answer: Value = serde_json::from_slice(&line).map_err(|error| silent(error.into()))?;
    if answer.get("success") == Some(&Value::Bool(false)) {
        return Err(KnockError::Refused(refusal(answer)));
    }
    Ok((answer, lines))
}

/// Whether the error of a connection means that no process listens at the socket.
fn is_nobody_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The lines of an event stream.
#[derive(Debug)]
pub struct Stream {
    lines: BufReader<UnixStream>,
    /// The part of the current line that has been read.
    line: Vec<u8>,
}

impl Stream {
    /// Waits for the next line and returns it without its line break. Returns `None` when the lead
    /// has closed the connection. A line that the lead did not finish is left out. This function is
    /// cancel-safe.
    ///
    /// # Errors
    /// If the connection breaks, or if the line is longer than [`STREAM_LINE_MOST`].
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let room = STREAM_LINE_MOST.saturating_sub(self.line.len() as u64);
        (&mut self.lines).take(room).read_until(b'\n', &mut self.line).await?;
        match self.line.pop() {
            Some(b'\n') => Ok(Some(std::mem::take(&mut self.line))),
            Some(_) if self.line.len() as u64 + 1 >= STREAM_LINE_MOST => {
                let said = format!("a line of at most {STREAM_LINE_MOST} bytes was expected");
                Err(io::Error::new(io::ErrorKind::InvalidData, said))
            }
            Some(_) | None => Ok(None),
        }
    }
}

/// Parses a refusal. A newer lead may send an error code that this version does not know. Even
/// then, the error keeps the lead's message.
pub(super) fn refusal(answer: Value) -> ApiError {
    let said = answer
        .get("message")
        .and_then(Value::as_str)
        .map_or_else(|| answer.to_string(), str::to_owned);
    serde_json::from_value(answer)
        .unwrap_or_else(|_unknown_code| ApiError::new(ErrorCode::InternalError, said))
}
