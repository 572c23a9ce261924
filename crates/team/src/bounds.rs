//! The limits from the command line of a run, stored for the team's next run.
//!
//! The stored limits can only restrict a run. They contain no rule that allows anything. A reader
//! ignores a stored mode that is less strict than the run's own mode. A forged record can therefore
//! block a run, but it cannot give the run more permissions.

use pitcrew_protocol::{AgentName, ApiError};
use pitcrew_store::LogName;
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::document::Document;

/// The limits from the command line of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunBounds {
    /// Permission rules that deny calls.
    pub deny: Vec<String>,
    /// Permission rules under which a call must ask for permission.
    pub ask: Vec<String>,
    /// The permission mode of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether shell commands run in a sandbox.
    pub sandbox: bool,
    /// The maximum number of model calls of each agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The maximum cost of the whole team, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The maximum number of teammates at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_teammates: Option<u32>,
    /// Where teammates run, for example in the lead's process or in panes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_mode: Option<String>,
    /// The program that runs teammates in panes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_program: Option<String>,
    /// The model of a teammate whose spawn call names no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_model: Option<String>,
    /// The command-line flags that removed restrictions from the run, as the person typed them.
    /// pitcrew only displays these flags and never applies them.
    pub freed_by: Vec<String>,
}

impl Document for RunBounds {
    const NAME: &'static str = "bounds";
}

/// The goal of the run that created the team. The goal stays in this document, although the lead's
/// transcript contains it too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FirstGoal {
    pub(crate) goal: String,
}

impl Document for FirstGoal {
    const NAME: &'static str = "goal";
}

impl Team {
    /// Returns the goal of the team's first run if the lead has not read it, because the run was
    /// killed in its first moments. Returns `None` if the lead's transcript has begun.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails or a file cannot be read.
    pub async fn unread_goal(&self) -> Result<Option<String>, ApiError> {
        let transcript = LogName::Transcript(AgentName::lead());
        if !self.ask(self.backend().log(self.dir(), &transcript)).await?.is_empty() {
            return Ok(None);
        }
        let FirstGoal { goal } = self.read_document().await?;
        Ok(Some(goal).filter(|goal| !goal.is_empty()))
    }

    /// Stores the limits of the run that starts now. These limits replace the limits of the
    /// previous run.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails.
    pub async fn keep_bounds(&self, bounds: RunBounds) -> Result<(), ApiError> {
        self.edit_document(move |kept: &mut RunBounds| {
            *kept = bounds.clone();
            Ok(())
        })
        .await
    }

    /// Returns the limits of the previous run. If the team has had no run, the result sets no
    /// limit.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails or the record cannot be read.
    pub async fn kept_bounds(&self) -> Result<RunBounds, ApiError> {
        self.read_document().await
    }
}
