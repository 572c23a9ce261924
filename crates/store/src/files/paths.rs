//! The paths of all files and folders under the root.
//!
//! Source: wire format, "Layout under the root". Pitcrew's own files are in `pitcrew/` of the root
//! or of the team.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{AgentName, InboxFile, TaskId, TeamDir};

use crate::{ArchiveName, LeaseName, LogName, RateScope};

/// File name of the journal.
pub(crate) const JOURNAL: &str = "journal.ndjson";

/// File name of the run's lease. The file name of a member's lease begins with it.
const LEASE: &str = "lease";

/// The folders in `pitcrew/` of the root. Some belong to the runtime, which relies on the store's
/// check of them.
const OF_THE_ROOT: [&str; 7] =
    ["archive", "quarantine", "rates", "sandbox", "shells", "tmp", "worktrees"];

/// The folders in `pitcrew/` of a team.
const OF_A_TEAM: [&str; 4] = ["output", "read", "transcripts", "writes"];

/// The paths of the folders and files of all teams under one root. A path does not mean that the
/// file or folder exists.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// Returns the paths under `root`.
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

    /// The team's config.
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

    /// The file that represents the task list. Its lock is the lock of the list.
    pub(crate) fn task_list(&self, team: &TeamDir) -> PathBuf {
        self.tasks(team).join(".lock")
    }

    pub(crate) fn task(&self, team: &TeamDir, id: &TaskId) -> PathBuf {
        self.tasks(team).join(format!("{id}.json"))
    }

    pub(crate) fn high_water(&self, team: &TeamDir) -> PathBuf {
        self.tasks(team).join(super::tasks::HIGH_WATER)
    }

    /// Returns pitcrew's own folder of the team. It can also contain files that are not files of
    /// the store, such as a socket.
    #[must_use]
    pub fn ours(&self, team: &TeamDir) -> PathBuf {
        self.team(team).join("pitcrew")
    }

    pub(crate) fn journal(&self, team: &TeamDir) -> PathBuf {
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

    /// The file with the read messages that were moved out of an inbox.
    pub(crate) fn read_mail(&self, team: &TeamDir, inbox: &InboxFile) -> PathBuf {
        self.ours(team).join("read").join(format!("{inbox}.ndjson"))
    }

    /// The folder for logs of pitcrew's writes to team files that other programs also write, see
    /// `written_log`.
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

    /// Pitcrew's own folder of the root.
    pub(crate) fn common(&self) -> PathBuf {
        self.root.join("pitcrew")
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.common().join("archive")
    }

    /// The folder of an archived team.
    #[must_use]
    pub fn archived(&self, archive: &ArchiveName) -> PathBuf {
        self.archive().join(&archive.0)
    }

    pub(crate) fn archived_journal(&self, archive: &ArchiveName) -> PathBuf {
        self.archived(archive).join("team/pitcrew").join(JOURNAL)
    }

    /// The file that is locked while a team is created or removed.
    pub(crate) fn lifecycle(&self) -> PathBuf {
        self.common().join("lifecycle.lock")
    }

    /// The folders of the root that pitcrew or all clients use. None of them may be a link.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let common = self.common();
        let ours = OF_THE_ROOT.map(|name| common.join(name));
        [self.teams(), self.all_tasks(), common].into_iter().chain(ours).collect()
    }

    /// The folders below a team's folder, parents first. None of them may be a link.
    pub(crate) fn folders_in(&self, team: &TeamDir) -> Vec<PathBuf> {
        let ours = self.ours(team);
        let below = OF_A_TEAM.map(|name| ours.join(name));
        [self.inboxes(team), ours].into_iter().chain(below).collect()
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

/// Returns the lease that is stored in a file of this name.
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
