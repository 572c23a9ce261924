//! Supervises a teammate in its own process: its launch, the events that can be seen from outside,
//! and its end.
//!
//! A [`RemoteSupervisor`] is the task that supervises one such process and its pane. The team's
//! loop controls it through the handle [`Remote`]. The supervisor receives few commands and reports
//! events to the loop, as a driver does for an agent in this process. The supervisor does not know
//! what the agent does. The agent and its lead communicate through the team's files. The loop reads
//! the activity of pitcrew's agents from the journal.
//!
//! The module `ends` handles the consequences of an end, and `panes` creates panes.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::PriceTable;
use pitcrew_panes::{NewPane, PaneId, PaneState, PaneTag, Panes, StartedPane};
use pitcrew_process::identity::{ProcessIdentity, Stopped};
use pitcrew_process::job::{member_variable, stop_member_process};
use pitcrew_protocol::{AgentName, Member, MessageId, ProcessRef, Program, Spawned, Status, chain};
use pitcrew_team::{Mail, PanePlace, Started, Team};
use pitcrew_tools::ToolOutcome;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::client_calls::ClientCalls;
use super::client_start::{ClientStart, Former};
use super::left::Left;
use super::pane_backend::Remote;
use super::screen::{last_output, with_screen};
use super::spawn_backend::SpawnCall;
use crate::driver::Sink;
use crate::events::RunEvent;
use crate::hosting::{Conversation, Hosting, Launch, LaunchSpec, LaunchStage};
use crate::team_tools::answer;

/// Capacity of a supervisor's command queue. Commands are rare in a teammate's life.
const WORDS_WAITING: usize = 64;

/// Time between TERM and KILL for a process. It is long enough to write a transcript to disk.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(2);

/// Time between TERM and KILL for processes that a dead process left behind. It is short because
/// the lead waits during this time.
const REST_GRACE: Duration = Duration::from_millis(200);

/// Interval at which a pane is checked if its process id is unknown.
const PANE_LOOK: Duration = Duration::from_secs(1);

/// Maximum time between the moment when a client takes mail and the moment when the client records
/// its turn in the config. If no turn is recorded after this time, the client counts as idle.
pub(super) const TURN_SHOWS_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) enum RemoteCommand {
    /// The agent was seen working, so its launch was successful.
    Works,
    /// The agent approved its shutdown and will exit soon.
    SaidGoodbye,
    /// End the agent for good: it will not be resumed.
    End {
        /// The reason for the end.
        reason: String,
    },
}

#[derive(Debug)]
pub(super) struct RemoteReport {
    pub(super) agent: AgentName,
    pub(super) seen: RemoteEvent,
}

/// What a supervisor has observed about its teammate.
#[derive(Debug)]
pub(super) enum RemoteEvent {
    /// The state of a teammate that another client runs.
    State(Status),
    /// The client has no readable conversation, so its model calls cannot be counted.
    CallsUnknown,
    /// The teammate could not be started. `call` is the spawn call that waits for this result.
    NotLaunched { reason: String, call: Option<oneshot::Sender<ToolOutcome>> },
    /// The teammate has not accepted its prompt in time. `screen` contains the last lines of its
    /// pane.
    Silent { screen: Option<String> },
    /// The process is gone. It ended by itself, or it was stopped because it did not exit after its
    /// shutdown approval.
    Gone { exit: Option<i32>, screen: Option<String> },
    /// The teammate was stopped for good and will not be resumed.
    Stopped { reason: String },
    /// The teammate was cancelled and can be resumed.
    Dropped,
}

/// The input of a launch that a supervisor needs only once.
pub(super) struct Launching {
    /// The process and the panes of this member that an earlier run left behind. `None` if there
    /// was no earlier run.
    pub(super) left: Option<Left>,
    /// The spawn call that waits for the launch. It contains the answer to send if the launch
    /// succeeds.
    pub(super) call: Option<SpawnCall>,
}

