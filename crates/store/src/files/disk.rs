//! Getting bytes to the disk: temporary file, fsync, rename, fsync of the folder, and the reading that goes with it.
//!
//! Knows nothing of teams and takes no locks; `update` puts the two together.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::flock::{self, Access};
use super::lock::{Lock, LockWait};
use super::plain::{self, Unopened};
use super::{rename, unfinished};
use crate::{StoreError, own_mode};

/// How sure a write must be before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Forced to disk: survives a power cut.
    #[default]
    Disk,
    /// Handed to the system: survives `kill -9`, not a power cut.
    Process,
}

/// How a file backend behaves.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// How sure a write must be.
    pub durability: Durability,
    /// Is told when a lock is waited for that may be held for seconds.
    pub on_wait: Option<OnWait>,
    /// Learns of each task file that cannot be read and is left out of the task list; once for each state of the file.
    pub on_passed_over: Option<OnPassedOver>,
    /// Learns that a journal cannot be written.
    pub on_unrecorded: Option<OnUnrecorded>,
    /// Learns of a file that takes long to be looked at.
    pub on_long_read: Option<OnLongRead>,
    /// Kills this process (SIGKILL) at the n-th crash point it passes, counted from 1; for kill sweeps in tests.
    ///
    /// An inbox, config or document passes `temp written`, `locked`, `renamed`, `lock given back`, `folder forced`; an edit
    /// of tasks `temp written` for each file, `list locked`, `high water mark raised`, `task replaced` and `task removed`
    /// for each, `list unlocked`; a line of a journal or log `line to append`, `line appended`, `line forced`; a checkpoint of a
    /// journal `temp written`, `checkpoint written`; a new team
    /// `temp written`, `team filled`, `leftovers moved`, `task list made`, `team in place`; an archived one
    /// `team archived`, `tasks archived`; a rate `slot taken`. Each is traced (level `TRACE`) with its number.
    #[cfg(feature = "crash-points")]
    pub crash_at: Option<u64>,
}

/// Who is told of waiting for a lock.
#[derive(Clone)]
pub struct OnWait(pub Arc<dyn Fn(&LockWait) + Send + Sync>);

impl std::fmt::Debug for OnWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnWait")
    }
}

/// A task file that cannot be read and is left out of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Who learns of a task file that is left out.
#[derive(Clone)]
pub struct OnPassedOver(pub Arc<dyn Fn(&PassedOver) + Send + Sync>);

impl std::fmt::Debug for OnPassedOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnPassedOver")
    }
}

/// Who learns that a journal cannot be written, such as one that is too long. What the journal would have told is done.
#[derive(Clone)]
pub struct OnUnrecorded(pub Arc<dyn Fn(&StoreError) + Send + Sync>);

impl std::fmt::Debug for OnUnrecorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnUnrecorded")
    }
}

/// A file that takes long to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongRead {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// Who learns of a file that takes long to be looked at, before it is read.
#[derive(Clone)]
pub struct OnLongRead(pub Arc<dyn Fn(&LongRead) + Send + Sync>);

impl std::fmt::Debug for OnLongRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnLongRead")
    }
}

/// A log that is longer takes a second or more to be looked at.
const LONG_READ: u64 = 16 * 1024 * 1024;

impl FileOptions {
    /// Options with that durability and nothing else.
    #[must_use]
    pub fn new(durability: Durability) -> Self {
        Self {
            durability,
            on_wait: None,
            on_passed_over: None,
            on_unrecorded: None,
            on_long_read: None,
            #[cfg(feature = "crash-points")]
            crash_at: None,
        }
    }
}

/// Within this time of its last change a file may change again without a new time stamp: the coarsest clock of a file
/// system we know ticks every 10 ms.
const STAMP_DOUBT: Duration = Duration::from_millis(20);

/// The same for a time stamp of whole seconds: FAT counts in steps of 2 s, and some network file systems in seconds.
const COARSE_STAMP_DOUBT: Duration = Duration::from_millis(2100);

