//! A member in its own process, which its lead has added. The tests cover the start, the work,
//! parking (the process ends, and a resume starts it again), interruption, stop and end.

use std::sync::Arc;

use futures_util::StreamExt as _;
use pitcrew_protocol::{
    AgentName, Frame, Member, PermissionMode, SendMessageInput, Status, TeamConfig,
};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{Choice, Keep};
use pitcrew_runtime::run::{Asks, RunEnd, RunHandle, Runtime};
use pitcrew_team::store::Event as Noted;
use pitcrew_team::{Actor, PermissionAnswer, Team};
use serde_json::json;
use tokio::sync::mpsc;

use crate::patience::{self, in_time};
use crate::solo_env::{
    AGREES, bob, dismiss, idle_notices, lead_lease, lead_mail, start, tell, until_it_is,
    until_the_config_says,
};
use crate::team_env::{Blocked, TestRun, finish, until};

/// The script of a member that does one thing, and shuts down when the lead asks for it.
fn worker() -> String {
    format!(
        "agents:\n  bob:\n    - tools: [{{name: Bash, input: {{command: echo made > it}}}}]\n    - text: Made it.\n{AGREES}"
    )
}

async fn a_placed_member_works_and_shuts_down(setting: TestRun) {
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    tell(&team, "bob", "Make it.").await;
    let (mut options, model) = setting.alone_overheard(&worker());
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = start(options).await;
    until_it_is(&mut handle, Status::Idle).await;
    let told = model.told_to("bob");
    assert_eq!(
        told,
        [
            "<teammate-message teammate_id=\"team-lead\" summary=\"a word\">\nMake it.\n</teammate-message>"
        ],
        "the prompt is what lies in the inbox"
    );
    assert_eq!(std::fs::read_to_string(setting.cwd.join("it")).unwrap(), "made\n");
    dismiss(&team, "bob").await;
    let ran = finish(handle).await;
    assert!(matches!(ran.outcome.end, RunEnd::Success { .. }), "{:?}", ran.outcome);
    assert_eq!(idle_notices(&team).await, [("available".to_owned(), Some("Made it.".to_owned()))]);
    let goodbye = lead_mail(&team).await.into_iter().find_map(|mail| match mail.frame {
        Some(Frame::ShutdownApproved(frame)) => Some((frame.pane_id, frame.backend_type)),
        _ => None,
    });
    assert_eq!(goodbye, Some((Some("%7".to_owned()), Some("tmux".to_owned()))));
    assert_eq!(
        states(&team).await,
        ["spawned", "running", "idle", "shutdown_requested", "completed"]
    );
}

/// Returns the states of the member in the team's journal. A state that follows the same state is
/// left out.
async fn states(team: &Team) -> Vec<String> {
    let journal = team.backend().journal_since(team.dir(), 0).await.unwrap().0;
    let states = journal.into_iter().filter_map(|entry| match entry.event {
        Noted::MemberChanged { state, .. } => Some(state.to_string()),
        _ => None,
    });
    let mut states: Vec<String> = states.collect();
    states.dedup();
    states
}

#[tokio::test]
async fn a_placed_member_takes_its_prompt_from_its_inbox_works_and_shuts_down_in_memory() {
    a_placed_member_works_and_shuts_down(TestRun::new()).await;
}

#[tokio::test]
async fn a_placed_member_takes_its_prompt_from_its_inbox_works_and_shuts_down_in_files() {
    a_placed_member_works_and_shuts_down(TestRun::in_files()).await;
}

#[tokio::test]
async fn the_config_says_whether_it_is_in_a_turn() {
    let setting = TestRun::new();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    tell(&team, "bob", "Wait.").await;
    let script = "agents: {bob: [{delay_ms: 600000, text: Late.}]}";
    let mut handle = start(setting.alone(script)).await;
    until_it_is(&mut handle, Status::Active).await;
    until_the_config_says(&team, "bob", true).await;
    handle.interrupt();
    until_it_is(&mut handle, Status::Idle).await;
    until_the_config_says(&team, "bob", false).await;
}

