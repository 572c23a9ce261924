//! Tests of a team that the reference client leads, with a teammate that pitcrew runs. The teammate
//! joins the team with `pitcrew join`.

use serde_json::{Value, json};

use super::script::{Script, calls, once_told, says, sends};
use super::stage::{Client, Pane, Stage};

const JOIN: [&str; 7] =
    ["pitcrew", "join", "probe", "--as", "joiner", "--append-system-prompt", "ROLE:joiner"];

/// The model's turns for a lead that creates a team with two tasks. When a member reports that it
/// has joined, the lead assigns the first task to this member.
fn lead(turns: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut all = vec![
        calls("TeamCreate", json!({"team_name": "probe", "description": "joined by ours"})),
        calls("TaskCreate", json!({"subject": "Do A", "description": "all of A"})),
        calls("TaskCreate", json!({"subject": "Do B", "description": "all of B"})),
        says("the team is made"),
        once_told("I have joined", calls("TaskUpdate", json!({"taskId": "1", "owner": "joiner"}))),
        says("given"),
    ];
    all.extend(turns);
    all
}

fn asks_to_shut_down(when: &str) -> Value {
    let request =
        json!({"type": "shutdown_request", "recipient": "joiner", "content": "all is done"});
    once_told(when, calls("SendMessage", request))
}

fn answers_shutdown(approve: bool, content: &str) -> Value {
    let answer = json!({"type": "shutdown_response", "request_id": "REQ:shutdown", "approve": approve, "content": content});
    once_told("shutdown_request", calls("SendMessage", answer))
}

/// Starts the client as lead and `pitcrew join` as a teammate. Waits until the teammate is in the
/// config. Returns the pane of the lead and the pane of the teammate.
fn begun(stage: &Stage) -> (Pane, Pane) {
    let lead = stage.client_leads();
    stage.shown(&lead, "the team is made");
    let joiner = stage.pane(&JOIN);
    stage.entry("joiner");
    (lead, joiner)
}

/// The script of a lead and of a teammate that pitcrew runs. The teammate joins, works on two tasks
/// and leaves.
fn whole_stay() -> Script {
    Script::default()
        .role(
            "lead",
            lead([
                once_told("A is done", sends("joiner", "well done", "praise")),
                says("praised"),
                asks_to_shut_down("B is done"),
                says("asked"),
                once_told("delete it", calls("TeamDelete", json!({}))),
                says("the team is deleted"),
            ]),
        )
        .role(
            "joiner",
            [
                sends("team-lead", "I have joined", "joined"),
                once_told(
                    "task_assignment",
                    calls("TaskUpdate", json!({"taskId": "1", "status": "in_progress"})),
                ),
                calls(
                    "Bash",
                    json!({"command": "echo mine > made.txt", "description": "make a file"}),
                ),
                calls(
                    "Bash",
                    json!({"command": "echo mine > denied.txt", "description": "make another"}),
                ),
                calls("TaskUpdate", json!({"taskId": "1", "status": "completed"})),
                sends("team-lead", "A is done", "A is done now"),
                once_told(
                    "well done",
                    calls("TaskUpdate", json!({"taskId": "2", "status": "in_progress"})),
                ),
                calls("TaskUpdate", json!({"taskId": "2", "status": "completed"})),
                sends("team-lead", "B is done", "B is done now"),
                answers_shutdown(true, ""),
                says("gone"),
            ],
        )
}

