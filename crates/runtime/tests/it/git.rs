//! Git as the tests run it: by no settings but its own, and in no repository but theirs.

use std::process::Command;

/// What a hook of git, from which the tests may be run, tells of its own repository.
const LEAKS: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"];

/// Keeps the settings of the user, and what a hook says, from a git that this command is or runs.
pub(crate) fn apart(command: &mut Command) -> &mut Command {
    for name in LEAKS {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}
