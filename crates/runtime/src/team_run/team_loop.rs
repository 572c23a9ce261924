//! The loop itself: what wakes it, and how the orders of the course are carried out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{Aborted, BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use pitcrew_protocol::{
    AgentName, Frame, InboxFile, LEAD_NAME, Member, MessageId, PermissionMode, Status, TaskId,
    chain, counted,
};
use pitcrew_team::store::{Change, Lease, Watch};
use pitcrew_team::{KnownMode, ModeLook, RefusedMode, RunBounds};
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::agent_handle::AgentHandle;
use super::answers::Pending;
use super::client_turns::{ClientTurns, TurnState, owes_goodbye, owes_notice};
use super::ends::Answers;
use super::in_process::InProcess;
use super::recovery::Unremoved;
use super::remote::{RemoteReport, TURN_SHOWS_WITHIN};
use super::run_context::RunContext;
use super::run_machine::{EndReason, RunAction, RunInput, RunMachine};
use super::start::TeamCreateState;
use super::subagents::{SubagentRun, SubagentRuns};
use super::usage_totals::UsageTotals;
use super::wake::{Asked, Decision, LoopHandle, Request, Wake};
use crate::agent::{Event, Mail};
use crate::control_socket::ControlServer;
use crate::driver::{AgentSender, Announcement, Report, ReportKind};
use crate::events::RunEvent;
use crate::hosting::Hosting;
use crate::run::{KeptWorktree, Limit, RunLimits, Shortfall, Stopper, TaskSummary};

/// The loop of one team, and all that it owns.
pub(super) struct TeamLoop {
    pub(super) run_context: RunContext,
    pub(super) loop_handle: LoopHandle,
    pub(super) machine: RunMachine,
    pub(super) here: InProcess,
    pub(super) agents: BTreeMap<AgentName, RunningAgent>,
    pub(super) usage_totals: UsageTotals,
    pub(super) limits: RunLimits,
    pub(super) kept: Vec<KeptWorktree>,
    pub(super) lead_text: Option<String>,
    pub(super) unapproved_plan: Option<String>,
    /// The lead ended since something under it failed.
    pub(super) lead_is_broken: bool,
    /// The tasks of a team that its lead has deleted, as they were then.
    pub(super) deleted_tasks: Option<Vec<TaskSummary>>,
    /// Those of them that were open and could not be read.
    pub(super) deleted_lost: Vec<TaskId>,
    /// When this run began, and how long those before it took.
    pub(super) began: (Instant, Duration),
    /// How long the vendor of the lead's model asks to wait, once the lead is parked.
    pub(super) retry_after: Option<Duration>,
    pub(super) departures: BTreeMap<AgentName, Departure>,
    /// Members that ended and could not be taken out of the team, with their worktrees.
    pub(super) unremoved: Unremoved,
    pub(super) team_create: TeamCreateState,
    pub(super) hosting: Hosting,
    /// Where teammates in panes find the command line's own layer of settings.
    pub(super) settings_file: Option<PathBuf>,
    /// Whether it goes on from an earlier run.
    pub(super) is_resumed: bool,
    /// Where minders report.
    pub(super) supervisors: mpsc::Sender<RemoteReport>,
    /// How far the journal was read.
    pub(super) journal_position: u64,
    /// The last state of everybody before this run, and what was said of it.
    pub(super) last_states: BTreeMap<AgentName, (Status, Option<String>)>,
    /// The model calls of everybody before this run, of whom the transcript is not read here.
    pub(super) last_turns: BTreeMap<AgentName, u32>,
    /// Who sent what is on its way to teammates elsewhere, for the face.
    pub(super) senders: HashMap<MessageId, String>,
    /// How teammates elsewhere ended, by their own word, whose processes are not gone yet.
    pub(super) last_words: BTreeMap<AgentName, (Status, Option<String>)>,
    /// The permission requests that somebody is being asked about, by their ids.
    pub(super) asked: BTreeMap<String, Asked>,
    /// What teammates of another client were seen at by their mail.
    pub(super) client_turns: BTreeMap<AgentName, ClientTurns>,
    /// The subagents that there were.
    pub(super) subagents: SubagentRuns,
    pub(super) sources: EventSources,
    pub(super) grace: Duration,
    /// The same for teammates that are asked to leave, which a user may wait for longer.
    pub(super) asking_grace: Duration,
    /// The inbox whose unread mail kept the run from being over: when it changes, the loop looks around again.
    pub(super) looks_again_at: Option<InboxFile>,
    pub(super) is_over: bool,
    /// What the command line set for the team.
    pub(super) bounds: RunBounds,
    /// While we have it, no other process runs the team; none once the team is deleted.
    pub(super) lease: Option<Lease>,
}

