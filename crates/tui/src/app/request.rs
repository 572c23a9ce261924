//! The requests to the host that one command of the user makes.

use pitcrew_protocol::AgentName;
use pitcrew_view::client::PlanVerdict;

/// A request to the host of the team. Its result is a text, or a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Report the permission rules in force.
    Permissions,
    /// Read the plans that wait for an answer. They are in the team's files.
    Plans,
    /// Answer the plan of a member.
    AnswerPlan {
        /// The member.
        member: AgentName,
        /// The id of the plan that the user saw. `None` means the plan that waits.
        id: Option<String>,
        /// The answer.
        verdict: PlanVerdict,
    },
    /// Add a teammate.
    Spawn {
        /// The name of the teammate.
        name: AgentName,
        /// The agent definition that the teammate runs.
        agent_type: Option<String>,
        /// The instructions for the teammate.
        prompt: String,
    },
    /// Ask a teammate to leave.
    ShutDown(AgentName),
    /// Show the pane of a member.
    ShowPane(AgentName),
    /// Hide the pane of a member.
    HidePane(AgentName),
}