/// The data of a supervisor that never changes.
pub(super) struct RemoteSpec {
    pub(super) team: Team,
    pub(super) root: PathBuf,
    pub(super) member: Member,
    pub(super) program: Program,
    pub(super) hosting: Hosting,
    pub(super) panes: Arc<dyn Panes>,
    pub(super) launch_spec: LaunchSpec,
    /// Digest of the rules that apply to the process.
    pub(super) bounds: String,
    pub(super) tag: PaneTag,
    pub(super) reports: mpsc::Sender<RemoteReport>,
    pub(super) sink: Sink,
    /// The prices for the model calls, if another client runs the teammate.
    pub(super) prices: Arc<PriceTable>,
    /// Time that the process has to exit after it approved its shutdown.
    pub(super) grace: Duration,
    /// The token that cancels this teammate.
    pub(super) cancel: CancellationToken,
    /// The token that cancels all teammates at once.
    pub(super) kill: CancellationToken,
}

/// The supervisor of one process and its pane.
pub(super) struct RemoteSupervisor {
    pub(super) spec: RemoteSpec,
    words: mpsc::Receiver<RemoteCommand>,
    look: Arc<Notify>,
    life: Option<Life>,
    stage: Option<LaunchStage>,
    prompt: Option<MessageId>,
    /// If another client runs the teammate: the number of messages that it has taken, and its last
    /// seen state.
    pub(super) seen: (usize, Status),
    prompt_due: Option<Pin<Box<Sleep>>>,
    pub(super) turn_due: Option<Pin<Box<Sleep>>>,
    gone_by: Option<Pin<Box<Sleep>>>,
    /// If another client runs the teammate: its known model calls. The field `calls_due` completes
    /// when the conversation must be checked for more calls.
    pub(super) calls: ClientCalls,
    pub(super) calls_due: Option<Pin<Box<Sleep>>>,
}

/// The pane and the process that the supervisor started.
#[derive(Clone, Debug)]
struct Life {
    pane: PaneId,
    process: Option<ProcessIdentity>,
}

impl RemoteSupervisor {
    /// Creates a supervisor, and the handle with which the loop controls it.
    pub(super) fn new(spec: RemoteSpec) -> (Remote, Self) {
        let (sender, words) = mpsc::channel(WORDS_WAITING);
        let look = Arc::new(Notify::new());
        let (cancel, program) = (spec.cancel.clone(), spec.program);
        let remote = Remote { words: sender, look: look.clone(), cancel, program };
        let supervisor = Self {
            spec,
            words,
            look,
            life: None,
            stage: None,
            prompt: None,
            seen: (0, Status::Pending),
            prompt_due: None,
            turn_due: None,
            gone_by: None,
            calls: ClientCalls::default(),
            calls_due: None,
        };
        (remote, supervisor)
    }

    /// Supervises the process until it is gone. When the loop learns of the end, the process and
    /// the pane are already cleaned up.
    pub(super) async fn run(mut self, launching: Launching) {
        let cancel = self.spec.cancel.clone();
        let last = tokio::select! {
            biased;
            () = cancel.cancelled() => RemoteEvent::Dropped,
            last = self.live(launching) => last,
        };
        self.clear_away().await;
        self.note_calls().await;
        self.report(last).await;
    }

    pub(super) fn name(&self) -> &AgentName {
        &self.spec.member.name
    }

    pub(super) async fn report(&self, seen: RemoteEvent) {
        // Sending cannot fail: the loop reads reports until its last agent has ended.
        let _closed =
            self.spec.reports.send(RemoteReport { agent: self.name().clone(), seen }).await;
    }

