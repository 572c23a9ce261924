//! The caller's end of the control socket.

use std::io;
use std::path::{Path, PathBuf};

use pitcrew_protocol::{ApiError, ErrorCode};
use serde_json::Value;
use tokio::net::UnixStream;

use super::request::ControlRequest;
use super::{NAME, open_folder, place_in, read_line, write_line};

/// Why a request to the lead failed.
#[derive(Debug, thiserror::Error)]
pub enum KnockError {
    /// No process listens at the socket.
    #[error("nobody opens {}", path.display())]
    Closed {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The lead refused the request.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The lead gave no answer, or an answer that cannot be parsed.
    #[error("the lead behind {} gave no answer", path.display())]
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
        // An older lead may refuse fields that it does not know, so try once more without the
        // optional fields.
        (Err(KnockError::Refused(error)), Some(plain))
            if error.code == ErrorCode::InvalidRequest =>
        {
            ask(folder, &plain).await
        }
        (answer, _) => answer,
    }
}

async fn ask(folder: &Path, control_request: &ControlRequest) -> Result<Value, KnockError> {
    let path = folder.join(NAME);
    let silent = |source| KnockError::Silent { path: path.clone(), source };
    let said = async {
        let folder = open_folder(folder)?;
        let mut stream = UnixStream::connect(place_in(&folder)).await?;
        // A lead that rejects the caller answers before it reads the request. An answer may
        // therefore arrive even if the write failed.
        let written = write_line(&mut stream, control_request).await;
        let read = read_line(&mut stream).await;
        read.map_err(|error| written.err().unwrap_or(error))
    };
    let line = match tokio::time::timeout(control_request.patience(), said).await {
        Ok(Ok(line)) => line,
        Ok(Err(error))
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Err(KnockError::Closed { path });
        }
        Ok(Err(error)) => return Err(silent(error)),
        Err(late) => return Err(silent(late.into())),
    };
    let answer: Value = serde_json::from_slice(&line).map_err(|error| silent(error.into()))?;
    if answer.get("success") == Some(&Value::Bool(false)) {
        return Err(KnockError::Refused(refusal(answer)));
    }
    Ok(answer)
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
