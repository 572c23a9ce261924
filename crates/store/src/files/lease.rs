//! Leases: the system's own lock on a file of ours, which ends with the process.

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

/// Somebody who only looks for the holder holds the file for a moment; so often and so long we wait for that to end. On a
/// busy machine a moment can take many times what it should.
const TRIES: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// How often the thread of the notices looks whether a lease has ended; all other notices wait meanwhile.
const ENDING_TRIES: usize = 100;

/// The leases this store holds.
#[derive(Debug, Default)]
pub(crate) struct HeldLeases(Mutex<Vec<Weak<HeldLease>>>);

/// A lease that is held: the lock on a file, which is at the lease's path unless somebody removed it.
#[derive(Debug)]
struct HeldLease {
    team: TeamDir,
    lease: LeaseName,
    locked: Mutex<Locked>,
    /// The folders that a run's lease keeps clear of the temporary files of dead writers.
    folders: Vec<(PathBuf, Place)>,
}

/// The file of a lease while it is locked, and what it says.
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
        // Looked at before it is opened to be written: closing it would tell watchers of an end.
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
        sweep(&folders);
        let locked = Mutex::new(Locked { file, holder: holder.clone() });
        let held =
            Arc::new(HeldLease { team: team.clone(), lease: lease.clone(), locked, folders });
        let mut all = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        Ok(Ok(Lease(Box::new(held))))
    }

    /// The folders that are cleared when a run begins and ends; none for the lease of a member.
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

    /// Locks the file of a lease and writes its holder into it.
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
                    let reason = "somebody holds the lease without a name".to_owned();
                    return Ok(Err(read_holder(path)?
                        .ok_or(StoreError::Corrupt { path: path.to_owned(), reason })?));
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

    /// Whether this store holds a lease of the team.
    pub(crate) fn holds_leases(&self, team: &TeamDir) -> bool {
        !self.held_leases(team).is_empty()
    }

    fn held_leases(&self, team: &TeamDir) -> Vec<Arc<HeldLease>> {
        let all = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).filter(|held| held.team == *team).collect()
    }

    /// Takes the leases of the team again whose files were removed; else another process would get them while their holder
    /// lives. Says how many it took.
    pub(crate) fn renew_leases(&self, team: &TeamDir) -> usize {
        let mut renewed = 0;
        for held in self.held_leases(team) {
            let path = self.paths.lease(team, &held.lease);
            let mut locked = held.locked.lock().unwrap_or_else(PoisonError::into_inner);
            if is_at(&locked.file, &path)
                || !self.has_config(team)
                || self.must_have_folders(Some(team)).is_err()
            {
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
            // Taken, and not signed yet.
            thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// What the lease's file says, which outlives the lease.
    pub(crate) fn last_holder(
        &self,
        team: &TeamDir,
        lease: &LeaseName,
    ) -> Result<Option<LeaseHolder>, StoreError> {
        self.must_exist(team)?;
        read_holder(&self.paths.lease(team, lease))
    }
}

/// Writes into the file of a lease, which is locked, who holds it.
fn write_holder(mut file: &File, path: &Path, holder: &LeaseHolder) -> Result<(), StoreError> {
    let text = serde_json::to_vec(holder).map_err(|e| failed("write", path)(e.into()))?;
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
    written.map_err(failed("write", path))
}

/// Whether the open file is the one at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Waits for the moment between the closing of a lease's file, which watchers are told of, and the end of its lock.
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
        // Like one with nothing of ours in it.
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
