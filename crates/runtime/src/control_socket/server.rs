//! The lead's end of the control socket.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_process::unix_socket::{
    PeerError, open_folder, peer_that_no_tool_started, place_in, remove_from,
};
use pitcrew_protocol::{ApiError, ErrorCode, chain};
use rustix::fs::{AtFlags, Mode};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::request::ControlRequest;
use super::visitor::{Addressed, Caller, Visitor};
use super::{LEAD_VERSION, NAME, PATIENCE, invalid, read_line, write_line};

/// Maximum number of callers that have not sent their request yet. With one more, the process with
/// the most such connections loses its oldest one. Silent callers thus delay nobody. The host limits
/// the number of followers.
const CALLERS_MOST: usize = 64;

/// Pause after a failed `accept`, for example because no file descriptors are free.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of requests that wait for the run. It takes them one after the other, so more of
/// them wait only for a run that hangs.
const CALLS_WAITING: usize = 16;

/// The server of the control socket. Dropping it removes the socket file.
#[derive(Debug)]
pub(crate) struct ControlServer {
    folder: OwnedFd,
    /// The path of the team's folder at the time when the socket was opened.
    path: PathBuf,
    /// The requests for the run.
    calls: mpsc::Receiver<Call>,
    /// Listens to callers also while the run waits for a slow disk. It ends when it is dropped.
    _listening: AbortOnDropHandle<()>,
}

/// Accepts callers, and passes on their requests.
#[derive(Debug)]
struct Listener {
    listener: UnixListener,
    /// Takes the requests for the run.
    calls: mpsc::Sender<Call>,
    /// Takes the requests for the host of the run.
    host: mpsc::Sender<Visitor>,
    callers: FuturesUnordered<BoxFuture<'static, Heard>>,
    /// The callers that have not sent their request yet, in the order in which they came.
    silent: VecDeque<Silent>,
    /// The number of callers so far.
    count: u64,
}

/// A caller that has not sent its request yet.
#[derive(Debug)]
struct Silent {
    number: u64,
    /// The id of the caller's process, if the system tells it.
    pid: Option<i32>,
    /// Is cancelled if another caller needs the place.
    dropped: CancellationToken,
}

/// What came of a caller.
struct Heard {
    number: u64,
    /// Its request, if it is permitted and valid.
    call: Option<Call>,
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
    /// therefore left behind by a crash, and this function removes it. `host` takes the requests that
    /// the host of the run carries out.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn open(folder: &Path, host: mpsc::Sender<Visitor>) -> io::Result<Self> {
        let path = folder.to_owned();
        let folder = open_folder(folder)?;
        // `bind` fails if a socket file from a crash still exists.
        remove_from(&folder, NAME);
        let listener = UnixListener::bind(place_in(&folder, NAME))?;
        // Each caller is checked anyway. The file mode only keeps other users from filling the
        // queue of waiting connections.
        rustix::fs::chmodat(&folder, NAME, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        let (callers, silent) = (FuturesUnordered::new(), VecDeque::new());
        let (sender, calls) = mpsc::channel(CALLS_WAITING);
        let listener = Listener { listener, calls: sender, host, callers, silent, count: 0 };
        let listening = AbortOnDropHandle::new(tokio::spawn(listener.run()));
        Ok(Self { folder, path, calls, _listening: listening })
    }

    /// Returns true if other processes can still find the socket. Returns false if the socket or
    /// its folder was removed or replaced.
    pub(crate) fn is_in_place(&self) -> bool {
        let bound = rustix::fs::statat(&self.folder, NAME, AtFlags::SYMLINK_NOFOLLOW);
        let found = rustix::fs::lstat(self.path.join(NAME));
        // Compare the inodes, because another file may have taken the same path.
        matches!((bound, found), (Ok(bound), Ok(found)) if (bound.st_dev, bound.st_ino) == (found.st_dev, found.st_ino))
    }

    /// Waits for the next request for the run. It is cancel-safe: no request is lost.
    pub(crate) async fn next(&mut self) -> Call {
        match self.calls.recv().await {
            Some(call) => call,
            // Nobody listens any more, so no request comes.
            None => std::future::pending().await,
        }
    }
}

