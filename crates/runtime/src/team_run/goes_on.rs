//! Resumes members that ran in their own processes. Such a member continues in a pane, or in this
//! process if its old process is gone.

use std::sync::Arc;

use pitcrew_panes::{PaneTag, Panes};
use pitcrew_protocol::{AgentName, BACKEND_IN_PROCESS, Member, Program, chain};
use pitcrew_team::SpawnRecord;

use super::left::is_run;
use super::pane_backend::PaneBackend;
use super::spawn::UNBOUNDED_CLIENT;
use super::team_loop::TeamLoop;

/// Where to resume a member that ran in its own process.
pub(super) enum GoesOn {
    /// This run does not resume the member. Either another process runs the member, or this run is
    /// not allowed to run it.
    LeftAlone,
    /// The member continues in its own process in a pane.
    There(Box<PaneBackend>),
    /// The member continues in this process, with this config entry.
    Here(Box<Member>),
}

impl TeamLoop {
    /// Decides where to resume a member that ran in its own process. If that process is alive, or
    /// if another client runs the member, the member stays in its pane. Otherwise it is resumed in
    /// the place where this run puts its teammates. If this run is not allowed to run the member,
    /// the member is left alone. The error is the reason why the member cannot be resumed.
    pub(super) async fn goes_on(&mut self, member: &Member) -> Result<GoesOn, String> {
        let Some(record) = SpawnRecord::of(member) else {
            self.warn(format!("{} was started by another client and is left alone", member.name))
                .await;
            return Ok(GoesOn::LeftAlone);
        };
        // This run restricts commands by pitcrew's sandbox, which cannot restrict the commands of
        // another client. Unless the user allows such a client, do not start it, and leave it alone
        // if it still runs.
        if !self.may_run(record.program) {
            self.warn(format!("{} is left alone: {UNBOUNDED_CLIENT}", member.name)).await;
            self.void_questions_of_dead(member).await;
            return Ok(GoesOn::LeftAlone);
        }
        let tag = self.backends.tag_of(&member.name);
        // Another client can run only in a pane, so such a member stays in its pane.
        let stays = record.program == Program::Claude
            || is_run(&self.run_context.team, &member.name, &tag).await;
        let recorded = self.backends.panes_of(member);
        let own = self.backends.hosting.panes.as_ref().map(|panes| panes.backend_type());
        let panes = match recorded {
            Some(panes) if stays || own == Some(panes.backend_type()) => panes,
            None if stays => {
                let backend = member.backend_type.as_deref().unwrap_or_default();
                self.void_questions_of_dead(member).await;
                return Err(format!(
                    "it lives in {backend}; --teammate-mode {backend} goes on with it"
                ));
            }
            former => {
                self.clear_former_place(&member.name, former, &tag).await;
                match self.backends.hosting.panes.clone() {
                    Some(panes) => panes,
                    None => return self.moved_here(member).await,
                }
            }
        };
        Ok(GoesOn::There(Box::new(self.backends.in_panes(panes))))
    }

    /// Closes the pane of a process that is gone, and removes the process and the pane from the
    /// records.
    async fn clear_former_place(
        &mut self,
        name: &AgentName,
        panes: Option<Arc<dyn Panes>>,
        tag: &PaneTag,
    ) {
        if let Some(started) = self.started().await.remove_entry(name) {
            self.stop_started(started).await;
        }
        if let Some(panes) = panes {
            self.close_panes(panes, tag, |_| true).await;
        }
    }

    /// Records that a member runs in this process from now on.
    async fn moved_here(&mut self, member: &Member) -> Result<GoesOn, String> {
        let place = self
            .run_context
            .team
            .set_place(&member.name, BACKEND_IN_PROCESS, BACKEND_IN_PROCESS)
            .await;
        place.map_err(|error| {
            format!("it cannot be recorded where it lives now: {}", chain(&error))
        })?;
        let mut member = member.clone();
        (member.tmux_pane_id, member.backend_type) =
            (Some(BACKEND_IN_PROCESS.to_owned()), Some(BACKEND_IN_PROCESS.to_owned()));
        Ok(GoesOn::Here(Box::new(member)))
    }
}
