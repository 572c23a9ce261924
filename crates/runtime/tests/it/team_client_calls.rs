//! The model calls of a teammate that another client runs. Pitcrew reads these calls from the
//! client's own conversation file, and applies pitcrew's limits to them.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use pitcrew_agent::Role;
use pitcrew_protocol::{AgentName, Program, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::hosting::LaunchStage;
use pitcrew_runtime::run::{AgentSummary, Limit, RunEnd, RunHandle, RunOptions, Runtime};
use rustix::process::Signal;
use serde_json::json;

use crate::panes_process::ProcessPanes;
use crate::team_elsewhere::{LOSING, ONE, Played, hosting, resumed, stages};
use crate::team_env::{Ran, TestRun, finish, until};

fn bob() -> AgentName {
    AgentName::new("bob").unwrap()
}

/// How an answer of the model ends: with a tool call (`Calls`), or with the end of the turn
/// (`Ends`).
#[derive(Clone, Copy)]
enum Answer {
    Calls,
    Ends,
}

/// Appends mail to the conversation file of bob's client.
async fn is_told(setting: &TestRun, text: &str) {
    let team = setting.team().await;
    let conversation = team.client_conversation(&bob()).await.unwrap().unwrap().id;
    let folder = setting.root.join("projects/-work");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{conversation}.jsonl"));
    let mail = format!("<teammate-message teammate_id=\"team-lead\">\n{text}\n</teammate-message>");
    let line = json!({
        "type": "user", "uuid": text, "sessionId": conversation,
        "message": {"role": "user", "content": mail},
    });
    let mut file = fs::File::options().create(true).append(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Appends an answer of the model to the conversation file of bob's client. With `subagent`,
/// appends it to the file of this subagent instead.
async fn answers(setting: &TestRun, subagent: Option<&str>, id: &str, answer: Answer) {
    let team = setting.team().await;
    let conversation = team.client_conversation(&bob()).await.unwrap().unwrap().id;
    let folder = setting.root.join("projects/-work");
    let file = match subagent {
        None => folder.join(format!("{conversation}.jsonl")),
        Some(subagent) => folder.join(format!("{conversation}/subagents/agent-{subagent}.jsonl")),
    };
    let (block, stop_reason) = match answer {
        Answer::Calls => {
            (json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}}), "tool_use")
        }
        Answer::Ends => (json!({"type": "text", "text": "done"}), "end_turn"),
    };
    let line = json!({
        "type": "assistant", "uuid": id, "sessionId": conversation, "message": {
            "id": id, "type": "message", "model": "claude-sonnet-4-5-20250929", "content": [block],
            "stop_reason": stop_reason, "usage": {"input_tokens": 1_000_000, "output_tokens": 100_000},
        },
    });
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut file = fs::File::options().create(true).append(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Starts a run with another client as teammate. The client has read its prompt and is in a turn.
async fn at_work(setting: &TestRun, options: RunOptions) -> (RunHandle, Played) {
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    let bob = Played::bob(setting).await;
    bob.mail().await;
    bob.is_active(true).await;
    (handle, bob)
}

fn with_client(setting: &TestRun, panes: &ProcessPanes, script: &str) -> RunOptions {
    let mut options = setting.options(script);
    options.hosting = hosting(panes, Program::Claude, &["sleep", "1000"]).0;
    options
}

fn of(ran: &Ran, name: &str) -> AgentSummary {
    ran.outcome.agents.iter().find(|agent| agent.name.as_str() == name).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_used_all_its_turns_ends_the_run_and_no_call_is_counted_twice() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = with_client(&setting, &panes, ONE);
    options.agent_options.limits.max_turns = Some(3);
    let (handle, _) = at_work(&setting, options).await;
    for id in ["m1", "m2", "m3"] {
        answers(&setting, None, id, Answer::Calls).await;
    }
    let process = panes.processes()[0];
    let ran = finish(handle).await;
    let RunEnd::LimitReached { limit: Limit::Turns, reason, .. } = &ran.outcome.end else {
        panic!("{:?}", ran.outcome)
    };
    assert_eq!(reason, "bob has used all of its 3 turns");
    let client = of(&ran, "bob");
    let counted = (client.turns, client.tool_calls, client.usage.output_tokens, client.is_counted);
    assert_eq!(
        (counted, client.model.as_str()),
        ((3, 3, 300_000, true), "claude-sonnet-4-5-20250929")
    );
    assert!((client.cost_usd - 13.5).abs() < 1e-6, "{}", client.cost_usd);
    assert!(!process.is_alive());

    let mut options = resumed(&setting, &panes);
    options.agent_options.limits.max_turns = Some(50);
    let (handle, played) = at_work(&setting, options).await;
    // The test wrote the client's conversation file, and this file does not contain the prompt. So
    // pitcrew delivers the prompt again.
    assert_eq!(played.mail().await.message.text, "Do task 1.");
    answers(&setting, None, "m4", Answer::Ends).await;
    answers(&setting, Some("a1"), "s1", Answer::Ends).await;
    played.is_done().await;
    played.is_active(false).await;
    played.says_goodbye().await;
    let _either = panes.processes()[0].signal(Signal::TERM).unwrap();
    let ran = finish(handle).await;
    assert_eq!(ran.success(), "All is done.");
    assert_eq!(of(&ran, "bob").turns, 4, "the calls of both runs");
    let subagent = of(&ran, "bob#a1");
    assert_eq!(
        (subagent.turns, subagent.role, subagent.state),
        (1, Role::Subagent, Status::Completed)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_end_its_work_with_the_last_of_its_turns() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = with_client(&setting, &panes, ONE);
    options.agent_options.limits.max_turns = Some(8);
    let (handle, bob) = at_work(&setting, options).await;
    for id in ["m1", "m2", "m3", "m4", "m5", "m6", "m7"] {
        answers(&setting, None, id, Answer::Calls).await;
    }
    answers(&setting, None, "m8", Answer::Ends).await;
    bob.is_done().await;
    bob.is_active(false).await;
    bob.says_goodbye().await;
    let _either = panes.processes()[0].signal(Signal::TERM).unwrap();
    let ran = finish(handle).await;
    assert_eq!(ran.success(), "All is done.");
    assert_eq!(of(&ran, "bob").turns, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_and_its_subagents_cost_ends_the_run() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = with_client(&setting, &panes, ONE);
    options.agent_options.limits.max_cost_usd = Some(8.0);
    let (handle, _) = at_work(&setting, options).await;
    answers(&setting, None, "m1", Answer::Calls).await;
    answers(&setting, Some("a1"), "s1", Answer::Calls).await;
    let ran = finish(handle).await;
    let RunEnd::LimitReached { limit: Limit::Cost, .. } = &ran.outcome.end else {
        panic!("{:?}", ran.outcome)
    };
    assert!((ran.outcome.totals.models["claude-sonnet-4-5-20250929"].cost_usd - 9.0).abs() < 1e-6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_turns_of_its_own_ends_when_it_has_used_them_and_the_run_goes_on() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let script = LOSING.replace("prompt: Do task 1.}", "prompt: Do task 1., max_turns: 2}");
    let (handle, _) = at_work(&setting, with_client(&setting, &panes, &script)).await;
    answers(&setting, None, "m1", Answer::Calls).await;
    answers(&setting, None, "m2", Answer::Calls).await;
    let ran = finish(handle).await;
    assert!(matches!(ran.outcome.end, RunEnd::Unfinished { .. }), "{:?}", ran.outcome.end);
    let client = of(&ran, "bob");
    assert_eq!(client.reason.as_deref(), Some("it has used all of its 2 turns"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_client_without_a_conversation_nothing_is_counted_and_the_limits_say_so() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = with_client(&setting, &panes, ONE);
    (options.agent_options.limits.max_turns, options.agent_options.limits.max_cost_usd) =
        (Some(20), Some(9.0));
    let (mut handle, bob) = at_work(&setting, options).await;
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Working]).await;
    bob.is_active(false).await;
    let warns = |event: &RunEvent| matches!(event, RunEvent::Warning { text } if text.contains("do not bound it"));
    let seen = until(&mut handle, warns).await;
    let RunEvent::Warning { text } = seen.last().unwrap() else { panic!() };
    assert!(
        text.contains("the model calls of bob are not known")
            && text.contains("--max-turns and --max-cost-usd")
    );
    bob.is_done().await;
    bob.says_goodbye().await;
    let _either = panes.processes()[0].signal(Signal::TERM).unwrap();
    let ran = finish(handle).await;
    assert_eq!(ran.success(), "All is done.");
    assert!(!of(&ran, "bob").is_counted);
}

/// Version 2.1.39 begins the next turn with the mail that came in a turn, and then records the end of
/// the earlier turn. The config says during the whole next turn that there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_only_the_conversation_shows_keeps_its_client_at_work() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let options = with_client(&setting, &panes, ONE);
    let (mut handle, bob) = at_work(&setting, options).await;
    let is_idle = |event: &RunEvent| matches!(event, RunEvent::AgentChanged { agent, status: Status::Idle, .. } if agent.as_str() == "bob");
    is_told(&setting, "Do task 1.").await;
    answers(&setting, None, "m1", Answer::Ends).await;
    is_told(&setting, "And this.").await;
    bob.is_done().await;
    bob.is_active(false).await;
    bob.is_idle().await;
    let early = tokio::time::timeout(Duration::from_secs(5), until(&mut handle, is_idle)).await;
    assert!(early.is_err(), "it works, and its turn is not over");
    answers(&setting, None, "m2", Answer::Ends).await;
    until(&mut handle, is_idle).await;
    bob.is_idle().await;
    bob.says_goodbye().await;
    let _either = panes.processes()[0].signal(Signal::TERM).unwrap();
    assert_eq!(finish(handle).await.success(), "All is done.");
}
