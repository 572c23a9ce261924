//! Subagents of the lead and of teammates, including subagents that run in the background or are
//! resumed.

use pitcrew_protocol::{AgentName, PermissionMode, SendMessageInput, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::Choice;
use pitcrew_runtime::run::{Asks, Begin, RunEnd, Runtime};
use pitcrew_team::Actor;
use tokio::sync::mpsc;

use crate::solo_env::{AGREES, dismiss, lead_lease, start, tell, until_it_is};
use crate::team_env::{TestRun, finish, until};

/// The steps of a teammate. It starts a subagent. Then it tries to start a teammate, and a subagent
/// in the background. Both attempts must be refused.
const SENDS_OUT: &str = r#"
    - tools: [{name: Task, input: {subagent_type: Explore, description: look, prompt: Look into secret.txt.}}]
    - tools: [{name: Task, input: {subagent_type: general-purpose, name: ann, description: help, prompt: Help me.}}]
    - tools: [{name: Task, input: {subagent_type: Explore, run_in_background: true, description: look, prompt: Look.}}]
    - text: I know.
"#;

const LOOKS: &str = r#"
  'bob/Explore#1':
    - tools: [{name: Read, input: {file_path: secret.txt}}]
    - tools: [{name: Task, input: {subagent_type: Explore, description: more, prompt: More.}}]
    - capture:
        word: {from: tool_result, regex: 'the word is (\w+)'}
      text: 'It is ${word}.'
"#;

fn check_teammate(results: &[String], teammates: &str) {
    assert!(results[0].starts_with("It is swordfish.\n\nagentId: bob/Explore#1"), "{results:?}");
    let refused = format!("<tool_use_error>{teammates} cannot spawn other teammates.");
    assert!(results[1].starts_with(&refused), "{results:?}");
    assert!(
        results[2].contains(&format!("{teammates} cannot spawn background agents.")),
        "{results:?}"
    );
    assert_eq!(results.len(), 3);
}

#[tokio::test]
async fn a_teammate_sends_out_subagents_and_spawns_no_teammates() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("secret.txt"), "the word is swordfish").unwrap();
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Task, input: {{name: bob, description: ask, prompt: Ask.}}}}]\n    \
         - text: Go.\n{LOOKS}  bob:{SENDS_OUT}{AGREES}"
    );
    let (options, model) = setting.overheard(&script);
    let ran = setting.run(options).await;
    ran.success();
    check_teammate(&ran.results_of("bob", "Task"), "In-process teammates");
    assert!(ran.results_of("bob/Explore#1", "Task")[0].contains("No such tool available: Task"));
    let tools = model.tools_of("bob");
    assert!(
        tools.contains(&"Task".to_owned()) && !tools.contains(&"TeamCreate".to_owned()),
        "{tools:?}"
    );
}

#[tokio::test]
async fn a_teammate_in_a_process_of_its_own_sends_out_subagents_too() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("secret.txt"), "the word is swordfish").unwrap();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    tell(&team, "bob", "Ask.").await;
    let mut handle =
        start(setting.alone(&format!("agents:\n{LOOKS}  bob:{SENDS_OUT}{AGREES}"))).await;
    let mut events = until_it_is(&mut handle, Status::Idle).await;
    dismiss(&team, "bob").await;
    let ran = finish(handle).await;
    assert!(matches!(ran.outcome.end, RunEnd::Success { .. }), "{:?}", ran.outcome);
    events.extend(ran.events);
    let results: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::ToolEnded(ended) if ended.agent.as_str() == "bob" && ended.tool == "Task" => {
                Some(ended.text.clone())
            }
            _ => None,
        })
        .collect();
    check_teammate(&results, "Teammates");
}

