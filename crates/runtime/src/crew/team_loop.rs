//! The loop itself: what wakes it, and how the orders of the course are carried out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_protocol::{
    AgentName, Frame, InboxFile, Member, MessageId, PermissionRequest, SendMessageInput, neutralised,
};
use pitcrew_team::store::{Change, Lease, Watch};
use pitcrew_team::{Actor, PermissionAnswer};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::answers::{Pending, decide};
use super::course::{Course, News, Order, Why};
use super::in_process::InProcess;
use super::ledger::Ledger;
use super::quarters::Quarters;
use super::wake::{Decision, Desk, Request, Wake};
use crate::agent::{Event, Mail};
use crate::driver::{Link, Report, ReportKind, chain};
use crate::events::RunEvent;
use crate::prompts::Prompt;
use crate::run::{KeptWorktree, RunLimits, Stopper};
use crate::tools::ToolOutcome;
use crate::transcript::Grant;

/// The loop of one team, and all that it owns.
pub(super) struct TeamLoop {
    pub(super) quarters: Quarters,
    pub(super) desk: Desk,
    pub(super) course: Course,
    pub(super) here: InProcess,
    pub(super) crew: BTreeMap<AgentName, Hand>,
    pub(super) ledger: Ledger,
    pub(super) limits: RunLimits,
    pub(super) kept: Vec<KeptWorktree>,
    pub(super) lead_text: Option<String>,
    pub(super) farewells: BTreeMap<AgentName, Farewell>,
    pub(super) adopted: Adopted,
    /// How many subagents were sent out.
    pub(super) errands: u32,
    pub(super) wakers: Wakers,
    pub(super) grace: Duration,
    pub(super) is_over: bool,
    /// Held for its drop: while we have it, no other process runs the team.
    pub(super) _lease: Lease,
}

/// Everything the loop waits for.
pub(super) struct Wakers {
    pub(super) stopper: Stopper,
    pub(super) reports: mpsc::Receiver<Report>,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) watch: Option<Watch>,
    pub(super) decisions: FuturesUnordered<BoxFuture<'static, Decision>>,
    pub(super) grace: Option<Pin<Box<Sleep>>>,
    pub(super) was_stopped: bool,
    pub(super) was_killed: bool,
}

/// An agent that lives.
pub(super) struct Hand {
    pub(super) link: Link,
    pub(super) inbox: InboxFile,
    pub(super) part: Part,
    /// Its mode as the config had it when we last looked.
    pub(super) mode_in_config: Option<String>,
    pub(super) turns: u32,
}

/// What an agent is to the loop.
pub(super) enum Part {
    Lead,
    Teammate {
        worktree: Option<std::path::PathBuf>,
    },
    /// Its last word goes to the call that sent it out.
    Errand(oneshot::Sender<ToolOutcome>),
}

/// A teammate that shuts down does two things: it writes to the lead, and it ends. The lead is told when both are seen, so
/// that it finds the team without it.
pub(super) enum Farewell {
    /// Its message is there, and it has not ended.
    Said(MessageId),
    /// It has ended, and its message was not seen; this is what the lead is to know.
    Gone(String),
}

/// How the lead stands to the team that the run made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adopted {
    /// It has not asked for a team yet.
    NotYet,
    /// The team is its own.
    Yes,
    /// It has deleted the team.
    Deleted,
}

impl Wakers {
    async fn next(&mut self) -> Wake {
        let grace = async {
            match &mut self.grace {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        };
        let changed = async {
            match &mut self.watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stopper.killed(), if !self.was_killed => Wake::Killed,
            () = self.stopper.stopped(), if !self.was_stopped => Wake::StopAsked,
            Some(report) = self.reports.recv() => Wake::Reported(report),
            Some(decision) = self.decisions.next() => Wake::Decided(decision),
            Some(request) = self.requests.recv() => Wake::Requested(request),
            change = changed => Wake::Changed(change.unwrap_or(Change::Gone)),
            () = grace => Wake::GraceOver,
        }
    }
}

impl TeamLoop {
    /// Runs until all is over.
    pub(super) async fn run(&mut self) {
        while !self.is_done() {
            let wake = self.wakers.next().await;
            let news = self.woken(wake).await;
            self.follow(news).await;
        }
        self.here.join().await;
    }

    fn is_done(&self) -> bool {
        self.is_over || (self.wakers.was_killed && self.crew.is_empty())
    }

    async fn woken(&mut self, wake: Wake) -> Vec<News> {
        match wake {
            Wake::Changed(change) => self.changed(change).await,
            Wake::Reported(report) => self.reported(report).await,
            Wake::Requested(request) => self.requested(request).await,
            Wake::Decided(decision) => {
                self.decided(decision).await;
                Vec::new()
            }
            Wake::StopAsked => {
                self.wakers.was_stopped = true;
                vec![News::EndAsked(Why::Interrupted)]
            }
            Wake::Killed => {
                self.wakers.was_killed = true;
                self.here.kill();
                Vec::new()
            }
            Wake::GraceOver => {
                self.wakers.grace = None;
                vec![News::GraceOver]
            }
        }
    }

