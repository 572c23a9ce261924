//! Leases as files. The holder of a lease holds a kernel file lock on one of pitcrew's own files.
//! The lock ends with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use pitcrew_protocol::TeamDir;

use super::backend::Files;
use super::disk::{failed, is_absent};
use super::ours::Place;
use super::plain::{self, Unopened};
use super::unfinished::sweep;
use crate::{Lease, LeaseHolder, LeaseName, StoreError};

/// Number of tries to take a lease, and the pause between two tries. A try fails while another
/// process looks for the holder of the lease, because that process also locks the file for a
/// moment. On a busy machine this moment can become long, so there are many tries.
const TRIES: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// Highest number of checks whether a lease has ended. The thread that reports changes in a team
/// makes these checks. It reports no other change until the checks are done, so their number is
/// limited.
const ENDING_TRIES: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct HeldLeases(Mutex<Vec<Weak<HeldLease>>>);

/// A held lease. The locked file is at the path of the lease, unless another program removed the
/// file.
#[derive(Debug)]
struct HeldLease {
    team: TeamDir,
    lease: LeaseName,
    locked: Mutex<Locked>,
    /// Folders in which temporary files of dead writers are removed when the lease is taken and
    /// when it ends. The list is empty for a member's lease.
    folders: Vec<(PathBuf, Place)>,
}

/// The locked file of a lease, and the holder record that is written in this file.
#[derive(Debug)]
struct Locked {
    file: File,
    holder: LeaseHolder,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        sweep(&self.folders);
    }
}

impl Files {
    pub(crate) fn take_lease(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<Result<Lease, LeaseHolder>, StoreError> {
        // Checks first whether another process holds the lease. Without this check, the function
        // would open the file for writing and close it again, and watchers would believe that the
        // lease has ended.
        if let Some(other) = self.lease_holder(team, lease)? {
            return Ok(Err(other));
        }
        self.make_ours(team)?;
        let path = self.paths.lease(team, lease);
        let file = match self.lock_lease(&path, holder)? {
            Ok(file) => file,
            Err(other) => return Ok(Err(other)),
        };
        let folders = self.swept_by(team, lease);
        // The folders are cleaned only after the lease is taken. The lease proves that no other run
        // of this team uses these folders.
        sweep(&folders);
        let locked = Mutex::new(Locked { file, holder: holder.clone() });
        let held =
            Arc::new(HeldLease { team: team.clone(), lease: lease.clone(), locked, folders });
        let mut all = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        Ok(Ok(Lease(Box::new(held))))
    }

    /// Returns the folders that are cleaned when a run begins and when it ends. Returns an empty
    /// list for the lease of a member.
    fn swept_by(&self, team: &TeamDir, lease: &LeaseName) -> Vec<(PathBuf, Place)> {
        match lease {
            LeaseName::Run => vec![
                (self.paths.team(team), Place::Team),
                (self.paths.inboxes(team), Place::Inboxes),
                (self.paths.ours(team), Place::Ours),
                (self.paths.write_logs(team), Place::Writes),
                (self.paths.tasks(team), Place::Tasks),
            ],
            LeaseName::Member(_) => Vec::new(),
        }
    }

    /// Locks the file of a lease and writes the holder record into it. Returns an inner
    /// `Err(holder)` if another process holds the lease.
    fn lock_lease(
        &self,
        path: &Path,
        holder: &LeaseHolder,
    ) -> Result<Result<File, LeaseHolder>, StoreError> {
        let open = plain::open_with(
            OpenOptions::new().read(true).write(true).create(true).truncate(false),
            path,
        );
        let file = open.map_err(|error| error.at("open", path))?;
        for tried in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if tried < TRIES => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Ok(Err(read_holder(path)?.ok_or_else(|| nameless(path))?));
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
            }
        }
        write_holder(&file, path, holder)?;
        Ok(Ok(file))
    }

    pub(crate) fn name_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
        holder: &LeaseHolder,
    ) -> Result<(), StoreError> {
        let held = self.held_leases(team).into_iter().find(|held| held.lease == *lease);
        let held = held.ok_or_else(|| StoreError::NotHeld { lease: lease.clone() })?;
        let mut locked = held.locked.lock().unwrap_or_else(PoisonError::into_inner);
        write_holder(&locked.file, &self.paths.lease(team, lease), holder)?;
        locked.holder = holder.clone();
        Ok(())
    }

    pub(crate) fn holds_leases(&self, team: &TeamDir) -> bool {
        !self.held_leases(team).is_empty()
    }

    fn held_leases(&self, team: &TeamDir) -> Vec<Arc<HeldLease>> {
        let all = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).filter(|held| held.team == *team).collect()
    }

    /// If the file of a held lease was removed, takes the lease again. Otherwise another process
    /// could take the lease while this process still holds it. If another program has overwritten the
    /// holder record, writes it again. Returns the number of leases taken or named again.
    pub(crate) fn renew_leases(&self, team: &TeamDir) -> usize {
        let mut renewed = 0;
        for held in self.held_leases(team) {
            let path = self.paths.lease(team, &held.lease);
            let mut locked = held.locked.lock().unwrap_or_else(PoisonError::into_inner);
            if is_at(&locked.file, &path) {
                renewed += usize::from(renamed(&locked, &path));
                continue;
            }
            // If the team no longer exists, nothing is renewed, because that would create the
            // team's folder again.
            if !self.has_config(team) || self.must_have_folders(Some(team)).is_err() {
                continue;
            }
            let again = self.make_ours(team).and_then(|()| self.lock_lease(&path, &locked.holder));
            match again {
                Ok(Ok(file)) => {
                    tracing::warn!(path = %path.display(), "the lease was removed, and is taken again");
                    locked.file = file;
                    renewed += 1;
                }
                Ok(Err(other)) => {
                    tracing::error!(path = %path.display(), ?other, "a removed lease has another holder")
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a removed lease cannot be taken again")
                }
            }
        }
        renewed
    }

    pub(crate) fn lease_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.must_exist(team)?;
        let path = self.paths.lease(team, lease);
        let file = match plain::open(&path) {
            Ok(file) => file,
            Err(Unopened::Failed(error)) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error.at("open", &path)),
        };
        for _ in 0..TRIES {
            match file.try_lock_shared() {
                Ok(()) => return Ok(None),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
            }
            if let Some(holder) = read_holder(&path)? {
                return Ok(Some(holder));
            }
            // Another process has locked the lease but has not written its holder record yet.
            thread::sleep(PAUSE);
        }
        // A process runs the team. To say that nobody does would let another one take the team away.
        Err(nameless(&path))
    }

    /// Returns the holder record in the file of the lease. The file stays after the lease has
    /// ended.
    pub(crate) fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.must_exist(team)?;
        read_holder(&self.paths.lease(team, lease))
    }
}

