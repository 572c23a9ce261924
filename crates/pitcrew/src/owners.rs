//! Finds folders of a team that another user owns. That user can write to the team's agents and
//! change its tasks and members.

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
    /// Finds the folders of a team that another user owns. Folders of root are left out, because
    /// root can change everything anyway.
    pub(crate) fn of_team(root: &Path, team: &TeamDir) -> Vec<Self> {
        let (team, tasks) =
            (root.join("teams").join(team.as_str()), root.join("tasks").join(team.as_str()));
        let inner = ["config.json", "inboxes", "pitcrew"].map(|name| team.join(name));
        let places = [team, tasks].into_iter().chain(inner);
        let owned = places
            .filter_map(|path| Some(Self { uid: fs::symlink_metadata(&path).ok()?.uid(), path }));
        owned.filter(|it| it.uid != 0 && it.uid != geteuid().as_raw()).collect()
    }

    /// A sentence that says which user owns the path and what that user can do.
    pub(crate) fn in_words(&self) -> String {
        let Self { path, uid } = self;
        format!(
            "{} belongs to the user {uid}, who can change this team's mail, tasks and members",
            path.display()
        )
    }
}

/// Prints a warning for each folder of the team that another user owns, when a run starts.
pub(crate) fn say(root: &Path, team: &str) {
    for foreign in Foreign::of_team(root, &TeamDir::of(team)) {
        output::remark(&format!("warning: {}", output::printable(&foreign.in_words())));
    }
}
