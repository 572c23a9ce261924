//! The settings and environment variables of every git command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::programs::{NO_FILE, Programs};

/// Settings for every git command. They have priority over all configuration files.
const FIXED: [(&str, &str); 20] = [
    // Each of these would start a program that the repository names.
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    // Git would start itself inside other repositories, with their configuration.
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    // Git would read any file that the repository names. No command of ours needs one of them.
    ("blame.ignoreRevsFile", ""),
    ("commit.template", NO_FILE),
    ("diff.orderFile", NO_FILE),
    ("fetch.fsck.skipList", ""),
    ("fsck.skipList", ""),
    ("gpg.ssh.allowedSignersFile", NO_FILE),
    ("mailmap.blob", ""),
    ("mailmap.file", NO_FILE),
    // Git would start background work.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Whether git writes reflogs is not the repository's choice.
    ("core.logAllRefUpdates", "true"),
];

/// Environment variables for every git command. They forbid all network transports and the download
/// of missing objects. The names go into reflogs, so that no text of the repository's configuration
/// does.
const VARIABLES: [(&str, &str); 9] = [
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_AUTHOR_NAME", OUR_NAME),
    ("GIT_AUTHOR_EMAIL", OUR_ADDRESS),
    ("GIT_COMMITTER_NAME", OUR_NAME),
    ("GIT_COMMITTER_EMAIL", OUR_ADDRESS),
    ("LC_ALL", "C"),
];

const OUR_NAME: &str = "pitcrew";
const OUR_ADDRESS: &str = "pitcrew@localhost.invalid";

/// Environment variables that git must not inherit. They select a repository, its parts or its
/// configuration, or name programs and files.
const REMOVED: [&str; 34] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ASK_YESNO",
    "GIT_ATTR_SOURCE",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_DATE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_DIFF_OPTS",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFLOG_ACTION",
    "GIT_REF_PARANOIA",
    "GIT_REPLACE_REF_BASE",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SHALLOW_FILE",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
];

/// The settings of one git command.
#[derive(Default)]
pub(super) struct Settings {
    pairs: Vec<(OsString, OsString)>,
    /// The folder that git uses as the checkout, whatever the setting `core.worktree` says.
    work_tree: Option<PathBuf>,
}

impl Settings {
    /// Returns the fixed settings, and those that replace the programs of a repository.
    pub(super) fn of(programs: Programs) -> Self {
        let fixed = FIXED.into_iter().map(|(key, value)| (key.into(), value.into()));
        Self { pairs: fixed.chain(programs.into_settings()).collect(), work_tree: None }
    }

    /// Sets the folder that git uses as the checkout.
    pub(super) fn in_work_tree(self, work_tree: Option<PathBuf>) -> Self {
        Self { work_tree, ..self }
    }

    /// Returns no setting, to test the confinement alone.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Gives the settings and variables to a command.
    ///
    /// Git reads `-c KEY=VALUE` up to the first `=`, but a key may contain this character
    /// (`filter.a=b.clean`). In the environment, each key and each value has a variable of its own.
    /// Other users do not see it there either. Git hands these variables on to the git processes
    /// that it starts in submodules.
    pub(super) fn apply(&self, command: &mut Command) {
        for name in REMOVED {
            command.env_remove(name);
        }
        // Git reads `core.worktree` while it looks for the repository, before all other settings.
        // Only this variable has priority over it.
        command.envs(self.work_tree.as_ref().map(|folder| ("GIT_WORK_TREE", folder)));
        command.envs(VARIABLES).env("GIT_CONFIG_COUNT", self.pairs.len().to_string());
        for (number, (key, value)) in self.pairs.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
    }
}
