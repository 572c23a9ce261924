//! The states of an agent, as the founding guide names them (section 10).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Made, not started.
    #[default]
    Pending,
    /// In a turn.
    Active,
    /// Between turns; costs nothing.
    Idle,
    /// Between turns, its plan with the lead.
    AwaitingPlanApproval,
    /// A teammate between turns that nobody leads: it takes no mail until somebody does. Or a lead whose model was
    /// unavailable for too long: it goes on in the next run.
    Parked,
    /// Asked to shut down, and not gone yet.
    ShutdownRequested,
    /// Ended as it should.
    Completed,
    /// Could not go on.
    Failed,
    /// Stopped by somebody.
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

    /// The state as the journal spells it.
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

    /// Finds the state that the journal spells so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether the agent is no more.
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
