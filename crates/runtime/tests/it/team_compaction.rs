//! Runs of a whole team in which conversations become longer than the model's context window. A
//! compaction must lose nothing that the team relies on.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use pitcrew_model::{
    COMPACTION, Message, Model, ModelError, Request, Response, ResponseStream, Script, Scripted,
    StreamEvent, Usage,
};
use pitcrew_protocol::{AgentName, PermissionMode, TaskStatus};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Asks, Begin, RunEnd, RunOptions, Runtime};
use pitcrew_team::store::Event as Noted;

use crate::team_crashes::{check_mail, transcript};
use crate::team_env::{TestRun, finish};

/// Number of characters in a token, for the scripted model.
const TOKEN_CHARS: usize = 4;

/// The script of a team. The worker gets a shutdown request while it works, and the lead must
/// answer a plan. Both agents read more than fits into the context window before they answer. The
/// team is not deleted, so that the test can check its files afterwards.
const SCRIPT: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: TeamCreate, input: {team_name: probe}}
    - tools:
        - {name: TaskCreate, input: {subject: Write, description: Write w.txt with care}}
    - tools:
        - {name: Task, input: {name: worker, description: Write, prompt: 'Do task 1, and mind the gap.'}}
        - {name: Task, input: {name: planner, description: Plan, prompt: Plan it., mode: plan}}
    - wait_for: {contains: plan_approval_request, from: message}
    - repeat:
        at_most: 3
        turns:
          - tools: [{name: Read, input: {file_path: long.txt}}]
    - capture:
        request: {regex: '"requestId":\s*"(plan_approval[^"]+)"', from: message}
      tools:
        - {name: SendMessage, input: {type: plan_approval_response, request_id: '${request}', recipient: planner, approve: true}}
        - {name: SendMessage, input: {type: shutdown_request, recipient: worker}}
    - wait_for: {contains: my part is done, from: message, times: 2}
    - tools:
        - {name: SendMessage, input: {type: shutdown_request, recipient: planner}}
    - wait_for: {contains: teammate_terminated, from: message, times: 2}
    - text: All is done.
  planner:
    - tools:
        - {name: ExitPlanMode, input: {plan: I look and tell.}}
    - wait_for: {contains: plan_approval_response}
    - tools:
        - {name: SendMessage, input: {type: message, recipient: team-lead, content: my part is done, summary: done}}
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  worker:
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', owner: worker, status: in_progress}}
    - wait_for: {contains: shutdown_request}
    - repeat:
        at_most: 3
        turns:
          - tools: [{name: Read, input: {file_path: long.txt}}]
    - tools:
        - {name: Bash, input: {command: echo written > w.txt}}
    - repeat:
        at_most: 2
        turns:
          - tools: [{name: Read, input: {file_path: long.txt}}]
    - capture:
        task: {from: message, regex: 'Do task (\d+), and mind the gap'}
      tools:
        - {name: TaskUpdate, input: {taskId: '${task}', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: team-lead, content: my part is done, summary: done}}
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// A scripted model that has a small context window and records its requests.
struct Narrow {
    model: Scripted,
    window: u64,
    /// If true, the model's answers report how many tokens the model has read.
    tells: bool,
    /// The requests that fitted into the context window.
    requests: Mutex<Vec<Request>>,
}

/// Returns the size of a request in tokens: the size of its messages, plus 200 if the request has
/// tools.
fn tokens(request: &Request) -> u64 {
    let tools = if request.tools.is_empty() { 0 } else { 200 };
    let chars = serde_json::to_string(request.messages.as_slice()).unwrap().len();
    u64::try_from(chars / TOKEN_CHARS).unwrap() + tools
}

fn texts(messages: &[Message]) -> String {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.filter_map(|block| block.as_text()).collect::<Vec<_>>().join("\n")
}

fn asks_for_a_summary(request: &Request) -> bool {
    texts(&request.messages[request.messages.len() - 1..]).contains(COMPACTION)
}

impl Model for Narrow {
    fn id(&self) -> &str {
        "script:test.yaml"
    }

    fn context_window(&self) -> Option<u64> {
        Some(self.window)
    }