    /// Lets the course hear the news, and carries out its orders.
    pub(super) async fn follow(&mut self, news: Vec<News>) {
        let mut news = VecDeque::from(news);
        while let Some(item) = news.pop_front() {
            for order in self.course.hear(item) {
                news.extend(self.carry_out(order).await);
            }
        }
    }

    async fn carry_out(&mut self, order: Order) -> Vec<News> {
        match order {
            Order::LookAround => return self.look_around().await,
            Order::WakeLead => self.tell_lead(Event::Wake),
            Order::Remind(names) => self.remind(&names),
            Order::AskToShutDown(names) => {
                self.ask_to_shut_down(&names).await;
                self.start_grace();
            }
            Order::Kill(names) => {
                let reason = "it did not shut down in time".to_owned();
                self.tell_all(&names, |link| link.tell(Event::Killed { reason: reason.clone() }));
                self.start_grace();
            }
            Order::Drop(names) => self.tell_all(&names, Link::cancel),
            Order::EndLead(reason) => {
                self.tell_lead(Event::StopAsked { reason });
                self.start_grace();
            }
            Order::DropLead => self.tell_all(&[AgentName::lead()], Link::cancel),
            Order::Finish => self.is_over = true,
        }
        Vec::new()
    }

    fn start_grace(&mut self) {
        self.wakers.grace = Some(Box::pin(tokio::time::sleep(self.grace)));
    }

    fn tell_all(&self, names: &[AgentName], tell: impl Fn(&Link)) {
        names.iter().filter_map(|name| self.crew.get(name)).for_each(|hand| tell(&hand.link));
    }

    pub(super) fn tell_lead(&self, event: Event) {
        if let Some(lead) = self.crew.get(&AgentName::lead()) {
            lead.link.tell(event);
        }
    }

    pub(super) async fn warn(&mut self, text: String) {
        tracing::warn!("{text}");
        self.quarters.sink.tell(RunEvent::Warning { text }).await;
    }

    /// Sees whether a teammate has mail it has not taken. A teammate reports that it works before it marks mail read, so
    /// when nothing is unread, whoever is at work has said so: those reports are heard first.
    async fn look_around(&mut self) -> Vec<News> {
        for (name, hand) in &self.crew {
            if !matches!(hand.part, Part::Teammate { .. }) {
                continue;
            }
            match self.quarters.team.unread(name).await {
                Ok(unread) if unread.is_empty() => {}
                Ok(_) => {
                    hand.link.ring();
                    return Vec::new();
                }
                Err(error) => tracing::warn!(agent = %name, %error, "an inbox cannot be read"),
            }
        }
        let mut news = Vec::new();
        while let Ok(report) = self.wakers.reports.try_recv() {
            news.extend(self.reported(report).await);
        }
        news.push(News::AllQuiet);
        news
    }

