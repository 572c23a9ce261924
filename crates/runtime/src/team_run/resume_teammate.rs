//! Resumes the teammates of a former run, each where it can run.

use pitcrew_protocol::{
    AgentName, Injected, LEAD_NAME, Member, Status, chain, neutralised, render,
};

use super::backends::lives_elsewhere;
use super::goes_on::GoesOn;
use super::run_machine::RunInput;
use super::team_loop::TeamLoop;

impl TeamLoop {
    /// Resumes a teammate. The error is the reason why the teammate cannot be resumed.
    pub(super) async fn resume_teammate(
        &mut self,
        member: &Member,
    ) -> Result<Vec<RunInput>, String> {
        if member.prompt.is_none() {
            // A member without a prompt has joined by itself. Its own process resumes it.
            return Ok(Vec::new());
        }
        if let Some(path) = member.worktree_path.as_deref() {
            // Create the git worktree again if it is missing. Without it, git commands of the
            // teammate could work in a repository that surrounds the worktree's path.
            match self.worktrees().reopen(std::path::Path::new(path)).await {
                Ok(false) => {}
                Ok(true) => {
                    let what = "was gone and was created again; its uncommitted changes are lost";
                    self.warn(format!("the worktree {path} of {} {what}", member.name)).await;
                }
                Err(error) => {
                    return Err(format!("its worktree cannot be used: {}", chain(&error)));
                }
            }
        }
        let prompt = render(&[Injected {
            from: LEAD_NAME.to_owned(),
            color: None,
            summary: None,
            text: member.prompt.clone().unwrap_or_default(),
        }]);
        if !lives_elsewhere(member) {
            let here = self.backends.here.clone();
            return self.start_member(member, &here, prompt, &mut None).await;
        }
        match self.goes_on(member).await? {
            GoesOn::LeftAlone => Ok(Vec::new()),
            GoesOn::There(panes) => {
                let mut inputs =
                    self.start_member(member, panes.as_ref(), prompt, &mut None).await?;
                // The member's process may still be running. Such a process does not report its
                // current state again, so use the last state from the journal.
                let before = self.agents.before(&member.name).and_then(|it| it.state.as_ref());
                if let Some((status, _)) = before.filter(|(status, _)| !status.is_over()) {
                    inputs.push(RunInput::Announced(member.name.clone(), *status));
                }
                Ok(inputs)
            }
            GoesOn::Here(member) => {
                let here = self.backends.here.clone();
                self.start_member(&member, &here, prompt, &mut None).await
            }
        }
    }

    /// Reports that a teammate cannot be resumed, and returns the text for the lead. The teammate
    /// stays a member and keeps its tasks and mail. After the cause is repaired, a later run can
    /// resume it.
    pub(super) async fn not_resumed(&mut self, name: &AgentName, reason: String) -> String {
        self.warn(format!("{name} cannot go on: {reason}")).await;
        let text = format!("{name} cannot go on in this run, and takes no mail: {reason}");
        let account = self.agents.account(name);
        account.note_state(Status::Failed, Some(reason));
        account.did_not_start();
        format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text))
    }
}
