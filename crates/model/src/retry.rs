//! Calls made again: with back-off, in the team's pace, and as long as the vendor asks.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rand::TryRng;
use rand::rngs::SysRng;

use crate::emit::{self, Emitter};
use crate::{Model, ModelError, Pace, Request, ResponseStream, StreamEvent};

/// How often and how patiently a call is made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many times a call is made in all.
    pub attempts: u32,
    /// The first pause; each further one is twice as long.
    pub first_delay: Duration,
    /// The longest pause of our own choice.
    pub longest_delay: Duration,
    /// The longest pause a vendor may ask for. A longer one ends the call with the vendor's error.
    pub longest_retry_after: Duration,
}

impl Default for RetryPolicy {
    /// Ten attempts, which with pauses of half a second to half a minute ride out an outage of three minutes.
    fn default() -> Self {
        Self {
            attempts: 10,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(32),
            longest_retry_after: Duration::from_secs(600),
        }
    }
}

impl RetryPolicy {
    /// Returns the pause after the given number of failed attempts, or none when the error is final.
    ///
    /// `jitter` is between 0 and 1: it takes up to half of our own pauses away, so that a team does not return as one.
    fn delay(&self, failed: u32, error: &ModelError, jitter: f64) -> Option<Duration> {
        if failed >= self.attempts || !error.is_retryable() {
            return None;
        }
        if let Some(asked) = error.retry_after() {
            return (asked <= self.longest_retry_after).then_some(asked);
        }
        let doublings = failed.saturating_sub(1).min(31);
        let delay = self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay);
        Some(delay.mul_f64(1.0 - jitter / 2.0))
    }
}

/// A model whose calls are made again when they fail for a passing reason.
///
/// An answer that broke off is asked for as a whole again, so [`StreamEvent::Finished`] never carries half of one.
pub struct Retrying {
    inner: Arc<dyn Model>,
    pace: Pace,
    policy: RetryPolicy,
}

impl Retrying {
    /// Wraps a model; all models of a team share one pace.
    pub fn new(inner: Arc<dyn Model>, pace: Pace, policy: RetryPolicy) -> Self {
        Self { inner, pace, policy }
    }
}

impl Model for Retrying {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn context_window(&self) -> Option<u64> {
        self.inner.context_window()
    }

    fn respond(&self, request: Request) -> ResponseStream {
        let inner = Arc::clone(&self.inner);
        let pace = self.pace.clone();
        let policy = self.policy.clone();
        emit::stream(move |out| async move {
            let mut failed = 0;
            loop {
                keep_pace(&pace, &out).await;
                let Err(error) = attempt(inner.as_ref(), request.clone(), &out).await else {
                    return Ok(());
                };
                failed += 1;
                let Some(delay) = policy.delay(failed, &error, jitter()) else {
                    return Err(error);
                };
                tracing::debug!(model = inner.id(), failed, ?delay, %error, "call is made again");
                if error.slows_the_team() {
                    pace.hold(delay);
                }
                let reason = in_full(&error);
                out.emit(StreamEvent::Waiting { reason, delay }).await;
                tokio::time::sleep(delay).await;
            }
        })
    }
}

/// Makes the call once and passes its events on.
async fn attempt(model: &dyn Model, request: Request, out: &Emitter) -> Result<(), ModelError> {
    let mut events = model.respond(request);
    while let Some(event) = events.next().await {
        let event = event?;
        let finished = matches!(event, StreamEvent::Finished(_));
        out.emit(event).await;
        if finished {
            return Ok(());
        }
    }
    Err(ModelError::StreamCut { vendor: "model" })
}

/// Waits until the team's hold is over, and a little longer each, so that not all start in one instant.
async fn keep_pace(pace: &Pace, out: &Emitter) {
    while let Some(remaining) = pace.remaining() {
        let delay = remaining + remaining.mul_f64(jitter() / 4.0);
        let reason = "the vendor asked the team to slow down".to_owned();
        out.emit(StreamEvent::Waiting { reason, delay }).await;
        tokio::time::sleep(delay).await;
    }
}

/// Writes an error with all its causes.
fn in_full(error: &ModelError) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Draws a number between 0 and 1.
fn jitter() -> f64 {
    f64::from(random()) / f64::from(u32::MAX)
}

/// Draws any number; a system without randomness always draws the middle.
pub(crate) fn random() -> u32 {
    SysRng.try_next_u32().unwrap_or(u32::MAX / 2)
}
