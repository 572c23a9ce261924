//! The states of an agent, with the names of the founding guide (section 10).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent was created and is not started yet.
    #[default]
    Pending,
    /// The agent is in a turn. Files and journals contain the name `running`. Earlier versions
    /// wrote `active` in some places.
    #[serde(rename = "running", alias = "active")]
    Active,
    /// The agent is between two turns. An idle agent causes no cost.
    Idle,
    /// The agent is between two turns and waits, because the lead has not yet answered the agent's
    /// plan.
    AwaitingPlanApproval,
    /// The agent is stopped for now. A teammate has this state between turns while its team has no
    /// lead, and reads no mail until the team has a lead. A lead has this state if its model was
    /// unavailable for too long. The lead continues in the next run.
    Parked,
    /// The agent was asked to shut down and has not ended yet.
    ShutdownRequested,
    /// The agent ended normally.
    Completed,
    /// The agent ended because it could not continue.
    Failed,
    /// The agent was ended from outside.
    Killed,
}

impl Status {
    /// All states.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Active,
        Self::Idle,
        Self::AwaitingPlanApproval,
        Self::Parked,
        Self::ShutdownRequested,
        Self::Completed,
        Self::Failed,
        Self::Killed,
    ];

    /// Returns the name of the state, as in files, in the journal and in the stream.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "running",
            Self::Idle => "idle",
            Self::AwaitingPlanApproval => "awaiting_plan_approval",
            Self::Parked => "parked",
            Self::ShutdownRequested => "shutdown_requested",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }

    /// Finds the state with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether the agent has ended.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Killed => true,
            Self::Pending
            | Self::Active
            | Self::Idle
            | Self::AwaitingPlanApproval
            | Self::Parked
            | Self::ShutdownRequested => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_one_spelling() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(Status::named(status.as_str()), Some(status));
        }
    }

    #[test]
    fn the_earlier_spelling_of_a_running_agent_is_read() {
        assert_eq!(serde_json::from_str::<Status>("\"active\"").unwrap(), Status::Active);
    }
}
