//! `config.json`: a team and its members.
//!
//! Source: `fixtures/*/teams/*/config.json`; the field order is that of the recordings.

use crate::wire::wire_object;
use crate::{AgentId, AgentName, TeamName, same_name};

/// The name every team's lead has.
pub const LEAD_NAME: &str = "team-lead";

/// The `backendType`, and the `tmuxPaneId`, of a teammate that runs inside its lead's process.
pub const BACKEND_IN_PROCESS: &str = "in-process";

wire_object! {
    /// A team, as `config.json` holds it.
    pub struct TeamConfig {
        /// The name as given.
        pub name: TeamName => "name" req,
        /// What the team is for.
        pub description: String => "description" opt,
        /// When it was made, in milliseconds since 1970.
        pub created_at_ms: i64 => "createdAt" opt,
        /// The lead's agent id.
        pub lead_agent_id: AgentId => "leadAgentId" opt,
        /// The session that made it, a UUID.
        pub lead_session_id: String => "leadSessionId" opt,
        /// Session dialect: the process of the lead.
        pub lead_process: LeadProcess => "leadProcess" opt,
        /// All members, the lead first.
        pub members: Vec<Member> => "members" req,
        /// The panes that are out of sight.
        pub hidden_pane_ids: Vec<String> => "hiddenPaneIds" opt,
    }
}

wire_object! {
    /// The process that leads a team of the session dialect (`fixtures/claude-2.1.329/session-team`).
    pub struct LeadProcess {
        /// Its process id, in its own process namespace.
        pub pid: u32 => "pid" req,
        /// Where that id means something: the machine's name and the process namespace, such as `vm#pid:[4026531836]`.
        pub pid_space: String => "pidSpace" opt,
        /// When it took the lead, in milliseconds since 1970.
        pub claimed_at_ms: i64 => "claimedAt" opt,
        /// Its start, to tell it from a later process with the same id: on Linux in clock ticks since boot.
        pub proc_start: String => "procStart" opt,
    }
}

wire_object! {
    /// A member of a team.
    pub struct Member {
        /// `name@team`.
        pub agent_id: AgentId => "agentId" opt,
        /// The name, unique in the team without regard to case.
        pub name: AgentName => "name" req,
        /// The agent definition it runs, such as `general-purpose`.
        pub agent_type: String => "agentType" opt,
        /// The model it runs on.
        pub model: String => "model" opt,
        /// What it was spawned with; absent for the lead.
        pub prompt: String => "prompt" opt,
        /// Its color; absent for the lead.
        pub color: String => "color" opt,
        /// Whether it must have a plan approved before it may change anything.
        pub plan_mode_required: bool => "planModeRequired" opt,
        /// When it joined, in milliseconds since 1970.
        pub joined_at_ms: i64 => "joinedAt" opt,
        /// Its pane: `%N`, `in-process`, `leader`, or empty for a lead.
        pub tmux_pane_id: String => "tmuxPaneId" opt,
        /// Its working folder.
        pub cwd: String => "cwd" opt,
        /// Always empty in the recordings.
        pub subscriptions: Vec<serde_json::Value> => "subscriptions" opt,
        /// `in-process` or `tmux`; absent for a lead of the named dialect.
        pub backend_type: String => "backendType" opt,
        /// Its git worktree, when it has one of its own.
        pub worktree_path: String => "worktreePath" opt,
        /// Its permission mode, when it was changed from the one it was spawned with.
        pub mode: String => "mode" opt,
        /// Whether it is in a turn; written for members with a pane.
        pub is_active: bool => "isActive" opt,
    }
}

impl TeamConfig {
    /// The member called `name`, compared without case as the reference does.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.is_called(name))
    }

    /// The member called `name`, to change it.
    pub fn member_mut(&mut self, name: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.is_called(name))
    }

    /// Every member but the lead.
    pub fn teammates(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| !m.is_called(LEAD_NAME))
    }

    /// Whether the team was made by a client of the session dialect, which removes taken messages.
    #[must_use]
    pub fn is_session_dialect(&self) -> bool {
        self.lead_process.is_some()
            || self.foreign.get("leadProcess").is_some()
            || self.member(LEAD_NAME).is_some_and(|m| m.tmux_pane_id.as_deref() == Some("leader"))
    }
}

impl Member {
    /// Whether the member goes by `name`; upper and lower case are one.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        same_name(self.name.as_str(), name)
    }

    /// Whether pitcrew runs the member: it carries our record under `pitcrew`, and that names no other program.
    #[must_use]
    pub fn is_run_by_pitcrew(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Record {
            program: Option<String>,
        }
        let record =
            self.foreign.get("pitcrew").map(|raw| serde_json::from_str::<Record>(raw.get()));
        record
            .and_then(Result::ok)
            .is_some_and(|record| record.program.is_none_or(|program| program == "pitcrew"))
    }
}
