//! Which tools there are, by what they can do: the closed list the modes are written against.

use pitcrew_protocol::PermissionMode;

use super::rules::canonical;

/// What a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolKind {
    /// Runs shell commands.
    Shell,
    /// Reads files: Read, Glob, Grep.
    Reader,
    /// Changes one file.
    Writer,
    /// Spawns an agent.
    Spawn,
    /// Makes the team, talks to it or to its task list, and changes nothing else.
    Talk,
    /// Ends a team, or stops an agent.
    TeamControl,
    /// Asks to leave plan mode.
    ExitPlan,
    /// Reads the output of a background task.
    Output,
    /// Anything else.
    Other,
}

impl ToolKind {
    pub(super) fn of(tool: &str) -> Self {
        match canonical(tool) {
            "Bash" => Self::Shell,
            "Read" | "Glob" | "Grep" => Self::Reader,
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Self::Writer,
            "Task" => Self::Spawn,
            "TeamCreate" | "SendMessage" | "TaskCreate" | "TaskGet" | "TaskUpdate" | "TaskList" => {
                Self::Talk
            }
            "TeamDelete" | "TaskStop" => Self::TeamControl,
            "ExitPlanMode" => Self::ExitPlan,
            "TaskOutput" => Self::Output,
            _ => Self::Other,
        }
    }

    /// Whether the tool is allowed in every mode that does not rule it out.
    pub(super) fn is_free(self) -> bool {
        match self {
            Self::Spawn | Self::Talk | Self::TeamControl | Self::ExitPlan | Self::Output => true,
            Self::Shell | Self::Reader | Self::Writer | Self::Other => false,
        }
    }

    /// Whether delegate mode has it.
    pub(super) fn is_delegation(self) -> bool {
        match self {
            Self::Spawn | Self::Talk | Self::TeamControl => true,
            Self::Shell
            | Self::Reader
            | Self::Writer
            | Self::ExitPlan
            | Self::Output
            | Self::Other => false,
        }
    }
}

/// Whether a model is offered the tool at all in a mode (founding guide section 14).
#[must_use]
pub fn offers(mode: PermissionMode, tool: &str) -> bool {
    match mode {
        PermissionMode::Delegate => ToolKind::of(tool).is_delegation(),
        PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::BypassPermissions => true,
    }
}
