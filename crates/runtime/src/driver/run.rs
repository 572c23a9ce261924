//! The loop itself, and the short effects.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_protocol::{
    ApiError, CallEffect, ErrorCode, MessageId, PermissionMode, Status, ToolTraits, chain,
};
use pitcrew_team::store::StoreError;
use pitcrew_team::{Actor, AnswerFound, IdleNotice, IdleReason, PermissionAsk};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::agent_context::{AgentContext, Announcement, Report, ReportKind};
use super::calls::JudgedCall;
use super::inbox::Taken;
use super::log::{Log, LogError};
use super::marks::{Delivered, Marks};
use super::{calls, compaction, inspect, model_call};
use crate::agent::{
    Agent, Answerer, Effect, Ending, Event, IdleCause, IdleReport, Mail, Question, Role,
    Settlement, Wait,
};
use crate::dropped::as_member;
use crate::events::{RunEvent, ToolEnded};
use crate::gate::Gate;
use crate::question::Digest;
use crate::team_tools::plan_of;
use crate::transcript::{Grant, Step, ToolCall};

/// Events the crew may have sent that an agent has not taken yet. They are few: answers, notices, a stop. They are boxed,
/// since a channel sets room aside for many, and an idle agent gets none.
const EVENTS_WAITING: usize = 64;

/// How an agent begins.
pub(crate) enum Start {
    /// With a prompt.
    New(String),
    /// With its transcript; without one, with what is in its inbox.
    Resumed,
}

/// The crew's end of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentSender {
    events: mpsc::Sender<Box<Event>>,
    mail: Arc<Notify>,
    cancel: CancellationToken,
}

/// The agent's end.
pub(crate) struct AgentReceiver {
    events: mpsc::Receiver<Box<Event>>,
    mail: Arc<Notify>,
    cancel: CancellationToken,
}

/// Makes both ends.
pub(crate) fn link(cancel: CancellationToken) -> (AgentSender, AgentReceiver) {
    let (sender, events) = mpsc::channel(EVENTS_WAITING);
    let mail = Arc::new(Notify::new());
    let link = AgentSender { events: sender, mail: mail.clone(), cancel: cancel.clone() };
    (link, AgentReceiver { events, mail, cancel })
}

impl AgentSender {
    /// Tells the agent something, without waiting: the crew must never wait for an agent. An agent that does not take its
    /// events any more is stopped.
    pub(crate) fn tell(&self, event: Event) {
        match self.events.try_send(Box::new(event)) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.cancel.cancel(),
        }
    }

    /// Tells the agent that there may be mail. Many times is as good as once.
    pub(crate) fn ring(&self) {
        self.mail.notify_one();
    }

    /// Drops the agent and all it does.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}

/// The loop of one agent.
pub(crate) struct Driver {
    agent: Agent,
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    log: Log,
    wire: AgentReceiver,
    running: FuturesUnordered<BoxFuture<'static, (Event, Option<JudgedCall>)>>,
    /// The calls about files that were judged and have not run yet, by their ids.
    judged: HashMap<String, JudgedCall>,
    /// Who sent the mail that was read and not delivered yet, and whether it is a frame.
    senders: HashMap<MessageId, (String, bool)>,
    marks: Marks,
    /// The task completed last in this turn, for the idle notice.
    completed: Option<String>,
    /// What was written last in this turn to another teammate, for the idle notice.
    peer_mail: Option<String>,
    was_kept_going: bool,
    /// Why the agent cannot go on, from its idle notice until its next state is told.
    trouble: Option<String>,
    /// An effect could not be carried out, so that the agent ends.
    is_broken: bool,
}

/// What an effect came to.
enum Outcome {
    Done,
    Happened(Event),
    /// One after the other.
    AllHappened(Vec<Event>),
    Ended(ReportKind),
}

/// A call of ExitPlanMode with the plan in its input, for whoever is to read it.
async fn with_plan(agent_context: &AgentContext, mut call: ToolCall) -> ToolCall {
    if ToolTraits::of(&call.tool).effect == CallEffect::SubmitsPlan
        && let Ok(plan) =
            plan_of(&call.input, &agent_context.plan_file, agent_context.context.limits.file_bytes)
                .await
        && let Value::Object(fields) = &mut call.input
    {
        fields.insert("plan".to_owned(), plan.into());
    }
    call
}

