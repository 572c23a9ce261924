//! The records of worktrees: all that pitcrew must remember about the worktrees of a repository.
//!
//! They lie below pitcrew's own root, in `<root>/pitcrew/repositories/<key>/`, where no command of
//! an agent can write:
//!
//! - `repository.json` names the repository, for a person who looks into the folder.
//! - `lock` is locked by the process that creates or removes worktrees of the repository.
//! - `worktrees/<key>.json` is one record for each worktree.
//!
//! Nothing of this is ever read from the repository. The author of an unpacked archive, or a
//! command that works in a checkout, could write anything there.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Worktree, WorktreeError, in_background, real};
use crate::given_file::{Refused, contents};
use crate::handle::{Folder, Unopened};
use crate::own_mode::{self, FILE_MODE};

/// The name of the file that names the repository.
const REPOSITORY: &str = "repository.json";

/// The name of the lock file.
const LOCK: &str = "lock";

/// The name of the folder with one record for each worktree.
const WORKTREES: &str = "worktrees";

/// The beginning of the name of a file that is being written.
const UNFINISHED: &str = ".pitcrew-";

/// Maximum size of a record in bytes. It contains two paths and a few names.
const MOST_BYTES: u64 = 64 * 1024;

/// Number of bytes of a digest that are part of a file name. So many are never equal by chance.
const KEY_BYTES: usize = 16;

/// Maximum time to wait for the lock. Other members may get their worktrees first, and for each of
/// them git may copy large files.
const WAIT_AT_MOST: Duration = Duration::from_secs(300);

/// Pause between two attempts to take the lock. The pause is short compared with the time of a git
/// command.
const PAUSE: Duration = Duration::from_millis(10);

/// The state of a worktree in its record. A state other than `Made` is the work of the process that
/// holds the lock. If nobody holds the lock, that process has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Stage {
    /// The worktree is being created. Nobody has worked in it yet.
    Creating,
    /// The worktree exists.
    Made,
    /// The worktree is being removed, because no work in it would be lost.
    Removing,
}

/// What pitcrew remembers about one worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) stage: Stage,
    /// The folder of the worktree, with symbolic links resolved.
    pub(super) path: PathBuf,
    pub(super) team: String,
    pub(super) member: String,
    pub(super) branch: String,
    /// The commit at which the worktree's branch started.
    pub(super) start: String,
    /// The branch that was checked out in the repository's own checkout when the worktree was
    /// created, as a full reference. `None` if no branch was checked out (detached HEAD).
    pub(super) base: Option<String>,
    /// The folder in which git stores data about the worktree. `None` while the worktree is being
    /// created, because git chooses the folder.
    pub(super) admin: Option<PathBuf>,
}

impl Record {
    pub(super) fn worktree(&self) -> Worktree {
        Worktree {
            path: self.path.clone(),
            branch: self.branch.clone(),
            team: self.team.clone(),
            member: self.member.clone(),
        }
    }
}

/// The records that a repository has, and the files that should be records and cannot be read.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) readable: Vec<Record>,
    pub(super) unreadable: Vec<(PathBuf, Refused)>,
}

/// The identity of a repository, for a person who reads the file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    /// The git folder that all worktrees of the repository share.
    path: &'a Path,
    device: u64,
    inode: u64,
    /// The time at which this git folder was created, in nanoseconds since 1970.
    born_ns: Option<u128>,
}

impl<'a> Identity<'a> {
    fn of(path: &'a Path, metadata: &Metadata) -> Self {
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Self {
            path,
            device: metadata.dev(),
            inode: metadata.ino(),
            born_ns: born.map(|born| born.as_nanos()),
        }
    }

    /// Returns the name of the folder for the records of the repository. Another repository that
    /// is later created at the same path has another key. File systems use the numbers of deleted
    /// files again, so the time of creation counts too. A device can have another number after each
    /// start of the machine, so it counts only on a file system that does not tell that time.
    fn key(&self) -> String {
        let born = match self.born_ns {
            Some(born) => format!("born {born}"),
            None => format!("on {}", self.device),
        };
        let numbers = format!("{} {born} ", self.inode);
        key(&[numbers.as_bytes(), self.path.as_os_str().as_bytes()])
    }
}

/// The part of `repository.json` that is read again.
#[derive(Debug, Deserialize)]
struct Named {
    path: PathBuf,
}

/// The records of one repository.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    /// The git folder that all worktrees of the repository share, with symbolic links resolved.
    common: PathBuf,
    /// The folder with the records, with symbolic links resolved.
    folder: PathBuf,
}

impl Repository {
    /// Finds the records of the repository with the git folder `common`. `records` is the folder
    /// for the records of all repositories. Nothing on disk changes.
    pub(super) fn of(records: &Path, common: &Path) -> Result<Self, WorktreeError> {
        let failed = |source| WorktreeError::io("find", common)(source);
        let common = fs::canonicalize(common).map_err(failed)?;
        let key = Identity::of(&common, &fs::metadata(&common).map_err(failed)?).key();
        Ok(Self { common, folder: real(records).join(key) })
    }

