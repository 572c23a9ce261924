//! Handles permission requests that reach the lead by mail. This module starts the decision on each
//! request and writes the answer for the agent that asked.

use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable};
use pitcrew_agent::Event;
use pitcrew_agent::transcript::{Grant, ToolCall};
use pitcrew_protocol::{
    AgentName, ErrorCode, Frame, MessageId, PermissionMode, PermissionRequest, Program, chain,
    telling,
};
use pitcrew_team::store::{Event as Noted, PermissionOutcome};
use pitcrew_team::{Actor, PermissionAnswer, Request, SpawnRecord};

use super::answers::{Decided, Pending, by_rule, folder_of, mode_of_client};
use super::recovery::{TRY_AFTER, TRY_AT_MOST};
use super::run_machine::{EndReason, RunInput};
use super::team_loop::TeamLoop;
use super::wake::{Asked, Decision};
use crate::events::RunEvent;
use crate::question::Digest;
use crate::refused_entries::REFUSED;
use crate::run::{AnswerReceipt, Asks, Shortfall, Taken};

impl TeamLoop {
    /// Ends a run in which the lead asks for approval of its plan but there is no person to approve
    /// it. The plan becomes the run's result.
    pub(super) async fn plan_waits(&mut self, pending: &Pending) -> Vec<RunInput> {
        match (self.run_context.asking.asks(), pending.own_plan()) {
            (Asks::Deny, Some(plan)) => {
                self.lead_end.unapproved_plan = Some(plan.trim_end().to_owned());
                let open = self.open_work().await;
                vec![RunInput::EndAsked(EndReason::Unfinished(Shortfall::PlanUnapproved, open))]
            }
            (Asks::Deny | Asks::Allow | Asks::Person(_), _) => Vec::new(),
        }
    }

    pub(super) async fn asked(&mut self, mail: MessageId, asked: PermissionRequest) {
        let requests = self.run_context.team.requests().await.unwrap_or_default();
        if requests.get(&asked.request_id).is_some_and(|request| !request.is_open()) {
            return self.agents.tell_lead(Event::Settled(vec![mail]));
        }
        if self.agents.question(&asked.request_id).is_some() {
            return;
        }
        let agent = AgentName::foreign(&asked.agent_id);
        let member = self.run_context.team.member(agent.as_str()).await.ok();
        // The description in a permission request has one of two authors. If pitcrew runs the
        // agent, the author is pitcrew's permission gate. If another client runs the agent, the
        // author is the agent's model, so the description is stored in `says`.
        let program = match member.as_ref().is_some_and(SpawnRecord::is_run_by_us) {
            true => Program::Pitcrew,
            false => Program::Claude,
        };
        let (description, says) = match program {
            Program::Pitcrew => (asked.description, None),
            Program::Claude => (None, asked.description),
        };
        let pending = Pending {
            agent: agent.clone(),
            tool: asked.tool_name,
            input: asked.input.unwrap_or_default(),
            folder: folder_of(&self.run_context, member.as_ref()),
            description: description.unwrap_or_default(),
            says,
            program,
        };
        let client_mode = member
            .as_ref()
            .filter(|_| program == Program::Claude)
            .map(|member| mode_of_client(&self.run_context, member, &requests));
        let pending = if client_mode == Some(PermissionMode::Plan) {
            pending.in_plan_mode()
        } else {
            pending
        };
        let digest = Digest::of_call(&pending.tool, &pending.input);
        let (asking, request) = (self.run_context.asking.clone(), asked.request_id);
        let (call, input) = (asked.tool_use_id.unwrap_or_default(), pending.input.clone());
        if self.agents.running(&agent).is_some_and(|running| running.handle.is_elsewhere()) {
            let (agent, call, tool) = (agent.clone(), call.clone(), pending.tool.clone());
            self.run_context.sink.tell(RunEvent::PermissionAsked { agent, call, tool }).await;
        }
        let by_rule = client_mode.and_then(|mode| by_rule(&self.run_context, mode, &pending));
        let (question, registration) = AbortHandle::new_pair();
        let asked = Asked { agent: agent.clone(), mail, call, input, digest, question };
        self.agents.of(&agent).asks(request.clone(), asked);
        let deciding = async move {
            let decided = match by_rule {
                Some(grant) => grant.into(),
                None => asking.decide(pending).await,
            };
            Decision::ByMail { request, decided, pause: Duration::ZERO }
        };
        self.sources.decisions.push(Box::pin(Abortable::new(deciding, registration)));
    }

    /// Starts a new decision on each permission request and each plan that an earlier run left
    /// without an answer. This concerns only permission requests whose mail is marked as read;
    /// unread ones arrive as new mail.
    pub(super) async fn ask_what_is_open(&mut self) {
        let team = self.run_context.team.clone();
        let open = team.requests().await.unwrap_or_default();
        let is_open = |id: &str| open.get(id).is_some_and(Request::is_open);
        for mail in team.mail(&AgentName::lead()).await.unwrap_or_default() {
            match mail.frame {
                Some(Frame::PermissionRequest(request))
                    if mail.message.is_read() && is_open(&request.request_id) =>
                {
                    self.asked(mail.id, request).await;
                }
                Some(_) | None => {}
            }
        }
        self.look_at_plans().await;
    }

