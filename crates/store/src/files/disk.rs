//! Durable writes (temporary file, fsync, rename, fsync of the folder) and the matching reads.
//!
//! This module does not know what a team is. Its callers, such as the module `update`, decide when
//! a lock is needed.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pitcrew_process::file_lock;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::flock::{self, Access};
use super::lock::{Lock, LockWait};
use super::plain::{self, Unopened};
use super::{rename, unfinished};
use crate::{StoreError, own_mode};

/// How durable a write must be before the store reports success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The data is forced to disk (fsync), so it survives a power cut.
    #[default]
    Disk,
    /// The data is passed to the operating system. It survives `kill -9` but not a power cut.
    Process,
}

/// Options of a file backend.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// How durable each write must be.
    pub durability: Durability,
    /// Callback for a wait on a lock that another process possibly holds for seconds.
    pub on_wait: Option<OnWait>,
    /// Callback for an unreadable task file that is missing in the task list for this reason. It is
    /// called once for each new state of the file.
    pub on_passed_over: Option<OnPassedOver>,
    /// Callback for a journal that cannot be written.
    pub on_unrecorded: Option<OnUnrecorded>,
    /// Callback that runs before the store reads a file that takes long to read.
    pub on_long_read: Option<OnLongRead>,
    /// Kills this process (SIGKILL) at the n-th crash point that it passes, counted from 1. Tests
    /// use this option to kill the process at every crash point in turn.
    ///
    /// The most important crash points, by operation:
    ///
    /// - a write to an inbox, a config or a document: `temp written`, `locked`, `renamed`, `lock
    ///   given back`, `folder forced`
    /// - an edit of tasks: `temp written` for each file, `list locked`, `high water mark raised`,
    ///   `task replaced` and `task removed` for each task, `list unlocked`
    /// - an append to a journal or a log: `line to append`, `line appended`, `line forced`
    /// - a checkpoint of a journal: `temp written`, `checkpoint written`
    /// - a new team: `temp written`, `team filled`, `leftovers moved`, `task list made`, `team in
    ///   place`
    /// - archiving a team: `team archived`, `tasks archived`
    /// - a rate limit: `slot taken`
    ///
    /// Each crash point is traced (level `TRACE`) with its number.
    #[cfg(feature = "crash-points")]
    pub crash_at: Option<u64>,
}

/// A callback that is called when the store waits for a lock.
#[derive(Clone)]
pub struct OnWait(pub Arc<dyn Fn(&LockWait) + Send + Sync>);

impl std::fmt::Debug for OnWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnWait")
    }
}

/// An unreadable task file that is missing in the task list for this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The path of the task file.
    pub path: PathBuf,
    /// A description of the fault in the file.
    pub reason: String,
}

/// A callback for an unreadable task file that is missing in the task list.
#[derive(Clone)]
pub struct OnPassedOver(pub Arc<dyn Fn(&PassedOver) + Send + Sync>);

impl std::fmt::Debug for OnPassedOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnPassedOver")
    }
}

/// A callback for a journal that cannot be written, for example because it is too long. The action
/// that should be recorded has succeeded nevertheless.
#[derive(Clone)]
pub struct OnUnrecorded(pub Arc<dyn Fn(&StoreError) + Send + Sync>);

impl std::fmt::Debug for OnUnrecorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnUnrecorded")
    }
}

/// A file that takes long to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongRead {
    /// The path of the file.
    pub path: PathBuf,
    /// The length of the file in bytes.
    pub bytes: u64,
}

/// A callback for a file that takes long to read, called before the read.
#[derive(Clone)]
pub struct OnLongRead(pub Arc<dyn Fn(&LongRead) + Send + Sync>);

impl std::fmt::Debug for OnLongRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnLongRead")
    }
}

/// File length in bytes above which the read of a log takes a second or more.
const LONG_READ: u64 = 16 * 1024 * 1024;

impl FileOptions {
    /// Returns options with the given durability and without callbacks.
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

/// Longest time that a client needs for writing a file in place, even on a very busy machine. A file
/// that is damaged and older is damaged for good.
pub(crate) const WRITING_MOST: Duration = Duration::from_secs(10);

/// Time for which a changed file can change again and still get the same time stamp. The coarsest
/// file system clock that we know ticks every 10 ms.
const STAMP_DOUBT: Duration = Duration::from_millis(20);

/// Like `STAMP_DOUBT`, but for a time stamp in whole seconds: the time for which a changed file can
/// change again and still get the same time stamp. FAT counts in steps of 2 s, and some network
/// file systems count in steps of 1 s.
const COARSE_STAMP_DOUBT: Duration = Duration::from_millis(2100);

/// Prefix and suffix in the names of all temporary files of pitcrew. After a crash, such a file can
/// remain, and the command `doctor` removes it.
pub(crate) const TEMP_PREFIX: &str = ".pitcrew-";
pub(crate) const TEMP_SUFFIX: &str = ".tmp";

/// The disk operations of one store, with its options and counters.
#[derive(Debug)]
pub(crate) struct Disk {
    options: FileOptions,
    forced: AtomicU64,
    is_unrecorded_told: AtomicBool,
    #[cfg(feature = "crash-points")]
    passed: AtomicU64,
}

/// Metadata that shows whether a file has changed, without reading the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct Stamp {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i128,
    /// Creation time of the file, or `None` if the operating system does not report it. The
    /// creation time is needed because a new file can get the inode number of the file that it
    /// replaced.
    pub(crate) born_ns: Option<i128>,
}

