//! The end of a run: its report on incomplete work, its single JSON document, and the totals that
//! the next run adds to.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::models_over_http::Say;
use crate::running::Running;
use crate::service::{Reply, Service};
use crate::test_env::{Ran, TestEnv};

/// The script of a lead that says it is done although a task is open, and so ends its run. In the
/// next run, the lead waits for a message with the word `Really` and then completes the task.
const FORGETFUL: &str = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - text: It is done.
    - text: It is done, as I said.
    - wait_for: {contains: Really}
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - text: Now it is.
";

/// Runs a script as the lead of the team `work`.
fn run(room: &TestEnv, script: &str, more: &[&str]) -> Ran {
    let model = room.script(script);
    let mut args = vec!["run", "do it", "--team", "work", "--model", &model];
    args.extend(more);
    room.run(&args)
}

/// Returns the single JSON document on stdout. Checks that the document contains the exit code of
/// the process and the manual's name for that exit code.
#[track_caller]
fn document(ran: &Ran) -> Value {
    let documents: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&ran.stdout).into_iter().collect();
    let documents = documents.unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let [document] = documents.as_slice() else { panic!("{} documents: {ran:?}", documents.len()) };
    assert_eq!(document["exit_code"], ran.code, "{ran:?}");
    assert_eq!(document["success"], ran.code == 0, "{ran:?}");
    let manual = include_str!("../../../../docs/exit-codes.md");
    if let Some(name) = document["error"].as_str() {
        let row =
            manual.lines().find(|line| line.starts_with(&format!("| {} |", ran.code))).unwrap();
        assert!(row.contains(&format!("`{name}`")), "{name} is not {row}");
    }
    if let Some(end) = document["end"].as_str() {
        assert!(manual.contains(&format!("`{end}`")), "the manual does not know the end {end}");
    }
    document.clone()
}

#[test]
fn a_run_that_leaves_a_task_open_is_stalled_and_its_resume_completes_it() {
    let room = TestEnv::new();
    let ran = run(&room, FORGETFUL, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (8, "It is done, as I said.\n"), "{ran:?}");
    let said = "error: the run ended before its work was complete (stalled): nobody works on the open tasks; 1 task is open: \
                #1 Do it (pending, no owner)\nhint: pitcrew run --resume work\n";
    assert!(ran.stderr.ends_with(said), "{ran:?}");
    let transcript =
        std::fs::read_to_string(room.find("teams/work/pitcrew/transcripts/team-lead.ndjson"))
            .unwrap();
    assert_eq!(
        transcript.matches("#1 Do it (pending, no owner)").count(),
        1,
        "reminded once: {transcript}"
    );
    let ran = room.run(&["run", "--resume", "work", "Really?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Now it is.\n"), "{ran:?}");
}

#[test]
fn a_task_that_the_lead_deleted_is_not_open() {
    let room = TestEnv::new();
    let ran = run(
        &room,
        &FORGETFUL.replace("It is done, as I said.", "x").replace(
            "text: It is done.",
            "tools: [{name: TaskUpdate, input: {taskId: '1', status: deleted}}]",
        ),
        &[],
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "x\n"), "{ran:?}");
}

#[test]
fn a_team_is_deleted_with_open_tasks_only_when_its_lead_insists_and_the_end_says_so() {
    let script = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - tools: [{name: TeamDelete}]
    - tools: [{name: TeamDelete}]
    - text: It is gone.
";
    let room = TestEnv::new();
    let ran = run(&room, script, &["--json"]);
    // The lead's conversation contains this text. The conversation is in a file of the team's
    // archive, so the test searches all files below the root.
    let said = "The team is not deleted yet: 1 task is open: #1 Do it (pending, no owner).";
    let kept = crate::test_env::tree(&room.root()).into_values().flatten();
    assert!(kept.into_iter().any(|file| String::from_utf8_lossy(&file).contains(said)), "{ran:?}");
    let ended = document(&ran);
    assert_eq!(
        (&ended["end"], &ended["team_deleted"]),
        (&json!("stalled"), &json!(true)),
        "{ended:#}"
    );
    assert_eq!((&ended["resume"], &ended["hints"]), (&Value::Null, &json!([])), "{ended:#}");
    assert_eq!(ended["tasks"][0]["subject"], "Do it", "{ended:#}");
}

#[test]
fn a_plan_that_nobody_answers_is_open_and_its_teammate_stays_for_the_next_run() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: w, prompt: Plan., mode: plan}}]
    - wait_for: {contains: plan_approval_request}
      text: I wait.
    - text: Fine.
    - wait_for: {contains: what never comes}
      text: Fine.
  bob:
    - tools: [{name: ExitPlanMode, input: {plan: My plan.}}]
    - wait_for: {contains: what never comes}
";
    let room = TestEnv::new();
    let ran = run(&room, script, &["--json"]);
    let ended = document(&ran);
    assert_eq!(
        (&ended["end"], &ended["open"]),
        (&json!("stalled"), &json!(["the plan of bob waits for an answer"]))
    );
    assert_eq!(ended["members"][1]["state"], "killed", "{ended:#}");
    assert_eq!(room.json(&["member", "list", "--team", "work"])["total"], 2);
}

