//! The launch of a pane: its program, arguments, folder and environment variables, which may be
//! secret.
//!
//! A terminal starts the process of a pane, so the process inherits nothing from the process that
//! asks for the pane. The terminal therefore starts `pitcrew pane-exec SOCKET STARTER`, and nothing
//! secret. This process connects to a socket of the starter, gets its launch, and replaces itself by
//! the program (`exec`). No file contains the launch.
//!
//! Both ends use the kernel's data about the other. The starter gives the launch only to a process
//! of this user that no tool of an agent started, and only to the very process of the pane if the
//! terminal reports that process. It gives the launch away once. The process of the pane takes it
//! only from the process that its arguments name.
//!
//! The socket lies below the configuration root, where no sandboxed command can write.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::own_mode;
use pitcrew_process::unix_socket::{
    PeerError, open_folder, peer_pid, peer_that_no_tool_is_known_to_have_started, place_in,
    remove_from,
};
use pitcrew_protocol::chain;
use rustix::fs::{AtFlags, Mode};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::pane::{NewPane, PaneError};

/// Maximum size of a launch in bytes. The kernel does not accept longer argument lists anyway.
const LAUNCH_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum length in bytes of the reason why a program could not be started.
const REASON_BYTES: u64 = 4 * 1024;

/// Time limit for the process of a pane to take its launch and to become the program. It is long
/// enough for a terminal that first starts a shell with a slow startup file.
const GIVE_TIME: Duration = Duration::from_secs(30);

/// Time limit for the starter to give the launch. It is longer than [`GIVE_TIME`], because a pane
/// program may take its time to report the process.
const TAKE_TIME: Duration = Duration::from_secs(90);

/// Pause after a connection that the system refused because too many others wait.
const CROWDED: Duration = Duration::from_millis(10);

/// The folder below the configuration root that contains the sockets.
const FOLDER: [&str; 2] = ["pitcrew", "launches"];

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder in which the program starts.
    pub cwd: PathBuf,
    /// The environment variables to set.
    pub env: Vec<(String, String)>,
}

/// How the process of a pane gets its launch. The default value starts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launcher {
    /// The command `pitcrew pane-exec`. The path of the socket and the starter's process are
    /// appended.
    pub command: Vec<String>,
    /// The configuration root.
    pub root: PathBuf,
}

/// The two answers of a starter.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Launch(Launch),
    Refused(String),
}

/// A launch that waits for the process of its pane. Dropping it removes its socket.
#[derive(Debug)]
pub(crate) struct Offer {
    launch: Launch,
    argv: Vec<String>,
    listener: UnixListener,
    folder: OwnedFd,
    name: String,
}

impl Launcher {
    /// Opens the socket for the launch of a new pane.
    ///
    /// # Errors
    /// [`PaneError::Io`] if the socket cannot be opened.
    pub(crate) fn offer(&self, pane: &NewPane) -> Result<Offer, PaneError> {
        self.open(pane).map_err(|source| PaneError::Io {
            action: "open a socket for the start of a pane below",
            what: self.root.display().to_string(),
            source,
        })
    }

    fn open(&self, pane: &NewPane) -> io::Result<Offer> {
        let path = own_mode::folder_below(&self.root, &FOLDER)?;
        let folder = open_folder(&path)?;
        remove_dead(&folder)?;
        let starter = ProcessIdentity::own().to_words();
        let name = format!("{starter}.{}", uuid::Uuid::new_v4().simple());
        let listener = UnixListener::bind(place_in(&folder, &name))?;
        // Each process is checked anyway. The mode keeps other users from filling the queue.
        rustix::fs::chmodat(&folder, &name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        let mut argv = self.command.clone();
        argv.extend([path.join(&name).to_string_lossy().into_owned(), starter]);
        let launch =
            Launch { argv: pane.argv.clone(), cwd: pane.cwd.clone(), env: pane.env.clone() };
        Ok(Offer { launch, argv, listener, folder, name })
    }
}

impl Offer {
    /// Returns the command that the terminal must start in the pane. It contains nothing secret.
    pub(crate) fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Gives the launch to the process of the pane, and waits until this process is the program.
    /// Returns the process id. `expected` is the process of the pane, if the terminal reports it.
    ///
    /// # Errors
    /// [`PaneError::NotStarted`] if the process does not come, if it ends, or if it cannot start the
    /// program.
    pub(crate) async fn give(self, expected: Option<u32>) -> Result<u32, PaneError> {
        let mut refused = None;
        let given = async {
            loop {
                let (stream, _) =
                    self.listener.accept().await.map_err(|error| error.to_string())?;
                match admitted(&stream, expected).await {
                    Ok(pid) => return self.give_to(stream, pid).await,
                    Err(reason) => {
                        // A process that is not admitted takes the place of nobody.
                        refuse(&stream, &reason);
                        refused = Some(reason);
                    }
                }
            }
        };
        let has_ended = async {
            match expected {
                None => std::future::pending().await,
                Some(pid) => match ProcessIdentity::of(pid) {
                    None => {}
                    Some(process) => process.ended().await,
                },
            }
        };
        let given = tokio::select! {
            biased;
            given = given => given,
            () = has_ended => Err("its process ended before it took its program".to_owned()),
            () = tokio::time::sleep(GIVE_TIME) => {
                let seconds = GIVE_TIME.as_secs();
                Err(format!("its process did not take its program within {seconds} s"))
            }
        };
        given.map_err(|reason| {
            let also = refused.map(|it| format!("; refused: {it}")).unwrap_or_default();
            PaneError::NotStarted { reason: reason + &also }
        })
    }

