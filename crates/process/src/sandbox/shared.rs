//! Builds Landlock rulesets that many commands share.
//!
//! Landlock rules can only allow. To withhold one file, each of its neighbours therefore needs its
//! own rule, which makes about a thousand rules in a large project. To avoid building all rules for
//! each command, a command is restricted by two rulesets, and an access needs the permission of
//! both:
//!
//! - The shared ruleset has all these rules. It also allows the whole folder that contains the
//!   private folders of all commands. It is built again only if a file from which it was built has
//!   changed.
//! - The command's own ruleset has a few rules for whole folders. Of the private folders, it allows
//!   only the private folder of this command.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Stat;

use super::denied::is_settled;
use super::kept::only_reading;
use super::landlock::{Bounds, Landlock};
use super::places::Identity;
use super::readable::Readable;

/// Maximum number of cached rulesets. There is one ruleset for each set of working folders. Each
/// ruleset is an open file descriptor and keeps kernel memory in use for the files of its rules.
const MOST_KEPT: usize = 16;

/// The shared rulesets, one for each set of working folders. All commands of this sandbox use them.
#[derive(Debug, Default)]
pub(super) struct SharedBounds {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    made: HashMap<Vec<PathBuf>, (Readable, Arc<Bounds>)>,
    /// The kernel's mount table, as an open file. Polling this file shows whether the mounts have
    /// changed.
    mounts: Option<File>,
}

/// A file or folder for which rules were built, with the state that it had when they were built.
#[derive(Debug)]
pub(super) struct RuleSource {
    path: PathBuf,
    identity: Option<Identity>,
    content: Content,
}

/// States whether the ruleset depends on the entries of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// The ruleset does not depend on the entries, because one rule covers the folder with
    /// everything below it.
    Any,
    /// Each entry has its own rule. The value is the folder's change time.
    Listed((i64, i64)),
    /// The folder changed so recently that a later change may have the same change time.
    Unsettled,
}

impl SharedBounds {
    /// Returns the ruleset for commands in these working folders. `private` is the parent folder of
    /// the commands' private folders.
    ///
    /// # Errors
    /// If the ruleset cannot be created.
    pub(super) fn of(
        &self,
        landlock: Landlock,
        folders: Vec<PathBuf>,
        readable: &Readable,
        private: &Path,
    ) -> io::Result<Arc<Bounds>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.have_mounts_changed() {
            kept.made.clear();
        }
        if let Some((of, bounds)) = kept.made.get(&folders)
            && of == readable
            && bounds.is_current()
        {
            return Ok(Arc::clone(bounds));
        }
        let bounds = Arc::new(only_reading(landlock, readable, private)?);
        if kept.made.len() >= MOST_KEPT && !kept.made.contains_key(&folders) {
            kept.made.clear();
        }
        kept.made.insert(folders, (readable.clone(), Arc::clone(&bounds)));
        Ok(bounds)
    }
}

impl Kept {
    /// Returns true if a file system was mounted or unmounted since the last call. A mount changes
    /// a folder's content without changing the folder's times. The first call returns true. If the
    /// kernel has no mount table, every call returns true.
    fn have_mounts_changed(&mut self) -> bool {
        let Some(table) = &self.mounts else {
            self.mounts = File::open("/proc/self/mountinfo").ok();
            return true;
        };
        let mut polled = [PollFd::new(table, PollFlags::PRI)];
        let answered = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let is_quiet = |it: &PollFd<'_>| !it.revents().intersects(PollFlags::PRI | PollFlags::ERR);
        // If the mount table cannot be polled, assume that the mounts have changed.
        answered.is_err() || !polled.iter().all(is_quiet)
    }
}

impl RuleSource {
    /// Creates the entry for a file or folder that one rule covers.
    pub(super) fn whole(path: &Path, identity: Option<Identity>) -> Self {
        Self { path: path.to_path_buf(), identity, content: Content::Any }
    }

    /// Creates the entry for a folder whose entries are about to be listed.
    pub(super) fn listed(path: &Path, stat: &Stat) -> Self {
        let changed = (stat.st_ctime, stat.st_ctime_nsec.cast_signed());
        let content =
            if is_settled(changed) { Content::Listed(changed) } else { Content::Unsettled };
        Self { path: path.to_path_buf(), identity: Some(Identity::from(stat)), content }
    }

