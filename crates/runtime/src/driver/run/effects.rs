//! Carries out each effect of an agent's state machine.

use pitcrew_agent::transcript::{Step, ToolCall};
use pitcrew_agent::{Effect, Ending, Event, IdleCause, IdleReport, Mail};
use pitcrew_protocol::{
    ApiError, CallEffect, ErrorCode, MessageId, PermissionMode, Status, ToolTraits, chain,
};
use pitcrew_team::{Actor, IdleNotice, IdleReason};
use serde_json::Value;
use tokio::sync::oneshot;

use super::super::agent_context::{Announcement, ReportKind};
use super::super::inbox::Taken;
use super::super::marks::Delivered;
use super::super::{calls, compaction, inspect, model_call};
use super::{Driver, Outcome};
use crate::dropped::as_member;
use crate::events::{RunEvent, ToolEnded};

impl Driver {
    pub(super) async fn carry_out(&mut self, effect: Effect) -> Result<Outcome, String> {
        let (agent_context, mode) = (self.agent_context.clone(), self.agent.mode());
        Ok(match effect {
            Effect::Append(steps) => self.append(steps)?,
            Effect::Acknowledge(ids) => self.acknowledge(ids).await,
            Effect::TakeMail => Outcome::Happened(self.take_mail().await),
            Effect::CallModel => self.call_model(),
            Effect::Compact { most } => self.compact(most),
            Effect::ReportCompaction(compaction) => {
                compaction::report(&agent_context, self.model.id(), compaction).await;
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
                let gate = self.gate.clone();
                self.begin(calls::end_turn(agent_context, gate, mode, end, self.stops_refused))
            }
            Effect::SendIdle(report) => self.send_idle(report).await?,
            Effect::SetMode(mode) => self.record_mode(mode).await?,
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

    fn call_model(&mut self) -> Outcome {
        self.trouble = None;
        // All calls of the previous turn have results. No call that the permission gate has checked
        // is therefore still waiting to run.
        self.judged.clear();
        let messages = self.agent.conversation().share_messages();
        let mode = self.agent.mode();
        let (agent_context, model) = (self.agent_context.clone(), self.model.clone());
        self.begin(model_call::call(agent_context, model, mode, messages))
    }

    fn compact(&mut self, most: Option<usize>) -> Outcome {
        let (agent_context, mode) = (self.agent_context.clone(), self.agent.mode());
        let model = self.model.clone();
        let conversation = self.agent.conversation().clone();
        let window = self.agent.profile().context.window;
        self.begin(compaction::compact(agent_context, model, mode, conversation, most, window))
    }

    /// Writes the mode to the config. The team's loop reads the mode from the config and tells the
    /// user interface.
    async fn record_mode(&mut self, mode: PermissionMode) -> Result<Outcome, String> {
        let (team, name) = (self.agent_context.as_reader(), &self.agent_context.name);
        let actor = Actor::Member(name.clone());
        let set = as_member(&team, &actor, || team.adopt_mode(name, mode.as_str())).await;
        set.map(|_| Outcome::Done).map_err(|error| chain(&error))
    }

    pub(super) async fn tell_crew(&mut self, kind: ReportKind) -> Outcome {
        let _closed = self.agent_context.reports.send(self.agent_context.report(kind)).await;
        Outcome::Done
    }

    async fn announce(&mut self, status: Status) -> Outcome {
        // If the agent has ended, report nothing here: the effect `End` reports the end together
        // with its reason.
        if status.is_over() {
            return Outcome::Done;
        }
        let detail = self
            .trouble
            .take()
            .filter(|_| !matches!(status, Status::Active | Status::ShutdownRequested));
        self.tell_face(status, detail.clone()).await;
        let fault = self.agent.conversation().answer_fault();
        // When the lead sees that the mail of this turn is marked as read, the journal must already
        // say that the agent works. Wait for that journal entry here.
        let begins = matches!(status, Status::Active | Status::ShutdownRequested)
            && self.agent_context.has_lead_elsewhere();
        let (sender, noted) = oneshot::channel();
        let announcement =
            Announcement { status, detail, fault, until_noted: begins.then_some(sender) };
        self.tell_crew(ReportKind::Announced(announcement)).await;
        // This `await` always returns an error, because the receiver drops the sender without
        // sending a value.
        let _noted = noted.await;
        Outcome::Done
    }

    pub(super) async fn tell_face(&mut self, status: Status, detail: Option<String>) {
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
        // Report the mail as delivered now. It counts as delivered even if it cannot be marked as
        // read later.
        let agent = self.agent_context.name.clone();
        self.agent_context
            .sink
            .tell(RunEvent::MailDelivered { agent, from, ids: ids.clone() })
            .await;
        self.marks
            .add(ids.into_iter().zip(is_frame).map(|(id, is_frame)| Delivered { id, is_frame }));
        Outcome::Done
    }

    /// Reads the inbox. If reading fails now, the inbox is read again at the agent's next pause
    /// between two steps, or when the inbox changes.
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

    pub(super) async fn switch(&mut self, mode: PermissionMode) -> Outcome {
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
        // One bad answer does not stop the member from working, because its next answer may be
        // good.
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
