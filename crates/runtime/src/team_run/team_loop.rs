//! The team's loop: the events that wake the loop, and how the loop carries out the actions that
//! the state machine returns.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{Aborted, BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use pitcrew_agent::{Event, Mail};
use pitcrew_protocol::{AgentName, Frame, LEAD_NAME, Member, PermissionMode, Status, chain};
use pitcrew_team::store::{Change, Lease, PermissionOutcome, Watch};
use pitcrew_team::{ModeLook, RefusedMode, RunBounds, Team};
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::agents::{Agents, Answers, RunningAgent};
use super::answers::Pending;
use super::backends::Backends;
use super::client_turns::client_seen;
use super::open_work::TasksNow;
use super::plan_questions::{PlanDecision, PlanQuestions};
use super::recovery::Unremoved;
use super::remote::{RemoteReport, TURN_SHOWS_WITHIN};
use super::run_context::RunContext;
use super::run_machine::{EndReason, MateSeen, RunAction, RunInput, RunMachine};
use super::start::TeamCreateState;
use super::subagents::SubagentRuns;
use super::usage_totals::UsageTotals;
use super::wake::{Decision, LoopHandle, Request, Wake};
use crate::control_socket::{ControlServer, Visitor};
use crate::driver::{Announcement, Report, ReportKind};
use crate::events::RunEvent;
use crate::refused_entries::RefusedEntries;
use crate::run::{KeptWorktree, RunLimits, Shortfall, Stopper};

/// The loop of one team, with all the state that the loop owns.
pub(super) struct TeamLoop {
    pub(super) run_context: RunContext,
    pub(super) loop_handle: LoopHandle,
    pub(super) machine: RunMachine,
    pub(super) backends: Backends,
    pub(super) agents: Agents,
    pub(super) usage_totals: UsageTotals,
    pub(super) limits: RunLimits,
    pub(super) kept: Vec<KeptWorktree>,
    pub(super) lead_end: LeadEnd,
    /// If the lead has deleted its team: the team's tasks at the time of the deletion.
    pub(super) deleted: TasksNow,
    /// The start time of this run, and the total duration of the earlier runs.
    pub(super) began: (Instant, Duration),
    /// The beginning of the user's instruction for this run, for the journal.
    pub(super) goal: Option<String>,
    /// The commit that was checked out when this run began, for the journal.
    pub(super) head: Option<String>,
    /// The members that ended but could not be removed from the team yet, each with its worktree.
    pub(super) unremoved: Unremoved,
    pub(super) team_create: TeamCreateState,
    /// Whether this run resumes an earlier run.
    pub(super) is_resumed: bool,
    /// The position up to which the journal has been read.
    pub(super) journal_position: u64,
    /// The plans about which a person is asked.
    pub(super) plan_questions: PlanQuestions,
    /// The run's subagents.
    pub(super) subagents: SubagentRuns,
    pub(super) sources: EventSources,
    pub(super) grace: Duration,
    /// Time that teammates have to end after a shutdown request. It is longer than `grace` if the
    /// user's request to end the team allows more time.
    pub(super) asking_grace: Duration,
    pub(super) is_over: bool,
    /// The limits that the command line set for the team.
    pub(super) bounds: RunBounds,
    /// The lease that keeps other processes from running the team. `None` after the team was
    /// deleted.
    pub(super) lease: Option<Lease>,
}

/// What the outcome of the run must contain about the lead's end.
#[derive(Default)]
pub(super) struct LeadEnd {
    /// The lead's last answer.
    pub(super) text: Option<String>,
    /// The lead's plan. It is set if the run ended because nobody was there to approve the plan.
    pub(super) unapproved_plan: Option<String>,
    /// Whether the lead ended because of a disk error, a system error or an error in pitcrew.
    pub(super) is_broken: bool,
    /// The waiting time that the model's provider asks for. It is set only if the lead stopped
    /// because its model is unavailable.
    pub(super) retry_after: Option<Duration>,
}

