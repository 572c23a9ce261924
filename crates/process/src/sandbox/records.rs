//! The records of the protected places that sandboxed commands must leave as they were. Together,
//! the records below one configuration root are the list of what existed before the commands: for
//! all members of all teams, in all processes.
//!
//! A command that starts takes over the places of the commands that run already. Otherwise it would
//! take a file that another command has just created for one that existed before. Therefore a
//! sandboxed command leaves nothing at a protected place that was not there before the first of
//! several overlapping commands started, unless a person decided about it since then.
//!
//! A process holds one lock while it looks at the places and writes a record, while it checks the
//! places, and while it writes a file that a person allowed. The kernel releases the lock when the
//! process ends.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::decided::Decided;
use super::existing::{Contents, Existing};
use super::quarantine::Appeared;
use super::uncovered::Uncovered;
use crate::identity::ProcessIdentity;
use crate::own_mode;

/// Folder below the configuration root that contains the records and the lock.
const BELOW_ROOT: &str = "pitcrew/quarantine";

/// The name of the lock file. Each of its holders writes nothing into it.
const LOCK: &str = "lock";

/// The end of the name of a complete record.
const SUFFIX: &str = ".json";

/// Maximum size of a record that is read, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Maximum time to wait for the lock. A process of pitcrew holds it for milliseconds, but any
/// program of the user can take it.
const WAIT_AT_MOST: Duration = Duration::from_secs(10);

/// Pause between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(2);

/// What a record says about one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// The protected places to check after the command.
    places: Vec<Uncovered>,
    /// The protected files that existed, so that a mount protects them from the command. Another
    /// command finds some of them only by a link, which this command can replace.
    #[serde(default)]
    covered: BTreeSet<PathBuf>,
    /// The state of these files before the command. A mount ends when another program replaces a
    /// file, so they are checked after the command.
    #[serde(default)]
    existing: Vec<Existing>,
    #[serde(default)]
    decided: Decided,
    /// The protected files and folders that the command itself is allowed to change. Such a command
    /// runs in the sandbox profile *free* and has no places to check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<PathBuf>,
}

/// The record of one command, stored on disk.
#[derive(Debug)]
pub(super) struct Record {
    file: PathBuf,
    content: Content,
}

/// The records below one configuration root, while this thread holds their lock.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
    _lock: File,
}

