//! The processes of one test among all that run on the machine, by `/proc`.

use std::fs;

use pitcrew_runtime::identity::ProcessIdentity;

use crate::test_env::TestEnv;

/// Everything that runs with the room as its home.
pub(crate) fn processes_in(room: &TestEnv) -> Vec<ProcessIdentity> {
    let home = format!("HOME={}", room.work().parent().unwrap().display());
    let at_home = environments().filter(|(_, environment)| has(environment, &home));
    at_home.filter_map(|(pid, _)| ProcessIdentity::of(pid)).collect()
}

/// The environment of every process.
pub(crate) fn environments() -> impl Iterator<Item = (u32, Vec<u8>)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, fs::read(format!("/proc/{pid}/environ")).ok()?)))
}

/// Whether it has `variable`, with its value.
pub(crate) fn has(environment: &[u8], variable: &str) -> bool {
    environment.split(|byte| *byte == 0).any(|there| there == variable.as_bytes())
}

/// The command line of a process, in one text; empty for one that is gone.
pub(crate) fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

/// The processes in the room that run this command.
pub(crate) fn commands_in(room: &TestEnv, command: &str) -> Vec<ProcessIdentity> {
    processes_in(room).into_iter().filter(|process| command_line(process.pid) == command).collect()
}
