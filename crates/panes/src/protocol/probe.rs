//! The test program that runs in the panes of a conformance check. It reports how it was started,
//! and then obeys commands of the check.
//!
//! The check and the test program communicate over a socket, so they need neither a shell nor a
//! terminal. When the socket closes, the check knows that the test program has ended.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time limit for the start of a test program, and for its end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a test program reports about its own start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// The arguments after the socket path.
    pub arguments: Vec<String>,
    /// The folder in which the program was started.
    pub cwd: PathBuf,
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// The process id.
    pub pid: u32,
}

/// The error of a test program that cannot use its socket.
#[derive(Debug, thiserror::Error)]
#[error("the socket {path} cannot be used")]
pub struct ProbeError {
    /// The path of the socket.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Acts as the test program. Sends `probed` to the socket, and then obeys commands that come from
/// the socket: `show` with a text for the screen, or `exit` with a status. Returns the exit status
/// for the process. The exit status is 0 if the conformance check closes the socket.
///
/// # Errors
/// [`ProbeError`] if no process listens at the socket, or if the connection fails.
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
        // Send the confirmation only now, because the text must be on the screen first.
        stream.write_all(b".\n").map_err(refused)?;
    }
    Ok(0)
}

/// The socket to which the test programs of a check connect.
#[derive(Debug)]
pub(super) struct Meeting {
    folder: tempfile::TempDir,
    listener: UnixListener,
}

/// A test program that has connected.
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

    /// Returns the temporary folder of this check.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the socket to which a test program must connect.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Waits until the next test program connects.
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
            // Without a timeout, a program that hangs would block the check forever.
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
    /// Tells the test program to show a text and waits until the text is shown.
    pub(super) async fn show(self, text: &str) -> io::Result<Self> {
        self.order(format!("show {text}\n")).await
    }

    /// Tells the test program to end with this status and waits until it has ended.
    pub(super) async fn exit(self, status: u8) -> io::Result<()> {
        self.order(format!("exit {status}\n")).await.map(drop)
    }

    /// Waits until the program has ended.
    pub(super) async fn gone(self) -> io::Result<()> {
        self.order(String::new()).await.map(drop)
    }

    async fn order(mut self, order: String) -> io::Result<Self> {
        tokio::task::spawn_blocking(move || {
            self.stream.get_mut().write_all(order.as_bytes())?;
            let mut said = String::new();
            match self.stream.read_line(&mut said) {
                Ok(_) => Ok(self),
                // If a process is killed while data in its socket is unread, the connection is
                // reset. So a reset also means that the program has ended.
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
