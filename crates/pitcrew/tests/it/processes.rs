//! Finds the processes of one test among all processes of the machine. To find them, this module
//! reads `/proc`.

use std::fs;

use pitcrew_process::identity::ProcessIdentity;

use crate::test_env::TestEnv;

/// Returns all processes whose environment variable `HOME` is the home of this test environment.
pub(crate) fn processes_in(room: &TestEnv) -> Vec<ProcessIdentity> {
    let home = format!("HOME={}", room.work().parent().unwrap().display());
    let at_home = environments().filter(|(_, environment)| has(environment, &home));
    at_home.filter_map(|(pid, _)| ProcessIdentity::of(pid)).collect()
}

/// Returns the process id and the environment of every process.
pub(crate) fn environments() -> impl Iterator<Item = (u32, Vec<u8>)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, fs::read(format!("/proc/{pid}/environ")).ok()?)))
}

/// Whether an environment contains `variable`, in the form `NAME=value`.
pub(crate) fn has(environment: &[u8], variable: &str) -> bool {
    environment.split(|byte| *byte == 0).any(|there| there == variable.as_bytes())
}

/// Returns the command line of a process as one text. The text is empty if the process has ended.
pub(crate) fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

/// The processes in the test environment that run this command.
pub(crate) fn commands_in(room: &TestEnv, command: &str) -> Vec<ProcessIdentity> {
    processes_in(room).into_iter().filter(|process| command_line(process.pid) == command).collect()
}
