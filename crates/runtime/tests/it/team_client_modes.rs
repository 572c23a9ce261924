//! The permission mode of a teammate that another client runs. The tests cover three things: the
//! client's requests in plan mode and their answers, the client's report that it has changed its
//! own mode, and a shutdown approval that answers no request.

use pitcrew_protocol::{AgentName, Frame, PermissionMode, PermissionResponse, Program};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Ask, Asks, RunHandle, Runtime};
use pitcrew_team::PermissionAsk;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::panes_process::ProcessPanes;
use crate::patience::in_time;
use crate::team_clients::writes;
use crate::team_elsewhere::{LOSING, Played, hosting};
use crate::team_env::{TestRun, finish, until};

/// The script of a lead whose teammate must plan first. The lead approves the teammate's plan.
const PLANNED: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Do the thing, prompt: Do it., mode: plan}}]
    - wait_for: {contains: plan_approval_request, from: message}
    - capture:
        request: {from: message, regex: '"requestId":"(plan_approval-[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: plan_approval_response, recipient: bob, request_id: '${request}', approve: true}}
    - wait_for: {contains: never said}
"#;

/// A run whose teammate is another client in plan mode.
struct Planning {
    setting: TestRun,
    handle: RunHandle,
    bob: Played,
    asks: mpsc::Receiver<Ask>,
}

impl Planning {
    async fn start(asks: impl FnOnce(mpsc::Sender<Ask>) -> Asks) -> Self {
        let setting = TestRun::in_files();
        let (person, questions) = mpsc::channel(4);
        let mut options = setting.options(PLANNED);
        options.hosting = hosting(&ProcessPanes::new(), Program::Claude, &["sleep", "1000"]).0;
        (options.agent_options.asks, options.agent_options.mode) =
            (asks(person), PermissionMode::Default);
        let mut handle = Runtime::start(options).await.unwrap();
        until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
        let bob = Played::bob(&setting).await;
        bob.mail().await;
        Self { setting, handle, bob, asks: questions }
    }

    /// Writes the client's permission request for a tool call, and returns the request's id.
    async fn asks_for(&self, tool: &str, input: Value) -> String {
        let ask = PermissionAsk {
            tool_name: tool.to_owned(),
            tool_use_id: format!("toolu_{}", self.bob.0.requests().await.unwrap().len()),
            description: "as its model says".to_owned(),
            input,
            suggestions: Vec::new(),
            digest: None,
        };
        let bob = AgentName::new("bob").unwrap();
        self.bob.0.request_permission(&bob, ask).await.unwrap().request_id
    }

    async fn hands_in_its_plan(&self) {
        let bob = AgentName::new("bob").unwrap();
        self.bob.0.request_plan_approval(&bob, "plans/a.md", "# A plan", None).await.unwrap();
    }

    /// Waits until the person is asked for a permission. The person is also asked about the plan,
    /// until the lead has answered it.
    async fn asked(&mut self) -> Ask {
        loop {
            let ask = in_time("the person is asked", self.asks.recv()).await.unwrap();
            if !ask.question.is_plan() {
                return ask;
            }
        }
    }

    /// Waits for the answer to a permission request. Returns the request's id and the decision.
    async fn answer(&self) -> (String, Result<(), String>) {
        let mail = self.bob.mail().await;
        match mail.frame {
            Some(Frame::PermissionResponse(PermissionResponse {
                request_id,
                error: Some(reason),
                ..
            })) => (request_id, Err(reason)),
            Some(Frame::PermissionResponse(PermissionResponse {
                request_id, error: None, ..
            })) => (request_id, Ok(())),
            other => panic!("no answer: {other:?}"),
        }
    }

    async fn ends(self) {
        self.handle.stopper().kill();
        finish(self.handle).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_plan_mode_changes_nothing_whoever_would_allow_it() {
    let everything = |_person: mpsc::Sender<Ask>| Asks::Allow;
    let planning = Planning::start(everything).await;
    let asked = planning.asks_for("Bash", json!({"command": "touch made"})).await;
    let (request, answer) = planning.answer().await;
    assert_eq!(request, asked);
    assert!(answer.clone().unwrap_err().contains("in plan mode"), "{answer:?}");
    let source = planning.setting.cwd.join("main.rs");
    planning.asks_for("Write", json!({"file_path": source, "content": "x"})).await;
    let (_, answer) = planning.answer().await;
    assert_eq!(answer.unwrap_err(), "in plan mode only the plan file may be written");
    let plan = planning.setting.root.join("plans/a-name-of-its-own.md");
    let asked = planning.asks_for("Write", json!({"file_path": plan, "content": "# A plan"})).await;
    assert_eq!(planning.answer().await, (asked, Ok(())));
    planning.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_is_asked_by_a_client_in_plan_mode_learns_that_until_its_plan_is_approved() {
    let mut planning = Planning::start(Asks::Person).await;
    planning.asks_for("Read", json!({"file_path": "/srv/elsewhere/notes.md"})).await;
    let ask = planning.asked().await;
    assert_eq!(
        ask.question.reason,
        "bob is in plan mode: its plan is not approved yet, and until then it must change nothing"
    );
    drop(ask);
    planning.answer().await.1.unwrap_err();
    planning.hands_in_its_plan().await;
    let Some(Frame::PlanApprovalResponse(approved)) = planning.bob.mail().await.frame else {
        panic!("no approval")
    };
    assert!(approved.approved);
    // The client sends a permission request immediately after its plan is approved. At that time,
    // the client's new mode may not be recorded yet. The user must be asked nevertheless, and not
    // as if the client were still in plan mode.
    planning.asks_for("Bash", json!({"command": "touch made"})).await;
    let ask = planning.asked().await;
    assert_eq!(ask.question.reason, "");
    planning.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_client_a_mode_is_told_to_be_on_record_and_not_to_be_in_force() {
    let mut planning = Planning::start(Asks::Person).await;
    let bob = AgentName::new("bob").unwrap();
    let member = planning.bob.0.member("bob").await.unwrap();
    assert_ne!(member.mode.as_deref(), Some("default"));
    planning.hands_in_its_plan().await;
    let is_about_mode = |event: &RunEvent| {
        matches!(event, RunEvent::ModeChanged { .. } | RunEvent::ModeRecorded { .. })
    };
    let seen = until(&mut planning.handle, is_about_mode).await;
    let Some(RunEvent::ModeRecorded { agent, mode }) = seen.last() else {
        panic!("{:?}", seen.last())
    };
    assert_eq!((agent, *mode), (&bob, PermissionMode::Default));
    planning.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_ends_after_a_goodbye_to_no_request_did_not_end_without_a_word() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (mut options, overheard) = setting.overheard(LOSING);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
    Played::bob(&setting).await.mail().await;
    let goodbye = json!({
        "type": "shutdown_approved", "requestId": "[invalid id]", "from": "bob", "timestamp": "2026-11-20T12:00:00.000Z"
    });
    writes(&setting, &goodbye);
    let is_refused = |event: &RunEvent| matches!(event, RunEvent::Warning { text } if text.contains("[invalid id]"));
    until(&mut handle, is_refused).await;
    for process in panes.processes() {
        let _either = process.signal(Signal::KILL).unwrap();
    }
    finish(handle).await;
    let told = overheard.told_to("team-lead").join("\n");
    let said = "its process ended after it agreed to shut down by the request \"[invalid id]\", which nobody had sent";
    assert!(told.contains(said) && !told.contains("without a word"), "{told}");
}
