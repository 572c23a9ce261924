//! Reads the user's own git configuration.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::bounds::Bounds;
use super::programs::Programs;
use super::settings::Settings;
use crate::identity::ProcessIdentity;
use crate::sandbox::Sandbox;

/// Time limit for git to print its configuration. Git can block, because it also reads the working
/// folder's configuration, which may be a FIFO from an unpacked archive.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Maximum number of bytes of an answer.
const MOST_BYTES: u64 = 4 << 20;

/// Returns all settings of the user's configuration that count in a working folder, in the form of
/// `git config --list --null`. Returns an empty answer if git is missing or too slow.
pub(crate) fn all(folder: &Path, home: Option<&Path>) -> Vec<u8> {
    answer(folder, home, &["--includes", "--null", "--list"]).unwrap_or_default()
}

/// Returns the value of a setting in the user's configuration, or `None` if git is missing or too
/// slow. The value is empty if there is no such setting.
#[must_use]
pub fn setting(home: Option<&Path>, name: &str) -> Option<String> {
    // Git runs in `/`. Even with `--global`, git examines the repository around its working folder,
    // and that repository is not trusted.
    let answer = answer(Path::new("/"), home, &["--null", "--get", name])?;
    let text = String::from_utf8(answer).ok()?;
    Some(text.trim_end_matches('\0').to_owned())
}

fn answer(folder: &Path, home: Option<&Path>, words: &[&str]) -> Option<Vec<u8>> {
    let mut git = Command::new("git");
    Settings::of(Programs::default()).apply(&mut git);
    git.envs(home.map(|home| ("HOME", home)));
    git.arg("-C").arg(folder).args(["config", "--global"]).args(words);
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Sandbox::default().spawn_own_reader(&mut git).ok()?;
    Bounds::default().hold(ProcessIdentity { pid: child.id(), start_ticks: 0 });
    let (said, answer) = mpsc::channel();
    let reader = child.stdout.take().map(|stdout| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(MOST_BYTES).read_to_end(&mut bytes);
            // If the time limit has passed, nobody receives the output and sending fails. Ignore
            // the error of sending.
            let _ = said.send(read.map(|_| bytes).unwrap_or_default());
        })
    });
    let bytes = answer.recv_timeout(ANSWER_TIME);
    // The program has closed its output or is too slow. Kill it in both cases. The kill also ends
    // the reader thread.
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.map(std::thread::JoinHandle::join);
    bytes.ok()
}
