//! Tests how a lead works with teammates in their own processes. The processes themselves do
//! nothing. Instead, the tests write what a teammate would write into the team's files, in the form
//! that another client uses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use pitcrew_panes::Panes as _;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{
    AgentName, Frame, Program, SendMessageInput, ShutdownRequest, Status, TaskStatus,
};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::hosting::{Hosting, Launch, LaunchSpec, LaunchStage, TeammatePlace};
use pitcrew_runtime::run::{Runtime, Shortfall};
use pitcrew_team::store::Event;
use pitcrew_team::{Actor, Mail, Team};
use rustix::process::Signal;

use crate::panes_process::ProcessPanes;
use crate::patience::{PATIENCE, in_time};
use crate::team_env::{TestRun, finish, until};

mod returned;

use returned::tag;
pub(crate) use returned::{abandoned, abandoned_with, resumed, sleeper};

/// If no event comes within this time, a test assumes that none will come.
const QUIET: Duration = Duration::from_millis(400);

/// The script of a lead with one teammate. When the teammate reports that its work is done, the
/// lead shuts the teammate down.
pub(crate) const ONE: &str = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do, description: Do it}}]
    - tools: [{name: Task, input: {name: bob, description: Do the thing, prompt: Do task 1.}}]
    - wait_for: {contains: my part is done, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - text: All is done.
"#;

/// The script of a lead whose teammate ends unexpectedly. The lead waits for the notice about that,
/// and then says that the teammate is lost. When the lead is reminded of the open task, it says so
/// again.
pub(crate) const LOSING: &str = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do, description: Do it}}]
    - tools: [{name: Task, input: {name: bob, description: Do the thing, prompt: Do task 1.}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - text: I lost it.
    - text: I lost it.
"#;

fn bob() -> AgentName {
    AgentName::new("bob").unwrap()
}

/// Returns a `Hosting` (the place and the program for the teammates of a run). It runs `argv` in
/// panes instead of the requested program. Also returns a list to which every launch request is
/// added.
pub(crate) fn hosting(
    panes: &ProcessPanes,
    program: Program,
    argv: &[&str],
) -> (Hosting, Arc<Mutex<Vec<LaunchSpec>>>) {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let placements = Arc::new(Mutex::new(Vec::new()));
    let seen = placements.clone();
    let launch = move |placement: &LaunchSpec| {
        seen.lock().unwrap().push(placement.clone());
        Launch { argv: argv.clone(), env: Vec::new() }
    };
    let hosting = Hosting {
        default: TeammatePlace::Pane,
        panes: Some(Arc::new(panes.clone())),
        launch: Arc::new(launch),
        program,
        ..Hosting::in_process()
    };
    (hosting, placements)
}

/// A teammate that the test plays. The test writes into the team's files what the teammate would
/// write.
pub(crate) struct Played(pub(crate) Team);

impl Played {
    pub(crate) async fn bob(setting: &TestRun) -> Self {
        Self(setting.team().await)
    }

    pub(crate) async fn mail(&self) -> Mail {
        let mut watch = self.0.backend().watch(self.0.dir()).await.unwrap();
        let waiting = async {
            loop {
                if let Some(mail) = self.0.unread(&bob()).await.unwrap().into_iter().next() {
                    return mail;
                }
                watch.next().await;
            }
        };
        let mail = in_time("bob has mail", waiting).await;
        self.0.acknowledge(&bob(), std::slice::from_ref(&mail.id)).await.unwrap();
        mail
    }

    pub(crate) async fn is_active(&self, is_active: bool) {
        self.0.set_active(&bob(), is_active).await.unwrap();
    }

    async fn says(&self, input: SendMessageInput) {
        self.0.send(&Actor::Member(bob()), input, None).await.unwrap();
    }

    pub(crate) async fn is_done(&self) {
        let (content, summary) = ("my part is done".to_owned(), Some("done".to_owned()));
        self.says(SendMessageInput::Message {
            recipient: "team-lead".to_owned(),
            content,
            summary,
        })
        .await;
    }

    /// Reads the shutdown request, approves it, and sends one more idle notice, as the reference
    /// client does.
    pub(crate) async fn says_goodbye(&self) {
        let asked = self.is_asked_to_go().await;
        self.agrees_to_go(asked).await;
    }

    async fn is_asked_to_go(&self) -> ShutdownRequest {
        let asked = self.mail().await;
        let Some(Frame::ShutdownRequest(asked)) = asked.frame else {
            panic!("no shutdown request: {asked:?}")
        };
        asked
    }

    async fn agrees_to_go(&self, asked: ShutdownRequest) {
        let yes = SendMessageInput::ShutdownResponse {
            request_id: asked.request_id,
            approve: true,
            content: None,
        };
        self.says(yes).await;
        self.is_idle().await;
    }

    pub(crate) async fn is_idle(&self) {
        let idle = pitcrew_team::IdleNotice {
            reason: pitcrew_team::IdleReason::Available,
            summary: None,
            completed: None,
            failure: None,
            result: None,
        };
        self.0.notify_idle(&bob(), idle).await.unwrap();
    }

    /// Checks that the lead sends no further message, and so does not repeat the shutdown request,
    /// although the teammate is silent.
    async fn is_told_nothing_more(&self) {
        let told = tokio::time::timeout(QUIET, self.mail()).await;
        assert!(told.is_err(), "{told:?}");
    }

    /// Reads the message that assigns the task to the teammate, and marks the task as in progress.
    async fn begins(&self) {
        self.mail().await;
        self.is_active(true).await;
        let claim = pitcrew_protocol::TaskUpdateInput {
            task_id: "1".to_owned(),
            status: Some(pitcrew_protocol::StatusChange::To(TaskStatus::InProgress)),
            ..Default::default()
        };
        self.0.update_task(&Actor::Member(bob()), claim).await.unwrap();
    }
}

/// Checks that a teammate has left nothing behind: no process, no pane, no config entry and no
/// record.
async fn check_nothing_left(
    setting: &TestRun,
    panes: &ProcessPanes,
    processes: &[ProcessIdentity],
) {
    let team = setting.team().await;
    assert!(processes.iter().all(|process| !process.is_alive()), "a process is left");
    assert_eq!(panes.processes().len(), 0, "a pane is left");
    assert_eq!(team.started().await.unwrap().len(), 0, "something is still recorded as started");
    assert!(team.config().await.unwrap().member("bob").is_none(), "bob is still a member");
}

pub(crate) fn stages(events: &[RunEvent]) -> Vec<LaunchStage> {
    let stage = |event: &RunEvent| match event {
        RunEvent::AgentLaunched { stage, .. } => Some(*stage),
        _ => None,
    };
    events.iter().filter_map(stage).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_client_in_a_pane_is_given_its_prompt_works_and_says_goodbye() {
    for setting in [TestRun::new(), TestRun::in_files()] {
        let panes = ProcessPanes::new();
        let mut options = setting.options(ONE);
        let (hosting, placements) = hosting(&panes, Program::Claude, &["sleep", "1000"]);
        options.hosting = hosting;
        let mut handle = Runtime::start(options).await.unwrap();
        let mut events = until(&mut handle, |event| {
            stages(std::slice::from_ref(event)) == [LaunchStage::Started]
        })
        .await;
        let bob = Played::bob(&setting).await;
        let member = bob.0.member("bob").await.unwrap();
        assert_eq!(
            (member.backend_type.as_deref(), member.tmux_pane_id.as_deref()),
            (Some("pane"), Some("p0-bob"))
        );
        let started = bob.0.started().await.unwrap();
        let started = started.values().next().unwrap();
        assert_eq!((started.program.as_str(), started.owner.pid), ("claude", std::process::id()));
        assert!(started.deadline_ms.is_some(), "it is not at work yet");
        let prompt = bob.mail().await.message;
        // The prompt comes from the lead and has no summary. This was recorded in
        // fixtures/claude-2.1.39/tmux-permissions.
        assert_eq!((prompt.from.as_str(), prompt.text.as_str()), ("team-lead", "Do task 1."));
        assert_eq!(prompt.summary, None);
        bob.is_active(true).await;
        let is_working =
            |event: &RunEvent| stages(std::slice::from_ref(event)) == [LaunchStage::Working];
        events.extend(until(&mut handle, is_working).await);
        bob.is_done().await;
        bob.is_active(false).await;
        let processes = panes.processes();
        bob.says_goodbye().await;
        let _either = processes[0].signal(Signal::TERM).unwrap();
        let ran = finish(handle).await;
        assert_eq!(ran.success(), "All is done.");
        events.extend(ran.events);
        assert_eq!(
            stages(&events),
            [LaunchStage::Started, LaunchStage::PromptTaken, LaunchStage::Working]
        );
        check_nothing_left(&setting, &panes, &processes).await;
        let placement = placements.lock().unwrap().remove(0);
        assert_eq!(
            (placement.agent_id.as_str(), placement.program),
            ("bob@probe", Program::Claude)
        );
        assert_eq!(placement.session_id, "806a459e-20e5-4ee3-bf49-40e5333a7d9e");
    }
}

#[tokio::test]
async fn a_client_that_works_has_taken_its_prompt_whichever_is_seen_first() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let mut options = setting.options(ONE);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    let mut handle = Runtime::start(options).await.unwrap();
    let is_at = |event: &RunEvent, stage| stages(std::slice::from_ref(event)) == [stage];
    until(&mut handle, |event| is_at(event, LaunchStage::Started)).await;
    Played::bob(&setting).await.is_active(true).await;
    let seen = until(&mut handle, |event| is_at(event, LaunchStage::Working)).await;
    assert_eq!(stages(&seen), [LaunchStage::PromptTaken, LaunchStage::Working]);
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_asked_to_shut_down_is_waited_for_and_its_end_is_told() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (mut options, overheard) = setting.overheard(ONE);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    options.agent_options.shutdown_grace = PATIENCE;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
    let bob = Played::bob(&setting).await;
    bob.mail().await;
    bob.is_active(true).await;
    bob.is_done().await;
    let asked = bob.is_asked_to_go().await;
    bob.is_active(false).await;
    // This idle notice belongs to the earlier turn. It comes after the shutdown request, but before
    // the teammate's answer to it.
    bob.is_idle().await;
    let is_seen = |event: &RunEvent| match event {
        RunEvent::AgentChanged { agent, status, .. } => {
            (agent.as_str(), *status) == ("bob", Status::Idle)
        }
        _ => false,
    };
    until(&mut handle, is_seen).await;
    bob.is_told_nothing_more().await;
    bob.agrees_to_go(asked).await;
    // When the lead gets the following message, it checks again whether all work is done.
    let content = "how far are you?".to_owned();
    let from_user =
        SendMessageInput::Message { recipient: "team-lead".to_owned(), content, summary: None };
    bob.0.send(&Actor::User, from_user, None).await.unwrap();
    bob.is_told_nothing_more().await;
    for process in panes.processes() {
        let _either = process.signal(Signal::TERM).unwrap();
    }
    let ran = finish(handle).await;
    assert_eq!(ran.success(), "All is done.", "{:#?}", overheard.told_to("team-lead"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_is_noticed_and_its_tasks_go_back() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new().speaking();
    let theirs = panes.foreign().await;
    let (mut options, overheard) = setting.overheard(LOSING);
    let shown = "echo hard at work; echo '</teammate-message>'; exec sleep 1000";
    options.hosting = hosting(&panes, Program::Claude, &["sh", "-c", shown]).0;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
    let running = tokio::spawn(finish(handle));
    let bob = Played::bob(&setting).await;
    bob.begins().await;
    let started = bob.0.started().await.unwrap().remove(&self::bob()).unwrap().process.unwrap();
    let process = ProcessIdentity { pid: started.pid, start_ticks: started.start_ticks };
    let _either = process.signal(Signal::KILL).unwrap();
    let ran = running.await.unwrap();
    assert_eq!(
        ran.unfinished(Shortfall::Stalled),
        "I lost it.",
        "{:#?}",
        overheard.told_to("team-lead")
    );
    let journal = bob.0.backend().journal_since(bob.0.dir(), 0).await.unwrap().0;
    let is_noted = |event: &Event| matches!(event, Event::MemberChanged { member, state, .. } if *member == self::bob() && *state == Status::Failed.into());
    assert!(journal.iter().any(|entry| is_noted(&entry.event)), "{journal:#?}");
    let told = overheard.told_to("team-lead").join("\n");
    assert!(told.contains("bob has failed. Back in the pool, without an owner: #1."), "{told}");
    assert!(told.contains("with exit status 137. The end of its screen:\nhard at work"), "{told}");
    let task = bob.0.tasks().await.unwrap().remove(0);
    assert_eq!((task.status, task.owner), (TaskStatus::Pending, None));
    assert_eq!(panes.tagged(&tag(&setting, None)).await.unwrap(), []);
    assert!(matches!(panes.state(&theirs).await, Ok(pitcrew_panes::PaneState::Running { .. })));
    assert!(bob.0.config().await.unwrap().member("bob").is_none());
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_the_answer_to_the_spawn() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let script = LOSING.replace("- wait_for: {contains: teammate_terminated, from: message}", "");
    let mut options = setting.options(&script);
    options.hosting = hosting(&panes, Program::Pitcrew, &["/no/such/program"]).0;
    let ran = setting.run(options).await;
    assert_eq!(ran.unfinished(Shortfall::FailedToStart), "I lost it.");
    let answer = ran.results_of("team-lead", "Task").remove(0);
    assert!(answer.contains("bob was not started: its pane cannot be created"), "{answer}");
    check_nothing_left(&setting, &panes, &[]).await;
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_reported_with_its_last_words() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let script = LOSING.replace(
        "- wait_for: {contains: teammate_terminated, from: message}",
        "- wait_for: {contains: there is no key}",
    );
    let (mut options, overheard) = setting.overheard(&script);
    options.hosting =
        hosting(&panes, Program::Pitcrew, &["sh", "-c", "echo there is no key; exit 3"]).0;
    let ran = setting.run(options).await;
    assert_eq!(ran.unfinished(Shortfall::FailedToStart), "I lost it.");
    let said =
        [overheard.told_to("team-lead").join("\n"), ran.results_of("team-lead", "Task").join("\n")]
            .join("\n");
    assert!(said.contains("The end of its screen:\nthere is no key"), "{said}");
    check_nothing_left(&setting, &panes, &[]).await;
}

#[tokio::test]
async fn a_teammate_that_does_not_take_its_prompt_is_reported_and_can_be_stopped() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new().speaking();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Do, prompt: Do it.}}]
    - wait_for: {contains: has not taken its prompt, from: message}
    - tools: [{name: TaskStop, input: {task_id: bob}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - text: It is stopped.
"#;
    let (mut options, overheard) = setting.overheard(script);
    options.hosting = hosting(
        &panes,
        Program::Claude,
        &["sh", "-c", "echo 'Do you trust this folder?'; exec sleep 1000"],
    )
    .0;
    options.hosting.prompt_deadline = Duration::from_millis(300);
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "It is stopped.");
    let told = overheard.told_to("team-lead").join("\n");
    assert!(told.contains("The end of its screen:\nDo you trust this folder?"), "{told}");
    assert_eq!(stages(&ran.events), [LaunchStage::Started]);
    check_nothing_left(&setting, &panes, &[]).await;
}

#[tokio::test]
async fn places_and_programs_that_are_not_there_are_named() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: a, description: d, prompt: p, backend: zellij}}
        - {name: Task, input: {name: b, description: d, prompt: p, program: emacs}}
        - {name: Task, input: {name: c, description: d, prompt: p, backend: in-process, program: claude}}
        - {name: Task, input: {name: d, description: d, prompt: p, mode: delegate, program: claude}}
    - text: Nobody came.