impl Driver {
    pub(crate) fn new(
        agent: Agent,
        agent_context: AgentContext,
        mut gate: Arc<Gate>,
        log: Log,
        wire: AgentReceiver,
    ) -> Self {
        for update in agent.conversation().updates() {
            // What was granted before a crash stays granted; a mode is in the config.
            if let Err(error) = Arc::make_mut(&mut gate).apply(update) {
                tracing::warn!(agent = %agent_context.name, %error, "a granted permission cannot be applied again");
            }
        }
        agent.conversation().seen().for_each(|seen| agent_context.context.reads.restore(seen));
        Self {
            agent,
            agent_context: Arc::new(agent_context),
            gate,
            log,
            wire,
            running: FuturesUnordered::new(),
            judged: HashMap::new(),
            senders: HashMap::new(),
            marks: Marks::default(),
            completed: None,
            peer_mail: None,
            was_kept_going: false,
            trouble: None,
            is_broken: false,
        }
    }

    /// Where it reports, for whoever sees it end without a report.
    pub(crate) fn reports(&self) -> mpsc::Sender<Report> {
        self.agent_context.reports.clone()
    }

    /// Lives until the agent ends or is cancelled; the crew is told of the end in either case.
    pub(crate) async fn run(mut self, start: Start) {
        let first = match start {
            Start::New(prompt) => Event::Started { prompt },
            Start::Resumed => Event::Resumed,
        };
        let cancel = self.wire.cancel.clone();
        let end = tokio::select! {
            biased;
            () = cancel.cancelled() => ReportKind::Dropped,
            end = self.live(first) => end,
        };
        let end = match end {
            ReportKind::Ended { reason: Some(reason), .. } if self.is_broken => {
                ReportKind::Broke { reason }
            }
            ReportKind::Ended { reason: Some(reason), text, .. } if self.agent.was_looping() => {
                ReportKind::Looped { reason, text }
            }
            end => end,
        };
        self.running.clear();
        self.agent_context.context.cancel.cancel();
        self.agent_context.context.shells.stop_all(&self.agent_context.context.limits).await;
        // Mail that was not marked yet is found in the transcript when it comes again.
        let written = self.log.catch_up().await;
        if let Err(error) = self.go_on_without_team(written) {
            tracing::warn!(agent = %self.agent_context.name, error, "the transcript is not complete");
        }
        if self.agent_context.role == Role::Subagent
            && matches!(end, ReportKind::Ended { status: Status::Completed, .. })
        {
            let knows = ReportKind::Remembers(Box::new(self.agent.conversation().clone()));
            let _closed = self.agent_context.reports.send(self.agent_context.report(knows)).await;
        }
        // The crew reads reports until its last agent ended.
        let _closed = self.agent_context.reports.send(self.agent_context.report(end)).await;
    }

    async fn live(&mut self, first: Event) -> ReportKind {
        // What it was told before it was started it knows when it starts: that nobody leads it, for one.
        let mut happened: VecDeque<Event> =
            std::iter::from_fn(|| self.wire.events.try_recv().ok().map(|e| *e)).collect();
        happened.push_back(first);
        loop {
            while let Some(event) = happened.pop_front() {
                let cause =
                    if let Event::Broken { reason } = &event { Some(reason.clone()) } else { None };
                self.is_broken |= cause.is_some();
                for effect in self.agent.handle(event) {
                    let ready = self.catch_up(effect.waits_for()).await;
                    let carried_out = match ready {
                        Ok(()) => self.carry_out(effect).await,
                        Err(reason) => Err(reason),
                    };
                    match carried_out {
                        Ok(Outcome::Done) => {}
                        Ok(Outcome::Happened(event)) => happened.push_back(event),
                        Ok(Outcome::AllHappened(events)) => happened.extend(events),
                        Ok(Outcome::Ended(end)) => return end,
                        // It hears nothing more, so that nothing but this would tell of its end.
                        Err(reason) if self.agent.is_over() => {
                            self.is_broken = true;
                            let reason = cause.unwrap_or(reason);
                            self.tell_face(Status::Failed, Some(reason.clone())).await;
                            return ReportKind::Ended {
                                status: Status::Failed,
                                reason: Some(reason),
                                text: None,
                            };
                        }
                        Err(reason) => {
                            happened.push_front(Event::Broken { reason });
                            break;
                        }
                    }
                }
            }
            happened.push_back(self.next().await);
        }
    }

