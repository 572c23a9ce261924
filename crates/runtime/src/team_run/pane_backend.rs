//! The spawn backend that runs members in panes. Each member is its own process in a pane that a
//! person can see. The process runs pitcrew or another client.
//!
//! The module `remote` supervises the process after its start. Its [`RemoteSupervisor`] is a task
//! of the lead's process.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use pitcrew_agent::{ContextBound, Event};
use pitcrew_model::Model;
use pitcrew_panes::{PaneTag, Panes};
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{Member, Program};
use pitcrew_team::{SpawnRecord, Team};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::in_process::InProcess;
use super::left::Left;
use super::remote::{Launching, RemoteCommand, RemoteReport, RemoteSpec, RemoteSupervisor};
use super::run_context::RunContext;
use super::spawn_backend::{AgentHandle, MemberStart, SpawnBackend, StartedMember};
use crate::events::RunEvent;
use crate::hosting::{Hosting, LaunchSpec, member_bounds};

/// Starts members in one kind of panes.
pub(super) struct PaneBackend {
    pub(super) panes: Arc<dyn Panes>,
    pub(super) hosting: Hosting,
    /// The file with the settings from the command line, which the new process reads.
    pub(super) settings_file: Option<PathBuf>,
    /// The tag of the team's panes.
    pub(super) tag: PaneTag,
    /// The channel on which supervisors report.
    pub(super) reports: mpsc::Sender<RemoteReport>,
    /// Runs the supervisors as tasks of this process.
    pub(super) here: InProcess,
}

#[async_trait]
impl SpawnBackend for PaneBackend {
    fn program_of(&self, member: &Member) -> Program {
        SpawnRecord::of(member).map_or(Program::Claude, |record| record.program)
    }

    /// Returns the model name from the config without opening the model. A pitcrew process in a
    /// pane opens the model itself, and another client has its own names for models.
    fn model_of(&self, _: &mut RunContext, member: &Member) -> Result<String, String> {
        Ok(member.model.clone().unwrap_or_default())
    }

    async fn left_of(&self, team: &Team, member: &Member) -> Option<Left> {
        Some(Left::of(team, &member.name, self.panes.as_ref(), &self.tag_of(member)).await)
    }

    async fn start(&self, start: MemberStart<'_>) -> Result<StartedMember, String> {
        let program = self.program_of(start.member);
        if program == Program::Claude {
            self.remark_on_client(start.run_context);
        }
        let launch_spec = self.launch_spec(program, &start);
        let MemberStart { run_context, member, limits, grace, left, call, .. } = start;
        let (remote, supervisor) = RemoteSupervisor::new(RemoteSpec {
            team: run_context.team.clone(),
            root: run_context.root.clone(),
            member: member.clone(),
            program,
            hosting: self.hosting.clone(),
            panes: self.panes.clone(),
            launch_spec,
            bounds: member_bounds(&run_context.rules_digest, limits, member),
            tag: self.tag_of(member),
            reports: self.reports.clone(),
            sink: run_context.sink.clone(),
            prices: run_context.prices.clone(),
            grace,
            cancel: self.here.token(),
            kill: self.here.killed(),
        });
        self.here.supervise(supervisor, Launching { left, call: call.take() });
        Ok(StartedMember { handle: Box::new(remote), turns: None, passed_over: None })
    }
}

impl PaneBackend {
    fn tag_of(&self, member: &Member) -> PaneTag {
        PaneTag { agent: Some(member.name.clone()), ..self.tag.clone() }
    }

    fn launch_spec(&self, program: Program, start: &MemberStart<'_>) -> LaunchSpec {
        let MemberStart { run_context, member, mode, cwd, limits, .. } = start;
        let team = &run_context.team;
        // Another client identifies its lead by name, not by a signature.
        let verify_key = match program {
            Program::Pitcrew => team.lead_keys().map(ToString::to_string),
            Program::Claude => None,
        };
        LaunchSpec {
            program,
            agent_id: member.name.id_in(team.name()).to_string(),
            name: member.name.clone(),
            team: team.name().clone(),
            color: member.color.clone(),
            session_id: run_context.session_id.clone(),
            plan_mode_required: member.plan_mode_required.unwrap_or(false),
            agent_type: member.agent_type.clone(),
            mode: *mode,
            model: member.model.clone(),
            lead_process: verify_key.is_some().then(ProcessIdentity::own),
            verify_key,
            cwd: cwd.clone(),
            max_turns: limits.turns_of(member),
            settings: self.settings_file.clone(),
            conversation: None,
        }
    }

    /// Shows the user the message about another client that runs teammates, if there is such a
    /// message. The start of the client does not wait for the message.
    fn remark_on_client(&self, run_context: &RunContext) {
        let Some(remark) = self.hosting.client_remark.as_ref().map(|remark| remark()) else {
            return;
        };
        let sink = run_context.sink.clone();
        tokio::spawn(async move {
            if let Some(text) = remark.await {
                sink.tell(RunEvent::Warning { text }).await;
            }
        });
    }
}

/// The loop's handle of a teammate in another process.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) words: mpsc::Sender<RemoteCommand>,
    pub(super) look: Arc<Notify>,
    pub(super) cancel: CancellationToken,
    pub(super) program: Program,
}

impl Remote {
    /// Sends a command to the supervisor without waiting. If the queue is full, the teammate is
    /// cancelled.
    fn command(&self, word: RemoteCommand) {
        match self.words.try_send(word) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.cancel.cancel(),
        }
    }
}

impl AgentHandle for Remote {
    fn program(&self) -> Program {
        self.program
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    /// Makes the supervisor check which mail the process has taken. The process itself gets no
    /// signal, because it watches its inbox.
    fn ring(&self) {
        self.look.notify_one();
    }

    /// Does nothing, because the process reads all news in the team's files.
    fn tell(&self, _: Event) {}

    /// Does nothing, because the process got its model at its start.
    fn change_model(&self, _: Arc<dyn Model>, _: ContextBound) {}

    fn end(&self, reason: &str) {
        self.command(RemoteCommand::End { reason: reason.to_owned() });
    }

    /// Stops the process and closes its pane. The member can be resumed later.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    fn said_goodbye(&self) {
        self.command(RemoteCommand::SaidGoodbye);
    }

    fn config_changed(&self) {
        self.look.notify_one();
    }

    fn was_seen_at_work(&self) {
        self.command(RemoteCommand::Works);
    }
}
