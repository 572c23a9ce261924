//! The inputs of the team tools, in both dialects.
//!
//! Source: `fixtures/claude-2.1.39/tool-input-schemas.json` (named dialect) and the wire format (session dialect: `Agent`
//! for `Task`, `{to, message, summary}` for SendMessage). Whether a recipient exists, and who may call what, is `team`'s.

use serde_json::{Map, Value};

use crate::input::{InputError, Parameters, invalid};
use crate::tool_name as name;
use crate::{SendMessageInput, TaskStatus};

/// A call of a team tool.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is named after the input that documents it")]
pub enum TeamCall {
    TeamCreate(TeamCreateInput),
    TeamDelete(TeamDeleteInput),
    Spawn(SpawnInput),
    TaskCreate(TaskCreateInput),
    TaskGet(TaskGetInput),
    TaskUpdate(TaskUpdateInput),
    TaskList,
    SendMessage(SendMessageInput),
    ExitPlanMode(ExitPlanModeInput),
    TaskStop(TaskStopInput),
}

impl TeamCall {
    /// Reads a call of `tool`; `None` when that is no team tool.
    ///
    /// # Errors
    /// [`InputError`] with every fault of the input.
    #[must_use]
    pub fn parse(tool: &str, input: Value) -> Option<Result<Self, InputError>> {
        let call = match tool {
            name::TEAM_CREATE => TeamCreateInput::parse(input).map(Self::TeamCreate),
            name::TEAM_DELETE => TeamDeleteInput::parse(input).map(Self::TeamDelete),
            name::TASK | name::AGENT => SpawnInput::parse(input)
                .map(Self::Spawn)
                .map_err(|e| InputError { tool: tool.into(), ..e }),
            name::TASK_CREATE => TaskCreateInput::parse(input).map(Self::TaskCreate),
            name::TASK_GET => TaskGetInput::parse(input).map(Self::TaskGet),
            name::TASK_UPDATE => TaskUpdateInput::parse(input).map(Self::TaskUpdate),
            name::TASK_LIST => Parameters::of(tool, input).finish(Self::TaskList),
            name::SEND_MESSAGE => SendMessageInput::parse(input).map(Self::SendMessage),
            name::EXIT_PLAN_MODE => ExitPlanModeInput::parse(input).map(Self::ExitPlanMode),
            name::TASK_STOP => TaskStopInput::parse(input).map(Self::TaskStop),
            _ => return None,
        };
        Some(call)
    }
}

/// TeamCreate: makes a team with the caller as its lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamCreateInput {
    /// The name of the team.
    pub team_name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The role of its lead.
    pub agent_type: Option<String>,
}

impl TeamCreateInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TEAM_CREATE, input);
        let read = Self {
            team_name: given.required_text("team_name"),
            description: given.text("description"),
            agent_type: given.text("agent_type"),
        };
        given.finish(read)
    }
}

/// TeamDelete: ends the caller's team.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamDeleteInput {
    /// The team; the caller's own, which it is also when absent.
    pub team_name: Option<String>,
}

impl TeamDeleteInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TEAM_DELETE, input);
        let read = Self { team_name: given.text("team_name") };
        given.finish(read)
    }
}

/// Task, or Agent: spawns a teammate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnInput {
    /// The errand in 3 to 5 words.
    pub description: String,
    /// What it is to do.
    pub prompt: String,
    /// The agent definition to run; optional in the session dialect.
    pub subagent_type: Option<String>,
    /// The name it is to have.
    pub name: Option<String>,
    /// The team to spawn into; the caller's own when absent.
    pub team_name: Option<String>,
    /// The model to run it on.
    pub model: Option<String>,
    /// The permission mode to start in; `plan` asks for a plan first.
    pub mode: Option<String>,
    /// Whether the caller goes on at once; a teammate always runs in the background.
    pub run_in_background: Option<bool>,
    /// After how many turns it is stopped.
    pub max_turns: Option<u32>,
    /// `worktree` for a git worktree of its own.
    pub isolation: Option<String>,
    /// Where it is to run: `in-process`, or the kind of panes the run has; as the run says when absent.
    pub backend: Option<String>,
    /// What is to run it: `pitcrew` or `claude`; as its definition or the run says when absent.
    pub program: Option<String>,
    /// The id of an agent to go on with.
    pub resume: Option<String>,
}

