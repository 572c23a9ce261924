//! Tests how failed calls are repeated, and how all agents of a team wait if a vendor asks one of
//! them to wait. The time is simulated.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use pitcrew_model::{
    Block, Model, ModelError, Pace, Request, Response, ResponseStream, RetryPolicy, Retrying,
    StopReason, StreamEvent, Usage,
};
use tokio::time::Instant;

use crate::fake::{call, finished, request};

/// A model that returns prepared streams, one for each call, and records when it was called.
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
            StreamEvent::Silent { .. }
            | StreamEvent::ThinkingDelta(_)
            | StreamEvent::ToolStarted { .. } => "other",
        })
        .collect();
    assert_eq!(shape, ["text", "wait", "text", "wait", "text", "finished"]);
    assert_eq!(finished(&events).blocks, [Block::text("whole")]);
}

/// A model that sends nothing for a while, then one word, and then nothing again until its answer.
struct Slow;

impl Model for Slow {
    fn id(&self) -> &str {
        "slow"
    }

    fn context_window(&self) -> Option<u64> {
        Some(1)
    }

    fn respond(&self, _: Request) -> ResponseStream {
        let events = [(100, Ok(StreamEvent::TextDelta("so".to_owned()))), (31, answer())];
        Box::pin(stream::iter(events).then(|(pause, event)| async move {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            event
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_silence_is_told_after_half_a_minute_and_whenever_it_is_twice_as_long() {
    let retrying = Retrying::new(Arc::new(Slow), Pace::new(), RetryPolicy::default());
    let events = call(&retrying, Vec::new()).await.unwrap();
    let silences: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Silent { silent_for } => Some(silent_for.as_secs()),
            _ => None,
        })
        .collect();
    assert_eq!(silences, [30, 60, 30]);
    assert_eq!(finished(&events).blocks, [Block::text("whole")]);
}

/// Returns a model whose calls all fail with the error that `error` creates. The model has more
/// answers than a call can use within its maximum waiting time.
fn failing(error: impl Fn() -> ModelError) -> Arc<Prepared> {
    Prepared::new((0..5_000).map(|_| vec![Err(error())]))
}

/// Returns the pauses between the calls of a model.
fn pauses(inner: &Prepared) -> Vec<Duration> {
    inner.called_at().windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_up_to_the_longest_until_the_patience_is_over() {
    let inner = failing(cut);
    let start = Instant::now();
    let outcome = call(&retrying(&inner, &Pace::new()), Vec::new()).await;
    let Err(ModelError::OutOfPatience { source, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(matches!(*source, ModelError::StreamCut { .. }));
    let pauses = pauses(&inner);
    let (last, others) = pauses.split_last().unwrap();
    for (i, pause) in others.iter().enumerate() {
        let longest = Duration::from_millis((500 << i.min(10)).min(32_000));
        // A timer rounds up to whole milliseconds, so a pause may be one millisecond longer than
        // `longest`.
        assert!(
            *pause >= longest / 2 && *pause <= longest + Duration::from_millis(1),
            "{i}: {pause:?}"
        );
    }
    assert!(*last <= Duration::from_millis(32_001), "{last:?}");
    let took = start.elapsed();
    assert!(
        took >= RetryPolicy::PATIENCE && took < RetryPolicy::PATIENCE + Duration::from_secs(1),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_vendor_that_asks_for_no_wait_or_a_short_one_is_not_asked_more_often_than_by_our_own_pauses()
 {
    for retry_after_s in [0, 1] {
        let inner = failing(|| limited(retry_after_s));
        let outcome = call(&retrying(&inner, &Pace::new()), Vec::new()).await;
        assert!(matches!(outcome, Err(ModelError::OutOfPatience { .. })), "{outcome:?}");
        let pauses = pauses(&inner);
        assert!(pauses.len() < 100, "{} calls", pauses.len());
        let (_, others) = pauses.split_last().unwrap();
        for (i, pause) in others.iter().enumerate() {
            let ours = Duration::from_millis((500 << i.min(10)).min(32_000)) / 2;
            let least = ours.max(Duration::from_secs(retry_after_s));
            assert!(*pause >= least, "pause {i} of {pause:?} is shorter than {least:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_that_lasts_shorter_than_the_patience_does_not_end_the_call() {
    for retry_after_s in [0, 1] {
        let start = Instant::now();
        let limited = (0..5_000).map(|_| vec![Err(limited(retry_after_s))]);
        let inner = Arc::new(Until {
            end: start + Duration::from_secs(590),
            inner: Prepared::new(limited),
        });
        let model = Retrying::new(inner, Pace::new(), RetryPolicy::default());
        finished(&call(&model, Vec::new()).await.unwrap());
        assert!(start.elapsed() <= Duration::from_secs(601), "{:?}", start.elapsed());
    }
}

/// A model that plays prepared streams until the time `end`. After that time, every call succeeds.
struct Until {
    end: Instant,
    inner: Arc<Prepared>,
}

impl Model for Until {
    fn id(&self) -> &str {
        "until"
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn respond(&self, request: Request) -> ResponseStream {
        if Instant::now() < self.end {
            self.inner.respond(request)
        } else {
            Box::pin(stream::iter([answer()]))
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_others_hold_back_again_and_again_is_made_when_its_patience_is_over() {
    let pace = Pace::new();
    pace.hold(Duration::from_secs(300));
    let inner = Prepared::new([vec![answer()]]);
    let start = Instant::now();
    let holding = async {
        loop {
            pace.hold(Duration::from_secs(300));
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    };
    let model = retrying(&inner, &pace);
    tokio::select! {
        events = call(&model, Vec::new()) => finished(&events.unwrap()),
        () = holding => unreachable!(),
    };
    assert!(start.elapsed() <= Duration::from_secs(601), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_settings_patience_of_nothing_makes_each_call_once() {
    let inner = failing(cut);
    let policy = RetryPolicy { patience: Duration::ZERO, ..RetryPolicy::default() };
    let model = Retrying::new(Arc::clone(&inner) as Arc<dyn Model>, Pace::new(), policy);
    assert!(matches!(call(&model, Vec::new()).await, Err(ModelError::OutOfPatience { .. })));
    assert_eq!(inner.called_at().len(), 1);
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
    let error = call(&retrying(&inner, &pace), Vec::new()).await.unwrap_err();
    assert!(matches!(error, ModelError::OutOfPatience { .. }), "{error:?}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
    let said = "the model asks to wait 3600 s, longer than the patience of 600 s allows";
    assert_eq!(error.to_string(), said);
    assert_eq!(inner.called_at().len(), 1);
    assert_eq!(pace.remaining(), None);
}
