//! The start options of a member that runs alone.

use std::fmt;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_team::{LeadKeys, Teams};

use crate::run::AgentOptions;

/// The start options of a member that runs alone.
pub struct SoloOptions {
    /// The handle on all teams, with its backend, limits and clock.
    pub teams: Teams,
    /// The team's name or folder.
    pub team: String,
    /// The member's name.
    pub name: String,
    /// How the member enters the team.
    pub entry: Entry,
    /// Settings, models and other resources for the agent.
    pub agent_options: AgentOptions,
    /// The agent's model. If this is `None`, the model in the config is used.
    pub model: Option<String>,
    /// The agent type that is used if the config names none.
    pub agent_type: Option<String>,
    /// The color that is used if the config names none.
    pub color: Option<String>,
    /// The keys that verify the lead's signatures. If this is `None`, the key in the lease of the
    /// team's run is used, if the lease contains a key.
    pub lead_key: Option<LeadKeys>,
    /// The lead's process that owns the key in `lead_key`, if known.
    pub lead_process: Option<ProcessIdentity>,
}

/// How a member enters its team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The lead has added the member to the config and put the prompt into the member's inbox.
    Placed,
    /// The member adds itself to the config, and removes itself after its shutdown. If the member
    /// is already in the config from an earlier time, it resumes.
    Joins,
}

impl fmt::Debug for SoloOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoloOptions")
            .field("team", &self.team)
            .field("name", &self.name)
            .field("entry", &self.entry)
            .field("model", &self.model)
            .field("furnishings", &self.agent_options)
            .finish_non_exhaustive()
    }
}