impl Records {
    /// Waits for the lock on the records below a configuration root.
    ///
    /// # Errors
    /// If the folder cannot be created, or if another process holds the lock for too long.
    pub(super) fn lock(root: &Path) -> io::Result<Self> {
        let folder = root.join(BELOW_ROOT);
        own_mode::create_folders(&folder)?;
        let lock = take_lock(&folder.join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Waits for the lock, if a sandboxed command was ever started below this root.
    pub(super) fn lock_existing(root: &Path) -> io::Result<Option<Self>> {
        if root.join(BELOW_ROOT).is_dir() { Self::lock(root).map(Some) } else { Ok(None) }
    }

    /// Returns all records.
    fn all(&self) -> Vec<Record> {
        all_in(&self.folder)
    }

    /// Renames the files that running and killed commands have created in these folders so far. The
    /// caller is about to look at the folders, and must not see these files.
    pub(super) fn put_aside_in(&self, folders: &BTreeSet<PathBuf>) -> Appeared {
        let mut appeared = Appeared::default();
        let records = self.all();
        let pending = pending(&records);
        for record in records {
            let decided = record.decided(&pending);
            for place in record.content.places.iter().filter(|place| place.is_about(folders)) {
                appeared.add(place.restore(&decided));
            }
        }
        appeared
    }

    /// Returns the protected files in these folders that existed when the running commands started.
    pub(super) fn covered_in(&self, folders: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let covered = self.all().into_iter().flat_map(|record| record.content.covered);
        covered.filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect()
    }

    /// Records that the command which this process is about to start is allowed to change protected
    /// files and folders. What other commands have created there so far is renamed first.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(super) fn allow(&self, allowed: Vec<PathBuf>) -> io::Result<(Record, Appeared)> {
        let mut appeared = Appeared::default();
        let records = self.all();
        let pending = pending(&records);
        for record in records {
            let decided = record.decided(&pending);
            let is_concerned = |place: &&Uncovered| allowed.iter().any(|path| place.has(path));
            for place in record.content.places.iter().filter(is_concerned) {
                appeared.add(place.restore(&decided));
            }
            for file in &record.content.existing {
                if allowed.iter().any(|path| file.has(path)) {
                    appeared.add(file.restore(&decided, &self.contents()));
                }
            }
        }
        let record = self.write_new(Content { allowed, ..Content::default() })?;
        Ok((record, appeared))
    }

    fn write_new(&self, content: Content) -> io::Result<Record> {
        let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
        let name = format!("{pid}.{start_ticks}.{}{SUFFIX}", uuid::Uuid::new_v4().simple());
        let record = Record { file: self.folder.join(name), content };
        record.write()?;
        Ok(record)
    }

    /// Stores the places to check after a command that this process is about to start. `opened` are
    /// the folders that the command can write, and `places` are the protected places in them as
    /// they are now. Mounts protect the files `covered`. The contents of the files in `unread` are
    /// not kept. What other commands recorded earlier replaces what differs from it now.
    ///
    /// # Errors
    /// If the record cannot be written. In this case the caller must not start the command.
    pub(super) fn begin(
        &self,
        opened: &BTreeSet<PathBuf>,
        mut places: Vec<Uncovered>,
        covered: BTreeSet<PathBuf>,
        unread: &BTreeSet<PathBuf>,
    ) -> io::Result<Record> {
        let mut content = Content::default();
        let mut taken_over = Vec::new();
        for other in self.all() {
            let (shared, rest): (Vec<_>, Vec<_>) =
                other.content.places.iter().cloned().partition(|place| place.is_about(opened));
            let is_about =
                |file: &Existing| opened.iter().any(|folder| file.path().starts_with(folder));
            let (existing, rest_of_existing): (Vec<_>, Vec<_>) =
                other.content.existing.iter().cloned().partition(is_about);
            if other.is_of_killed() && rest.is_empty() && rest_of_existing.is_empty() {
                taken_over.push(other.file);
            }
            for place in shared {
                if !content.places.contains(&place) {
                    content.places.push(place);
                }
            }
            let is_known =
                |file: &Existing| content.existing.iter().any(|known| known.path() == file.path());
            let existing: Vec<_> = existing.into_iter().filter(|file| !is_known(file)).collect();
            content.existing.extend(existing);
            content.decided.add(&other.content.decided);
        }
        places.retain(|place| !content.places.iter().any(|earlier| place.yields_to(earlier)));
        content.places.extend(places);
        content.existing.extend(self.existing(opened, &covered, unread, &content.existing));
        // A running command may have made such a file since the places were looked at. It is put
        // aside, so it is not the state from before.
        let Content { existing, places, .. } = &mut content;
        existing.retain(|file| !places.iter().any(|place| place.is_around(&file.path())));
        content.covered = covered;
        let record = self.write_new(content)?;
        for file in taken_over {
            // Nobody else will remove the record of a killed process while this process runs.
            let _kept_until_later = fs::remove_file(file);
        }
        Ok(record)
    }

    /// Returns the state of the protected files, except those whose state from before is known.
    fn existing(
        &self,
        opened: &BTreeSet<PathBuf>,
        covered: &BTreeSet<PathBuf>,
        unread: &BTreeSet<PathBuf>,
        known: &[Existing],
    ) -> Vec<Existing> {
        let known: BTreeSet<PathBuf> = known.iter().map(Existing::path).collect();
        let contents = self.contents();
        let new = covered.iter().filter(|path| !known.contains(*path));
        let state = |path: &PathBuf| {
            let is_around = |open: &&PathBuf| path != *open && path.starts_with(open);
            let is_read = !path.ancestors().any(|it| unread.contains(it));
            Existing::at(opened.iter().find(is_around)?, path, is_read.then_some(&contents))
        };
        new.filter_map(state).collect()
    }

    fn contents(&self) -> Contents {
        Contents::beside(&self.folder)
    }

    /// Calls `write`, which writes `content` to `file` because a person or a rule allowed it. The
    /// commands that run meanwhile did not make this file, so the file stays when they end.
    ///
    /// # Errors
    /// If a sandboxed command created the file before, or a folder on the way to it. It is renamed,
    /// and `write` is not called: the person decided about another content.
    pub(super) fn decide<T, E>(
        &self,
        file: &Path,
        content: &[u8],
        told: impl FnOnce(Appeared),
        write: impl FnOnce() -> Result<T, E>,
    ) -> io::Result<Result<T, E>> {
        let mut records = self.all();
        let pending = pending(&records);
        records.retain(|record| record.is_about(file));
        let mut appeared = Appeared::default();
        for record in &records {
            let decided = record.decided(&pending);
            for place in record.content.places.iter().filter(|place| place.has(file)) {
                appeared.add(place.restore(&decided));
            }
            for existing in record.content.existing.iter().filter(|it| it.has(file)) {
                appeared.add(existing.restore(&decided, &self.contents()));
            }
        }
        if appeared != Appeared::default() {
            let words = appeared.aside.iter().chain(&appeared.left).cloned().collect::<Vec<_>>();
            told(appeared);
            return Err(io::Error::other(format!(
                "a sandboxed command had made something there, and it was put aside: {}",
                words.join("; ")
            )));
        }
        let written = write();
        if written.is_ok() {
            let decided = Decided::one(file, content);
            if !records.is_empty() {
                self.contents().keep(content);
            }
            for mut record in records {
                record.content.decided.add(&decided);
                if let Err(problem) = record.write() {
                    tracing::warn!(file = %file.display(), %problem, "the file may be put aside");
                }
            }
        }
        Ok(written)
    }
}

impl Record {
    /// Returns the records of commands whose pitcrew process was killed.
    pub(super) fn of_killed(root: &Path) -> Vec<Self> {
        all_in(&root.join(BELOW_ROOT)).into_iter().filter(Self::is_of_killed).collect()
    }

