//! pitcrew leads a team whose teammates run in the reference client, in panes.

use serde_json::{Value, json};

use super::script::{Script, a_second_later, calls, once_told, says, sends};
use super::stage::{Client, Pane, Stage};

/// A shell command that runs a team whose teammates run in the reference client. The command prints
/// the exit code and then waits, so that the pane stays open.
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
    let answer =
        json!({"type": "shutdown_response", "request_id": "REQ:shutdown", "approve": true});
    once_told("shutdown_request", calls("SendMessage", answer))
}

/// Waits until the config names the pane of the member `name`, and returns the pane.
fn pane_of(stage: &Stage, name: &str) -> Pane {
    stage.until(&format!("the pane of {name}"), || {
        let member = stage.member(name)?;
        let pane = member["tmuxPaneId"].as_str().filter(|id| id.starts_with('%'))?;
        assert_eq!(member["backendType"], "tmux");
        Some(Pane(pane.to_owned()))
    })
}

/// Waits until the pane of a teammate is closed, and until the run has ended with success. Checks
/// that the teammate is no longer in the config.
fn ended(stage: &Stage, lead: &Pane, teammate: &Pane) {
    stage.until("the teammate's pane gone", || (!stage.panes().contains(teammate)).then_some(()));
    stage.shown(lead, "ended with 0");
    assert!(stage.member("worker").is_none() && stage.member("planner").is_none());
}

#[test]
fn a_client_in_a_pane_works_asks_for_permissions_reports_and_shuts_down() {
    works_and_shuts_down(Client::Recorded);
}

#[test]
fn todays_client_in_a_pane_works_asks_for_permissions_reports_and_shuts_down() {
    works_and_shuts_down(Client::Today);
}

fn works_and_shuts_down(client: Client) {
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
    let Some(stage) = Stage::set(client, &script) else { return };
    let lead = run(&stage);
    let worker = pane_of(&stage, "worker");

    // The client's model gets the prompt and the task list. The client reads its prompt and its
    // messages from the inbox, which pitcrew writes.
    stage.told("worker", "<teammate-message teammate_id=\"team-lead\"");
    stage.told("worker", "ROLE:worker go");
    stage.told("worker", "#1 [pending] Do A");

    // A permission rule allows the first request. At the lead's terminal, the user allows the
    // second request and denies the third.
    stage.until("the command that a rule allows", || {
        stage.work().join("allowed.txt").exists().then_some(())
    });
    stage.shown(&lead, "touch asked.txt");
    stage.enter(&lead, "y");
    stage.shown(&lead, "touch denied.txt");
    stage.until("the command that the user allowed", || {
        stage.work().join("asked.txt").exists().then_some(())
    });
    stage.enter(&lead, "n");
    if client == Client::Recorded {
        // Version 2.1.332 of the client removes each message from its inbox after it has read the
        // message. Only with version 2.1.39, the test finds the answers to the permission requests
        // in the inbox.
        let answers = [1, 2, 3]
            .map(|nth| stage.frame("worker", "permission_response", nth)["subtype"].clone());
        assert_eq!(answers, [json!("success"), json!("success"), json!("error")]);
    }
    stage.told("worker", "the user said no");
    assert!(!stage.work().join("denied.txt").exists());

    // The lead has got the teammate's report, the task file says that the task is completed, and
    // the lead has learned that the teammate has shut down.
    stage.told("lead", "A is done");
    let task = stage.task("1");
    assert_eq!(
        (&task["owner"], &task["status"]),
        (&json!("worker"), &json!("completed")),
        "{task}"
    );

    stage.told("lead", "worker has shut down");
    ended(&stage, &lead, &worker);
}

#[test]
fn a_client_in_a_pane_has_its_plan_rejected_and_then_approved() {
    has_its_plan_decided(Client::Recorded);
}

#[test]
fn todays_client_in_a_pane_has_its_plan_rejected_and_then_approved() {
    has_its_plan_decided(Client::Today);
}

/// The script of a lead and a teammate. The lead rejects the teammate's first plan and approves its
/// second plan.
fn plan_script() -> Script {
    let decides = |when: &str, approve: bool, content: &str| {
        let answer = json!({"type": "plan_approval_response", "request_id": "REQ:plan", "recipient": "planner",
                            "approve": approve, "content": content});
        once_told(when, calls("SendMessage", answer))
    };
    let writes_plan =
        |text: &str| calls("Write", json!({"file_path": "PLANFILE", "content": text}));
    Script::default()
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
                a_second_later(once_told(
                    "pproved",
                    calls("Bash", json!({"command": "touch allowed.txt"})),
                )),
                sends("team-lead", "as planned", "done as planned"),
                says("over"),
                agrees_to_shut_down(),
                says("bye"),
            ],
        )
}

