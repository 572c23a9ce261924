//! The loop of an agent: it waits for events, and keeps the order in which effects are carried out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_agent::{Agent, Event, Role, Wait};
use pitcrew_permission::gate::Gate;
use pitcrew_protocol::{MessageId, Status, chain};
use pitcrew_team::store::StoreError;
use tokio::sync::mpsc;

use super::agent_context::{AgentContext, Report, ReportKind};
use super::calls::JudgedCall;
use super::link::AgentReceiver;
use super::log::{Log, LogError};
use super::marks::Marks;

mod asking;
mod effects;

/// How an agent starts.
pub(crate) enum Start {
    /// The agent is new and starts with this prompt.
    New(String),
    /// The agent continues from its transcript. If it has no transcript, it starts with its inbox.
    Resumed,
}

/// The loop of one agent.
pub(crate) struct Driver {
    agent: Agent,
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    log: Log,
    wire: AgentReceiver,
    running: FuturesUnordered<BoxFuture<'static, (Event, Option<JudgedCall>)>>,
    /// Calls about files that the gate has judged and that have not run yet, by call id.
    judged: HashMap<String, JudgedCall>,
    /// Sender of each message that was read but not delivered yet, and whether it is a frame.
    senders: HashMap<MessageId, (String, bool)>,
    marks: Marks,
    /// The task completed last in this turn, for the idle notice.
    completed: Option<String>,
    /// The summary of the last message to another teammate in this turn, for the idle notice.
    peer_mail: Option<String>,
    was_kept_going: bool,
    /// The reason why the agent cannot continue. It is set with the idle notice and kept until the
    /// next state is reported.
    trouble: Option<String>,
    /// Whether an effect failed, so that the agent ends.
    is_broken: bool,
}

/// The result of an effect.
enum Outcome {
    Done,
    Happened(Event),
    /// Several events, in order.
    AllHappened(Vec<Event>),
    Ended(ReportKind),
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
            // Permissions granted before a crash stay granted. A granted mode is in the config
            // already.
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

    /// Returns the report channel. The code that starts the agent's task uses the channel if the
    /// task ends without its own report, for example by a panic.
    pub(crate) fn reports(&self) -> mpsc::Sender<Report> {
        self.agent_context.reports.clone()
    }

    /// Runs until the agent ends or is cancelled. The team's loop gets a report in both cases.
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
        // Background commands must not outlive their agent.
        self.agent_context.context.shells.stop_all(&self.agent_context.context.limits).await;
        // Delivered mail that is not yet marked is recognised from the transcript when it is read
        // again.
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
        // The loop reads reports until its last agent has ended.
        let _closed = self.agent_context.reports.send(self.agent_context.report(end)).await;
    }

    async fn live(&mut self, first: Event) -> ReportKind {
        // Process events sent before the start first. For example, a parked agent must not begin
        // its turn.
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
                        // The agent has ended and ignores further events, so this report is the
                        // only one about the failure.
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
                            // The failure comes before all queued events, because the effects after
                            // it were not carried out.
                            happened.push_front(Event::Broken { reason });
                            break;
                        }
                    }
                }
            }
            happened.push_back(self.next().await);
        }
    }

    /// Waits for the next event. Meanwhile steps and read marks are written to disk.
    async fn next(&mut self) -> Event {
        loop {
            let settled = tokio::select! {
                // Events that the loop sent before it answered a call must be processed before that
                // answer.
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

    /// Writes the data to disk that an effect waits for.
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

    /// Ignores the error that the team is missing, if the agent is a lead that deleted its team.
    /// The lead's steps then wait until the lead creates another team.
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