    /// Withdraws a permission request that was answered elsewhere, for example by a person at the
    /// member's pane.
    pub(super) async fn answered_elsewhere(&mut self, request: &str, outcome: &PermissionOutcome) {
        let Some(Asked { agent, mail, call, .. }) = self.agents.answered(request) else { return };
        self.agents.tell_lead(Event::Settled(vec![mail]));
        let refused = (*outcome != PermissionOutcome::Allowed)
            .then(|| "it was denied beside the lead".to_owned());
        self.run_context
            .sink
            .tell(RunEvent::PermissionAnswered { agent, call, refused, would_allow: None })
            .await;
    }

    /// Withdraws the permission requests of an agent that another client runs, because its process
    /// is gone or will be started again.
    pub(super) async fn void_questions_of(&mut self, agent: &AgentName) {
        self.agents.of(agent).ask_no_more();
        if let Err(error) = self.run_context.team.void_questions_of(agent).await {
            self.warn(format!(
                "what {agent} asked before its process ended is still open: {}",
                chain(&error)
            ))
            .await;
        }
    }

    pub(super) async fn decided(&mut self, decision: Decision) {
        let refused = |grant: &Grant| match grant {
            Grant::Allowed { .. } => None,
            Grant::Denied { reason } => Some(reason.clone()),
        };
        let (agent, call, refused, would_allow) = match decision {
            Decision::AtOnce { agent, call, decided } => {
                let Decided { grant, would_allow, receipt } = decided;
                let refused = refused(&grant);
                let outcome = PermissionOutcome::of_answer(refused.is_none());
                self.note_question(&agent, &call, outcome).await;
                self.noted(receipt);
                self.agents.tell(&agent, Event::Answered { call: call.id.clone(), grant });
                (agent, call.id, refused, would_allow)
            }
            Decision::ByMail { request, mut decided, pause } => {
                // The request was already answered by somebody else.
                let Some(asked) = self.agents.answered(&request) else { return };
                let answer = answer_to(&asked, &decided.grant);
                let team = &self.run_context.team;
                let answered = team.answer_permission(&Actor::Lead, &request, answer, None).await;
                if let Err(error) = answered {
                    let (of, reason) = (&asked.agent, chain(&error));
                    let is_kept = error.code == ErrorCode::InternalError;
                    let says = match is_kept {
                        true => format!(
                            "the answer to the permission request of {of} is not written yet: {reason}"
                        ),
                        false => {
                            format!("the permission request of {of} cannot be answered: {reason}")
                        }
                    };
                    decided.receipt.give(match is_kept {
                        true => Ok(Taken::Unwritten { reason }),
                        false => Err(error),
                    });
                    if pause.is_zero() {
                        self.warn(says).await;
                    }
                    if is_kept {
                        return self.answer_later(request, asked, decided, pause);
                    }
                }
                decided.receipt.give(Ok(Taken::Written));
                self.agents.tell_lead(Event::Settled(vec![asked.mail]));
                (asked.agent, asked.call, refused(&decided.grant), decided.would_allow)
            }
        };
        self.run_context
            .sink
            .tell(RunEvent::PermissionAnswered { agent, call, refused, would_allow })
            .await;
    }

    /// Records a permission request of the lead or of a subagent in the journal, or the answer to it.
    /// No mail carries such a request, so nothing else records it.
    pub(super) async fn note_question(
        &mut self,
        agent: &AgentName,
        call: &ToolCall,
        outcome: PermissionOutcome,
    ) {
        let (request, tool, member) = (call.key.clone(), call.tool.clone(), agent.clone());
        let telling = (outcome == PermissionOutcome::Asked).then(|| telling(&call.input)).flatten();
        let noted = Noted::Permission { request, member, tool, telling, outcome };
        self.run_context.team.note([noted]).await;
    }

    /// Tells a person that the journal has the person's answer, or that the disk refused it.
    fn noted(&self, mut receipt: AnswerReceipt) {
        receipt.give(Ok(match self.run_context.team.is_journal_behind() {
            true => Taken::Unwritten { reason: REFUSED.to_owned() },
            false => Taken::Written,
        }));
    }

    /// Schedules another attempt to write an answer, because the answer could not be written to
    /// disk. The agent waits for the answer without a time limit, so the attempts do not end.
    fn answer_later(&mut self, request: String, asked: Asked, decided: Decided, pause: Duration) {
        let pause = pause.saturating_mul(2).clamp(TRY_AFTER, TRY_AT_MOST);
        let (question, registration) = AbortHandle::new_pair();
        let agent = asked.agent.clone();
        self.agents.of(&agent).asks(request.clone(), Asked { question, ..asked });
        let waiting = async move {
            tokio::time::sleep(pause).await;
            Decision::ByMail { request, decided, pause }
        };
        self.sources.decisions.push(Box::pin(Abortable::new(waiting, registration)));
    }
}

fn answer_to(asked: &Asked, grant: &Grant) -> PermissionAnswer {
    match grant {
        Grant::Allowed { input, updates } => PermissionAnswer::Allow {
            updated_input: input.as_ref().unwrap_or(&asked.input).clone(),
            updates: updates.clone(),
            digest: Some(asked.digest.as_str().to_owned()),
        },
        Grant::Denied { reason } => PermissionAnswer::Deny { reason: reason.clone() },
    }
}
