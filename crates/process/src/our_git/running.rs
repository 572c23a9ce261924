//! Ends the git commands of a run that are running.

use std::sync::Arc;

use tokio::sync::watch;

/// Ends git commands of a run.
///
/// Cloning is cheap, and all clones end the same commands. Commands that start later run, because
/// the end of a run needs git too.
#[derive(Debug, Clone, Default)]
pub struct RunningGit(Arc<watch::Sender<()>>);

impl RunningGit {
    /// Ends the commands that run now.
    pub fn end(&self) {
        self.0.send_replace(());
    }

    /// Waits until somebody ends the commands that run at the time of this call.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ends = self.0.subscribe();
        async move {
            if ends.changed().await.is_err() {
                // Nobody is left who could end them.
                std::future::pending::<()>().await;
            }
        }
    }
}
