//! Whole runs: a lead and its teammates, from the goal to the outcome.

use std::time::Duration;

use pitcrew_model::Usage;
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::{AgentName, Member, PermissionMode, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{Choice, Keep, Offer};
use pitcrew_runtime::run::{Asks, Begin, RunEnd, Runtime, Shortfall};
use pitcrew_team::Actor;
use serde_json::json;

use crate::git::git;
use crate::team_env::{TestRun, WAITER, finish, until};

/// The script of a lead with two teammates. One teammate makes a file and sends a message to the
/// other. The other teammate checks the file with a command that needs a permission.
const TWO_TEAMMATES: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: TeamCreate, input: {team_name: probe, description: greet}}
    - tools:
        - {name: TaskCreate, input: {subject: Greet, description: Write hello.txt}}
        - {name: TaskCreate, input: {subject: Check, description: Check hello.txt}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', addBlockedBy: ['1']}}
    - tools:
        - {name: Task, input: {name: checker, team_name: probe, subagent_type: general-purpose, description: Check, prompt: Do task 2.}}
        - {name: Task, input: {name: writer, team_name: probe, subagent_type: general-purpose, description: Greet, prompt: Do task 1.}}
    - wait_for: {contains: the file is right, from: message}
    - text: Done; good night.
      tools:
        - {name: SendMessage, input: {type: shutdown_request, recipient: writer}}
        - {name: SendMessage, input: {type: shutdown_request, recipient: checker}}
    - wait_for: {contains: teammate_terminated, from: message, times: 2}
    - tools:
        - {name: TeamDelete}
    - text: hello.txt is written and checked.
  writer:
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: in_progress}}
    - tools:
        - {name: Write, input: {file_path: hello.txt, content: "hello\n"}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: checker, content: hello.txt is there, summary: The file is there}}
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  checker:
    - wait_for: {contains: hello.txt is there}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', status: in_progress}}
    - tools:
        - {name: Bash, input: {command: "grep -c hello hello.txt > count.txt && cat count.txt"}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: team-lead, content: the file is right, summary: All well}}
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

#[tokio::test]
async fn a_lead_and_two_teammates_do_a_job_and_shut_down() {
    check_job(&TestRun::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_job_is_done_by_a_team_that_is_kept_in_files() {
    let setting = TestRun::in_files();
    check_job(&setting).await;
    assert_eq!(
        std::fs::read_dir(setting.root.join("teams")).unwrap().count(),
        0,
        "something of the team is left"
    );
}

async fn check_job(setting: &TestRun) {
    let mut options = setting.options(TWO_TEAMMATES);
    options.agent_options.asks = Asks::Allow;
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "hello.txt is written and checked.", "{:#?}", ran.results());
    assert!(ran.outcome.team_deleted);
    let states: Vec<_> =
        ran.outcome.agents.iter().map(|agent| (agent.name.to_string(), agent.state)).collect();
    let done = |name: &str| (name.to_owned(), Status::Completed);
    assert_eq!(states, [done("team-lead"), done("checker"), done("writer")]);
    assert_eq!(std::fs::read_to_string(setting.cwd.join("count.txt")).unwrap(), "1\n");
    assert!(setting.teams.list().await.unwrap().is_empty());
}

fn with_waiter(lead: &str) -> String {
    format!("agents:\n  team-lead:\n{lead}{WAITER}")
}

#[tokio::test]
async fn a_lead_alone_ends_with_its_last_word() {
    let setting = TestRun::new();
    let ran = setting.run(setting.options("agents: {team-lead: [{text: Nothing to do.}]}")).await;
    assert_eq!(ran.success(), "Nothing to do.");
    assert!(!ran.outcome.team_deleted);
}

#[tokio::test]
async fn a_lead_that_forgets_its_team_is_reminded_and_then_the_team_is_shut_down() {
    let setting = TestRun::new();
    let script = with_waiter(
        "    - tools: [{name: Task, input: {name: bob, description: wait, prompt: Wait.}}]\n    - text: That is all.\n",
    );
    let ran = setting.run(setting.options(&script)).await;
    ran.success();
    let told = ran.events.iter().any(
        |event| matches!(event, RunEvent::ShuttingDown { reason } if reason == "the work is done"),
    );
    assert!(told, "the team was not shut down by us");
    let config = setting.team().await.config().await.unwrap();
    assert_eq!(config.teammates().count(), 0);
}

#[tokio::test]
async fn a_headless_run_denies_what_would_ask_and_tells_the_model_why() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: Permission denied, from: message}
    - text: So be it.
  bob:
    - tools: [{name: Bash, input: {command: curl example.org}}]
    - capture:
        why: {from: tool_result, regex: '(Permission denied.*)'}
      tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: '${why}', summary: denied}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let ran = setting.run(setting.options(script)).await;
    ran.success();
    let answers = ran.results_of("bob", "Bash");
    assert_eq!(answers.len(), 1);
    assert!(
        answers[0].starts_with("Permission denied for Bash: this run asks nobody"),
        "{answers:?}"
    );
    assert!(
        answers[0].contains("; --allow 'Bash(curl example.org)' would have allowed it"),
        "{answers:?}"
    );
    let requests = setting.team().await.requests().await.unwrap();
    assert!(requests.values().all(|request| request.answer.is_some()));
}

