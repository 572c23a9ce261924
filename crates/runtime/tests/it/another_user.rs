//! Runs tests of this test program a second time, as a user without privileges. That user runs a
//! copy of the test program.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use crate::sandbox_read::inner;

/// A user id for which the user database of the machine has no entry.
const OTHER_USER: u32 = 54_321;

/// Runs the tests whose names begin with `tests`, except those with `skipped` in their names.
/// Returns the number of tests that passed. Returns `None` if this process does not run as root,
/// because these tests then already run without privileges.
#[track_caller]
pub(crate) fn play(tests: &str, skipped: &str) -> Option<usize> {
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "\n!!! SKIPPED: not run as root, so the other tests are another user's; root's are not played. !!!\n"
        );
        return None;
    }
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let at = |path: &str| dir.path().join(path);
    for folder in ["debug/deps", "debug/examples", "home"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::copy(std::env::current_exe().unwrap(), at("debug/deps/it")).unwrap();
    fs::copy(inner(), at("debug/examples/sandbox_exec")).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(at("home"), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    let mut played = Command::new("setpriv");
    played.args([
        format!("--reuid={OTHER_USER}"),
        format!("--regid={OTHER_USER}"),
        "--clear-groups".to_owned(),
    ]);
    played
        .arg(at("debug/deps/it"))
        .args(["--nocapture", tests, "--skip", skipped])
        .current_dir(at("home"));
    played
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", at("home"))
        .env("TMPDIR", at("home"));
    played.envs(std::env::var_os("PITCREW_ATTACKS").map(|it| ("PITCREW_ATTACKS", it)));
    let ran = played.output().unwrap();
    let said =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && !said.contains("SKIPPED"), "{said}");
    let passed =
        said.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split_once(" passed"));
    Some(passed.unwrap_or_else(|| panic!("no result: {said}")).0.parse().unwrap())
}