/// Writes the holder record into the locked file of a lease.
fn write_holder(mut file: &File, path: &Path, holder: &LeaseHolder) -> Result<(), StoreError> {
    let text = serde_json::to_vec(holder).map_err(|e| failed("write", path)(e.into()))?;
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
    written.map_err(failed("write", path))
}

/// Writes the holder record again if the file does not have it. Returns whether it was written.
fn renamed(locked: &Locked, path: &Path) -> bool {
    if read_holder(path).is_ok_and(|there| there.as_ref() == Some(&locked.holder)) {
        return false;
    }
    let written = write_holder(&locked.file, path, &locked.holder);
    match &written {
        Ok(()) => {
            tracing::warn!(path = %path.display(), "the lease was damaged, and is named again")
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a damaged lease cannot be named again")
        }
    }
    written.is_ok()
}

/// The error for a lease that is held by a process whose record cannot be read.
fn nameless(path: &Path) -> StoreError {
    let reason = "somebody holds the lease without a name".to_owned();
    StoreError::Corrupt { path: path.to_owned(), reason }
}

/// Whether the open file is still the file at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Waits until the lock on the file of a lease has ended. This wait is needed because the kernel
/// reports the close of the file a moment before the lock ends.
pub(crate) fn wait_for_end(path: &std::path::Path) {
    let Ok(file) = plain::open(path) else { return };
    for _ in 0..ENDING_TRIES {
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Ok(()) | Err(TryLockError::Error(_)) => return,
        }
    }
}

fn read_holder(path: &std::path::Path) -> Result<Option<LeaseHolder>, StoreError> {
    match plain::read(path, plain::FILE_MOST) {
        Ok(bytes) => Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok())),
        // A damaged file is treated like an empty file, which names no holder.
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
