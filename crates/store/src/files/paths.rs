//! The paths of all files and folders under the root.
//!
//! Source: section "Layout under the root" of the wire format document. Pitcrew's own files are in
//! the folder `pitcrew/` of the root and in the folder `pitcrew/` of each team.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{AgentName, InboxFile, TaskId, TeamDir};

use crate::{ArchiveName, LeaseName, LogName, RateScope};

pub(crate) const JOURNAL: &str = "journal.ndjson";

/// File name of the lease for the team's run. The file name of a member's lease starts with the
/// same word.
const LEASE: &str = "lease";

/// The names of the folders in `pitcrew/` of the root. The runtime uses some of these folders. It
/// relies on the store to check that they are not links.
const OF_THE_ROOT: [&str; 8] =
    ["archive", "quarantine", "rates", "sandbox", "shells", "tmp", "web", "worktrees"];

/// The names of the folders in `pitcrew/` of a team.
const OF_A_TEAM: [&str; 4] = ["output", "read", "transcripts", "writes"];

/// The paths of the folders and files of all teams under one root. A path is returned even if the
/// file or folder does not exist.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// Returns the paths of the files and folders under `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn teams(&self) -> PathBuf {
        self.root.join("teams")
    }

    pub(crate) fn team(&self, team: &TeamDir) -> PathBuf {
        self.teams().join(team.as_str())
    }

    /// Returns the path of the team's config.
    #[must_use]
    pub fn config(&self, team: &TeamDir) -> PathBuf {
        self.team(team).join("config.json")
    }

    pub(crate) fn inboxes(&self, team: &TeamDir) -> PathBuf {
        self.team(team).join("inboxes")
    }

    pub(crate) fn inbox(&self, team: &TeamDir, inbox: &InboxFile) -> PathBuf {
        self.inboxes(team).join(format!("{inbox}.json"))
    }

    pub(crate) fn all_tasks(&self) -> PathBuf {
        self.root.join("tasks")
    }

    pub(crate) fn tasks(&self, team: &TeamDir) -> PathBuf {
        self.all_tasks().join(team.as_str())
    }

    /// Returns the path of the file that represents the task list. The lock of this file protects
    /// the whole list.
    pub(crate) fn task_list(&self, team: &TeamDir) -> PathBuf {
        self.tasks(team).join(".lock")
    }

    /// Returns the path of a task's file.
    #[must_use]
    pub fn task(&self, team: &TeamDir, id: &TaskId) -> PathBuf {
        self.tasks(team).join(format!("{id}.json"))
    }

    pub(crate) fn high_water(&self, team: &TeamDir) -> PathBuf {
        self.tasks(team).join(super::tasks::HIGH_WATER)
    }

    /// Returns pitcrew's own folder of the team. The folder can also contain files that the store
    /// does not use, such as a socket.
    #[must_use]
    pub fn ours(&self, team: &TeamDir) -> PathBuf {
        self.team(team).join("pitcrew")
    }

    /// Returns the path of a team's journal.
    #[must_use]
    pub fn journal(&self, team: &TeamDir) -> PathBuf {
        self.ours(team).join(JOURNAL)
    }

    pub(crate) fn lease(&self, team: &TeamDir, lease: &LeaseName) -> PathBuf {
        let name = match lease {
            LeaseName::Run => LEASE.to_owned(),
            LeaseName::Member(inbox) => format!("{LEASE}.{inbox}"),
        };
        self.ours(team).join(name)
    }

    /// Returns the path of a log of the team.
    #[must_use]
    pub fn log(&self, team: &TeamDir, log: &LogName) -> PathBuf {
        self.ours(team).join(log.relative_path())
    }

    /// Returns the path of one of pitcrew's own documents of the team.
    #[must_use]
    pub fn document(&self, team: &TeamDir, name: &str) -> PathBuf {
        self.ours(team).join(format!("{name}.json"))
    }

    /// Returns the path of an inbox's archive: the file with the read messages that were moved out
    /// of the inbox.
    pub(crate) fn read_mail(&self, team: &TeamDir, inbox: &InboxFile) -> PathBuf {
        self.ours(team).join("read").join(format!("{inbox}.ndjson"))
    }

    /// Returns the folder for the logs of pitcrew's writes. These logs cover the team files that
    /// other programs also write, see `written_log`.
    pub(crate) fn write_logs(&self, team: &TeamDir) -> PathBuf {
        self.ours(team).join("writes")
    }

    pub(crate) fn inbox_writes(&self, team: &TeamDir, inbox: &InboxFile) -> PathBuf {
        self.write_logs(team).join(format!("inbox.{inbox}.ndjson"))
    }

    pub(crate) fn task_writes(&self, team: &TeamDir) -> PathBuf {
        self.write_logs(team).join("tasks.ndjson")
    }

    pub(crate) fn config_writes(&self, team: &TeamDir) -> PathBuf {
        self.write_logs(team).join("config.ndjson")
    }

    /// Returns pitcrew's own folder in the root.
    pub(crate) fn common(&self) -> PathBuf {
        self.root.join("pitcrew")
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.common().join("archive")
    }

    /// Returns the folder of an archived team.
    #[must_use]
    pub fn archived(&self, archive: &ArchiveName) -> PathBuf {
        self.archive().join(&archive.0)
    }

    /// Returns pitcrew's own folder of an archived team.
    pub(crate) fn archived_ours(&self, archive: &ArchiveName) -> PathBuf {
        self.archived(archive).join("team/pitcrew")
    }

    /// Returns the path of an archived team's journal.
    #[must_use]
    pub fn archived_journal(&self, archive: &ArchiveName) -> PathBuf {
        self.archived_ours(archive).join(JOURNAL)
    }

    /// Returns the path of the file that is locked while a team is created or removed.
    pub(crate) fn lifecycle(&self) -> PathBuf {
        self.common().join("lifecycle.lock")
    }

    /// Returns the folders of the root that are used by pitcrew or by all clients. None of these
    /// folders is allowed to be a link.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let common = self.common();
        let ours = OF_THE_ROOT.map(|name| common.join(name));
        [self.teams(), self.all_tasks(), common].into_iter().chain(ours).collect()
    }

    /// Returns the folders below a team's folder, parents first. None of these folders is allowed
    /// to be a link.
    pub(crate) fn folders_in(&self, team: &TeamDir) -> Vec<PathBuf> {
        let ours = self.ours(team);
        let below = OF_A_TEAM.map(|name| ours.join(name));
        [self.inboxes(team), ours].into_iter().chain(below).collect()
    }

    /// Returns the folder of the web server's own files.
    pub(crate) fn web(&self) -> PathBuf {
        self.common().join("web")
    }

    pub(crate) fn rates(&self) -> PathBuf {
        self.common().join("rates")
    }

    pub(crate) fn rate(&self, scope: &RateScope) -> PathBuf {
        let name = match scope {
            RateScope::TeamCreation => "teams".to_owned(),
            RateScope::Calls => "calls".to_owned(),
            RateScope::Spawns(team) => format!("spawns.{team}"),
            RateScope::TaskCreation(team) => format!("tasks.{team}"),
            RateScope::Broadcasts(team) => format!("broadcasts.{team}"),
        };
        self.rates().join(name)
    }
}

/// Returns the lease to which a file of this name belongs, or `None` if it is not a lease file.
pub(crate) fn lease_in(file: &str) -> Option<LeaseName> {
    if file == LEASE {
        return Some(LeaseName::Run);
    }
    let stem = file.strip_prefix(LEASE)?.strip_prefix('.')?;
    let inbox = AgentName::foreign(stem).inbox_file();
    (!stem.is_empty() && inbox.as_str() == stem).then_some(LeaseName::Member(inbox))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_lease_tells_which_it_is() {
        let (paths, team) = (Paths::new(Path::new("/root")), TeamDir::of("x"));
        for lease in [LeaseName::Run, LeaseName::of_member(&AgentName::foreign("the bob"))] {
            let path = paths.lease(&team, &lease);
            assert_eq!(path.file_name().and_then(|name| lease_in(name.to_str()?)), Some(lease));
        }
        for other in ["leases", "lease.", "lease.a b", "lease.a.tmp", "journal.ndjson"] {
            assert_eq!(lease_in(other), None, "{other}");
        }
    }
}