/// What all temporary files of ours begin and end with; a crash may leave one, and `doctor` takes it away.
pub(crate) const TEMP_PREFIX: &str = ".pitcrew-";
pub(crate) const TEMP_SUFFIX: &str = ".tmp";

/// The disk, as one store sees it.
#[derive(Debug)]
pub(crate) struct Disk {
    options: FileOptions,
    forced: AtomicU64,
    is_unrecorded_told: AtomicBool,
    #[cfg(feature = "crash-points")]
    passed: AtomicU64,
}

/// What tells one state of a file from another without reading it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct Stamp {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i128,
    /// When the file was made, where the system tells: a new file may get the number of one that was just replaced.
    pub(crate) born_ns: Option<i128>,
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stamp: Stamp,
    mode: u32,
    /// The file had just changed when it was read, so an equal stamp proves nothing.
    doubtful: bool,
}

/// A temporary file beside its target; removed unless it was renamed.
#[derive(Debug)]
pub(crate) struct Temp {
    path: PathBuf,
    stamp: Stamp,
    renamed: bool,
    /// Locked until the file is renamed or removed, as a sign that its writer lives.
    _guard: File,
}

impl Stamp {
    pub(crate) fn of(meta: &fs::Metadata) -> Self {
        let mtime_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|born| i128::try_from(born.as_nanos()).ok());
        Self { dev: meta.dev(), ino: meta.ino(), size: meta.len(), mtime_ns, born_ns }
    }

    /// Whether the other state is of the very same file, changed in place.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.born_ns) == (other.dev, other.ino, other.born_ns)
    }

    /// Whether the file changed so shortly before now that its next change may get the same stamp.
    pub(crate) fn is_fresh(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        let is_coarse = self.mtime_ns % 1_000_000_000 == 0;
        let doubt = if is_coarse { COARSE_STAMP_DOUBT } else { STAMP_DOUBT };
        let doubt_ns = i128::try_from(doubt.as_nanos()).unwrap_or(0);
        now_ns - self.mtime_ns < doubt_ns
    }
}

impl Disk {
    pub(crate) fn new(options: FileOptions) -> Self {
        Self {
            options,
            forced: AtomicU64::new(0),
            is_unrecorded_told: AtomicBool::new(false),
            #[cfg(feature = "crash-points")]
            passed: AtomicU64::new(0),
        }
    }