/// All event sources of the loop.
pub(super) struct EventSources {
    pub(super) stopper: Stopper,
    pub(super) reports: mpsc::Receiver<Report>,
    pub(super) remote_reports: mpsc::Receiver<RemoteReport>,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) watch: Option<Watch>,
    pub(super) refused_entries: RefusedEntries,
    pub(super) control: Option<ControlServer>,
    /// Requests through the control socket that the host of the run carries out.
    pub(super) visitors: mpsc::Sender<Visitor>,
    pub(super) decisions: FuturesUnordered<BoxFuture<'static, Result<Decision, Aborted>>>,
    pub(super) plan_decisions: FuturesUnordered<BoxFuture<'static, Result<PlanDecision, Aborted>>>,
    pub(super) grace: Option<Pin<Box<Sleep>>>,
    /// A timer that starts when a process dies. When the timer ends, locks of the dead process are
    /// old enough to be recognised and broken.
    pub(super) tidying: Option<Pin<Box<Sleep>>>,
    /// A timer that runs until the next try to remove a member from the team. It runs only after a
    /// failed try.
    pub(super) removing: Option<Pin<Box<Sleep>>>,
    /// A timer that runs while the run waits for a client's answer to a shutdown request.
    pub(super) answer_due: Option<Pin<Box<Sleep>>>,
    /// A timer that runs while a teammate of another client may have begun a turn that the config
    /// does not show yet.
    pub(super) turn_due: Option<Pin<Box<Sleep>>>,
    pub(super) was_stopped: bool,
    pub(super) was_killed: bool,
}

/// The reports of agents here and elsewhere, the requests of tools, and the changes of the files.
pub(super) type Incoming =
    (mpsc::Receiver<Report>, mpsc::Receiver<RemoteReport>, mpsc::Receiver<Request>, Watch);

