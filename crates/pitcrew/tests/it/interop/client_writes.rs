//! Checks the files that version 2.1.39 of the reference client writes. They must have the same
//! form as the recorded files of this client (`fixtures/`).

use serde_json::json;

use super::script::{Script, calls, once_told, says, sends};
use super::stage::{Client, Stage};

#[test]
fn a_team_of_the_installed_client_holds_nothing_new() {
    let script = Script::default()
        .role(
            "lead",
            [
                calls("TeamCreate", json!({"team_name": "probe", "description": "what is written"})),
                calls("TaskCreate", json!({"subject": "Do A", "description": "all of A", "activeForm": "Doing A"})),
                calls("TaskCreate", json!({"subject": "Do B", "description": "all of B", "metadata": {"p": 1}})),
                calls("TaskUpdate", json!({"taskId": "2", "addBlockedBy": ["1"]})),
                calls(
                    "Task",
                    json!({"description": "the worker", "prompt": "ROLE:worker go", "subagent_type": "general-purpose",
                           "name": "worker", "team_name": "probe"}),
                ),
                says("spawned"),
                once_told(
                    "A is done",
                    calls("SendMessage", json!({"type": "shutdown_request", "recipient": "worker"})),
                ),
                says("asked"),
            ],
        )
        .role(
            "worker",
            [
                calls("TaskUpdate", json!({"taskId": "1", "status": "in_progress"})),
                calls("TaskUpdate", json!({"taskId": "1", "status": "completed"})),
                sends("team-lead", "A is done", "A is done now"),
                says("over"),
                once_told(
                    "shutdown_request",
                    calls(
                        "SendMessage",
                        json!({"type": "shutdown_response", "request_id": "REQ:shutdown", "approve": false,
                                                "content": "still busy"}),
                    ),
                ),
                says("staying"),
            ],
        );
    let Some(stage) = Stage::set(Client::Recorded, &script) else { return };
    let lead = stage.client_leads();
    let refused = stage.frame("team-lead", "shutdown_rejected", 1);
    assert_eq!(refused["reason"], "still busy");
    stage.told("lead", "still busy");
    stage.shown(&lead, "spawned");

    let compared = stage.pitcrew(&["doctor", "--reference"]);
    assert_eq!(compared.code, 0, "{}", compared.stdout);
    assert_eq!(
        compared.stdout,
        "claude 2.1.39, which was recorded\nnothing new in 1 config, 2 inboxes and 2 tasks\n"
    );
}