fn has_its_plan_decided(client: Client) {
    let Some(stage) = Stage::set(client, &plan_script()) else { return };
    let lead = run(&stage);
    let planner = pane_of(&stage, "planner");
    assert_eq!(stage.entry("planner")["planModeRequired"], true);
    stage.shown(&planner, "plan mode on");

    match client {
        Client::Recorded => {
            stage.shown(&planner, "Plan Rejected by team-lead");
            stage.shown(&planner, "Plan Approved by team-lead");
        }
        Client::Today => {
            stage.told("planner", "[Plan Rejected]");
            stage.told("planner", "[Plan Approved]");
        }
    }
    let asked = [1, 2].map(|nth| stage.frame("team-lead", "plan_approval_request", nth));
    assert_eq!(asked[1]["planContent"], "# Plan\nsecond idea");
    if client == Client::Recorded {
        let answers = [1, 2].map(|nth| stage.frame("planner", "plan_approval_response", nth));
        let says = |answer: &Value| (answer["approved"].clone(), answer["feedback"].clone());
        assert_eq!(
            answers.each_ref().map(says),
            [(json!(false), json!("more detail")), (json!(true), Value::Null)]
        );
        assert_eq!(
            answers.map(|answer| answer["requestId"].clone()),
            asked.map(|asked| asked["requestId"].clone())
        );
    }
    stage.until("the plan carried out", || stage.work().join("allowed.txt").exists().then_some(()));
    stage.told("lead", "as planned");

    stage.told("lead", "planner has shut down");
    ended(&stage, &lead, &planner);
}

#[test]
fn deny_rules_of_the_run_bind_a_client_whatever_its_own_mode_would_be() {
    is_bound_by_deny_rules(Client::Recorded);
}

#[test]
fn deny_rules_of_the_run_bind_todays_client_whatever_its_own_mode_would_be() {
    is_bound_by_deny_rules(Client::Today);
}

/// Checks that the deny rules of the run apply to a client that asks for no permission. Version
/// 2.1.332 of the client asks for none if it uses its default model and its command line contains
/// no permission mode.
fn is_bound_by_deny_rules(client: Client) {
    let mut spawn = spawns("worker", "default");
    spawn["blocks"][0]["input"]["model"] = "anthropic/claude-opus-5-5".into();
    let runs = |command: &str| calls("Bash", json!({"command": command, "description": "a try"}));
    let script = Script::default()
        .role(
            "lead",
            [
                spawn,
                asks_to_shut_down("worker", "all tried"),
                once_told("worker has shut down", says("all is done")),
            ],
        )
        .role(
            "worker",
            [
                calls("Read", json!({"file_path": "SECRETFILE"})),
                runs("cat secrets/key.txt"),
                runs("touch denied.txt"),
                runs("touch allowed.txt"),
                sends("team-lead", "all tried", "all was tried"),
                says("over"),
                agrees_to_shut_down(),
                says("bye"),
            ],
        );
    let Some(stage) = Stage::set_in(client, &script, |work| {
        std::fs::create_dir(work.join("secrets")).unwrap();
        std::fs::write(work.join("secrets/key.txt"), "the-secret-itself").unwrap();
    }) else {
        return;
    };
    let run = "pitcrew run 'ROLE:lead begin' --team probe --model anthropic/claude-sonnet-4-5-20250929 \
         --teammate-mode tmux --teammate-program claude --allow 'Bash(touch *)' --allow 'Bash(cat *)' --allow Read \
         --deny 'Read(./secrets/**)' --deny 'Bash(touch denied.txt)'; echo \"ended with $?\"; read _";
    let lead = stage.pane(&["sh", "-c", run]);
    let worker = pane_of(&stage, "worker");
    stage.told("lead", "all tried");
    assert!(stage.work().join("allowed.txt").exists());
    assert!(!stage.work().join("denied.txt").exists());
    assert!(!stage.was_told("worker", "the-secret-itself"), "a deny rule did not hold");
    ended(&stage, &lead, &worker);
}
