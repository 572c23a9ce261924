//! Tests in real runs what pitcrew's design documents promise about tools and agents.

use std::sync::Arc;

use pitcrew_model::ModelError;
use pitcrew_protocol::{AgentName, Frame, PermissionMode};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Asks, Runtime};

use crate::git::git;
use crate::team_env::{TestRun, WAITER, finish, until};

/// The script of two teammates, `ann` and `bob`. `ann` makes the calls in `tools`, which send
/// messages to `bob`. Then `ann` waits for a shutdown request.
fn ann_writes(tools: &str) -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools:
        - {{name: Task, input: {{name: bob, description: wait, prompt: Wait.}}}}
        - {{name: Task, input: {{name: ann, description: write, prompt: Write.}}}}
    - text: Go.
  ann:
    - tools: [{tools}]
    - text: I wrote.
    - wait_for: {{contains: shutdown_request}}
    - capture:
        request: {{regex: '"requestId":\s*"([^"]+)"'}}
      tools:
        - {{name: SendMessage, input: {{type: shutdown_response, request_id: '${{request}}', approve: true}}}}
{WAITER}"#
    )
}

/// Runs `ann` with the calls in `tools`. Returns the summaries of the idle notices that `ann` sent
/// to the lead.
async fn idle_summaries(tools: &str) -> Vec<Option<String>> {
    let setting = TestRun::in_files();
    let mut handle = Runtime::start(setting.options(&ann_writes(tools))).await.unwrap();
    let is_idle = |event: &RunEvent| {
        let RunEvent::AgentChanged { agent, status, .. } = event else { return false };
        agent.as_str() == "ann" && *status == pitcrew_protocol::Status::Idle
    };
    until(&mut handle, is_idle).await;
    let mail = setting.team().await.mail(&AgentName::lead()).await.unwrap();
    finish(handle).await;
    let of_ann = mail.into_iter().filter(|mail| mail.message.from == "ann");
    of_ann
        .filter_map(|mail| match mail.frame {
            Some(Frame::IdleNotification(idle)) => Some(idle.summary),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn an_idle_notice_says_what_was_written_last_to_a_peer_and_nothing_of_mail_to_the_lead() {
    let to_lead = "{name: SendMessage, input: {type: message, recipient: team-lead, content: hi, summary: hello}}";
    assert_eq!(idle_summaries(to_lead).await, [None]);
    let to_bob = "{name: SendMessage, input: {type: message, recipient: bob@probe, content: the api is ready, summary: API is ready}}";
    let both = format!("{to_bob}, {to_lead}");
    assert_eq!(idle_summaries(&both).await, [Some("[to bob] API is ready".to_owned())]);
    let refused = "{name: SendMessage, input: {type: message, recipient: nobody, content: hello, summary: hello again}}";
    assert_eq!(idle_summaries(refused).await, [None]);
}

#[tokio::test]
async fn mail_to_a_teammate_that_failed_is_refused_with_its_failure() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: work, prompt: Work.}}]
    - wait_for: {contains: bob has failed, from: message}
    - tools: [{name: SendMessage, input: {type: message, recipient: bob, content: hello, summary: hello again}}]
    - text: So it is.
  bob:
    - tools: [{name: TaskList}]
    - text: '${missing}'
"#;
    let ran = setting.run(setting.options(script)).await;
    let refused = &ran.results_of("team-lead", "SendMessage")[0];
    assert!(refused.contains("was not delivered: it failed"), "{refused}");
    assert!(!refused.contains("shut down"), "{refused}");
}

async fn tools_at_start(mode: PermissionMode) -> Vec<String> {
    let setting = TestRun::new();
    let mut options = setting.options("agents: {team-lead: [{text: Done.}]}");
    (options.agent_options.mode, options.agent_options.asks) = (mode, Asks::Allow);
    let ran = setting.run(options).await;
    let started = ran.events.iter().find_map(|event| match event {
        RunEvent::Started(started) => Some(started.tools.clone()),
        _ => None,
    });
    started.unwrap()
}

#[tokio::test]
async fn a_run_begins_with_the_tools_that_its_mode_offers() {
    let tools = tools_at_start(PermissionMode::Default).await;
    assert!(
        tools.contains(&"Bash".to_owned()) && !tools.contains(&"ExitPlanMode".to_owned()),
        "{tools:?}"
    );
    let tools = tools_at_start(PermissionMode::Plan).await;
    assert!(
        tools.contains(&"Bash".to_owned()) && tools.contains(&"ExitPlanMode".to_owned()),
        "{tools:?}"
    );
    let tools = tools_at_start(PermissionMode::Delegate).await;
    let expected = [
        "SendMessage",
        "Task",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskStop",
        "TaskUpdate",
        "TeamCreate",
        "TeamDelete",
    ];
    let mut tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    tools.sort_unstable();
    assert_eq!(tools, expected);
}

