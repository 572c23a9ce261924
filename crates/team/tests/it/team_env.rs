//! A test team with a lead and the teammates `worker` and `planner`. Its clock changes only when a
//! test sets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, Limits, Message, MessageId, Rate, SendMessageInput,
    TaskCreateInput, TaskUpdateInput, TeamCreateInput,
};
use pitcrew_store::{Backend, MemoryBackend, UnreadLimit};

use pitcrew_team::{
    Actor, Clock, CreateTeam, MadeBy, Mail, OnTaken, Sent, SpawnMember, Team, Teams,
};

#[derive(Debug)]
pub(crate) struct StillClock(AtomicI64);

impl StillClock {
    pub(crate) fn at(now_ms: i64) -> Self {
        Self(AtomicI64::new(now_ms))
    }
}

impl Clock for StillClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Crew {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Arc<StillClock>,
    pub(crate) teams: Teams,
    pub(crate) team: Team,
}

/// The default limits, but with very high rates. Only the tests of rates reach a rate limit.
pub(crate) fn limits() -> Limits {
    let often = Rate { count: 1_000_000, seconds: 60 };
    Limits {
        team_rate: often,
        spawn_rate: often,
        task_rate: often,
        call_rate: often,
        ..Limits::default()
    }
}

pub(crate) fn create(name: &str) -> CreateTeam {
    CreateTeam {
        input: TeamCreateInput {
            team_name: name.into(),
            description: Some("probe team".into()),
            agent_type: None,
        },
        cwd: "/home/dev/project".into(),
        model: "claude-sonnet-4-5-20250929".into(),
        session_id: "c8f283a3-44a1-4434-bd87-5f24b94924bf".into(),
        on_taken: OnTaken::Refuse,
        made_by: MadeBy::Caller,
        first_run: None,
    }
}

pub(crate) fn member(name: &str) -> SpawnMember {
    SpawnMember {
        name: name.into(),
        agent_type: "general-purpose".into(),
        model: "claude-opus-4-6".into(),
        prompt: "please do it".into(),
        cwd: "/home/dev/project".into(),
        ..SpawnMember::default()
    }
}

pub(crate) fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn as_member(of: &str) -> Actor {
    Actor::Member(name(of))
}

pub(crate) fn message(to: &str, content: &str) -> SendMessageInput {
    SendMessageInput::Message {
        recipient: to.into(),
        content: content.into(),
        summary: Some("a few words".into()),
    }
}

pub(crate) fn broadcast(content: &str) -> SendMessageInput {
    SendMessageInput::Broadcast { content: content.into(), summary: None }
}

pub(crate) fn task(subject: &str) -> TaskCreateInput {
    TaskCreateInput {
        subject: subject.into(),
        description: "what to do".into(),
        ..TaskCreateInput::default()
    }
}

pub(crate) fn update(id: &str) -> TaskUpdateInput {
    TaskUpdateInput { task_id: id.into(), ..TaskUpdateInput::default() }
}

impl Crew {
    pub(crate) async fn new() -> Self {
        Self::with(limits()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::on(Arc::new(MemoryBackend::new()), limits).await
    }

    pub(crate) async fn on(backend: Arc<dyn Backend>, limits: Limits) -> Self {
        let clock = Arc::new(StillClock::at(1_795_175_309_433));
        let teams = Teams::seeded(backend.clone(), limits, clock.clone(), 1);
        let (team, _) = teams.create(create("probe")).await.unwrap();
        team.spawn(member("worker")).await.unwrap();
        team.spawn(member("planner")).await.unwrap();
        Self { backend, clock, teams, team }
    }

    pub(crate) fn wait_ms(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) async fn send(&self, actor: &Actor, input: SendMessageInput) -> Sent {
        self.team.send(actor, input, None).await.unwrap()
    }

    pub(crate) async fn refused(&self, actor: &Actor, input: SendMessageInput) -> ApiError {
        self.team.send(actor, input, None).await.unwrap_err()
    }

    pub(crate) async fn unread(&self, of: &str) -> Vec<Mail> {
        self.team.unread(&name(of)).await.unwrap()
    }

    /// Writes into an inbox without any check, as another process is able to do.
    pub(crate) async fn forge(&self, to: &str, from: &str, text: &str) {
        let id = MessageId(format!("forged-{}", self.unread(to).await.len()));
        let message =
            Message::new(from, text.into(), "2026-11-20T11:48:29.735Z".into()).with_id(&id);
        let _new = self
            .backend
            .append(self.team.dir(), &name(to).inbox_file(), message, UnreadLimit::None)
            .await
            .unwrap();
    }
}

#[track_caller]
pub(crate) fn is(error: &ApiError, code: ErrorCode) {
    assert_eq!(error.code, code, "{error:?}");
}
