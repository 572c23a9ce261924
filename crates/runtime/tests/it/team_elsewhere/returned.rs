//! A lead that is started again and finds teammates in their own processes. Some teammates still
//! run, some have died, and some are no longer needed.

use pitcrew_panes::{NewPane, PaneId, PaneTag, Panes as _};
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{
    AgentName, Member, PaneHost, ProcessRef, Program, SendMessageInput, TeamCreateInput,
};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::hosting::{LaunchStage, member_bounds, root_word, rules_digest};
use pitcrew_runtime::run::{Begin, RunEnd, RunOptions, Runtime};
use pitcrew_team::store::Event;
use pitcrew_team::{Actor, CreateTeam, MadeBy, OnTaken, PanePlace, SpawnMember, Started, Team};
use rustix::process::Signal;

use super::{ONE, Played, bob, check_nothing_left, hosting, stages};
use crate::panes_process::ProcessPanes;
use crate::patience::{PATIENCE, in_time};
use crate::team_env::{TestRun, finish, until};

pub(super) fn tag(setting: &TestRun, agent: Option<&str>) -> PaneTag {
    let team = pitcrew_protocol::TeamDir::of("probe");
    PaneTag {
        root: root_word(&setting.root),
        team,
        agent: agent.map(|agent| AgentName::new(agent).unwrap()),
    }
}

/// Creates a team whose lead was killed, and whose teammate `bob` still runs in a pane.
pub(crate) async fn abandoned(setting: &TestRun, panes: &ProcessPanes) -> (Team, PaneId) {
    abandoned_with(setting, panes, sleeper(setting, "bob").argv).await
}

/// Creates a team whose lead was killed, and whose teammate `bob` still runs `argv` in a pane.
pub(crate) async fn abandoned_with(
    setting: &TestRun,
    panes: &ProcessPanes,
    argv: Vec<String>,
) -> (Team, PaneId) {
    let create = CreateTeam {
        input: TeamCreateInput { team_name: "probe".to_owned(), ..TeamCreateInput::default() },
        cwd: setting.cwd.display().to_string(),
        model: "script:test.yaml".to_owned(),
        session_id: "806a459e-20e5-4ee3-bf49-40e5333a7d9e".to_owned(),
        on_taken: OnTaken::Refuse,
        made_by: MadeBy::Caller,
        first_run: None,
    };
    let (team, _) = setting.teams.create(create).await.unwrap();
    let spawn = SpawnMember {
        name: "bob".to_owned(),
        agent_type: "general-purpose".to_owned(),
        prompt: "Do it.".to_owned(),
        cwd: setting.cwd.display().to_string(),
        backend_type: Some("pane".to_owned()),
        program: Program::Claude,
        max_turns: Some(5),
        ..SpawnMember::default()
    };
    let member = team.spawn(spawn).await.unwrap();
    team.send_prompt(&member, None).await.unwrap();
    let started = panes.start(&NewPane { argv, ..sleeper(setting, "bob") }).await.unwrap();
    let process = ProcessIdentity::of(started.pid.unwrap()).unwrap();
    let record = Started {
        process: Some(ProcessRef { pid: process.pid, start_ticks: process.start_ticks }),
        pane: Some(PanePlace { host: PaneHost::of("pane"), id: started.id.0.clone() }),
        program: "claude".to_owned().into(),
        bounds: Some(bounds_of(setting, &member)),
        owner: ProcessRef { pid: 1, start_ticks: 1 },
        at_ms: 0,
        deadline_ms: None,
    };
    team.note_started(&member.name, record).await.unwrap();
    team.set_place(&member.name, &started.id.0, "pane").await.unwrap();
    (team, started.id)
}

/// Returns the digest of the restrictions (rules and limits) that a resumed run would give to a
/// member.
fn bounds_of(setting: &TestRun, member: &Member) -> String {
    let agent_options = setting.options(ONE).agent_options;
    let rules =
        rules_digest(&agent_options.settings, &agent_options.root, &agent_options.project_agents);
    member_bounds(&rules, agent_options.limits, member)
}