#[tokio::test]
async fn a_person_can_allow_a_call_of_a_teammate() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch by-lead}}]
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - text: Let us see.
  bob:
    - tools: [{name: Bash, input: {command: touch by-bob}}]
    - tools: [{name: Bash, input: {command: touch by-bob by-bob-too}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let (person, mut asks) = tokio::sync::mpsc::channel(1);
    let mut options = setting.options(script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let answering = async {
        let mut asked = Vec::new();
        while let Some(ask) = asks.recv().await {
            asked.push(format!(
                "{} {}",
                ask.question.asker,
                ask.input["command"].as_str().unwrap()
            ));
            let touch = Offer::Rule("Bash(touch by-bob:*)".to_owned());
            ask.reply(match asked.len() {
                2 => Choice::Always { offer: touch, keep: Keep::Run },
                _ => Choice::Once,
            });
        }
        asked
    };
    let (ran, asked) = tokio::join!(setting.run(options), answering);
    ran.success();
    assert_eq!(asked, ["team-lead touch by-lead", "bob touch by-bob"]);
    for file in ["by-lead", "by-bob", "by-bob-too"] {
        assert!(setting.cwd.join(file).exists(), "{file}: {:#?}", ran.results());
    }
}

#[tokio::test]
async fn a_subagent_does_one_job_and_its_last_word_is_the_result() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("secret.txt"), "42").unwrap();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Agent, input: {subagent_type: Explore, description: look, prompt: Look into secret.txt.}}]
    - text: I see.
  'Explore#1':
    - tools: [{name: Read, input: {file_path: secret.txt}}, {name: Task, input: {description: x, prompt: y}}]
    - text: It says 42.
"#;
    let ran = setting.run(setting.options(script)).await;
    ran.success();
    assert_eq!(
        ran.results_of("team-lead", "Agent"),
        ["It says 42.\n\nagentId: Explore#1 (give it as `resume` to go on with this agent)"]
    );
    assert!(ran.results_of("Explore#1", "Task")[0].contains("No such tool available: Task"));
    let works_for = |event: &RunEvent| match event {
        RunEvent::ToolEnded(ended) if ended.agent.as_str() == "Explore#1" => {
            ended.parent_call.clone()
        }
        _ => None,
    };
    assert_eq!(
        ran.events.iter().find_map(works_for).as_deref(),
        Some("toolu_script_team-lead_0_0")
    );
}

#[tokio::test]
async fn a_run_ends_in_order_when_it_has_used_its_turns_or_its_money() {
    let setting = TestRun::new();
    let script = with_waiter(
        "    - repeat: {until: {contains: never}, at_most: 1000, turns: [{tools: [{name: TaskList}]}]}\n",
    );
    let mut options = setting.options(&script);
    options.agent_options.limits.max_turns = Some(7);
    let ran = setting.run(options).await;
    let RunEnd::LimitReached { reason, .. } = &ran.outcome.end else { panic!("{:?}", ran.outcome) };
    assert_eq!(reason, "team-lead has used all of its 7 turns");
    assert_eq!(ran.outcome.agents[0].turns, 7);

    let usage = Usage { input_tokens: 1_000_000, output_tokens: 500_000, ..Usage::default() };
    let (mut options, _) = setting.with_usage(&script, usage);
    options
        .agent_options
        .prices
        .override_with(&json!({"script:test.yaml": {"input": 1.0, "output": 2.0}}))
        .unwrap();
    options.agent_options.limits.max_cost_usd = Some(5.0);
    let ran = setting.run(options).await;
    let RunEnd::LimitReached { reason, .. } = &ran.outcome.end else { panic!("{:?}", ran.outcome) };
    assert_eq!(reason, "the team has reached its cost limit of $5.00");
    // Each answer costs two dollars, so the third answer exceeds the limit of five dollars. The
    // scripted model may give more answers before the limit takes effect.
    assert!((6.0..2000.0).contains(&ran.outcome.cost_usd()), "{:?}", ran.outcome);
    assert!(ran.outcome.totals.unpriced().next().is_none(), "{:?}", ran.outcome);
}