    /// Waits until something happens; what is to be on disk gets there meanwhile.
    async fn next(&mut self) -> Event {
        loop {
            let settled = tokio::select! {
                // What the crew said before it answered a call is heard before the answer.
                biased;
                Some(event) = self.wire.events.recv() => return *event,
                () = self.wire.mail.notified() => return Event::MailWaiting,
                written = self.log.catch_up(), if self.log.is_behind() => self.go_on_without_team(written),
                marked = self.marks.catch_up(&self.agent_context), if self.marks.is_behind() => marked.map_err(|error| chain(&error)),
                Some((event, judged)) = self.running.next() => {
                    self.judged.extend(judged.map(|judged| (judged.call.id.clone(), judged)));
                    return event;
                }
            };
            if let Err(reason) = settled {
                return Event::Broken { reason };
            }
        }
    }

    /// Sees to it that on disk is what an effect waits for.
    async fn catch_up(&mut self, wait: Wait) -> Result<(), String> {
        if wait >= Wait::Written {
            let written = self.log.catch_up().await;
            self.go_on_without_team(written)?;
        }
        if wait >= Wait::Marked {
            self.marks.catch_up(&self.agent_context).await.map_err(|error| chain(&error))?;
        }
        Ok(())
    }

    /// A lead that deleted its team goes on; what it says waits for another team, if it makes one.
    fn go_on_without_team(&self, written: Result<(), LogError>) -> Result<(), String> {
        match written {
            Err(LogError::Store { source, .. })
                if self.agent_context.role == Role::Lead
                    && matches!(*source, StoreError::NoTeam { .. }) =>
            {
                Ok(())
            }
            written => written.map_err(|error| chain(&error)),
        }
    }

    fn begin(&mut self, work: impl Future<Output = Event> + Send + 'static) -> Outcome {
        self.running.push(Box::pin(async { (work.await, None) }));
        Outcome::Done
    }

    async fn carry_out(&mut self, effect: Effect) -> Result<Outcome, String> {
        let (agent_context, mode) = (self.agent_context.clone(), self.agent.mode());
        Ok(match effect {
            Effect::Append(steps) => self.append(steps)?,
            Effect::Acknowledge(ids) => self.acknowledge(ids).await,
            Effect::TakeMail => Outcome::Happened(self.take_mail().await),
            Effect::CallModel => {
                self.trouble = None;
                // Every call of the turn before has its result.
                self.judged.clear();
                let messages = self.agent.conversation().share_messages();
                self.begin(model_call::call(agent_context, mode, messages))
            }
            Effect::Compact { most } => {
                let (conversation, context) =
                    (self.agent.conversation().clone(), self.agent.profile().context);
                self.begin(compaction::compact(
                    agent_context,
                    mode,
                    conversation,
                    most,
                    context.window,
                ))
            }
            Effect::ReportCompaction(compaction) => {
                compaction::report(&agent_context, compaction).await;
                Outcome::Done
            }
            Effect::Judge(judging) => {
                let gate = self.gate.clone();
                self.running.push(Box::pin(calls::judge(agent_context, gate, judging)));
                Outcome::Done
            }
            Effect::AskPermission { call, question } => self.ask(call, question).await,
            Effect::Settle(settlement) => self.settle(settlement).await,
            Effect::CutOff => {
                self.running.clear();
                Outcome::Done
            }
            Effect::Run(call, profile, _means) => {
                let (gate, judged) = (self.gate.clone(), self.judged.remove(&call.id));
                self.begin(calls::run(agent_context, gate, mode, call, profile, judged))
            }
            Effect::Report(call, ending) => self.report_call(&call, ending).await,
            Effect::Inspect(call) => {
                self.begin(inspect::inspect(agent_context, self.gate.clone(), mode, call))
            }
            Effect::EndTurn(end) => {
                let was_kept_going = std::mem::replace(&mut self.was_kept_going, true);
                self.begin(calls::end_turn(agent_context, mode, end, was_kept_going))
            }
            Effect::SendIdle(report) => self.send_idle(report).await?,
            Effect::SetMode(mode) => {
                let (team, actor) =
                    (agent_context.as_reader(), Actor::Member(agent_context.name.clone()));
                let set = as_member(&team, &actor, || {
                    team.adopt_mode(&agent_context.name, mode.as_str())
                })
                .await;
                // The crew sees it in the config, and tells the face.
                set.map_err(|error| chain(&error))?;
                Outcome::Done
            }
            Effect::StopCommands => self.stop_commands().await,
            Effect::Permit(updates) => self.permit(&updates).await,
            Effect::Refer(mail) => self.tell_crew(ReportKind::Referred(mail)).await,
            Effect::Announce(status) => self.announce(status).await,
            Effect::ReportLimit => self.tell_crew(ReportKind::UsedUp).await,
            Effect::Park { reason, retry_after } => {
                self.tell_face(Status::Parked, Some(reason.clone())).await;
                Outcome::Ended(ReportKind::Parked { reason, retry_after })
            }
            Effect::End { status, reason, text } => {
                self.tell_face(status, reason.clone()).await;
                Outcome::Ended(ReportKind::Ended { status, reason, text })
            }
        })
    }