#[tokio::test]
async fn a_spawn_lists_the_models_that_the_run_can_open_and_so_does_its_refusal() {
    let setting = TestRun::new();
    let script = format!(
        r#"
agents:
  team-lead:
    - tools:
        - {{name: Task, input: {{name: bob, model: mistral/x, description: wait, prompt: Wait.}}}}
        - {{name: Task, input: {{subagent_type: Explore, model: mistral/x, description: look, prompt: Look.}}}}
        - {{name: Task, input: {{name: ann, model: ollama/qwen3, description: wait, prompt: Wait.}}}}
    - text: Go.
{WAITER}"#
    );
    let (mut options, model) = setting.overheard(&script);
    options.agent_options.models = vec!["ollama/qwen3".to_owned(), "openai/NAME".to_owned()];
    let open = options.agent_options.open_model.clone();
    options.agent_options.open_model = Arc::new(move |name| match name {
        "mistral/x" => Err(ModelError::Spec { given: name.to_owned() }),
        name => open(name),
    });
    let ran = setting.run(options).await;
    ran.success();
    for agent in ["team-lead", "ann"] {
        let offered = model.schema_of(agent, "Task")["properties"]["model"].clone();
        let description = offered["description"].as_str().unwrap();
        assert!(description.ends_with("This run can open: ollama/qwen3, openai/NAME"), "{offered}");
        assert!(offered.get("enum").is_none(), "{offered}");
    }
    let results = ran.results_of("team-lead", "Task");
    for refused in results.iter().filter(|result| result.contains("mistral/x")) {
        assert!(refused.contains("This run can open: ollama/qwen3, openai/NAME"), "{refused}");
    }
    assert_eq!(
        results.iter().filter(|result| result.contains("mistral/x")).count(),
        2,
        "{results:?}"
    );
    assert!(results.iter().any(|result| result.contains("agent_id: ann@probe")), "{results:?}");
}

#[tokio::test]
async fn a_team_is_deleted_by_its_own_name_only_and_nothing_is_left_to_delete_after() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: TeamDelete, input: {team_name: other}}]
    - tools: [{name: TeamDelete, input: {team_name: probe}}]
    - tools: [{name: TeamDelete}]
    - tools: [{name: TeamDelete, input: {team_name: probe}}]
    - text: It is gone.
"#;
    let ran = setting.run(setting.options(script)).await;
    assert_eq!(ran.success(), "It is gone.");
    let results = ran.results_of("team-lead", "TeamDelete");
    assert!(results[0].contains("You lead the team \"probe\", not \"other\""), "{results:?}");
    let done = r#""message": "Cleaned up directories and worktrees for team \"probe\"","#;
    assert!(
        results[1].contains(done) && results[1].contains("\"team_name\": \"probe\""),
        "{results:?}"
    );
    let nothing =
        "{\n  \"success\": true,\n  \"message\": \"No team name found, nothing to clean up\"\n}";
    assert_eq!(results[2..], [nothing, nothing]);
}

#[tokio::test]
async fn a_deletion_says_which_worktrees_were_kept() {
    let setting = TestRun::in_files();
    std::fs::write(setting.cwd.join("base.txt"), "base").unwrap();
    git(&setting.cwd, &["init", "-q"]);
    git(&setting.cwd, &["add", "."]);
    git(&setting.cwd, &["commit", "-qm", "base"]);
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: busy, description: work, prompt: Work., isolation: worktree}}]
    - wait_for: {contains: idle_notification, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: busy}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - tools: [{name: TeamDelete}]
    - text: It is gone.
  busy:
    - tools: [{name: Write, input: {file_path: new.txt, content: new}}]
    - wait_for: {contains: shutdown_request}
      text: Written.
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let ran = setting.run(setting.options(script)).await;
    assert_eq!(ran.success(), "It is gone.");
    let deleted = &ran.results_of("team-lead", "TeamDelete")[0];
    let path = &ran.outcome.kept[0].path;
    let kept = format!("Not cleaned up: the worktree of busy, {} (branch ", path.display());
    assert!(
        deleted.contains(&kept) && deleted.contains("1 file is changed or new and not committed"),
        "{deleted}"
    );
}
