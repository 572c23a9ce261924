//! The subagents of a member that runs alone. They run in the member's process and end with the
//! member.

use pitcrew_agent::Event;
use pitcrew_agent::transcript::Grant;
use pitcrew_protocol::{AgentName, PermissionMode, Status};
use pitcrew_tools::ToolOutcome;

use super::solo_loop::SoloLoop;
use crate::driver::ReportKind;
use crate::events::RunEvent;
use crate::run::Asks;
use crate::team_run::{LeadRequest, Request, Sending, SubagentAnswer, outcome};

impl SoloLoop {
    /// Handles a request that a tool of the member has sent.
    pub(super) async fn requested(&mut self, request: Request) {
        let Request { lead_request, answer } = request;
        let refused = match lead_request {
            LeadRequest::SendOut(sending) => match self.send_out(*sending).await {
                Ok(name) => {
                    if let Some((_, subagent)) = self.at_work.get_mut(&name) {
                        subagent.answer = SubagentAnswer::Call(answer);
                    }
                    return;
                }
                Err(refused) => refused,
            },
            LeadRequest::Spawn { .. }
            | LeadRequest::TeamCreate(_)
            | LeadRequest::TeamDelete(_)
            | LeadRequest::Stop { .. } => {
                ToolOutcome::refused("Only the lead makes and ends teams and teammates")
            }
        };
        // Sending fails only if the tool call no longer waits for the answer.
        let _not_waited_for = answer.send(refused);
    }

    async fn send_out(&mut self, mut sending: Sending) -> Result<AgentName, ToolOutcome> {
        sending.callers_model = Some(self.run_context.model_name.clone());
        let subagent = self.run_context.subagent(
            sending,
            &mut self.subagents,
            &self.limits,
            |_| false,
            self.here.token(),
        )?;
        self.run_context.sink.tell(RunEvent::AgentStarted(subagent.announcement())).await;
        let (built, sent) = subagent.built(&mut self.run_context, &self.loop_handle).await?;
        let name = sent.name.clone();
        self.at_work.insert(name.clone(), (built.link, sent.answering(SubagentAnswer::Notice)));
        self.here.run(&name, built.driver, built.start);
        Ok(name)
    }

    /// Handles a report of a subagent.
    pub(super) async fn subagent_reported(&mut self, agent: AgentName, kind: ReportKind) {
        match kind {
            ReportKind::Spent(spending) => self.spent(&spending).await,
            ReportKind::Asks { call, .. } => self.asked(&agent, call.id),
            ReportKind::Remembers(conversation) => {
                if let Some((_, subagent)) = self.at_work.get_mut(&agent) {
                    subagent.remember(*conversation);
                }
            }
            ReportKind::Ended { status, reason, text } => {
                self.subagent_ended(&agent, status, reason, text)
            }
            ReportKind::Broke { reason } => {
                self.subagent_ended(&agent, Status::Failed, Some(reason), None)
            }
            ReportKind::Looped { reason, text } => {
                self.subagent_ended(&agent, Status::Failed, Some(reason), text)
            }
            ReportKind::Parked { reason, .. } => {
                self.subagent_ended(&agent, Status::Failed, Some(reason), None)
            }
            ReportKind::Dropped => {
                let reason = Some("the subagent was stopped".to_owned());
                self.subagent_ended(&agent, Status::Killed, reason, None);
            }
            ReportKind::Announced(_)
            | ReportKind::WaitsForModel { .. }
            | ReportKind::Referred(_)
            | ReportKind::Settled { .. }
            | ReportKind::UsedUp => {}
        }
    }

    /// Answers a permission request of a subagent without asking anybody. A subagent has no inbox
    /// for the lead's answer. A person may not be looking at the pane, so a request that is shown
    /// only there might wait forever. In contrast, a request of the member itself goes to both the
    /// lead and the person.
    fn asked(&self, agent: &AgentName, call: String) {
        let grant = match self.run_context.asking.asks() {
            Asks::Allow => Grant::Allowed { input: None, updates: Vec::new() },
            Asks::Deny | Asks::Person(_) => {
                let reason = "nobody is asked for a subagent of a teammate in a process of its own: say in your last message \
                              what you would have called, so that your caller can ask for it";
                Grant::Denied { reason: reason.to_owned() }
            }
        };
        if let Some((link, _)) = self.at_work.get(agent) {
            link.tell(Event::Answered { call, grant });
        }
    }

    fn subagent_ended(
        &mut self,
        agent: &AgentName,
        status: Status,
        reason: Option<String>,
        text: Option<String>,
    ) {
        let Some((_, mut subagent)) = self.at_work.remove(agent) else { return };
        let answer = std::mem::replace(&mut subagent.answer, SubagentAnswer::Notice);
        self.subagents.keep(agent, subagent);
        if let SubagentAnswer::Call(answer) = answer {
            // Sending fails only if the tool call no longer waits for the answer.
            let _not_waited_for = answer.send(outcome(agent, status, reason, text));
        }
    }

    /// Restricts the subagents to what the member is allowed to do in its new mode.
    pub(super) fn narrow_subagents(&mut self, mode: PermissionMode) {
        for (link, subagent) in self.at_work.values_mut() {
            if let Some(mode) = subagent.narrowed(mode) {
                link.tell(Event::ModeChanged(mode));
            }
        }
    }

    /// Cancels all subagents. Nobody waits for their results any more.
    pub(super) fn drop_subagents(&self) {
        self.at_work.values().for_each(|(link, _)| link.cancel());
    }
}
