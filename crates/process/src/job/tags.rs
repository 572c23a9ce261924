//! Determines which member or command a process belongs to. The module uses inherited environment
//! variables, parent processes and seccomp filters.

use std::collections::HashSet;
use std::fs;
use std::io;

use crate::PaneTag;
use crate::identity::{Entry, ProcessIdentity};

/// The environment variable that identifies one job. All processes that a tool of an agent starts
/// carry it.
pub const TAG_VARIABLE: &str = "PITCREW_JOB";

/// The environment variable that names the process that started a job. Its value is
/// `pid.start_ticks`: the process id and the start time of that process.
pub(super) const OWNER_VARIABLE: &str = "PITCREW_JOB_OWNER";

/// The environment variable of processes that are allowed to outlive the process that started them:
/// pane servers (such as the tmux server) and the user's hooks. Its value names the starting
/// process as `pid.start_ticks`: the process id and the start time of that process.
const OUTLIVES_VARIABLE: &str = "PITCREW_OUTLIVES";

/// The environment variable that names the member whose process runs in a pane. Its value is the
/// pane's tag. Child processes inherit the variable.
const MEMBER_VARIABLE: &str = "PITCREW_MEMBER";

/// Maximum number of processes that the mark names.
const OUTLIVED_MOST: usize = 8;

/// Maximum number of ancestors of a process that are checked.
const DESCENT_MOST: usize = 128;

/// Returns the name and value of the environment variable that marks all processes started by this
/// process. After this process has died, its child processes can still be found by the variable.
pub fn owner_variable() -> (&'static str, String) {
    (OWNER_VARIABLE, owner_tag(ProcessIdentity::own()))
}

/// Returns true if the process carries the tag that marks processes started by `owner`.
pub fn is_tagged_by(pid: u32, owner: ProcessIdentity) -> bool {
    carries(pid, &format!("{OWNER_VARIABLE}={}", owner_tag(owner)))
}

/// Returns the name and value of the environment variable that marks processes that are allowed to
/// outlive this process. Without the variable, pitcrew would treat such processes like those that a
/// command left running, and would stop them.
///
/// If this process may itself outlive others, such as a pane program its lead, then so may the
/// processes that it marks. A pane server that a pane program starts becomes a child of the lead.
pub fn outlives_variable() -> (&'static str, String) {
    let own = owner_tag(ProcessIdentity::own());
    let inherited = outlived_by(std::process::id()).into_iter().filter(|it| *it != own);
    let words: Vec<String> =
        std::iter::once(own.clone()).chain(inherited).take(OUTLIVED_MOST).collect();
    (OUTLIVES_VARIABLE, words.join(" "))
}

/// Returns true if the process carries the mark that allows it to outlive `parent`. Pitcrew sets
/// the mark when it starts a pane server or a user's hook. The children of the server or hook
/// inherit the mark too. The caller must therefore also check that `parent` is the direct parent of
/// the process.
pub fn outlives(pid: u32, parent: ProcessIdentity) -> bool {
    outlived_by(pid).contains(&owner_tag(parent))
}

