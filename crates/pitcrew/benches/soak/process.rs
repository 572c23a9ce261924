//! Values that the kernel reports about a process: its memory, the processor time of each thread,
//! and the number of bytes that it wrote.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::PathBuf;

/// The number of ticks in a second. `/proc` gives processor time in ticks. The number is the same
/// on all machines.
const TICKS_PER_SECOND: f64 = 100.0;

/// The values of one process, read from `/proc` at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessReading {
    /// Resident memory, in bytes.
    pub(crate) resident: u64,
    /// The processor time since the start of the process, in seconds. Threads that have ended are
    /// included.
    pub(crate) cpu_seconds: f64,
    /// The name and the processor time of each living thread, by thread id. The time is in ticks.
    pub(crate) by_thread: BTreeMap<u32, (String, u64)>,
    /// The number of bytes that the process has written.
    pub(crate) written: u64,
}

impl ProcessReading {
    pub(crate) fn of(pid: u32) -> Self {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let read = |name: &str| {
            read_to_string(folder.join(name))
                .unwrap_or_else(|error| panic!("process {pid} has ended: {error}"))
        };
        let tasks = std::fs::read_dir(folder.join("task")).expect("the process lives");
        let thread = |id: u32| {
            // A thread may end after it was listed and before its file is read. Skip such a thread.
            let stat = read_to_string(folder.join(format!("task/{id}/stat"))).ok()?;
            let name = stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
            Some((id, (name, ticks(&stat)?)))
        };
        let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let by_thread: BTreeMap<_, _> = ids.filter_map(thread).collect();
        Self {
            resident: resident(pid),
            cpu_seconds: ticks(&read("stat")).expect("the kernel's form") as f64 / TICKS_PER_SECOND,
            by_thread,
            written: field(&read("io"), "wchar:"),
        }
    }

    /// Returns the processor time since an earlier reading, in seconds. Threads with the same name
    /// are added together. The name with the most time comes first.
    pub(crate) fn cpu_since(&self, earlier: &Self) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, (name, now)) in &self.by_thread {
            let before = earlier.by_thread.get(id).map_or(0, |(_, before)| *before);
            *sums.entry(name).or_default() += now.saturating_sub(before);
        }
        let seconds =
            |(name, ticks): (&str, u64)| (name.to_owned(), ticks as f64 / TICKS_PER_SECOND);
        let mut sums: Vec<_> = sums.into_iter().map(seconds).collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        sums
    }
}

/// Returns the resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = read_to_string(format!("/proc/{pid}/status"));
    let status = status.unwrap_or_else(|error| panic!("process {pid} has ended: {error}"));
    field(&status, "VmRSS:") * 1024
}

/// Returns how often any thread of a process has been woken since its start. A thread that waits and
/// is woken gives its processor up once, of its own accord.
pub(crate) fn wake_ups(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let statuses = tasks.filter_map(|task| read_to_string(task.ok()?.path().join("status")).ok());
    statuses.map(|status| field(&status, "voluntary_ctxt_switches:")).sum()
}

/// The sum of user time and system time in a `stat` line, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

fn field(text: &str, name: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("the kernel says no {name}"))
}