impl Listener {
    /// Passes on the requests of permitted callers. Refuses all other callers.
    async fn run(mut self) {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((caller, _)) => self.came(caller),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection to the control socket");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(heard) = self.callers.next(), if !self.callers.is_empty() => {
                    self.silent.retain(|silent| silent.number != heard.number);
                    if let Some(call) = heard.call {
                        self.pass_on(heard.number, call);
                    }
                }
            }
        }
    }

    /// Passes a request to the host or to the run. Refuses it if the receiver does not take it.
    fn pass_on(&mut self, number: u64, call: Call) {
        let (says, caller) = match Addressed::of(call) {
            Addressed::Host(visitor) => match self.host.try_send(visitor) {
                Ok(()) => return,
                Err(TrySendError::Full(it)) => ("the host of this run is busy", it.into_caller()),
                Err(TrySendError::Closed(it)) => ("this run has no host", it.into_caller()),
            },
            Addressed::Run(call) => match self.calls.try_send(call) {
                Ok(()) => return,
                Err(TrySendError::Full(it)) => ("this run is busy", it.caller),
                Err(TrySendError::Closed(it)) => ("this run has ended", it.caller),
            },
        };
        // A caller that does not read the refusal delays nobody.
        self.callers.push(Box::pin(async move {
            caller.answer(Err(ApiError::new(ErrorCode::InvalidStatus, says))).await;
            Heard { number, call: None }
        }));
    }

    /// Begins to listen to a caller.
    fn came(&mut self, caller: UnixStream) {
        if self.silent.len() >= CALLERS_MOST {
            self.drop_a_silent_one();
        }
        self.count += 1;
        let (number, dropped) = (self.count, CancellationToken::new());
        let pid = caller.peer_cred().ok().and_then(|who| who.pid());
        self.silent.push_back(Silent { number, pid, dropped: dropped.clone() });
        let listening = async move { Heard { number, call: listen_to(caller, dropped).await } };
        self.callers.push(Box::pin(listening));
    }

    /// Drops the oldest silent caller of the process that has the most of them.
    fn drop_a_silent_one(&mut self) {
        let mut counts: BTreeMap<Option<i32>, usize> = BTreeMap::new();
        for silent in &self.silent {
            *counts.entry(silent.pid).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let is_of_most = |silent: &Silent| counts.get(&silent.pid) == Some(&most);
        let at = self.silent.iter().position(is_of_most);
        if let Some(silent) = at.and_then(|at| self.silent.remove(at)) {
            silent.dropped.cancel();
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        remove_from(&self.folder, NAME);
    }
}

/// Reads the request of one caller. Returns `None` if the caller is not permitted, if its request is
/// invalid, or if it was dropped. In each case this function has already sent the error to the
/// caller.
async fn listen_to(mut caller: UnixStream, dropped: CancellationToken) -> Option<Call> {
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
    let too_late = |says: &str| Err(invalid(says.to_owned()));
    let heard = tokio::select! {
        biased;
        heard = heard => heard,
        () = dropped.cancelled() => too_late("too many connections of this process sent no request"),
        () = tokio::time::sleep(PATIENCE) => too_late("the request did not come in time"),
    };
    match heard {
        Ok(control_request) => Some(Call { control_request, caller: Caller(caller) }),
        Err(error) => {
            // Ignore the result, because the caller may already be gone.
            let _gone = tokio::time::timeout(PATIENCE, write_line(&mut caller, &error)).await;
            None
        }
    }
}

async fn check(caller: &UnixStream) -> Result<(), ApiError> {
    let said = match peer_that_no_tool_started(caller).await {
        Ok(_) => return Ok(()),
        Err(PeerError::OtherUser) => "another user cannot send requests to the lead".to_owned(),
        Err(error @ PeerError::Tool { .. }) => {
            format!("{error}, and agents ask their lead by mail")
        }
        Err(error) => chain(&error),
    };
    Err(ApiError::new(ErrorCode::PermissionDenied, said))
}
