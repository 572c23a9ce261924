//! Makes one model call: the request, the stream, and its display in the user interface.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use pitcrew_agent::{Event, ModelFailure};
use pitcrew_model::{
    AgentTag, Block, Message, Model, ModelError, Request, Response, StreamEvent, ToolSpec,
};
use pitcrew_protocol::{PermissionMode, chain};

use super::agent_context::{AgentContext, ReportKind};
use crate::events::{Answered, RunEvent, Spending};
use crate::run::MAX_OUTPUT_TOKENS;

/// Sends the conversation to the model.
pub(super) async fn call(
    agent_context: Arc<AgentContext>,
    model: Arc<dyn Model>,
    mode: PermissionMode,
    messages: Arc<Vec<Message>>,
) -> Event {
    let tools = agent_context.tool_specs(mode);
    let request = request(&agent_context, mode, messages, tools, MAX_OUTPUT_TOKENS);
    let started = Instant::now();
    match respond(&agent_context, model.as_ref(), request, Audience::Face).await {
        Ok(response) => finished(&agent_context, model.id(), response, started.elapsed()).await,
        Err(failed) => failed,
    }
}

/// Who sees a model's text while the model is still writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The user interface of the run.
    Face,
    /// Nobody sees the text, because it is not an answer of the agent.
    Nobody,
}

/// Builds the request for a model call.
pub(super) fn request(
    agent_context: &AgentContext,
    mode: PermissionMode,
    messages: Arc<Vec<Message>>,
    tools: Arc<[ToolSpec]>,
    max_output_tokens: u32,
) -> Request {
    let agent = AgentTag {
        name: agent_context.name.to_string(),
        team: Some(agent_context.team.name().to_string()),
    };
    Request { agent, system: agent_context.system(mode), messages, tools, max_output_tokens }
}

/// Makes a model call and reads the whole answer.
///
/// # Errors
/// Returns the failure as an event for the agent.
pub(super) async fn respond(
    agent_context: &AgentContext,
    model: &dyn Model,
    request: Request,
    audience: Audience,
) -> Result<Response, Event> {
    let mut stream = model.respond(request);
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::TextDelta(text)) if audience == Audience::Face => {
                agent_context
                    .sink
                    .tell(RunEvent::TextDelta { agent: agent_context.name.clone(), text })
                    .await;
            }
            Ok(
                StreamEvent::TextDelta(_)
                | StreamEvent::ThinkingDelta(_)
                | StreamEvent::ToolStarted { .. },
            ) => {}
            Ok(StreamEvent::Waiting { reason, delay }) => {
                agent_context
                    .sink
                    .tell(RunEvent::ModelWaits {
                        agent: agent_context.name.clone(),
                        reason: reason.clone(),
                        delay,
                    })
                    .await;
                let _closed = agent_context
                    .reports
                    .send(agent_context.report(ReportKind::WaitsForModel { reason, delay }))
                    .await;
            }
            Ok(StreamEvent::Silent { silent_for }) => {
                agent_context
                    .sink
                    .tell(RunEvent::ModelSilent { agent: agent_context.name.clone(), silent_for })
                    .await;
            }
            Ok(StreamEvent::Finished(response)) => return Ok(response),
            Err(error) => {
                return Err(Event::ModelFailed { reason: chain(&error), failure: sorted(&error) });
            }
        }
    }
    // The stream ended without its `Finished` event.
    let reason = format!("the model {} ended its answer without finishing it", model.id());
    Err(Event::ModelFailed { reason, failure: ModelFailure::Other })
}

/// Classifies an error by how the agent can react to it.
fn sorted(error: &ModelError) -> ModelFailure {
    match error {
        ModelError::ContextTooLong { .. } => ModelFailure::TooLong,
        ModelError::OutOfPatience { .. } => ModelFailure::Unavailable {
            retry_after: error.retry_after().filter(|asked| !asked.is_zero()),
        },
        ModelError::Spec { .. }
        | ModelError::NoModel
        | ModelError::MissingKey { .. }
        | ModelError::BaseUrl { .. }
        | ModelError::Client { .. }
        | ModelError::Transport { .. }
        | ModelError::Silent { .. }
        | ModelError::StreamCut { .. }
        | ModelError::Decode { .. }
        | ModelError::TooMuch { .. }
        | ModelError::Auth { .. }
        | ModelError::Quota { .. }
        | ModelError::RateLimited { .. }
        | ModelError::Overloaded { .. }
        | ModelError::Status { .. }
        | ModelError::Script(_) => ModelFailure::Other,
    }
}

/// Reports the tokens and the cost of a model call to the team's loop. Returns the cost, or `None`
/// if the price of the model is unknown.
pub(super) async fn spend(
    agent_context: &AgentContext,
    model: &str,
    response: &Response,
    took: Duration,
) -> Option<f64> {
    let cost_usd = agent_context.prices.cost(model, &response.usage);
    let calls =
        response.blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
    let spent = ReportKind::Spent(Spending {
        model: model.to_owned(),
        usage: response.usage,
        cost_usd,
        tool_calls: u32::try_from(calls).unwrap_or(u32::MAX),
        took,
    });
    // The team's loop lives longer than its agents. If the loop is gone, this agent is being
    // dropped too, so ignore the error.
    let _closed = agent_context.reports.send(agent_context.report(spent)).await;
    cost_usd
}

async fn finished(
    agent_context: &AgentContext,
    model: &str,
    response: Response,
    took: Duration,
) -> Event {
    let cost_usd = agent_context.prices.cost(model, &response.usage);
    agent_context
        .sink
        .tell(RunEvent::Answered(Answered {
            agent: agent_context.name.clone(),
            parent_call: agent_context.parent_call.clone(),
            message_id: response.id.clone(),
            model: response.model.clone(),
            blocks: response.blocks.clone(),
            stop: response.stop.clone(),
            usage: response.usage,
            cost_usd,
            took,
        }))
        .await;
    spend(agent_context, model, &response, took).await;
    Event::ModelFinished { response, cost_usd }
}