#[tokio::test]
async fn more_teammates_than_the_run_may_have_are_refused() {
    let setting = TestRun::new();
    let script = with_waiter(
        "    - tools:\n        - {name: Task, input: {name: a, description: w, prompt: w}}\n        - {name: Task, input: {name: b, description: w, prompt: w}}\n",
    );
    let mut options = setting.options(&script);
    options.agent_options.limits.max_teammates = Some(1);
    let ran = setting.run(options).await;
    let answers = ran.results_of("team-lead", "Task");
    assert!(answers[0].starts_with("Spawned successfully."), "{answers:?}");
    assert!(
        answers[1].contains("The team has 1 teammate, as many as this run may have"),
        "{answers:?}"
    );
}

#[tokio::test]
async fn the_lead_can_stop_a_teammate_and_its_tasks_return_to_the_pool() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Sleep, description: Sleep long}}]
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: I begin, from: message}
    - tools: [{name: TaskStop, input: {task_id: bob}}]
    - wait_for: {contains: 'Back in the pool, without an owner: #1', from: message}
    - text: Enough.
    - text: Enough of it.
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I begin, summary: begin}}]
    - tools: [{name: Bash, input: {command: sleep 1000}}]
"#;
    let mut options = setting.options(script);
    options.agent_options.asks = Asks::Allow;
    let ran = setting.run(options).await;
    assert_eq!(ran.unfinished(Shortfall::Stalled), "Enough of it.");
    assert_eq!(ran.outcome.agents[1].state, Status::Killed);
    let task = setting.team().await.task("1").await.unwrap();
    assert_eq!((task.owner, task.status), (None, pitcrew_protocol::TaskStatus::Pending));
}

#[tokio::test]
async fn a_hook_keeps_a_teammate_from_going_idle() {
    let setting = TestRun::new();
    let script =
        with_waiter("    - tools: [{name: Task, input: {name: bob, description: w, prompt: w}}]\n");
    let mut options = setting.options(&script);
    let command = "test -e once || { touch once; echo 'look again' >&2; exit 2; }";
    let hooks =
        json!({"hooks": {"TeammateIdle": [{"hooks": [{"type": "command", "command": command}]}]}});
    options.agent_options.settings = Settings::merge(vec![(Layer::Project, hooks)]).unwrap();
    let ran = setting.run(options).await;
    ran.success();
    assert!(setting.cwd.join("once").exists());
    let said = ran.events.iter().filter(
        |event| matches!(event, RunEvent::Answered(answered) if answered.agent.as_str() == "bob"),
    );
    assert!(said.count() >= 3, "the hook did not keep bob going");
}

#[tokio::test]
async fn without_team_tools_there_are_plain_tools_and_subagents() {
    let setting = TestRun::new();
    let mut options = setting.options("agents: {team-lead: [{text: Alone.}]}");
    options.agent_options.settings =
        Settings::merge(vec![(Layer::User, json!({"pitcrew": {"teams": false}}))]).unwrap();
    let ran = setting.run(options).await;
    let RunEvent::Started(started) = &ran.events[0] else { panic!("{:?}", ran.events[0]) };
    // `ExitPlanMode` is not in the list of tools, because it is offered only in plan mode.
    assert_eq!(
        started.tools,
        ["Task", "TaskStop", "Bash", "Read", "Write", "Edit", "Glob", "Grep"]
    );
}

#[tokio::test]
async fn a_second_team_create_is_the_recorded_error() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: TeamCreate, input: {team_name: mine}}, {name: TeamCreate, input: {team_name: more}}]
    - text: One is enough.
"#;
    let ran = setting.run(setting.options(script)).await;
    let answers = ran.results_of("team-lead", "TeamCreate");
    assert!(answers[0].contains("\"team_name\": \"probe\""), "{answers:?}");
    assert_eq!(answers[1], "Already leading team \"probe\". Use TeamDelete first.");
}

#[tokio::test]
async fn a_failing_lead_ends_the_run_with_its_reason() {
    let setting = TestRun::new();
    let ran = setting.run(setting.options("agents: {nobody: [{text: x}]}")).await;
    let RunEnd::Failed { reason } = &ran.outcome.end else { panic!("{:?}", ran.outcome) };
    assert!(
        reason.starts_with("the lead cannot go on") || reason.contains("team-lead"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_member_that_is_removed_from_outside_ends() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: was stopped, from: message}
    - text: Gone.
  bob:
    - tools: [{name: Bash, input: {command: sleep 1000}}]
"#;
    let mut options = setting.options(script);
    options.agent_options.asks = Asks::Allow;
    let mut handle = Runtime::start(options).await.unwrap();
    until(
        &mut handle,
        |event| matches!(event, RunEvent::ToolStarted { agent, .. } if agent.as_str() == "bob"),
    )
    .await;
    let team = setting.team().await;
    team.remove_member(&Actor::User, &AgentName::new("bob").unwrap()).await.unwrap();
    let ran = finish(handle).await;
    ran.success();
    assert!(
        team.config()
            .await
            .unwrap()
            .teammates()
            .map(|member: &Member| &member.name)
            .next()
            .is_none()
    );
}

#[tokio::test]
async fn a_teammate_in_a_worktree_works_apart_and_its_work_is_kept_or_cleared_away() {
    let setting = TestRun::in_files();
    std::fs::write(setting.cwd.join("base.txt"), "base").unwrap();
    git(&setting.cwd, &["init", "-q"]);
    git(&setting.cwd, &["add", "."]);
    git(&setting.cwd, &["commit", "-qm", "base"]);
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: clean, description: look, prompt: Look., isolation: worktree}}
        - {name: Task, input: {name: busy, description: work, prompt: Work., isolation: worktree}}
    - text: Let us see.
  clean:
    - tools: [{name: Read, input: {file_path: base.txt}}]
    - wait_for: {contains: shutdown_request}
    - &leave
      capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  busy:
    - tools: [{name: Write, input: {file_path: new.txt, content: new}}]
    - wait_for: {contains: shutdown_request}
    - *leave