    /// Returns true if the process that wrote the record has ended. A process that still runs will
    /// check the protected places itself.
    fn is_of_killed(&self) -> bool {
        self.owner().is_some_and(|owner| !owner.is_alive())
    }

    fn read(file: PathBuf) -> Option<Self> {
        if !file.file_name()?.to_str()?.ends_with(SUFFIX) {
            return None;
        }
        let metadata = fs::symlink_metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > MOST_BYTES {
            return None;
        }
        let content = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        Some(Self { file, content })
    }

    /// Returns true if the command is allowed to change protected files.
    pub(super) fn is_of_allowed(&self) -> bool {
        !self.content.allowed.is_empty()
    }

    /// Records the content of the files that the command was allowed to change, after the command
    /// has ended.
    pub(super) fn conclude(self) {
        let Some(folder) = self.file.parent() else { return };
        let _lock = take_lock(&folder.join(LOCK));
        let found = self.content.allowed.iter().map(|path| Decided::found_at(path));
        let found = found.reduce(|mut all, more| {
            all.add(&more);
            all
        });
        let concerned =
            |record: &Self| self.content.allowed.iter().any(|path| record.is_about(path));
        for mut record in all_in(folder).into_iter().filter(concerned) {
            let contents = Contents::beside(folder);
            found.iter().flat_map(Decided::paths).for_each(|path| contents.keep_file(path));
            record.content.decided.add(found.as_ref().unwrap_or(&Decided::default()));
            if let Err(problem) = record.write() {
                tracing::warn!(%problem, "a file that a command was allowed to make may be put aside");
            }
        }
        if let Err(problem) = fs::remove_file(&self.file) {
            tracing::warn!(record = %self.file.display(), %problem, "a record of a command stays");
        }
    }

    /// Returns true if a change of the file at the path changes a protected place or file of the
    /// record.
    fn is_about(&self, file: &Path) -> bool {
        let Content { places, existing, .. } = &self.content;
        places.iter().any(|place| place.has(file)) || existing.iter().any(|it| it.has(file))
    }

    /// Returns the decisions that this record knows, together with the files that running commands
    /// are allowed to change.
    fn decided(&self, pending: &[PathBuf]) -> Decided {
        self.content.decided.clone().with_pending(pending.to_vec())
    }

    /// Returns the pitcrew process that wrote the record. The file name contains its id.
    fn owner(&self) -> Option<ProcessIdentity> {
        let mut parts = self.file.file_name()?.to_str()?.split('.');
        let pid = parts.next()?.parse().ok()?;
        Some(ProcessIdentity { pid, start_ticks: parts.next()?.parse().ok()? })
    }

    fn write(&self) -> io::Result<()> {
        let part = self.file.with_extension("part");
        let mut written =
            own_mode::file_options().write(true).create(true).truncate(true).open(&part)?;
        written.write_all(&serde_json::to_vec(&self.content)?)?;
        drop(written);
        // The complete file gets its final name only here, so that a reader never sees a part of a
        // record.
        fs::rename(&part, &self.file)
    }

    /// Returns the protected places where commands seem to have created something. This function
    /// changes nothing.
    pub(super) fn appeared(&self) -> Vec<PathBuf> {
        let Content { places, existing, decided, .. } = &self.content;
        let changed = existing.iter().filter(|file| file.is_changed(decided)).map(Existing::path);
        let appeared = places.iter().flat_map(|place| place.has_appeared(decided));
        let found: BTreeSet<PathBuf> = appeared.chain(changed).collect();
        found.into_iter().collect()
    }

