//! Failures in a run: tool calls that are impossible, models that fail, and agents that exceed
//! their limits.

use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::{Model, Request, ResponseStream};
use pitcrew_protocol::{SendMessageInput, Status, TaskStatus};
use pitcrew_runtime::control_socket::{ControlRequest, control_request};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Asks, Begin, RunEnd, Runtime, Shortfall};
use pitcrew_team::Actor;

use crate::patience::in_time;
use crate::team_env::{TestRun, WAITER, finish, until};

#[tokio::test]
async fn a_teammate_has_only_the_tools_of_its_type_whatever_it_calls() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("a.txt"), "a").unwrap();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: scout, subagent_type: Explore, description: look, prompt: Look.}}]
    - text: Go.
  scout:
    - tools: [{name: Read, input: {file_path: a.txt}}]
    - tools:
        - {name: Write, input: {file_path: b.txt, content: x}}
        - {name: Edit, input: {file_path: a.txt, old_string: a, new_string: b}}
        - {name: Task, input: {name: more, description: x, prompt: x}}
        - {name: TeamDelete}
    - wait_for: {contains: shutdown_request}
      text: I tried.
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let mut options = setting.options(script);
    options.agent_options.asks = Asks::Allow;
    let ran = setting.run(options).await;
    ran.success();
    for tool in ["Write", "Edit", "Task", "TeamDelete"] {
        let answers = ran.results_of("scout", tool);
        assert!(answers[0].contains(&format!("No such tool available: {tool}")), "{answers:?}");
    }
    let asked = |event: &&RunEvent| matches!(event, RunEvent::PermissionAsked { .. });
    assert_eq!(
        ran.events.iter().filter(asked).count(),
        0,
        "somebody was asked about a tool that is not there"
    );
    assert_eq!(std::fs::read_dir(&setting.cwd).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(setting.cwd.join("a.txt")).unwrap(), "a");
}

#[tokio::test]
async fn a_call_that_makes_no_sense_is_answered_and_the_agent_goes_on() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Frobnicate, input: {much: true}}
        - {name: Glob, input: {patern: '*'}}
        - {name: TaskUpdate, input: {taskId: 7, status: finished}}
        - {name: SendMessage, input: {type: message}}
    - text: I see.
"#;
    let ran = setting.run(setting.options(script)).await;
    assert_eq!(ran.success(), "I see.");
    assert!(
        ran.results_of("team-lead", "Frobnicate")[0]
            .contains("No such tool available: Frobnicate. There are: ")
    );
    for tool in ["Glob", "TaskUpdate", "SendMessage"] {
        let answers = ran.results_of("team-lead", tool);
        assert!(answers[0].contains("InputValidationError"), "{answers:?}");
    }
}

/// The script of a teammate whose model fails permanently in the middle of the task.
const FAILING: &str = r#"
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress, owner: bob}}]
    - capture: {missing: {regex: this was never said}}
      text: '${missing}'
"#;

#[tokio::test]
async fn the_lead_hears_of_a_teammate_whose_model_fails_and_its_task_returns_to_the_pool() {
    let setting = TestRun::new();
    let script = format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: TaskCreate, input: {{subject: Sleep, description: Sleep long}}}}]
    - tools: [{{name: Task, input: {{name: bob, description: work, prompt: Work.}}}}]
    - wait_for: {{contains: 'bob has failed. Back in the pool, without an owner: #1', from: message}}
    - wait_for: {{contains: '<status>failed</status>', from: message}}
    - text: Poor bob.
    - text: Nobody does it.
{FAILING}"#
    );
    let (options, model) = setting.overheard(&script);
    let ran = setting.run(options).await;
    assert_eq!(ran.unfinished(Shortfall::Stalled), "Nobody does it.");
    let bob = &ran.outcome.agents[1];
    assert_eq!(bob.state, Status::Failed);
    assert!(bob.reason.as_deref().is_some_and(|reason| reason.contains("missing")), "{bob:?}");
    let told = model.told_to("team-lead").join("\n");
    // The notice of the failure gives the reason and the teammate's last texts. The later notice,
    // that the teammate has left the team, does not repeat the reason.
    assert!(told.contains("Teammate \"bob\" failed: "), "{told}");
    assert_eq!(told.matches("<status>failed</status>").count(), 1, "{told}");
    let team = setting.team().await;
    let task = team.task("1").await.unwrap();
    assert_eq!((task.owner, task.status), (None, TaskStatus::Pending));
    assert_eq!(team.config().await.unwrap().teammates().count(), 0);
}

/// A model with a bug: it panics when a teammate calls the model for the second time.
struct Buggy(Arc<dyn Model>);

impl Model for Buggy {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn context_window(&self) -> Option<u64> {
        self.0.context_window()
    }

    fn respond(&self, request: Request) -> ResponseStream {
        assert!(
            request.agent.name == "team-lead" || request.messages.len() < 2,
            "the second call is too much"
        );
        self.0.respond(request)
    }
}

#[tokio::test]
async fn a_teammate_that_a_bug_ends_is_reported_as_failed_and_its_task_returns_to_the_pool() {
    let setting = TestRun::new();
    let mut options = setting.options(
        r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Sleep, description: Sleep long}}]
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: 'bob has failed. Back in the pool, without an owner: #1', from: message}
    - text: Poor bob.
    - text: Nobody does it.
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress, owner: bob}}]
    - text: I was never asked for this.