    /// Returns the records of all repositories that are gone, or in whose place there is another
    /// one. Each comes with the path of the repository.
    pub(super) fn records_of_gone(records: &Path) -> Vec<(PathBuf, Record)> {
        let all = real(records);
        let names = Folder::open(&all).and_then(|folder| folder.list()).unwrap_or_default();
        let mut found = Vec::new();
        for (name, _kind) in names {
            let folder = all.join(name);
            let named = Folder::open(&folder).map_err(Refused::Io);
            let named = named.and_then(|it| read_json(&it, OsStr::new(REPOSITORY)));
            let Ok(Named { path }) = named else { continue };
            if Self::of(records, &path).is_ok_and(|it| it.folder == folder) {
                continue;
            }
            let gone = Self { common: path.clone(), folder };
            let readable = gone.all().unwrap_or_default().readable.into_iter();
            found.extend(readable.map(|record| (path.clone(), record)));
        }
        found
    }

    pub(super) fn common(&self) -> &Path {
        &self.common
    }

    /// Whether pitcrew has ever created a worktree of the repository.
    pub(super) fn is_known(&self) -> bool {
        self.folder.is_dir()
    }

    /// Reads all records, sorted by the paths of the worktrees.
    pub(super) fn all(&self) -> Result<Records, WorktreeError> {
        let path = self.folder.join(WORKTREES);
        let listed = Folder::open(&path).and_then(|folder| Ok((folder.list()?, folder)));
        let (names, folder) = match listed {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Records::default()),
            Err(error) => return Err(WorktreeError::io("list", &path)(error)),
        };
        let mut records = Records::default();
        for (name, _kind) in names {
            if !name.as_bytes().ends_with(b".json") {
                continue;
            }
            match read_json(&folder, &name) {
                Ok(record) => records.readable.push(record),
                // Another process has removed its worktree meanwhile.
                Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(refused) => records.unreadable.push((path.join(&name), refused)),
            }
        }
        records.readable.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(records)
    }

    /// Waits for the lock on the repository's worktrees.
    ///
    /// A process can hold this lock while it runs several git commands. Git's own locks are not
    /// enough: git does not wait for them, so if two git commands run at the same time, one of them
    /// fails.
    pub(super) async fn lock(self) -> Result<Turn, WorktreeError> {
        let shown = self.folder.clone();
        let take = move || {
            let file = self.prepared().map_err(WorktreeError::io("prepare", &self.folder))?;
            wait_for(&file).map_err(WorktreeError::io("lock", &self.folder.join(LOCK)))?;
            let turn = Turn { _file: file, repository: self };
            turn.clear_unfinished();
            Ok(turn)
        };
        in_background("lock", &shown, take).await
    }

    /// Whether a process creates or removes a worktree of the repository now.
    pub(super) fn is_locked(&self) -> bool {
        let opened = Folder::open(&self.folder).map_err(Unopened::Io);
        let opened = opened.and_then(|folder| folder.file(OsStr::new(LOCK)));
        opened.is_ok_and(|(file, _)| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Creates the folders and the lock file if they are missing. Returns the open lock file.
    fn prepared(&self) -> io::Result<File> {
        own_mode::create_folders(&self.folder.join(WORKTREES))?;
        let folder = Folder::open(&self.folder)?;
        if folder.stat(OsStr::new(REPOSITORY)).is_err() {
            let identity = Identity::of(&self.common, &fs::metadata(&self.common)?);
            write_json(&self.folder, REPOSITORY, &identity)?;
        }
        folder.file_to_append(OsStr::new(LOCK), FILE_MODE).map_err(|unopened| match unopened {
            Unopened::Io(error) => error,
            Unopened::NotPlain(_) => io::Error::other(unopened),
        })
    }
}

/// The lock on a repository's worktrees, held by one task of this process. Only its holder changes
/// records. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct Turn {
    _file: File,
    repository: Repository,
}

impl Turn {
    pub(super) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Writes the record of a worktree, durably: after a crash there is the old or the new one.
    pub(super) fn write(&self, record: &Record) -> Result<(), WorktreeError> {
        let folder = self.repository.folder.join(WORKTREES);
        let name = file_of(&record.path);
        write_json(&folder, &name, record).map_err(WorktreeError::io("write", &folder.join(&name)))
    }

