//! Another client as a teammate in a pane. The tests look at what its process leaves behind when it
//! ends: open requests and child processes.

use pitcrew_panes::Panes as _;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{AgentName, PermissionMode, Program, SendMessageInput, Status};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::hosting::LaunchStage;
use pitcrew_runtime::run::{Ask, Asks, RunEnd, RunHandle, RunOptions, Runtime};
use pitcrew_team::Actor;
use pitcrew_team::store::Event;
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::mpsc;

use crate::panes_process::ProcessPanes;
use crate::patience::{in_time, until as wait_until};
use crate::team_elsewhere::{
    LOSING, Played, abandoned, abandoned_with, hosting, resumed, sleeper, stages,
};
use crate::team_env::{TestRun, finish, until};

/// The id of the permission request that `asks_for_permission` writes.
const PERMISSION: &str = "perm-1795175639917-vj3n6vk";

/// The id of the plan approval request that `hands_in_a_plan` writes.
const PLAN: &str = "plan_approval-1795175639918@bob@probe";

fn bob() -> AgentName {
    AgentName::new("bob").unwrap()
}

/// Writes a frame into the lead's inbox as the client does: the frame has no message id, and
/// pitcrew's ledger of requests has no entry for it.
pub(crate) fn writes(setting: &TestRun, frame: &serde_json::Value) {
    let inboxes = setting.root.join("teams/probe/inboxes");
    let inbox = inboxes.join("team-lead.json");
    let text = std::fs::read_to_string(&inbox).unwrap_or_else(|_| "[]".to_owned());
    let mut entries: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    entries.push(json!({
        "from": "bob", "text": frame.to_string(), "timestamp": "2026-11-20T12:00:00.000Z", "color": "blue",
        "read": false
    }));
    let new = setting.root.join("by-hand");
    std::fs::write(&new, serde_json::to_vec_pretty(&entries).unwrap()).unwrap();
    std::fs::rename(new, inbox).unwrap();
}

/// Writes a permission request of the client. Its form was recorded in
/// fixtures/claude-2.1.39/tmux-permissions.
fn asks_for_permission(setting: &TestRun) {
    let input = json!({"command": "touch made-by-bob.txt", "description": "touch a file"});
    let frame = json!({
        "type": "permission_request", "request_id": PERMISSION, "agent_id": "bob", "tool_name": "Bash",
        "tool_use_id": "toolu_1b97848a3bd84a739a5947", "description": "touch a file", "input": input,
        "permission_suggestions": []
    });
    writes(setting, &frame);
}

fn hands_in_a_plan(setting: &TestRun) {
    let frame = json!({
        "type": "plan_approval_request", "from": "bob", "timestamp": "2026-11-20T12:00:00.000Z",
        "planFilePath": "/home/dev/.claude/plans/a.md", "planContent": "# A plan", "requestId": PLAN
    });
    writes(setting, &frame);
}

/// Resumes the team in a new run. The user of this run receives the permission requests.
async fn resumed_with_a_person(
    setting: &TestRun,
    panes: &ProcessPanes,
) -> (RunHandle, mpsc::Receiver<Ask>) {
    let (person, asks) = mpsc::channel(4);
    let mut options = resumed(setting, panes);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    (Runtime::start(options).await.unwrap(), asks)
}

async fn kill(panes: &ProcessPanes) {
    for process in panes.processes() {
        let _either = process.signal(Signal::KILL).unwrap();
        process.ended().await;
    }
}

fn was_asked(events: &[RunEvent]) -> bool {
    events.iter().any(|event| matches!(event, RunEvent::PermissionAsked { .. }))
}

