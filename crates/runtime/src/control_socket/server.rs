//! The lead's end of the control socket.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::job::started_by_a_tool;
use pitcrew_protocol::{ApiError, ErrorCode};
use rustix::fs::{AtFlags, FileType, Mode};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};

use super::request::ControlRequest;
use super::visitor::Caller;
use super::{LEAD_VERSION, NAME, PATIENCE, invalid, open_folder, place_in, read_line, write_line};

/// Maximum number of callers that have not sent their request yet. Other callers wait in the
/// kernel's queue. The number is small, because a person sends one request at a time. The host
/// limits the number of followers.
const CALLERS_MOST: usize = 8;

/// Pause after a failed `accept`, for example because no file descriptors are free.
const PAUSE: Duration = Duration::from_secs(1);

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
    pub(crate) caller: Caller,
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

/// Reads the request of one caller. Returns `None` if the caller is not permitted or its request is
/// invalid. In both cases this function has already sent the error to the caller.
async fn listen_to(mut caller: UnixStream) -> Option<Call> {
    let heard = async {
        check(&caller).await?;
        let line = read_line(&mut BufReader::new(&mut caller))
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
        Ok(control_request) => Some(Call { control_request, caller: Caller(caller) }),
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

/// Removes the socket file. If a file with this name is not a socket, the file stays.
fn take_away(folder: &OwnedFd) {
    let there = rustix::fs::statat(folder, NAME, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
        && let Err(error) = rustix::fs::unlinkat(folder, NAME, AtFlags::empty())
    {
        tracing::debug!(%error, "cannot remove the control socket");
    }
}