/// When a member marks a message as read, the journal must already say that the member works.
/// Otherwise the lead could find no unread message and no working member, and would end the run.
#[tokio::test]
async fn whoever_finds_its_mail_read_finds_in_the_journal_that_it_works() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let mut handle =
        start(setting.alone("agents: {bob: [{repeat: {at_most: 40, turns: [{text: Yes.}]}}]}"))
            .await;
    // These changes of the config delay the member's journal entries, because the member must read
    // each change. So the test can notice an entry that comes too late.
    let others = async {
        loop {
            let write = |config: &mut TeamConfig| {
                config.description.get_or_insert_default().push('.');
                Ok(())
            };
            team.backend().edit_team(team.dir(), Arc::new(write)).await.unwrap();
        }
    };
    let told = async {
        for _ in 0..30 {
            tell(&team, "bob", "Again.").await;
            until_it_is(&mut handle, Status::Idle).await;
        }
    };
    tokio::select! {
        () = others => {}
        () = told => {}
    }
    let mut state = String::new();
    for entry in team.backend().journal_since(team.dir(), 0).await.unwrap().0 {
        match entry.event {
            Noted::MemberChanged { state: changed, .. } => state = changed.to_string(),
            Noted::MessageAcknowledged { to, .. } if to == bob() => assert_eq!(state, "running"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_state_that_the_disk_refuses_is_in_the_journal_when_the_disk_takes_it() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    tell(&team, "bob", "Make it.").await;
    let script = format!(
        "agents:\n  bob:\n    - tools: [{{name: Bash, input: {{command: 'until [ -e go ]; do sleep 0.01; done'}}}}]\n    - text: Made it.\n{AGREES}"
    );
    let mut options = setting.alone(&script);
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = start(options).await;
    until(&mut handle, |event| matches!(event, RunEvent::ToolStarted { .. })).await;
    let last = async |wanted| states(&team).await.last().filter(|state| *state == wanted).cloned();
    patience::until("the state before is in the journal", async || last("running").await).await;
    let journal = setting.root.join("teams/probe/pitcrew/journal.ndjson");
    let blocked = Blocked::file(&journal);
    std::fs::write(setting.cwd.join("go"), "").unwrap();
    until_it_is(&mut handle, Status::Idle).await;
    drop(blocked);
    patience::until("its state is in the journal", async || last("idle").await).await;
    assert_eq!(states(&team).await, ["spawned", "running", "idle"]);
    dismiss(&team, "bob").await;
    finish(handle).await;
}

#[tokio::test]
async fn two_processes_cannot_run_one_member() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let first = start(setting.alone(&worker())).await;
    let mut again = setting.alone(&worker());
    again.name = "BOB".to_owned();
    let error = Runtime::join(again).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the member bob is run by process {}", std::process::id())
    );
    first.stopper().stop();
    assert_eq!(finish(first).await.outcome.end, RunEnd::Interrupted);
    drop(start(setting.alone(&worker())).await);
}

#[tokio::test]
async fn a_member_whose_lead_is_gone_takes_no_mail_until_there_is_a_lead_again() {
    for setting in [TestRun::new(), TestRun::in_files()] {
        let team = setting.with_bob_in_a_pane().await;
        let lead = lead_lease(&team).await;
        tell(&team, "bob", "Say hello.").await;
        let script =
            "agents: {bob: [{text: Hello.}, {wait_for: {contains: again}}, {text: Hello again.}]}";
        let mut handle = start(setting.alone(script)).await;
        until_it_is(&mut handle, Status::Idle).await;
        drop(lead);
        until_it_is(&mut handle, Status::Parked).await;
        tell(&team, "bob", "Say it again.").await;
        let _next_lead = lead_lease(&team).await;
        let seen = until_it_is(&mut handle, Status::Idle).await;
        let took_mail = |event: &RunEvent| matches!(event, RunEvent::MailDelivered { .. });
        assert!(!seen.iter().any(took_mail), "nothing is taken before there is a lead: {seen:?}");
        let seen = until_it_is(&mut handle, Status::Idle).await;
        assert!(seen.iter().any(took_mail), "{seen:?}");
        assert_eq!(idle_notices(&team).await.last().unwrap().1.as_deref(), Some("Hello again."));
    }
}

