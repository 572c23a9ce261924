//! Finds the processes of a run in `/proc`, among all processes of the machine.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The id of the parent process.
    pub parent: u32,
    /// The command line. Its arguments are separated by spaces.
    pub line: String,
    /// The name of the member that the process runs, taken from its arguments. `None` if it runs no
    /// member.
    pub member: Option<String>,
}

impl Process {
    /// Kills the process. Does nothing if the process has ended already.
    pub fn kill(&self) {
        kill(self.pid);
    }
}

/// Sends SIGKILL to a process.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, Signal::KILL);
    }
}

/// Describes what each thread of a process does now. If there is no such process, the text is empty.
#[must_use]
pub fn threads(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let thread = |task: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        let (name, waits) = (read("comm"), read("wchan"));
        format!("{} {} in {}", name.trim(), state.unwrap_or_default().trim(), waits.trim())
    };
    tasks.map(thread).collect::<Vec<_>>().join("; ")
}

/// Finds all processes whose environment variable `HOME` names this folder.
#[must_use]
pub fn processes_at_home(home: &Path) -> Vec<Process> {
    let home = format!("HOME={}", home.display());
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let is_here =
            environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
        is_here.then(|| process(pid)).flatten()
    })
    .collect()
}

/// Returns the processes that run members. Leaves out the helper processes that a member has
/// started.
#[must_use]
pub fn members(all: &[Process]) -> Vec<Process> {
    let is_member = |process: &&Process| process.member.is_some();
    let is_first = |process: &&Process| {
        let parent = all.iter().find(|other| other.pid == process.parent);
        parent.is_none_or(|parent| parent.member != process.member)
    };
    all.iter().filter(is_member).filter(is_first).cloned().collect()
}

fn process(pid: u32) -> Option<Process> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // A zombie has already ended. It is in the process table only because its parent has not
    // collected its status yet.
    if field("State:").is_some_and(|state| state.starts_with('Z')) {
        return None;
    }
    let words: Vec<&str> = line.trim_end_matches('\0').split('\0').collect();
    // The tmux client that creates a member's pane has the member's arguments on its command line.
    // But it does not run the member.
    let is_pitcrew = words.first().is_some_and(|program| !program.ends_with("tmux"));
    let name =
        words.iter().position(|word| *word == "--agent-name").and_then(|at| words.get(at + 1));
    Some(Process {
        pid,
        parent: field("PPid:")?.parse().ok()?,
        member: name.filter(|_| is_pitcrew).map(|name| (*name).to_owned()),
        line: words.join(" "),
    })
}
