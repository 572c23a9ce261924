//! What a member's process started, and how all of it is stopped.

use pitcrew_protocol::Program;
use std::time::Duration;

use super::{Claim, ProcessGroup, carries, member_variable, runs_member};
use crate::PaneTag;
use crate::identity::{ProcessIdentity, Stopped};

/// By what a process is known that runs a member, or ran it, with all that it started. Commands of ours carry the tag of
/// their owner; those of another client are known by the member's tag only, which they inherit from the client. Nothing is
/// claimed by that tag when this very process carries it: then the client, or one of its commands, has started us.
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

/// Stops a process that runs a member, or ran it until it died, with all that it started: TERM, `grace`, KILL. A process
/// that is alive and does not carry the member's tag is another's: a record can name any, and it is left alone.
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

/// What the process that ran a member left running; nothing while it is alive.
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