impl EventSources {
    /// Creates the event sources that every run has. The run adds other sources when it needs them.
    pub(super) fn new(
        team: &Team,
        stopper: Stopper,
        (reports, remote_reports, requests, watch): Incoming,
        visitors: mpsc::Sender<Visitor>,
    ) -> Self {
        Self {
            stopper,
            reports,
            remote_reports,
            requests,
            watch: Some(watch),
            refused_entries: RefusedEntries::of(team),
            control: None,
            visitors,
            decisions: FuturesUnordered::new(),
            plan_decisions: FuturesUnordered::new(),
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

impl EventSources {
    async fn next(&mut self) -> Wake {
        tokio::select! {
            biased;
            // The order of the branches matters (`biased`): the user's stop comes before any other
            // event, and agents' reports come before file changes.
            () = self.stopper.killed(), if !self.was_killed => Wake::Killed,
            () = self.stopper.stopped(), if !self.was_stopped => Wake::StopAsked,
            () = self.stopper.interrupted() => Wake::Interrupted,
            Some(report) = self.reports.recv() => Wake::Reported(report),
            Some(remote_report) = self.remote_reports.recv() => Wake::Sighted(remote_report),
            Some(decision) = self.decisions.next() => decision.map_or(Wake::TakenBack, Wake::Decided),
            Some(decision) = self.plan_decisions.next() => decision.map_or(Wake::TakenBack, Wake::PlanDecided),
            Some(request) = self.requests.recv() => Wake::Requested(request),
            // A source that is `None` never wakes the loop.
            Some(call) = OptionFuture::from(self.control.as_mut().map(ControlServer::next)) => Wake::Visited(call),
            Some(change) = OptionFuture::from(self.watch.as_mut().map(StreamExt::next)) => Wake::Changed(change.unwrap_or(Change::Gone)),
            Some(()) = OptionFuture::from(self.grace.as_mut()) => Wake::GraceOver,
            Some(()) = OptionFuture::from(self.tidying.as_mut()) => Wake::TidyDue,
            Some(()) = OptionFuture::from(self.removing.as_mut()) => Wake::RemovalDue,
            Some(()) = OptionFuture::from(self.answer_due.as_mut()) => Wake::AnswerOverdue,
            Some(()) = OptionFuture::from(self.turn_due.as_mut()) => Wake::TurnOverdue,
            () = self.refused_entries.next() => Wake::EntriesRefused,
        }
    }
}

impl TeamLoop {
    /// Runs until the run is over.
    pub(super) async fn run(&mut self) {
        while !self.is_done() {
            let wake = self.sources.next().await;
            let inputs = self.woken(wake).await;
            self.follow(inputs).await;
            self.look_at_journal().await;
        }
        self.backends.here.join().await;
        // Empty the queue of reports. A subagent that is dropped together with its caller still
        // reports its end, and this report may arrive when the run is already over.
        while let Ok(report) = self.sources.reports.try_recv() {
            let running = self.agents.running(&report.agent);
            if running.is_some_and(|running| running.subagent().is_some()) {
                let _nothing_follows = self.reported(report).await;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.is_over || (self.sources.was_killed && self.agents.all_running().next().is_none())
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
            Wake::PlanDecided(decision) => self.plan_decided(decision).await,
            // The loop looks at the refused entries after each event.
            Wake::TakenBack | Wake::EntriesRefused => Vec::new(),
            Wake::Interrupted => self.interrupt_lead(),
            Wake::StopAsked => {
                self.sources.was_stopped = true;
                vec![RunInput::EndAsked(EndReason::Interrupted)]
            }
            Wake::Killed => {
                self.sources.was_killed = true;
                self.backends.here.kill();
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
                vec![RunInput::WaitOver]
            }
            Wake::TurnOverdue => {
                self.sources.turn_due = None;
                for (_, running) in self.agents.all_running_mut() {
                    running.client_turns.showed_no_turn();
                }
                vec![RunInput::WaitOver]
            }
            Wake::GraceOver => {
                self.sources.grace = None;
                self.tell_who_is_late().await;
                vec![RunInput::GraceOver]
            }
        }
    }

    /// Passes inputs to the state machine, and carries out the actions that the state machine
    /// returns.
    pub(super) async fn follow(&mut self, inputs: Vec<RunInput>) {
        let mut inputs = VecDeque::from(inputs);
        while let Some(item) = inputs.pop_front() {
            if let RunInput::Left(name) = &item {
                self.plan_questions.forget(name);
            }
            for action in self.machine.handle(item) {
                inputs.extend(self.carry_out(action).await);
            }
        }
    }

    async fn carry_out(&mut self, action: RunAction) -> Vec<RunInput> {
        match action {
            RunAction::LookAround => return vec![self.look_around().await],
            RunAction::Ring(name) => self.agents.to_all(&[name], |handle| handle.ring()),
            RunAction::AwaitTurn => {
                let due = || Box::pin(tokio::time::sleep(TURN_SHOWS_WITHIN));
                self.sources.turn_due.get_or_insert_with(due);
            }
            RunAction::AwaitGoodbye(left) => {
                self.sources.answer_due = Some(Box::pin(tokio::time::sleep(left)));
            }
            RunAction::HearReports => return self.hear_reports().await,
            RunAction::WakeLead => self.agents.tell_lead(Event::Wake),
            RunAction::TakeStock => return vec![RunInput::Stock(self.open_work().await)],
            RunAction::Remind(reminder) => self.remind(&reminder),
            RunAction::AskToShutDown(names) => {
                self.ask_to_shut_down(&names).await;
                self.sources.grace = Some(Box::pin(tokio::time::sleep(self.asking_grace)));
            }
            RunAction::Suspend(names) => {
                self.agents.to_all(&names, |handle| handle.cancel());
                self.start_grace();
            }
            RunAction::Kill(names) => {
                let reason = "it did not shut down in time";
                self.agents.to_all(&names, |handle| handle.end(reason));
                self.start_grace();
            }
            RunAction::Drop(names) => self.agents.to_all(&names, |handle| handle.cancel()),
            RunAction::HoldLead => {
                self.agents.tell_lead(Event::Held);
                self.agents.drop_subagents(&AgentName::lead(), |_| true);
            }
            RunAction::EndLead(reason) => {
                self.agents.tell_lead(Event::StopAsked { reason });
                self.start_grace();
            }
            RunAction::DropLead => {
                self.agents.to_all(&[AgentName::lead()], |handle| handle.cancel())
            }
            RunAction::Finish => self.is_over = true,
        }
        Vec::new()
    }

    fn start_grace(&mut self) {
        self.sources.grace = Some(Box::pin(tokio::time::sleep(self.grace)));
    }

    pub(super) async fn warn(&mut self, text: String) {
        tracing::warn!("{text}");
        self.run_context.sink.tell(RunEvent::Warning { text }).await;
    }

    /// Collects what the team's files show about the teammates' mail. The state machine decides
    /// what to do next.
    async fn look_around(&mut self) -> RunInput {
        let team = self.run_context.team.clone();
        self.agents.look_at_clients(&team).await;
        let mut mates = Vec::new();
        for (name, running) in self.agents.teammates() {
            let has_unread = match team.unread(name).await {
                Ok(unread) => !unread.is_empty(),
                Err(error) => {
                    tracing::warn!(agent = %name, %error, "an inbox cannot be read");
                    false
                }
            };
            let client = match running.is_foreign() {
                true => Some(client_seen(&team, name, running.client_turns.at()).await),
                false => None,
            };
            let has_said_goodbye = self.agents.has_said_goodbye(name);
            mates.push(MateSeen { name: name.clone(), has_unread, has_said_goodbye, client });
        }
        RunInput::Looked(mates)
    }

    /// Handles all reports that agents have already sent.
    async fn hear_reports(&mut self) -> Vec<RunInput> {
        let mut inputs = self.read_journal().await;
        while let Ok(report) = self.sources.reports.try_recv() {
            inputs.extend(self.reported(report).await);
        }
        while let Ok(remote_report) = self.sources.remote_reports.try_recv() {
            inputs.extend(self.sighted(remote_report).await);
        }
        let is_waiting =
            self.agents.has_subagents_in_background() || self.plan_questions.is_asking();
        inputs.push(RunInput::ReportsHeard { is_waiting });
        inputs
    }

    async fn ask_to_shut_down(&mut self, names: &[AgentName]) {
        let reason = self.machine.end_reason().map(EndReason::in_words).unwrap_or_default();
        self.run_context.sink.tell(RunEvent::ShuttingDown { reason: reason.clone() }).await;
        for name in names {
            let Some(running) = self.agents.running(name) else { continue };
            // Send no shutdown request to an agent that has already reported its end.
            if running.last_words.is_some() || self.stopped_unasked(name) {
                continue;
            }
            if let Err(error) = self.run_context.team.ask_to_part(name, &reason).await {
                self.warn(format!("{name} cannot be asked to shut down: {}", chain(&error))).await;
                // The shutdown request could not be sent, so the agent would never answer and the
                // run would wait for nothing. End the agent.
                let names = std::slice::from_ref(name);
                self.agents.to_all(names, |it| it.end("it could not be asked to shut down"));
            }
        }
    }

    async fn changed(&mut self, change: Change) -> Vec<RunInput> {
        match change {
            Change::Inbox(file) => {
                self.agents.look_at_clients(&self.run_context.team).await;
                self.agents.ring(&file);
                self.look_at_plans_in(&file).await;
                return vec![RunInput::InboxChanged(file)];
            }
            Change::Config => self.config_changed().await,
            Change::Journal => return self.read_journal().await,
            Change::Tasks | Change::Lease(_) => {}
            Change::Unsure => {
                self.agents.all_running().for_each(|(_, running)| running.handle.ring());
                self.config_changed().await;
                self.keep_control_open().await;
                let mut inputs = self.read_journal().await;
                inputs.push(RunInput::MailUnsure);
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

    /// Tells agents about mode changes that another process made. Ends agents that were removed
    /// from the team.
    async fn config_changed(&mut self) {
        let Ok(config) = self.run_context.team.config().await else { return };
        // Put the members into a map by their exact name, because a search in the list is slow if
        // there are thousands of members. The map does not find a member whose name was edited by
        // hand in the config. `config.member` finds such a member.
        let members: HashMap<&AgentName, &Member> =
            config.members.iter().map(|member| (&member.name, member)).collect();
        let is_unknown = |member: &&Member| !self.agents.is_running(&member.name);
        let mut has_strangers = config.teammates().any(|member| is_unknown(&member));
        let (mut refused, mut missing, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, running) in self.agents.all_running_mut() {
            let Some(member) = members.get(name).copied().or_else(|| config.member(name.as_str()))
            else {
                if running.is_teammate() {
                    missing.extend(running.member.clone());
                }
                continue;
            };
            // Keep a copy of the config entry. If another client writes an outdated config without
            // this entry, the entry must be restored.
            running.member = Some(member.clone());
            running.handle.config_changed();
            let Some(known) = &mut running.known_mode else { continue };
            match known.look(&self.run_context.team, member) {
                ModeLook::Same => {}
                ModeLook::Changed(mode) => {
                    if let Some(mode) = PermissionMode::named(&mode) {
                        self.run_context.sink.tell(running.switch(name, mode)).await;
                        changed.push((name.clone(), mode));
                    }
                }
                ModeLook::Refused(mode) => refused.push((name.clone(), mode)),
            }
        }
        changed.iter().for_each(|(name, mode)| self.agents.narrow_subagents(name, *mode));
        for (name, mode) in refused {
            self.refuse_mode(&name, &mode).await;
        }
        has_strangers |= !missing.is_empty();
        if has_strangers {
            self.repair_members(missing).await;
        }
    }

    /// Restores teammates that are missing because another client wrote an outdated config. Ends
    /// teammates that were really removed.
    async fn repair_members(&mut self, missing: Vec<Member>) {
        let names: Vec<AgentName> = missing.iter().map(|member| member.name.clone()).collect();
        let mended = match self.run_context.team.mend_members(missing).await {
            Ok(mended) => mended,
            Err(error) => {
                return self.warn(format!("the members of the team cannot be read: {error}")).await;
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
            if let Some(running) = self.agents.running(&name).filter(|_| !is_there) {
                running.handle.end("it was removed from the team");
            }
        }
    }

    /// Warns the user that a member's mode in the config was refused, and writes this to the
    /// journal.
    pub(super) async fn refuse_mode(&mut self, name: &AgentName, refused: &RefusedMode) {
        self.run_context.team.note_refused_mode(name, refused).await;
        self.warn(format!("{name}: {refused}")).await;
    }

    async fn reported(&mut self, report: Report) -> Vec<RunInput> {
        let Report { agent, kind } = report;
        let is_teammate = self.agents.running(&agent).is_some_and(RunningAgent::is_teammate);
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
            // A teammate's permission request arrives as mail in the lead's inbox, so ignore this
            // report.
            ReportKind::Asks { .. } if is_teammate => Vec::new(),
            ReportKind::Settled { .. } => Vec::new(),
            ReportKind::Remembers(conversation) => {
                let running = self.agents.running_mut(&agent);
                if let Some(subagent) = running.and_then(RunningAgent::subagent_mut) {
                    subagent.remember(*conversation);
                }
                Vec::new()
            }
            ReportKind::Asks { call, question, folder } => {
                self.note_question(&agent, &call, PermissionOutcome::Asked).await;
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
                self.lead_end.is_broken |= agent.as_str() == LEAD_NAME;
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

    /// Returns the input that ends the run, if an agent has used all the model calls that the run
    /// allows each agent.
    pub(super) fn used_up(&self, agent: &AgentName) -> Vec<RunInput> {
        let running = self.agents.running(agent);
        let reason = running.and_then(|running| running.used_up(agent, self.limits));
        reason.map(RunInput::EndAsked).into_iter().collect()
    }

    /// Handles a structured message (frame) in the lead's inbox that the lead's model does not
    /// read. The message stays unread until it is handled. After a crash it is therefore handled
    /// again.
    async fn referred(&mut self, mail: Mail) -> Vec<RunInput> {
        match mail.frame {
            Some(Frame::PermissionRequest(request)) => self.asked(mail.id, request).await,
            Some(frame @ (Frame::ShutdownApproved(_) | Frame::ShutdownResponse(_))) => {
                self.goodbye(&AgentName::foreign(&mail.from), mail.id, &frame).await;
            }
            Some(_) | None => self.agents.tell_lead(Event::Settled(vec![mail.id])),
        }
        Vec::new()
    }
}
