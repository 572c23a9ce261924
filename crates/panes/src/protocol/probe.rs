//! What runs in the panes of a conformance check: it tells how it was started, and then does as it is told.
//!
//! Suite and program meet at a socket, so that nothing depends on a shell or on a terminal, and its closing tells that
//! the program is gone.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a program has to be started, or to be stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a program was started, as it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Its arguments behind the socket.
    pub arguments: Vec<String>,
    /// Its folder.
    pub cwd: PathBuf,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Its process.
    pub pid: u32,
}

/// The probe could not do its work.
#[derive(Debug, thiserror::Error)]
#[error("the socket {path} cannot be used")]
pub struct ProbeError {
    /// The socket.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Tells `probed` at the socket and does as it is told there, `show` and a text for the screen or `exit` and a status;
/// returns the status to end with, 0 when the other side goes away.
///
/// # Errors
/// [`ProbeError`] when nobody listens.
pub fn probe(socket: &Path, probed: &Probed, mut show: impl FnMut(&str)) -> Result<u8, ProbeError> {
    let refused = |source| ProbeError { path: socket.to_owned(), source };
    let mut stream = UnixStream::connect(socket).map_err(refused)?;
    let line = serde_json::to_string(probed).map_err(|e| refused(e.into()))?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(refused)?;
    let reader = BufReader::new(stream.try_clone().map_err(refused)?);
    for order in reader.lines() {
        let order = order.map_err(refused)?;
        match order.split_once(' ') {
            Some(("exit", status)) => return Ok(status.parse().unwrap_or(u8::MAX)),
            Some(("show", text)) => show(text),
            Some(_) | None => {}
        }
        // Said when it is done.
        stream.write_all(b".\n").map_err(refused)?;
    }
    Ok(0)
}

/// Where programs are waited for.
#[derive(Debug)]
pub(super) struct Meeting {
    folder: tempfile::TempDir,
    listener: UnixListener,
}

/// A program that has come.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) probed: Probed,
    stream: BufReader<UnixStream>,
}

impl Meeting {
    pub(super) fn open() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("pitcrew-check-").tempdir()?;
        let listener = UnixListener::bind(folder.path().join("s"))?;
        Ok(Self { folder, listener })
    }

    /// A folder that goes with it.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The socket a program is to come to.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Waits for the next program.
    pub(super) async fn next(&self) -> io::Result<Met> {
        let listener = self.listener.try_clone()?;
        tokio::task::spawn_blocking(move || {
            if !is_ready(&listener)? {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the program was not started within 20 s",
                ));
            }
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line)?;
            Ok(Met { probed: serde_json::from_str(&line)?, stream })
        })
        .await?
    }
}

impl Met {
    /// Has the program show a text, and waits until it did.
    pub(super) async fn show(self, text: &str) -> io::Result<Self> {
        self.order(format!("show {text}\n")).await
    }

    /// Has the program end with that status, and waits until it did.
    pub(super) async fn exit(self, status: u8) -> io::Result<()> {
        self.order(format!("exit {status}\n")).await.map(drop)
    }

    /// Waits until the program is gone.
    pub(super) async fn gone(self) -> io::Result<()> {
        self.order(String::new()).await.map(drop)
    }

    async fn order(mut self, order: String) -> io::Result<Self> {
        tokio::task::spawn_blocking(move || {
            self.stream.get_mut().write_all(order.as_bytes())?;
            let mut said = String::new();
            match self.stream.read_line(&mut said) {
                Ok(_) => Ok(self),
                // A program that is killed has not read what it was told.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(self),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the program still runs after 20 s",
                )),
                Err(error) => Err(error),
            }
        })
        .await?
    }
}

fn is_ready(listener: &UnixListener) -> io::Result<bool> {
    let mut waiting = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec {
        tv_sec: PATIENCE.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: 0,
    };
    Ok(rustix::event::poll(&mut waiting, Some(&patience))? > 0)
}
