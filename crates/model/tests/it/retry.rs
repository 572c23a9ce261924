//! Retries and the team's pace, in simulated time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use pitcrew_model::{
    Block, Model, ModelError, Pace, Request, Response, ResponseStream, RetryPolicy, Retrying, StopReason, StreamEvent,
    Usage,
};
use tokio::time::Instant;

use crate::fake::{call, finished, request};

/// A model that gives prepared streams, and notes when it was called.
#[derive(Default)]
struct Prepared {
    calls: Mutex<VecDeque<Vec<Result<StreamEvent, ModelError>>>>,
    called_at: Mutex<Vec<Instant>>,
}

impl Prepared {
    fn new(calls: impl IntoIterator<Item = Vec<Result<StreamEvent, ModelError>>>) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::new(calls.into_iter().collect()), ..Self::default() })
    }

    fn called_at(&self) -> Vec<Instant> {
        self.called_at.lock().unwrap().clone()
    }
}

impl Model for Prepared {
    fn id(&self) -> &str {
        "prepared"
    }

    fn context_window(&self) -> Option<u64> {
        Some(1)
    }

    fn respond(&self, _: Request) -> ResponseStream {
        self.called_at.lock().unwrap().push(Instant::now());
        let events = self.calls.lock().unwrap().pop_front().expect("a prepared call");
        Box::pin(stream::iter(events))
    }
}

fn answer() -> Result<StreamEvent, ModelError> {
    Ok(StreamEvent::Finished(Response {
        id: "m".to_owned(),
        model: "prepared".to_owned(),
        blocks: vec![Block::text("whole")],
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    }))
}

fn cut() -> ModelError {
    ModelError::StreamCut { vendor: "test" }
}

fn limited(retry_after_s: u64) -> ModelError {
    ModelError::RateLimited {
        vendor: "test",
        message: "slow down".to_owned(),
        retry_after: Some(Duration::from_secs(retry_after_s)),
    }
}

fn retrying(inner: &Arc<Prepared>, pace: &Pace) -> Retrying {
    let inner: Arc<dyn Model> = Arc::clone(inner) as Arc<dyn Model>;
    Retrying::new(inner, pace.clone(), RetryPolicy::default())
}

#[tokio::test(start_paused = true)]
async fn a_partial_answer_is_voided_by_a_wait_and_never_finished() {
    let half = || Ok(StreamEvent::TextDelta("half".to_owned()));
    let inner = Prepared::new([vec![half(), Err(cut())], vec![half()], vec![half(), answer()]]);
    let events = call(&retrying(&inner, &Pace::new()), Vec::new()).await.unwrap();
    let shape: Vec<&str> = events
        .iter()
        .map(|event| match event {
            StreamEvent::TextDelta(_) => "text",
            StreamEvent::Waiting { .. } => "wait",
            StreamEvent::Finished(_) => "finished",
            StreamEvent::ThinkingDelta(_) | StreamEvent::ToolStarted { .. } => "other",
        })
        .collect();
    assert_eq!(shape, ["text", "wait", "text", "wait", "text", "finished"]);
    assert_eq!(finished(&events).blocks, [Block::text("whole")]);
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_up_to_the_longest_and_the_last_error_is_told() {
    let inner = Prepared::new((0..10).map(|_| vec![Err(cut())]));
    let outcome = call(&retrying(&inner, &Pace::new()), Vec::new()).await;
    assert!(matches!(outcome, Err(ModelError::StreamCut { .. })));
    let called_at = inner.called_at();
    assert_eq!(called_at.len(), 10);
    for (i, pair) in called_at.windows(2).enumerate() {
        let longest = Duration::from_millis((500 << i).min(32_000));
        let pause = pair[1] - pair[0];
        // Timers count in whole milliseconds, rounded up.
        assert!(pause >= longest / 2 && pause <= longest + Duration::from_millis(1), "{i}: {pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_holds_every_model_of_the_team_as_long_as_the_vendor_asks() {
    let pace = Pace::new();
    let first = Prepared::new([vec![Err(limited(30))], vec![answer()]]);
    let second = Prepared::new([vec![answer()]]);
    let start = Instant::now();
    let mut slowed = retrying(&first, &pace).respond(request(Vec::new()));
    assert!(matches!(slowed.next().await, Some(Ok(StreamEvent::Waiting { .. }))));
    let others = retrying(&second, &pace);
    let (slowed, other) = tokio::join!(slowed.collect::<Vec<_>>(), call(&others, Vec::new()));
    assert!(matches!(slowed.last(), Some(Ok(StreamEvent::Finished(_)))));
    finished(&other.unwrap());
    let asked = Duration::from_secs(30);
    assert!(first.called_at()[1] - start >= asked);
    assert!(second.called_at()[0] - start >= asked);
    assert_eq!(second.called_at().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_slows_nobody_else() {
    let pace = Pace::new();
    let inner = Prepared::new([vec![Err(cut())]]);
    let mut events = retrying(&inner, &pace).respond(request(Vec::new()));
    assert!(matches!(events.next().await, Some(Ok(StreamEvent::Waiting { .. }))));
    assert_eq!(pace.remaining(), None);
}

#[tokio::test(start_paused = true)]
async fn a_vendor_that_asks_for_too_long_a_wait_ends_the_call() {
    let pace = Pace::new();
    let inner = Prepared::new([vec![Err(limited(3600))]]);
    let outcome = call(&retrying(&inner, &pace), Vec::new()).await;
    assert!(matches!(outcome, Err(ModelError::RateLimited { .. })));
    assert_eq!(inner.called_at().len(), 1);
    assert_eq!(pace.remaining(), None);
}