/// Everything the loop waits for.
pub(super) struct EventSources {
    pub(super) stopper: Stopper,
    pub(super) reports: mpsc::Receiver<Report>,
    pub(super) remote_reports: mpsc::Receiver<RemoteReport>,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) watch: Option<Watch>,
    pub(super) control: Option<ControlServer>,
    pub(super) decisions: FuturesUnordered<BoxFuture<'static, Result<Decision, Aborted>>>,
    pub(super) grace: Option<Pin<Box<Sleep>>>,
    /// Runs after a death, until what it may have left can be told from what lives.
    pub(super) tidying: Option<Pin<Box<Sleep>>>,
    /// Runs while somebody is to be taken out of the team who could not be.
    pub(super) removing: Option<Pin<Box<Sleep>>>,
    /// Runs while a client that is not ours has a request to shut down to answer.
    pub(super) answer_due: Option<Pin<Box<Sleep>>>,
    /// Runs while a client that is not ours may be about to begin a turn.
    pub(super) turn_due: Option<Pin<Box<Sleep>>>,
    pub(super) was_stopped: bool,
    pub(super) was_killed: bool,
}

impl EventSources {
    /// Those that every run has; the others come when there is something to wait for.
    pub(super) fn new(
        stopper: Stopper,
        reports: mpsc::Receiver<Report>,
        remote_reports: mpsc::Receiver<RemoteReport>,
        requests: mpsc::Receiver<Request>,
        watch: Watch,
    ) -> Self {
        Self {
            stopper,
            reports,
            remote_reports,
            requests,
            watch: Some(watch),
            control: None,
            decisions: FuturesUnordered::new(),
            grace: None,
            tidying: None,
            removing: None,
            answer_due: None,
            turn_due: None,
            was_stopped: false,
            was_killed: false,
        }
    }
}

/// An agent that lives.
pub(super) struct RunningAgent {
    pub(super) body: AgentHandle,
    pub(super) inbox: InboxFile,
    pub(super) part: AgentKind,
    /// Its mode, as far as the config may decide that.
    pub(super) known_mode: Option<KnownMode>,
    /// Its entry in the config, as it was seen last; none for an agent that has none of its own.
    pub(super) member: Option<Member>,
    pub(super) turns: u32,
    /// Whether it can answer a request to shut down.
    pub(super) answers: Answers,
}

/// What an agent is to the loop.
pub(super) enum AgentKind {
    Lead,
    Teammate { worktree: Option<PathBuf> },
    SubagentRun(Box<SubagentRun>),
}

/// A teammate that shuts down does two things: it writes to the lead, and it ends. The lead is told when both are seen, so
/// that it finds the team without it.
pub(super) enum Departure {
    /// Its message is there, and it has not ended.
    Said(MessageId),
    /// It has ended, and its message was not seen; this is what the lead is to know.
    Gone(String),
}