/// Describes the pane that an earlier lead started for an agent. It has the tag by which pitcrew
/// recognises such a pane.
pub(crate) fn sleeper(setting: &TestRun, agent: &str) -> NewPane {
    NewPane {
        argv: vec!["sleep".to_owned(), "1000".to_owned()],
        cwd: setting.cwd.clone(),
        env: vec![("PITCREW_MEMBER".to_owned(), tag(setting, Some(agent)).to_string())],
        title: agent.to_owned(),
        color: None,
        tag: tag(setting, Some(agent)),
    }
}

pub(crate) fn resumed(setting: &TestRun, panes: &ProcessPanes) -> RunOptions {
    let script =
        ONE.replace("- tools: [{name: Task, input: {name: bob, description: Do the thing, prompt: Do task 1.}}]", "");
    let mut options = setting.options(&script);
    options.hosting = hosting(panes, Program::Claude, &["sleep", "1000"]).0;
    options.begin = Begin::Resume { team: "probe".to_owned(), goal: Some("Go on.".to_owned()) };
    options
}

#[tokio::test]
async fn a_lead_that_comes_back_minds_who_lives_and_closes_what_is_nobodys() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let (team, _) = abandoned(&setting, &panes).await;
    let lives = panes.processes();
    let theirs = panes.foreign().await;
    let ghost = panes.start(&sleeper(&setting, "ghost")).await.unwrap().id;
    let always =
        |what: &str, lasts| Event::AllowedAlways { member: bob(), what: what.to_owned(), lasts };
    team.note([always("Bash(make:*)", true), always("this very call of Bash", false)]).await;
    let mut handle = Runtime::start(resumed(&setting, &panes)).await.unwrap();
    let seen = until(&mut handle, |event| {
        stages(std::slice::from_ref(event)) == [LaunchStage::PromptTaken]
    })
    .await;
    let allowed = seen.iter().filter_map(|event| match event {
        RunEvent::AllowedAlways { agent, what } => Some((agent.as_str(), what.as_str())),
        _ => None,
    });
    assert_eq!(allowed.collect::<Vec<_>>(), [("bob", "Bash(make:*)")]);
    assert!(
        matches!(panes.state(&ghost).await, Ok(pitcrew_panes::PaneState::Gone)),
        "the ghost's pane is left"
    );
    assert!(lives[0].is_alive(), "bob was not left in peace");
    assert_eq!(team.started().await.unwrap()[&bob()].owner.pid, std::process::id());
    let bob = Played(team);
    bob.mail().await;
    bob.is_done().await;
    bob.says_goodbye().await;
    let _either = lives[0].signal(Signal::TERM).unwrap();
    assert_eq!(finish(handle).await.success(), "All is done.");
    assert!(matches!(panes.state(&theirs).await, Ok(pitcrew_panes::PaneState::Running { .. })));
    assert_eq!(panes.processes().len(), 1, "only the user's own pane is left");
}

#[tokio::test]
async fn a_lead_that_comes_back_starts_who_died_again_under_the_same_name() {
    let setting = TestRun::new();
    let panes = ProcessPanes::new();
    let (team, old) = abandoned(&setting, &panes).await;
    let died = panes.processes();
    let bob = Played(team);
    bob.mail().await;
    let _either = died[0].signal(Signal::KILL).unwrap();
    died[0].ended().await;
    let mut options = resumed(&setting, &panes);
    let (hosting, placements) = hosting(&panes, Program::Claude, &["sleep", "1000"]);
    options.hosting = hosting;
    options.agent_options.limits.max_turns = Some(50);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    assert_eq!(
        placements.lock().unwrap()[0].max_turns,
        Some(5),
        "what it was spawned with is less than what the run has"
    );
    assert!(
        matches!(panes.state(&old).await, Ok(pitcrew_panes::PaneState::Gone)),
        "the old pane is left"
    );
    // The new process has no memory of the earlier one, so it receives the prompt again.
    assert_eq!(bob.mail().await.message.text, "Do it.");
    bob.is_done().await;
    let lives = panes.processes();
    bob.says_goodbye().await;
    let _either = lives[0].signal(Signal::TERM).unwrap();
    assert_eq!(finish(handle).await.success(), "All is done.");
    check_nothing_left(&setting, &panes, &lives).await;
}

