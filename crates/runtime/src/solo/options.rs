//! What a member that runs alone is started with.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pitcrew_model::PriceTable;
use pitcrew_team::{LeadKeys, Teams};

use crate::gate::PermissionMode;
use crate::run::{Asks, OpenModel, RunLimits};
use crate::settings::Settings;

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
    /// The folder it works in when the config says none; absolute.
    pub cwd: PathBuf,
    /// The root: plans are kept below it, and the user's agent definitions.
    pub root: PathBuf,
    /// Where programs put their temporary files.
    pub temporary: PathBuf,
    /// The user's home, for `~` in rules and for the user's instructions.
    pub home: Option<PathBuf>,
    /// The id of the session, in hooks and in the stream.
    pub session_id: String,
    /// How models are opened; asked when the first model call is made.
    pub open_model: OpenModel,
    /// Its model; absent for the one that the config names.
    pub model: Option<String>,
    /// Its type, where the config names none.
    pub agent_type: Option<String>,
    /// Its color, where the config names none.
    pub color: Option<String>,
    /// What tokens cost.
    pub prices: PriceTable,
    /// The merged settings.
    pub settings: Settings,
    /// The permission mode it works in when the config says none.
    pub mode: PermissionMode,
    /// Who is asked besides its lead when a call needs a permission; the first answer counts. With [`Asks::Deny`] it is the
    /// lead alone.
    pub asks: Asks,
    /// Where it ends by itself; the number of teammates is none of its business.
    pub limits: RunLimits,
    /// What the user adds to its system prompt.
    pub append_system_prompt: Option<String>,
    /// The keys by which its lead's frames are told from forged ones; absent for the one that the lead's process shows, if it
    /// shows any.
    pub lead_key: Option<LeadKeys>,
    /// How long it has to end when it is asked to, and how long its lead has to take it out of the team.
    pub shutdown_grace: Duration,
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
            .field("cwd", &self.cwd)
            .field("model", &self.model)
            .field("mode", &self.mode)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
