//! The door of a lead's process: where the user's other processes ask the lead for what only it can sign.
//!
//! A unix socket in the team's own folder; one request a connection, a JSON line each way. Who may ask is decided here,
//! by what the kernel says of the caller: the same user, and nothing that a tool of an agent started. What a request
//! does is the crew's. A tool's process that leaves its session and its environment behind before it asks is not found out;
//! the gate and the sandbox of the tools are what keeps it from trying. Linux only: elsewhere a caller cannot be told.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_protocol::{ApiError, ErrorCode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::identity::ProcessIdentity;
use crate::process::started_by_a_tool;
use crate::question::Digest;

/// The name of the socket.
const NAME: &str = "door";

/// The detail of a refusal that names the version of the lead that does not know such a request.
pub const LEAD_VERSION: &str = "lead_version";

/// The longest request or answer, its line break included.
pub const LINE_MOST: u64 = 64 * 1024;

/// Callers that are listened to at one time; others wait in the kernel's queue. A person asks one thing at a time.
const CALLERS_MOST: usize = 8;

/// How long a caller may take to say what it wants, and the lead to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same for a spawn: a process in a pane has to come up and take its prompt.
const SPAWN_PATIENCE: Duration = Duration::from_secs(180);

/// The pause after the system could not give us a caller, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// The field of the answer to [`ControlRequest::EndTeam`] that says why the run was ending already, in words; null when it was not.
pub const ENDING: &str = "ending";

