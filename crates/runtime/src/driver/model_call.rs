//! One call of the model: the request, the stream, and what the face sees of it.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use pitcrew_model::{AgentTag, Message, ModelError, Request, Response, StreamEvent};

use super::log::chain;
use super::seat::{ReportKind, Seat};
use crate::agent::{Event, ModelFailure};
use crate::events::{Answered, RunEvent};
use crate::gate::PermissionMode;

/// Tokens one answer may have; the largest that every current model takes.
const MAX_OUTPUT_TOKENS: u32 = 16_000;

/// Calls the model with the conversation.
pub(super) async fn call(seat: Arc<Seat>, mode: PermissionMode, messages: Vec<Message>) -> Event {
    let request = Request {
        agent: AgentTag { name: seat.name.to_string(), team: Some(seat.team.name().to_string()) },
        system: seat.system(mode),
        messages,
        tools: seat.tool_specs(mode),
        max_output_tokens: MAX_OUTPUT_TOKENS,
    };
    let started = Instant::now();
    let mut stream = seat.model.respond(request);
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::TextDelta(text)) => {
                seat.sink.tell(RunEvent::TextDelta { agent: seat.name.clone(), text }).await;
            }
            Ok(StreamEvent::ThinkingDelta(_) | StreamEvent::ToolStarted { .. }) => {}
            Ok(StreamEvent::Waiting { reason, delay }) => {
                seat.sink.tell(RunEvent::ModelWaits { agent: seat.name.clone(), reason, delay }).await;
            }
            Ok(StreamEvent::Finished(response)) => return finished(&seat, response, started.elapsed()).await,
            Err(error) => {
                let is_too_long = matches!(error, ModelError::ContextTooLong { .. });
                let failure = if is_too_long { ModelFailure::TooLong } else { ModelFailure::Other };
                return Event::ModelFailed { reason: chain(&error), failure };
            }
        }
    }
    let reason = format!("the model {} ended its answer without finishing it", seat.model.id());
    Event::ModelFailed { reason, failure: ModelFailure::Other }
}

async fn finished(seat: &Seat, response: Response, took: std::time::Duration) -> Event {
    let cost_usd = seat.prices.cost(seat.model.id(), &response.usage);
    seat.sink
        .tell(RunEvent::Answered(Answered {
            agent: seat.name.clone(),
            parent_call: seat.parent_call.clone(),
            message_id: response.id.clone(),
            model: response.model.clone(),
            blocks: response.blocks.clone(),
            stop: response.stop.clone(),
            usage: response.usage,
            cost_usd,
            took,
        }))
        .await;
    let spent = ReportKind::Spent { model: seat.model.id().to_owned(), usage: response.usage, cost_usd };
    // The crew outlives its agents; when it does not, this agent is being dropped too.
    let _closed = seat.reports.send(seat.report(spent)).await;
    Event::ModelFinished { response, cost_usd }
}