    /// Renames the files that commands created at the recorded places. If one of the files cannot be
    /// renamed, the record stays on disk.
    pub(super) fn settle(self) -> Appeared {
        // If somebody holds the lock for too long, the check is more important than the order.
        let folder = self.file.parent().map(Path::to_path_buf).unwrap_or_default();
        let lock = take_lock(&folder.join(LOCK));
        // A person may have decided about a file since the command started.
        let record = Self::read(self.file.clone()).unwrap_or(self);
        let mut appeared = Appeared::default();
        let decided = record.decided(&pending(&all_in(&folder)));
        for place in &record.content.places {
            appeared.add(place.restore(&decided));
        }
        let contents = Contents::beside(&folder);
        for file in &record.content.existing {
            appeared.add(file.restore(&decided, &contents));
        }
        if appeared.left.is_empty()
            && let Err(problem) = fs::remove_file(&record.file)
            && problem.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(record = %record.file.display(), %problem, "a record of a command stays");
        }
        // Without the lock, a content may be there whose record is not written yet.
        if lock.is_ok() {
            let records = all_in(&folder);
            contents.keep_only(|sha256| records.iter().any(|it| it.names(sha256)));
        }
        appeared
    }

    /// Returns true if the record names the content with this digest.
    fn names(&self, sha256: &str) -> bool {
        let Content { existing, decided, .. } = &self.content;
        existing.iter().any(|file| file.sha256() == Some(sha256)) || decided.names(sha256)
    }
}

/// Returns the protected files that running commands are allowed to change.
fn pending(records: &[Record]) -> Vec<PathBuf> {
    let running = records.iter().filter(|record| record.is_of_allowed() && !record.is_of_killed());
    running.flat_map(|record| record.content.allowed.clone()).collect()
}

fn all_in(folder: &Path) -> Vec<Record> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Record::read(entry.path())).collect()
}

/// Waits for the lock, for a limited time.
fn take_lock(path: &Path) -> io::Result<File> {
    let file = own_mode::file_options().create(true).append(true).open(path)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if started.elapsed() < WAIT_AT_MOST => {
                thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let seconds = WAIT_AT_MOST.as_secs();
                return Err(io::Error::other(format!(
                    "another process has held the lock {} for {seconds} s",
                    path.display()
                )));
            }
            Err(TryLockError::Error(problem)) => return Err(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_state_that_the_first_command_recorded_is_that_of_a_later_one() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, open) = (base.join("root"), base.join("work"));
        fs::create_dir_all(&open).unwrap();
        let opened = BTreeSet::from([open.clone()]);
        symlink("real", open.join(".idea")).unwrap();
        let nothing = Uncovered::nothing(&open, &open.join(".git/config")).unwrap();
        let link = Uncovered::link(&open, &open.join(".idea")).unwrap();
        let records = Records::lock(&root).unwrap();
        let covered = BTreeSet::from([open.join("real")]);
        let places = vec![nothing.clone(), link.clone()];
        let first =
            records.begin(&opened, places.clone(), covered.clone(), &BTreeSet::new()).unwrap();
        // The first command replaces the link, and makes a link on the way to the other place.
        fs::remove_file(open.join(".idea")).unwrap();
        symlink("evil", open.join(".idea")).unwrap();
        symlink("evil", open.join(".git")).unwrap();
        let seen = [".idea", ".git"].map(|name| Uncovered::link(&open, &open.join(name)).unwrap());
        let second =
            records.begin(&opened, seen.to_vec(), BTreeSet::new(), &BTreeSet::new()).unwrap();
        assert_eq!(second.content.places, places);
        assert_eq!(records.covered_in(&opened), covered);
        drop(records);
        for record in [first, second] {
            assert_eq!(record.settle().left, [] as [String; 0]);
            assert_eq!(fs::read_link(open.join(".idea")).unwrap(), Path::new("real"));
            assert!(fs::symlink_metadata(open.join(".git")).is_err());
        }
    }

    #[test]
    fn places_in_other_folders_are_not_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let begin = |name: &str| {
            let open = base.join(name);
            let places = vec![Uncovered::nothing(&open, &open.join(".mcp.json")).unwrap()];
            let records = Records::lock(&base).unwrap();
            records
                .begin(&BTreeSet::from([open]), places, BTreeSet::new(), &BTreeSet::new())
                .unwrap()
        };
        let (one, other) = (begin("one"), begin("other"));
        assert_eq!((one.content.places.len(), other.content.places.len()), (1, 1));
    }
}
