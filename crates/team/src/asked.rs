//! What a lead asks of the team that its run made before it began: a name, a description, a kind of agent for itself.

use std::collections::BTreeSet;

use pitcrew_protocol::{
    ApiError, LEAD_NAME, TeamConfig, TeamCreateInput, TeamCreated, TeamDir, TeamName,
};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use crate::ours::KEY;
use crate::team::Team;
use crate::{named, refusal, teams::Teams};

/// What we note in a team's config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TeamRecord {
    /// The name its lead asked for, where the team has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_name: Option<String>,
}

/// The name that the lead asked for, where the team has another: every tool and command takes it for the team's.
#[must_use]
pub fn asked_name(config: &TeamConfig) -> Option<TeamName> {
    let record: TeamRecord = serde_json::from_str(config.foreign.get(KEY)?.get()).ok()?;
    TeamName::new(&record.asked_name?).ok()
}

/// Notes the name that the lead asked for, where the team has another.
pub(crate) fn note_asked_name(config: &mut TeamConfig, asked: &TeamName) -> Result<(), ApiError> {
    let asked_name = (asked.dir() != config.name.dir()).then(|| asked.to_string());
    let record = to_raw_value(&TeamRecord { asked_name });
    let record =
        record.map_err(|e| refusal::internal(format!("the team cannot be written: {e}")))?;
    config.foreign.put(KEY, record);
    Ok(())
}

impl Team {
    /// Whether the team goes by this name: its own, its folder's, or the one that its lead asked for.
    pub async fn is_called(&self, name: &str) -> bool {
        TeamDir::of(name) == *self.dir()
            || self.config().await.is_ok_and(|config| named::goes_by(name, &config))
    }

    /// Takes over what the lead asks of the team with TeamCreate. The answer has the name on disk.
    ///
    /// # Errors
    /// `invalid_request` for a bad name, `team_already_exists` for the name of another team, `internal_error` when the store
    /// fails.
    pub async fn taken_over_by_lead(
        &self,
        input: &TeamCreateInput,
    ) -> Result<TeamCreated, ApiError> {
        let given = input.team_name.as_str();
        let asked = TeamName::new(given).map_err(|e| refusal::bad_name(given, &e))?;
        if asked.dir() != *self.dir() {
            self.teams().refuse_taken(&asked).await?;
        }
        let (description, agent_type) = (input.description.clone(), input.agent_type.clone());
        let config = self
            .edit_config(move |config| {
                if let Some(description) = &description {
                    config.description = Some(description.clone());
                }
                if let Some(lead) = config.member_mut(LEAD_NAME).filter(|_| agent_type.is_some()) {
                    lead.agent_type.clone_from(&agent_type);
                }
                note_asked_name(config, &asked)
            })
            .await?;
        Ok(TeamCreated { team_name: config.name.to_string(), ..self.created() })
    }
}

impl Teams {
    /// The folder of the team whose lead asked for this name.
    ///
    /// # Errors
    /// `invalid_request` when the leads of several did.
    pub(crate) async fn asked_for(&self, given: &str) -> Result<Option<TeamDir>, ApiError> {
        let dir = TeamDir::of(given);
        let (mut found, mut names) = (None, BTreeSet::new());
        for folder in self.backend().teams().await.unwrap_or_default() {
            let Ok(config) = self.backend().team(&folder).await else { continue };
            if config.name.dir() == folder
                && asked_name(&config).is_some_and(|asked| asked.dir() == dir)
            {
                names.insert(config.name.to_string());
                found = Some(folder);
            }
        }
        if names.len() > 1 { Err(refusal::asked_by_several(given, &names)) } else { Ok(found) }
    }
}
