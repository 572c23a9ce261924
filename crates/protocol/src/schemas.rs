//! The JSON schemas of the tools' inputs, as a model sees them.
//!
//! The schemas of the team tools follow `fixtures/claude-2.1.39/tool-input-schemas.json`: they have
//! the same properties, types and required properties. These are the differences:
//!
//! - The descriptions are in our own words.
//! - Task also has `isolation` from later versions of the reference client, and our own `backend`
//!   and `program`. Its property `model` does not list the models of one vendor.
//! - TeamDelete also has the `team_name` of the API reference.
//! - ExitPlanMode also has `plan`. It lacks the properties about remote sessions and about the
//!   permissions that a plan asks for, because nothing reads these properties.
//!
//! A model sees only the parameters of the named dialect. The modules `tools` and `send` also
//! accept the parameters of the session dialect.

use serde_json::{Value, json};

use crate::{PermissionMode, Program, ToolDescriptor};

/// Returns the JSON schema of a tool's input: an object at the top level, without `oneOf`. Returns
/// `None` if pitcrew has no tool with this name.
#[must_use]
pub fn tool_schema(name: &str) -> Option<Value> {
    ToolDescriptor::find(name)?.schema.map(|schema| schema())
}

fn strict(properties: Value, required: &[&str]) -> Value {
    if required.is_empty() {
        return json!({"type": "object", "properties": properties, "additionalProperties": false});
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn one_of(values: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": values, "description": description})
}

fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// Returns the names of the permission modes in the order of the recordings, which is alphabetical.
fn modes() -> [&'static str; 6] {
    let mut modes = PermissionMode::ALL.map(PermissionMode::as_str);
    modes.sort_unstable();
    modes
}

fn ids(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

fn metadata(description: &str) -> Value {
    json!({
        "type": "object",
        "propertyNames": {"type": "string"},
        "additionalProperties": {},
        "description": description,
    })
}

pub(crate) fn team_create() -> Value {
    strict(
        json!({
            "team_name": text("The name of the new team"),
            "description": text("What the team is for"),
            "agent_type": text("The role of the team's lead, such as \"researcher\""),
        }),
        &["team_name"],
    )
}

pub(crate) fn team_delete() -> Value {
    strict(json!({"team_name": text("The name of your team; needs not be given")}), &[])
}

/// The required parameters of the tool Task.
const TASK_REQUIRED: [&str; 3] = ["description", "prompt", "subagent_type"];

pub(crate) fn task() -> Value {
    strict(task_properties(), &TASK_REQUIRED)
}

fn task_properties() -> Value {
    json!({
        "description": text("The errand in 3 to 5 words"),
        "prompt": text("What the agent is to do; it knows nothing but this"),
        "subagent_type": text("The agent definition to run, such as \"general-purpose\""),
        "model": text("The model to run it on; inherited when absent"),
        "resume": text("The id of a subagent of yours that has ended, to go on with what it knows"),
        "run_in_background": flag("Go on at once and be told of its end; a teammate always runs in the background"),
        "max_turns": {
            "type": "integer",
            "exclusiveMinimum": 0,
            "maximum": 9_007_199_254_740_991_u64,
            "description": "After how many turns it is stopped",
        },
        "name": text("The name of the teammate, by which it is written to"),
        "team_name": text("The team to spawn into; your own when absent"),
        "mode": one_of(
            &modes(),
            "The permission mode to start in; \"plan\" demands a plan that you approve",
        ),
        "isolation": one_of(&["worktree"], "\"worktree\" gives it a git worktree and branch of its own"),
        "backend": text("Where it runs: \"in-process\", or the kind of panes this run has; best left to the user"),
        "program": one_of(&Program::ALL.map(Program::as_str), "What runs it; best left to the user"),
    })
}

/// Returns the JSON schema of the tool Task for a teammate. A teammate is allowed to start only
/// subagents.
#[must_use]
pub fn subagent_schema() -> Value {
    let mut properties = task_properties();
    if let Some(properties) = properties.as_object_mut() {
        properties.retain(|name, _| SUBAGENT_FIELDS.contains(&name.as_str()));
    }
    strict(properties, &TASK_REQUIRED)
}

/// The parameters of the tool Task for starting subagents. The parameter `run_in_background` is
/// left out, because only a lead can have subagents in the background.
const SUBAGENT_FIELDS: [&str; 7] =
    ["description", "prompt", "subagent_type", "model", "resume", "max_turns", "mode"];

pub(crate) fn task_create() -> Value {
    strict(
        json!({
            "subject": text("A short imperative title"),
            "description": text("What is to be done, and when it is done"),
            "activeForm": text("The title while it is being done, such as \"Running tests\""),
            "metadata": metadata("Free fields to keep with the task"),
        }),
        &["subject", "description"],
    )
}

pub(crate) fn task_get() -> Value {
    strict(json!({"taskId": text("The id of the task")}), &["taskId"])
}

pub(crate) fn task_list() -> Value {
    strict(json!({}), &[])
}

pub(crate) fn task_update() -> Value {
    strict(
        json!({
            "taskId": text("The id of the task"),
            "subject": text("A new title"),
            "description": text("A new description"),
            "activeForm": text("A new title for while it is being done"),
            "status": {
                "anyOf": [
                    {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                    {"type": "string", "const": "deleted"},
                ],
                "description": "A new status; \"deleted\" removes the task",
            },
            "addBlocks": ids("The ids of tasks that cannot start before this one is completed"),
            "addBlockedBy": ids("The ids of tasks that must be completed before this one can start"),
            "owner": text("The name of the agent that is to work on it"),
            "metadata": metadata("Free fields to merge into the task's; null deletes a key"),
        }),
        &["taskId"],
    )
}

pub(crate) fn send_message() -> Value {
    strict(
        json!({
            "type": one_of(
                &["message", "broadcast", "shutdown_request", "shutdown_response", "plan_approval_response"],
                "\"message\" to one teammate, \"broadcast\" to all, \"shutdown_request\" to ask one to end, the others to answer",
            ),
            "recipient": text("The name of the receiver; needed for message, shutdown_request and plan_approval_response"),
            "content": text("The text, the reason or the feedback"),
            "summary": text("A preview of 5 to 10 words; needed for message and broadcast"),
            "request_id": text("The id of the request that is answered"),
            "approve": flag("Whether the request is granted; needed for the two responses"),
        }),
        &["type"],
    )
}

pub(crate) fn exit_plan_mode() -> Value {
    let properties = json!({"plan": text("The plan, where it is not the one in your plan file")});
    json!({"type": "object", "properties": properties, "additionalProperties": {}})
}

pub(crate) fn task_stop() -> Value {
    strict(
        json!({
            "task_id": text("The id of what runs in the background"),
            "shell_id": text("The older name of task_id"),
        }),
        &[],
    )
}

pub(crate) fn bash() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command to run"},
            "timeout": {"type": "number", "description": "Milliseconds it may take, 600000 at most"},
            "description": {"type": "string", "description": "What it does, in a few words, for people"},
            "run_in_background": {"type": "boolean", "description": "Whether to go on without waiting for it"},
            "dangerouslyDisableSandbox": {"type": "boolean", "description": "Asks permission to run it outside of the sandbox"},
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

pub(crate) fn read() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file to read"},
            "offset": {"type": "number", "description": "The first line to show, counted from 1"},
            "limit": {"type": "number", "description": "How many lines to show"},
            "pages": {"type": "string", "description": "Pages of a PDF; not supported"},
        },
        "required": ["file_path"],
        "additionalProperties": false,
    })
}

