//! Who answers when a call needs a permission: a person, or the policy of the run.

use std::path::Path;

use pitcrew_protocol::{AgentName, Member};
use pitcrew_team::{KnownMode, SpawnRecord};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::mode::mode_named;
use super::quarters::Quarters;
use crate::gate::{Call, PermissionMode, Verdict};
use crate::run::{Answer, Ask, Asks};
use crate::sandbox::Profile;
use crate::transcript::Grant;

/// A call that somebody is asked about.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) agent: AgentName,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) description: String,
}

/// What the rules of the run say to a call that is asked for by a member of another client, which does not know them;
/// nothing where somebody has to decide. Ours have judged their calls by the same rules before they ask.
pub(crate) fn by_rule(quarters: &Quarters, member: &Member, pending: &Pending) -> Option<Grant> {
    if SpawnRecord::is_run_by_us(member) {
        return None;
    }
    // A client in plan mode asks for nothing: one that asks has had its plan approved.
    let (known, _refused) = KnownMode::of(&quarters.team, member);
    let mode = mode_named(known.mode()).filter(|mode| *mode != PermissionMode::Plan).unwrap_or_default();
    let cwd = member.worktree_path.as_deref().or(member.cwd.as_deref()).map_or(&*quarters.cwd, Path::new);
    let call = Call { tool: &pending.tool, input: &pending.input, cwd, plan_file: None };
    match quarters.gate.judge(mode, &call) {
        Verdict::Allow { profile: Profile::Free } => Some(Grant::Allowed { input: None, updates: Vec::new() }),
        // Another client runs its own commands, and nothing holds them to less.
        Verdict::Allow { profile: Profile::Read | Profile::Work } => None,
        Verdict::Deny { reason } => Some(denied(reason)),
        Verdict::Ask { .. } => None,
    }
}

/// Gets the answer. A person that does not answer, or is gone, denies.
pub(crate) async fn decide(asks: Asks, pending: Pending) -> Grant {
    match asks {
        Asks::Allow => Grant::Allowed { input: None, updates: Vec::new() },
        Asks::Deny => denied(format!(
            "nobody is there to ask, and the run denies what is not allowed by a rule ({})",
            pending.description
        )),
        Asks::Person(person) => {
            ask(person, pending).await.unwrap_or_else(|| denied("the user did not answer".to_owned()))
        }
    }
}

/// Asks a person; `None` from one that does not answer, or is gone.
pub(crate) async fn ask(person: mpsc::Sender<Ask>, pending: Pending) -> Option<Grant> {
    let (answer, answered) = oneshot::channel();
    let Pending { agent, tool, input, description } = pending;
    person.send(Ask { agent, tool, input, reason: description, answer }).await.ok()?;
    Some(match answered.await.ok()? {
        Answer::Allow => Grant::Allowed { input: None, updates: Vec::new() },
        Answer::AllowAndSwitch(mode) => {
            let update = json!({"type": "setMode", "mode": mode, "destination": "session"});
            Grant::Allowed { input: None, updates: vec![update] }
        }
        Answer::Deny { reason } => denied(reason),
    })
}

fn denied(reason: String) -> Grant {
    Grant::Denied { reason }
}
