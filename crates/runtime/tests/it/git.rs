//! Git as the tests run it: by no settings but its own, and in no repository but theirs.

use std::path::Path;
use std::process::Command;

/// What a hook of git, from which the tests may be run, tells of its own repository.
const LEAKS: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// Keeps the settings of the user, and what a hook says, from a git that this command is or runs.
pub(crate) fn apart(command: &mut Command) -> &mut Command {
    for name in LEAKS {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}

/// Runs git in a folder, as somebody who can commit.
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    // Without a process that tidies up after each commit, beside the test.
    let identity = [
        "-c",
        "user.name=probe",
        "-c",
        "user.email=probe@example.org",
        "-c",
        "maintenance.auto=false",
    ];
    let output = apart(&mut Command::new("git"))
        .arg("-C")
        .arg(folder)
        .args(identity)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
