//! How members go on that lived in processes of their own: there, or somewhere else since nothing of them lives any more.

use std::sync::Arc;

use pitcrew_protocol::{AgentName, BACKEND_IN_PROCESS, Member, Program, chain};
use pitcrew_team::SpawnRecord;

use super::left::is_run;
use super::remote::Launching;
use super::remote_agents::UNBOUNDED_CLIENT;
use super::run_machine::RunInput;
use super::team_loop::TeamLoop;
use crate::panes::{PaneTag, Panes};

/// How a member goes on that lived elsewhere.
pub(super) enum GoesOn {
    /// Elsewhere.
    There(Vec<RunInput>),
    /// In this process, by this entry of the config.
    Here(Box<Member>),
}

impl TeamLoop {
    /// Lets a member go on that lives elsewhere. Its process is minded from now on while it lives; a new one is started where
    /// the teammates of this run live. The error is why it cannot go on.
    pub(super) async fn resume_elsewhere(&mut self, member: &Member) -> Result<GoesOn, String> {
        let Some(record) = SpawnRecord::of(member) else {
            self.warn(format!("{} was started by another client and is left alone", member.name))
                .await;
            return Ok(GoesOn::There(Vec::new()));
        };
        if !self.may_run(record.program) {
            self.warn(format!("{} is left alone: {UNBOUNDED_CLIENT}", member.name)).await;
            self.void_questions_of_dead(member).await;
            return Ok(GoesOn::There(Vec::new()));
        }
        let tag = self.pane_tag(Some(member.name.clone()));
        // Another client runs in panes only.
        let stays = record.program == Program::Claude
            || is_run(&self.run_context.team, &member.name, &tag).await;
        let recorded = self.panes_of(member);
        let own = self.hosting.panes.as_ref().map(|panes| panes.backend_type());
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
                match self.hosting.panes.clone() {
                    Some(panes) => panes,
                    None => return self.moved_here(member).await,
                }
            }
        };
        let left = self.left_of(member, panes.as_ref()).await;
        let launching = Launching { left: Some(left), call: None };
        let mut inputs = self.start_elsewhere(member, panes, launching).await;
        if let Some(status) = self
            .last_states
            .get(&member.name)
            .map(|(status, _)| status)
            .filter(|status| !status.is_over())
        {
            inputs.push(RunInput::Announced(member.name.clone(), *status));
        }
        Ok(GoesOn::There(inputs))
    }

    /// Closes what a process that is gone leaves to see, and takes it out of the records.
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

    /// Records that a member lives in this process from now on.
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
