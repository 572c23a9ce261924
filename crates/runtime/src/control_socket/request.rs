//! The requests that other processes send to the lead through the control socket.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PATIENCE;
use crate::question::{Choice, Digest};

/// Time limit for the answer to a spawn request. Before the answer, a new process must start in a
/// terminal pane and accept its prompt.
const SPAWN_PATIENCE: Duration = Duration::from_secs(180);

/// Time limit for the answer to a request about a pane.
const PANE_PATIENCE: Duration = Duration::from_secs(30);

/// A request to the lead.
///
/// The lead and the caller may have different versions, and a reader ignores unknown fields. A new
/// field is therefore only allowed to add details: an older lead must still be able to carry out
/// the request without the field. A field that limits the action (as `digest` does) needs a new
/// `op`. A lead refuses an `op` that it does not know, and its error names the lead's version
/// ([`LEAD_VERSION`](super::LEAD_VERSION)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Ends the team: asks every member to shut down, then ends the run.
    EndTeam {
        /// Seconds that the caller waits for the team's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_seconds: Option<u32>,
    },
    /// Stops the run at once. Its teammates stay in the team, and a later run continues with them.
    StopRun,
    /// Ends one teammate at once and for good. The teammate is not asked.
    StopMember {
        /// The name of the teammate.
        member: String,
    },
    /// Asks one member to shut down.
    Shutdown {
        /// The name of the member.
        member: String,
        /// The reason for the shutdown, shown to the member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Changes a member's permission mode.
    Mode {
        /// The name of the member.
        member: String,
        /// The name of the new permission mode.
        mode: String,
    },
    /// Gives a member that runs in the lead's process another model, from its next model call on.
    Model {
        /// The name of the member.
        member: String,
        /// The name of the new model.
        model: String,
    },
    /// Asks an agent to replace its conversation by a summary.
    Compact {
        /// The name of a member that runs in the lead's process. `None` means the lead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<String>,
    },
    /// Hides the pane of a member. The member continues.
    HidePane {
        /// The name of the member.
        member: String,
    },
    /// Shows the hidden pane of a member again.
    ShowPane {
        /// The name of the member.
        member: String,
    },
    /// Reports the permission rules in force, and what a person has granted in this run.
    Permissions,
    /// Answers a permission request.
    Permission {
        /// The id of the permission request.
        request: String,
        /// Whether the tool call is allowed.
        allow: bool,
        /// The reason for the refusal, if the tool call is not allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The digest of the tool and the input that the user saw ([`Digest::of_call`]). The lead
        /// refuses the answer if the digest does not match the permission request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    },
    /// Approves or rejects a teammate's plan.
    Plan {
        /// The id of the plan approval request.
        request: String,
        /// The member that submitted the plan.
        member: String,
        /// Whether the plan is approved.
        approve: bool,
        /// The changes that the plan needs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// Spawns a teammate. The answer comes when the teammate has started or its start has failed.
    Spawn {
        /// The input of the spawn, in the same form as the input of the lead's own spawn tool.
        input: Value,
    },
    /// Follows the run: the lead keeps the connection open and sends the events of its host, one
    /// JSON line each.
    Follow {
        /// The number of the first event that the follower does not have. `None` if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        /// The id of the run that counted `since`. In another run, the number means nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// Whether the follower has a terminal on which it can notify the user.
        #[serde(default, skip_serializing_if = "Notifies::is_no")]
        notifies: Notifies,
    },
    /// Answers a permission request that a person sees. The ids of such requests are those of the
    /// event stream. They are not the ids that [`ControlRequest::Permission`] takes.
    Answer {
        /// The id of the permission request.
        question: String,
        /// The digest of the permission request that the person saw. An answer with another digest
        /// is refused.
        digest: Digest,
        /// What the person decided.
        choice: Choice,
    },
    /// Interrupts the current turn of an agent. Its running work is dropped.
    Interrupt {
        /// The name of a member that runs in the lead's process. `None` means the lead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<String>,
    },
}

/// Whether a follower can notify the user on its terminal. On the wire it is a truth value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Notifies {
    /// The follower has no terminal, or does not notify.
    #[default]
    No,
    /// The follower has a terminal.
    OnTerminal,
}

impl Notifies {
    fn is_no(&self) -> bool {
        *self == Self::No
    }
}

impl From<bool> for Notifies {
    fn from(notifies: bool) -> Self {
        if notifies { Self::OnTerminal } else { Self::No }
    }
}

impl From<Notifies> for bool {
    fn from(notifies: Notifies) -> Self {
        notifies == Notifies::OnTerminal
    }
}

impl ControlRequest {
    /// Returns the time limit for the lead's answer.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Spawn { .. } => SPAWN_PATIENCE,
            // A terminal can need several seconds for its panes.
            Self::HidePane { .. } | Self::ShowPane { .. } => PANE_PATIENCE,
            Self::EndTeam { .. }
            | Self::StopRun
            | Self::StopMember { .. }
            | Self::Shutdown { .. }
            | Self::Mode { .. }
            | Self::Model { .. }
            | Self::Compact { .. }
            | Self::Permissions
            | Self::Permission { .. }
            | Self::Plan { .. }
            | Self::Follow { .. }
            | Self::Answer { .. }
            | Self::Interrupt { .. } => PATIENCE,
        }
    }

    /// Returns the request without its optional fields. Some older leads refuse a request with
    /// fields that they do not know. Returns `None` if no optional field is set.
    pub(super) fn plain(&self) -> Option<Self> {
        match self {
            Self::EndTeam { wait_seconds: Some(_) } => Some(Self::EndTeam { wait_seconds: None }),
            Self::EndTeam { wait_seconds: None }
            | Self::StopRun
            | Self::StopMember { .. }
            | Self::Shutdown { .. }
            | Self::Mode { .. }
            | Self::Model { .. }
            | Self::Compact { .. }
            | Self::HidePane { .. }
            | Self::ShowPane { .. }
            | Self::Permissions
            | Self::Permission { .. }
            | Self::Plan { .. }
            | Self::Spawn { .. }
            | Self::Follow { .. }
            | Self::Answer { .. }
            | Self::Interrupt { .. } => None,
        }
    }
}