    /// How many times a file or a folder was forced to disk.
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// A place where a crash must lose and double nothing. Does nothing unless built with `crash-points`.
    #[cfg_attr(
        not(feature = "crash-points"),
        expect(clippy::unused_self, reason = "counts with `crash-points` only")
    )]
    pub(crate) fn crash_point(&self, name: &'static str) {
        #[cfg(feature = "crash-points")]
        {
            let nth = self.passed.fetch_add(1, Ordering::SeqCst) + 1;
            tracing::trace!(name, nth, "crash point");
            if self.options.crash_at == Some(nth) {
                let killed = rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                );
                tracing::error!(?killed, "the process outlived its kill");
            }
        }
        #[cfg(not(feature = "crash-points"))]
        let _ = name;
    }

    /// How many crash points were passed.
    #[cfg(feature = "crash-points")]
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Takes the lock of `file`; waiting for it is told to whom it concerns.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub(crate) fn lock(&self, file: &Path) -> Result<Lock, StoreError> {
        Lock::take(file, |wait| self.tell_wait(wait))
    }

    /// Takes the system's lock on an open file of ours; waiting for it is told to whom it concerns.
    ///
    /// # Errors
    /// As [`flock::lock`].
    pub(crate) fn flock(&self, file: &File, path: &Path, access: Access) -> Result<(), StoreError> {
        flock::lock(file, path, access, |wait| self.tell_wait(wait))
    }

    /// Tells of a wait for a lock.
    pub(crate) fn tell_wait(&self, wait: &LockWait) {
        if let Some(OnWait(tell)) = &self.options.on_wait {
            tell(wait);
        }
    }

    /// Tells that a journal cannot be written; once, since the next line fails in the same way. A folder that is gone took
    /// its team with it, which others tell.
    pub(crate) fn tell_unrecorded(&self, error: &StoreError) {
        let is_gone = matches!(error, StoreError::Io { source, .. } if is_absent(source));
        if let Some(OnUnrecorded(tell)) = &self.options.on_unrecorded
            && !is_gone
            && !self.is_unrecorded_told.swap(true, Ordering::Relaxed)
        {
            tell(error);
        }
    }

    /// Tells of a file that is about to be looked at when that takes long.
    pub(crate) fn tell_reading(&self, path: &Path, bytes: u64) {
        if let Some(OnLongRead(tell)) =
            self.options.on_long_read.as_ref().filter(|_| bytes > LONG_READ)
        {
            tell(&LongRead { path: path.to_owned(), bytes });
        }
    }

    /// Says that a task file is left out of the list.
    pub(crate) fn tell_passed_over(&self, path: &Path, reason: &str) {
        tracing::warn!(path = %path.display(), reason, "a file among the tasks cannot be read and is passed over");
        if let Some(OnPassedOver(tell)) = &self.options.on_passed_over {
            tell(&PassedOver { path: path.to_owned(), reason: reason.to_owned() });
        }
    }

    /// Forces a file's bytes to disk.
    pub(crate) fn force(&self, file: &File) -> io::Result<()> {
        if self.options.durability == Durability::Process {
            return Ok(());
        }
        self.forced.fetch_add(1, Ordering::Relaxed);
        file.sync_data()
    }

    /// Forces a folder's entries to disk.
    pub(crate) fn force_dir(&self, dir: &Path) -> Result<(), StoreError> {
        if self.options.durability == Durability::Process {
            return Ok(());
        }
        self.forced.fetch_add(1, Ordering::Relaxed);
        let open = File::open(dir).map_err(failed("force to disk", dir))?;
        match open.sync_all() {
            // A file system that forces no folder keeps its names by its own means, or not at all.
            Err(error) if Errno::from_io_error(&error).is_some_and(rename::is_missing) => {
                tracing::debug!(path = %dir.display(), %error, "the file system forces no folders");
                Ok(())
            }
            done => done.map_err(failed("force to disk", dir)),
        }
    }

    /// Writes `bytes` to a temporary file beside `target`, forced to disk; `mode` is that of the file which it replaces.
    ///
    /// # Errors
    /// [`StoreError::Io`]; also for more bytes than anybody would read back.
    pub(crate) fn write_temp(
        &self,
        target: &Path,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> Result<Temp, StoreError> {
        if bytes.len() as u64 > plain::FILE_MOST {
            let message = format!(
                "it would be {} bytes long; at most {} are read",
                bytes.len(),
                plain::FILE_MOST
            );
            return Err(failed("write", target)(io::Error::new(
                io::ErrorKind::FileTooLarge,
                message,
            )));
        }
        let dir = target.parent().unwrap_or(target);
        let (path, mut file, guard) = make_temp(dir).map_err(failed("create a file in", dir))?;
        let stamp = Stamp { dev: 0, ino: 0, size: 0, mtime_ns: 0, born_ns: None };
        let mut temp = Temp { path, stamp, renamed: false, _guard: guard };
        let written = file.write_all(bytes).and_then(|()| {
            let meta = file.metadata()?;
            temp.stamp = Stamp::of(&meta);
            match mode {
                Some(mode) if mode & 0o777 != meta.mode() & 0o777 => {
                    file.set_permissions(fs::Permissions::from_mode(mode & 0o777))
                }
                Some(_) | None => Ok(()),
            }
        });
        written.and_then(|()| self.force(&file)).map_err(failed("write", target))?;
        self.crash_point("temp written");
        Ok(temp)
    }

    /// Puts a new file in place for good.
    pub(crate) fn create(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_temp(path, bytes, None)?.rename(path)?;
        Ok(())
    }
}

