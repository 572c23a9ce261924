//! Finds the processes that a member's process has started, and stops all of them.

use std::time::Duration;

use pitcrew_protocol::Program;

use super::{Claim, ProcessGroup, carries, member_variable, runs_member};
use crate::PaneTag;
use crate::identity::{ProcessIdentity, Stopped};

/// Returns how to recognize the processes that a member's process has started. Pitcrew's commands
/// carry an owner tag. Commands of another client carry only the member's tag, which they inherit
/// from the client. If the current process carries the same member tag, that tag is not used: then
/// the client or one of its commands has started the current process.
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

/// Stops a process that runs or ran a member, and all processes that it started: sends TERM, waits
/// `grace`, sends KILL. A running process without the member's tag is left alone, because a record
/// on disk could name any process.
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

/// Returns the processes that a member's process left running when it died. Empty while the
/// member's process is alive.
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