impl SpawnInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK, input);
        let read = Self {
            description: given.required_text("description"),
            prompt: given.required_text("prompt"),
            subagent_type: given.text("subagent_type"),
            name: given.text("name"),
            team_name: given.text("team_name"),
            model: given.text("model"),
            mode: given.text("mode"),
            run_in_background: given.flag("run_in_background"),
            max_turns: given.count("max_turns"),
            isolation: given.text("isolation"),
            backend: given.text("backend"),
            program: given.text("program"),
            resume: given.text("resume"),
        };
        if read.isolation.as_deref().is_some_and(|kind| kind != "worktree") {
            given.fault(invalid("isolation", "`worktree`"));
        }
        given.finish(read)
    }
}

/// TaskCreate: adds a task to the team's list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskCreateInput {
    /// A short imperative title.
    pub subject: String,
    /// What is to be done.
    pub description: String,
    /// The title while it is being done.
    pub active_form: Option<String>,
    /// Free fields.
    pub metadata: Option<Map<String, Value>>,
}

impl TaskCreateInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK_CREATE, input);
        let read = Self {
            subject: given.required_text("subject"),
            description: given.required_text("description"),
            active_form: given.text("activeForm"),
            metadata: given.object("metadata"),
        };
        given.finish(read)
    }
}

/// TaskGet: shows one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGetInput {
    /// The task.
    pub task_id: String,
}

impl TaskGetInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK_GET, input);
        let read = Self { task_id: given.required_text("taskId") };
        given.finish(read)
    }
}

/// What a TaskUpdate makes of a task's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// The task gets this status.
    To(TaskStatus),
    /// The task is removed, with every reference to it.
    Deleted,
}

impl StatusChange {
    /// Reads the name on the wire.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "pending" => Some(Self::To(TaskStatus::Pending)),
            "in_progress" => Some(Self::To(TaskStatus::InProgress)),
            "completed" => Some(Self::To(TaskStatus::Completed)),
            "deleted" => Some(Self::Deleted),
            _ => None,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::To(status) => status.as_str(),
            Self::Deleted => "deleted",
        }
    }
}

/// TaskUpdate: changes a task; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskUpdateInput {
    /// The task.
    pub task_id: String,
    /// The new title.
    pub subject: Option<String>,
    /// What is to be done from now on.
    pub description: Option<String>,
    /// The new title while it is being done.
    pub active_form: Option<String>,
    /// The new status.
    pub status: Option<StatusChange>,
    /// Tasks that are to wait for this one.
    pub add_blocks: Vec<String>,
    /// Tasks that this one is to wait for.
    pub add_blocked_by: Vec<String>,
    /// The name of the new owner.
    pub owner: Option<String>,
    /// Free fields, merged key by key; null deletes a key.
    pub metadata: Option<Map<String, Value>>,
}

impl TaskUpdateInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK_UPDATE, input);
        let status = given.text("status").and_then(|name| {
            let expected = "one of `pending`, `in_progress`, `completed`, `deleted`";
            StatusChange::from_name(&name).or_else(|| given.refuse(invalid("status", expected)))
        });
        let read = Self {
            task_id: given.required_text("taskId"),
            subject: given.text("subject"),
            description: given.text("description"),
            active_form: given.text("activeForm"),
            status,
            add_blocks: given.texts("addBlocks"),
            add_blocked_by: given.texts("addBlockedBy"),
            owner: given.text("owner"),
            metadata: given.object("metadata"),
        };
        given.finish(read)
    }
}

/// ExitPlanMode: hands in a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitPlanModeInput {
    /// The plan, when the caller gives it here and not in its plan file.
    pub plan: Option<String>,
    /// Everything else; this tool takes any parameter.
    pub rest: Map<String, Value>,
}

impl ExitPlanModeInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::EXIT_PLAN_MODE, input);
        let read = Self { plan: given.text("plan"), rest: given.rest() };
        given.finish(read)
    }
}

/// TaskStop: stops what runs in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStopInput {
    /// What to stop; `shell_id` is its older name.
    pub task_id: String,
}

impl TaskStopInput {
    /// Reads the input of a call.
    ///
    /// # Errors
    /// [`InputError`] with every fault.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK_STOP, input);
        let (new, old) = (given.text("task_id"), given.text("shell_id"));
        if new.is_none() && old.is_none() {
            given.missing("task_id", "string");
        }
        given.finish(Self { task_id: new.or(old).unwrap_or_default() })
    }
}
