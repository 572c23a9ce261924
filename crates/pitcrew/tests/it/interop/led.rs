//! Ours leads, and its teammates are the client, in panes.

use serde_json::{Value, json};

use super::script::{Script, calls, once_told, says, sends};
use super::stage::{Pane, Stage};

/// Runs a team whose teammates are the client, and says how that ended before the pane goes.
const RUN: &str = "pitcrew run 'ROLE:lead begin' --team probe --model anthropic/claude-sonnet-4-5-20250929 \
     --teammate-mode tmux --teammate-program claude --allow 'Bash(touch allowed.txt)'; echo \"ended with $?\"; read _";

fn run(stage: &Stage) -> Pane {
    stage.pane(&["sh", "-c", RUN])
}

fn spawns(name: &str, mode: &str) -> Value {
    calls(
        "Task",
        json!({"description": "a teammate", "prompt": format!("ROLE:{name} go"), "subagent_type": "general-purpose",
               "name": name, "mode": mode}),
    )
}

fn asks_to_shut_down(name: &str, when: &str) -> Value {
    let request = json!({"type": "shutdown_request", "recipient": name, "content": "all is done"});
    once_told(when, calls("SendMessage", request))
}

fn agrees_to_shut_down() -> Value {
    let answer = json!({"type": "shutdown_response", "request_id": "REQ:shutdown", "approve": true});
    once_told("shutdown_request", calls("SendMessage", answer))
}

/// The pane that the config names for a member.
fn pane_of(stage: &Stage, name: &str) -> Pane {
    stage.until(&format!("the pane of {name}"), || {
        let member = stage.member(name)?;
        let pane = member["tmuxPaneId"].as_str().filter(|id| id.starts_with('%'))?;
        assert_eq!(member["backendType"], "tmux");
        Some(Pane(pane.to_owned()))
    })
}

/// Waits until a teammate is gone from the screen and from the team, and the run has ended well.
fn ended(stage: &Stage, lead: &Pane, teammate: &Pane) {
    stage.until("the teammate's pane gone", || (!stage.panes().contains(teammate)).then_some(()));
    stage.shown(lead, "ended with 0");
    assert!(stage.member("worker").is_none() && stage.member("planner").is_none());
}

#[test]
fn a_client_in_a_pane_works_asks_for_permissions_reports_and_shuts_down() {
    let script = Script::default()
        .role(
            "lead",
            [
                calls("TaskCreate", json!({"subject": "Do A", "description": "all of A"})),
                spawns("worker", "default"),
                asks_to_shut_down("worker", "A is done"),
                once_told("worker has shut down", says("all is done")),
            ],
        )
        .role(
            "worker",
            [
                calls("TaskList", json!({})),
                calls("TaskUpdate", json!({"taskId": "1", "status": "in_progress"})),
                calls("Bash", json!({"command": "touch allowed.txt", "description": "by rule"})),
                calls("Bash", json!({"command": "touch asked.txt", "description": "by the user"})),
                calls("Bash", json!({"command": "touch denied.txt", "description": "not at all"})),
                calls("TaskUpdate", json!({"taskId": "1", "status": "completed"})),
                sends("team-lead", "A is done", "A is done now"),
                says("over"),
                agrees_to_shut_down(),
                says("bye"),
            ],
        );
    let Some(stage) = Stage::set(&script) else { return };
    let lead = run(&stage);
    let worker = pane_of(&stage, "worker");

    // The prompt and the mail come from the inbox that we write.
    stage.told("worker", "<teammate-message teammate_id=\"team-lead\"");
    stage.told("worker", "ROLE:worker go");
    stage.told("worker", "#1 [pending] Do A");

    // One permission is given by a rule, one by the user at the lead's terminal, and one is not.
    stage.until("the command that a rule allows", || stage.work().join("allowed.txt").exists().then_some(()));
    stage.shown(&lead, "touch asked.txt");
    stage.enter(&lead, "y");
    stage.shown(&lead, "touch denied.txt");
    stage.until("the command that the user allowed", || stage.work().join("asked.txt").exists().then_some(()));
    stage.enter(&lead, "n");
    let answers = [1, 2, 3].map(|nth| stage.frame("worker", "permission_response", nth)["subtype"].clone());
    assert_eq!(answers, [json!("success"), json!("success"), json!("error")]);
    stage.told("worker", "the user said no");
    assert!(!stage.work().join("denied.txt").exists());

    // What it did stands in the files, on its screen, and in its lead's conversation.
    stage.told("lead", "A is done");
    let task = stage.task("1");
    assert_eq!((&task["owner"], &task["status"]), (&json!("worker"), &json!("completed")), "{task}");

    stage.told("lead", "worker has shut down");
    ended(&stage, &lead, &worker);
}

#[test]
fn a_client_in_a_pane_has_its_plan_rejected_and_then_approved() {
    let decides = |when: &str, approve: bool, content: &str| {
        let answer = json!({"type": "plan_approval_response", "request_id": "REQ:plan", "recipient": "planner",
                            "approve": approve, "content": content});
        once_told(when, calls("SendMessage", answer))
    };
    let writes_plan = |text: &str| calls("Write", json!({"file_path": "PLANFILE", "content": text}));
    let script = Script::default()
        .role(
            "lead",
            [
                spawns("planner", "plan"),
                decides("first idea", false, "more detail"),
                decides("second idea", true, ""),
                asks_to_shut_down("planner", "as planned"),
                once_told("planner has shut down", says("all is done")),
            ],
        )
        .role(
            "planner",
            [
                calls("ExitPlanMode", json!({})),
                writes_plan("# Plan\nfirst idea"),
                calls("ExitPlanMode", json!({})),
                says("handed in"),
                once_told("more detail", writes_plan("# Plan\nsecond idea")),
                calls("ExitPlanMode", json!({})),
                says("handed in again"),
                once_told("plan_approval_response", calls("Bash", json!({"command": "touch allowed.txt"}))),
                sends("team-lead", "as planned", "done as planned"),
                says("over"),
                agrees_to_shut_down(),
                says("bye"),
            ],
        );
    let Some(stage) = Stage::set(&script) else { return };
    let lead = run(&stage);
    let planner = pane_of(&stage, "planner");
    assert_eq!(stage.entry("planner")["planModeRequired"], true);
    stage.shown(&planner, "plan mode on");

    let first = stage.frame("planner", "plan_approval_response", 1);
    assert_eq!((&first["approved"], &first["feedback"]), (&json!(false), &json!("more detail")));
    assert_eq!(first["requestId"], stage.frame("team-lead", "plan_approval_request", 1)["requestId"]);
    stage.shown(&planner, "Plan Rejected by team-lead");
    stage.shown(&planner, "Plan Approved by team-lead");
    let second = stage.frame("planner", "plan_approval_response", 2);
    assert_eq!(second["approved"], true);
    let asked = stage.frame("team-lead", "plan_approval_request", 2);
    assert_eq!((&second["requestId"], &asked["planContent"]), (&asked["requestId"], &json!("# Plan\nsecond idea")));
    stage.until("the plan carried out", || stage.work().join("allowed.txt").exists().then_some(()));
    stage.told("lead", "as planned");

    stage.told("lead", "planner has shut down");
    ended(&stage, &lead, &planner);
}
