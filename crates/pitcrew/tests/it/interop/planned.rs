//! Tests of a run with a teammate in plan mode that runs in the reference client. The run is
//! stopped while the teammate's plan waits for an answer, and is then resumed. After the resume,
//! the client must still be in plan mode. It must ask for approval again, and carry out the plan
//! after the approval.

use serde_json::{Value, json};

use super::script::{Script, a_second_later, calls, once_told, says, sends};
use super::stage::{Client, Pane, Stage};

fn writes(path: &str, text: &str) -> Value {
    calls("Write", json!({"file_path": path, "content": text}))
}

fn script() -> Script {
    let approves = json!({"type": "plan_approval_response", "request_id": "REQ:plan", "recipient": "planner",
                          "approve": true, "content": ""});
    let ends =
        json!({"type": "shutdown_request", "recipient": "planner", "content": "all is done"});
    let agrees =
        json!({"type": "shutdown_response", "request_id": "REQ:shutdown", "approve": true});
    let spawn = json!({"description": "a teammate", "prompt": "ROLE:planner go", "subagent_type": "general-purpose",
                       "name": "planner", "mode": "plan"});
    let of_lead = [
        calls("Task", spawn),
        once_told("second idea", calls("SendMessage", approves)),
        once_told("as planned", calls("SendMessage", ends)),
        once_told("planner has shut down", says("all is done")),
    ];
    let of_planner = [
        calls("ExitPlanMode", json!({})),
        writes("PLANFILE", "# Plan\nfirst idea"),
        calls("ExitPlanMode", json!({})),
        // The client tries to write another file after the resume. It must fail, because the client
        // is still in plan mode and may write only the plan's file.
        once_told("Your process was ended", writes("SECRETFILE", "written in plan mode")),
        writes("PLANFILE", "# Plan\nsecond idea"),
        calls("ExitPlanMode", json!({})),
        a_second_later(once_told(
            "pproved",
            calls("Bash", json!({"command": "touch allowed.txt"})),
        )),
        sends("team-lead", "as planned", "done as planned"),
        says("over"),
        once_told("shutdown_request", calls("SendMessage", agrees)),
        says("bye"),
    ];
    Script::default().role("lead", of_lead).role("planner", of_planner)
}

fn run(stage: &Stage, first: &str) -> Pane {
    let run = format!(
        "pitcrew run {first} --model anthropic/claude-sonnet-4-5-20250929 --teammate-mode tmux --teammate-program claude \
         --allow 'Bash(touch allowed.txt)' --allow Write; echo \"ended with $?\"; read _"
    );
    stage.pane(&["sh", "-c", &run])
}

fn goes_on_planning(client: Client) {
    let Some(stage) = Stage::set(client, &script()) else { return };
    let first = run(&stage, "'ROLE:lead begin' --team probe");
    let asked = stage.frame("team-lead", "plan_approval_request", 1)["requestId"].clone();
    stage.told("lead", "first idea");
    stage.press(&first, "C-c");
    stage.shown(&first, "ended with 130");
    let second = run(&stage, "--resume probe");
    stage.told("planner", "Your process was ended");
    let planner = stage.until("the pane of planner", || {
        let id = stage.member("planner")?["tmuxPaneId"].as_str()?.to_owned();
        stage.panes().contains(&Pane(id.clone())).then_some(Pane(id))
    });
    stage.shown(&planner, "plan mode on");
    stage.told("lead", "second idea");
    let again =
        stage.frames("team-lead", "plan_approval_request").last().unwrap()["requestId"].clone();
    assert_ne!(asked, again, "the former question is void");
    assert!(!stage.work().join("secrets/key.txt").exists(), "it wrote a file in plan mode");
    stage.until("the plan carried out", || stage.work().join("allowed.txt").exists().then_some(()));
    stage.told("lead", "planner has shut down");
    stage.shown(&second, "ended with 0");
}

#[test]
fn a_client_in_plan_mode_goes_on_planning_when_its_run_is_resumed() {
    goes_on_planning(Client::Recorded);
}

#[test]
fn todays_client_in_plan_mode_goes_on_planning_when_its_run_is_resumed() {
    goes_on_planning(Client::Today);
}
