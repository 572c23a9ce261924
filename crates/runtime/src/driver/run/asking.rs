//! Carries out the effects of permission requests: sends the request to those who can answer it,
//! tells all of them when one of them has answered, and applies the granted permission.

use std::sync::Arc;

use pitcrew_agent::transcript::{Grant, ToolCall};
use pitcrew_agent::{Answerer, Event, Mail, Question, Role, Settlement};
use pitcrew_protocol::{ApiError, CallEffect, ToolTraits, chain};
use pitcrew_team::{AnswerFound, PermissionAsk};
use serde_json::Value;

use super::super::agent_context::{AgentContext, ReportKind};
use super::{Driver, Outcome};
use crate::events::RunEvent;
use crate::question::Digest;
use crate::team_tools::plan_of;

impl Driver {
    pub(super) async fn ask(&mut self, call: ToolCall, question: Question) -> Outcome {
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
                    // The lead has received the request. The process that runs the agent is also
                    // allowed to ask a person.
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

    /// Sends the permission request to the lead, and returns the request's id. After a crash the
    /// request may already have an answer. If the answer is found, this function returns the answer
    /// too. If the answer was lost, this function sends the request to the lead once more.
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

    /// Tells everyone who received the permission request that the request has been answered. The
    /// lead reads this from the record of requests. All others learn it from the team's loop.
    pub(super) async fn settle(&mut self, settlement: Settlement) -> Outcome {
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

    pub(super) async fn permit(&mut self, updates: &[Value]) -> Outcome {
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
}

/// Adds the plan's text to a call of ExitPlanMode, so that the person who decides can read the
/// plan.
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
