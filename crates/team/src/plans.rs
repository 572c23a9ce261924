//! The plans of teammates, for display to people. The plans come from the recorded requests and
//! from the messages of other clients.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError, Frame, PlanApprovalRequest};
use pitcrew_store::Past;
use serde::Serialize;

use crate::clock::wire_time;
use crate::mail::Mail;
use crate::requests::{Request, RequestKind};
use crate::{Team, TeamRecords};

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// The plan waits for an answer.
    Open,
    /// The plan is approved, so the teammate is allowed to carry it out.
    Approved,
    /// The plan is rejected, so the teammate must change it.
    Rejected,
    /// The plan needs no answer any more, because nobody waits for an answer.
    Void,
}

impl PlanState {
    /// Returns the name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Void => "void",
        }
    }
}

/// A plan that a teammate submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanView {
    /// The id of the request to approve the plan.
    pub request_id: String,
    /// The teammate that submitted the plan.
    pub member: AgentName,
    /// The state of the plan.
    pub state: PlanState,
    /// The time when the plan was submitted.
    pub asked_at: Option<String>,
    /// The file that contains the plan.
    pub plan_file_path: Option<String>,
    /// The text of the plan; null if the message that contained it is gone.
    pub plan: Option<String>,
    /// The lead's comment on the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

impl Team {
    /// Returns all submitted plans that are still known, the oldest first.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn plans(&self) -> Result<Vec<PlanView>, ApiError> {
        // Read the recorded requests before the inbox. Each request is recorded before its message
        // is sent, so this order misses no request.
        let mut ledger = self.requests().await?;
        ledger.retain(|_, request| request.kind == RequestKind::Plan);
        let mut plans: BTreeMap<String, PlanView> = BTreeMap::new();
        for mail in self.shown_mail(&AgentName::lead(), Some(Past::Lately)).await? {
            if let Some(Frame::PlanApprovalRequest(frame)) = &mail.frame {
                plans.insert(frame.request_id.clone(), PlanView::of(&mail, frame));
            }
        }
        // Add the recorded requests that have no message in the inbox. Such a message is not sent
        // yet, or it has already left the inbox.
        for (id, request) in &ledger {
            plans.entry(id.clone()).or_insert_with(|| PlanView::of_request(id, request));
        }
        let config = self.config().await?;
        for plan in plans.values_mut() {
            let answer = self.plan_answer(plan).await?;
            plan.feedback = answer.as_ref().and_then(|answer| answer.1.clone());
            plan.state = match (ledger.get(&plan.request_id), answer) {
                (Some(request), _) if request.is_void => PlanState::Void,
                (Some(Request { answer: Some(answer), .. }), _) => {
                    PlanState::answered(answer.approved)
                }
                (_, Some((approved, _))) => PlanState::answered(approved),
                (Some(_), None) => PlanState::Open,
                // The request is not recorded, and there is no answer to it. This is normal for a
                // request of another client, because pitcrew does not record such requests while
                // they are open. For a request of an ended member, pitcrew has removed the record.
                (None, None) if config.member(plan.member.as_str()).is_some() => PlanState::Open,
                (None, None) => PlanState::Void,
            };
        }
        let mut plans: Vec<PlanView> = plans.into_values().collect();
        plans.sort_by(|one, other| {
            (&one.asked_at, &one.request_id).cmp(&(&other.asked_at, &other.request_id))
        });
        Ok(plans)
    }

    /// Finds the answer to a plan in the mail of the teammate that submitted the plan.
    async fn plan_answer(&self, plan: &PlanView) -> Result<Option<Answered>, ApiError> {
        Ok(answer_in(self.shown_mail(&plan.member, Some(Past::Lately)).await?, plan))
    }
}

impl TeamRecords {
    /// Returns all plans in the order of their submission. No plan of an archived team is open.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn plans(&self) -> Result<Vec<PlanView>, ApiError> {
        if let Self::Live(team) = self {
            return team.plans().await;
        }
        let mut plans = Vec::new();
        for mail in self.mail(&AgentName::lead()).await? {
            let Some(Frame::PlanApprovalRequest(frame)) = &mail.frame else { continue };
            let mut plan = PlanView::of(&mail, frame);
            let answer = answer_in(self.mail(&plan.member).await?, &plan);
            plan.state = answer
                .as_ref()
                .map_or(PlanState::Void, |(approved, _)| PlanState::answered(*approved));
            plan.feedback = answer.and_then(|(_, feedback)| feedback);
            plans.push(plan);
        }
        plans.sort_by(|one, other| one.asked_at.cmp(&other.asked_at));
        Ok(plans)
    }
}

/// Whether an answer approves a plan, and the remarks in it.
type Answered = (bool, Option<String>);

fn answer_in(mail: Vec<Mail>, plan: &PlanView) -> Option<Answered> {
    mail.into_iter().find_map(|mail| {
        let Some(Frame::PlanApprovalResponse(frame)) = mail.frame else { return None };
        (frame.request_id == plan.request_id).then_some((frame.approved, frame.feedback))
    })
}

impl PlanState {
    fn answered(approved: bool) -> Self {
        if approved { Self::Approved } else { Self::Rejected }
    }
}

impl PlanView {
    fn of(mail: &Mail, frame: &PlanApprovalRequest) -> Self {
        Self {
            request_id: frame.request_id.clone(),
            member: AgentName::foreign(&mail.message.from),
            state: PlanState::Open,
            asked_at: frame.timestamp.clone().or_else(|| mail.message.timestamp.clone()),
            plan_file_path: frame.plan_file_path.clone(),
            plan: frame.plan_content.clone().or_else(|| frame.plan.clone()),
            feedback: None,
        }
    }

    fn of_request(id: &str, request: &Request) -> Self {
        let unsent =
            request.ask.as_ref().and_then(|ask| ask.unsent.as_deref()).and_then(Frame::detect);
        let (plan_file_path, plan) = match unsent {
            Some(Frame::PlanApprovalRequest(frame)) => (frame.plan_file_path, frame.plan_content),
            Some(_) | None => (None, None),
        };
        Self {
            request_id: id.to_owned(),
            member: request.from.clone(),
            state: PlanState::Open,
            asked_at: Some(wire_time(request.at_ms)),
            plan_file_path,
            plan,
            feedback: None,
        }
    }
}
