//! The names of tools that rules speak of, and which of them take something in parentheses.

use pitcrew_protocol::nearest;

/// Our tools that no rule limits further: `SendMessage(bob)` would match nothing.
const WHOLE: [&str; 12] = [
    "ExitPlanMode",
    "Glob",
    "Grep",
    "SendMessage",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
];

/// Our tools whose rules name commands, files or kinds of agents.
const LIMITED: [&str; 7] = ["Bash", "Edit", "MultiEdit", "NotebookEdit", "Read", "Task", "Write"];

/// Tools of the reference client that are not ours: its users have rules for them.
const FOREIGN: [&str; 15] = [
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "KillShell",
    "ListMcpResourcesTool",
    "LS",
    "LSP",
    "MCPSearch",
    "NotebookRead",
    "ReadMcpResourceTool",
    "Skill",
    "SlashCommand",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
];

/// Whether any tool may have the name: a known one, or one of an MCP server.
pub(super) fn is_known(tool: &str) -> bool {
    tool.starts_with("mcp__") || [&WHOLE[..], &LIMITED[..], &FOREIGN[..]].concat().contains(&tool)
}

/// The tool that was meant by a name that no tool has.
pub(super) fn meant(tool: &str) -> Option<String> {
    nearest(tool, [&LIMITED[..], &WHOLE[..], &FOREIGN[..], &["Agent"]].concat())
}

/// Whether rules for the tool speak of every call of it or of none.
pub(super) fn is_whole(tool: &str) -> bool {
    WHOLE.contains(&tool)
}
