//! A member that runs alone in its own process. The test plays the team's lead.

use std::sync::Arc;

use futures_util::StreamExt as _;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{AgentName, Frame, SendMessageInput, Status, TeamCreateInput};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::{Entry, RunHandle, Runtime, SoloOptions};
use pitcrew_team::store::{Lease, LeaseHolder, LeaseName};
use pitcrew_team::{Actor, CreateTeam, MadeBy, Mail, OnTaken, SpawnMember, Team};

use crate::patience::in_time;
use crate::team_env::{Overheard, TestRun, until};

/// The last steps in the script of a member. The member waits for a shutdown request and approves
/// it.
pub(crate) const AGREES: &str = r#"
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

impl TestRun {
    /// Returns the options with which the member `bob` runs. A lead has already added `bob` to the
    /// team.
    pub(crate) fn alone(&self, script: &str) -> SoloOptions {
        let (options, _model) = self.alone_overheard(script);
        options
    }

    /// Returns the options with which `bob` runs on a script, and the model of this run. The model
    /// records all requests.
    pub(crate) fn alone_overheard(&self, script: &str) -> (SoloOptions, Arc<Overheard>) {
        let (options, overheard) = self.overheard(script);
        let options = SoloOptions {
            teams: options.teams,
            team: "probe".to_owned(),
            name: "bob".to_owned(),
            entry: Entry::Placed,
            model: None,
            agent_type: None,
            color: None,
            lead_key: None,
            lead_process: None,
            agent_options: options.agent_options,
        };
        (options, overheard)
    }

    /// Creates a team in which the config names a pane for `bob`, but no process runs `bob` yet.
    pub(crate) async fn with_bob_in_a_pane(&self) -> Team {
        let create = CreateTeam {
            input: TeamCreateInput {
                team_name: "probe".to_owned(),
                description: None,
                agent_type: None,
            },
            cwd: self.cwd.to_string_lossy().into_owned(),
            model: "script:lead.yaml".to_owned(),
            session_id: "806a459e-20e5-4ee3-bf49-40e5333a7d9e".to_owned(),
            on_taken: OnTaken::Refuse,
            made_by: MadeBy::Caller,
            first_run: None,
        };
        let (team, _created) = self.teams.create(create).await.unwrap();
        let spawn = SpawnMember {
            name: "bob".to_owned(),
            agent_type: "general-purpose".to_owned(),
            model: "script:test.yaml".to_owned(),
            prompt: "Do it.".to_owned(),
            cwd: self.cwd.to_string_lossy().into_owned(),
            backend_type: Some("tmux".to_owned()),
            ..SpawnMember::default()
        };
        team.spawn(spawn).await.unwrap();
        team.set_place(&bob(), "%7", "tmux").await.unwrap();
        team
    }
}

pub(crate) fn bob() -> AgentName {
    AgentName::new("bob").unwrap()
}

/// Takes the lease that a lead's process holds as long as the process lives.
pub(crate) async fn lead_lease(team: &Team) -> Lease {
    let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
    let holder = LeaseHolder { pid, start_ticks, since_ms: 0, verify_key: None, prepares: false };
    team.backend().take_lease(team.dir(), &LeaseName::Run, &holder).await.unwrap().unwrap()
}

/// Sends a message from the lead to a member.
pub(crate) async fn tell(team: &Team, recipient: &str, text: &str) {
    let message = SendMessageInput::Message {
        recipient: recipient.to_owned(),
        content: text.to_owned(),
        summary: Some("a word".to_owned()),
    };
    team.send(&Actor::Lead, message, None).await.unwrap();
}

/// Sends a shutdown request from the lead to a member.
pub(crate) async fn dismiss(team: &Team, recipient: &str) {
    let request =
        SendMessageInput::ShutdownRequest { recipient: recipient.to_owned(), content: None };
    team.send(&Actor::Lead, request, None).await.unwrap();
}

pub(crate) async fn lead_mail(team: &Team) -> Vec<Mail> {
    team.mail(&AgentName::lead()).await.unwrap()
}

/// Returns the idle notices in the lead's inbox. Each entry has the reason of the notice and the
/// member's last text.
pub(crate) async fn idle_notices(team: &Team) -> Vec<(String, Option<String>)> {
    let mail = lead_mail(team).await;
    let notices = mail.into_iter().filter_map(|mail| match mail.frame {
        Some(Frame::IdleNotification(idle)) => {
            Some((idle.idle_reason.unwrap_or_default(), idle.result))
        }
        _ => None,
    });
    notices.collect()
}

pub(crate) async fn start(options: SoloOptions) -> RunHandle {
    Runtime::join(options).await.unwrap()
}

/// Reads events of the run until the run's agent has the wanted status.
pub(crate) async fn until_it_is(handle: &mut RunHandle, wanted: Status) -> Vec<RunEvent> {
    until(
        handle,
        |event| matches!(event, RunEvent::AgentChanged { status, .. } if *status == wanted),
    )
    .await
}

/// Waits until the team's config says that the member is in a turn. If `is_active` is false, waits
/// until the config says that it is not.
pub(crate) async fn until_the_config_says(team: &Team, name: &str, is_active: bool) {
    let mut changes = team.backend().watch(team.dir()).await.unwrap();
    let says_so = async {
        while team.member(name).await.unwrap().is_active != Some(is_active) {
            changes.next().await.unwrap();
        }
    };
    in_time("the config says so", says_so).await;
}