pub(crate) fn write() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file to write"},
            "content": {"type": "string", "description": "All that the file is to hold"},
        },
        "required": ["file_path", "content"],
        "additionalProperties": false,
    })
}

pub(crate) fn edit() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file to change"},
            "old_string": {"type": "string", "description": "The text to replace"},
            "new_string": {"type": "string", "description": "The text to put in its place"},
            "replace_all": {
                "type": "boolean", "default": false,
                "description": "Whether every occurrence is replaced",
            },
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": false,
    })
}

pub(crate) fn glob() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The pattern of the paths"},
            "path": {"type": "string", "description": "The folder to look in; the working folder when left out"},
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}

pub(crate) fn grep() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The regular expression"},
            "path": {"type": "string", "description": "The file or folder to look in; the working folder when left out"},
            "glob": {"type": "string", "description": "Only files whose path matches this pattern"},
            "output_mode": {
                "type": "string", "enum": ["content", "files_with_matches", "count"],
                "description": "What to show",
            },
            "-B": {"type": "number", "description": "Lines to show before each match"},
            "-A": {"type": "number", "description": "Lines to show after each match"},
            "-C": {"type": "number", "description": "Lines to show before and after each match"},
            "context": {"type": "number", "description": "The same as -C"},
            "-n": {"type": "boolean", "description": "Whether to show line numbers; yes when left out"},
            "-i": {"type": "boolean", "description": "Whether case is ignored"},
            "type": {"type": "string", "description": "Only files of this type, by ripgrep's names"},
            "head_limit": {"type": "number", "description": "How many lines or files to show"},
            "offset": {"type": "number", "description": "How many lines or files to leave out first"},
            "multiline": {"type": "boolean", "description": "Whether a match may go over several lines"},
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}