/// The content and metadata of a file at the time of one read.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stamp: Stamp,
    mode: u32,
    /// Whether the file had changed just before the read. If so, the file could change again and
    /// still have an equal stamp (metadata).
    doubtful: bool,
}

/// A temporary file in the same folder as its target. Dropping this value removes the file, unless
/// the file was renamed to its target.
#[derive(Debug)]
pub(crate) struct Temp {
    path: PathBuf,
    stamp: Stamp,
    renamed: bool,
    /// An open file that holds a lock on the temporary file until the file is renamed or removed.
    /// The lock shows other processes that the writer is alive.
    _guard: File,
}

impl Stamp {
    pub(crate) fn of(meta: &fs::Metadata) -> Self {
        let mtime_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|born| i128::try_from(born.as_nanos()).ok());
        Self { dev: meta.dev(), ino: meta.ino(), size: meta.len(), mtime_ns, born_ns }
    }

    /// Whether `other` is a stamp of the same file (inode). The content of the file may differ.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.born_ns) == (other.dev, other.ino, other.born_ns)
    }

    /// Whether the file changed so long ago that nobody is still writing it.
    pub(crate) fn is_old(&self) -> bool {
        self.age_ns() >= i128::try_from(WRITING_MOST.as_nanos()).unwrap_or(i128::MAX)
    }

    /// The time since the last change. It is negative if the clock was set back since.
    fn age_ns(&self) -> i128 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i128::try_from(now.as_nanos()).unwrap_or(i128::MAX) - self.mtime_ns
    }

    /// Whether the file changed so recently that another change could leave the stamp equal.
    pub(crate) fn is_fresh(&self) -> bool {
        let is_coarse = self.mtime_ns % 1_000_000_000 == 0;
        let doubt = if is_coarse { COARSE_STAMP_DOUBT } else { STAMP_DOUBT };
        let doubt_ns = i128::try_from(doubt.as_nanos()).unwrap_or(0);
        self.age_ns() < doubt_ns
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

    /// Returns how many times a file or a folder was forced to disk (fsync).
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// Marks a place at which a crash must neither lose nor duplicate data. This function does
    /// nothing unless the feature `crash-points` is enabled.
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

    /// Returns how many crash points were passed.
    #[cfg(feature = "crash-points")]
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Takes the lock of `file`. Reports a long wait to the callback `on_wait`.
    ///
    /// # Errors
    /// The errors of [`Lock::take`].
    pub(crate) fn lock(&self, file: &Path) -> Result<Lock, StoreError> {
        Lock::take(file, |wait| self.tell_wait(wait))
    }

    /// Takes the kernel's file lock (flock) on an open file. Reports a long wait to the callback
    /// `on_wait`.
    ///
    /// # Errors
    /// The errors of [`flock::lock`].
    pub(crate) fn flock(&self, file: &File, path: &Path, access: Access) -> Result<(), StoreError> {
        flock::lock(file, path, access, |wait| self.tell_wait(wait))
    }

    pub(crate) fn tell_wait(&self, wait: &LockWait) {
        match &self.options.on_wait {
            Some(OnWait(tell)) => tell(wait),
            None => file_lock::report(wait),
        }
    }

    /// Reports that a journal cannot be written. Reports this only once, because the next line
    /// fails for the same reason. A missing folder is not reported here: it means that the team no
    /// longer exists, and other code reports that.
    pub(crate) fn tell_unrecorded(&self, error: &StoreError) {
        let is_gone = matches!(error, StoreError::Io { source, .. } if is_absent(source));
        if let Some(OnUnrecorded(tell)) = &self.options.on_unrecorded
            && !is_gone
            && !self.is_unrecorded_told.swap(true, Ordering::Relaxed)
        {
            tell(error);
        }
    }

    /// Reports a file to the callback `on_long_read` before it is read, if the read takes long.
    pub(crate) fn tell_reading(&self, path: &Path, bytes: u64) {
        if let Some(OnLongRead(tell)) =
            self.options.on_long_read.as_ref().filter(|_| bytes > LONG_READ)
        {
            tell(&LongRead { path: path.to_owned(), bytes });
        }
    }

    /// Reports an unreadable task file that is missing in the task list for this reason.
    pub(crate) fn tell_passed_over(&self, path: &Path, reason: &str) {
        tracing::warn!(path = %path.display(), reason, "a file in the tasks folder cannot be read and is ignored");
        if let Some(OnPassedOver(tell)) = &self.options.on_passed_over {
            tell(&PassedOver { path: path.to_owned(), reason: reason.to_owned() });
        }
    }

    /// Forces the content of a file to disk (fsync).
    pub(crate) fn force(&self, file: &File) -> io::Result<()> {
        if self.options.durability == Durability::Process {
            return Ok(());
        }
        self.forced.fetch_add(1, Ordering::Relaxed);
        file.sync_data()
    }

    /// Forces the entries of a folder to disk (fsync).
    pub(crate) fn force_dir(&self, dir: &Path) -> Result<(), StoreError> {
        if self.options.durability == Durability::Process {
            return Ok(());
        }
        self.forced.fetch_add(1, Ordering::Relaxed);
        let open = File::open(dir).map_err(failed("force to disk", dir))?;
        match open.sync_all() {
            // Some file systems support no fsync of folders. Such a file system makes file names
            // durable by other means, or does not make them durable.
            Err(error) if Errno::from_io_error(&error).is_some_and(rename::is_missing) => {
                tracing::debug!(path = %dir.display(), %error, "the file system forces no folders");
                Ok(())
            }
            done => done.map_err(failed("force to disk", dir)),
        }
    }

    /// Writes `bytes` to a temporary file in the folder of `target`, and forces it to disk. `mode`
    /// holds the permissions of the file that will be replaced, or `None` for a new file.
    ///
    /// # Errors
    /// [`StoreError::Io`], also if `bytes` are longer than the limit for reading a file.
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
                // Another client may have changed the permissions of the file. The new file keeps
                // these permissions.
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

    /// Creates or replaces a file by means of a temporary file that is forced to disk. The caller
    /// must force the folder to disk.
    pub(crate) fn create(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_temp(path, bytes, None)?.rename(path)?;
        Ok(())
    }
}

