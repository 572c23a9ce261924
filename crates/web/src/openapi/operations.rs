//! All operations of the API.

use super::operation::Operation;

/// Returns all operations.
pub(super) fn all() -> Vec<Operation> {
    let groups = [of_server(), of_teams(), of_members(), of_one_member(), of_work(), of_people()];
    groups.into_iter().flatten().collect()
}

fn of_server() -> Vec<Operation> {
    vec![
        Operation::new("get", "/api/health", (200, "Health"), "Whether the server answers"),
        Operation::read("/api/openapi.json", "OpenApi", "This document"),
        Operation::read("/api/session", "Session", "Who calls, and what the caller may do"),
        Operation::new(
            "get",
            "/metrics",
            (200, "Metrics"),
            "The metrics of the server and of the teams, for Prometheus",
        )
        .or(429),
    ]
}

fn of_teams() -> Vec<Operation> {
    vec![
        Operation::read("/api/teams", "TeamList", "All teams: running, stopped and archived"),
        Operation::change("post", "/api/teams", (201, "TeamCreated"), "Make a team")
            .with_body("TeamCreate")
            .or(409),
        Operation::read("/api/teams/{team}", "TeamShown", "The whole state of a team"),
        Operation::change(
            "delete",
            "/api/teams/{team}",
            (200, "Done"),
            "Delete a team that has no teammates",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/end",
            "Done",
            "Ask all members to leave, then end the run",
        )
        .with_optional_body("End"),
        Operation::of_host(
            "post",
            "/api/teams/{team}/stop",
            "Done",
            "Stop the run; its teammates stay in the team",
        ),
        Operation::read("/api/teams/{team}/log", "LogPage", "What happened in a team, in order")
            .paged(),
        Operation::read("/api/teams/{team}/replay", "Replay", "The run of a team as timed events"),
        Operation::new(
            "get",
            "/api/teams/{team}/events",
            (200, "EventStream"),
            "The events of a team, as they happen",
        )
        .with_header("Last-Event-ID", "The id of the last event that the caller has.")
        .or(429)
        .or(503),
    ]
}

fn of_members() -> Vec<Operation> {
    vec![
        Operation::read(
            "/api/teams/{team}/members",
            "MemberList",
            "The members and former members of a team",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members",
            "Spawned",
            "Add a teammate to a running team",
        )
        .with_body("Spawn"),
        Operation::read("/api/teams/{team}/members/{name}", "Member", "One member"),
        Operation::of_host(
            "delete",
            "/api/teams/{team}/members/{name}",
            "Done",
            "Ask a member to leave",
        )
        .with_optional_body("ShutDown"),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/stop",
            "Done",
            "End a member without asking it",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/mode",
            "Done",
            "Change the permission mode of a member",
        )
        .with_body("Mode"),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/model",
            "Done",
            "Give a member another model",
        )
        .with_body("Model"),
    ]
}

fn of_one_member() -> Vec<Operation> {
    vec![
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/compact",
            "Done",
            "Replace the conversation of a member by a summary",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/interrupt",
            "Done",
            "Interrupt the turn of a member",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/hide_pane",
            "Done",
            "Hide the pane of a member",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/members/{name}/show_pane",
            "Done",
            "Show the hidden pane of a member",
        ),
        Operation::read(
            "/api/teams/{team}/members/{name}/conversation",
            "ConversationPage",
            "The conversation of an agent",
        )
        .paged(),
        Operation::read(
            "/api/teams/{team}/members/{name}/changes",
            "Changes",
            "The files that a member changed, with their differences",
        ),
        Operation::change(
            "post",
            "/api/teams/{team}/members/{name}/merge",
            (200, "Done"),
            "Merge the branch of a member, as it was shown",
        )
        .with_body("Merge")
        .or(409),
    ]
}

fn of_work() -> Vec<Operation> {
    vec![
        Operation::read("/api/teams/{team}/tasks", "TaskList", "The tasks of a team"),
        Operation::change("post", "/api/teams/{team}/tasks", (201, "Task"), "Add a task")
            .with_body("TaskCreate")
            .repeatable(),
        Operation::read("/api/teams/{team}/tasks/{id}", "Task", "One task"),
        Operation::change(
            "patch",
            "/api/teams/{team}/tasks/{id}",
            (200, "TaskChanged"),
            "Change a task",
        )
        .with_body("TaskUpdate"),
        Operation::change(
            "post",
            "/api/teams/{team}/tasks/{id}/claim",
            (200, "Task"),
            "Make a member the owner of a task",
        )
        .with_body("Claim"),
        Operation::read(
            "/api/teams/{team}/messages",
            "LogPage",
            "The messages of a team, in order",
        )
        .paged(),
        Operation::change(
            "post",
            "/api/teams/{team}/messages",
            (201, "Sent"),
            "Write to one member, or to all of them",
        )
        .with_body("Message")
        .repeatable(),
    ]
}

fn of_people() -> Vec<Operation> {
    vec![
        Operation::read(
            "/api/teams/{team}/questions",
            "QuestionList",
            "The questions that wait for a person",
        ),
        Operation::of_host(
            "post",
            "/api/teams/{team}/questions/{id}/answer",
            "Answered",
            "Answer a question",
        )
        .with_body("Answer"),
        Operation::read("/api/teams/{team}/plans", "PlanList", "The plans of teammates"),
        Operation::of_host(
            "post",
            "/api/teams/{team}/plans/{request}",
            "Done",
            "Approve a plan, or send it back",
        )
        .with_body("PlanAnswer"),
        Operation::read(
            "/api/teams/{team}/permissions",
            "Permissions",
            "The permission rules of a run, and what a person has granted in it",
        )
        .or(503),
        Operation::of_host(
            "post",
            "/api/teams/{team}/permissions/{request}",
            "Done",
            "Answer a permission request by the id in the lead's mail",
        )
        .with_body("PermissionAnswer"),
    ]
}
