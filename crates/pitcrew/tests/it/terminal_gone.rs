//! Tests a run whose terminal disappears and that gets no signal about this. The run must still
//! obey a later signal.

use std::fs::{self, File};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::patience::until;
use crate::test_env::TestEnv;

/// The script of a lead that thinks for longer than the test runs.
const SCRIPT: &str = "agents:\n  team-lead:\n    - delay_ms: 600000\n      text: done\n";

/// Checks that a run without its terminal ends at SIGTERM. This is difficult, because a read of
/// crossterm from the missing terminal never returns. The run gets no SIGHUP, because the terminal
/// is not its controlling terminal.
#[test]
fn a_run_without_its_terminal_ends_at_a_signal() {
    let env = TestEnv::new();
    fs::write(env.work().join("script.yaml"), SCRIPT).unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let end = || Stdio::from(File::options().read(true).write(true).open(&path).unwrap());
    let mut run = env
        .tool("setsid", &[env!("CARGO_BIN_EXE_pitcrew"), "run", "wait", "--model"])
        .arg("script:script.yaml")
        .stdin(end())
        .stderr(end())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let journal = env.root().join("teams/work/pitcrew/journal.ndjson");
    let works = || {
        let journal = fs::read_to_string(&journal).ok()?;
        journal.contains("\"running\"").then_some(())
    };
    until("the lead works", works, || format!("{:?}", env.tree().keys()));
    drop(terminal);
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let ended = until("the run ends", || run.try_wait().unwrap(), || "it runs on".to_owned());
    assert_eq!(ended.code(), Some(143));
}
