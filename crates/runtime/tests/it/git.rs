//! Runs git for the tests: without the user's git settings, and only in the repositories of the
//! tests.

use std::path::Path;
use std::process::Command;

/// Variables that a git hook sets for the repository of the hook. The tests may run from such a
/// hook.
const LEAKS: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// Makes a command, and any git that it runs, ignore the user's git settings and the variables of a
/// git hook.
pub(crate) fn apart(command: &mut Command) -> &mut Command {
    for name in LEAKS {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}

/// Runs git in a folder, with an author so that commits succeed.
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    // These options keep git from starting a maintenance process after a commit, because that
    // process would run beside the test.
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