"#,
    );
    let open = options.agent_options.open_model.clone();
    options.agent_options.open_model =
        Arc::new(move |name| Ok(Arc::new(Buggy(open(name)?)) as Arc<dyn Model>));
    let ran = setting.run(options).await;
    assert_eq!(ran.unfinished(Shortfall::Stalled), "Nobody does it.");
    let bob = ran.outcome.agents.iter().find(|agent| agent.name.as_str() == "bob").unwrap();
    assert_eq!(bob.state, Status::Failed);
    let reason = bob.reason.as_deref().unwrap();
    assert!(
        reason.starts_with("a bug in pitcrew ended it: the second call is too much"),
        "{reason}"
    );
    let team = setting.team().await;
    let task = team.task("1").await.unwrap();
    assert_eq!((task.owner, task.status), (None, TaskStatus::Pending));
    assert_eq!(team.config().await.unwrap().teammates().count(), 0);
}

#[tokio::test]
async fn a_lead_whose_model_fails_ends_the_run_and_the_team_can_go_on_later() {
    let setting = TestRun::new();
    let lead = |then: &str| {
        format!(
            "agents:\n  team-lead:\n    - tools: [{{name: Task, input: {{name: bob, description: w, prompt: w}}}}]\n    - \
             {then}\n{WAITER}"
        )
    };
    let ran = setting
        .run(setting.options(&lead("{capture: {x: {regex: never said}}, text: '${x}'}")))
        .await;
    let RunEnd::Failed { reason } = &ran.outcome.end else { panic!("{:?}", ran.outcome) };
    assert!(reason.contains("team-lead"), "{reason}");
    let members = setting.team().await.config().await.unwrap();
    assert_eq!(members.teammates().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["bob"]);

    let mut again = setting.options(&lead("text: Better now."));
    again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
    setting.run(again).await.success();
    assert_eq!(setting.team().await.config().await.unwrap().teammates().count(), 0);
}

#[tokio::test]
async fn who_does_not_shut_down_in_time_is_told() {
    let deaf = "  bob:\n    - wait_for: {contains: what never comes}\n";
    let polite = WAITER.replace("default:", "bob:");
    let hour = Duration::from_secs(3600);
    let moment = Duration::from_millis(1);
    for (bob, grace, wait_seconds, late) in [
        (deaf, moment, None, &["bob did not shut down in time"][..]),
        (&polite, hour, None, &[]),
        // The request to end the team sets a time limit of 3600 s. This limit replaces the shutdown
        // grace (the usual time limit for a shutdown) of 1 ms, so `bob` has enough time.
        (&polite, moment, Some(3600), &[]),
    ] {
        let setting = TestRun::in_files();
        let spawns = "- tools: [{name: Task, input: {name: bob, description: w, prompt: w}}]";
        let script = format!(
            "agents:\n  team-lead:\n    {spawns}\n    - wait_for: {{contains: what never comes}}\n{bob}"
        );
        let mut options = setting.options(&script);
        options.agent_options.shutdown_grace = grace;
        let mut handle = Runtime::start(options).await.unwrap();
        let is_idle = |event: &RunEvent| match event {
            RunEvent::AgentChanged { agent, status, .. } => {
                agent.as_str() == "bob" && *status == Status::Idle
            }
            _ => false,
        };
        until(&mut handle, is_idle).await;
        control_request(
            &setting.root.join("teams/probe/pitcrew"),
            &ControlRequest::EndTeam { wait_seconds },
        )
        .await
        .unwrap();
        let ran = finish(handle).await;
        let told = ran.events.iter().filter_map(|event| match event {
            RunEvent::Warning { text } => {
                Some(text.as_str()).filter(|text| text.contains("bob did not"))
            }
            _ => None,
        });
        let mut told: Vec<&str> = told.collect();
        // The run waits for the shutdown grace more than once: for the teammate, after the teammate
        // is killed, and for the lead. The shutdown grace is only 1 ms here. So the same warning
        // may come several times, and `dedup` keeps one of them.
        told.dedup();
        assert_eq!(told, late);
    }
}

#[tokio::test]
async fn mail_that_was_delivered_and_is_marked_late_does_not_keep_a_run_from_its_end() {
    let setting = TestRun::in_files();
    let script = format!(
        "agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: w, prompt: w}}}}]
    - wait_for: {{contains: go on now, from: message}}
    - text: Done.
{WAITER}"
    );
    let mut handle = Runtime::start(setting.options(&script)).await.unwrap();
    let idle = |who: &'static str| {
        move |event: &RunEvent| match event {
            RunEvent::AgentChanged { agent, status, .. } => {
                agent.as_str() == who && *status == Status::Idle
            }
            _ => false,
        }
    };
    let team = setting.team_elsewhere().await;
    let say = async |recipient: &str, content: &str| {
        let (recipient, content) = (recipient.to_owned(), content.to_owned());
        let input = SendMessageInput::Message { recipient, content, summary: None };
        team.send(&Actor::User, input, None).await.unwrap();
    };
    until(&mut handle, idle("bob")).await;
    say("bob", "hello").await;
    until(&mut handle, idle("bob")).await;
    // A crash can happen after a message is delivered and before it is marked as read. The test
    // imitates such a crash: it marks a delivered message as unread. At the same time, another
    // client holds the lock of the inbox.
    let inboxes = setting.root.join("teams/probe/inboxes");
    let (inbox, held, new) =
        (inboxes.join("bob.json"), inboxes.join("bob.json.lock"), setting.root.join("by-hand"));
    std::fs::create_dir(&held).unwrap();
    let text = std::fs::read_to_string(&inbox).unwrap();
    assert_eq!(text.matches("\"read\": true").count(), 1, "{text}");
    std::fs::write(&new, text.replace("\"read\": true", "\"read\": false")).unwrap();
    std::fs::rename(new, inbox).unwrap();
    say("team-lead", "go on now").await;
    until(&mut handle, idle("team-lead")).await;
    std::fs::remove_dir(&held).unwrap();
    in_time("the run ends", finish(handle)).await.success();
}
