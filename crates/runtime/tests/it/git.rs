//! Runs git for the tests. Git ignores the user's git settings, and works only in the repositories
//! that the tests create.

use std::path::Path;
use std::process::Command;

/// The environment variables that git sets for a hook. They point to the hook's repository, so a
/// test that is run from a git hook must not inherit them.
const LEAKS: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// Makes a command ignore the user's git settings and the variables that git sets for a hook. This
/// also applies to any git process that the command starts.
pub(crate) fn apart(command: &mut Command) -> &mut Command {
    for name in LEAKS {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}

/// Runs git in a folder. Sets an author, because git cannot commit without one.
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    // The `maintenance` options keep git from starting a background process after a commit. Such a
    // process would run at the same time as the test.
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
