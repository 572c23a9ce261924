//! The names by which models call the tools. Each name is written only here.
//!
//! The name of an MCP server's tool is known only at run time (`mcp__server__tool`) and is not in
//! this list. Such a tool has [`ToolTraits`](crate::ToolTraits) too.

/// Runs a shell command.
pub const BASH: &str = "Bash";
/// Reads the content of a file.
pub const READ: &str = "Read";
/// Writes the whole content of a file.
pub const WRITE: &str = "Write";
/// Replaces text in a file.
pub const EDIT: &str = "Edit";
/// Lists files whose paths match a pattern.
pub const GLOB: &str = "Glob";
/// Searches files for a regular expression.
pub const GREP: &str = "Grep";
/// Stops a background command, a subagent or a teammate.
pub const TASK_STOP: &str = "TaskStop";
/// Starts a subagent or a teammate.
pub const TASK: &str = "Task";
/// The name of the tool [`TASK`] in newer versions of the reference client (session dialect).
pub const AGENT: &str = "Agent";
/// Creates a team with the caller as its lead.
pub const TEAM_CREATE: &str = "TeamCreate";
/// Ends the caller's team.
pub const TEAM_DELETE: &str = "TeamDelete";
/// Adds a task to the team's list.
pub const TASK_CREATE: &str = "TaskCreate";
/// Shows one task.
pub const TASK_GET: &str = "TaskGet";
/// Changes a task.
pub const TASK_UPDATE: &str = "TaskUpdate";
/// Lists the team's tasks.
pub const TASK_LIST: &str = "TaskList";
/// Sends messages to members of the team, and answers requests.
pub const SEND_MESSAGE: &str = "SendMessage";
/// Submits a plan for approval.
pub const EXIT_PLAN_MODE: &str = "ExitPlanMode";