    async fn tell_crew(&mut self, kind: ReportKind) -> Outcome {
        let _closed = self.agent_context.reports.send(self.agent_context.report(kind)).await;
        Outcome::Done
    }

    async fn announce(&mut self, status: Status) -> Outcome {
        if status == Status::Idle {
            self.was_kept_going = false;
        }
        // An end is told with its reason, by the effect that brings it.
        if status.is_over() {
            return Outcome::Done;
        }
        let detail = self
            .trouble
            .take()
            .filter(|_| !matches!(status, Status::Active | Status::ShutdownRequested));
        self.tell_face(status, detail.clone()).await;
        let fault = self.agent.conversation().answer_fault();
        // Who finds the mail of this turn marked read must find in the journal that the agent works.
        let begins = matches!(status, Status::Active | Status::ShutdownRequested)
            && self.agent_context.has_lead_elsewhere();
        let (sender, noted) = oneshot::channel();
        let announcement =
            Announcement { status, detail, fault, until_noted: begins.then_some(sender) };
        self.tell_crew(ReportKind::Announced(announcement)).await;
        // It comes to an error: the sender is dropped, never used.
        let _noted = noted.await;
        Outcome::Done
    }

    async fn tell_face(&mut self, status: Status, detail: Option<String>) {
        let agent = self.agent_context.name.clone();
        self.agent_context.sink.tell(RunEvent::AgentChanged { agent, status, detail }).await;
    }

    fn append(&mut self, steps: Vec<Step>) -> Result<Outcome, String> {
        for step in &steps {
            if let Step::Assistant { blocks, .. } = step {
                blocks
                    .iter()
                    .filter_map(pitcrew_model::Block::as_text)
                    .for_each(|text| self.log.note(text));
            }
        }
        self.log.add(steps).map(|()| Outcome::Done).map_err(|error| chain(&error))
    }

    async fn acknowledge(&mut self, ids: Vec<MessageId>) -> Outcome {
        let senders = &mut self.senders;
        let (from, is_frame): (Vec<_>, Vec<_>) =
            ids.iter().map(|id| senders.remove(id).unwrap_or_default()).unzip();
        // It is delivered, whether or not it can be marked.
        let agent = self.agent_context.name.clone();
        self.agent_context
            .sink
            .tell(RunEvent::MailDelivered { agent, from, ids: ids.clone() })
            .await;
        self.marks
            .add(ids.into_iter().zip(is_frame).map(|(id, is_frame)| Delivered { id, is_frame }));
        Outcome::Done
    }

