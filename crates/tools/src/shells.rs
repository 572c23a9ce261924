//! The background commands of one agent, and the processes that the agent's foreground commands
//! left running.
//!
//! For each background command, one tokio task writes the command's output to a file and waits
//! until the command ends. When the last clone of [`Shells`] is dropped, all commands are stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::job::{Ended, Ending, Job, ProcessGroup};
use pitcrew_process::own_mode;
use pitcrew_process::sandbox::Sandbox;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::bash::spawn_shell;
use super::{ToolContext, ToolLimits};

/// The maximum number of background commands of one agent that run at the same time.
const MOST_RUNNING: usize = 32;

/// The maximum number of commands in the list. When this number is reached, all ended commands are
/// removed from the list.
const MOST_LISTED: usize = 256;

/// The id of a background command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShellId(String);

impl ShellId {
    fn unique() -> Self {
        let mut name = uuid::Uuid::new_v4().simple().to_string();
        name.truncate(8);
        Self(format!("b{name}"))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ShellId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for ShellId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The state of a background command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellState {
    /// The command is running.
    Running,
    /// The command ended by itself. The value is the exit code, if there is one.
    Exited(Option<i32>),
    /// The command was stopped.
    Stopped,
}

/// A background command of an agent.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The command's id.
    pub id: ShellId,
    /// The text of the command.
    pub command: String,
    /// The command's output file. It contains stdout and stderr in the order of arrival.
    pub output: PathBuf,
    /// The state of the command at the moment when this value was made.
    pub state: ShellState,
}

/// The reason why a background command could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// This agent has not started a background command with the given id.
    #[error("no background command has the id {id}{}", list_ids(.known))]
    Unknown {
        /// The id that was given.
        id: ShellId,
        /// The ids of the background commands that are running.
        known: Vec<ShellId>,
    },
    /// The background command has already ended by itself.
    #[error("the background command {id} has ended already")]
    Ended {
        /// The id that was given.
        id: ShellId,
    },
    /// The maximum number of background commands is already running.
    #[error("{MOST_RUNNING} background commands are running, which is the most; stop one first")]
    TooMany,
    /// The background command or its output file could not be created.
    #[error("cannot start a background command with its output in {}: {source}", .output.display())]
    Start {
        /// The path of the output file.
        output: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

fn list_ids(ids: &[ShellId]) -> String {
    if ids.is_empty() {
        return "; none is running".to_owned();
    }
    let ids: Vec<_> = ids.iter().map(ShellId::as_str).collect();
    format!("; running: {}", ids.join(", "))
}

/// A function that records the processes which an ended command left running. The first argument is
/// the text of the command. The second argument lists the remaining processes that have pitcrew's
/// tags in their environment. The function also searches for remaining processes without these
/// tags. It returns one text for each of these that was not recorded before.
pub type LeftRunningLog =
    Arc<dyn Fn(String, Vec<ProcessIdentity>) -> BoxFuture<'static, Vec<String>> + Send + Sync>;

/// The background commands of one agent. Clones share the same list of commands.
#[derive(Debug, Clone)]
pub struct Shells {
    set: Arc<Set>,
}

struct Set {
    folder: PathBuf,
    /// The function that records the processes which commands left running.
    escapes: Option<LeftRunningLog>,
    /// The list of commands. The lock is held only while the list is read or changed, never while a
    /// command is started or stopped.
    entries: Mutex<Entries>,
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Set").field("folder", &self.folder).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Entries {
    shells: BTreeMap<ShellId, Entry>,
    left_behind: Vec<ProcessGroup>,
}

#[derive(Debug)]
struct Entry {
    command: String,
    output: PathBuf,
    state: watch::Receiver<ShellState>,
    /// The guard that stops the command when this entry is dropped.
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Entry {
    /// Starts to stop the command, but does not wait for its end. Returns the command, and the
    /// channel that reports its end.
    fn cancel(&mut self, id: &ShellId) -> (Shell, watch::Receiver<ShellState>) {
        // Replacing the guard drops the old guard, which cancels the command. The entry stays in
        // the list.
        self.stop = CancellationToken::new().drop_guard();
        (self.shell(id), self.state.clone())
    }

    fn is_running(&self) -> bool {
        *self.state.borrow() == ShellState::Running
    }

    fn shell(&self, id: &ShellId) -> Shell {
        Shell {
            id: id.clone(),
            command: self.command.clone(),
            output: self.output.clone(),
            state: *self.state.borrow(),
        }
    }
}

impl Shells {
    /// Creates an empty list of commands. The output files will be in `folder`, which is created
    /// when the first output file is created.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::with(folder, None)
    }

    /// Creates an empty list of commands. The function `escapes` records the processes that
    /// commands left running.
    pub fn recorded(folder: impl Into<PathBuf>, escapes: LeftRunningLog) -> Self {
        Self::with(folder, Some(escapes))
    }

    fn with(folder: impl Into<PathBuf>, escapes: Option<LeftRunningLog>) -> Self {
        Self { set: Arc::new(Set { folder: folder.into(), escapes, entries: Mutex::default() }) }
    }

    /// Starts a command in the background. The sandbox prevents the command from changing the
    /// team's own files.
    ///
    /// # Errors
    /// [`ShellError::TooMany`], or [`ShellError::Start`] when the system cannot start the command.
    pub fn start(
        &self,
        command: &str,
        sandbox: &Sandbox,
        context: &ToolContext,
    ) -> Result<Shell, ShellError> {
        let id = ShellId::unique();
        let output = self.set.folder.join(format!("{id}.output"));
        if self.running().len() >= MOST_RUNNING {
            return Err(ShellError::TooMany);
        }
        let started =
            create(&output).and_then(|file| Ok((file, spawn_shell(command, sandbox, context)?)));
        let (file, job) =
            started.map_err(|source| ShellError::Start { output: output.clone(), source })?;
        let stop = CancellationToken::new();
        let (tell, state) = watch::channel(ShellState::Running);
        let kept = KeptOutput { file, room: context.limits.background_bytes };
        let attendance = Attendance {
            command: command.to_owned(),
            escapes: self.set.escapes.clone(),
            limits: context.limits.clone(),
            stop: stop.clone(),
            tell,
        };
        let task = tokio::spawn(attendance.attend(job, kept));
        let entry =
            Entry { command: command.to_owned(), output, state, stop: stop.drop_guard(), task };
        let shell = entry.shell(&id);
        let mut entries = self.entries();
        if entries.shells.len() >= MOST_LISTED {
            // The list is full. Remove the ended commands from it. Their output files stay on disk.
            entries.shells.retain(|_, entry| entry.is_running());
        }
        entries.shells.insert(id, entry);
        Ok(shell)
    }

    /// Stops a background command and all its processes, and waits until all of them have ended.
    ///
    /// # Errors
    /// [`ShellError::Unknown`] or [`ShellError::Ended`].
    pub async fn stop(&self, id: &ShellId) -> Result<Shell, ShellError> {
        let entry = {
            let mut entries = self.entries();
            match entries.shells.get(id) {
                Some(entry) if !entry.is_running() => {
                    return Err(ShellError::Ended { id: id.clone() });
                }
                Some(_) | None => entries.shells.remove(id),
            }
        };
        let Some(entry) = entry else {
            return Err(ShellError::Unknown { id: id.clone(), known: self.running() });
        };
        let shell = Shell { state: ShellState::Stopped, ..entry.shell(id) };
        entry.end().await;
        Ok(shell)
    }

    /// Stops all background commands, and all processes that foreground commands left running.
    /// Writes the reason `why` into the output of each stopped command. These commands stay in the
    /// list, with the state "stopped".
    pub async fn stop_running(&self, why: &str, limits: &ToolLimits) -> Vec<Shell> {
        let (running, left_behind): (Vec<_>, Vec<_>) = {
            let mut entries = self.entries();
            let left_behind = std::mem::take(&mut entries.left_behind);
            let running = entries.shells.iter_mut().filter(|(_, entry)| entry.is_running());
            (running.map(|(id, entry)| entry.cancel(id)).collect(), left_behind)
        };
        let ends = running.into_iter().map(|(mut shell, mut state)| async move {
            // If the channel is closed, the task of the command has already ended.
            let _ended = state.wait_for(|state| *state != ShellState::Running).await;
            note_end(&shell.output, why);
            shell.state = ShellState::Stopped;
            shell
        });
        let groups = left_behind.into_iter().map(|group| group.stop_left_behind(limits.stop_grace));
        tokio::join!(futures_util::future::join_all(ends), futures_util::future::join_all(groups)).0
    }

    /// Stops all commands and all processes that they left running, because the agent ends. Waits
    /// until all of them have ended.
    pub async fn stop_all(&self, limits: &ToolLimits) {
        let Entries { shells, left_behind } = std::mem::take(&mut *self.entries());
        let ends = shells.into_values().map(Entry::end);
        let groups = left_behind.into_iter().map(|group| group.stop_left_behind(limits.stop_grace));
        tokio::join!(futures_util::future::join_all(ends), futures_util::future::join_all(groups));
    }

    /// Returns all commands in the list, with their states.
    pub fn list(&self) -> Vec<Shell> {
        let entries = self.entries();
        entries.shells.iter().map(|(id, entry)| entry.shell(id)).collect()
    }

    /// Records the processes that a foreground command left running, including processes without
    /// pitcrew's tags in their environment. Returns a text that names the processes without these
    /// tags, if they were not recorded before. Otherwise returns `None`.
    pub(super) async fn look_after(
        &self,
        command: &str,
        group: Option<&ProcessGroup>,
    ) -> Option<String> {
        note_left(self.set.escapes.as_ref(), command, group).await
    }

    /// Remembers the processes that a foreground command left running. They are stopped when the
    /// agent ends, or earlier by `stop_running`.
    pub(super) fn adopt(&self, group: ProcessGroup) {
        self.entries().left_behind.push(group);
    }

    fn running(&self) -> Vec<ShellId> {
        self.list()
            .into_iter()
            .filter(|shell| shell.state == ShellState::Running)
            .map(|shell| shell.id)
            .collect()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.set.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    async fn end(self) {
        drop(self.stop);
        if let Err(problem) = self.task.await {
            tracing::warn!(command = self.command, %problem, "a background command was not attended");
        }
    }
}

fn create(output: &Path) -> io::Result<File> {
    if let Some(folder) = output.parent() {
        own_mode::create_folders(folder)?;
    }
    own_mode::file_options().write(true).create_new(true).open(output)
}

/// Appends a line to the output file of an ended command.
fn note_end(output: &Path, words: &str) {
    let added =
        File::options().append(true).open(output).and_then(|mut file| writeln!(file, "[{words}]"));
    if let Err(problem) = added {
        tracing::warn!(%problem, "the end of a background command is not in its output");
    }
}

/// The output file of a command, and the number of bytes that can still be written to it.
struct KeptOutput {
    file: File,
    room: u64,
}

impl KeptOutput {
    /// Appends bytes to the output file, up to the size limit. This function blocks the thread
    /// until the operating system has copied the bytes into its page cache.
    fn push(&mut self, bytes: &[u8]) {
        let most = usize::try_from(self.room).unwrap_or(usize::MAX);
        let kept = bytes.get(..most).unwrap_or(bytes);
        self.room -= kept.len() as u64;
        if let Err(problem) = self.file.write_all(kept) {
            tracing::warn!(%problem, "output of a background command is lost");
            // After a failed write, the rest of the output is not written.
            self.room = 0;
        }
    }

    fn close(mut self, words: &str) {
        let cut = if self.room == 0 { "[the rest of the output was not kept]\n" } else { "" };
        if let Err(problem) = write!(self.file, "\n{cut}[{words}]\n") {
            tracing::warn!(%problem, "the end of a background command is not in its output");
        }
    }
}

/// Records the processes that a command left running, including processes without pitcrew's tags in
/// their environment. Returns a text that names the processes without these tags, if they were not
/// recorded before. Otherwise returns `None`.
async fn note_left(
    escapes: Option<&LeftRunningLog>,
    command: &str,
    group: Option<&ProcessGroup>,
) -> Option<String> {
    let tagged = group.map(ProcessGroup::members).unwrap_or_default();
    let words = (escapes?)(command.to_owned(), tagged.to_vec()).await;
    (!words.is_empty()).then(|| {
        format!("left running outside its session: {}; it ends with this run", words.join(", "))
    })
}

/// The data that the tokio task of a background command needs.
struct Attendance {
    command: String,
    escapes: Option<LeftRunningLog>,
    limits: ToolLimits,
    stop: CancellationToken,
    tell: watch::Sender<ShellState>,
}

impl Attendance {
    /// Writes the output of a background command to its file, and waits until the command ends.
    async fn attend(self, job: Job, mut kept: KeptOutput) {
        let Self { command, escapes, limits, stop, tell } = self;
        let ended = job.run(None, limits.stop_grace, &stop, |_, bytes| kept.push(bytes)).await;
        let (state, mut words) = match &ended {
            Ok(Ended { ending, .. }) => match ending {
                Ending::Exited(_) => {
                    let code = ending.exit_code();
                    (
                        ShellState::Exited(code),
                        format!("ended with exit code {}", code.unwrap_or(-1)),
                    )
                }
                Ending::DeadlinePassed | Ending::Cancelled => {
                    (ShellState::Stopped, "stopped".to_owned())
                }
            },
            Err(problem) => (ShellState::Exited(None), format!("lost: {problem}")),
        };
        let left_behind = ended.ok().and_then(|ended| ended.left_behind);
        if let Some(left) = note_left(escapes.as_ref(), &command, left_behind.as_ref()).await {
            words = format!("{words}; {left}");
        }
        // The output file must be complete before anybody learns that the command has ended. After
        // that, `note_end` can append a line to the file.
        kept.close(&words);
        tell.send_replace(state);
        if let Some(group) = left_behind {
            // A process that the command left running can be a daemon that was meant to continue.
            // If the command was stopped, this process is stopped now. Otherwise it is stopped when
            // the command is removed from the list, at the latest when the agent ends.
            stop.cancelled().await;
            group.stop_left_behind(limits.stop_grace).await;
        }
    }
}
