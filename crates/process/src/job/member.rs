//! Finds and stops the processes that a team member's process has started.

use std::time::Duration;

use pitcrew_protocol::Program;

use super::{Claim, ProcessGroup, carries, member_variable, runs_member};
use crate::PaneTag;
use crate::identity::{ProcessIdentity, Stopped};

/// Returns how to recognize the processes that a member's process has started. If the member runs
/// pitcrew, its commands carry an owner tag. If the member runs another client, its commands carry
/// only the member's tag, which they inherit from the client.
///
/// If the current process carries the member's tag too, the client or one of its commands has
/// started the current process. The processes are then not recognized by the member's tag.
fn claim(process: ProcessIdentity, program: Program, tag: &PaneTag) -> Claim {
    let member = match program {
        Program::Pitcrew => None,
        Program::Claude => {
            let (name, value) = member_variable(tag);
            Some(format!("{name}={value}")).filter(|mark| !carries(std::process::id(), mark))
        }
    };
    Claim { member, ..Claim::on_stranger(process) }
}

/// Stops a process that runs or ran a member, and all processes that it started. The function sends
/// TERM, waits `grace`, then sends KILL. A running process without the member's tag is left alone,
/// because the record on disk that names the process could name any process.
pub async fn stop_member_process(
    process: ProcessIdentity,
    program: Program,
    tag: &PaneTag,
    grace: Duration,
) -> Stopped {
    if process == ProcessIdentity::own() || (process.is_alive() && !runs_member(process, tag)) {
        return Stopped::WasGone;
    }
    ProcessGroup { claim: claim(process, program, tag), is_gone: false, aftermath: None }
        .stop_all(grace)
        .await
}

/// Returns the processes that a member's process left running when it died. Returns an empty list
/// while the member's process is alive.
pub async fn left_by_member(
    process: ProcessIdentity,
    program: Program,
    tag: &PaneTag,
) -> Vec<ProcessIdentity> {
    if process.is_alive() {
        return Vec::new();
    }
    let claim = claim(process, program, tag);
    tokio::task::spawn_blocking(move || claim.owned()).await.unwrap_or_default()
}
