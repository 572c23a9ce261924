//! Asks a person about the plans of teammates. The lead gets each plan by mail and can answer it
//! too. The first answer counts.

use std::collections::BTreeMap;

use futures_util::future::{AbortHandle, Abortable};
use pitcrew_protocol::tool_name::EXIT_PLAN_MODE;
use pitcrew_protocol::{AgentName, InboxFile, Program, Status, chain};
use pitcrew_team::{PlanState, PlanView};
use serde_json::{Map, Value};

use super::answers::{Pending, Reply, folder_of};
use super::run_context::RunContext;
use super::run_machine::RunInput;
use super::team_loop::TeamLoop;
use crate::question::Choice;
use crate::run::{AnswerReceipt, Asks, Taken};
use crate::team_tools::PLAN_CHARS;

/// The open plans of a run about which a person is asked, by request id.
#[derive(Debug, Default)]
pub(super) struct PlanQuestions {
    asked: BTreeMap<String, PlanQuestion>,
}

/// The question about one plan.
#[derive(Debug)]
struct PlanQuestion {
    member: AgentName,
    /// Withdraws the question. `None` if the person does not answer it: then only the lead can.
    question: Option<AbortHandle>,
}

/// The end of the question about a plan.
#[derive(Debug)]
pub(super) struct PlanDecision {
    request: String,
    member: AgentName,
    /// The person's decision. `None` if the person did not answer.
    choice: Option<(Choice, AnswerReceipt)>,
}

impl PlanQuestions {
    /// Returns true if a person is being asked about a plan now.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.values().any(|plan| plan.question.is_some())
    }

    /// Withdraws the questions about an agent's plans.
    pub(super) fn forget(&mut self, agent: &AgentName) {
        self.keep(|_, plan| plan.member != *agent);
    }

    /// Withdraws all questions.
    pub(super) fn forget_all(&mut self) {
        self.keep(|_, _| false);
    }

    fn is_about(&self, agent: &AgentName) -> bool {
        self.asked.values().any(|plan| plan.member == *agent)
    }

    /// Withdraws the questions for which `is_kept` returns false.
    fn keep(&mut self, is_kept: impl Fn(&str, &PlanQuestion) -> bool) {
        self.asked.retain(|id, plan| {
            let is_kept = is_kept(id, plan);
            if let Some(question) = plan.question.as_ref().filter(|_| !is_kept) {
                question.abort();
            }
            is_kept
        });
    }
}

impl TeamLoop {
    /// Looks at the plans again if an agent's new state can come from a plan or from its answer.
    pub(super) async fn look_at_plans_of(&mut self, agent: &AgentName, status: Status) {
        if status == Status::AwaitingPlanApproval || self.plan_questions.is_about(agent) {
            self.look_at_plans().await;
        }
    }

    /// Looks at the plans again if the changed inbox can have a plan or its answer. The states of
    /// agents that pitcrew runs already show their plans, so this reads no inbox because of them.
    pub(super) async fn look_at_plans_in(&mut self, inbox: &InboxFile) {
        let is_of_lead = *inbox == AgentName::lead().inbox_file();
        let has_clients = || self.agents.all_running().any(|(_, running)| running.is_foreign());
        let is_answer =
            self.plan_questions.asked.values().any(|plan| plan.member.inbox_file() == *inbox);
        if is_answer || (is_of_lead && has_clients()) {
            self.look_at_plans().await;
        }
    }

    /// Asks a person about each open plan, and withdraws the questions about the other plans.
    pub(super) async fn look_at_plans(&mut self) {
        if !matches!(self.run_context.asking.asks(), Asks::Person(_)) {
            return;
        }
        let mut open = match self.run_context.team.plans().await {
            Ok(plans) => plans,
            // The lead can still answer the plans, so this is no error of the run.
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot read the plans");
                return;
            }
        };
        open.retain(|plan| plan.state == PlanState::Open && self.agents.is_running(&plan.member));
        self.plan_questions.keep(|id, _| open.iter().any(|plan| plan.request_id == id));
        for plan in open {
            if !self.plan_questions.asked.contains_key(&plan.request_id) {
                self.ask_about_plan(plan).await;
            }
        }
    }

    async fn ask_about_plan(&mut self, plan: PlanView) {
        let Asks::Person(person) = self.run_context.asking.asks().clone() else { return };
        let pending = pending_plan(&self.run_context, &plan).await;
        let (question, registration) = AbortHandle::new_pair();
        let (request, member) = (plan.request_id, plan.member);
        let asked = PlanQuestion { member: member.clone(), question: Some(question) };
        self.plan_questions.asked.insert(request.clone(), asked);
        let asking = self.run_context.asking.clone();
        let deciding = async move {
            let choice = match asking.reply(person, &pending).await {
                Some(Reply::Chosen(choice, receipt)) => Some((choice, receipt)),
                Some(Reply::Unasked(_)) | None => None,
            };
            PlanDecision { request, member, choice }
        };
        self.sources.plan_decisions.push(Box::pin(Abortable::new(deciding, registration)));
    }

    /// Sends the person's decision about a plan to the teammate and to the lead.
    pub(super) async fn plan_decided(&mut self, decision: PlanDecision) -> Vec<RunInput> {
        let PlanDecision { request, member, choice } = decision;
        let (approve, feedback, mut receipt) = match choice {
            Some((Choice::Once | Choice::Always { .. }, receipt)) => (true, None, receipt),
            Some((Choice::No { reason }, receipt)) => (false, reason, receipt),
            None => {
                if let Some(plan) = self.plan_questions.asked.get_mut(&request) {
                    plan.question = None;
                }
                // The run may have waited only for this answer.
                return vec![RunInput::WaitOver];
            }
        };
        self.plan_questions.asked.remove(&request);
        let answered =
            self.answer_plan_for_user(request, member.to_string(), approve, feedback).await;
        if let Err(error) = answered {
            self.warn(format!(
                "your answer to the plan of {member} has no effect: {}",
                chain(&error)
            ))
            .await;
            receipt.give(Err(error));
            self.look_at_plans().await;
        }
        receipt.give(Ok(Taken::Written));
        vec![RunInput::WaitOver]
    }
}

/// Describes a plan as the call that submitted it.
async fn pending_plan(run_context: &RunContext, plan: &PlanView) -> Pending {
    let member = run_context.team.member(plan.member.as_str()).await.ok();
    let fields = [("plan", &plan.plan), ("planFilePath", &plan.plan_file_path)];
    let fields = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), Value::from(value.clone()?))));
    let is_cut = plan.plan.as_ref().is_some_and(|plan| plan.chars().nth(PLAN_CHARS - 1).is_some());
    let cut = match is_cut {
        true => format!("; only the first {PLAN_CHARS} characters are shown"),
        false => String::new(),
    };
    Pending {
        agent: plan.member.clone(),
        tool: EXIT_PLAN_MODE.to_owned(),
        input: Value::Object(fields.collect::<Map<_, _>>()),
        folder: folder_of(run_context, member.as_ref()),
        description: format!(
            "it may change nothing before the answer; the lead can answer too{cut}"
        ),
        says: None,
        // The call has no path, so the program makes no difference.
        program: Program::Pitcrew,
    }
}