    async fn live(&mut self, launching: Launching) -> RemoteEvent {
        let Launching { left, call } = launching;
        let is_adopted = match left {
            Some(left) => self.adopt(left).await,
            None => false,
        };
        let mut launched = match is_adopted {
            true => Ok(None),
            false => self.launch(Former::GoesOn).await.map(Some),
        };
        // The launch failed. The client's former conversation may be the cause, so try once more
        // with a new conversation.
        if launched.is_err() && self.has_former_conversation() {
            launched = self.launch_anew().await;
        }
        match (launched, call) {
            (Ok(started), Some(SpawnCall { spawned, reply })) => {
                // Sending fails only if the tool call no longer waits for the answer.
                let _not_waited_for =
                    reply.send(answer(&placed(*spawned, started.as_ref(), &self.spec).into()));
            }
            (Ok(_), None) => {}
            (Err(reason), call) => {
                return RemoteEvent::NotLaunched { reason, call: call.map(|call| call.reply) };
            }
        }
        let seen = self.mind().await;
        let has_begun =
            self.stage >= Some(LaunchStage::PromptTaken) || self.has_taken_prompt().await;
        if has_begun || !self.has_former_conversation() || !matches!(seen, RemoteEvent::Gone { .. })
        {
            return seen;
        }
        // A client that cannot continue its former conversation exits before it takes its first
        // message. Start the client with a new conversation.
        match self.launch_anew().await {
            Ok(_started) => self.mind().await,
            Err(reason) => RemoteEvent::NotLaunched { reason, call: None },
        }
    }

    fn has_former_conversation(&self) -> bool {
        matches!(self.spec.launch_spec.conversation, Some(Conversation::Former(_)))
    }

    /// Starts a client with a new conversation, because the client did not start with its former
    /// conversation.
    async fn launch_anew(&mut self) -> Result<Option<StartedPane>, String> {
        self.clear_away().await;
        self.stage = None;
        self.launch(Former::Refused).await.map(Some)
    }

    /// Starts the process. The prompt is put into the inbox before the process starts. The pane and
    /// the process are recorded before the start is reported.
    async fn launch(&mut self, former: Former) -> Result<StartedPane, String> {
        self.give_prompt(former).await?;
        let Launch { argv, mut env } = (self.spec.hosting.launch)(&self.spec.launch_spec);
        let (variable, tag) = member_variable(&self.spec.tag);
        env.push((variable.to_owned(), tag));
        let pane = NewPane {
            argv,
            cwd: self.spec.launch_spec.cwd.clone(),
            env,
            title: self.name().to_string(),
            color: self.spec.member.color.clone(),
            tag: self.spec.tag.clone(),
        };
        // The command in the pane runs with the member's tag in its environment. A later run
        // recognises the member's process by this tag.
        let started = self.spec.panes.start(&pane).await;
        let started =
            started.map_err(|error| format!("its pane cannot be created: {}", chain(&error)))?;
        let process = started.pid.and_then(ProcessIdentity::of);
        self.life = Some(Life { pane: started.id.clone(), process });
        let recorded = self.record().await;
        if let Err(error) = recorded {
            let screen = self.screen().await;
            return Err(with_screen(
                format!("its start cannot be recorded: {}", chain(&error)),
                screen.as_deref(),
            ));
        }
        // A program that cannot start ends at once. Report this failure now, not only after the
        // deadline for the prompt.
        let is_gone = started.pid.is_some() && process.is_none_or(|process| !process.is_alive());
        if is_gone && !self.has_taken_prompt().await {
            let screen = self.screen().await;
            return Err(with_screen("its process ended at once".to_owned(), screen.as_deref()));
        }
        self.reach(LaunchStage::Started).await;
        self.prompt_due = Some(Box::pin(tokio::time::sleep(self.spec.hosting.prompt_deadline)));
        Ok(started)
    }