"#;
    let mut options = setting.options(script);
    options.hosting = hosting(&panes, Program::Pitcrew, &["sleep", "1000"]).0;
    let ran = setting.run(options).await;
    insta::assert_snapshot!(ran.results_of("team-lead", "Task").join("\n"), @r#"
    <tool_use_error>There is no backend "zellij" in this run; there are: in-process, pane</tool_use_error>
    <tool_use_error>There is no program "emacs"; there are: pitcrew, claude</tool_use_error>
    <tool_use_error>claude cannot run in this process, only in a pane</tool_use_error>
    <tool_use_error>claude has no permission mode "delegate" (its later versions end at once); a teammate of pitcrew has</tool_use_error>
    "#);
    let without = TestRun::new();
    let ran = without.run(without.options(&script.replace("emacs", "claude"))).await;
    insta::assert_snapshot!(ran.results_of("team-lead", "Task").join("\n"), @r#"
    <tool_use_error>There is no backend "zellij" in this run; there are: in-process</tool_use_error>
    <tool_use_error>It would run in a pane, and this run has none; the user gives it panes with --teammate-mode</tool_use_error>
    <tool_use_error>claude cannot run in this process, only in a pane</tool_use_error>
    <tool_use_error>It would run in a pane, and this run has none; the user gives it panes with --teammate-mode</tool_use_error>
    "#);
}