/// Makes a temporary file and locks it.
fn make_temp(dir: &Path) -> io::Result<(PathBuf, File, File)> {
    loop {
        let path = dir.join(format!("{TEMP_PREFIX}{}{TEMP_SUFFIX}", uuid::Uuid::new_v4().simple()));
        let file = own_mode::file_options().write(true).create_new(true).open(&path)?;
        // Between being made and being locked it looks like a dead writer's, and may be swept.
        match unfinished::guard(&path) {
            Ok(Some(guard)) => return Ok((path, file, guard)),
            Ok(None) => {}
            Err(error) => {
                // Out of descriptors, mostly; the first failure is the one to tell.
                let _stays = fs::remove_file(&path);
                return Err(error);
            }
        }
    }
}

impl Temp {
    /// Puts the file in its target's place; the caller forces the folder. Gives the stamp the target has now.
    pub(crate) fn rename(mut self, target: &Path) -> Result<Stamp, StoreError> {
        fs::rename(&self.path, target).map_err(failed("replace", target))?;
        self.renamed = true;
        Ok(self.stamp)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.renamed
            && let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "a temporary file stays behind");
        }
    }
}

impl Snapshot {
    /// The permissions the file had.
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether an equal stamp proves that the file is as it was read.
    pub(crate) fn is_settled(&self) -> bool {
        !self.doubtful
    }

    /// Reads a file whole; `None` when it is not there.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        Self::of(plain::open(path), path)
    }

    /// Reads a file of an open folder, which spares the way there; `folder` is that folder's path.
    pub(crate) fn read_in(
        dir: &File,
        folder: &Path,
        name: &str,
    ) -> Result<Option<Self>, StoreError> {
        let flags = OFlags::RDONLY | plain::CAREFUL;
        let file = openat(dir, name, flags, Mode::empty()).map(File::from).map_err(io::Error::from);
        Self::of(plain::checked(file), &folder.join(name))
    }

    fn of(file: Result<File, Unopened>, path: &Path) -> Result<Option<Self>, StoreError> {
        match file {
            Ok(file) => Self::of_open(file, path).map(Some),
            Err(Unopened::Failed(error)) if is_absent(&error) => Ok(None),
            Err(error) => Err(error.at("read", path)),
        }
    }

    fn of_open(mut file: File, path: &Path) -> Result<Self, StoreError> {
        loop {
            // Stamped before it is read: what changes in between shows as a change later.
            let meta = file.metadata().map_err(failed("read", path))?;
            plain::check_length(path, meta.len(), plain::FILE_MOST)?;
            let size = usize::try_from(meta.len()).unwrap_or(0);
            let mut bytes = vec![0; size + 1];
            let read = read_full(&mut file, &mut bytes).map_err(failed("read", path))?;
            if read == size {
                bytes.truncate(size);
                let stamp = Stamp::of(&meta);
                return Ok(Self { bytes, stamp, mode: meta.mode(), doubtful: stamp.is_fresh() });
            }
            io::Seek::rewind(&mut file).map_err(failed("read", path))?;
        }
    }

    /// Whether the file still is what was read; `before` is `None` when it was not there.
    pub(crate) fn still_holds(before: Option<&Self>, path: &Path) -> Result<bool, StoreError> {
        let now = match fs::symlink_metadata(path) {
            Ok(meta) => Some(Stamp::of(&meta)),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(failed("look at", path)(error)),
        };
        match (before, now) {
            (None, None) => Ok(true),
            (Some(before), Some(now)) if before.stamp == now => {
                Ok(!before.doubtful || Self::read(path)?.is_some_and(|s| s.bytes == before.bytes))
            }
            (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => Ok(false),
        }
    }
}

/// Reads until the end of the file or of the room; a short read of a regular file is its end.
fn read_full(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether the error says that the file, or a folder on the way to it, is not there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Makes a [`StoreError::Io`] of what the system said.
pub(crate) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { action, path: path.to_owned(), source }
}

/// Makes a folder and those above it, if they are not there.
pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    own_mode::create_folders(path).map_err(failed("create", path))
}

/// Removes a file if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_that_nobody_would_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let most = usize::try_from(plain::FILE_MOST).unwrap();
        let refused = Disk::new(FileOptions::default()).write_temp(
            &dir.path().join("a.json"),
            &vec![0; most + 1],
            None,
        );
        let Err(StoreError::Io { source, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(source.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