    fn remind(&self, names: &[AgentName]) {
        let members = names.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
        match Prompt::HeadlessShutdown.render(&[("members", &members)]) {
            Ok(text) => self.tell_lead(Event::Told {
                text: format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text)),
                ids: Vec::new(),
            }),
            Err(error) => tracing::error!(%error, "a prompt does not fit its values"),
        }
    }

    async fn ask_to_shut_down(&mut self, names: &[AgentName]) {
        let reason = self.course.why().map(Why::in_words).unwrap_or_default();
        self.quarters.sink.tell(RunEvent::ShuttingDown { reason: reason.clone() }).await;
        for name in names {
            let input =
                SendMessageInput::ShutdownRequest { recipient: name.to_string(), content: Some(reason.clone()) };
            if let Err(error) = self.quarters.team.send(&Actor::Lead, input, None).await {
                self.warn(format!("{name} cannot be asked to shut down: {}", chain(&error))).await;
            }
        }
    }

    async fn changed(&mut self, change: Change) -> Vec<News> {
        match change {
            Change::Inbox(file) => {
                if let Some(hand) = self.crew.values().find(|hand| hand.inbox == file) {
                    hand.link.ring();
                }
            }
            Change::Config => self.config_changed().await,
            Change::Tasks => {}
            Change::Unsure => {
                self.crew.values().for_each(|hand| hand.link.ring());
                self.config_changed().await;
            }
            Change::Gone => {
                self.wakers.watch = None;
                if self.adopted != Adopted::Deleted {
                    return vec![News::EndAsked(Why::Gone)];
                }
            }
        }
        Vec::new()
    }

    /// Lets agents know of a mode that was changed from outside, and ends those that were removed.
    async fn config_changed(&mut self) {
        let Ok(config) = self.quarters.team.config().await else { return };
        // Agents go by the very names the config gave them, but for the odd edit by hand; there may be thousands.
        let members: HashMap<&AgentName, &Member> =
            config.members.iter().map(|member| (&member.name, member)).collect();
        for (name, hand) in &mut self.crew {
            let Some(member) = members.get(name).copied().or_else(|| config.member(name.as_str())) else {
                if matches!(hand.part, Part::Teammate { .. }) {
                    hand.link.tell(Event::Killed { reason: "it was removed from the team".to_owned() });
                }
                continue;
            };
            if member.mode == hand.mode_in_config {
                continue;
            }
            hand.mode_in_config.clone_from(&member.mode);
            let named = member.mode.clone().and_then(|mode| serde_json::from_value(mode.into()).ok());
            if let Some(mode) = named {
                hand.link.tell(Event::ModeChanged(mode));
                self.quarters.sink.tell(RunEvent::ModeChanged { agent: name.clone(), mode }).await;
            }
        }
    }

    async fn reported(&mut self, report: Report) -> Vec<News> {
        let Report { agent, kind } = report;
        let is_errand = matches!(self.crew.get(&agent), Some(Hand { part: Part::Errand(_), .. }));
        match kind {
            ReportKind::Announced(status) => {
                self.ledger.of(&agent).state = status;
                if is_errand {
                    return Vec::new();
                }
                self.note_state(&agent, status, None).await;
                vec![News::Announced(agent, status)]
            }
            ReportKind::Spent { model, usage, cost_usd } => self.spent(&agent, model, usage, cost_usd).await,
            ReportKind::Called => {
                self.ledger.of(&agent).tool_calls += 1;
                Vec::new()
            }
            ReportKind::Referred(mail) => self.referred(mail).await,
            ReportKind::Asks { call, question } => {
                let pending = Pending {
                    agent: agent.clone(),
                    tool: call.tool.clone(),
                    input: call.input.clone(),
                    description: question.description,
                };
                let asks = self.quarters.asks.clone();
                let deciding = async move { Decision::AtOnce { agent, call, grant: decide(asks, pending).await } };
                self.wakers.decisions.push(Box::pin(deciding));
                Vec::new()
            }
            ReportKind::UsedUp => self.used_up(&agent),
            ReportKind::Ended { status, reason, text } => self.ended(&agent, status, reason, text).await,
            ReportKind::Dropped => self.dropped(&agent).await,
        }
    }

    fn used_up(&self, agent: &AgentName) -> Vec<News> {
        let turns = self.crew.get(agent).map_or(0, |hand| hand.turns);
        match self.limits.max_turns {
            Some(most) if turns >= most => {
                vec![News::EndAsked(Why::Limit(format!("{agent} has used all of its {most} turns")))]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Acts on a frame in the lead's inbox that is not for its model. It stays unread until it is dealt with; after a crash
    /// in between it comes here again.
    async fn referred(&mut self, mail: Mail) -> Vec<News> {
        match mail.frame {
            Some(Frame::PermissionRequest(request)) => self.asked(mail.id, request).await,
            Some(Frame::ShutdownApproved(_) | Frame::ShutdownResponse(_)) => {
                self.said_goodbye(&AgentName::foreign(&mail.from), mail.id).await;
            }
            Some(_) | None => self.tell_lead(Event::Settled(vec![mail.id])),
        }
        Vec::new()
    }

    async fn asked(&mut self, mail: MessageId, asked: PermissionRequest) {
        let ledger = self.quarters.team.requests().await.unwrap_or_default();
        if ledger.get(&asked.request_id).is_some_and(|request| request.answer.is_some()) {
            return self.tell_lead(Event::Settled(vec![mail]));
        }
        let agent = AgentName::foreign(&asked.agent_id);
        let pending = Pending {
            agent: agent.clone(),
            tool: asked.tool_name,
            input: asked.input.unwrap_or_default(),
            description: asked.description.unwrap_or_default(),
        };
        let (asks, input) = (self.quarters.asks.clone(), pending.input.clone());
        let (request, call) = (asked.request_id, asked.tool_use_id.unwrap_or_default());
        let deciding = async move {
            let grant = decide(asks, pending).await;
            Decision::ByMail { agent, mail, request, call, input, grant }
        };
        self.wakers.decisions.push(Box::pin(deciding));
    }

    async fn decided(&mut self, decision: Decision) {
        let refused = |grant: &Grant| match grant {
            Grant::Allowed { .. } => None,
            Grant::Denied { reason } => Some(reason.clone()),
        };
        let (agent, call, refused) = match decision {
            Decision::AtOnce { agent, call, grant } => {
                let refused = refused(&grant);
                if let Some(hand) = self.crew.get(&agent) {
                    hand.link.tell(Event::Answered { call: call.id.clone(), grant });
                }
                (agent, call.id, refused)
            }
            Decision::ByMail { agent, mail, request, call, input, grant } => {
                let refused = refused(&grant);
                let answer = match grant {
                    Grant::Allowed { input: changed, updates } => {
                        PermissionAnswer::Allow { updated_input: changed.unwrap_or(input), updates }
                    }
                    Grant::Denied { reason } => PermissionAnswer::Deny { reason },
                };
                if let Err(error) = self.quarters.team.answer_permission(&Actor::Lead, &request, answer, None).await {
                    self.warn(format!("the permission request of {agent} cannot be answered: {}", chain(&error))).await;
                }
                self.tell_lead(Event::Settled(vec![mail]));
                (agent, call, refused)
            }
        };
        self.quarters.sink.tell(RunEvent::PermissionAnswered { agent, call, refused }).await;
    }
}
