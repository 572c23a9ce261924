//! The loop of an agent. It waits for events and carries out effects in the right order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_agent::{Agent, Event, Role, Wait};
use pitcrew_model::Model;
use pitcrew_permission::gate::Gate;
use pitcrew_protocol::{MessageId, Status, chain};
use pitcrew_team::store::StoreError;
use tokio::sync::mpsc;

use super::agent_context::{AgentContext, Report, ReportKind};
use super::calls::JudgedCall;
use super::link::{AgentReceiver, ToAgent};
use super::log::{Log, LogError};
use super::marks::Marks;

mod asking;
mod effects;

pub(crate) enum Start {
    /// The agent is new and starts with this prompt.
    New(String),
    /// The agent continues from its transcript. If the agent has no transcript, it starts with the
    /// mail in its inbox.
    Resumed,
}

/// The loop of one agent.
pub(crate) struct Driver {
    agent: Agent,
    /// The model of the next model call. A call that runs keeps the model that it began with.
    model: Arc<dyn Model>,
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    log: Log,
    wire: AgentReceiver,
    running: FuturesUnordered<BoxFuture<'static, (Event, Option<JudgedCall>)>>,
    /// Calls that work on files, by call id. The permission gate has checked these calls, but they
    /// have not run yet.
    judged: HashMap<String, JudgedCall>,
    /// The sender of each message that was read but not delivered yet. The flag says whether the
    /// message is a structured message (frame).
    senders: HashMap<MessageId, (String, bool)>,
    marks: Marks,
    /// The task that the agent completed last in this turn. The idle notice to the lead names it.
    completed: Option<String>,
    /// The summary of the last message to another teammate in this turn. The idle notice to the
    /// lead contains it.
    peer_mail: Option<String>,
    /// The number of times in a row that hooks have kept the agent from ending its turn.
    stops_refused: u32,
    /// The reason why the agent cannot continue. It is set when the agent sends an idle notice
    /// because of a failure. It is cleared when the agent reports its next state or starts a model
    /// call.
    trouble: Option<String>,
    /// Whether an effect failed. The agent ends after such a failure.
    is_broken: bool,
}

/// The result of an effect.
enum Outcome {
    Done,
    Happened(Event),
    /// The effect caused several events, in this order.
    AllHappened(Vec<Event>),
    Ended(ReportKind),
}

impl Driver {
    pub(crate) fn new(
        agent: Agent,
        model: Arc<dyn Model>,
        agent_context: AgentContext,
        mut gate: Arc<Gate>,
        log: Log,
        wire: AgentReceiver,
    ) -> Self {
        for update in agent.conversation().updates() {
            // Permissions that were granted before a crash stay granted. A granted mode needs no
            // update here, because the mode is already in the config.
            if let Err(error) = Arc::make_mut(&mut gate).apply(update) {
                tracing::warn!(agent = %agent_context.name, %error, "a granted permission cannot be applied again");
            }
        }
        agent.conversation().seen().for_each(|seen| agent_context.context.reads.restore(seen));
        Self {
            agent,
            model,
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
            stops_refused: 0,
            trouble: None,
            is_broken: false,
        }
    }

    /// Returns the report channel. If the agent's task ends without its own report, for example by
    /// a panic, the code that started the task sends a report through this channel.
    pub(crate) fn reports(&self) -> mpsc::Sender<Report> {
        self.agent_context.reports.clone()
    }

    /// Runs until the agent ends or is cancelled. In both cases, the team's loop gets a report.
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
        // Stop the agent's background commands, because they must not run longer than the agent.
        self.agent_context.context.shells.stop_all(&self.agent_context.context.limits).await;
        // Delivered mail may still be unmarked now. When it is read again later, the transcript
        // shows that it was already delivered.
        let written = self.log.close().await;
        if let Err(error) = self.go_on_without_team(written) {
            tracing::warn!(agent = %self.agent_context.name, error, "the transcript is not complete");
        }
        if self.agent_context.role == Role::Subagent
            && matches!(end, ReportKind::Ended { status: Status::Completed, .. })
        {
            let knows = ReportKind::Remembers(Box::new(self.agent.conversation().clone()));
            let _closed = self.agent_context.reports.send(self.agent_context.report(knows)).await;
        }
        // Sending cannot fail while this agent runs: the team's loop reads reports until its last
        // agent has ended.
        let _closed = self.agent_context.reports.send(self.agent_context.report(end)).await;
    }

    async fn live(&mut self, first: Event) -> ReportKind {
        // First process the events that were sent before the start. For example, one of them may
        // say that the agent must wait, and then the agent must not begin its turn.
        let mut happened = VecDeque::new();
        while let Ok(sent) = self.wire.events.try_recv() {
            happened.push_back(self.received(*sent));
        }
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
                        // The agent has ended and ignores further events. This is therefore the
                        // only report about the failure.
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
                            // Put the failure before all queued events, because the effects that
                            // follow the failed effect were not carried out.
                            happened.push_front(Event::Broken { reason });
                            break;
                        }
                    }
                }
            }
            happened.push_back(self.next().await);
        }
    }

    /// Waits for the next event. While it waits, steps and read marks are written to disk.
    async fn next(&mut self) -> Event {
        loop {
            let settled = tokio::select! {
                // The branches are tried in this order. While a tool call waits for an answer from
                // the team's loop, that loop may first send an event and then the answer. The event
                // must be processed before the answer.
                biased;
                Some(sent) = self.wire.events.recv() => return self.received(*sent),
                () = self.wire.mail.notified() => return Event::MailWaiting,
                written = self.log.catch_up(), if self.log.is_behind() => self.go_on_without_team(written),
                marked = self.marks.catch_up(&self.agent_context), if self.marks.is_behind() => marked.map_err(|error| chain(&error)),
                Some((event, judged)) = self.running.next() => {
                    if let Event::HookAnswered { keep_going } = &event {
                        let refused = self.stops_refused.saturating_add(1);
                        self.stops_refused = if keep_going.is_some() { refused } else { 0 };
                    }
                    self.judged.extend(judged.map(|judged| (judged.call.id.clone(), judged)));
                    return event;
                }
            };
            if let Err(reason) = settled {
                return Event::Broken { reason };
            }
        }
    }

    /// Takes what the loop of the team sent, and returns the event for the state machine.
    fn received(&mut self, sent: ToAgent) -> Event {
        match sent {
            ToAgent::Event(event) => event,
            ToAgent::Model { model, context } => {
                self.model = model;
                Event::ModelChanged(context)
            }
        }
    }

    /// Writes the steps and the read marks to disk, as far as `wait` demands it. The next effect is
    /// carried out only after this.
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

    /// Ignores the error that the team is missing, if the agent is a lead that has deleted its own
    /// team. The lead's steps then wait in memory until the lead creates another team or ends.
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
}
