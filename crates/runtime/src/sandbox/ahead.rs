//! Commands of *work* that are started before they are known.
//!
//! To make namespaces and mounts takes longer than most commands run, and on a busy machine many times longer: the kernel
//! waits for all its processors at each unmount. So while an agent thinks, the process of its next command is started up to
//! the point where the command itself is missing: mounts are made, rights given up. It then waits for an [`Assignment`].
//!
//! What it sees was laid out earlier, so it is only used when the same would be laid out now: the same mounts of the same
//! files, and all of them still there (a file that is replaced outside of a mount namespace loses its mount in it).

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::kept::Next;
use super::places::mount_points;
use super::private::{PrivateFolder, beside};
use super::quarantine::{Aftermath, Told};
use super::work::{Identities, Mounts};
use crate::process::Job;

/// How many wait at most, each for one working folder.
const MOST_WAITING: usize = 4;

/// How long a started process may take until it waits for its command, and to take it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a process says when it waits for its command.
const READY: u8 = b'r';

/// The command of a process that waits for one: the program, its arguments, and its variables beside the inherited ones.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    /// A variable without a value is removed.
    pub(super) variables: Vec<(OsString, Option<OsString>)>,
}

impl Assignment {
    /// Takes over what a command was filled with.
    pub(super) fn of(command: &Command) -> Self {
        let command = command.as_std();
        let owned = |text: &std::ffi::OsStr| text.to_os_string();
        let variables = command.get_envs().filter(|(name, _)| !crate::process::is_of_the_job(name));
        Self {
            program: command.get_program().to_os_string(),
            arguments: command.get_args().map(owned).collect(),
            variables: variables.map(|(name, value)| (owned(name), value.map(owned))).collect(),
        }
    }

    /// Waits for the command at a socket, in the process that will run it.
    ///
    /// # Errors
    /// What the system said; an end without a command.
    pub(super) fn receive(mut from: UnixStream) -> io::Result<Self> {
        // A command that was in a hurry came before, and nobody waits for this.
        let _told = from.write_all(&[READY]);
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let length = usize::try_from(u64::from_le_bytes(length)).map_err(io::Error::other)?;
        let mut text = vec![0; length];
        from.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// The form that [`Self::receive`] reads. Its length comes first: a part of it is no command.
    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec(self)?;
        let length = u64::try_from(text.len()).map_err(io::Error::other)?;
        Ok([&length.to_le_bytes()[..], &text].concat())
    }
}

/// A process in its sandbox, without a command.
#[derive(Debug)]
pub(super) struct Vacant {
    job: Job,
    socket: UnixStream,
    private: PrivateFolder,
    mounts: Mounts,
    identities: Identities,
    /// What the kernel tells of its mounts; nothing before it waits.
    settled: Option<Settled>,
}

/// The mount namespace of a process that waits.
#[derive(Debug)]
struct Settled {
    table: PathBuf,
    content: Vec<u8>,
    /// Keeps the namespace from being taken down while the end of the command is waited for.
    namespace: Option<MountNamespace>,
}

/// A mount namespace that is kept; it goes away on another thread, for the kernel takes its time.
#[derive(Debug)]
pub(super) struct MountNamespace(Option<File>);

impl Drop for MountNamespace {
    fn drop(&mut self) {
        let file = self.0.take();
        beside(move || drop(file));
    }
}

impl Vacant {
    /// Starts a process that will wait for its command at its standard input.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn start(command: &mut Command, private: PrivateFolder, mounts: Mounts) -> io::Result<Self> {
        let (socket, its) = UnixStream::pair()?;
        for timeout in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
            timeout(&socket, Some(PATIENCE))?;
        }
        let identities = mounts.identities();
        let job = Job::spawn_with_input(command, std::os::fd::OwnedFd::from(its).into())?;
        Ok(Self { job, socket, private, mounts, identities, settled: None })
    }

    /// Waits until it is in its sandbox.
    ///
    /// # Errors
    /// When it ended, or takes too long.
    fn settle(&mut self) -> io::Result<()> {
        let mut said = [0];
        self.socket.read_exact(&mut said)?;
        let leader = self.job.leader().pid;
        let children = fs::read_to_string(format!("/proc/{leader}/task/{leader}/children"))?;
        let first = children.split_whitespace().next().ok_or(io::ErrorKind::NotFound)?;
        let table = PathBuf::from(format!("/proc/{first}/mountinfo"));
        let namespace = File::open(format!("/proc/{first}/ns/mnt")).ok().map(|file| MountNamespace(Some(file)));
        let content = fs::read(&table)?;
        if !self.mounts.are_all_in(&mount_points(&content)) {
            return Err(io::Error::other("a mount was lost while the others were made"));
        }
        self.settled = Some(Settled { table, content, namespace });
        Ok(())
    }

    /// Whether it would be started just so now.
    fn fits(&self, mounts: &Mounts) -> bool {
        let is_settled = self.settled.as_ref().is_some_and(|it| fs::read(&it.table).is_ok_and(|now| now == it.content));
        is_settled && self.mounts.are_like(mounts) && self.identities == mounts.identities()
    }

    /// Gives it its command.
    ///
    /// # Errors
    /// What the system said; then it runs nothing.
    pub(super) fn assign(mut self, assignment: &Assignment, told: Told, next: Next) -> io::Result<Job> {
        self.socket.write_all(&assignment.to_bytes()?)?;
        let namespace = self.settled.and_then(|settled| settled.namespace);
        let aftermath = Aftermath::new(self.private, self.mounts.absent, told).followed_by(namespace, next);
        Ok(self.job.with_aftermath(aftermath))
    }
}

/// Those that wait, by their working folders. A folder without one has one being started.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    waiting: Mutex<HashMap<PathBuf, Option<Vacant>>>,
}

impl Ahead {
    /// Takes the one of a working folder, if it is as it would be started now: `lay_out` says how, with a private folder.
    pub(super) fn take(&self, cwd: &Path, lay_out: impl FnOnce(&Path) -> io::Result<Mounts>) -> Option<Vacant> {
        let vacant = {
            let mut waiting = self.waiting();
            // One that is being started stays noted.
            waiting.get(cwd).is_some_and(Option::is_some).then(|| waiting.remove(cwd)).flatten().flatten()
        }?;
        let mounts = lay_out(vacant.private.path()).ok()?;
        vacant.fits(&mounts).then_some(Vacant { mounts, ..vacant })
    }

    /// Has one wait for a working folder, unless one does.
    pub(super) fn prepare(&self, cwd: &Path, start: impl FnOnce() -> io::Result<Vacant>) {
        {
            let mut waiting = self.waiting();
            if waiting.contains_key(cwd) {
                return;
            }
            waiting.insert(cwd.to_path_buf(), None);
        }
        let started = start().and_then(|mut vacant| vacant.settle().map(|()| vacant));
        let mut waiting = self.waiting();
        waiting.remove(cwd);
        let dropped = match started {
            Ok(vacant) => {
                let oldest = waiting.iter().find(|(_, vacant)| vacant.is_some()).map(|(path, _)| path.clone());
                let oldest = oldest.filter(|_| waiting.len() >= MOST_WAITING);
                let dropped = oldest.and_then(|path| waiting.remove(&path));
                waiting.insert(cwd.to_path_buf(), Some(vacant));
                dropped
            }
            Err(problem) => {
                tracing::debug!(%problem, "no command is started ahead");
                None
            }
        };
        drop(waiting);
        // Its end is waited for outside of the lock.
        drop(dropped);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<PathBuf, Option<Vacant>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