impl EventSources {
    async fn next(&mut self) -> Wake {
        tokio::select! {
            biased;
            () = self.stopper.killed(), if !self.was_killed => Wake::Killed,
            () = self.stopper.stopped(), if !self.was_stopped => Wake::StopAsked,
            () = self.stopper.interrupted() => Wake::Interrupted,
            Some(report) = self.reports.recv() => Wake::Reported(report),
            Some(remote_report) = self.remote_reports.recv() => Wake::Sighted(remote_report),
            Some(decision) = self.decisions.next() => decision.map_or(Wake::TakenBack, Wake::Decided),
            Some(request) = self.requests.recv() => Wake::Requested(request),
            // What is not there wakes nobody.
            Some(call) = OptionFuture::from(self.control.as_mut().map(ControlServer::next)) => Wake::Visited(call),
            Some(change) = OptionFuture::from(self.watch.as_mut().map(StreamExt::next)) => Wake::Changed(change.unwrap_or(Change::Gone)),
            Some(()) = OptionFuture::from(self.grace.as_mut()) => Wake::GraceOver,
            Some(()) = OptionFuture::from(self.tidying.as_mut()) => Wake::TidyDue,
            Some(()) = OptionFuture::from(self.removing.as_mut()) => Wake::RemovalDue,
            Some(()) = OptionFuture::from(self.answer_due.as_mut()) => Wake::AnswerOverdue,
            Some(()) = OptionFuture::from(self.turn_due.as_mut()) => Wake::TurnOverdue,
        }
    }
}

impl TeamLoop {
    /// Runs until all is over.
    pub(super) async fn run(&mut self) {
        while !self.is_done() {
            let wake = self.sources.next().await;
            let inputs = self.woken(wake).await;
            self.follow(inputs).await;
        }
        self.here.join().await;
    }

    fn is_done(&self) -> bool {
        self.is_over || (self.sources.was_killed && self.agents.is_empty())
    }

    async fn woken(&mut self, wake: Wake) -> Vec<RunInput> {
        match wake {
            Wake::Changed(change) => self.changed(change).await,
            Wake::Reported(report) => self.reported(report).await,
            Wake::Sighted(remote_report) => self.sighted(remote_report).await,
            Wake::Requested(request) => self.requested(request).await,
            Wake::Visited(call) => self.visited(call).await,
            Wake::Decided(decision) => {
                self.decided(decision).await;
                Vec::new()
            }
            Wake::TakenBack => Vec::new(),
            Wake::Interrupted => {
                self.tell_lead(Event::Interrupted);
                self.drop_subagents(&AgentName::lead(), |subagent| !subagent.is_in_background());
                vec![RunInput::LeadInterrupted]
            }
            Wake::StopAsked => {
                self.sources.was_stopped = true;
                vec![RunInput::EndAsked(EndReason::Interrupted)]
            }
            Wake::Killed => {
                self.sources.was_killed = true;
                self.here.kill();
                Vec::new()
            }
            Wake::TidyDue => {
                self.tidy().await;
                Vec::new()
            }
            Wake::RemovalDue => {
                self.remove_unremoved().await;
                Vec::new()
            }
            Wake::AnswerOverdue => {
                self.sources.answer_due = None;
                self.look_around().await
            }
            Wake::TurnOverdue => {
                self.sources.turn_due = None;
                self.client_turns.values_mut().for_each(ClientTurns::showed_no_turn);
                self.look_around().await
            }
            Wake::GraceOver => {
                self.sources.grace = None;
                self.tell_who_is_late().await;
                vec![RunInput::GraceOver]
            }
        }
    }

    /// Lets the course hear the news, and carries out its orders.
    pub(super) async fn follow(&mut self, inputs: Vec<RunInput>) {
        let mut inputs = VecDeque::from(inputs);
        while let Some(item) = inputs.pop_front() {
            for action in self.machine.handle(item) {
                inputs.extend(self.carry_out(action).await);
            }
        }
    }

    async fn carry_out(&mut self, action: RunAction) -> Vec<RunInput> {
        match action {
            RunAction::LookAround => return self.look_around().await,
            RunAction::WakeLead => self.tell_lead(Event::Wake),
            RunAction::TakeStock => return vec![RunInput::Stock(self.open_work().await)],
            RunAction::Remind(reminder) => self.remind(&reminder),
            RunAction::AskToShutDown(names) => {
                self.ask_to_shut_down(&names).await;
                self.sources.grace = Some(Box::pin(tokio::time::sleep(self.asking_grace)));
            }
            RunAction::Suspend(names) => {
                self.to_all(&names, AgentHandle::cancel);
                self.start_grace();
            }
            RunAction::Kill(names) => {
                let reason = "it did not shut down in time";
                self.to_all(&names, |body| body.end(reason));
                self.start_grace();
            }
            RunAction::Drop(names) => self.to_all(&names, AgentHandle::cancel),
            RunAction::HoldLead => {
                self.tell_lead(Event::Held);
                self.drop_subagents(&AgentName::lead(), |_| true);
            }
            RunAction::EndLead(reason) => {
                self.tell_lead(Event::StopAsked { reason });
                self.start_grace();
            }
            RunAction::DropLead => self.to_all(&[AgentName::lead()], AgentHandle::cancel),
            RunAction::Finish => self.is_over = true,
        }
        Vec::new()
    }