/// Plays the client that the run starts, until the run ends. Returns all events of the run.
async fn whole_run(handle: RunHandle, bob: &Played, panes: &ProcessPanes) -> Vec<RunEvent> {
    let running = tokio::spawn(finish(handle));
    in_time("bob is given its prompt anew", bob.mail()).await;
    bob.is_done().await;
    bob.says_goodbye().await;
    for process in panes.processes() {
        let _either = process.signal(Signal::TERM).unwrap();
    }
    let ran = running.await.unwrap();
    assert_eq!(ran.success(), "All is done.");
    ran.events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_client_that_died_is_not_put_to_the_person_of_the_next_run() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (team, _) = abandoned(&setting, &panes).await;
    let bob = Played(team.clone());
    bob.mail().await;
    asks_for_permission(&setting);
    hands_in_a_plan(&setting);
    kill(&panes).await;
    let (handle, mut asks) = resumed_with_a_person(&setting, &panes).await;
    let events = whole_run(handle, &bob, &panes).await;
    assert!(
        asks.try_recv().is_err() && !was_asked(&events),
        "the question of a dead process was asked"
    );
    let requests = setting.team_elsewhere().await.requests().await.unwrap();
    assert!(requests.get(PERMISSION).is_none_or(|request| !request.is_open()), "{requests:?}");
    assert!(requests.get(PLAN).is_none_or(|request| !request.is_open()), "{requests:?}");
    let unread = team.unread(&AgentName::lead()).await.unwrap();
    assert!(unread.iter().all(|mail| mail.message.from != "bob"), "{unread:?}");
    let journal = team.backend().journal_since(team.dir(), 0).await.unwrap().0;
    let is_dead = |event: &Event| matches!(event, Event::MessageDead { reason, .. } if reason.contains("asked"));
    assert_eq!(journal.iter().filter(|entry| is_dead(&entry.event)).count(), 2, "{journal:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_client_that_lives_on_is_put_to_the_person_of_the_next_run() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (team, _) = abandoned(&setting, &panes).await;
    Played(team.clone()).mail().await;
    asks_for_permission(&setting);
    let (handle, mut asks) = resumed_with_a_person(&setting, &panes).await;
    let ask = in_time("the person is asked", asks.recv()).await.unwrap();
    assert_eq!(ask.question.asker.as_str(), "bob");
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_client_that_was_taken_out_of_the_team_is_asked_of_nobody() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (team, _) = abandoned(&setting, &panes).await;
    Played(team.clone()).mail().await;
    asks_for_permission(&setting);
    kill(&panes).await;
    team.remove_member(&pitcrew_team::Actor::User, &bob()).await.unwrap();
    let (mut handle, mut asks) = resumed_with_a_person(&setting, &panes).await;
    let is_waiting = |event: &RunEvent| {
        matches!(event, RunEvent::AgentChanged { status: pitcrew_protocol::Status::Idle, .. })
    };
    let events = until(&mut handle, is_waiting).await;
    assert!(
        asks.try_recv().is_err() && !was_asked(&events),
        "the question of a dead process was asked"
    );
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_client_is_void_when_the_run_that_it_was_put_to_has_stopped_it() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (team, _) = abandoned(&setting, &panes).await;
    Played(team.clone()).mail().await;
    asks_for_permission(&setting);
    let (handle, mut asks) = resumed_with_a_person(&setting, &panes).await;
    let _asked = in_time("the person is asked", asks.recv()).await.unwrap();
    handle.stopper().kill();
    finish(handle).await;
    let requests = setting.team_elsewhere().await.requests().await.unwrap();
    assert!(requests.get(PERMISSION).is_some_and(|request| request.is_void), "{requests:?}");
}

/// Returns the command line of a client that starts a process in a new session, as the client's
/// Bash tool does. Also returns the file to which the started process writes its id.
fn leaving(setting: &TestRun) -> (Vec<String>, std::path::PathBuf) {
    let file = setting.cwd.join("left");
    let script = "setsid sh -c 'echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 1000' \"$0\" & exec sleep 1000";
    let argv = ["sh", "-c", script, file.to_str().unwrap()];
    (argv.map(str::to_owned).to_vec(), file)
}

async fn left_behind(file: &std::path::Path) -> ProcessIdentity {
    let pid =
        wait_until("something is left running", async || std::fs::read_to_string(file).ok()).await;
    ProcessIdentity::of(pid.trim().parse().unwrap()).unwrap()
}

fn lives_in(options: &mut RunOptions, panes: &ProcessPanes, argv: &[String]) {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    options.hosting = hosting(panes, Program::Claude, &argv).0;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_client_had_started_in_another_session_ends_and_nothing_else() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = setting.options(LOSING);
    let (argv, file) = leaving(&setting);
    lives_in(&mut options, &panes, &argv);
    // This process is started like the client, but it has the tag of another member. It must not be
    // stopped.
    let theirs = panes.start(&sleeper(&setting, "bobby")).await.unwrap();
    let theirs = ProcessIdentity::of(theirs.pid.unwrap()).unwrap();
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
    let left = left_behind(&file).await;
    let running = tokio::spawn(finish(handle));
    let bob = Played::bob(&setting).await;
    bob.mail().await;
    let started = bob.0.started().await.unwrap().remove(&self::bob()).unwrap().process.unwrap();
    let _either = ProcessIdentity::from(started).signal(Signal::KILL).unwrap();
    running.await.unwrap();
    assert!(!left.is_alive(), "what the client had started lives on");
    assert!(theirs.is_alive(), "another member's process was ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_left_running_that_died_without_a_lead_ends_when_the_team_goes_on() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (argv, file) = leaving(&setting);
    let (team, _) = abandoned_with(&setting, &panes, argv).await;
    let left = left_behind(&file).await;
    let bob = Played(team);
    bob.mail().await;
    for process in panes.processes() {
        let _either = process.signal(Signal::KILL).unwrap();
        process.ended().await;
    }
    assert!(left.is_alive());
    let handle = Runtime::start(resumed(&setting, &panes)).await.unwrap();
    whole_run(handle, &bob, &panes).await;
    assert!(!left.is_alive(), "what the client had started lives on");
}

/// A process that belongs to the user, and that pitcrew must not stop.
struct Theirs(std::process::Child);

impl Theirs {
    fn new() -> Self {
        use std::os::unix::process::CommandExt as _;
        Self(std::process::Command::new("sleep").arg("1000").process_group(0).spawn().unwrap())
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.0.id())
            .expect("a process of the user's was stopped on the word of a record")
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // Errors are ignored, because the process may have ended already.
        let _either = (self.0.kill(), self.0.wait());
    }
}

#[tokio::test]
async fn a_record_that_names_another_process_has_it_stopped_by_no_resume() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (team, _) = abandoned(&setting, &panes).await;
    let theirs = Theirs::new();
    for name in ["bob", "gone"] {
        let mut started = team.started().await.unwrap().remove(&bob()).unwrap();
        started.process = Some(theirs.identity().into());
        team.note_started(&AgentName::new(name).unwrap(), started).await.unwrap();
    }
    let mut handle = Runtime::start(resumed(&setting, &panes)).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    assert!(theirs.identity().is_alive(), "a process was stopped on the word of a record");
    handle.stopper().kill();
    finish(handle).await;
}

