//! What a member that runs alone is started with.

use std::fmt;

use pitcrew_team::{LeadKeys, Teams};

use crate::identity::ProcessIdentity;
use crate::run::AgentOptions;

/// What a member that runs alone is started with.
pub struct SoloOptions {
    /// The team room, with its backend, limits and clock.
    pub teams: Teams,
    /// The team's name or folder.
    pub team: String,
    /// The member's name.
    pub name: String,
    /// How it comes into the team.
    pub entry: Entry,
    /// What it works with.
    pub agent_options: AgentOptions,
    /// Its model; absent for the one that the config names.
    pub model: Option<String>,
    /// Its type, where the config names none.
    pub agent_type: Option<String>,
    /// Its color, where the config names none.
    pub color: Option<String>,
    /// The keys by which its lead's frames are told from forged ones; absent for the one that the lead's process shows, if it
    /// shows any.
    pub lead_key: Option<LeadKeys>,
    /// The lead's process that has this key; absent where it is not known.
    pub lead_process: Option<ProcessIdentity>,
}

/// How a member comes into its team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Its lead has put it into the config, and what it is to do into its inbox.
    Placed,
    /// It adds itself to the config, and leaves it again when it has shut down. One that did so before goes on.
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
