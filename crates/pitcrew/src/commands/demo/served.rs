//! `pitcrew demo --serve`: the page of the demo, which this process serves while the team runs and
//! until a signal after that.

use pitcrew_team::store::WebServerRecord;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::serve::{Bound, Serve, Serving};
use crate::context::Context;
use crate::failure::Failure;
use crate::live::signals::Signals;
use crate::output;

/// The sentence of the goal by which the script knows that a person leads the team.
pub(super) const GOAL: &str = "A person at the page answers the plan and reviews the changes.";

/// The permission rules for the time in which bob waits for the review.
pub(super) const RULES: [&str; 2] = ["Bash(date:*)", "Bash(sleep:*)"];

/// The page of a demo.
#[derive(Debug)]
pub(super) struct Served {
    serving: JoinHandle<()>,
    /// Ends the server when it is dropped.
    stop: DropGuard,
    _record: Option<WebServerRecord>,
    /// The address of the page.
    url: String,
}

impl Served {
    /// Serves the teams below the root of the demo on a free port, and prints the link.
    ///
    /// # Errors
    /// The errors of [`Serve::open`].
    pub(super) async fn open(context: &Context) -> Result<Self, Failure> {
        let Bound { server, serving, record } = Serve::on_free_port().open(context).await?;
        context.output.item(&serving, text)?;
        let stop = CancellationToken::new();
        let serving_task = tokio::spawn(server.serve(stop.clone().cancelled_owned()));
        Ok(Self {
            serving: serving_task,
            stop: stop.drop_guard(),
            _record: record,
            url: serving.url,
        })
    }

    /// Waits for a signal after the run has ended. Until then the page shows the archived team.
    ///
    /// # Errors
    /// Returns an error if signals cannot be received.
    pub(super) async fn until_signal(&self) -> Result<(), Failure> {
        let mut signals = Signals::listen()?;
        output::remark(&format!("the team has ended; {} shows it until Ctrl-C", self.url));
        signals.next().await;
        Ok(())
    }

    /// Ends the server.
    ///
    /// # Errors
    /// Returns an error if the server has panicked.
    pub(super) async fn close(self) -> Result<(), Failure> {
        drop(self.stop);
        self.serving.await.map_err(Failure::internal)
    }
}

/// Says how to lead the team.
fn text(serving: &Serving) -> String {
    format!(
        "{}\n\n\
         Then lead the team:\n\
         \x20 Plans     send wanda's plan back with a remark, and approve the next one\n\
         \x20 Team      write to bob while he works, and allow what cleo asks for\n\
         \x20 Review    comment on a line of bob's change: he goes on after your comment",
        serving.text().replace("all teams", "the demo")
    )
}
