//! A command that runs without a permission request must neither write to the user's terminal nor
//! read from it.
//!
//! A command can reach a terminal only if its process has one. So the test runs itself again on a
//! private terminal, with the program `script`.

use std::fs;
use std::path::Path;
use std::process::Command;

use pitcrew_process::sandbox::{Profile, Sandbox, Support};
use pitcrew_tools::ToolContext;
use serde_json::json;

use crate::sandbox_read::Ground;

/// This environment variable is set in the test process that runs on the private terminal. Its
/// value is the path of a file. The test process writes the output of the commands to this file.
const ON_TERMINAL: &str = "PITCREW_TEST_ON_TERMINAL";

/// The text that appears on the terminal if a command reaches it.
const LEAK: &str = "LEAKED";

/// Commands that try to write to the terminal. `$PTS` is the device file of the terminal.
const TRIES: &[&str] = &[
    "printf 'LEA%s' KED > /dev/tty",
    "exec 3<> /dev/tty; printf 'LEA%s' KED >&3",
    "printf 'LEA%s' KED | tee /dev/tty > /dev/null",
    "printf 'LEA%s' KED > $PTS",
    "printf 'LEA%s' KED > /proc/$PPID/fd/0",
    "printf 'LEA%s' KED > /proc/$PPID/task/$PPID/root/dev/tty",
    "printf 'LEA%s' KED > /proc/$PPID/root$PTS",
    "setsid -w sh -c \"printf 'LEA%s' KED > $PTS\"",
    "cp /dev/stdin /dev/tty < own",
    "dd if=own of=/dev/tty",
    "python3 -c \"import os; os.write(os.open('/dev/tty', os.O_WRONLY), b'LEA' + b'KED')\"",
    "python3 -c \"import os, fcntl, termios; fd = os.open('/dev/tty', os.O_RDWR); [fcntl.ioctl(fd, termios.TIOCSTI, bytes([c])) for c in b'LEA' + b'KED']\"",
];

/// Commands that try to open the terminal for reading, or to change its settings. Without a
/// sandbox, some of these commands would wait forever.
const OPENING: &[&str] = &[
    "sh -c 'exec 3< /dev/tty' && echo OPENED",
    "stty -F /dev/tty -echo && echo OPENED",
    "timeout 1 head -c 1 /dev/tty > /dev/null; test $? = 124 && echo OPENED",
];

/// Runs this test again on a private terminal. Returns the text on the terminal, and the output of
/// the commands.
fn on_a_terminal(test: &str) -> Option<(String, String)> {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!(
            "\n!!! SKIPPED: script is not installed. Nothing was proved about terminals on this machine. !!!\n"
        );
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let exe = std::env::current_exe().unwrap();
    let again = format!("exec {} --exact {test} --nocapture", exe.display());
    let mut script = Command::new("script");
    let output =
        script.args(["-qec", &again, "/dev/null"]).env(ON_TERMINAL, &said).output().unwrap();
    let seen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{seen}");
    Some((seen, fs::read_to_string(&said).unwrap()))
}

/// Runs every attempt in the given sandbox profile, and writes the output to the file `said`.
async fn run_tries(profile: Option<Profile>, said: &Path) {
    let mut ground = match profile {
        Some(_) => Ground::new(),
        None => Some(Ground::with(|_| Sandbox::default())),
    };
    let mut all = String::new();
    if let Some(ground) = &mut ground {
        let is_held =
            profile.is_none_or(|it| !matches!(ground.sandbox.support(it), Support::Missing { .. }));
        let terminal = fs::read_link("/proc/self/fd/0").unwrap();
        ground.setting.write("own", LEAK);
        ground.setting.context.env.push(("PTS".to_owned(), terminal.display().to_string()));
        let context = ToolContext {
            profile: profile.unwrap_or(Profile::Free),
            ..ground.setting.context.clone()
        };
        let opening = OPENING.iter().filter(|_| profile.is_some());
        for command in TRIES.iter().chain(opening).filter(|_| is_held) {
            let told =
                ground.setting.call_as(&context, "Bash", json!({ "command": command })).await.text;
            all += &format!("{command}: {told}\n");
        }
    }
    fs::write(said, all).unwrap();
}

#[tokio::test]
async fn a_command_in_read_reaches_no_terminal() {
    if let Some(said) = std::env::var_os(ON_TERMINAL) {
        return run_tries(Some(Profile::Read), said.as_ref()).await;
    }
    let test = "sandbox_terminal::a_command_in_read_reaches_no_terminal";
    let Some((seen, said)) = on_a_terminal(test) else { return };
    assert!(!seen.contains(LEAK) && !said.contains(": OPENED"), "{seen}\n{said}");
}

#[tokio::test]
async fn a_command_in_work_reaches_no_terminal() {
    if let Some(said) = std::env::var_os(ON_TERMINAL) {
        return run_tries(Some(Profile::Work), said.as_ref()).await;
    }
    let test = "sandbox_terminal::a_command_in_work_reaches_no_terminal";
    let Some((seen, said)) = on_a_terminal(test) else { return };
    assert!(!seen.contains(LEAK) && !said.contains(": OPENED"), "{seen}\n{said}");
}

#[tokio::test]
async fn the_tries_reach_the_terminal_where_nothing_holds_a_command() {
    if let Some(said) = std::env::var_os(ON_TERMINAL) {
        return run_tries(None, said.as_ref()).await;
    }
    let test = "sandbox_terminal::the_tries_reach_the_terminal_where_nothing_holds_a_command";
    let Some((seen, said)) = on_a_terminal(test) else { return };
    let leaks = seen.matches(LEAK).count();
    assert!(leaks >= 9, "{leaks} {seen}\n{said}");
}