"#;
    let ran = setting.run(setting.options(script)).await;
    ran.success();
    assert!(!setting.cwd.join("new.txt").exists());
    let kept: Vec<_> =
        ran.outcome.kept.iter().map(|kept| (kept.agent.as_str(), kept.reason.as_str())).collect();
    assert_eq!(kept, [("busy", "1 file is changed or new and not committed")]);
    assert_eq!(std::fs::read_to_string(ran.outcome.kept[0].path.join("new.txt")).unwrap(), "new");
    assert!(!setting.root.join("pitcrew/worktrees/probe/clean").exists());
}

#[tokio::test]
async fn a_stopped_run_waits_for_no_answer_of_the_leads_model_and_goes_on_from_there() {
    let setting = TestRun::new();
    let script = |delay_ms: u64| {
        with_waiter(&format!(
            "    - tools: [{{name: Task, input: {{name: waiter, description: wait, prompt: Wait.}}}}]\n    - delay_ms: {delay_ms}\n      text: That took long.\n"
        ))
    };
    let mut options = setting.options(&script(600_000));
    options.agent_options.shutdown_grace = Duration::from_secs(600);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| {
        matches!(event, RunEvent::AgentChanged { agent, status: Status::Idle, .. } if agent.as_str() == "waiter")
    })
    .await;
    handle.stopper().stop();
    let ran = finish(handle).await;
    assert_eq!(ran.outcome.end, RunEnd::Interrupted);
    assert_eq!(
        setting.team().await.config().await.unwrap().teammates().count(),
        1,
        "the teammate stays"
    );

    let mut again = setting.options(&script(0));
    again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    let ran = setting.run(again).await;
    ran.success();
    let says = |event: &RunEvent| matches!(event, RunEvent::Answered(said) if format!("{:?}", said.blocks).contains("That took long."));
    assert!(ran.events.iter().any(says), "{:#?}", ran.events);

    // A lead without teammates has nobody to wait for. So it stops at once and does not use the
    // shutdown grace (the time limit for a shutdown).
    let alone = TestRun::new();
    let mut options = alone.options(
        "agents: {team-lead: [{tools: [{name: TaskList}]}, {delay_ms: 600000, text: Late.}]}",
    );
    options.agent_options.shutdown_grace = Duration::from_secs(600);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(_))).await;
    handle.stopper().stop();
    assert_eq!(finish(handle).await.outcome.end, RunEnd::Interrupted);
}

#[tokio::test]
async fn the_turns_that_a_teammate_was_spawned_with_hold_when_it_is_resumed() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: look, prompt: Look., max_turns: 3}}]
    - wait_for: {contains: has used all of its 3 turns, from: message}
    - text: Bob has no more.
  bob:
    - tools: [{name: Bash, input: {command: test -e wake-up || sleep 1000}}]
    - repeat: {at_most: 1000, turns: [{tools: [{name: TaskList}]}]}
"#;
    let mut options = setting.options(script);
    (options.agent_options.asks, options.agent_options.shutdown_grace) =
        (Asks::Allow, Duration::from_millis(300));
    let mut handle = Runtime::start(options).await.unwrap();
    until(
        &mut handle,
        |event| matches!(event, RunEvent::ToolStarted { agent, .. } if agent.as_str() == "bob"),
    )
    .await;
    handle.stopper().stop();
    finish(handle).await;
    std::fs::write(setting.cwd.join("wake-up"), "").unwrap();
    let mut again = setting.options(script);
    again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    (again.agent_options.asks, again.agent_options.shutdown_grace) =
        (Asks::Allow, Duration::from_millis(300));
    let ran = setting.run(again).await;
    ran.success();
    // `bob` is allowed three turns. The interrupted call used one turn, and its repetition used
    // another. So only one turn is left for `TaskList`.
    assert_eq!(ran.results_of("bob", "TaskList").len(), 1);
}