    /// Reads the inbox. One that cannot be read now is read at the next boundary, or when it changes.
    async fn take_mail(&mut self) -> Event {
        let delivered = self.marks.pending();
        let Taken { mut mail, refused } =
            match self.agent_context.take_mail(self.marks.obeyed()).await {
                Ok(taken) => taken,
                Err(ApiError { code: ErrorCode::TeamNotFound, .. }) => Taken::default(),
                Err(error) => {
                    let text = format!(
                        "the inbox of {} cannot be read: {}",
                        self.agent_context.name,
                        chain(&error)
                    );
                    self.agent_context.sink.tell(RunEvent::Warning { text }).await;
                    Taken::default()
                }
            };
        for refused in refused {
            let text = format!("in the inbox of {}, {refused}", self.agent_context.name);
            tracing::warn!("{text}");
            self.agent_context.sink.tell(RunEvent::Warning { text }).await;
        }
        mail.retain(|mail| !delivered.contains(&mail.id));
        let sender = |mail: &Mail| (mail.id.clone(), (mail.from.clone(), mail.frame.is_some()));
        self.senders.extend(mail.iter().map(sender));
        Event::MailArrived(mail)
    }

    async fn ask(&mut self, call: ToolCall, question: Question) -> Outcome {
        let agent_context = self.agent_context.clone();
        let (agent, tool) = (agent_context.name.clone(), call.tool.clone());
        agent_context
            .sink
            .tell(RunEvent::PermissionAsked { agent, call: call.id.clone(), tool })
            .await;
        if agent_context.role != Role::Teammate {
            let folder = agent_context.context.cwd.clone();
            let call = with_plan(&agent_context, call).await;
            return self.tell_crew(ReportKind::Asks { call, question, folder }).await;
        }
        let ask = PermissionAsk {
            tool_name: call.tool.clone(),
            tool_use_id: call.key.clone(),
            description: question.description.clone(),
            input: call.input.clone(),
            suggestions: question.suggestions.clone(),
            digest: Some(Digest::of_call(&call.tool, &call.input).as_str().to_owned()),
        };
        match self.ask_lead(ask).await {
            Ok((request, answer)) => {
                let asked = Event::PermissionAsked { call: call.id.clone(), request };
                match answer {
                    Some(answer) => {
                        return Outcome::AllHappened(vec![
                            asked,
                            Event::MailArrived(vec![*answer]),
                        ]);
                    }
                    // Whoever runs the agent may ask somebody beside the lead.
                    None => {
                        let folder = agent_context.context.cwd.clone();
                        self.tell_crew(ReportKind::Asks { call, question, folder }).await
                    }
                };
                Outcome::Happened(asked)
            }
            Err(error) => {
                let reason = format!("the lead cannot be asked: {}", chain(&error));
                Outcome::Happened(Event::Answered {
                    call: call.id,
                    grant: Grant::Denied { reason },
                })
            }
        }
    }

    /// Asks the lead, and says under which request. After a crash that may be answered already: then the answer comes with it,
    /// and one that is lost is asked for once more.
    async fn ask_lead(
        &mut self,
        ask: PermissionAsk,
    ) -> Result<(String, Option<Box<Mail>>), ApiError> {
        let AgentContext { team, name, .. } = self.agent_context.as_ref();
        let asked = team.request_permission(name, ask.clone()).await?;
        if !asked.is_answered {
            return Ok((asked.request_id, None));
        }
        match self.agent_context.as_reader().permission_answer(name, &asked.request_id).await? {
            AnswerFound::There(mail) => {
                Ok((asked.request_id, Some(Box::new(self.agent_context.as_mail(*mail)))))
            }
            AnswerFound::Waits => Ok((asked.request_id, None)),
            AnswerFound::Lost => {
                team.request_permission_again(name, &asked.request_id, ask).await?;
                Ok((asked.request_id, None))
            }
        }
    }

