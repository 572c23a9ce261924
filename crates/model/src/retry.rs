//! Repeats failed model calls. The pause grows with each failure. A call also waits as long as the
//! vendor asks, even if the vendor asked another agent of the team.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::time::Instant;

use crate::emit::{self, Emitter};
use crate::{Model, ModelError, Pace, Request, ResponseStream, StreamEvent};

/// If no part of an answer arrives for this time, a [`StreamEvent::Silent`] is emitted. While the
/// silence lasts, the time is doubled after each of these events. When a part of the answer
/// arrives, the time starts again at this value.
const SILENT_AFTER: Duration = Duration::from_secs(30);

/// The rules for repeating a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long a call may wait for its model, counted from the start of its first wait. The number
    /// of attempts is not limited.
    pub patience: Duration,
    /// The pause after the first failed attempt. Each later pause is twice as long as the one
    /// before, up to `longest_delay`.
    pub first_delay: Duration,
    /// The longest pause. If the vendor asks for a longer pause, that pause is used.
    pub longest_delay: Duration,
}

impl RetryPolicy {
    /// The default value of `patience`: how long a call may wait for its model.
    pub const PATIENCE: Duration = Duration::from_secs(600);
}

impl Default for RetryPolicy {
    /// Returns a policy that waits at most ten minutes in total. The first pause is at most half a
    /// second, and later pauses are at most 32 seconds.
    fn default() -> Self {
        Self {
            patience: Self::PATIENCE,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(32),
        }
    }
}

impl RetryPolicy {
    /// Returns the pause after `failed` failed attempts, without the time that a vendor asks for.
    ///
    /// `jitter` is between 0 and 1, and shortens the pause by up to half. So the agents of a team
    /// do not all repeat their calls at the same moment.
    fn back_off(&self, failed: u32, jitter: f64) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        let delay = self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay);
        delay.mul_f64(1.0 - jitter / 2.0)
    }
}

/// How one call has waited so far: the number of its failures, and the start of its first wait.
struct Waiting {
    policy: RetryPolicy,
    failed: u32,
    /// The start of the first wait, or `None` if the call has not waited yet.
    since: Option<Instant>,
}

impl Waiting {
    fn new(policy: RetryPolicy) -> Self {
        Self { policy, failed: 0, since: None }
    }

    /// Returns how much of the maximum waiting time (`patience`) is left. The waiting time starts
    /// when this function is used for the first time.
    fn patience_left(&mut self) -> Duration {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.policy.patience.saturating_sub(since.elapsed())
    }

    /// Returns the pause before the next attempt, or the error that ends the call.
    ///
    /// If the vendor asks for a shorter pause than `back_off` returns, the longer pause of
    /// `back_off` is used. The last pause ends exactly when the maximum waiting time (`patience`)
    /// is over, and one more attempt follows.
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
        // If the vendor asks for a longer wait than the rest of the call's maximum waiting time,
        // the call fails now, because waiting would not help.
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

/// A model that repeats its calls after temporary failures.
///
/// If a stream ends in the middle of an answer, the whole call is repeated. So
/// [`StreamEvent::Finished`] always contains a complete answer.
pub struct Retrying {
    inner: Arc<dyn Model>,
    pace: Pace,
    policy: RetryPolicy,
}

impl Retrying {
    /// Wraps a model. All models of a team must share one `pace`.
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
                // The vendor's limit applies to all agents of the team, so make all of them wait.
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

/// Makes the call once and emits its events.
async fn attempt(model: &dyn Model, request: Request, out: &Emitter) -> Result<(), ModelError> {
    let mut events = model.respond(request);
    let (mut heard_at, mut told_after) = (Instant::now(), SILENT_AFTER);
    loop {
        let Ok(next) = tokio::time::timeout_at(heard_at + told_after, events.next()).await else {
            out.emit(StreamEvent::Silent { silent_for: told_after }).await;
            // The call continues, and the time until the next [`StreamEvent::Silent`] is twice as
            // long. If the server stays silent, the timeout of the HTTP client ends the call.
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

/// Waits as long as the team must wait for the vendor, plus a short random time, so that the agents
/// do not all start at the same moment. Other agents may extend the wait again and again. The wait
/// ends at the latest when the maximum waiting time of this call is over.
async fn keep_pace(pace: &Pace, waiting: &mut Waiting, out: &Emitter) {
    while let Some(remaining) = pace.remaining() {
        let delay = (remaining + remaining.mul_f64(jitter() / 4.0)).min(waiting.patience_left());
        // The maximum waiting time of this call is over. Make the call now, although the team must
        // wait longer.
        if delay.is_zero() {
            return;
        }
        let reason = "the vendor asked the team to slow down".to_owned();
        out.emit(StreamEvent::Waiting { reason, delay }).await;
        tokio::time::sleep(delay).await;
    }
}

/// Formats an error together with all its causes.
fn in_full(error: &ModelError) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns a random number between 0 and 1.
fn jitter() -> f64 {
    f64::from(random()) / f64::from(u32::MAX)
}

/// Returns a random number of 32 bits. If the system has no source of random numbers, always
/// returns half of the largest number.
pub(crate) fn random() -> u32 {
    SysRng.try_next_u32().unwrap_or(u32::MAX / 2)
}
