//! Shows which member or command a process belongs to, by inherited environment variables, its
//! parents and its seccomp filters.

use std::collections::HashSet;
use std::fs;
use std::io;

use crate::PaneTag;
use crate::identity::{Entry, ProcessIdentity};

/// The variable that identifies one job. All processes that a tool of an agent starts carry it.
pub const TAG_VARIABLE: &str = "PITCREW_JOB";

/// The variable that names the process that started a job, as `pid.start_ticks`.
pub(super) const OWNER_VARIABLE: &str = "PITCREW_JOB_OWNER";

/// The variable of processes that may outlive the process that started them: pane servers and the
/// user's hooks. Its value is the starting process, as `pid.start_ticks`.
const OUTLIVES_VARIABLE: &str = "PITCREW_OUTLIVES";

/// The variable that names the member that a process in a pane runs. Its value is the pane's tag.
/// Child processes inherit it.
const MEMBER_VARIABLE: &str = "PITCREW_MEMBER";

/// Maximum number of ancestors of a process that are checked.
const DESCENT_MOST: usize = 128;

/// Returns the variable that marks all processes started by this one. They can be found by it after
/// this process has died.
pub fn owner_variable() -> (&'static str, String) {
    (OWNER_VARIABLE, owner_tag(ProcessIdentity::own()))
}

/// Returns true if the process carries the tag of processes that `owner` started.
pub fn is_tagged_by(pid: u32, owner: ProcessIdentity) -> bool {
    carries(pid, &format!("{OWNER_VARIABLE}={}", owner_tag(owner)))
}

/// Returns the variable that marks processes that may outlive this one. It distinguishes them from
/// processes that a command hid.
pub fn outlives_variable() -> (&'static str, String) {
    (OUTLIVES_VARIABLE, owner_tag(ProcessIdentity::own()))
}

/// Returns true if the process may outlive `parent`, which started it as a server or for a hook.
/// Its own children inherit the variable, but have another parent.
pub fn outlives(pid: u32, parent: ProcessIdentity) -> bool {
    carries(pid, &format!("{OUTLIVES_VARIABLE}={}", owner_tag(parent)))
}

/// Returns the variable that proves that a process runs a member of pitcrew, whatever a record
/// says.
pub fn member_variable(tag: &PaneTag) -> (&'static str, String) {
    (MEMBER_VARIABLE, tag.to_string())
}

/// Returns true if the process carries the tag of this member. Always false without `/proc`: a
/// process that cannot be proved to belong to pitcrew is left alone, and only its pane is closed.
pub fn runs_member(process: ProcessIdentity, tag: &PaneTag) -> bool {
    let (name, value) = member_variable(tag);
    let carries = carries(process.pid, &format!("{name}={value}"));
    // Check after reading, so that the environment was certainly that of this process.
    carries && process.is_alive()
}

/// Returns true if a tool of an agent started the process. That is so if it has more seccomp
/// filters than this process, carries a job's tag, or descends from a process with such a tag or
/// from this process. Every command starts under a seccomp filter and cannot remove it, even if its
/// parents and its environment change. A tag or an ancestor that this process shares proves
/// nothing. For this process itself the result is false.
///
/// # Errors
/// If this cannot be determined: without `/proc`, or if the process hides its environment or has
/// ended.
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
            // The chain ends at init without a job's tag.
            0 | 1 => return Ok(false),
            // A pane server is not a tool, and neither is a program that a user starts in one.
            parent if parent == ourselves => return Ok(!outlives(at, ProcessIdentity::own())),
            parent if own_line.contains(&parent) => return Ok(false),
            parent => at = parent,
        }
        // The parent belongs to another user, for example a login process, so pitcrew did not start
        // it.
        tag = tag_of(at).unwrap_or_default();
    }
    Err(io::Error::other("it descends from too many others"))
}

/// Returns true if a tool of an agent started this process. Compares it with the process `lead`: it
/// has more seccomp filters, or a job's tag that the lead's process does not have.
///
/// # Errors
/// If this cannot be determined: without `/proc`, or if the other process has ended or belongs to
/// another user.
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

/// Returns the number of seccomp filters of the process. Returns 0 if the kernel does not report it
/// (Linux before 5.9).
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

/// Returns the environment with which a process was started. Empty if the process has ended or
/// belongs to another user.
fn environment(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}
