//! Unix sockets between processes of this user: their place in a folder, and the process at the
//! other end of a connection.
//!
//! The kernel reports the user and the process at the other end. This module decides from that who
//! the process is. Its callers decide which processes they accept.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use tokio::net::UnixStream;

use crate::identity::ProcessIdentity;
use crate::job::started_by_a_tool;

/// The reason why the process at the other end is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The system does not report the user.
    #[error("the system does not tell which user is at the other end")]
    NoUser(#[source] io::Error),
    /// The process belongs to another user.
    #[error("another user is at the other end")]
    OtherUser,
    /// The system does not report the process. This is so if the process is in a pid namespace that
    /// this process does not see.
    #[error("the system does not tell which process is at the other end")]
    NoProcess,
    /// A tool of an agent started the process.
    #[error("process {pid} was started by a tool of an agent")]
    Tool {
        /// The process id.
        pid: u32,
    },
    /// The process has ended, or its origin cannot be determined.
    #[error("cannot find out what started process {pid}")]
    Unknown {
        /// The process id.
        pid: u32,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Returns the id of the process at the other end. It must belong to this user.
///
/// For a connection that this process accepted, it is the process that connected. For a connection
/// that this process made, it is the process that listens.
///
/// # Errors
/// If the process belongs to another user, or if the system does not report it.
pub fn peer_pid(stream: &UnixStream) -> Result<u32, PeerError> {
    let who = stream.peer_cred().map_err(PeerError::NoUser)?;
    // Check the user even if the mode of the socket's file allows only this user. The mode stops
    // neither root nor a user who connected before the mode was set.
    if who.uid() != rustix::process::geteuid().as_raw() {
        return Err(PeerError::OtherUser);
    }
    // A process in a foreign pid namespace has the number 0.
    let pid = who.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    pid.ok_or(PeerError::NoProcess)
}

/// Returns the process at the other end. It must belong to this user, and no tool of an agent may
/// have started it.
///
/// # Errors
/// If one of these does not hold or cannot be determined, or if the process has ended.
pub async fn peer_that_no_tool_started(stream: &UnixStream) -> Result<ProcessIdentity, PeerError> {
    peer(stream, started_by_a_tool).await
}

/// Returns the process at the other end. It must belong to this user. On Linux, no tool of an agent
/// may have started it. Other systems do not tell what started a process.
///
/// # Errors
/// As those of [`peer_that_no_tool_started`].
pub async fn peer_that_no_tool_is_known_to_have_started(
    stream: &UnixStream,
) -> Result<ProcessIdentity, PeerError> {
    let origin = match cfg!(target_os = "linux") {
        true => started_by_a_tool,
        false => |_| Ok(false),
    };
    peer(stream, origin).await
}

async fn peer(
    stream: &UnixStream,
    is_of_a_tool: fn(u32) -> io::Result<bool>,
) -> Result<ProcessIdentity, PeerError> {
    let pid = peer_pid(stream)?;
    // The process may have ended, and a new process may have the same number now. Such a process
    // started later than the connection, so compare the start times.
    let came = ProcessIdentity::ticks_now();
    let look = move || {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "it is gone");
        let process = ProcessIdentity::of(pid).filter(|process| process.start_ticks <= came);
        let process = process.ok_or_else(gone)?;
        let is_of_a_tool = is_of_a_tool(pid)?;
        // Check again, because only a process that still runs was looked at as a whole.
        if process.is_alive() { Ok((process, is_of_a_tool)) } else { Err(gone()) }
    };
    let looked = tokio::task::spawn_blocking(look).await;
    match looked.map_err(io::Error::other).and_then(|found| found) {
        Ok((process, false)) => Ok(process),
        Ok((_, true)) => Err(PeerError::Tool { pid }),
        Err(source) => Err(PeerError::Unknown { pid, source }),
    }
}

/// Opens the folder of a socket. A symbolic link in its place is an error.
///
/// # Errors
/// The error of the operating system.
pub fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Returns a path to the socket `name` that goes through the file descriptor of its open folder. The
/// folder's real path is often longer than the 108 bytes that a socket address allows.
#[must_use]
pub fn place_in(folder: &OwnedFd, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Removes the socket `name` from its folder. If a file with this name is not a socket, the file
/// stays.
pub fn remove_from(folder: &OwnedFd, name: &str) {
    let there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
        && let Err(error) = rustix::fs::unlinkat(folder, name, AtFlags::empty())
    {
        tracing::debug!(%error, name, "cannot remove a socket");
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use tokio::net::UnixListener;

    use super::*;
    use crate::job::TAG_VARIABLE;

    /// A program that connects to the socket `$1` and keeps the connection until it is closed.
    const CONNECT: &str =
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.recv(1)";

    #[tokio::test]
    async fn the_process_at_either_end_is_found_and_that_of_a_tool_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let ours = UnixStream::connect(&path).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        for end in [&ours, &accepted] {
            assert_eq!(peer_that_no_tool_started(end).await.unwrap(), ProcessIdentity::own());
        }
        if !Path::new("/usr/bin/python3").exists() {
            eprintln!("skipped: /usr/bin/python3 is not installed");
            return;
        }
        for (tag, is_refused) in [(None, false), (Some("a-job"), true)] {
            let mut caller = Command::new("/usr/bin/python3");
            caller.args(["-c", CONNECT]).arg(&path).stdin(Stdio::null());
            caller.envs(tag.map(|tag| (TAG_VARIABLE, tag)));
            // Nothing but the tag tells that a tool started it.
            caller.envs([crate::job::outlives_variable()]);
            let mut caller = caller.spawn().unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let found = peer_that_no_tool_started(&accepted).await;
            match is_refused {
                true => assert!(matches!(found, Err(PeerError::Tool { .. })), "{found:?}"),
                false => assert_eq!(found.unwrap().pid, caller.id()),
            }
            drop(accepted);
            caller.wait().unwrap();
        }
    }
}