    /// Puts the teammate's first message into its inbox. The first message is the prompt. For
    /// another client that continues its former conversation, the first message is a request to
    /// continue.
    async fn give_prompt(&mut self, former: Former) -> Result<(), String> {
        let failed = |error| format!("its prompt cannot be put into its inbox: {}", chain(&error));
        let RemoteSpec { team, member, program, root, .. } = &self.spec;
        let before = team.mail(&member.name).await.map_err(failed)?;
        let first = match program {
            Program::Pitcrew => {
                let call = pitcrew_team::SpawnRecord::of(member).and_then(|record| record.call);
                team.send_prompt(member, call.as_deref()).await.map_err(failed)?.id
            }
            Program::Claude => {
                let start = ClientStart::of(team, root, member, former).await.map_err(failed)?;
                self.spec.launch_spec.conversation = Some(start.conversation);
                if let Some(text) = start.said {
                    self.spec.sink.tell(RunEvent::Warning { text }).await;
                }
                start.first
            }
        };
        self.seen.0 = before.iter().filter(|mail| mail.message.is_read()).count();
        self.prompt = Some(first);
        Ok(())
    }

    /// Records the start. The pane is written to the config. The process is written to the team's
    /// own records, so that it can be stopped later.
    async fn record(&self) -> Result<(), pitcrew_protocol::ApiError> {
        let Some(life) = &self.life else { return Ok(()) };
        let RemoteSpec { team, panes, .. } = &self.spec;
        team.note_started(self.name(), self.started(life)).await?;
        team.set_place(self.name(), &life.pane.0, panes.backend_type()).await
    }

    fn started(&self, life: &Life) -> Started {
        let of = |process: ProcessIdentity| ProcessRef {
            pid: process.pid,
            start_ticks: process.start_ticks,
        };
        let RemoteSpec { team, panes, hosting, program, bounds, .. } = &self.spec;
        let now_ms = team.teams().now_ms();
        let deadline_ms = i64::try_from(hosting.prompt_deadline.as_millis()).unwrap_or(i64::MAX);
        let is_at_work = self.stage == Some(LaunchStage::Working);
        Started {
            process: life.process.map(of),
            pane: Some(PanePlace { host: panes.host(), id: life.pane.0.clone() }),
            program: (*program).into(),
            bounds: Some(bounds.clone()),
            owner: of(ProcessIdentity::own()),
            at_ms: now_ms,
            deadline_ms: (!is_at_work).then(|| now_ms.saturating_add(deadline_ms)),
        }
    }

    /// If the process and the pane of an earlier run both still exist, supervises them and returns
    /// true. Otherwise stops what is left of them and returns false.
    async fn adopt(&mut self, left: Left) -> bool {
        for pane in &left.other_panes {
            self.stop_pane(pane).await;
        }
        if let (Some(pane), Some(process)) = (left.pane.clone(), left.process) {
            self.life = Some(Life { pane, process: Some(process) });
            if let Err(error) = self.record().await {
                tracing::warn!(agent = %self.name(), error = %chain(&error), "an adopted teammate is not recorded");
            }
            self.reach(LaunchStage::PromptTaken).await;
            self.look().await;
            return true;
        }
        // If a process died while the team had no lead, its commands may still be running. Stop
        // these commands too.
        for process in left.known {
            self.stop_process(process, self.stop_grace(process)).await;
        }
        if let Some(pane) = left.pane {
            self.stop_pane(&pane).await;
        }
        false
    }

