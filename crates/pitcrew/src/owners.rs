//! Finds folders of a team that belong to another user. That user can send messages to the team's
//! agents and can change the team's tasks and members.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pitcrew_protocol::TeamDir;
use rustix::process::geteuid;

use crate::output;

/// A file or folder of a team, and the user who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) path: PathBuf,
    uid: u32,
}

impl Foreign {
    /// Finds the folders of a team that belong to another user. Folders of the superuser are
    /// omitted, because the superuser can change every folder anyway.
    pub(crate) fn of_team(root: &Path, team: &TeamDir) -> Vec<Self> {
        let (team, tasks) =
            (root.join("teams").join(team.as_str()), root.join("tasks").join(team.as_str()));
        let inner = ["config.json", "inboxes", "pitcrew"].map(|name| team.join(name));
        let places = [team, tasks].into_iter().chain(inner);
        let owned = places
            .filter_map(|path| Some(Self { uid: fs::symlink_metadata(&path).ok()?.uid(), path }));
        owned.filter(|it| it.uid != 0 && it.uid != geteuid().as_raw()).collect()
    }

    /// Returns a sentence that says which user owns the path and what that user is able to do.
    pub(crate) fn in_words(&self) -> String {
        let Self { path, uid } = self;
        format!(
            "{} belongs to the user {uid}, who can change this team's mail, tasks and members",
            path.display()
        )
    }
}

/// Prints a warning for each folder of the team that belongs to another user. Called when a run
/// starts.
pub(crate) fn say(root: &Path, team: &str) {
    for foreign in Foreign::of_team(root, &TeamDir::of(team)) {
        output::remark(&format!("warning: {}", output::printable(&foreign.in_words())));
    }
}