    async fn give_to(&self, stream: UnixStream, pid: u32) -> Result<u32, String> {
        let mut stream = stream;
        let mut line = serde_json::to_vec(&Answer::Launch(self.launch.clone()))
            .map_err(|error| error.to_string())?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(|error| format!("it did not take it: {error}"))?;
        // The start of the program closes the connection. A process that cannot start the program
        // first says why.
        let mut reason = Vec::new();
        let read = stream.take(REASON_BYTES).read_to_end(&mut reason).await;
        match (read, reason.is_empty()) {
            (Ok(_), true) => Ok(pid),
            (Ok(_), false) => Err(String::from_utf8_lossy(&reason).trim_end().to_owned()),
            (Err(error), _) => Err(format!("its process ended: {error}")),
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        remove_from(&self.folder, &self.name);
    }
}

/// Decides whether the process at the other end gets the launch, and returns its process id.
async fn admitted(stream: &UnixStream, expected: Option<u32>) -> Result<u32, String> {
    let said = |error: PeerError| chain(&error);
    let pid = peer_pid(stream).map_err(said)?;
    // This comparison is first because it is cheap. Many processes may connect at once.
    if let Some(expected) = expected.filter(|expected| *expected != pid) {
        return Err(format!("process {pid} is not process {expected} of the pane"));
    }
    let process = peer_that_no_tool_is_known_to_have_started(stream).await.map_err(said)?;
    Ok(process.pid)
}

fn refuse(stream: &UnixStream, reason: &str) {
    let mut line = serde_json::to_vec(&Answer::Refused(reason.to_owned())).unwrap_or_default();
    line.push(b'\n');
    // The line fits into the buffer of a new connection. A process that is gone needs no answer.
    let _either = stream.try_write(&line);
}

/// Removes the sockets of processes that no longer run.
fn remove_dead(folder: &OwnedFd) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let owner = name.rsplit_once('.').and_then(|(owner, _)| owner.parse().ok());
        if owner.is_some_and(|owner: ProcessIdentity| !owner.is_alive()) {
            remove_from(folder, &name);
        }
    }
    Ok(())
}

/// Adds what a pane shows to the error of its start. The screen tells why a program in it ended.
pub(crate) fn with_screen(error: PaneError, screen: Option<&str>) -> PaneError {
    match (error, screen.map(str::trim).filter(|text| !text.is_empty())) {
        (PaneError::NotStarted { reason }, Some(text)) => {
            PaneError::NotStarted { reason: format!("{reason}; the pane shows: {text}") }
        }
        (error, _) => error,
    }
}

/// The reason why a process did not take a launch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// No process listens at the socket, or the connection failed.
    #[error("no launch can be taken at {}", path.display())]
    NotThere {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The process that listens is not accepted.
    #[error("the launch at {} is not trusted", path.display())]
    NotTrusted {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        source: PeerError,
    },
    /// Another process listens than the one that asked for the pane.
    #[error("the launch at {} comes from process {}, not from {}", path.display(), found.to_words(), expected.to_words())]
    OtherStarter {
        /// The path of the socket.
        path: PathBuf,
        /// The process that listens.
        found: ProcessIdentity,
        /// The process that asked for the pane.
        expected: ProcessIdentity,
    },
    /// The starter refused this process.
    #[error("the launch at {} is not for this process: {reason}", path.display())]
    Refused {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// A launch that this process took. The starter waits until the program runs.
#[derive(Debug)]
pub struct Taken {
    /// The program to start.
    pub launch: Launch,
    connection: std::os::unix::net::UnixStream,
}

impl Taken {
    /// Tells the starter why the program cannot be started.
    pub fn fail(mut self, reason: &str) {
        // The reason is on the screen too, so a starter that is gone misses nothing.
        let _either = io::Write::write_all(&mut self.connection, reason.as_bytes());
    }
}

/// Takes the launch of this process from the process `starter`, which listens at `socket`.
///
/// # Errors
/// If another process listens, if a tool of an agent started it, or if it gives no launch.
pub async fn take(socket: &Path, starter: ProcessIdentity) -> Result<Taken, TakeError> {
    let path = || socket.to_owned();
    let not_there = |source| TakeError::NotThere { path: path(), source };
    let stream = connect(socket).await.map_err(not_there)?;
    let found = peer_that_no_tool_is_known_to_have_started(&stream).await;
    let found = found.map_err(|source| TakeError::NotTrusted { path: path(), source })?;
    if found != starter {
        return Err(TakeError::OtherStarter { path: path(), found, expected: starter });
    }
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    let mut bounded = (&mut stream).take(LAUNCH_BYTES);
    let read = tokio::time::timeout(TAKE_TIME, bounded.read_until(b'\n', &mut line)).await;
    read.map_err(|late| not_there(late.into()))?.map_err(not_there)?;
    match serde_json::from_slice(&line).map_err(|error| not_there(error.into()))? {
        Answer::Refused(reason) => Err(TakeError::Refused { path: path(), reason }),
        Answer::Launch(launch) => {
            let connection = stream.into_inner().into_std().map_err(not_there)?;
            connection.set_nonblocking(false).map_err(not_there)?;
            Ok(Taken { launch, connection })
        }
    }
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "this is not a path of a socket");
    let (parent, name) = socket.parent().zip(socket.file_name()).ok_or_else(missing)?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let folder = open_folder(parent)?;
    let name = std::str::from_utf8(name.as_bytes()).map_err(|_| missing())?;
    let connected = async {
        loop {
            match UnixStream::connect(place_in(&folder, name)).await {
                // Too many connections wait. The starter refuses them one after the other.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(CROWDED).await;
                }
                connected => return connected,
            }
        }
    };
    tokio::time::timeout(GIVE_TIME, connected).await?
}

#[cfg(test)]
mod tests;