    fn respond(&self, request: Request) -> ResponseStream {
        let read = tokens(&request);
        if read > self.window {
            let error =
                ModelError::ContextTooLong { vendor: "test", message: format!("{read} tokens") };
            return Box::pin(futures_util::stream::iter([Err(error)]));
        }
        self.requests.lock().unwrap().push(request.clone());
        let usage = Usage { input_tokens: if self.tells { read } else { 0 }, ..Usage::default() };
        Box::pin(self.model.respond(request).map(move |event| match event {
            Ok(StreamEvent::Finished(response)) => {
                Ok(StreamEvent::Finished(Response { usage, ..response }))
            }
            other => other,
        }))
    }
}

impl Narrow {
    fn new(script: &str, window: u64, tells: bool) -> Arc<Self> {
        let model = Scripted::new(Script::parse(Path::new("test.yaml"), script).unwrap());
        Arc::new(Self { model, window, tells, requests: Mutex::default() })
    }

    fn requests_of(&self, agent: &str) -> Vec<Request> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.agent.name == agent).cloned().collect()
    }

    /// After each summary, an agent's next request starts a new conversation. Returns the first
    /// message of each of these requests.
    fn resumptions(&self, agent: &str) -> Vec<String> {
        let requests = self.requests_of(agent);
        let after = requests
            .windows(2)
            .filter(|pair| asks_for_a_summary(&pair[0]) && !asks_for_a_summary(&pair[1]));
        after.map(|pair| texts(&pair[1].messages[..1])).collect()
    }
}

fn options(setting: &TestRun, model: &Arc<Narrow>) -> RunOptions {
    std::fs::write(setting.cwd.join("long.txt"), "a line of a long file\n".repeat(350)).unwrap();
    let mut options = setting.options(SCRIPT);
    let model: Arc<dyn Model> = model.clone();
    options.agent_options.open_model = Arc::new(move |_name| Ok(model.clone()));
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Allow, PermissionMode::Default);
    options
        .agent_options
        .prices
        .override_with(&serde_json::json!({"script:test.yaml": {"input": 1.0, "output": 1.0}}))
        .unwrap();
    options
}

fn compactions(events: &[RunEvent], who: &str) -> Vec<(u64, u64)> {
    let of_agent = events.iter().filter_map(|event| match event {
        RunEvent::Compacted(it) if it.agent.as_str() == who => {
            Some((it.tokens_before, it.tokens_after))
        }
        _ => None,
    });
    of_agent.collect()
}

#[tokio::test]
async fn agents_that_pass_their_window_keep_their_task_and_answer_the_requests_that_were_open() {
    let setting = TestRun::new();
    let model = Narrow::new(SCRIPT, 5_000, true);
    let ran = setting.run(options(&setting, &model)).await;
    assert_eq!(ran.success(), "All is done.");
    for (agent, least) in [("worker", 2), ("team-lead", 1)] {
        let compactions = compactions(&ran.events, agent);
        assert!(compactions.len() >= least, "{agent}: {compactions:?}");
        assert!(
            compactions.iter().all(|(before, after)| *before > 4_250 && after < before),
            "{compactions:?}"
        );
    }
    for told in model.resumptions("worker") {
        for whole in [
            "You are \"worker\" on the team \"probe\"",
            "Do task 1, and mind the gap.",
            "#1 (in_progress, worker's): Write\nWrite w.txt with care",
            "Requests that wait for your answer",
            "\"type\":\"shutdown_request\"",
            "I have played",
        ] {
            assert!(told.contains(whole), "{whole} is missing in {told}");
        }
    }
    let lead = model.resumptions("team-lead");
    assert!(lead.iter().any(|told| told.contains("plan_approval_request") && told.contains("I look and tell.")));
    assert!(lead.iter().all(|told| told.contains("Do it.")), "{lead:#?}");
    assert_eq!(std::fs::read_to_string(setting.cwd.join("w.txt")).unwrap(), "written\n");

    let calls = model.requests.lock().unwrap().clone();
    let paid: u64 = calls.iter().map(tokens).sum();
    assert_eq!(
        ran.outcome.usage().input_tokens,
        paid,
        "every call is counted, those for summaries too"
    );
    let team = setting.team().await;
    let journal = team.backend().journal_since(team.dir(), 0).await.unwrap().0;
    let noted = journal
        .iter()
        .filter(|entry| matches!(entry.event, Noted::ConversationCompacted { .. }))
        .count();
    let told = ran.events.iter().filter(|event| matches!(event, RunEvent::Compacted(_))).count();
    assert_eq!(noted, told);
    check_team(&setting).await;
}

