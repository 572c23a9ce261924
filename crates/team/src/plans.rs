//! The plans that teammates have handed in, for people: what is in the ledger of requests, and what only another client's mail
//! tells of.

use std::collections::BTreeMap;

use pitcrew_protocol::{AgentName, ApiError, Frame, PlanApprovalRequest};
use pitcrew_store::Past;
use serde::Serialize;

use crate::Team;
use crate::clock::wire_time;
use crate::mail::Mail;
use crate::requests::{Request, RequestKind};

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// It waits for an answer.
    Open,
    /// It may be carried out.
    Approved,
    /// It is to be changed.
    Rejected,
    /// Nobody waits for an answer any more.
    Void,
}

impl PlanState {
    /// Its name.
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

/// A plan that a teammate handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanView {
    /// The request for its approval.
    pub request_id: String,
    /// Who handed it in.
    pub member: AgentName,
    /// What became of it.
    pub state: PlanState,
    /// When it was handed in.
    pub asked_at: Option<String>,
    /// The file that it was written to.
    pub plan_file_path: Option<String>,
    /// The plan; null where its message is gone.
    pub plan: Option<String>,
    /// What the lead said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

impl Team {
    /// The plans that were handed in and are still known, the oldest first.
    ///
    /// # Errors
    /// `team_not_found`, `internal_error`.
    pub async fn plans(&self) -> Result<Vec<PlanView>, ApiError> {
        // First, so that what is sent meanwhile is found: a request is in the ledger before its message is in the inbox.
        let mut ledger = self.requests().await?;
        ledger.retain(|_, request| request.kind == RequestKind::Plan);
        let mut plans: BTreeMap<String, PlanView> = BTreeMap::new();
        for mail in self.shown_mail(&AgentName::lead(), Some(Past::Lately)).await? {
            if let Some(Frame::PlanApprovalRequest(frame)) = &mail.frame {
                plans.insert(frame.request_id.clone(), PlanView::of(&mail, frame));
            }
        }
        // The message of one may not be sent yet, or gone while it is still to be answered.
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
                // A request of a member that has ended leaves the ledger; another client's was never in it.
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

    /// The answer to a plan as it was written to whoever asked: whether it is a yes, and what it says.
    async fn plan_answer(
        &self,
        plan: &PlanView,
    ) -> Result<Option<(bool, Option<String>)>, ApiError> {
        let mail = self.shown_mail(&plan.member, Some(Past::Lately)).await?;
        Ok(mail.into_iter().find_map(|mail| {
            let Some(Frame::PlanApprovalResponse(frame)) = mail.frame else { return None };
            (frame.request_id == plan.request_id).then_some((frame.approved, frame.feedback))
        }))
    }
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
