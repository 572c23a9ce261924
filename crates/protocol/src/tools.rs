//! The inputs of the team tools, in both dialects of the reference client.
//!
//! Source for the named dialect: `fixtures/claude-2.1.39/tool-input-schemas.json`. Source for the
//! session dialect (`Agent` for `Task`, `{to, message, summary}` for SendMessage): the wire format
//! document. The crate `team` checks whether a recipient exists and whether the caller is allowed
//! to call the tool.

use serde_json::{Map, Value};

use crate::input::{InputError, Parameters, invalid};
use crate::tool_name as name;
use crate::{SendMessageInput, TaskStatus};

/// The input of a call of any team tool.
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
    /// Reads the input of a call of the tool `tool`. Returns `None` if `tool` is not a team tool.
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

/// The input of TeamCreate, which creates a team with the caller as its lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamCreateInput {
    /// The name of the team.
    pub team_name: String,
    /// The purpose of the team.
    pub description: Option<String>,
    /// The role of the team's lead.
    pub agent_type: Option<String>,
}

impl TeamCreateInput {
    /// Reads the input of a TeamCreate call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
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

/// The input of TeamDelete, which deletes the caller's team.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamDeleteInput {
    /// The name of the team. It must be the caller's own team. If absent, the caller's own team is
    /// deleted.
    pub team_name: Option<String>,
}

impl TeamDeleteInput {
    /// Reads the input of a TeamDelete call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TEAM_DELETE, input);
        let read = Self { team_name: given.text("team_name") };
        given.finish(read)
    }
}

/// The input of Task (also called Agent), which spawns a teammate or a subagent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnInput {
    /// A description of the job in 3 to 5 words.
    pub description: String,
    /// The prompt for the new agent.
    pub prompt: String,
    /// The agent definition that the new agent runs. Callers of newer clients can omit it (session
    /// dialect).
    pub subagent_type: Option<String>,
    /// The name for the new agent.
    pub name: Option<String>,
    /// The team in which the new agent works. The default is the caller's own team.
    pub team_name: Option<String>,
    /// The model for the new agent.
    pub model: Option<String>,
    /// The permission mode at the start. With the mode `plan`, the lead must approve a plan of the
    /// agent before the agent changes anything.
    pub mode: Option<String>,
    /// Whether the caller continues without waiting for the new agent. A teammate always runs in
    /// the background.
    pub run_in_background: Option<bool>,
    /// The number of turns after which the agent is stopped.
    pub max_turns: Option<u32>,
    /// The isolation of the agent: `worktree` gives the agent its own git worktree.
    pub isolation: Option<String>,
    /// The place where the agent runs: `in-process`, or the kind of panes that the run uses. If
    /// absent, the run decides.
    pub backend: Option<String>,
    /// The program that runs the agent: `pitcrew` or `claude`. If absent, the agent definition
    /// decides. If the definition names no program either, the run decides.
    pub program: Option<String>,
    /// The id of an ended subagent to continue, instead of starting a new agent.
    pub resume: Option<String>,
}

impl SpawnInput {
    /// Reads the input of a Task call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
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

/// The input of TaskCreate, which adds a task to the team's list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskCreateInput {
    /// The task's title, short and imperative.
    pub subject: String,
    /// The task's description.
    pub description: String,
    /// The title that is shown while somebody works on the task.
    pub active_form: Option<String>,
    /// Arbitrary data about the task.
    pub metadata: Option<Map<String, Value>>,
}

impl TaskCreateInput {
    /// Reads the input of a TaskCreate call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
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

/// The input of TaskGet, which shows one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGetInput {
    /// The id of the task.
    pub task_id: String,
}

impl TaskGetInput {
    /// Reads the input of a TaskGet call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK_GET, input);
        let read = Self { task_id: given.required_text("taskId") };
        given.finish(read)
    }
}

/// The change of a task's status that a call of TaskUpdate asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// The task gets this status.
    To(TaskStatus),
    /// The task is removed. Every reference to the task in other tasks is removed too.
    Deleted,
}

impl StatusChange {
    /// Returns the change with this name on the wire.
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

    /// Returns the name of the change on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::To(status) => status.as_str(),
            Self::Deleted => "deleted",
        }
    }
}

/// The input of TaskUpdate, which changes a task. A field that is absent keeps its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskUpdateInput {
    /// The id of the task.
    pub task_id: String,
    /// The new title of the task.
    pub subject: Option<String>,
    /// The new description of the task.
    pub description: Option<String>,
    /// The new title that is shown while somebody works on the task.
    pub active_form: Option<String>,
    /// The new status of the task.
    pub status: Option<StatusChange>,
    /// The ids of further tasks that this task blocks.
    pub add_blocks: Vec<String>,
    /// The ids of further tasks that block this task.
    pub add_blocked_by: Vec<String>,
    /// The name of the task's new owner.
    pub owner: Option<String>,
    /// Data to merge into the task's metadata, key by key. A key with the value null is deleted.
    pub metadata: Option<Map<String, Value>>,
}

impl TaskUpdateInput {
    /// Reads the input of a TaskUpdate call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
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

/// The input of ExitPlanMode, which submits a plan for approval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitPlanModeInput {
    /// The text of the plan. Absent if the agent wrote the plan to its plan file instead.
    pub plan: Option<String>,
    /// All other parameters of the call. This tool accepts any parameters.
    pub rest: Map<String, Value>,
}

impl ExitPlanModeInput {
    /// Reads the input of an ExitPlanMode call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::EXIT_PLAN_MODE, input);
        let read = Self { plan: given.text("plan"), rest: given.rest() };
        given.finish(read)
    }
}

/// The input of TaskStop, which stops background work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStopInput {
    /// The id of the background work to stop. The older name of this parameter is `shell_id`.
    pub task_id: String,
}

impl TaskStopInput {
    /// Reads the input of a TaskStop call.
    ///
    /// # Errors
    /// [`InputError`] with every fault in the input.
    pub fn parse(input: Value) -> Result<Self, InputError> {
        let mut given = Parameters::of(name::TASK_STOP, input);
        // Read the parameter under both names. A name that is not read would count as unknown.
        let (new, old) = (given.text("task_id"), given.text("shell_id"));
        if new.is_none() && old.is_none() {
            given.missing("task_id", "string");
        }
        given.finish(Self { task_id: new.or(old).unwrap_or_default() })
    }
}