    /// Removes the record of a worktree that is gone.
    pub(super) fn forget(&self, record: &Record) -> Result<(), WorktreeError> {
        let file = self.repository.folder.join(WORKTREES).join(file_of(&record.path));
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorktreeError::io("remove", &file)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the files of writes that a crash interrupted. Nobody else writes now.
    fn clear_unfinished(&self) {
        for folder in [self.repository.folder.clone(), self.repository.folder.join(WORKTREES)] {
            let names = Folder::open(&folder).and_then(|folder| folder.list()).unwrap_or_default();
            for (name, _kind) in names {
                if name.as_bytes().starts_with(UNFINISHED.as_bytes()) {
                    // A file that stays is harmless: it is no record.
                    let _ = fs::remove_file(folder.join(name));
                }
            }
        }
    }
}

/// Waits for the lock on the file, for a limited time. The limit is needed because any process that
/// can read the file can lock it.
fn wait_for(file: &File) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < WAIT_AT_MOST => {
                thread::sleep(PAUSE)
            }
            Err(TryLockError::WouldBlock) => {
                let waited = WAIT_AT_MOST.as_secs();
                return Err(io::Error::other(format!(
                    "another process has held the lock for {waited} s"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns the name of the file with the record of the worktree at a path.
fn file_of(worktree: &Path) -> String {
    format!("{}.json", key(&[worktree.as_os_str().as_bytes()]))
}

fn key(parts: &[&[u8]]) -> String {
    let digest = parts.iter().fold(Sha256::new(), |digest, part| digest.chain_update(part));
    digest.finalize().iter().take(KEY_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

fn read_json<T: DeserializeOwned>(folder: &Folder, name: &OsStr) -> Result<T, Refused> {
    let (file, _) = folder.file(name)?;
    serde_json::from_slice(&contents(file, MOST_BYTES)?)
        .map_err(|error| Refused::Io(io::Error::new(io::ErrorKind::InvalidData, error)))
}

fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    // Sync the folder too, so that the new name survives a power failure.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(base: &Path) -> Repository {
        fs::create_dir_all(base.join("repository/.git")).unwrap();
        Repository::of(&base.join("root/repositories"), &base.join("repository/.git")).unwrap()
    }

    fn record(path: &Path) -> Record {
        Record {
            stage: Stage::Made,
            path: path.to_owned(),
            team: "probe".to_owned(),
            member: "bob".to_owned(),
            branch: "pitcrew/probe/bob".to_owned(),
            start: "0".repeat(40),
            base: None,
            admin: None,
        }
    }

    #[tokio::test]
    async fn a_record_is_read_as_it_was_written_and_is_gone_when_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let known = repository(dir.path());
        assert!(!known.is_known() && known.all().unwrap().readable.is_empty());
        let turn = known.clone().lock().await.unwrap();
        assert!(known.is_locked());
        let (one, other) = (record(Path::new("/w/a")), record(Path::new("/w/b")));
        turn.write(&other).unwrap();
        turn.write(&one).unwrap();
        assert_eq!(known.all().unwrap().readable, [one.clone(), other.clone()]);
        let removing = Record { stage: Stage::Removing, ..one.clone() };
        turn.write(&removing).unwrap();
        assert_eq!(known.all().unwrap().readable, [removing, other.clone()]);
        turn.forget(&one).unwrap();
        turn.forget(&one).unwrap();
        assert_eq!(known.all().unwrap().readable, [other]);
        drop(turn);
        assert!(!known.is_locked());
    }

    #[tokio::test]
    async fn another_repository_at_the_same_path_has_no_records() {
        let dir = tempfile::tempdir().unwrap();
        let first = repository(dir.path());
        let turn = first.clone().lock().await.unwrap();
        turn.write(&record(Path::new("/w/a"))).unwrap();
        assert_eq!(repository(dir.path()).all().unwrap().readable.len(), 1, "the same repository");
        // The file system may give the number of the removed folder to the new one.
        fs::remove_dir_all(dir.path().join("repository")).unwrap();
        let second = repository(dir.path());
        assert_eq!(second.common(), first.common());
        assert!(!second.is_known() && second.all().unwrap().readable.is_empty());
        let records = dir.path().join("root/repositories");
        let of_gone = Repository::records_of_gone(&records);
        assert_eq!(of_gone, [(first.common().to_owned(), record(Path::new("/w/a")))]);
        drop(second.lock().await.unwrap());
        assert_eq!(Repository::records_of_gone(&records), of_gone);
    }

    #[tokio::test]
    async fn what_is_no_record_is_named_and_what_a_crash_left_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let known = repository(dir.path());
        drop(known.clone().lock().await.unwrap());
        let folder = known.folder.join(WORKTREES);
        fs::write(folder.join("junk.json"), "{").unwrap();
        fs::write(folder.join(".pitcrew-cut"), "{").unwrap();
        File::create(folder.join("long.json")).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("zero.json")).unwrap();
        let records = known.all().unwrap();
        let named: Vec<_> = records
            .unreadable
            .iter()
            .map(|(path, _)| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            (records.readable.len(), named),
            (0, vec!["junk.json", "long.json", "zero.json"])
        );
        drop(known.lock().await.unwrap());
        assert!(!folder.join(".pitcrew-cut").exists() && folder.join("junk.json").exists());
    }

    #[tokio::test]
    async fn a_lock_file_that_is_no_plain_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let known = repository(dir.path());
        drop(known.clone().lock().await.unwrap());
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        fs::remove_file(known.folder.join(LOCK)).unwrap();
        std::os::unix::fs::symlink(&victim, known.folder.join(LOCK)).unwrap();
        assert!(known.lock().await.is_err());
        assert_eq!(fs::read_to_string(victim).unwrap(), "kept");
    }
}
