//! Waiting in tests: until a condition holds, with a very long time limit.

use std::time::Duration;

/// Time limit of any wait in a test. A test uses it up only if something is broken, so it is far
/// longer than a slow and busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two checks of a condition that sends no notification.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `look` returns something.
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

/// Waits for a future that must complete.
pub(crate) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
