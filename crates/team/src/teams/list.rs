//! Lists the teams of a store, also those that cannot be read.

use std::path::PathBuf;

use pitcrew_protocol::{AgentName, ApiError, TeamConfig, TeamDir};
use pitcrew_store::StoreError;
use serde::Serialize;

use super::Teams;
use crate::refusal;

/// One team in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TeamSummary {
    /// The team's name. If the config cannot be read, this is the name of the folder.
    pub name: String,
    /// The team's folder.
    pub folder: TeamDir,
    /// The team's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The creation time, in milliseconds since 1970.
    #[serde(rename = "createdAt", skip_serializing_if = "Option::is_none")]
    pub created_at_ms: Option<i64>,
    /// The names of the members. The lead is first.
    pub members: Vec<AgentName>,
    /// The path of the config file.
    pub team_file_path: PathBuf,
    /// The reason why the config cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Teams {
    /// Lists all teams, sorted by folder. If a team's config cannot be read, the entry of the team
    /// contains the reason.
    ///
    /// # Errors
    /// `internal_error` when the store cannot be read.
    pub async fn list(&self) -> Result<Vec<TeamSummary>, ApiError> {
        let mut summaries = Vec::new();
        for dir in self.backend().teams().await.map_err(refusal::of_store)? {
            match self.backend().team(&dir).await {
                Ok(config) if config.name.dir() != dir => {
                    summaries.push(self.misplaced(dir, &config))
                }
                Ok(config) => summaries.push(self.summary(dir, &config)),
                Err(StoreError::NoTeam { .. }) => {}
                Err(error) => summaries.push(self.unreadable(dir, error)),
            }
        }
        Ok(summaries)
    }

    fn summary(&self, dir: TeamDir, config: &TeamConfig) -> TeamSummary {
        TeamSummary {
            name: config.name.to_string(),
            team_file_path: self.paths().config(&dir),
            folder: dir,
            description: config.description.clone(),
            created_at_ms: config.created_at_ms,
            members: config.members.iter().map(|m| m.name.clone()).collect(),
            problem: None,
        }
    }

    /// The list entry for a folder that contains the config of another team. No command is able to
    /// open this folder under the name in that config.
    fn misplaced(&self, dir: TeamDir, config: &TeamConfig) -> TeamSummary {
        let path = self.paths().config(&dir);
        let reason = format!(
            "it is the config of another team, whose folder is {:?}",
            config.name.dir().as_str()
        );
        self.unreadable(dir, StoreError::Corrupt { path, reason })
    }

    fn unreadable(&self, dir: TeamDir, error: StoreError) -> TeamSummary {
        TeamSummary {
            name: dir.to_string(),
            team_file_path: self.paths().config(&dir),
            folder: dir,
            description: None,
            created_at_ms: None,
            members: Vec::new(),
            problem: Some(refusal::of_store(error).message),
        }
    }
}
