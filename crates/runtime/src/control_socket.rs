//! The control socket of a lead's process. Other processes of the same user send requests to this
//! socket for actions that only the lead can sign.
//!
//! The socket is a unix socket in pitcrew's own folder for the team. Each connection carries one
//! request and one answer, each as one JSON line. This module uses the kernel's data about the
//! caller to decide who may send a request. The caller must run as the same user, and must not have
//! been started by a tool of an agent. The code of the team's run carries out the request.
//!
//! A process that a tool started can escape this check: it can start a new POSIX session and clear
//! its environment before it sends a request. The gate and the sandbox must prevent that.
//!
//! The socket works only on Linux, because other systems do not identify the caller well enough.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::job::started_by_a_tool;
use pitcrew_protocol::{ApiError, ErrorCode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::question::Digest;

/// The file name of the socket.
const NAME: &str = "door";

/// The name of the error detail that contains the lead's version. The lead adds this detail when it
/// does not know the request.
pub const LEAD_VERSION: &str = "lead_version";

/// Maximum length in bytes of a request or an answer, including the line break.
pub const LINE_MOST: u64 = 64 * 1024;

/// Maximum number of callers served at one time. Other callers wait in the kernel's queue. The
/// number is small, because a person sends one request at a time.
const CALLERS_MOST: usize = 8;

/// Time limit for a caller to send its request, and also for the lead to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for the answer to a spawn request. Before the answer, a new process must start in a
/// terminal pane and accept its prompt.
const SPAWN_PATIENCE: Duration = Duration::from_secs(180);

/// Pause after a failed `accept`, for example because no file descriptors are free.
const PAUSE: Duration = Duration::from_secs(1);

/// The field of the answer to [`ControlRequest::EndTeam`] that says why the run was already ending.
/// The field is null if the run was not ending yet.
pub const ENDING: &str = "ending";

/// A request to the lead.
///
/// The lead and the caller may have different versions, and a reader ignores unknown fields. A new
/// field is therefore only allowed to add details: an older lead must still be able to carry out
/// the request without the field. A field that limits the action (as `digest` does) needs a new
/// `op`. A lead refuses an `op` that it does not know, and its error names the lead's version
/// ([`LEAD_VERSION`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Ends the team: asks every member to shut down, then ends the run.
    EndTeam {
        /// Seconds that the caller waits for the team's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_seconds: Option<u32>,
    },
    /// Asks one member to shut down.
    Shutdown {
        /// The name of the member.
        member: String,
        /// The reason for the shutdown, shown to the member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Changes a member's permission mode.
    Mode {
        /// The name of the member.
        member: String,
        /// The name of the new permission mode.
        mode: String,
    },
    /// Answers a permission request.
    Permission {
        /// The id of the permission request.
        request: String,
        /// Whether the tool call is allowed.
        allow: bool,
        /// The reason for the refusal, if the tool call is not allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The digest of the tool and the input that the user saw ([`Digest::of_call`]). The lead
        /// refuses the answer if the digest does not match the permission request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    },
    /// Approves or rejects a teammate's plan.
    Plan {
        /// The id of the plan approval request.
        request: String,
        /// The member that submitted the plan.
        member: String,
        /// Whether the plan is approved.
        approve: bool,
        /// The changes that the plan needs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// Spawns a teammate. The answer comes when the teammate has started or its start has failed.
    Spawn {
        /// The input of the spawn, in the same form as the input of the lead's own spawn tool.
        input: Value,
    },
}

impl ControlRequest {
    /// Returns the time limit for the lead's answer.
    fn patience(&self) -> Duration {
        match self {
            Self::Spawn { .. } => SPAWN_PATIENCE,
            Self::EndTeam { .. }
            | Self::Shutdown { .. }
            | Self::Mode { .. }
            | Self::Permission { .. }
            | Self::Plan { .. } => PATIENCE,
        }
    }

    /// Returns the request without its optional fields. Some older leads refuse a request with
    /// fields that they do not know. Returns `None` if no optional field is set.
    fn plain(&self) -> Option<Self> {
        match self {
            Self::EndTeam { wait_seconds: Some(_) } => Some(Self::EndTeam { wait_seconds: None }),
            Self::EndTeam { wait_seconds: None }
            | Self::Shutdown { .. }
            | Self::Mode { .. }
            | Self::Permission { .. }
            | Self::Plan { .. }
            | Self::Spawn { .. } => None,
        }
    }
}

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
fn refusal(answer: Value) -> ApiError {
    let said = answer
        .get("message")
        .and_then(Value::as_str)
        .map_or_else(|| answer.to_string(), str::to_owned);
    serde_json::from_value(answer)
        .unwrap_or_else(|_unknown_code| ApiError::new(ErrorCode::InternalError, said))
}

/// The server of the control socket. Dropping it removes the socket file.
#[derive(Debug)]
pub(crate) struct ControlServer {
    folder: OwnedFd,
    /// The path of the team's folder at the time when the socket was opened.
    path: PathBuf,
    listener: UnixListener,
    callers: FuturesUnordered<BoxFuture<'static, Option<Call>>>,
}

/// An accepted request, and the connection that waits for its answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) control_request: ControlRequest,
    caller: UnixStream,
}

impl ControlServer {
    /// Opens the control socket of the team that has this folder. The caller must hold the lease of
    /// the team's run, so that no other process runs the team. An existing socket file was
    /// therefore left behind by a crash, and this function removes it.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.to_owned();
        let folder = open_folder(folder)?;
        // `bind` fails if a socket file from a crash still exists.
        take_away(&folder);
        let listener = UnixListener::bind(place_in(&folder))?;
        // Each caller is checked anyway. The file mode only keeps other users from filling the
        // queue of waiting connections.
        rustix::fs::chmodat(&folder, NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        Ok(Self { folder, path, listener, callers: FuturesUnordered::new() })
    }

    /// Returns true if other processes can still find the socket. Returns false if the socket or
    /// its folder was removed or replaced.
    pub(crate) fn is_in_place(&self) -> bool {
        let bound = rustix::fs::statat(&self.folder, NAME, AtFlags::SYMLINK_NOFOLLOW);
        let found = rustix::fs::lstat(self.path.join(NAME));
        // Compare the inodes, because another file may have taken the same path.
        matches!((bound, found), (Ok(bound), Ok(found)) if (bound.st_dev, bound.st_ino) == (found.st_dev, found.st_ino))
    }

    /// Waits for the next request from a permitted caller. This function itself sends a refusal to
    /// all other callers. It is cancel-safe: no request is lost.
    pub(crate) async fn next(&mut self) -> Call {
        loop {
            tokio::select! {
                // Stop accepting callers at the limit, so that they cannot use up all file
                // descriptors.
                accepted = self.listener.accept(), if self.callers.len() < CALLERS_MOST => match accepted {
                    Ok((caller, _)) => self.callers.push(Box::pin(listen_to(caller))),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection to the control socket");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(heard) = self.callers.next(), if !self.callers.is_empty() => {
                    if let Some(call) = heard {
                        return call;
                    }
                }
            }
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        take_away(&self.folder);
    }
}

impl Call {
    /// Sends the answer. Gives up after the time limit if the caller does not read the answer.
    pub(crate) async fn answer(mut self, answer: Result<Value, ApiError>) {
        let written = match &answer {
            Ok(value) => tokio::time::timeout(PATIENCE, write_line(&mut self.caller, value)).await,
            Err(error) => tokio::time::timeout(PATIENCE, write_line(&mut self.caller, error)).await,
        };
        if !matches!(written, Ok(Ok(()))) {
            tracing::debug!("the caller did not wait for the answer");
        }
    }
}

/// Reads the request of one caller. Returns `None` if the caller is not permitted or its request is
/// invalid. In both cases this function has already sent the error to the caller.
async fn listen_to(mut caller: UnixStream) -> Option<Call> {
    let heard = async {
        check(&caller).await?;
        let line = read_line(&mut caller)
            .await
            .map_err(|error| invalid(format!("the request cannot be read: {error}")))?;
        serde_json::from_slice(&line).map_err(|error| {
            // The request may come from a newer version, so the error names the version of this
            // lead.
            invalid(format!("this is not a valid request: {error}"))
                .with(LEAD_VERSION, env!("CARGO_PKG_VERSION"))
        })
    };
    let heard = tokio::time::timeout(PATIENCE, heard).await;
    match heard.unwrap_or_else(|_| Err(invalid("the request did not come in time".to_owned()))) {
        Ok(control_request) => Some(Call { control_request, caller }),
        Err(error) => {
            // Ignore the result, because the caller may already be gone.
            let _gone = tokio::time::timeout(PATIENCE, write_line(&mut caller, &error)).await;
            None
        }
    }
}

async fn check(caller: &UnixStream) -> Result<(), ApiError> {
    let denied = |message: String| ApiError::new(ErrorCode::PermissionDenied, message);
    let who = caller.peer_cred().map_err(|error| {
        denied(format!("the system does not tell which user sent the request: {error}"))
    })?;
    // Check the user too, because the file mode does not stop root. It also does not stop another
    // user who connected before the mode was set.
    if who.uid() != rustix::process::geteuid().as_raw() {
        return Err(denied("another user cannot send requests to the lead".to_owned()));
    }
    let Some(pid) = who.pid().and_then(|pid| u32::try_from(pid).ok()) else {
        return Err(denied("the system does not tell which process sent the request".to_owned()));
    };
    // The caller may have ended, and a new process may have the same process id now. Such a process
    // started later than the connection, so compare the start times.
    let came = ProcessIdentity::ticks_now();
    let look = move || {
        let process = ProcessIdentity::of(pid).filter(|process| process.start_ticks <= came);
        let process =
            process.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is gone"))?;
        let told = started_by_a_tool(pid)?;
        if process.is_alive() {
            Ok(told)
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "it is gone"))
        }
    };
    let looked = tokio::task::spawn_blocking(look).await;
    match looked.map_err(io::Error::other).and_then(|told| told) {
        Ok(false) => Ok(()),
        Ok(true) => Err(denied(format!(
            "process {pid} was started by a tool of an agent, and agents ask their lead by mail"
        ))),
        Err(error) => Err(denied(format!("cannot find out what started process {pid}: {error}"))),
    }
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

async fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads one line of limited length and returns it without its line break.
async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE_MOST)).read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        let said = format!("a line of at most {LINE_MOST} bytes was expected");
        return Err(io::Error::new(io::ErrorKind::InvalidData, said));
    }
    Ok(line)
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Returns a path to the socket that goes through the file descriptor of the open folder. The
/// folder's real path is often longer than the 108 bytes that a socket address allows.
fn place_in(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}