/// Checks that every message was delivered once, and that every conversation equals its transcript.
async fn check_team(setting: &TestRun) {
    let team = setting.team().await;
    for name in ["team-lead", "planner", "worker"] {
        check_mail(&team, &AgentName::new(name).unwrap()).await;
    }
    let done: Vec<_> = team.tasks().await.unwrap().iter().map(|task| task.status).collect();
    assert_eq!(done, [TaskStatus::Completed]);
}

#[tokio::test]
async fn a_call_for_a_summary_offers_no_tools_and_holds_the_whole_conversation() {
    let setting = TestRun::new();
    let model = Narrow::new(SCRIPT, 5_000, true);
    setting.run(options(&setting, &model)).await.success();
    let requests = model.requests_of("worker");
    let calls: Vec<&Request> =
        requests.iter().filter(|request| asks_for_a_summary(request)).collect();
    assert!(calls.len() >= 2);
    assert!(calls.iter().all(|request| request.tools.is_empty() && request.messages.len() > 2));
    let told = texts(&calls[0].messages);
    assert!(told.contains("mind the gap"), "{told}");
}

/// Stops a run after `events` events, resumes the run, and checks the result. Returns false if the
/// run had already ended before it could be stopped.
async fn cut_off_after(events: usize) -> bool {
    let setting = TestRun::new();
    let model = Narrow::new(SCRIPT, 5_000, true);
    let mut first = Runtime::start(options(&setting, &model)).await.unwrap();
    let stopper = first.stopper();
    let mut seen = 0;
    while let Some(_event) = first.events.recv().await {
        seen += 1;
        if seen == events {
            stopper.kill();
        }
    }
    let mut outcome = first.outcome().await;
    let was_cut_off = outcome.end == RunEnd::Interrupted;
    if was_cut_off {
        let mut again = options(&setting, &model);
        again.begin = Begin::Resume { team: "probe".to_owned(), goal: None };
        outcome = finish(Runtime::start(again).await.unwrap()).await.outcome;
    }
    assert!(
        matches!(outcome.end, RunEnd::Success { .. }),
        "cut off after {events} events: {outcome:#?}"
    );
    assert_eq!(
        std::fs::read_to_string(setting.cwd.join("w.txt")).unwrap(),
        "written\n",
        "cut off after {events} events"
    );
    check_team(&setting).await;
    was_cut_off
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_compactions_that_is_cut_off_at_any_event_goes_on_to_the_same_end() {
    let mut events = 1;
    while cut_off_after(events).await {
        events += 1;
    }
    assert!(events > 60, "the run has only {events} events");
}

#[tokio::test]
async fn a_model_that_tells_nothing_of_what_it_reads_is_summed_up_when_it_cannot_read_any_more() {
    let chatter = "word ".repeat(120);
    let script = format!(
        r#"
agents:
  team-lead:
    - repeat:
        at_most: 30
        turns:
          - text: '{chatter}'
            tools: [{{name: TaskList}}]
    - text: I got through.
"#
    );
    let setting = TestRun::new();
    let model = Narrow::new(&script, 2_000, false);
    let mut options = options(&setting, &model);
    options.agent_options.settings = pitcrew_permission::settings::Settings::default();
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "I got through.");
    assert!(compactions(&ran.events, "team-lead").len() >= 2);
    let steps = transcript(&setting.team().await, &AgentName::lead()).await;
    let compacted = steps
        .iter()
        .filter(|step| matches!(step, pitcrew_agent::transcript::Step::Compacted { .. }));
    assert_eq!(compacted.count(), compactions(&ran.events, "team-lead").len());
}