#[tokio::test]
async fn a_subagent_of_a_teammate_works_in_the_mode_of_the_teammate() {
    let setting = TestRun::new();
    let script = format!(
        r#"
agents:
  'bob/general-purpose#1':
    - tools: [{{name: Write, input: {{file_path: a.txt, content: x}}}}]
    - text: I tried too.
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, mode: default, description: ask, prompt: Ask.}}}}]
    - text: Go.
  bob:
    - tools: [{{name: Task, input: {{subagent_type: general-purpose, description: write, prompt: Write.}}}}]
    - text: I tried.
{AGREES}"#
    );
    let mut options = setting.options(&script);
    // The mode of the run (accept edits) permits more than the mode of `bob`.
    (options.agent_options.mode, options.agent_options.asks) =
        (PermissionMode::AcceptEdits, Asks::Deny);
    let ran = setting.run(options).await;
    let written = ran.results_of("bob/general-purpose#1", "Write");
    assert!(
        written[0].contains("Permission denied") || written[0].contains("nobody"),
        "{written:?}"
    );
    assert!(!setting.cwd.join("a.txt").exists());
    let started = ran.events.iter().find_map(|event| match event {
        RunEvent::AgentStarted(started) if started.agent.as_str() == "bob/general-purpose#1" => {
            Some(started.mode)
        }
        _ => None,
    });
    assert_eq!(started, Some(PermissionMode::Default));
}

#[tokio::test]
async fn a_lead_goes_on_while_a_subagent_works_in_the_background_and_is_told_of_its_end() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {subagent_type: Explore, run_in_background: true, description: look, prompt: Look.}}
        - {name: TaskList}
    - text: I wait.
    - wait_for: {contains: task_notification, from: message}
    - text: All is known.
  'Explore#1':
    - tools: [{name: Bash, input: {command: sleep 0.3}}]
    - text: I found <it>.
"#;
    let (options, model) = setting.overheard(script);
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "All is known.");
    let launched = &ran.results_of("team-lead", "Task")[0];
    assert!(
        launched.starts_with("Async agent launched successfully.\nagentId: Explore#1\n"),
        "{launched}"
    );
    let ended = |agent: &str, tool: &str| {
        let is_it = |event: &RunEvent| matches!(event, RunEvent::ToolEnded(ended) if ended.agent.as_str() == agent && ended.tool == tool);
        ran.events.iter().position(is_it).unwrap()
    };
    assert!(ended("team-lead", "TaskList") < ended("Explore#1", "Bash"), "the lead waited");
    let told = model.told_to("team-lead").join("\n");
    assert!(told.contains("<task_id>Explore#1</task_id>\n<status>completed</status>"), "{told}");
    assert!(told.contains("I found <it>."), "{told}");
    assert_eq!(told.matches("<task_notification>").count(), 1, "{told}");
}

#[tokio::test]
async fn a_subagent_in_the_background_is_stopped_by_its_id() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {subagent_type: Explore, run_in_background: true, description: look, prompt: Look.}}]
    - tools: [{name: TaskStop, input: {task_id: 'Explore#1'}}]
    - wait_for: {contains: '<status>killed</status>', from: message}
    - text: So be it.
  'Explore#1':
    - {delay_ms: 600000, text: Late.}
"#;
    let ran = setting.run(setting.options(script)).await;
    assert_eq!(ran.success(), "So be it.");
    assert_eq!(ran.results_of("team-lead", "TaskStop"), ["Stopped subagent Explore#1."]);
}

#[tokio::test]
async fn a_subagent_that_has_ended_goes_on_with_what_it_knows() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {subagent_type: Explore, description: look, prompt: Remember the word swordfish.}}]
    - tools:
        - {name: Task, input: {subagent_type: Explore, resume: 'Explore#1', description: again, prompt: Which word?}}
    - tools:
        - {name: Task, input: {subagent_type: Plan, resume: 'Explore#1', description: again, prompt: Which word?}}
        - {name: Task, input: {subagent_type: Explore, resume: 'Explore#7', description: again, prompt: Which word?}}
        - {name: Task, input: {subagent_type: Explore, resume: 'Explore#1', name: bob, description: again, prompt: Which?}}
        - {name: Task, input: {subagent_type: Explore, isolation: worktree, description: again, prompt: Which?}}
    - text: It knew.
  'Explore#1':
    - text: I do.
    - text: That word.
"#;
    let (options, model) = setting.overheard(script);
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "It knew.");
    let results = ran.results_of("team-lead", "Task");
    assert!(results[1].starts_with("That word.\n\nagentId: Explore#1"), "{results:?}");
    assert_eq!(model.told_to("Explore#1"), ["Remember the word swordfish.", "Which word?"]);
    assert!(
        results[2].contains("goes on as it was: give `subagent_type` \"Explore\""),
        "{results:?}"
    );
    assert!(
        results[3].contains("No subagent Explore#7 of yours")
            && results[3].contains("there are: Explore#1"),
        "{results:?}"
    );
    assert!(results[4].contains("leave out `name`"), "{results:?}");
    assert!(results[5].contains("`isolation` is for a teammate"), "{results:?}");
}