#[tokio::test]
async fn a_placed_member_does_not_begin_while_nobody_leads_it() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    tell(&team, "bob", "Say hello.").await;
    let mut handle = start(setting.alone("agents: {bob: [{text: Hello.}]}")).await;
    until_it_is(&mut handle, Status::Parked).await;
    assert_eq!(team.unread(&bob()).await.unwrap().len(), 1);
    let _lead = lead_lease(&team).await;
    until_it_is(&mut handle, Status::Active).await;
    until_it_is(&mut handle, Status::Idle).await;
    assert!(team.unread(&bob()).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_interrupted_turn_ends_at_once_and_the_next_message_starts_another() {
    let setting = TestRun::new();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    tell(&team, "bob", "Sleep.").await;
    let script =
        "agents: {bob: [{tools: [{name: Bash, input: {command: sleep 600}}]}, {text: I stopped.}]}";
    let mut options = setting.alone(script);
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = start(options).await;
    until(&mut handle, |event| matches!(event, RunEvent::ToolStarted { .. })).await;
    handle.interrupt();
    let seen = until_it_is(&mut handle, Status::Idle).await;
    let ended = seen.iter().find_map(|event| match event {
        RunEvent::ToolEnded(ended) => Some((ended.text.as_str(), ended.is_error)),
        _ => None,
    });
    assert_eq!(ended, Some(("[Request interrupted by user for tool use]", true)));
    tell(&team, "bob", "What did you do?").await;
    until_it_is(&mut handle, Status::Idle).await;
    let interrupted = ("interrupted".to_owned(), None);
    assert_eq!(
        idle_notices(&team).await,
        [interrupted, ("available".to_owned(), Some("I stopped.".to_owned()))]
    );
}

/// Starts `bob` and waits until `bob` has asked for a permission. Returns three values: the run of
/// `bob`, the receiver of the permission requests at `bob`'s own terminal, and the id of the
/// request.
async fn asking(
    setting: &TestRun,
    team: &Team,
) -> (RunHandle, mpsc::Receiver<pitcrew_runtime::run::Ask>, String) {
    tell(team, "bob", "Write it.").await;
    let script = "agents: {bob: [{tools: [{name: Write, input: {file_path: it, content: written}}]}, {text: Well.}]}";
    let (person, asked) = mpsc::channel(1);
    let mut options = setting.alone(script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let mut handle = start(options).await;
    until(&mut handle, |event| matches!(event, RunEvent::PermissionAsked { .. })).await;
    let mut changes = team.backend().watch(team.dir()).await.unwrap();
    let request = async {
        loop {
            if let Some(request) = team.requests().await.unwrap().into_keys().next() {
                return request;
            }
            changes.next().await.unwrap();
        }
    };
    let request = in_time("the request stands in the ledger", request).await;
    (handle, asked, request)
}

/// Reads events until two events have come: the permission was given, and the turn has ended. Their
/// order does not matter.
async fn until_it_was_allowed_and_done(handle: &mut RunHandle) {
    let (mut was_allowed, mut is_idle) = (false, false);
    let seen = |event: &RunEvent| {
        was_allowed |= matches!(event, RunEvent::PermissionAnswered { refused: None, .. });
        is_idle |= matches!(event, RunEvent::AgentChanged { status: Status::Idle, .. });
        was_allowed && is_idle
    };
    until(handle, seen).await;
}

#[tokio::test]
async fn a_permission_that_the_person_beside_it_gives_leaves_no_question_with_the_lead() {
    let setting = TestRun::new();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let (mut handle, mut asked, request) = asking(&setting, &team).await;
    let ask = asked.recv().await.unwrap();
    assert_eq!((ask.question.asker.as_str(), ask.question.tool.as_str()), ("bob", "Write"));
    ask.reply(Choice::Once);
    until_it_was_allowed_and_done(&mut handle).await;
    assert_eq!(std::fs::read_to_string(setting.cwd.join("it")).unwrap(), "written");
    assert!(team.requests().await.unwrap()[&request].answer.as_ref().unwrap().approved);
    let unread = team.unread(&AgentName::lead()).await.unwrap();
    assert!(
        unread.iter().all(|mail| !matches!(mail.frame, Some(Frame::PermissionRequest(_)))),
        "{unread:?}"
    );
    let late = PermissionAnswer::Deny { reason: "no".to_owned() };
    let error = team.answer_permission(&Actor::Lead, &request, late, None).await.unwrap_err();
    assert!(error.message.contains("is answered already"), "{error}");
}

#[tokio::test]
async fn always_given_beside_a_member_counts_for_it_and_its_lead_can_read_that() {
    let setting = TestRun::new();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let (mut handle, mut asked, _request) = asking(&setting, &team).await;
    let ask = asked.recv().await.unwrap();
    let offer = ask.question.offers.last().unwrap().clone();
    let rule = offer.rule().unwrap().to_owned();
    ask.reply(Choice::Always { offer, keep: Keep::Run });
    let (mut was_told, mut is_idle) = (None, false);
    let seen = |event: &RunEvent| {
        if let RunEvent::AllowedAlways { agent, what } = event {
            was_told = Some((agent.to_string(), what.clone()));
        }
        is_idle |= matches!(event, RunEvent::AgentChanged { status: Status::Idle, .. });
        was_told.is_some() && is_idle
    };
    until(&mut handle, seen).await;
    assert_eq!(was_told, Some(("bob".to_owned(), rule.clone())));
    let journal = team.backend().journal_since(team.dir(), 0).await.unwrap().0;
    let noted = |event: &Noted| matches!(event, Noted::AllowedAlways { member, what, lasts: true } if member.as_str() == "bob" && *what == rule);
    assert!(journal.iter().any(|entry| noted(&entry.event)), "{journal:?}");
    assert!(!setting.root.join("settings.json").exists(), "nothing was saved");
}

#[tokio::test]
async fn a_permission_that_the_lead_gives_takes_the_question_from_the_person_beside_it() {
    let setting = TestRun::new();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let (mut handle, mut asked, request) = asking(&setting, &team).await;
    let mut ask = asked.recv().await.unwrap();
    let allow = PermissionAnswer::Allow {
        updated_input: json!({"file_path": "it", "content": "changed"}),
        updates: Vec::new(),
        digest: None,
    };
    team.answer_permission(&Actor::Lead, &request, allow, None).await.unwrap();
    ask.answer.closed().await;
    until_it_was_allowed_and_done(&mut handle).await;
    assert_eq!(std::fs::read_to_string(setting.cwd.join("it")).unwrap(), "changed");
}

#[tokio::test]
async fn a_stopped_member_stays_in_the_team_and_goes_on_from_its_transcript() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    tell(&team, "bob", "Count.").await;
    let script = "agents: {bob: [{tools: [{name: TaskList}]}, {delay_ms: 600000, text: Late.}]}";
    let mut handle = start(setting.alone(script)).await;
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(_))).await;
    handle.stopper().stop();
    assert_eq!(finish(handle).await.outcome.end, RunEnd::Interrupted);
    assert_eq!(team.member("bob").await.unwrap().is_active, Some(false));
    let (options, model) = setting.alone_overheard("agents: {bob: [{text: one}, {text: Two.}]}");
    let mut again = start(options).await;
    until_it_is(&mut again, Status::Idle).await;
    assert_eq!(model.told_to("bob").len(), 1, "it was told what to do once");
    assert_eq!(idle_notices(&team).await, [("available".to_owned(), Some("Two.".to_owned()))]);
}