/// Creates a temporary file and locks it.
fn make_temp(dir: &Path) -> io::Result<(PathBuf, File, File)> {
    loop {
        let path = dir.join(format!("{TEMP_PREFIX}{}{TEMP_SUFFIX}", uuid::Uuid::new_v4().simple()));
        let file = own_mode::file_options().write(true).create_new(true).open(&path)?;
        // Until the temporary file is locked, it looks like the file of a dead writer, so another
        // process may remove it. In that case the loop creates a new file.
        match unfinished::guard(&path) {
            Ok(Some(guard)) => return Ok((path, file, guard)),
            Ok(None) => {}
            Err(error) => {
                // The temporary file cannot be locked, usually because no file descriptors are
                // left. This error is returned. A failure to remove the file is ignored.
                let _stays = fs::remove_file(&path);
                return Err(error);
            }
        }
    }
}

impl Temp {
    /// Renames the temporary file to its target and returns the stamp of the target. The caller
    /// must force the folder to disk.
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
    /// Returns the permissions of the file at the time of the read.
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether the stamp (metadata) is reliable: if the file has an equal stamp later, it has not
    /// changed since this read.
    pub(crate) fn is_settled(&self) -> bool {
        !self.doubtful
    }

    /// Reads a whole file. Returns `None` if the file does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        Self::of(plain::open(path), path)
    }

    /// Reads the file `name` in the open folder `dir`. This saves resolving the whole path again.
    /// `folder` is the path of the same folder.
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
            // The stamp is taken before the read. If the file changes during the read, a later
            // stamp differs and shows the change.
            let meta = file.metadata().map_err(failed("read", path))?;
            plain::check_length(path, meta.len(), plain::FILE_MOST)?;
            let size = usize::try_from(meta.len()).unwrap_or(0);
            // The buffer is one byte longer than the file. If the extra byte is filled, the file
            // grew after its size was read.
            let mut bytes = vec![0; size + 1];
            let read = read_full(&mut file, &mut bytes).map_err(failed("read", path))?;
            if read == size {
                bytes.truncate(size);
                let stamp = Stamp::of(&meta);
                return Ok(Self { bytes, stamp, mode: meta.mode(), doubtful: stamp.is_fresh() });
            }
            // The length of the file changed during the read, so the file is read again.
            io::Seek::rewind(&mut file).map_err(failed("read", path))?;
        }
    }

    /// Whether the file is unchanged since the read `before`. `before` is `None` if the file did
    /// not exist at that time.
    pub(crate) fn still_holds(before: Option<&Self>, path: &Path) -> Result<bool, StoreError> {
        let now = match fs::symlink_metadata(path) {
            Ok(meta) => Some(Stamp::of(&meta)),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(failed("look at", path)(error)),
        };
        match (before, now) {
            (None, None) => Ok(true),
            (Some(before), Some(now)) if before.stamp == now => {
                // If the file changed just before the read, an equal stamp is no proof. In that
                // case the bytes are compared.
                Ok(!before.doubtful || Self::read(path)?.is_some_and(|s| s.bytes == before.bytes))
            }
            (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => Ok(false),
        }
    }
}

/// Fills the buffer with one read call. The call is repeated only if a signal interrupts it. For a
/// regular file one call is enough: it reads fewer bytes only at the end of the file.
fn read_full(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether the error means that the file, or a folder on the path to it, does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns a function that wraps an error of the operating system into [`StoreError::Io`].
pub(crate) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { action, path: path.to_owned(), source }
}

/// Creates a folder and its missing parent folders.
pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    own_mode::create_folders(path).map_err(failed("create", path))
}

/// Removes a file if it exists.
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