    /// Returns true if the path still leads to the same file or folder. For a listed folder, its
    /// entries must be unchanged too.
    pub(super) fn is_current(&self) -> bool {
        let now = fs::symlink_metadata(&self.path).ok();
        let identity = now.as_ref().map(Identity::from);
        let changed = now.map(|now| (now.ctime(), now.ctime_nsec()));
        let is_same = match self.content {
            Content::Any => true,
            Content::Listed(then) => changed == Some(then),
            Content::Unsettled => false,
        };
        is_same && identity == self.identity
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Requests the ruleset until the same ruleset is returned twice. The first requests build new
    /// rulesets, because the folders' change times are too recent to be trusted.
    fn settled(
        shared: &SharedBounds,
        landlock: Landlock,
        readable: &Readable,
        private: &Path,
    ) -> Arc<Bounds> {
        let started = Instant::now();
        let ask = || shared.of(landlock, Vec::new(), readable, private).unwrap();
        let mut last = ask();
        loop {
            let now = ask();
            if Arc::ptr_eq(&now, &last) {
                return now;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "nothing is shared");
            last = now;
        }
    }

    #[test]
    fn a_ruleset_is_shared_until_what_it_was_made_from_changes() {
        let Some(landlock) = Landlock::probe() else {
            eprintln!("SKIPPED: this kernel offers no Landlock");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (work, private) = (top.join("work"), top.join("private"));
        fs::create_dir_all(work.join("a/b")).unwrap();
        fs::create_dir(&private).unwrap();
        fs::write(work.join("a/.env"), "").unwrap();
        fs::write(work.join("a/plain"), "").unwrap();
        let mut readable =
            Readable { open: [work.clone()].into(), withheld: [work.join("a/.env")].into() };
        let shared = SharedBounds::default();
        let exchange_names = || {
            fs::rename(work.join("a/.env"), work.join("a/x")).unwrap();
            fs::rename(work.join("a/plain"), work.join("a/.env")).unwrap();
            fs::rename(work.join("a/x"), work.join("a/plain")).unwrap();
        };
        let changes: [(&str, &dyn Fn()); 6] = [
            ("a file is made", &|| fs::write(work.join("a/new"), "").unwrap()),
            ("a file is removed", &|| fs::remove_file(work.join("a/new")).unwrap()),
            ("two files exchange their names", &exchange_names),
            ("a folder on the way is renamed", &|| {
                fs::rename(work.join("a"), work.join("c")).unwrap();
                fs::create_dir(work.join("a")).unwrap();
            }),
            ("the working folder is replaced", &|| {
                fs::rename(&work, top.join("old")).unwrap();
                fs::create_dir_all(work.join("a/b")).unwrap();
            }),
            ("the working folder is gone", &|| fs::remove_dir_all(&work).unwrap()),
        ];
        for (name, change) in changes {
            let before = settled(&shared, landlock, &readable, &private);
            change();
            assert!(!before.is_current(), "{name}");
            let after = shared.of(landlock, Vec::new(), &readable, &private).unwrap();
            assert!(!Arc::ptr_eq(&before, &after), "{name}");
        }
        let before = settled(&shared, landlock, &readable, &private);
        readable.withheld.insert(work.join("a/b"));
        let after = shared.of(landlock, Vec::new(), &readable, &private).unwrap();
        assert!(!Arc::ptr_eq(&before, &after), "something else is withheld");
    }

    #[test]
    fn what_happens_below_a_folder_with_one_rule_makes_no_new_ruleset() {
        let Some(landlock) = Landlock::probe() else {
            eprintln!("SKIPPED: this kernel offers no Landlock");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir(top.join("private")).unwrap();
        fs::write(top.join("a/.env"), "").unwrap();
        let readable =
            Readable { open: [top.join("a")].into(), withheld: [top.join("a/.env")].into() };
        let shared = SharedBounds::default();
        let before = settled(&shared, landlock, &readable, &top.join("private"));
        fs::write(top.join("a/b/file"), "").unwrap();
        fs::create_dir(top.join("private/own")).unwrap();
        let after = settled(&shared, landlock, &readable, &top.join("private"));
        assert!(Arc::ptr_eq(&before, &after));
    }
}