    fn start_grace(&mut self) {
        self.sources.grace = Some(Box::pin(tokio::time::sleep(self.grace)));
    }

    fn to_all(&self, names: &[AgentName], act: impl Fn(&AgentHandle)) {
        names
            .iter()
            .filter_map(|name| self.agents.get(name))
            .for_each(|running| act(&running.body));
    }

    pub(super) fn tell_lead(&self, event: Event) {
        if let Some(link) = self.link_of(&AgentName::lead()) {
            link.tell(event);
        }
    }

    pub(super) fn link_of(&self, agent: &AgentName) -> Option<&AgentSender> {
        self.agents.get(agent).and_then(|running| running.body.link())
    }

    pub(super) async fn warn(&mut self, text: String) {
        tracing::warn!("{text}");
        self.run_context.sink.tell(RunEvent::Warning { text }).await;
    }

    /// Sees whether a teammate has mail it has not taken. A teammate reports that it works before it marks mail read, so
    /// when nothing is unread, whoever is at work has said so: those reports are heard first.
    async fn look_around(&mut self) -> Vec<RunInput> {
        self.looks_again_at = None;
        self.look_at_clients().await;
        for (name, running) in &self.agents {
            if !matches!(running.part, AgentKind::Teammate { .. }) {
                continue;
            }
            match self.run_context.team.unread(name).await {
                Ok(unread) if unread.is_empty() => {}
                Ok(_) => {
                    running.body.ring();
                    // Mail that is no work for it, it marks read without a word to us.
                    self.looks_again_at = Some(running.inbox.clone());
                    return Vec::new();
                }
                Err(error) => tracing::warn!(agent = %name, %error, "an inbox cannot be read"),
            }
            // It said goodbye; its end is what comes next.
            if matches!(self.departures.get(name), Some(Departure::Said(_))) {
                return Vec::new();
            }
            if !running.body.is_foreign() {
                continue;
            }
            if owes_notice(&self.run_context.team, name).await.unwrap_or(false) {
                // A notice alone does not wake the lead.
                self.looks_again_at = Some(AgentName::lead().inbox_file());
                return Vec::new();
            }
            match self.client_turns.get(name).map(ClientTurns::at) {
                Some(TurnState::Turn) => {
                    self.looks_again_at = Some(AgentName::lead().inbox_file());
                    return Vec::new();
                }
                Some(TurnState::Unclear) => {
                    let due = || Box::pin(tokio::time::sleep(TURN_SHOWS_WITHIN));
                    self.sources.turn_due.get_or_insert_with(due);
                    return Vec::new();
                }
                Some(TurnState::Idle) | None => {}
            }
            if let Some(left) =
                owes_goodbye(&self.run_context.team, name, self.grace).await.unwrap_or(None)
            {
                self.sources.answer_due = Some(Box::pin(tokio::time::sleep(left)));
                return Vec::new();
            }
        }
        let mut inputs = self.read_journal().await;
        while let Ok(report) = self.sources.reports.try_recv() {
            inputs.extend(self.reported(report).await);
        }
        while let Ok(remote_report) = self.sources.remote_reports.try_recv() {
            inputs.extend(self.sighted(remote_report).await);
        }
        if !self.has_subagents_in_background() {
            inputs.push(RunInput::AllQuiet);
        }
        inputs
    }