    /// Waits until the process is gone or must be stopped. Handles each event that happens during
    /// the wait.
    async fn mind(&mut self) -> RemoteEvent {
        let Some(life) = self.life.clone() else { return RemoteEvent::Dropped };
        let (panes, look) = (self.spec.panes.clone(), self.look.clone());
        let ended = ended(&life, panes.as_ref());
        tokio::pin!(ended);
        loop {
            tokio::select! {
                biased;
                () = &mut ended => {
                    // The process has ended, but it may have marked mail as read since the last
                    // check. Check its mail once more.
                    self.look().await;
                    return self.gone(&life).await;
                }
                Some(word) = self.words.recv() => match word {
                    RemoteCommand::Works => self.reach(LaunchStage::Working).await,
                    RemoteCommand::SaidGoodbye => self.gone_by = Some(Box::pin(tokio::time::sleep(self.spec.grace))),
                    RemoteCommand::End { reason } => {
                        return RemoteEvent::Stopped { reason };
                    }
                },
                () = look.notified() => self.look().await,
                () = due(&mut self.prompt_due) => {
                    self.prompt_due = None;
                    let screen = self.screen().await;
                    if self.has_former_conversation() {
                        // The client did not accept its prompt in time. It may be showing a
                        // question about the former conversation in its pane, and nobody answers
                        // that question. So report the process as gone.
                        return RemoteEvent::Gone { exit: None, screen };
                    }
                    self.report(RemoteEvent::Silent { screen }).await;
                }
                () = due(&mut self.turn_due) => {
                    self.turn_due = None;
                    self.look().await;
                }
                () = due(&mut self.calls_due) => self.look().await,
                // The process has approved its shutdown but did not exit in time. It is stopped,
                // and its approval still counts.
                () = due(&mut self.gone_by) => return RemoteEvent::Gone { exit: None, screen: None },
            }
        }
    }

    /// Returns true if the process has accepted its prompt. Such a process counts as started even
    /// if it exits soon afterwards, because it has reported its result itself.
    async fn has_taken_prompt(&self) -> bool {
        let mail = self.spec.team.mail(self.name()).await.unwrap_or_default();
        self.is_prompt_taken(&mail)
    }

    /// Returns true if the prompt is marked as read or is missing from the inbox. Later versions of
    /// the reference client remove messages that they have read.
    fn is_prompt_taken(&self, inbox: &[Mail]) -> bool {
        let Some(prompt) = &self.prompt else { return false };
        let there = inbox.iter().find(|mail| mail.id == *prompt);
        there.map_or(self.spec.program == Program::Claude, |mail| mail.message.is_read())
    }

    /// Checks the agent's mail. If another client runs the agent, also checks its config entry.
    pub(super) async fn look(&mut self) {
        let mail = match self.spec.team.mail(self.name()).await {
            Ok(mail) => mail,
            Err(error) => {
                return tracing::debug!(agent = %self.name(), error = %chain(&error), "no look at its mail");
            }
        };
        if self.is_prompt_taken(&mail) {
            (self.prompt, self.prompt_due) = (None, None);
            self.reach(LaunchStage::PromptTaken).await;
        }
        match self.spec.program {
            Program::Pitcrew => {}
            Program::Claude => {
                self.note_calls().await;
                let taken = mail.iter().filter(|mail| mail.message.is_read()).count();
                self.guess(taken).await;
            }
        }
    }

    /// Reports that a launch stage was reached. Does nothing if the stage was already reported. If
    /// the stage `PromptTaken` was not reported before `Working`, it is reported too, because an
    /// agent that works has accepted its prompt.
    pub(super) async fn reach(&mut self, stage: LaunchStage) {
        if self.stage >= Some(stage) {
            return;
        }
        if stage == LaunchStage::Working && self.stage < Some(LaunchStage::PromptTaken) {
            self.tell_stage(LaunchStage::PromptTaken).await;
        }
        self.tell_stage(stage).await;
        if let (LaunchStage::Working, Some(life)) = (stage, &self.life) {
            (self.prompt, self.prompt_due) = (None, None);
            if let Err(error) = self.spec.team.note_started(self.name(), self.started(life)).await {
                tracing::warn!(agent = %self.name(), error = %chain(&error), "it is not recorded that it works");
            }
        }
    }

    async fn tell_stage(&mut self, stage: LaunchStage) {
        self.stage = Some(stage);
        self.spec.sink.tell(RunEvent::AgentLaunched { agent: self.name().clone(), stage }).await;
    }

