//! A lead in plan mode. The user approves the lead's plan. If the run has no terminal, it prints
//! the plan.

use insta::assert_snapshot;

use crate::terminal::GOODBYE;
use crate::test_env::TestEnv;

/// The script of a lead that makes a plan, and carries the plan out after its approval. The word
/// `PLAN` stands for the path of the plan file.
pub(crate) const PLANNER: &str = "
agents:
  team-lead:
    - tools: [{name: ExitPlanMode}]
    - tools: [{name: Write, input: {file_path: 'PLAN', content: \"1. Write made.txt.\\n2. Say so.\\n\"}}]
    - tools: [{name: ExitPlanMode}]
    - tools: [{name: Write, input: {file_path: made.txt, content: made}}]
    - text: It is made.
";

/// Returns the script [`PLANNER`] with the path of the plan file, for the team `work` of a test
/// environment.
pub(crate) fn planner(room: &TestEnv) -> String {
    PLANNER.replace("PLAN", &room.root().join("plans/work-team-lead.md").to_string_lossy())
}

#[test]
fn without_a_terminal_the_plan_is_what_the_run_says_and_it_says_how_to_go_on() {
    let room = TestEnv::new();
    let model = room.script(&planner(&room));
    let ran =
        room.run(&["run", "go", "--team", "work", "--permission-mode", "plan", "--model", &model]);
    assert_eq!((ran.code, ran.stdout.as_str()), (8, "1. Write made.txt.\n2. Say so.\n"), "{ran:?}");
    assert!(ran.stderr.contains("(plan_unapproved): the plan waits for your approval"), "{ran:?}");
    assert!(!ran.stderr.contains("No such tool"), "{ran:?}");
    let approve =
        "pitcrew run --resume work --permission-mode acceptEdits \"The plan is approved.\"";
    assert!(ran.stderr.contains(&format!("hint: to approve it: {approve}\n")), "{ran:?}");
    assert!(!room.work().join("made.txt").exists());
    let ran = room.run(&[
        "run",
        "--resume",
        "work",
        "--permission-mode",
        "acceptEdits",
        "The plan is approved.",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is made.\n"), "{ran:?}");
    assert!(room.work().join("made.txt").exists());
}

#[test]
fn with_yes_the_plan_is_approved_and_the_document_names_a_plan_that_is_not() {
    let room = TestEnv::new();
    let model = room.script(&planner(&room));
    let args = ["run", "go", "--team", "work", "--permission-mode", "plan", "--model", &model];
    let ran = room.run(&[&args[..], &["--json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["end"]), (8, &"plan_unapproved".into()), "{ran:?}");
    assert_eq!(document["result"], "1. Write made.txt.\n2. Say so.", "{ran:?}");
    let room = TestEnv::new();
    let model = room.script(&planner(&room));
    let ran = room.run(&[
        "run",
        "go",
        "--team",
        "work",
        "--permission-mode",
        "plan",
        "--yes",
        "--model",
        &model,
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is made.\n"), "{ran:?}");
}

/// The script of a lead that leaves a teammate's plan without an answer until it is told to reject
/// it.
const FORGETFUL: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: plan, prompt: Plan it., mode: plan}}]
    - text: Bob plans.
    - wait_for: {contains: Reject the plan of bob}
    - capture:
        request: {from: message, regex: '(plan_approval-[^"\\\s]+)'}
      tools: [{name: SendMessage, input: {type: plan_approval_response, recipient: bob, request_id: '${request}', approve: false, content: smaller}}]
    - text: It is rejected.
  bob:
    - tools: [{name: ExitPlanMode, input: {plan: "1. Do it."}}]
    - text: I wait."#;

#[test]
fn the_advice_about_a_plan_of_a_stalled_run_leads_out_of_it() {
    let room = TestEnv::new();
    let model = room.script(&format!("{FORGETFUL}{GOODBYE}"));
    let ran = room.run(&["run", "go", "--team", "work", "--model", &model]);
    let advice =
        "to have it changed: pitcrew run --resume work 'Reject the plan of bob: WHAT TO CHANGE'";
    assert!(ran.code == 8 && ran.stderr.contains(&format!("hint: {advice}\n")), "{ran:?}");
    assert_snapshot!(room.transcript(&[&["plan", "reject", "bob"]]), @r"
    $ pitcrew plan reject bob
    error: only the lead may answer plans, and team 'work' is not running
    hint: to approve it: pitcrew run --resume work 'Approve the plan of bob.'
    hint: to have it changed: pitcrew run --resume work 'Reject the plan of bob: WHAT TO CHANGE'
    [exit 5]
    ");
    let ran = room.run(&["run", "--resume", "work", "Reject the plan of bob: smaller"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = room.ok(&["transcript", "bob", "--team", "work"]).stdout;
    assert!(told.contains("plan_approval_response") && told.contains("smaller"), "{told}");
}
