//! The schemas of the team tools' inputs, as a model is shown them.
//!
//! Source: `fixtures/claude-2.1.39/tool-input-schemas.json`: the same properties, types and required ones, but for these. The
//! words of the descriptions are ours. Task has three properties more: `isolation`, of the later versions, and our `backend`
//! and `program`; its `model` names no vendor's. TeamDelete has the `team_name` of the API reference. ExitPlanMode has the `plan`
//! that is read, and none of those that speak of remote sessions and of what a plan wants leave for: nothing reads them. A model is
//! shown the named dialect only; what is accepted is wider, see `tools` and `send`.

use serde_json::{Value, json};

/// The JSON schema of a team tool's input: an object on top, without `oneOf`. `None` for any other tool.
#[must_use]
pub fn tool_schema(name: &str) -> Option<Value> {
    let schema = match name {
        "TeamCreate" => strict(team_create(), &["team_name"]),
        "TeamDelete" => {
            strict(json!({"team_name": text("The name of your team; needs not be given")}), &[])
        }
        "TaskList" => strict(json!({}), &[]),
        "Task" | "Agent" => strict(task(), &["description", "prompt", "subagent_type"]),
        "TaskCreate" => strict(task_create(), &["subject", "description"]),
        "TaskGet" => strict(json!({"taskId": text("The id of the task")}), &["taskId"]),
        "TaskUpdate" => strict(task_update(), &["taskId"]),
        "SendMessage" => strict(send_message(), &["type"]),
        "ExitPlanMode" => {
            json!({"type": "object", "properties": exit_plan_mode(), "additionalProperties": {}})
        }
        "TaskStop" => strict(task_stop(), &[]),
        _ => return None,
    };
    Some(schema)
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

fn team_create() -> Value {
    json!({
        "team_name": text("The name of the new team"),
        "description": text("What the team is for"),
        "agent_type": text("The role of the team's lead, such as \"researcher\""),
    })
}

fn task() -> Value {
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
            &["acceptEdits", "bypassPermissions", "default", "delegate", "dontAsk", "plan"],
            "The permission mode to start in; \"plan\" demands a plan that you approve",
        ),
        "isolation": one_of(&["worktree"], "\"worktree\" gives it a git worktree and branch of its own"),
        "backend": text("Where it runs: \"in-process\", or the kind of panes this run has; best left to the user"),
        "program": one_of(&["pitcrew", "claude"], "What runs it; best left to the user"),
    })
}

/// The JSON schema of Task for a teammate, which spawns no teammates.
#[must_use]
pub fn subagent_schema() -> Value {
    let mut properties = task();
    if let Some(properties) = properties.as_object_mut() {
        properties.retain(|name, _| SUBAGENT_FIELDS.contains(&name.as_str()));
    }
    strict(properties, &["description", "prompt", "subagent_type"])
}

/// The parameters of Task that speak of subagents; of those in the background only a lead has any.
const SUBAGENT_FIELDS: [&str; 7] =
    ["description", "prompt", "subagent_type", "model", "resume", "max_turns", "mode"];

fn task_create() -> Value {
    json!({
        "subject": text("A short imperative title"),
        "description": text("What is to be done, and when it is done"),
        "activeForm": text("The title while it is being done, such as \"Running tests\""),
        "metadata": metadata("Free fields to keep with the task"),
    })
}

fn task_update() -> Value {
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
    })
}

fn send_message() -> Value {
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
    })
}

fn exit_plan_mode() -> Value {
    json!({"plan": text("The plan, where it is not the one in your plan file")})
}

fn task_stop() -> Value {
    json!({
        "task_id": text("The id of what runs in the background"),
        "shell_id": text("The older name of task_id"),
    })
}
