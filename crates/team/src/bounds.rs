//! The bounds that the command line of a run set, kept for the team's next run.
//!
//! The record only ever narrows what a run may do: it holds no rule that allows anything, and who reads it takes no mode from
//! it that is freer than the run's own. A forged one can therefore hinder a run and free nothing.

use pitcrew_protocol::ApiError;
use serde::{Deserialize, Serialize};

use crate::Team;
use crate::document::Document;

/// The bounds that the command line of a run set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunBounds {
    /// Rules that forbid calls.
    pub deny: Vec<String>,
    /// Rules that have calls asked for.
    pub ask: Vec<String>,
    /// The permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether commands run in a sandbox.
    pub sandbox: bool,
    /// Model calls of any one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Cost of the whole team, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Teammates at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_teammates: Option<u32>,
    /// Where teammates live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_mode: Option<String>,
    /// The program that runs teammates in panes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_program: Option<String>,
    /// The model of teammates that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_model: Option<String>,
    /// The flags that freed the run, as they were given. They are shown, and never applied.
    pub freed_by: Vec<String>,
}

impl Document for RunBounds {
    const NAME: &'static str = "bounds";
}

impl Team {
    /// Keeps the bounds of the run that begins, in the place of those of the run before.
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

    /// The bounds of the run before; none set for a team that has had no run.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails or the record cannot be read.
    pub async fn kept_bounds(&self) -> Result<RunBounds, ApiError> {
        self.read_document().await
    }
}