/// Removes the socket file. If a file with this name is not a socket, the file stays.
fn take_away(folder: &OwnedFd) {
    let there = rustix::fs::statat(folder, NAME, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
        && let Err(error) = rustix::fs::unlinkat(folder, NAME, AtFlags::empty())
    {
        tracing::debug!(%error, "cannot remove the control socket");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn raw(folder: &Path, bytes: &[u8]) -> Value {
        let mut stream = UnixStream::connect(folder.join(NAME)).await.unwrap();
        // The server may close the connection before everything is written.
        let _cut_off = stream.write_all(bytes).await;
        serde_json::from_slice(&read_line(&mut stream).await.unwrap()).unwrap()
    }

    async fn answering(mut control: ControlServer) {
        loop {
            let call = control.next().await;
            let answer = serde_json::json!({"success": true, "heard": call.control_request});
            call.answer(Ok(answer)).await;
        }
    }

    #[tokio::test]
    async fn what_is_no_request_is_refused_and_the_door_stays_open() {
        let folder = tempfile::tempdir().unwrap();
        let control = answering(ControlServer::open(folder.path()).unwrap());
        let long = vec![b' '; usize::try_from(LINE_MOST).unwrap()];
        let asking = async {
            for (bytes, says) in [
                (b"hello\n".as_slice(), "this is not a valid request"),
                (b"{\"op\":\"delete_everything\"}\n", "unknown variant `delete_everything`"),
                (b"{\"op\":\"mode\",\"member\":\"bob\"}\n", "missing field `mode`"),
                (b"\xff\xfe\n", "this is not a valid request"),
                (&long, "a line of at most 65536 bytes was expected"),
            ] {
                let answer = raw(folder.path(), bytes).await;
                assert_eq!(answer["error"], "invalid_request", "{answer}");
                assert!(answer["message"].as_str().unwrap().contains(says), "{answer}");
            }
            let newer =
                b"{\"op\":\"mode\",\"member\":\"bob\",\"mode\":\"plan\",\"of\":\"tomorrow\"}\n";
            assert_eq!(raw(folder.path(), newer).await["heard"]["mode"], "plan");
            let mode = ControlRequest::Mode { member: "bob".to_owned(), mode: "plan".to_owned() };
            let answer = control_request(folder.path(), &mode).await.unwrap();
            assert_eq!(
                answer["heard"],
                serde_json::json!({"op": "mode", "member": "bob", "mode": "plan"})
            );
        };
        tokio::select! {
            () = control => unreachable!(),
            () = asking => {}
        }
    }

    #[tokio::test]
    async fn a_lead_that_knows_no_optional_field_is_asked_again_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(NAME)).unwrap();
        let older_lead = async {
            let mut heard = Vec::new();
            for _ in 0..2 {
                let (mut caller, _) = listener.accept().await.unwrap();
                let asked: Value =
                    serde_json::from_slice(&read_line(&mut caller).await.unwrap()).unwrap();
                let answer = match asked.get("wait_seconds") {
                    Some(_) => serde_json::json!(invalid(
                        "this is not a valid request: unknown field".to_owned()
                    )),
                    None => serde_json::json!({"success": true}),
                };
                write_line(&mut caller, &answer).await.unwrap();
                heard.push(asked);
            }
            heard
        };
        let end = ControlRequest::EndTeam { wait_seconds: Some(60) };
        let (heard, answer) = tokio::join!(older_lead, control_request(folder.path(), &end));
        assert_eq!(answer.unwrap()["success"], true);
        assert_eq!(heard[1], serde_json::json!({"op": "end_team"}));
    }

    #[test]
    fn a_refusal_with_a_code_of_a_later_version_keeps_its_words() {
        let answer =
            serde_json::json!({"success": false, "error": "of_tomorrow", "message": "not today"});
        assert_eq!(refusal(answer), ApiError::new(ErrorCode::InternalError, "not today"));
    }

    #[tokio::test]
    async fn a_socket_that_a_crash_left_is_replaced_and_ours_goes_with_us() {
        let long = tempfile::tempdir().unwrap();
        let folder = long.path().join("a".repeat(120));
        std::fs::create_dir(&folder).unwrap();
        // Create the state after a crash: the socket file exists, but no process listens.
        drop(
            std::os::unix::net::UnixListener::bind(place_in(&open_folder(&folder).unwrap()))
                .unwrap(),
        );
        assert!(folder.join(NAME).exists());
        let control = ControlServer::open(&folder).unwrap();
        drop(control);
        assert!(!folder.join(NAME).exists());
        let ask = ControlRequest::Shutdown { member: "bob".to_owned(), reason: None };
        assert!(matches!(control_request(&folder, &ask).await, Err(KnockError::Closed { .. })));
        std::fs::write(folder.join(NAME), "a file of somebody's").unwrap();
        assert!(ControlServer::open(&folder).is_err());
        assert!(folder.join(NAME).exists(), "what is no socket is left alone");
    }
}