/// Returns the processes that the process is allowed to outlive, as words.
fn outlived_by(pid: u32) -> Vec<String> {
    let environment = environment(pid);
    let value = environment.split(|byte| *byte == 0).find_map(|variable| {
        variable.strip_prefix(OUTLIVES_VARIABLE.as_bytes())?.strip_prefix(b"=")
    });
    let value = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
    value.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the name and value of the environment variable that proves that a process runs a member
/// of pitcrew. A record on disk alone does not prove this.
pub fn member_variable(tag: &PaneTag) -> (&'static str, String) {
    (MEMBER_VARIABLE, tag.to_string())
}

/// Returns true if the process is alive and carries the member tag `tag`. On systems without
/// `/proc`, the result is always false. If the result is false, pitcrew does not stop the process
/// and only closes its pane.
pub fn runs_member(process: ProcessIdentity, tag: &PaneTag) -> bool {
    let (name, value) = member_variable(tag);
    let carries = carries(process.pid, &format!("{name}={value}"));
    // Check that `process` is alive after its environment was read. If it is still alive, no other
    // process had its process id at the time of reading.
    carries && process.is_alive()
}

/// Returns true if a tool of an agent started the process. Any of three facts shows this:
///
/// - The process has more seccomp filters than the current process. Every command starts under a
///   seccomp filter and cannot remove the filter, even if the command's parents and environment
///   change.
/// - The process or one of its ancestors carries a job's tag.
/// - The process descends from the current process, and the current process did not start it
///   through a pane server or a user's hook.
///
/// A tag or an ancestor that the process has in common with the current process proves nothing. For
/// the current process itself the result is false.
///
/// # Errors
/// If the answer cannot be determined: without `/proc`, or if the process hides its environment or
/// has ended.
pub fn started_by_a_tool(pid: u32) -> io::Result<bool> {
    let ourselves = std::process::id();
    if pid == ourselves {
        return Ok(false);
    }
    if seccomp_filters(pid)? > seccomp_filters(ourselves)? {
        return Ok(true);
    }
    let (own_tag, own_line) = (tag_of(ourselves)?, ancestors(ourselves));
    let mut tag = tag_of(pid)?;
    let mut at = pid;
    for _ in 0..DESCENT_MOST {
        if tag.is_some() && tag != own_tag {
            return Ok(true);
        }
        let Some(entry) = Entry::read(at) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {at} is gone")));
        };
        match entry.parent {
            // Process 1 (init) is the end of the chain of parents, and no job's tag was found.
            0 | 1 => return Ok(false),
            // The current process started the process `at`. If `at` is a pane server (such as the
            // tmux server) or a user's hook, it is not a tool. A program that a user starts in a
            // pane server is not a tool either.
            parent if parent == ourselves => return Ok(!outlives(at, ProcessIdentity::own())),
            parent if own_line.contains(&parent) => return Ok(false),
            parent => at = parent,
        }
        // If the environment of the parent cannot be read, the parent belongs to another user, for
        // example a login process. pitcrew did not start such a parent, so the parent counts as
        // untagged.
        tag = tag_of(at).unwrap_or_default();
    }
    Err(io::Error::other("it descends from too many others"))
}

/// Returns true if a tool of an agent started the current process. The result is true if the
/// current process has more seccomp filters than the process `lead`, or a job's tag that `lead`
/// does not have.
///
/// # Errors
/// If the answer cannot be determined: without `/proc`, or if the process `lead` has ended or
/// belongs to another user.
pub fn are_started_by_a_tool_of(lead: ProcessIdentity) -> io::Result<bool> {
    let ourselves = std::process::id();
    let is_filtered = seccomp_filters(ourselves)? > seccomp_filters(lead.pid)?;
    Ok(is_filtered
        || tag_of(ourselves)?.is_some_and(|tag| tag_of(lead.pid).ok().flatten() != Some(tag)))
}

fn ancestors(of: u32) -> HashSet<u32> {
    let parent =
        |pid: &u32| Entry::read(*pid).map(|entry| entry.parent).filter(|parent| *parent > 1);
    std::iter::successors(parent(&of), parent).take(DESCENT_MOST).collect()
}

/// Returns the number of seccomp filters of the process. Returns 0 if the kernel does not report
/// the number (Linux before 5.9).
fn seccomp_filters(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    Ok(filters.and_then(|count| count.trim().parse().ok()).unwrap_or(0))
}

fn tag_of(pid: u32) -> io::Result<Option<Vec<u8>>> {
    let environment = fs::read(format!("/proc/{pid}/environ"))?;
    let tag = |variable: &[u8]| {
        Some(variable.strip_prefix(TAG_VARIABLE.as_bytes())?.strip_prefix(b"=")?.to_vec())
    };
    Ok(environment.split(|byte| *byte == 0).find_map(tag))
}

pub(super) fn owner_tag(owner: ProcessIdentity) -> String {
    format!("{}.{}", owner.pid, owner.start_ticks)
}

pub(super) fn carries(pid: u32, mark: &str) -> bool {
    environment(pid).split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

/// Returns the environment with which a process was started. The result is empty if the process has
/// ended or belongs to another user.
fn environment(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}