    async fn ask_to_shut_down(&mut self, names: &[AgentName]) {
        let reason = self.machine.end_reason().map(EndReason::in_words).unwrap_or_default();
        self.run_context.sink.tell(RunEvent::ShuttingDown { reason: reason.clone() }).await;
        for name in names {
            // Who has said its last word is not there to be asked.
            if self.last_words.contains_key(name) || self.stopped_unasked(name) {
                continue;
            }
            if let Err(error) = self.run_context.team.ask_to_part(name, &reason).await {
                self.warn(format!("{name} cannot be asked to shut down: {}", chain(&error))).await;
                self.stop_unasked(name);
            }
        }
    }

    async fn changed(&mut self, change: Change) -> Vec<RunInput> {
        match change {
            Change::Inbox(file) => {
                self.look_at_clients().await;
                if let Some(running) = self.agents.values().find(|running| running.inbox == file) {
                    running.body.ring();
                }
                if self.looks_again_at.as_ref() == Some(&file) {
                    return self.look_around().await;
                }
            }
            Change::Config => self.config_changed().await,
            Change::Journal => return self.read_journal().await,
            Change::Tasks | Change::Lease(_) => {}
            Change::Unsure => {
                self.agents.values().for_each(|running| running.body.ring());
                self.config_changed().await;
                self.keep_control_open().await;
                let mut inputs = self.read_journal().await;
                if self.looks_again_at.is_some() {
                    inputs.extend(self.look_around().await);
                }
                return inputs;
            }
            Change::Unwatched { reason } => {
                self.warn(format!("{reason}; changes are looked for every second")).await
            }
            Change::Gone => {
                self.sources.watch = None;
                if self.team_create != TeamCreateState::Deleted {
                    return vec![RunInput::EndAsked(EndReason::Gone)];
                }
            }
        }
        Vec::new()
    }

    /// Lets agents know of a mode that was changed from outside, and ends those that were removed.
    async fn config_changed(&mut self) {
        let Ok(config) = self.run_context.team.config().await else { return };
        // Agents go by the very names the config gave them, but for the odd edit by hand; there may be thousands.
        let members: HashMap<&AgentName, &Member> =
            config.members.iter().map(|member| (&member.name, member)).collect();
        let is_unknown = |member: &&Member| !self.agents.contains_key(&member.name);
        let mut has_strangers = config.teammates().any(|member| is_unknown(&member));
        let (mut refused, mut missing, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, running) in &mut self.agents {
            let Some(member) = members.get(name).copied().or_else(|| config.member(name.as_str()))
            else {
                if matches!(running.part, AgentKind::Teammate { .. }) {
                    missing.extend(running.member.clone());
                }
                continue;
            };
            running.member = Some(member.clone());
            running.body.heed_config();
            let Some(known) = &mut running.known_mode else { continue };
            match known.look(&self.run_context.team, member) {
                ModeLook::Same => {}
                ModeLook::Changed(mode) => {
                    if let Some(mode) = PermissionMode::named(&mode) {
                        self.run_context.sink.tell(running.body.switch(name, mode)).await;
                        changed.push((name.clone(), mode));
                    }
                }
                ModeLook::Refused(mode) => refused.push((name.clone(), mode)),
            }
        }
        changed.iter().for_each(|(name, mode)| self.narrow_subagents(name, *mode));
        for (name, mode) in refused {
            self.refuse_mode(&name, &mode).await;
        }
        has_strangers |= !missing.is_empty();
        if has_strangers {
            self.repair_members(missing).await;
        }
    }

    /// Puts teammates back that a stale config dropped, and ends those that were removed.
    async fn repair_members(&mut self, missing: Vec<Member>) {
        let names: Vec<AgentName> = missing.iter().map(|member| member.name.clone()).collect();
        let mended = match self.run_context.team.mend_members(missing).await {
            Ok(mended) => mended,
            Err(error) => {
                return self.warn(format!("who is in the team cannot be seen: {error}")).await;
            }
        };
        for name in mended.put_back.iter().chain(&mended.taken_out) {
            let done = if mended.put_back.contains(name) { "dropped" } else { "brought back" };
            self.warn(format!(
                "another program wrote an older config.json and so {done} {name}; that is mended. `pitcrew member remove` \
                 removes a member"
            ))
            .await;
        }
        let config = self.run_context.team.config().await;
        for name in names {
            let is_there =
                config.as_ref().map_or(true, |config| config.member(name.as_str()).is_some());
            if let Some(running) = self.agents.get_mut(&name).filter(|_| !is_there) {
                running.body.end("it was removed from the team");
            }
        }
    }