#[tokio::test]
async fn a_member_that_is_removed_ends() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let mut handle = start(setting.alone(&worker())).await;
    until_it_is(&mut handle, Status::Idle).await;
    team.remove_member(&Actor::Lead, &bob()).await.unwrap();
    let reason = "it was removed from the team".to_owned();
    assert_eq!(finish(handle).await.outcome.end, RunEnd::Failed { reason });
}

/// Removes `bob` from the config as another client does. No journal entry records the change.
async fn drop_bob(team: &Team) {
    let edit = |config: &mut TeamConfig| {
        config.members.retain(|member| member.name != bob());
        Ok(())
    };
    team.backend().edit_team(team.dir(), Arc::new(edit)).await.unwrap();
}

#[tokio::test]
async fn a_member_that_a_stale_config_drops_puts_itself_back_and_goes_on() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let mut handle = start(setting.alone(&worker())).await;
    until_it_is(&mut handle, Status::Idle).await;
    // The member may change its field `is_active` at any time. So the comparison ignores this
    // field.
    let entry = async || {
        let entry = team.config().await.unwrap().member("bob").cloned();
        entry.map(|bob| Member { is_active: None, ..bob })
    };
    for _ in 0..3 {
        let before = entry().await;
        drop_bob(&team).await;
        until(
            &mut handle,
            |event| matches!(event, RunEvent::Warning { text } if text.contains("put back")),
        )
        .await;
        assert_eq!(entry().await, before);
    }
    team.remove_member(&Actor::Lead, &bob()).await.unwrap();
    let reason = "it was removed from the team".to_owned();
    assert_eq!(finish(handle).await.outcome.end, RunEnd::Failed { reason });
}

#[tokio::test]
async fn a_member_whose_team_is_deleted_ends() {
    let setting = TestRun::in_files();
    let team = setting.with_bob_in_a_pane().await;
    let _lead = lead_lease(&team).await;
    let mut handle = start(setting.alone(&worker())).await;
    until_it_is(&mut handle, Status::Idle).await;
    team.backend().archive_team(team.dir()).await.unwrap();
    let outcome = finish(handle).await.outcome;
    assert_eq!(
        (outcome.end, outcome.team_deleted),
        (RunEnd::Failed { reason: "the team was deleted".to_owned() }, true)
    );
}

#[tokio::test]
async fn the_lead_of_a_run_can_be_interrupted_and_waits_for_a_word() {
    let setting = TestRun::new();
    let script = "agents: {team-lead: [{tools: [{name: Bash, input: {command: sleep 600}}]}, {text: I stopped.}]}";
    let mut options = setting.options(script);
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolStarted { .. })).await;
    handle.interrupt();
    until_it_is(&mut handle, Status::Idle).await;
    let word = SendMessageInput::Message {
        recipient: "team-lead".to_owned(),
        content: "What did you do?".to_owned(),
        summary: None,
    };
    setting.team().await.send(&Actor::User, word, None).await.unwrap();
    assert_eq!(finish(handle).await.success(), "I stopped.");
}
