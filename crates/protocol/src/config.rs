//! `config.json`: a team and its members.
//!
//! Source: `fixtures/*/teams/*/config.json`. The fields are in the order of these recorded files.

use crate::wire::wire_object;
use crate::{AgentId, AgentName, TeamName, same_name};

/// The name of every team's lead.
pub const LEAD_NAME: &str = "team-lead";

/// The value of `backendType` and `tmuxPaneId` for a teammate that runs inside its lead's process.
pub const BACKEND_IN_PROCESS: &str = "in-process";

wire_object! {
    /// A team, as stored in `config.json`.
    pub struct TeamConfig {
        /// The team's name, as its creator gave it.
        pub name: TeamName => "name" req,
        /// The purpose of the team.
        pub description: String => "description" opt,
        /// The team's creation time, in milliseconds since 1970.
        pub created_at_ms: i64 => "createdAt" opt,
        /// The agent id of the team's lead.
        pub lead_agent_id: AgentId => "leadAgentId" opt,
        /// The id of the session that created the team, a UUID.
        pub lead_session_id: String => "leadSessionId" opt,
        /// The lead's process. Only newer versions of the reference client write it (session
        /// dialect).
        pub lead_process: LeadProcess => "leadProcess" opt,
        /// The team's members, the lead first.
        pub members: Vec<Member> => "members" req,
        /// The ids of the terminal panes that are hidden.
        pub hidden_pane_ids: Vec<String> => "hiddenPaneIds" opt,
    }
}

wire_object! {
    /// The process that leads a team. Only newer versions of the reference client write this object
    /// (session dialect, `fixtures/claude-2.1.329/session-team`).
    pub struct LeadProcess {
        /// The lead's process id, as seen in the lead's own process namespace.
        pub pid: u32 => "pid" req,
        /// The scope in which the process id is valid: the machine's name and the process
        /// namespace, such as `vm#pid:[4026531836]`.
        pub pid_space: String => "pidSpace" opt,
        /// The time when the process became the lead, in milliseconds since 1970.
        pub claimed_at_ms: i64 => "claimedAt" opt,
        /// The start time of the process, which distinguishes it from a later process with the same
        /// id. On Linux it is in clock ticks since boot.
        pub proc_start: String => "procStart" opt,
    }
}

wire_object! {
    /// A member of a team.
    pub struct Member {
        /// The member's agent id, `name@team`.
        pub agent_id: AgentId => "agentId" opt,
        /// The member's name. No other member of the team has the same name, ignoring case.
        pub name: AgentName => "name" req,
        /// The agent definition that the member runs, such as `general-purpose`.
        pub agent_type: String => "agentType" opt,
        /// The member's model.
        pub model: String => "model" opt,
        /// The prompt that the member was spawned with. Absent for the lead, and from reference
        /// client version 2.1.331 on.
        pub prompt: String => "prompt" opt,
        /// The member's color. Absent for the lead.
        pub color: String => "color" opt,
        /// Whether the lead must approve a plan of the member before the member changes anything.
        pub plan_mode_required: bool => "planModeRequired" opt,
        /// The time when the member joined, in milliseconds since 1970.
        pub joined_at_ms: i64 => "joinedAt" opt,
        /// The id of the member's terminal pane, such as `%1` in tmux. A teammate that runs inside
        /// its lead's process has `in-process`. A lead has `leader` in the session dialect, and an
        /// empty text in the named dialect.
        pub tmux_pane_id: String => "tmuxPaneId" opt,
        /// The member's working folder.
        pub cwd: String => "cwd" opt,
        /// A list that the reference client writes for each member. It is empty in all recordings.
        /// Pitcrew writes an empty list and does not read it.
        pub subscriptions: Vec<serde_json::Value> => "subscriptions" opt,
        /// The backend that runs the member, such as `in-process` or `tmux`. Absent for a lead in
        /// files of the named dialect (older versions of the reference client), and for a member
        /// that no backend started.
        pub backend_type: String => "backendType" opt,
        /// The member's own git worktree, if it has one.
        pub worktree_path: String => "worktreePath" opt,
        /// The permission mode that the member got after its spawn. Absent if nobody changed the
        /// mode after the spawn.
        pub mode: String => "mode" opt,
        /// Whether the member is in a turn. The field is written only for members with a pane.
        pub is_active: bool => "isActive" opt,
    }
}

impl TeamConfig {
    /// Returns the member called `name`. The comparison ignores case, as in the reference client.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.is_called(name))
    }

    /// Returns a mutable reference to the member called `name`.
    pub fn member_mut(&mut self, name: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.is_called(name))
    }

    /// Returns all members except the lead.
    pub fn teammates(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| !m.is_called(LEAD_NAME))
    }

    /// Whether the team's files use the session dialect, which newer versions of the reference
    /// client write. These versions delete a message from the inbox after they have read it.
    #[must_use]
    pub fn is_session_dialect(&self) -> bool {
        self.lead_process.is_some()
            || self.foreign.get("leadProcess").is_some()
            || self.member(LEAD_NAME).is_some_and(|m| m.tmux_pane_id.as_deref() == Some("leader"))
    }
}

impl Member {
    /// Whether `name` is the member's name, ignoring case.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        same_name(self.name.as_str(), name)
    }

    /// Whether pitcrew runs the member. This is true if the config has a record for the member
    /// under the key `pitcrew`, and the record names pitcrew or no program.
    #[must_use]
    pub fn is_run_by_pitcrew(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Record {
            program: Option<String>,
        }
        let record =
            self.foreign.get("pitcrew").map(|raw| serde_json::from_str::<Record>(raw.get()));
        // A record that names no program belongs to a member that pitcrew runs.
        record
            .and_then(Result::ok)
            .is_some_and(|record| record.program.is_none_or(|program| program == "pitcrew"))
    }
}
