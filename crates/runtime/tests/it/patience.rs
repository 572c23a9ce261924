//! How the tests wait: until it is so, and for very long.

use std::time::Duration;

/// How long a test waits for what must happen. It is waited out only where something is broken, so it is far longer than
/// anything takes on a machine that is slow and busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two looks at what nothing tells of.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until a look finds something.
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

/// Waits for something that must come.
pub(crate) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