#[test]
fn an_answer_that_is_cut_off_refused_or_empty_is_no_end_of_the_work() {
    type Answer = fn() -> Reply;
    let answers: [(&str, Answer, usize); 3] = [
        ("truncated", || Reply::Stop("It is do", "max_tokens"), 2),
        ("refused", || Reply::Stop("No.", "refusal"), 1),
        ("empty", || Reply::Say(Vec::new()), 2),
    ];
    for (end, answer, requests) in answers {
        let service = Service::start(move |_, _| answer());
        let room = TestEnv::new();
        let ended = document(&service.run(&room, &["run", "do it", "--json"]));
        assert_eq!((&ended["end"], &ended["exit_code"]), (&json!(end), &json!(8)), "{ended:#}");
        assert_eq!(service.seen().len(), requests, "{end}");
        let service = Service::start(move |heard, _| match heard.answers {
            0 if end != "empty" => answer(),
            0 if !heard.told.contains("Your last answer has no text") => answer(),
            _ => Reply::Say(vec![Say::Text("It is done.")]),
        });
        let ran = service.run(&TestEnv::new(), &["run", "do it"]);
        let expected = if end == "refused" { (8, "No.\n") } else { (0, "It is done.\n") };
        assert_eq!((ran.code, ran.stdout.as_str()), expected, "{end}: {ran:?}");
    }
}

#[test]
fn a_run_whose_teammate_never_started_is_not_completed() {
    let spawn = json!({"name": "bob", "subagent_type": "general-purpose", "description": "w", "prompt": "ROLE:bob"});
    let service = Service::start(move |heard, _| match heard.answers {
        _ if heard.first.contains("ROLE:bob") => {
            let body = json!({"type": "error", "error": {"type": "authentication_error", "message": "no such key"}});
            Reply::Refuse(401, None, body)
        }
        0 => Reply::Say(vec![Say::Call("Task", spawn.clone())]),
        _ => Reply::Say(vec![Say::Text("It is done.")]),
    });
    let ended = document(&service.run(&TestEnv::new(), &["run", "have bob do it", "--json"]));
    assert_eq!(
        (&ended["end"], &ended["open"]),
        (&json!("failed_to_start"), &json!(["bob never started to work"]))
    );
}

#[test]
fn a_teammate_that_was_asked_to_leave_has_shut_down_and_completed_nothing() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: wait, prompt: Wait.}}]
    - wait_for: {contains: idle_notification}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: has shut down}
    - text: That is all.
  bob:
    - wait_for: {contains: shutdown_request}
      text: I wait.
    - capture:
        request: {from: message, regex: '\"requestId\":\"(shutdown-[^\"]+)\"'}
      tools: [{name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}]
";
    let room = TestEnv::new();
    let ran = run(&room, script, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        !ran.stderr.contains("bob is completed") && ran.stderr.contains("bob has ended"),
        "{ran:?}"
    );
    let row = ran.stderr.lines().find(|line| line.starts_with("bob  ")).unwrap();
    assert!(row.contains("shut down") && !row.contains("completed"), "{row}");
    let told =
        std::fs::read_to_string(room.find("teams/work/pitcrew/transcripts/team-lead.ndjson"))
            .unwrap();
    assert!(
        !told.contains("completed their task")
            && told.contains("has shut down, as it was asked to"),
        "{told}"
    );
}

#[test]
fn a_run_prints_one_json_document_whatever_happens() {
    let room = TestEnv::new();
    let ended = |args: &[&str]| document(&room.run(args));
    for usage in
        [&["run", "--json", "x", "--nope"][..], &["run", "--json", "x", "--model", "nonsense"]]
    {
        assert_eq!(ended(usage)["error"], "invalid_request");
    }
    assert_eq!(ended(&["run", "x", "--nope", "--output-format=json"])["error"], "invalid_request");
    assert_eq!(ended(&["run", "--json", "x"])["error"], "invalid_request", "there is no key");
    assert_eq!(
        ended(&["run", "--resume", "nobody", "--output-format", "json"])["error"],
        "team_not_found"
    );
    let done = document(&run(&room, "agents: {team-lead: [{text: Done.}]}", &["--json"]));
    assert_eq!((&done["end"], &done["error"]), (&json!("completed"), &Value::Null));
    assert_eq!(
        (&done["result"], &done["team"], &done["tasks"]),
        (&json!("Done."), &json!("work"), &json!([]))
    );
    let stalled = document(&run(&room, FORGETFUL, &["--output-format", "json"]));
    assert_eq!(stalled["end"], "stalled");
    let task = json!({"id": "1", "subject": "Do it", "status": "pending", "owner": null});
    assert_eq!(stalled["tasks"], json!([task]));
    let fields: BTreeSet<&str> =
        stalled["members"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "agent_type",
        "cost_usd",
        "model",
        "name",
        "reason",
        "state",
        "tokens",
        "tool_calls",
        "turns",
    ];
    assert_eq!(fields, expected.into());
    assert_eq!(stalled["resume"], "pitcrew run --resume work");
    room.ok(&["team", "delete", "work", "--force"]);
    let endless = "agents: {team-lead: [{repeat: {at_most: 99999, turns: [{delay_ms: 20, tools: [{name: TaskList}]}]}}]}";
    let limited = document(&run(&room, endless, &["--json", "--max-turns", "2"]));
    assert_eq!(
        (&limited["end"], &limited["error"]),
        (&json!("max_turns"), &json!("limit_reached"))
    );
}