/// What the lead can be asked for.
///
/// Lead and caller may be of two versions. A reader passes over fields that it does not know, so a new field may only say
/// more about a request that an older lead does in its own way. A field that limits what is done (as `digest` does) comes
/// with a new op: a lead refuses an op that it does not know, and names its version ([`LEAD_VERSION`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ControlRequest {
    /// To end the team: every member is asked to leave, and then the run ends.
    EndTeam {
        /// How long the caller waits for the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_seconds: Option<u32>,
    },
    /// To ask one member to shut down.
    Shutdown {
        /// The member.
        member: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// To change a member's permission mode.
    Mode {
        /// The member.
        member: String,
        /// The mode.
        mode: String,
    },
    /// To answer a permission request.
    Permission {
        /// The request.
        request: String,
        /// Whether the call may be made.
        allow: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The digest of the tool and the input that were shown ([`Digest::of_call`]); one that is not the request's is
        /// refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    },
    /// To answer the plan of a teammate.
    Plan {
        /// The request.
        request: String,
        /// Who handed it in.
        member: String,
        /// Whether it may be carried out.
        approve: bool,
        /// What is to change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// To spawn a teammate. The answer comes when it has been started, or that came to nothing.
    Spawn {
        /// The input of the lead's own tool for it.
        input: Value,
    },
}

impl ControlRequest {
    /// How long the lead may take with its answer.
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

    /// The same request without what a lead may pass over; `None` when there is nothing to leave out. Leads of
    /// before this rule refused fields that they did not know.
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

/// Why asking came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum KnockError {
    /// Nobody is behind the door.
    #[error("nobody opens {}", path.display())]
    Closed {
        /// The socket.
        path: PathBuf,
    },
    /// The lead said no.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// The lead did not answer, or not in words we know.
    #[error("the lead behind {} gave no answer", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Asks the lead whose team has this own folder.
///
/// # Errors
/// [`KnockError`]; what was refused has changed nothing.
pub async fn control_request(
    folder: &Path,
    control_request: &ControlRequest,
) -> Result<Value, KnockError> {
    match (ask(folder, control_request).await, control_request.plain()) {
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
        // Who is not let in is told so before its request is read.
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

/// A refusal; one with a code that a newer lead made up is kept with its words.
fn refusal(answer: Value) -> ApiError {
    let said = answer
        .get("message")
        .and_then(Value::as_str)
        .map_or_else(|| answer.to_string(), str::to_owned);
    serde_json::from_value(answer)
        .unwrap_or_else(|_unknown_code| ApiError::new(ErrorCode::InternalError, said))
}

/// The lead's side. Dropping it takes the socket away.
#[derive(Debug)]
pub(crate) struct ControlServer {
    folder: OwnedFd,
    /// Where the folder was when the door was opened.
    path: PathBuf,
    listener: UnixListener,
    callers: FuturesUnordered<BoxFuture<'static, Option<Call>>>,
}

/// A request that may be made, and who waits for its answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) control_request: ControlRequest,
    caller: UnixStream,
}

impl ControlServer {
    /// Opens the door of a team that has this own folder; the caller holds the lease of its run, so that a socket that
    /// stands there already is one that a crash left behind.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.to_owned();
        let folder = open_folder(folder)?;
        take_away(&folder);
        let listener = UnixListener::bind(place_in(&folder))?;
        // Who calls is looked at anyway; this keeps others from filling the queue.
        rustix::fs::chmodat(&folder, NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        Ok(Self { folder, path, listener, callers: FuturesUnordered::new() })
    }

    /// Whether others find the socket: it, or its folder, may have been removed or replaced.
    pub(crate) fn is_in_place(&self) -> bool {
        let bound = rustix::fs::statat(&self.folder, NAME, AtFlags::SYMLINK_NOFOLLOW);
        let found = rustix::fs::lstat(self.path.join(NAME));
        matches!((bound, found), (Ok(bound), Ok(found)) if (bound.st_dev, bound.st_ino) == (found.st_dev, found.st_ino))
    }

    /// Waits for the next request that may be made; all others are answered here. Nothing is lost by not waiting on.
    pub(crate) async fn next(&mut self) -> Call {
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if self.callers.len() < CALLERS_MOST => match accepted {
                    Ok((caller, _)) => self.callers.push(Box::pin(listen_to(caller))),
                    Err(error) => {
                        tracing::warn!(%error, "nobody can be let in");
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
    /// Answers, in the time that takes a caller who listens.
    pub(crate) async fn answer(mut self, answer: Result<Value, ApiError>) {
        let written = match &answer {
            Ok(value) => tokio::time::timeout(PATIENCE, write_line(&mut self.caller, value)).await,
            Err(error) => tokio::time::timeout(PATIENCE, write_line(&mut self.caller, error)).await,
        };
        if !matches!(written, Ok(Ok(()))) {
            tracing::debug!("who asked did not wait for the answer");
        }
    }
}

/// Hears what a caller wants; nothing when it may not ask, or says nothing that can be understood: then it was told.
async fn listen_to(mut caller: UnixStream) -> Option<Call> {
    let heard = async {
        check(&caller).await?;
        let line = read_line(&mut caller)
            .await
            .map_err(|error| invalid(format!("the request cannot be read: {error}")))?;
        serde_json::from_slice(&line).map_err(|error| {
            // The request may be of a later version: whoever asks learns which one this is.
            invalid(format!("this cannot be asked for: {error}"))
                .with(LEAD_VERSION, env!("CARGO_PKG_VERSION"))
        })
    };
    let heard = tokio::time::timeout(PATIENCE, heard).await;
    match heard.unwrap_or_else(|_| Err(invalid("the request did not come in time".to_owned()))) {
        Ok(control_request) => Some(Call { control_request, caller }),
        Err(error) => {
            // A caller that is gone already cannot be told.
            let _gone = tokio::time::timeout(PATIENCE, write_line(&mut caller, &error)).await;
            None
        }
    }
}

async fn check(caller: &UnixStream) -> Result<(), ApiError> {
    let denied = |message: String| ApiError::new(ErrorCode::PermissionDenied, message);
    let who = caller
        .peer_cred()
        .map_err(|error| denied(format!("the system does not say who asks: {error}")))?;
    if who.uid() != rustix::process::geteuid().as_raw() {
        return Err(denied("another user cannot ask the lead for anything".to_owned()));
    }
    let Some(pid) = who.pid().and_then(|pid| u32::try_from(pid).ok()) else {
        return Err(denied("the system does not say which process asks".to_owned()));
    };
    // The number of one that is gone may be another's by now, but not one's that started before the caller came.
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
        Err(error) => Err(denied(format!("it cannot be told what started process {pid}: {error}"))),
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

/// Reads one line of bounded length, without its end.
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

/// The socket by way of the open folder: a path of our own would often be longer than the 108 bytes that a socket's may be.
fn place_in(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}

/// Removes the socket; anything else of that name is not ours and stays.
fn take_away(folder: &OwnedFd) {
    let there = rustix::fs::statat(folder, NAME, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
        && let Err(error) = rustix::fs::unlinkat(folder, NAME, AtFlags::empty())
    {
        tracing::debug!(%error, "a socket stays behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn raw(folder: &Path, bytes: &[u8]) -> Value {
        let mut stream = UnixStream::connect(folder.join(NAME)).await.unwrap();
        // A door that has heard enough closes before everything is written.
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
                (b"hello\n".as_slice(), "this cannot be asked for"),
                (b"{\"op\":\"delete_everything\"}\n", "unknown variant `delete_everything`"),
                (b"{\"op\":\"mode\",\"member\":\"bob\"}\n", "missing field `mode`"),
                (b"\xff\xfe\n", "this cannot be asked for"),
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
                        "this cannot be asked for: unknown field".to_owned()
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
        // As a crash leaves it: the socket stands there, and nobody listens.
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
