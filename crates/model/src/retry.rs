//! Calls made again: with back-off, in the team's pace, and as long as the vendor asks.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::time::Instant;

use crate::emit::{self, Emitter};
use crate::{Model, ModelError, Pace, Request, ResponseStream, StreamEvent};

/// After so long without any part of an answer that is said, and each time the silence has lasted twice as long.
const SILENT_AFTER: Duration = Duration::from_secs(30);

/// How patiently a call is made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long a call may wait for its model, counted from its first wait. How often it is made does not matter.
    pub patience: Duration,
    /// The first pause; each further one is twice as long.
    pub first_delay: Duration,
    /// The longest pause of our own choice.
    pub longest_delay: Duration,
}

impl RetryPolicy {
    /// How long a call may wait for its model unless the settings say otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(600);
}

impl Default for RetryPolicy {
    /// Ten minutes, with pauses of half a second to half a minute.
    fn default() -> Self {
        Self {
            patience: Self::PATIENCE,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(32),
        }
    }
}

impl RetryPolicy {
    /// Returns our own pause after the given number of failed attempts.
    ///
    /// `jitter` is between 0 and 1: it takes up to half of the pause away, so that a team does not return as one.
    fn back_off(&self, failed: u32, jitter: f64) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        let delay = self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay);
        delay.mul_f64(1.0 - jitter / 2.0)
    }
}

/// The waiting of one call: how often it failed, and how long it has waited.
struct Waiting {
    policy: RetryPolicy,
    failed: u32,
    /// When the call had to wait for the first time.
    since: Option<Instant>,
}

impl Waiting {
    fn new(policy: RetryPolicy) -> Self {
        Self { policy, failed: 0, since: None }
    }

    /// Returns how much of the patience is left; the first call of this starts the clock.
    fn patience_left(&mut self) -> Duration {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.policy.patience.saturating_sub(since.elapsed())
    }

    /// Returns the pause before the next attempt, or the error that ends the call.
    ///
    /// The pause is at least our own, however soon the vendor wants to be asked again. The last one ends with the patience,
    /// so that the model is tried once more then.
    fn after(
        &mut self,
        error: ModelError,
        jitter: f64,
    ) -> Result<(Duration, ModelError), ModelError> {
        if !error.is_retryable() {
            return Err(error);
        }
        self.failed = self.failed.saturating_add(1);
        let left = self.patience_left();
        let asked = error.retry_after().unwrap_or_default();
        if left.is_zero() || asked > left {
            let waited = self.policy.patience.saturating_sub(left);
            return Err(ModelError::OutOfPatience {
                waited,
                patience: self.policy.patience,
                source: Box::new(error),
            });
        }
        let delay = self.policy.back_off(self.failed, jitter).min(left).max(asked);
        Ok((delay, error))
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
            let mut waiting = Waiting::new(policy);
            loop {
                keep_pace(&pace, &mut waiting, &out).await;
                let Err(error) = attempt(inner.as_ref(), request.clone(), &out).await else {
                    return Ok(());
                };
                let (delay, error) = waiting.after(error, jitter())?;
                tracing::debug!(model = inner.id(), failed = waiting.failed, ?delay, %error, "call is made again");
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
    let (mut heard_at, mut told_after) = (Instant::now(), SILENT_AFTER);
    loop {
        let Ok(next) = tokio::time::timeout_at(heard_at + told_after, events.next()).await else {
            out.emit(StreamEvent::Silent { silent_for: told_after }).await;
            told_after = told_after.saturating_mul(2);
            continue;
        };
        let Some(event) = next else { return Err(ModelError::StreamCut { vendor: "model" }) };
        let event = event?;
        (heard_at, told_after) = (Instant::now(), SILENT_AFTER);
        let finished = matches!(event, StreamEvent::Finished(_));
        out.emit(event).await;
        if finished {
            return Ok(());
        }
    }
}

/// Waits until the team's hold is over, and a little longer each, so that not all start in one instant. A hold that others
/// prolong again and again is kept as long as the patience lasts.
async fn keep_pace(pace: &Pace, waiting: &mut Waiting, out: &Emitter) {
    while let Some(remaining) = pace.remaining() {
        let delay = (remaining + remaining.mul_f64(jitter() / 4.0)).min(waiting.patience_left());
        if delay.is_zero() {
            return;
        }
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