    async fn screen(&self) -> Option<String> {
        let life = self.life.as_ref()?;
        match self.spec.panes.screen(&life.pane).await {
            Ok(screen) => {
                screen.map(|screen| last_output(&screen)).filter(|screen| !screen.is_empty())
            }
            Err(error) => {
                tracing::warn!(agent = %self.name(), error = %chain(&error), "its screen cannot be read");
                None
            }
        }
    }

    async fn gone(&self, life: &Life) -> RemoteEvent {
        let screen = self.screen().await;
        let exit = match self.spec.panes.state(&life.pane).await {
            Ok(PaneState::Ended { exit }) => exit,
            Ok(PaneState::Running { .. } | PaneState::Gone) | Err(_) => None,
        };
        RemoteEvent::Gone { exit, screen }
    }

    /// Stops the process, closes its pane, and removes both from the records. If this fails, the
    /// records stay for a later cleanup.
    async fn clear_away(&mut self) {
        let (mut panes, mut is_gone) = (Vec::new(), true);
        match self.life.take() {
            Some(life) => {
                if let Some(process) = life.process {
                    is_gone = self.stop_process(process, self.stop_grace(process)).await;
                }
                panes.push(life.pane);
            }
            // An interrupted start may have created a pane without recording it, so search for
            // panes with the member's tag.
            None => match self.spec.panes.tagged(&self.spec.tag).await {
                Ok(found) => panes.extend(found.into_iter().map(|(pane, _)| pane)),
                Err(error) => {
                    tracing::warn!(agent = %self.name(), error = %chain(&error), "its panes cannot be looked for");
                }
            },
        }
        for pane in &panes {
            is_gone &= self.stop_pane(pane).await;
        }
        if is_gone && let Err(error) = self.spec.team.forget_started(self.name()).await {
            tracing::debug!(agent = %self.name(), error = %chain(&error), "its end is not recorded");
        }
    }

    /// Returns the time between TERM and KILL for a process. The time is zero if all teammates are
    /// cancelled at once.
    fn stop_grace(&self, process: ProcessIdentity) -> Duration {
        if self.spec.kill.is_cancelled() {
            return Duration::ZERO;
        }
        if process.is_alive() { STOP_GRACE } else { REST_GRACE }
    }

    async fn stop_process(&self, process: ProcessIdentity, grace: Duration) -> bool {
        match stop_member_process(process, self.spec.program, &self.spec.tag, grace).await {
            Stopped::WasGone | Stopped::Ended => true,
            Stopped::StillRunning => {
                tracing::warn!(agent = %self.name(), %process, "it cannot be stopped");
                false
            }
        }
    }

    async fn stop_pane(&self, pane: &PaneId) -> bool {
        match self.spec.panes.stop(pane, &self.spec.tag).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(agent = %self.name(), pane = %pane.0, error = %chain(&error), "a pane is not stopped");
                false
            }
        }
    }
}

/// Completes when the process has ended.
async fn ended(life: &Life, panes: &dyn Panes) {
    if let Some(process) = life.process {
        return process.ended().await;
    }
    loop {
        match panes.state(&life.pane).await {
            Ok(PaneState::Ended { .. } | PaneState::Gone) => return,
            Ok(PaneState::Running { .. }) | Err(_) => tokio::time::sleep(PANE_LOOK).await,
        }
    }
}

async fn due(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

/// Adds the teammate's pane to the answer of the spawn call.
fn placed(mut spawned: Spawned, started: Option<&StartedPane>, spec: &RemoteSpec) -> Spawned {
    let Some(started) = started else { return spawned };
    spawned.tmux_pane_id.clone_from(&started.id.0);
    let place = spec.panes.backend_type();
    spawned.tmux_session_name = started.session.clone().unwrap_or_else(|| place.to_owned());
    spawned.tmux_window_name = started.window.clone().unwrap_or_else(|| place.to_owned());
    spawned.is_splitpane = started.is_split.unwrap_or(started.window.is_none());
    spawned
}