#[test]
fn a_joined_teammate_works_asks_its_lead_reports_and_leaves() {
    let Some(stage) = Stage::set(Client::Recorded, &whole_stay()) else { return };
    let (lead, joiner) = begun(&stage);

    // The new member's entry in the config has the form that the client writes. The lead's
    // conversation contains the first message of the member.
    let member = stage.entry("joiner");
    assert_eq!((&member["agentId"], &member["color"]), (&json!("joiner@probe"), &json!("blue")));
    stage.told("lead", "<teammate-message teammate_id=\"joiner\" color=\"blue\" summary=\"joined\">\nI have joined");

    check_permissions(&stage, &lead);

    // The member has completed and reported two tasks: the task that was assigned to it, and the
    // task that it claimed.
    stage.told("lead", "B is done");
    for id in ["1", "2"] {
        let task = stage.task(id);
        assert_eq!(
            (&task["owner"], &task["status"]),
            (&json!("joiner"), &json!("completed")),
            "{task}"
        );
    }
    let is_idle = || {
        stage
            .frames("team-lead", "idle_notification")
            .into_iter()
            .find(|frame| frame["from"] == "joiner")
    };
    stage.until("joiner's idleness", is_idle);

    // The member answers the shutdown request. Its pane closes, and the config no longer contains
    // the member. After that, the lead is able to delete the team.
    let approved = stage.frame("team-lead", "shutdown_approved", 1);
    assert_eq!(approved["requestId"], stage.frame("joiner", "shutdown_request", 1)["requestId"]);
    stage.until("joiner gone", || {
        (stage.is_gone("joiner") && !stage.panes().contains(&joiner)).then_some(())
    });
    stage.told("lead", "shutdown_approved");
    stage.enter(&lead, "delete it");
    stage.shown(&lead, "the team is deleted");
    assert_eq!(stage.config(), None);
}

/// Checks that the user is able to allow one command and to deny another at the lead's terminal.
fn check_permissions(stage: &Stage, lead: &Pane) {
    // The lead's screen shows the member's permission requests. An answer on that screen reaches
    // the member.
    stage.shown(lead, "Bash command · @joiner");
    let responses = || stage.frames("joiner", "permission_response");
    let first =
        stage.answer(lead, "echo mine > made.txt", "Enter", || responses().first().cloned());
    let second =
        stage.answer(lead, "echo mine > denied.txt", "Escape", || responses().get(1).cloned());
    let asked = [1, 2].map(|nth| stage.frame("team-lead", "permission_request", nth));
    let answered = [first, second];
    for (asked, answered) in asked.iter().zip(&answered) {
        assert_eq!(
            (&asked["agent_id"], &asked["request_id"]),
            (&json!("joiner"), &answered["request_id"])
        );
    }
    assert_eq!(
        answered.map(|answer| answer["subtype"].clone()),
        [json!("success"), json!("error")]
    );
    stage.told("joiner", "Permission denied");
    let file = |name: &str| std::fs::read_to_string(stage.work().join(name)).ok();
    assert_eq!((file("made.txt").as_deref(), file("denied.txt")), (Some("mine\n"), None));
}

#[test]
fn a_joined_teammate_that_is_busy_stays_and_one_that_is_killed_keeps_its_place() {
    let script = Script::default()
        .role(
            "lead",
            lead([
                asks_to_shut_down("busy with A"),
                says("asked"),
                once_told("still busy", says("stay then")),
            ]),
        )
        .role(
            "joiner",
            [
                sends("team-lead", "I have joined", "joined"),
                once_told(
                    "task_assignment",
                    calls("TaskUpdate", json!({"taskId": "1", "status": "in_progress"})),
                ),
                sends("team-lead", "busy with A", "busy"),
                answers_shutdown(false, "still busy"),
                once_told("go on", sends("team-lead", "I go on", "going on")),
                says("went on"),
            ],
        );
    let Some(stage) = Stage::set(Client::Recorded, &script) else { return };
    let (lead, joiner) = begun(&stage);
    let rejected = stage.frame("team-lead", "shutdown_rejected", 1);
    assert_eq!((&rejected["from"], &rejected["reason"]), (&json!("joiner"), &json!("still busy")));
    stage.shown(&lead, "stay then");
    assert!(stage.panes().contains(&joiner));
    stage.entry("joiner");

    // The test kills the member and starts it again under the same name. The member continues its
    // conversation and keeps its task.
    stage.kill(&joiner);
    let again = stage.pane(&JOIN);
    let sent = stage.pitcrew(&["send", "joiner", "go on"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    stage.told("lead", "I go on");
    let asked = stage.requests("joiner");
    assert!(asked.last().unwrap().remembers("busy with A"), "it began anew");
    assert_eq!(stage.task("1")["owner"], "joiner");
    assert!(stage.panes().contains(&again));
}