#[tokio::test]
async fn a_run_that_is_killed_leaves_no_process_and_no_pane() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let mut options = setting.options(LOSING);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
    let processes = panes.processes();
    handle.stopper().kill();
    assert_eq!(finish(handle).await.outcome.end, RunEnd::Interrupted);
    assert!(!processes[0].is_alive() && panes.processes().is_empty());
    let team = setting.team().await;
    assert!(team.config().await.unwrap().member("bob").is_some(), "bob can be resumed");
    assert!(team.started().await.unwrap().is_empty());
}

/// The script of a lead that answers its teammate, and has nothing more to do.
const ANSWERING: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Do the thing, prompt: Plan it.}}]
    - wait_for: {contains: my part is done, from: message}
    - tools: [{name: SendMessage, input: {type: message, recipient: bob, content: Go ahead., summary: go}}]
    - text: I wait.
    - text: I wait on.
    - text: I wait on.
    - text: I wait on.
"#;

/// A client that has read a message marks itself as active in the config within a limited time.
/// `LATE_TURN` is longer than this time.
const LATE_TURN: std::time::Duration = std::time::Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_an_answer_after_the_notice_of_its_last_turn_is_not_held_to_be_idle() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = setting.options(ANSWERING);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    options.agent_options.shutdown_grace = crate::patience::PATIENCE;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::AgentLaunched { .. })).await;
    let bob = Played::bob(&setting).await;
    bob.mail().await;
    bob.is_active(true).await;
    bob.is_done().await;
    // The lead answers before the client's turn ends. The client reads that answer only after the
    // turn.
    wait_until("the answer is there", async || bob.0.unread(&self::bob()).await.unwrap().pop())
        .await;
    bob.is_active(false).await;
    bob.is_idle().await;
    // This message comes after the idle notice. When the lead has read the message, it has also
    // seen the idle notice.
    let (recipient, content) = ("team-lead".to_owned(), "how far are you?".to_owned());
    let from_user = SendMessageInput::Message { recipient, content, summary: None };
    let sent = bob.0.send(&pitcrew_team::Actor::User, from_user, None).await.unwrap();
    let asked = sent.receipts[0].id.clone();
    until(
        &mut handle,
        |event| matches!(event, RunEvent::MailDelivered { ids, .. } if ids.contains(&asked)),
    )
    .await;
    let running = tokio::spawn(finish(handle));
    assert_eq!(bob.mail().await.message.text, "Go ahead.");
    let told = tokio::time::timeout(LATE_TURN, bob.mail()).await;
    assert!(told.is_err(), "it was about to begin, and was told {told:?}");
    bob.is_active(true).await;
    bob.is_active(false).await;
    bob.is_idle().await;
    bob.says_goodbye().await;
    for process in panes.processes() {
        let _either = process.signal(Signal::TERM).unwrap();
    }
    running.await.unwrap().success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_removed_while_it_works_is_told_to_be_stopped() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = setting.options(LOSING);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    let played = Played::bob(&setting).await;
    played.mail().await;
    played.is_active(true).await;
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Working]).await;
    played.0.remove_member(&Actor::User, &bob()).await.unwrap();
    let ran = finish(handle).await;
    let last = ran.events.iter().rev().find_map(|event| match event {
        RunEvent::AgentChanged { agent, status, detail } if *agent == bob() => {
            Some((*status, detail.clone()))
        }
        _ => None,
    });
    assert_eq!(last, Some((Status::Killed, Some("it was removed from the team".to_owned()))));
}
