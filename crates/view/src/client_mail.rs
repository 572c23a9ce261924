//! Folds the mail of members that another client runs into the state of their team.
//!
//! Such a client has no journal. Its config says at most that a member is in a turn, and keeps saying
//! so after the turn of a message. The members write the rest to their lead: the end of each turn,
//! plans, and requests for permissions (`fixtures/claude-2.1.39/tmux-permissions`). A newer client
//! takes what its lead has read out of the inbox, so what was answered there may be unknown.

use std::collections::BTreeSet;

use pitcrew_protocol::{
    AgentName, Frame, LEAD_NAME, Member, PermissionMode, PermissionResponse, Status, TaskStatus,
};
use pitcrew_runtime::events::RunEvent;
use pitcrew_team::{Mail, SpawnRecord, TeamRecords, sent_at_ms};

use crate::fold::fold_run;
use crate::state::TeamState;
use crate::text::first_line;
use crate::wording::mode_in_words;

/// Maximum number of characters of a tool's name, which every program of the user can write.
const TOOL_CHARS: usize = 60;

/// Returns the members that another client runs, without the lead. `is_recorded` says whether the
/// journal has a state of a member.
pub(crate) fn client_members(
    members: &[Member],
    is_recorded: impl Fn(&AgentName) -> bool,
) -> BTreeSet<AgentName> {
    let is_clients = |member: &&Member| {
        SpawnRecord::of(member).is_none()
            && !member.is_called(LEAD_NAME)
            && !is_recorded(&member.name)
    };
    members.iter().filter(is_clients).map(|member| member.name.clone()).collect()
}

/// Reads the mail from and to members, with its receivers, in the order of its times. Mail that cannot
/// be read tells nothing here.
pub(crate) async fn mail_of(
    records: &TeamRecords,
    members: &BTreeSet<AgentName>,
) -> Vec<(AgentName, Mail)> {
    let mut all = Vec::new();
    if members.is_empty() {
        return all;
    }
    for name in members.iter().chain([&AgentName::lead()]) {
        let mail = records.mail(name).await.unwrap_or_default();
        let is_theirs = |mail: &Mail| name.as_str() != LEAD_NAME || sender(members, mail).is_some();
        all.extend(mail.into_iter().filter(is_theirs).map(|mail| (name.clone(), mail)));
    }
    all.sort_by_cached_key(|(_, mail)| sent_at_ms(mail));
    all
}

fn sender<'a>(members: &'a BTreeSet<AgentName>, mail: &Mail) -> Option<&'a AgentName> {
    // The client writes the name as the config has it.
    members.get(&AgentName::foreign(&mail.message.from))
}

/// Folds a message of [`mail_of`].
pub(crate) fn fold_mail(
    state: &mut TeamState,
    members: &BTreeSet<AgentName>,
    (to, mail): &(AgentName, Mail),
) {
    if to.as_str() == LEAD_NAME {
        if let (Some(from), Some(frame)) = (sender(members, mail), &mail.frame) {
            reported(state, from, frame);
        }
    } else if members.contains(to) {
        received(state, to, mail);
    }
}

/// Folds what a member wrote to its lead.
fn reported(state: &mut TeamState, agent: &AgentName, frame: &Frame) {
    let is_over = state.agent(agent).is_some_and(|agent| agent.status.is_over());
    let status = match frame {
        Frame::IdleNotification(_) => {
            if let Some(agent) = state.agent_mut(agent) {
                agent.asks.clear();
            }
            let plans =
                state.agent(agent).is_some_and(|it| it.status == Status::AwaitingPlanApproval);
            // A notification can follow the approval of a shutdown, and one follows a plan.
            if is_over || plans { None } else { Some(Status::Idle) }
        }
        Frame::PermissionRequest(it) => {
            changed(state, agent, Status::Active);
            let (call, tool) = (it.request_id.clone(), first_line(&it.tool_name, TOOL_CHARS));
            fold_run(state, &RunEvent::PermissionAsked { agent: agent.clone(), call, tool });
            None
        }
        Frame::PlanApprovalRequest(_) => {
            state.counts.plans += 1;
            Some(Status::AwaitingPlanApproval)
        }
        Frame::ShutdownApproved(_) => Some(Status::Completed),
        Frame::ShutdownRejected(_) => Some(Status::Active),
        Frame::ShutdownResponse(it) if it.approved => Some(Status::Completed),
        Frame::ShutdownResponse(_) => Some(Status::Active),
        Frame::TaskCompleted(it) => {
            let task = state.tasks.iter_mut().find(|task| task.id.as_str() == it.task_id);
            if let Some(task) = task {
                task.status = TaskStatus::Completed;
            }
            None
        }
        Frame::TaskAssignment(_)
        | Frame::ShutdownRequest(_)
        | Frame::PlanApprovalResponse(_)
        | Frame::PermissionResponse(_)
        | Frame::TeammateTerminated(_) => None,
    };
    if let Some(status) = status {
        changed(state, agent, status);
    }
}

/// Folds what a member got. A message that it has read begins a turn, if it was in none.
fn received(state: &mut TeamState, agent: &AgentName, mail: &Mail) {
    match &mail.frame {
        Some(Frame::PermissionResponse(it)) => answered(state, agent, it),
        Some(Frame::PlanApprovalResponse(it)) => {
            let waits = state
                .agent(agent)
                .is_some_and(|agent| agent.status == Status::AwaitingPlanApproval);
            // An answer can come twice.
            if waits {
                changed(state, agent, Status::Active);
            }
            if it.approved
                && let Some(agent) = state.agent_mut(agent)
                && agent.mode.as_deref() == Some(PermissionMode::Plan.as_str())
            {
                let mode = it.permission_mode.as_deref().and_then(mode_in_words);
                agent.mode = mode.or_else(|| Some(PermissionMode::Default.as_str().to_owned()));
            }
        }
        Some(Frame::ShutdownRequest(_)) => changed(state, agent, Status::ShutdownRequested),
        Some(Frame::TaskAssignment(it)) => {
            let task = state.tasks.iter_mut().find(|task| task.id.as_str() == it.task_id);
            if let Some(task) = task.filter(|task| task.owner.is_none()) {
                task.owner = Some(agent.to_string());
            }
        }
        _ if mail.message.is_read() => {
            let rests = |it: &Status| matches!(it, Status::Pending | Status::Idle);
            if state.agent(agent).map(|agent| agent.status).filter(rests).is_some() {
                changed(state, agent, Status::Active);
            }
        }
        _ => {}
    }
}

fn answered(state: &mut TeamState, agent: &AgentName, response: &PermissionResponse) {
    if state.agent(agent).is_none_or(|it| !it.asks.contains_key(&response.request_id)) {
        return;
    }
    let refused =
        (response.subtype != "success").then(|| response.error.clone().unwrap_or_default());
    let (agent, call) = (agent.clone(), response.request_id.clone());
    fold_run(state, &RunEvent::PermissionAnswered { agent, call, refused, would_allow: None });
}

fn changed(state: &mut TeamState, agent: &AgentName, status: Status) {
    let agent = agent.clone();
    fold_run(state, &RunEvent::AgentChanged { agent, status, detail: None });
}