    /// Tells that a mode in the config was not taken.
    pub(super) async fn refuse_mode(&mut self, name: &AgentName, refused: &RefusedMode) {
        self.run_context.team.note_refused_mode(name, refused).await;
        self.warn(format!("{name}: {refused}")).await;
    }

    async fn reported(&mut self, report: Report) -> Vec<RunInput> {
        let Report { agent, kind } = report;
        let part = self.agents.get(&agent).map(|running| &running.part);
        let is_teammate = matches!(part, Some(AgentKind::Teammate { .. }));
        match kind {
            ReportKind::Announced(Announcement { status, detail, fault, .. }) => {
                self.announced(agent, status, detail, fault).await
            }
            ReportKind::WaitsForModel { .. } => {
                self.set_answers(&agent, Answers::Later);
                Vec::new()
            }
            ReportKind::Spent(spending) => self.spent(&agent, &spending).await,
            ReportKind::Referred(mail) => self.referred(mail).await,
            // A teammate's question comes as a frame in the lead's inbox.
            ReportKind::Asks { .. } if is_teammate => Vec::new(),
            ReportKind::Settled { .. } => Vec::new(),
            ReportKind::Remembers(conversation) => self.remembers(&agent, *conversation),
            ReportKind::Asks { call, question, folder } => {
                let pending = Pending::of_ours(agent.clone(), &call, question, folder);
                let inputs = self.plan_waits(&pending).await;
                let asking = self.run_context.asking.clone();
                let deciding = async move {
                    Ok(Decision::AtOnce { agent, call, decided: asking.decide(pending).await })
                };
                self.sources.decisions.push(Box::pin(deciding));
                inputs
            }
            ReportKind::UsedUp => {
                let limit = self.used_up(&agent);
                std::iter::once(RunInput::UsedUp(agent)).chain(limit).collect()
            }
            ReportKind::Broke { reason } => {
                self.lead_is_broken |= agent.as_str() == LEAD_NAME;
                self.ended(&agent, Status::Failed, Some(reason), None).await
            }
            ReportKind::Looped { reason, text } => {
                let open = self.open_work().await;
                let ended = self.ended(&agent, Status::Failed, Some(reason), text).await;
                let end = RunInput::EndAsked(EndReason::Unfinished(Shortfall::Looping, open));
                let of_lead = (agent.as_str() == LEAD_NAME).then_some(end);
                of_lead.into_iter().chain(ended).collect()
            }
            ReportKind::Ended { status, reason, text } => {
                self.ended(&agent, status, reason, text).await
            }
            ReportKind::Parked { reason, retry_after } => {
                self.parked(&agent, reason, retry_after).await
            }
            ReportKind::Dropped => self.dropped(&agent).await,
        }
    }

    /// Ends the run when an agent has used all the model calls that the run gives each.
    pub(super) fn used_up(&self, agent: &AgentName) -> Vec<RunInput> {
        let turns = self.agents.get(agent).map_or(0, |running| running.turns);
        match self.limits.max_turns {
            Some(most) if turns >= most => {
                let reason = format!("{agent} has used all of its {}", counted(most, "turn"));
                vec![RunInput::EndAsked(EndReason::Limit(Limit::Turns, reason))]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Acts on a frame in the lead's inbox that is not for its model. It stays unread until it is dealt with; after a crash
    /// in between it comes here again.
    async fn referred(&mut self, mail: Mail) -> Vec<RunInput> {
        match mail.frame {
            Some(Frame::PermissionRequest(request)) => self.asked(mail.id, request).await,
            Some(frame @ (Frame::ShutdownApproved(_) | Frame::ShutdownResponse(_))) => {
                self.goodbye(&AgentName::foreign(&mail.from), mail.id, &frame).await;
            }
            Some(_) | None => self.tell_lead(Event::Settled(vec![mail.id])),
        }
        Vec::new()
    }
}
