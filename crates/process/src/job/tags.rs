//! What tells whose a process is: variables that everything it starts inherits, its parents, and its seccomp filters.

use std::collections::HashSet;
use std::fs;
use std::io;

use crate::PaneTag;
use crate::identity::{Entry, ProcessIdentity};

/// The variable whose value every process of one job carries: whatever a tool of an agent starts.
pub const TAG_VARIABLE: &str = "PITCREW_JOB";

/// The variable that names the process that started a job, as `pid.start_ticks`.
pub(super) const OWNER_VARIABLE: &str = "PITCREW_JOB_OWNER";

/// The variable of what may outlive the process that started it: the servers that hold panes, and the user's hooks. Its
/// value is that process, as `pid.start_ticks`.
const OUTLIVES_VARIABLE: &str = "PITCREW_OUTLIVES";

/// The variable that names the member that a process in a pane runs: the tag of its pane. What it starts inherits it.
const MEMBER_VARIABLE: &str = "PITCREW_MEMBER";

/// How many ancestors of a process are looked at.
const DESCENT_MOST: usize = 128;

/// The variable by which whatever this process starts is found when it is dead.
pub fn owner_variable() -> (&'static str, String) {
    (OWNER_VARIABLE, owner_tag(ProcessIdentity::own()))
}

/// Whether the process carries the tag of what `owner` started.
pub fn is_tagged_by(pid: u32, owner: ProcessIdentity) -> bool {
    carries(pid, &format!("{OWNER_VARIABLE}={}", owner_tag(owner)))
}

/// The variable by which what outlives this process is known from what a command moved out of sight.
pub fn outlives_variable() -> (&'static str, String) {
    (OUTLIVES_VARIABLE, owner_tag(ProcessIdentity::own()))
}

/// Whether the process may outlive its parent, which started it as a server, or for a hook. What it starts itself inherits
/// the variable, but not the parent.
pub fn outlives(pid: u32, parent: ProcessIdentity) -> bool {
    carries(pid, &format!("{OUTLIVES_VARIABLE}={}", owner_tag(parent)))
}

/// The variable by which a process that runs a member is known to be ours, whatever a record says.
pub fn member_variable(tag: &PaneTag) -> (&'static str, String) {
    (MEMBER_VARIABLE, tag.to_string())
}

/// Whether the process carries the tag of that member. Where there is no `/proc` none does: what cannot be proved ours is
/// left alone, and its pane is closed.
pub fn runs_member(process: ProcessIdentity, tag: &PaneTag) -> bool {
    let (name, value) = member_variable(tag);
    let carries = carries(process.pid, &format!("{name}={value}"));
    // Looked at after: the environment read was that of this very process.
    carries && process.is_alive()
}

/// Whether a tool of an agent started the process: one that runs under more seccomp filters than we do, carries a job's tag,
/// or descends from one, or from us. Every command is started under a filter, and none can be shed, whatever becomes of its
/// parents and its environment. What we carry or descend from ourselves started us too, and says nothing; nor does this very
/// process.
///
/// # Errors
/// When that cannot be told: where there is no `/proc`, and for a process that hides its environment or is gone.
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
            0 | 1 => return Ok(false),
            // A server of panes is no tool, nor is what a user starts in one.
            parent if parent == ourselves => return Ok(!outlives(at, ProcessIdentity::own())),
            parent if own_line.contains(&parent) => return Ok(false),
            parent => at = parent,
        }
        // Another user's, such as a login's: nothing of ours.
        tag = tag_of(at).unwrap_or_default();
    }
    Err(io::Error::other("it descends from too many others"))
}

/// Whether a tool of an agent started this very process, as far as the process of its lead can be compared with it: by more
/// seccomp filters, or by the tag of a job.
///
/// # Errors
/// When that cannot be told: where there is no `/proc`, and when the other process is gone or another user's.
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

/// How many seccomp filters the process runs under; none where the kernel does not tell (Linux before 5.9).
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

/// The environment a process was started with; empty when it is gone or another user's.
fn environment(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}