/// Starts or resumes the team `work`, and sends `signal` to the run while its lead works. Returns
/// the single JSON document of the run.
fn stopped(room: &TestEnv, args: &[&str], signal: Signal) -> Value {
    let (out, log) = (room.temporary().join("out"), room.temporary().join("log"));
    let mut command = room.command(args);
    command.arg("--json").stdin(std::process::Stdio::null());
    command
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let read = || std::fs::read_to_string(&log).unwrap();
    crate::patience::until(
        "the lead works",
        || read().contains("team-lead TaskList").then_some(()),
        read,
    );
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
    let code = child.wait().unwrap().code().unwrap();
    document(&Ran { code, stdout: std::fs::read_to_string(&out).unwrap(), stderr: read() })
}

#[test]
fn a_signal_ends_a_run_with_one_document_that_says_how_to_go_on() {
    for (signal, name) in
        [(Signal::INT, "interrupted"), (Signal::TERM, "terminated"), (Signal::HUP, "terminated")]
    {
        let room = TestEnv::new();
        let endless = "agents: {team-lead: [{repeat: {at_most: 99999, turns: [{delay_ms: 20, tools: [{name: TaskList}]}]}}]}";
        let model = room.script(endless);
        let ended = stopped(&room, &["run", "go", "--team", "work", "--model", &model], signal);
        assert_eq!(
            (&ended["error"], &ended["end"]),
            (&json!(name), &json!("interrupted")),
            "{ended:#}"
        );
        assert_eq!(ended["hints"], json!(["pitcrew run --resume work"]));
    }
}

#[test]
fn tokens_costs_and_times_go_on_after_a_resume_and_the_limit_counts_them_all() {
    let service = Service::start(|_, _| Reply::Say(vec![Say::Call("TaskList", json!({}))]));
    let room = TestEnv::new();
    let run = |args: &[&str]| document(&service.run(&room, args));
    let first = run(&["run", "go", "--team", "work", "--max-turns", "4", "--json"]);
    let cost = first["total_cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0, "{first:#}");
    let again = run(&["run", "--resume", "work", "--max-turns", "6", "--json"]);
    for (field, first, again) in [
        ("turns", &first["num_turns"], &again["num_turns"]),
        ("tokens read", &first["usage"]["input_tokens"], &again["usage"]["input_tokens"]),
        ("tokens written", &first["usage"]["output_tokens"], &again["usage"]["output_tokens"]),
        ("tool calls", &first["members"][0]["tool_calls"], &again["members"][0]["tool_calls"]),
    ] {
        let (first, again) = (first.as_u64().unwrap(), again.as_u64().unwrap());
        assert_eq!((first % 4, again), (0, first / 4 * 6), "{field}");
    }
    assert!(
        (again["total_cost_usd"].as_f64().unwrap() - cost / 4.0 * 6.0).abs() < 1e-6,
        "{again:#}"
    );
    assert!(again["duration_ms"].as_u64() > first["duration_ms"].as_u64(), "{again:#}");
    assert!(again["duration_api_ms"].as_u64() >= first["duration_api_ms"].as_u64(), "{again:#}");
    let by_model = again["modelUsage"].as_object().unwrap().values().next().unwrap();
    assert_eq!(by_model["inputTokens"], again["usage"]["input_tokens"]);
    // The limit is the cost of 6.5 turns. Six turns are done, so the seventh turn exceeds the
    // limit. An eighth turn may start before the cost of the seventh turn is counted.
    let most = (cost / 4.0 * 6.5).to_string();
    let limited =
        run(&["run", "--resume", "work", "--max-cost-usd", &most, "--max-turns", "99", "--json"]);
    let turns = limited["num_turns"].as_u64().unwrap();
    assert!(limited["end"] == "max_cost" && (7..=8).contains(&turns), "{limited:#}");
    let requests = service.seen().len();
    let spent = run(&["run", "--resume", "work", "--max-cost-usd", &most, "--json"]);
    assert_eq!(
        (&spent["error"], service.seen().len()),
        (&json!("limit_reached"), requests),
        "{spent:#}"
    );
}

#[test]
fn a_team_that_the_user_ended_says_so() {
    let room = TestEnv::new();
    let running: Running = room.start_waiting();
    room.ok(&["shutdown"]);
    let (code, log) = running.ended();
    assert_eq!(code, Some(130), "{log}");
    assert!(log.contains("\nthe user ended the team\n") && !log.contains("error:"), "{log}");
}
