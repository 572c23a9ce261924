//! The limits from the command line of a run, stored for the team's next run.
//!
//! The record can only restrict a run. It holds no rule that allows anything, and a reader ignores
//! a stored mode that is less strict than the run's own mode. A forged record can therefore block a
//! run, but cannot give it more permissions.

use pitcrew_protocol::ApiError;
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
    /// The place where teammates run, such as in-process or in panes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_mode: Option<String>,
    /// The program that runs teammates in panes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_program: Option<String>,
    /// The model of teammates whose spawn call names no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_model: Option<String>,
    /// The command-line flags that removed restrictions from the run, as the person typed them.
    /// They are displayed only, never applied.
    pub freed_by: Vec<String>,
}

impl Document for RunBounds {
    const NAME: &'static str = "bounds";
}

impl Team {
    /// Stores the limits of the run that starts now. They replace the limits of the previous run.
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

    /// Returns the limits of the previous run. For a team that has had no run, no limit is set.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails or the record cannot be read.
    pub async fn kept_bounds(&self) -> Result<RunBounds, ApiError> {
        self.read_document().await
    }
}
