//! Values that the kernel reports about a process: the memory of the process, and how many times
//! the process gave up the processor.

use std::fs::read_to_string;

/// The memory of a process, in MB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// All resident memory. A page that processes share is counted in full.
    pub(crate) resident: f64,
    /// All resident memory. The size of a shared page is divided by the number of processes that
    /// share the page.
    pub(crate) proportional: f64,
    /// The memory that the process shares with none of the other processes.
    pub(crate) private: f64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> Self {
        let text = read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the process lives");
        let mb = |name: &str| field(&text, name) as f64 / 1024.0;
        Self {
            resident: mb("Rss:"),
            proportional: mb("Pss:"),
            private: mb("Private_Clean:") + mb("Private_Dirty:"),
        }
    }
}

/// How many times the threads of a process gave up the processor voluntarily. A thread does this
/// once after each wake-up, so this number counts the wake-ups.
pub(crate) fn wake_ups(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let texts =
        threads.filter_map(|thread| read_to_string(thread.ok()?.path().join("status")).ok());
    texts.map(|text| field(&text, "voluntary_ctxt_switches:")).sum()
}

pub(crate) fn threads(pid: u32) -> u64 {
    field(&read_to_string(format!("/proc/{pid}/status")).expect("the process lives"), "Threads:")
}

fn field(text: &str, name: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("the kernel says no {name}"))
}