    /// Lets those know that were asked too: the lead by the ledger of requests, whoever else by the crew.
    async fn settle(&mut self, settlement: Settlement) -> Outcome {
        let Settlement { call, request, by, refused } = settlement;
        if by == Answerer::Here
            && let Err(error) = self
                .agent_context
                .team
                .settle_permission(&self.agent_context.name, &request, refused.is_none())
                .await
        {
            let text = format!("the lead still has the question {request}: {}", chain(&error));
            self.agent_context.sink.tell(RunEvent::Warning { text }).await;
        }
        self.tell_crew(ReportKind::Settled { call, refused }).await
    }

    async fn permit(&mut self, updates: &[Value]) -> Outcome {
        let mut mode = None;
        for update in updates {
            match Arc::make_mut(&mut self.gate).apply(update) {
                Ok(new) => mode = new.or(mode),
                Err(error) => {
                    let text = format!(
                        "a permission for {} was not applied: {}",
                        self.agent_context.name,
                        chain(&error)
                    );
                    self.agent_context.sink.tell(RunEvent::Warning { text }).await;
                }
            }
        }
        match mode {
            Some(mode) => self.switch(mode).await,
            None => Outcome::Done,
        }
    }

    async fn stop_commands(&mut self) -> Outcome {
        let context = &self.agent_context.context;
        let why = "stopped, as its agent is in plan mode";
        let stopped = context.shells.stop_running(why, &context.limits).await;
        if !stopped.is_empty() {
            let commands: Vec<String> =
                stopped.iter().map(|shell| format!("`{}`", shell.command)).collect();
            let (name, commands) = (&self.agent_context.name, commands.join(", "));
            let text = format!(
                "{name} is in plan mode, and its background commands were stopped: {commands}"
            );
            self.agent_context.sink.tell(RunEvent::Warning { text }).await;
        }
        Outcome::Done
    }

    async fn switch(&mut self, mode: PermissionMode) -> Outcome {
        self.agent_context
            .sink
            .tell(RunEvent::ModeChanged { agent: self.agent_context.name.clone(), mode })
            .await;
        Outcome::Happened(Event::ModeChanged(mode))
    }

    async fn report_call(&mut self, call: &ToolCall, ending: Ending) -> Outcome {
        self.log.note(&calls::in_words(call, &ending));
        if ToolTraits::of(&call.tool).effect == CallEffect::ChangesTask
            && !ending.is_error
            && call.input.get("status") == Some(&"completed".into())
        {
            self.completed = call.input.get("taskId").and_then(Value::as_str).map(str::to_owned);
        }
        self.peer_mail = calls::peer_mail(call, &ending).or(self.peer_mail.take());
        let ended = ToolEnded {
            agent: self.agent_context.name.clone(),
            parent_call: self.agent_context.parent_call.clone(),
            call: call.id.clone(),
            tool: call.tool.clone(),
            text: ending.text,
            data: ending.data,
            is_error: ending.is_error,
        };
        self.agent_context.sink.tell(RunEvent::ToolEnded(ended)).await;
        Outcome::Done
    }

    async fn send_idle(&mut self, report: IdleReport) -> Result<Outcome, String> {
        let is_bad_answer = matches!(report.cause, IdleCause::BadAnswer(_));
        let (reason, failure) = match report.cause {
            IdleCause::TurnOver => (IdleReason::Available, None),
            IdleCause::Interrupted => (IdleReason::Interrupted, None),
            IdleCause::Failed(reason) => (IdleReason::Failed, Some(reason)),
            IdleCause::BadAnswer(fault) => (IdleReason::Failed, Some(fault.in_words().to_owned())),
        };
        // The next answer may be a good one: such a member can work.
        self.trouble = failure.clone().filter(|_| !is_bad_answer);
        let notice = IdleNotice {
            reason,
            summary: self.peer_mail.take(),
            completed: self.completed.take().map(|id| (id, "completed".to_owned())),
            failure,
            result: report.result,
        };
        let (team, name) = (&self.agent_context.team, &self.agent_context.name);
        let sent = as_member(team, &Actor::Member(name.clone()), || {
            team.notify_idle(name, notice.clone())
        })
        .await;
        sent.map(|_receipt| Outcome::Done).map_err(|error| chain(&error))
    }
}
