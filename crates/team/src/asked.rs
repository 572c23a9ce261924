//! Applies the lead's TeamCreate call to a team that the run has already created. The call gives a
//! name, a description, and the lead's own agent type.

use std::collections::BTreeSet;

use pitcrew_protocol::{
    ApiError, LEAD_NAME, TeamConfig, TeamCreateInput, TeamCreated, TeamDir, TeamName,
};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use crate::ours::KEY;
use crate::team::Team;
use crate::{named, new_name, refusal, teams::Teams};

/// The data that pitcrew adds to a team's config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TeamRecord {
    /// The name that the lead asked for, if the team's real name is different.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_name: Option<String>,
}

/// Returns the name that the lead asked for, if the team's real name is different. Every tool and
/// command accepts both names.
#[must_use]
pub fn asked_name(config: &TeamConfig) -> Option<TeamName> {
    let record: TeamRecord = serde_json::from_str(config.foreign.get(KEY)?.get()).ok()?;
    TeamName::new(&record.asked_name?).ok()
}

/// Adds a record to the config with the name that the lead asked for. The name is left out of the
/// record if it has the same folder as the team's real name.
pub(crate) fn note_asked_name(config: &mut TeamConfig, asked: &TeamName) -> Result<(), ApiError> {
    let asked_name = (asked.dir() != config.name.dir()).then(|| asked.to_string());
    let record = to_raw_value(&TeamRecord { asked_name });
    let record =
        record.map_err(|e| refusal::internal(format!("the team cannot be written: {e}")))?;
    config.foreign.put(KEY, record);
    Ok(())
}

impl Team {
    /// Whether `name` means this team. It may be the team's own name, its folder's name, or the
    /// name that its lead asked for.
    pub async fn is_called(&self, name: &str) -> bool {
        TeamDir::of(name) == *self.dir()
            || self.config().await.is_ok_and(|config| named::goes_by(name, &config))
    }

    /// Applies the lead's TeamCreate input to the team that the run has already created. The result
    /// contains the real name of the team on disk, not the name in the input.
    ///
    /// # Errors
    /// `invalid_request` for a bad name, `team_already_exists` for the name of another team,
    /// `internal_error` when the store fails.
    pub async fn taken_over_by_lead(
        &self,
        input: &TeamCreateInput,
    ) -> Result<TeamCreated, ApiError> {
        let given = input.team_name.as_str();
        let asked = new_name::team(given)?;
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
    /// Finds the folder of the team whose lead asked for the name `given`.
    ///
    /// # Errors
    /// `invalid_request` when the leads of several teams asked for this name.
    pub(crate) async fn asked_for(&self, given: &str) -> Result<Option<TeamDir>, ApiError> {
        let dir = TeamDir::of(given);
        let (mut found, mut names) = (None, BTreeSet::new());
        for folder in self.backend().teams().await.unwrap_or_default() {
            let Ok(config) = self.backend().team(&folder).await else { continue };
            // A folder that contains the config of another team is not a valid team. No name may
            // find such a folder.
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