/// Creates the team of [`abandoned`]. The teammate has approved its shutdown before the lead
/// crashed. Also returns the teammate's process.
async fn abandoned_after_a_goodbye(
    setting: &TestRun,
    panes: &ProcessPanes,
) -> (Played, Vec<ProcessIdentity>) {
    let (team, _) = abandoned(setting, panes).await;
    let lead = team.clone().sealed(pitcrew_team::LeadSigner::make(team.teams()).unwrap());
    let request = SendMessageInput::ShutdownRequest { recipient: "bob".to_owned(), content: None };
    let bob = Played(team);
    bob.mail().await;
    lead.send(&Actor::Lead, request, None).await.unwrap();
    bob.says_goodbye().await;
    (bob, panes.processes())
}

#[tokio::test]
async fn a_lead_that_comes_back_stops_what_is_left_of_who_agreed_to_shut_down() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (_bob, processes) = abandoned_after_a_goodbye(&setting, &panes).await;
    finish(Runtime::start(resumed(&setting, &panes)).await.unwrap()).await;
    check_nothing_left(&setting, &panes, &processes).await;
}

#[tokio::test]
async fn a_lead_that_comes_back_stops_what_is_left_of_who_was_taken_out_before_the_crash() {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let (bob, processes) = abandoned_after_a_goodbye(&setting, &panes).await;
    bob.0.remove_member(&Actor::User, &AgentName::new("bob").unwrap()).await.unwrap();
    finish(Runtime::start(resumed(&setting, &panes)).await.unwrap()).await;
    check_nothing_left(&setting, &panes, &processes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_a_stopped_run_ends_where_it_is_without_being_asked_and_is_started_anew_by_the_next()
 {
    let setting = TestRun::in_files();
    let panes = ProcessPanes::new();
    let mut options = setting.options(ONE);
    options.hosting = hosting(&panes, Program::Claude, &["sleep", "1000"]).0;
    options.agent_options.shutdown_grace = PATIENCE;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    let bob = Played::bob(&setting).await;
    bob.mail().await;
    bob.is_active(true).await;
    let first = panes.processes();
    handle.stopper().stop();
    // The process never answers. If the run waited for an answer, it would end only after the
    // shutdown grace (the time limit for a shutdown).
    let ran = in_time("the run has ended", finish(handle)).await;
    assert_eq!(ran.outcome.end, RunEnd::Interrupted);
    assert!(!first[0].is_alive());
    assert!(bob.0.config().await.unwrap().member("bob").is_some(), "bob was taken out of the team");
    let asked = bob.0.requests().await.unwrap();
    assert_eq!(asked.len(), 0, "it was asked to shut down: {asked:?}");

    let mut options = resumed(&setting, &panes);
    options.agent_options.shutdown_grace = PATIENCE;
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| stages(std::slice::from_ref(event)) == [LaunchStage::Started]).await;
    assert_eq!(
        bob.mail().await.message.text,
        "Do task 1.",
        "it is told what to do, and not to shut down"
    );
    bob.is_told_nothing_more().await;
    let second = panes.processes();
    assert!(second[0].is_alive(), "the answer to the former run's request has ended it");
    bob.is_done().await;
    bob.says_goodbye().await;
    let _either = second[0].signal(Signal::TERM).unwrap();
    assert_eq!(finish(handle).await.success(), "All is done.");
    check_nothing_left(&setting, &panes, &second).await;
}
