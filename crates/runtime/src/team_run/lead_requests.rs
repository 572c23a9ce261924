//! Handles the requests of the lead's own tools: to create or delete a team, and to start or stop
//! teammates and subagents. The module `spawn` starts teammates.

use pitcrew_protocol::{LEAD_NAME, TeamCreateInput, TeamDeleteInput, TeamDeleted};
use pitcrew_team::Actor;
use pitcrew_tools::ToolOutcome;
use tokio::sync::oneshot;

use super::agents::{AgentKind, RunningAgent};
use super::run_machine::RunInput;
use super::spawn::not_yours;
use super::start::TeamCreateState;
use super::subagents::{Sending, SubagentAnswer, launched};
use super::team_loop::TeamLoop;
use super::wake::{LeadRequest, Request};
use crate::run::KeptWorktree;
use crate::team_tools::{answer, refusal};

impl TeamLoop {
    pub(super) async fn requested(&mut self, request: Request) -> Vec<RunInput> {
        let Request { lead_request, answer: reply } = request;
        let mut reply = Some(reply);
        let (outcome, inputs) = match lead_request {
            LeadRequest::TeamCreate(input) => (self.adopt(&input).await, Vec::new()),
            LeadRequest::TeamDelete(input) => (self.delete(&input).await, Vec::new()),
            LeadRequest::Stop { name } => (self.stop_teammate(&name).await, Vec::new()),
            LeadRequest::SendOut(sending) => match self.send_out(*sending, &mut reply).await {
                Ok(()) => return Vec::new(),
                Err(outcome) => (outcome, Vec::new()),
            },
            LeadRequest::Spawn { input, call } => {
                match self.spawn(&input, LEAD_NAME, call, &mut reply).await {
                    Ok((outcome, inputs)) => (outcome, inputs),
                    Err(outcome) => (outcome, Vec::new()),
                }
            }
        };
        if let Some(reply) = reply {
            // Sending fails only if the tool call no longer waits for the answer.
            let _not_waited_for = reply.send(outcome);
        }
        inputs
    }

    /// Handles a TeamCreate call. The run itself creates its team at the start. The lead's first
    /// TeamCreate call therefore only applies its input to that team. After the lead has deleted
    /// the team, the call creates another team.
    async fn adopt(&mut self, input: &TeamCreateInput) -> ToolOutcome {
        let team = &self.run_context.team;
        match self.team_create {
            TeamCreateState::NotYet => match team.taken_over_by_lead(input).await {
                Ok(created) => {
                    self.team_create = TeamCreateState::Yes;
                    answer(&created.into())
                }
                Err(error) => refusal(&error),
            },
            TeamCreateState::Yes => ToolOutcome::failed(format!(
                "Already leading team \"{}\". Use TeamDelete first.",
                team.name()
            )),
            TeamCreateState::Deleted => self.make_another_team(input).await,
        }
    }

    async fn delete(&mut self, input: &TeamDeleteInput) -> ToolOutcome {
        if let Some(asked) = input.team_name.as_deref()
            && self.team_create != TeamCreateState::Deleted
            && !self.run_context.team.is_called(asked).await
        {
            return not_yours(self.run_context.team.name().as_str(), asked);
        }
        if self.team_create != TeamCreateState::Deleted
            && self.machine.mates() == 0
            && let Some(reminded) = self.reminded_at_deletion().await
        {
            return reminded;
        }
        let before = std::mem::replace(&mut self.team_create, TeamCreateState::Deleted);
        let deleted = match before {
            TeamCreateState::Deleted => {
                return answer(&TeamDeleted::nothing().into());
            }
            TeamCreateState::NotYet | TeamCreateState::Yes => {
                self.run_context.team.delete(&Actor::Lead).await
            }
        };
        if deleted.as_ref().is_ok_and(|deleted| deleted.success) {
            self.let_go_of_team();
        } else {
            self.team_create = before;
        }
        match deleted {
            Ok(deleted) if deleted.success => {
                answer(&deleted.keeping(&self.kept_worktrees()).into())
            }
            Ok(deleted) => answer(&deleted.into()),
            Err(error) => refusal(&error),
        }
    }

    /// Returns texts for the lead about those git worktrees of this run that still contain work.
    fn kept_worktrees(&self) -> Vec<String> {
        let kept = self.kept.iter().map(|KeptWorktree { agent, path, branch, reason }| {
            format!("the worktree of {agent}, {} (branch {branch}): {reason}", path.display())
        });
        kept.collect()
    }

    async fn stop_teammate(&mut self, id: &str) -> ToolOutcome {
        let wanted = self.run_context.team.bare_name(id).await.to_lowercase();
        let found = self.agents.all_running().find(|(name, running)| {
            !matches!(running.kind, AgentKind::Lead) && name.as_str().to_lowercase() == wanted
        });
        match found {
            Some((name, running)) => {
                running.handle.end("the lead stopped it");
                let what = if running.is_teammate() { "teammate" } else { "subagent" };
                ToolOutcome::done(
                    format!("Stopped {what} {name}."),
                    serde_json::json!({"task_id": id}),
                )
            }
            None => ToolOutcome::refused(format_args!(
                "No command or subagent in the background and no teammate is called {id}"
            )),
        }
    }

    /// Starts a subagent. If the subagent runs in the background, the tool call is answered at
    /// once. Otherwise it is answered when the subagent ends.
    async fn send_out(
        &mut self,
        mut sending: Sending,
        reply: &mut Option<oneshot::Sender<ToolOutcome>>,
    ) -> Result<(), ToolOutcome> {
        let caller =
            self.agents.running(&sending.caller).and_then(|running| running.member.as_ref());
        sending.callers_model = caller.and_then(|member| member.model.clone());
        let input = sending.input.clone();
        let (cancel, agents) = (self.backends.here.token(), &self.agents);
        let subagent = self.run_context.subagent(
            sending,
            &mut self.subagents,
            &self.limits,
            |id| agents.has_account(id),
            cancel,
        )?;
        self.announce_start(subagent.announcement()).await;
        let (built, sent) = subagent.built(&mut self.run_context, &self.loop_handle).await?;
        let Some(reply) = reply.take() else { return Ok(()) };
        let name = sent.name.clone();
        let answer = if input.run_in_background == Some(true) {
            // Sending fails only if the tool call no longer waits for the answer.
            let _not_waited_for = reply.send(launched(&name, &input));
            SubagentAnswer::Notice
        } else {
            SubagentAnswer::Call(reply)
        };
        let kind = AgentKind::SubagentRun(Box::new(sent.answering(answer)));
        let running = RunningAgent::new(&name, Box::new(built.link), kind);
        self.agents.start(&name, running);
        self.backends.here.run(&name, built.driver, built.start);
        Ok(())
    }
}
