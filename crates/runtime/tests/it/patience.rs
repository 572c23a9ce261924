//! Functions with which a test waits until a condition holds. The time limit is very long.

use std::time::Duration;

/// Time limit of every wait in a test. A wait reaches this limit only if something is broken. So
/// the limit is far longer than a slow and busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The time between two checks of a condition, if no notification announces a change.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `look` again and again until it returns `Some`, and returns that value.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time(what, looking).await
}

/// Waits for a future that must complete within the time limit.
pub(crate) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