#[tokio::test]
async fn a_lead_that_goes_on_is_told_once_of_subagents_that_ended_with_the_run_before() {
    let setting = TestRun::in_files();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {subagent_type: Explore, run_in_background: true, description: look, prompt: Look.}}]
    - {delay_ms: 600000, text: Late.}
  'Explore#1':
    - {delay_ms: 600000, text: Late.}
"#;
    let mut handle = Runtime::start(setting.options(script)).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(_))).await;
    handle.stopper().stop();
    finish(handle).await;
    let goes_on = script.replace(
        "    - {delay_ms: 600000, text: Late.}\n  'Explore#1'",
        "    - text: I see.\n  'Explore#1'",
    );
    let (mut options, model) = setting.overheard(&goes_on);
    options.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    let ran = finish(Runtime::start(options).await.unwrap()).await;
    assert_eq!(ran.success(), "I see.");
    let told = model.told_to("team-lead").join("\n");
    assert_eq!(told.matches("<task_id>Explore#1</task_id>").count(), 1, "{told}");
    assert!(told.contains("ended with the run before"), "{told}");
}

#[tokio::test]
async fn the_end_of_a_teammate_is_the_end_of_its_subagents() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: ask, prompt: Ask.}}]
    - wait_for: {contains: I begin, from: message}
    - tools: [{name: TaskStop, input: {task_id: bob}}]
    - wait_for: {contains: bob was stopped, from: message}
    - text: Enough.
  bob:
    - tools: [{name: Task, input: {subagent_type: general-purpose, description: wait, prompt: Wait.}}]
  'bob/general-purpose#1':
    - tools: [{name: Bash, input: {command: 'touch begun', dangerouslyDisableSandbox: true}}]
    - {delay_ms: 600000, text: Late.}
"#;
    let mut options = setting.options(script);
    options.agent_options.asks = Asks::Allow;
    let mut handle = Runtime::start(options).await.unwrap();
    let begins = |event: &RunEvent| matches!(event, RunEvent::ToolEnded(ended) if ended.agent.as_str().starts_with("bob/"));
    until(&mut handle, begins).await;
    let from_outside = SendMessageInput::Message {
        recipient: "team-lead".to_owned(),
        content: "I begin".to_owned(),
        summary: Some("it begins".to_owned()),
    };
    setting.team().await.send(&Actor::User, from_outside, None).await.unwrap();
    let ran = finish(handle).await;
    assert_eq!(ran.success(), "Enough.");
    let subagent =
        ran.outcome.agents.iter().find(|agent| agent.name.as_str().starts_with("bob/")).unwrap();
    assert_eq!(subagent.state, Status::Killed);
}

#[tokio::test]
async fn a_teammate_that_has_to_plan_from_now_on_has_no_subagent_that_changes_anything() {
    let setting = TestRun::new();
    let script = format!(
        r#"
agents:
  'bob/general-purpose#1':
    - tools: [{{name: Bash, input: {{command: curl example.org}}}}]
    - tools: [{{name: Write, input: {{file_path: a.txt, content: x}}}}]
    - text: I tried.
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: ask, prompt: Ask.}}}}]
    - text: Go.
  bob:
    - tools: [{{name: Task, input: {{subagent_type: general-purpose, description: write, prompt: Write.}}}}]
    - text: Done.
{AGREES}"#
    );
    let (person, mut asks) = mpsc::channel(1);
    let mut options = setting.options(&script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::AcceptEdits);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::PermissionAsked { .. })).await;
    let ask = asks.recv().await.unwrap();
    let team = setting.team().await;
    team.set_mode(&Actor::User, &AgentName::new("bob").unwrap(), "plan").await.unwrap();
    until(&mut handle, |event| {
        matches!(event, RunEvent::ModeChanged { mode: PermissionMode::Plan, .. })
    })
    .await;
    ask.reply(Choice::No { reason: None });
    let ran = finish(handle).await;
    let written = ran.results_of("bob/general-purpose#1", "Write");
    assert!(written[0].contains("plan mode"), "{written:?}");
    assert!(!setting.cwd.join("a.txt").exists());
}
