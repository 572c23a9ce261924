//! Handles teammates in other processes for the team's loop. This module reads their entries in the
//! journal and handles the reports of their supervisors.
//!
//! The module `remote` supervises one such process. The module `ends` handles the consequences of
//! an agent's end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pitcrew_agent::Event;
use pitcrew_model::Usage;
use pitcrew_protocol::{AgentName, Frame, PlanApprovalRequest, Status, chain, neutralised};
use pitcrew_team::store::{
    Event as Noted, JournalEntry, JournalSummary, MemberState, PermissionOutcome, StoreError, Turn,
};
use pitcrew_team::{Request, RequestKind, Team};
use pitcrew_tools::ToolOutcome;
use tokio::sync::oneshot;

use super::agents::{Answers, BeforeRun, RunningAgent};
use super::remote::{RemoteEvent, RemoteReport};
use super::run_machine::{EndReason, RunInput};
use super::screen::with_screen;
use super::team_loop::TeamLoop;
use crate::driver::{output_file, task_notification};
use crate::events::{RunEvent, Spending};

/// Name of the stored document that contains the settings from the command line.
pub(super) const SETTINGS_DOCUMENT: &str = "settings";

/// Exit code of a pitcrew process in a pane after a person has stopped it with Ctrl-C.
const INTERRUPTED_EXIT: i32 = 130;

/// Exit code of a pitcrew process after an error of the disk, of the system or in pitcrew.
const BROKEN_EXIT: i32 = 70;

/// Maximum number of characters of a request id that are shown. The model of another client may
/// have invented the id, so the id can be very long.
const REQUEST_ID_CHARS: usize = 120;

impl TeamLoop {
    /// Stores the settings from the command line in a file that teammates in panes read.
    pub(super) async fn store_settings(&mut self) {
        if self.backends.hosting.panes.is_none() || self.backends.hosting.settings.is_empty() {
            return;
        }
        let (team, layer) = (self.run_context.team.clone(), self.backends.hosting.settings.clone());
        match team.write_document(SETTINGS_DOCUMENT, serde_json::Value::Object(layer)).await {
            Ok(file) => self.backends.settings_file = Some(file),
            Err(error) => {
                let said = chain(&error);
                self.warn(format!(
                    "teammates in panes do not go by the command line's settings: {said}"
                ))
                .await;
            }
        }
    }

    /// Prepares the reading of the journal. The entries that the journal already contains are not
    /// reported as new events. They only give a summary of the earlier runs: each member's last
    /// state, number of model calls, and usage.
    pub(super) async fn open_journal(
        &mut self,
        history: Result<(JournalSummary, u64), StoreError>,
    ) {
        match history {
            Ok((summary, position)) => {
                self.journal_position = position;
                self.began.1 = Duration::from_millis(summary.ran_ms());
                let config = self.run_context.team.config().await.ok();
                for (name, member) in summary.members {
                    let is_there =
                        config.iter().any(|it| it.members.iter().any(|one| one.name == name));
                    for what in member.always.iter().filter(|_| is_there).cloned() {
                        self.run_context.asking.granted_elsewhere(&name, &what);
                        self.run_context
                            .sink
                            .tell(RunEvent::AllowedAlways { agent: name.clone(), what })
                            .await;
                    }
                    let is_status = |change: &MemberState| {
                        Some((change.state.status()?, change.detail.clone()))
                    };
                    let last = member.states.iter().rev().find_map(is_status);
                    if !member.spent.is_empty() {
                        let account = self.agents.account(&name);
                        account.carry_over(&member, last.clone(), &mut self.usage_totals);
                    }
                    self.agents.of(&name).before = BeforeRun { state: last, turns: member.turns };
                }
            }
            Err(error) => self.warn(format!("the journal cannot be read: {}", chain(&error))).await,
        }
        self.head = self.worktrees().head().await;
        let started = Noted::RunStarted { goal: self.goal.clone(), head: self.head.clone() };
        self.run_context.team.note([started]).await;
        // The time of this run starts here, just after the journal got the entry for the start of
        // the run. A later run measures the time of this run from that journal entry. Its result is
        // therefore never less than the time that this run reports.
        self.began.0 = Instant::now();
    }

    /// Reads new journal entries. They contain the activity of pitcrew's teammates in other
    /// processes.
    pub(super) async fn read_journal(&mut self) -> Vec<RunInput> {
        if !self.agents.needs_journal() {
            return Vec::new();
        }
        let team = self.run_context.team.clone();
        let entries = match team.journal_since(self.journal_position).await {
            Ok((entries, position)) => {
                self.journal_position = position;
                entries
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the journal cannot be read on");
                return Vec::new();
            }
        };
        let mut inputs = Vec::new();
        for entry in entries {
            inputs.extend(self.read_entry(entry).await);
        }
        inputs
    }

    async fn read_entry(&mut self, entry: JournalEntry) -> Vec<RunInput> {
        if let Noted::MemberChanged { member, state, detail } = &entry.event
            && let (true, Some(status)) = (self.agents.keeps_journal(member), state.status())
        {
            return self.changed_elsewhere(member, status, detail.clone()).await;
        }
        if let Noted::Permission { request, outcome, .. } = &entry.event
            && *outcome != PermissionOutcome::Asked
        {
            self.answered_elsewhere(request, outcome).await;
            return Vec::new();
        }
        if let Noted::AllowedAlways { member, what, lasts: _ } = &entry.event {
            // Only the members' own processes write an `AllowedAlways` entry. So the permission was
            // granted in another process, and the user interface does not know it yet.
            self.run_context.asking.granted_elsewhere(member, what);
            let (agent, what) = (member.clone(), what.clone());
            self.run_context.sink.tell(RunEvent::AllowedAlways { agent, what }).await;
            return Vec::new();
        }
        let Some(done) = self.done_elsewhere(entry.event).await else { return Vec::new() };
        let mut inputs = Vec::new();
        if let RunEvent::TurnEnded { agent, spending } = &done {
            inputs.extend(self.count(agent, spending));
            inputs.extend(self.client_used_up(agent, spending.tool_calls));
        }
        self.run_context.sink.tell(done).await;
        inputs
    }

    /// If a journal entry is about a teammate in another process, returns the event for the user
    /// interface.
    async fn done_elsewhere(&mut self, event: Noted) -> Option<RunEvent> {
        if let Noted::TurnEnded(turn) = event {
            let spending = spending_of(&turn);
            let is_counted = self.agents.is_counted_by_journal(&turn.member);
            return is_counted.then_some(RunEvent::TurnEnded { agent: turn.member, spending });
        }
        if let Noted::TaskChanged { task, by, change, .. } = event {
            let agent = AgentName::foreign(&by);
            let is_elsewhere = self.agents.keeps_journal(&agent);
            return is_elsewhere.then_some(RunEvent::TaskChanged { agent, task, change });
        }
        if let Noted::MessagePersisted { id, from, to, frame, .. } = event {
            if self.agents.keeps_journal(&to) {
                if let Some(running) = self.agents.running_mut(&to) {
                    running.senders.insert(id, from);
                }
                return None;
            }
            let is_plan = frame.as_deref() == Some(PlanApprovalRequest::TYPE);
            let agent = AgentName::foreign(&from);
            let is_elsewhere = self.agents.keeps_journal(&agent);
            return (is_plan && is_elsewhere).then_some(RunEvent::PlanHandedIn { agent });
        }
        if let Noted::MessageInjected { id, to: agent } = event
            && self.agents.keeps_journal(&agent)
        {
            let running = self.agents.running_mut(&agent);
            let from = running.and_then(|running| running.senders.remove(&id));
            let from = vec![from.unwrap_or_default()];
            return Some(RunEvent::MailDelivered { agent, from, ids: vec![id] });
        }
        None
    }

    async fn changed_elsewhere(
        &mut self,
        agent: &AgentName,
        status: Status,
        detail: Option<String>,
    ) -> Vec<RunInput> {
        let reason = detail.clone().filter(|_| status != Status::Active);
        self.agents.account(agent).note_state(status, reason);
        let changed =
            RunEvent::AgentChanged { agent: agent.clone(), status, detail: detail.clone() };
        self.run_context.sink.tell(changed).await;
        let Some(running) = self.agents.running_mut(agent) else { return Vec::new() };
        if status.is_over() {
            // Handle the end of the agent later, when its process has exited.
            running.handle.said_goodbye();
            running.last_words = Some((status, detail));
            return if status == Status::Failed { self.used_up(agent) } else { Vec::new() };
        }
        if status == Status::Active {
            running.handle.was_seen_at_work();
        }
        let answers = match (status, &detail) {
            (_, None) => Answers::Yes,
            (Status::Active, Some(_waits_for_model)) => Answers::Later,
            (_, Some(_)) => Answers::No,
        };
        self.set_answers(agent, answers);
        self.look_at_plans_of(agent, status).await;
        let stuck = detail
            .filter(|_| answers == Answers::No)
            .map(|reason| RunInput::Unavailable(agent.clone(), reason));
        std::iter::once(RunInput::Announced(agent.clone(), status)).chain(stuck).collect()
    }

    /// Handles one report of a supervisor.
    pub(super) async fn sighted(&mut self, remote_report: RemoteReport) -> Vec<RunInput> {
        let RemoteReport { agent, seen } = remote_report;
        match seen {
            RemoteEvent::State(status) => {
                let account = self.agents.account(&agent);
                account.summary.state = status;
                account.seen_at_work();
                self.run_context.note_state(&agent, status, None).await;
                vec![RunInput::Announced(agent, status)]
            }
            RemoteEvent::CallsUnknown => {
                self.calls_unknown(&agent).await;
                Vec::new()
            }
            RemoteEvent::NotLaunched { reason, call } => {
                self.not_launched(&agent, reason, call).await
            }
            RemoteEvent::Silent { screen } => self.silent(&agent, screen).await,
            RemoteEvent::Gone { exit, screen } => self.gone(&agent, exit, screen).await,
            RemoteEvent::Stopped { reason } => {
                let mut inputs = self.read_journal().await;
                let (status, detail) = (Status::Killed, Some(reason.clone()));
                let changed = RunEvent::AgentChanged { agent: agent.clone(), status, detail };
                self.run_context.sink.tell(changed).await;
                inputs.extend(self.ended(&agent, Status::Killed, Some(reason), None).await);
                inputs
            }
            RemoteEvent::Dropped => {
                let mut inputs = self.read_journal().await;
                inputs.extend(self.dropped_elsewhere(&agent).await);
                inputs
            }
        }
    }

    /// Handles the exit of a process that this run did not ask to exit.
    ///
    /// The reason for the exit comes from the last journal entry of the process. If the journal has
    /// no such entry, the reason is one of these: a person stopped the process with Ctrl-C, the
    /// agent sent a shutdown approval to the lead, or the process died.
    async fn gone(
        &mut self,
        agent: &AgentName,
        exit: Option<i32>,
        screen: Option<String>,
    ) -> Vec<RunInput> {
        let mut inputs = self.read_journal().await;
        if self.machine.end_reason().is_some_and(EndReason::is_resumable) {
            // The member stays in the team for the next run.
            inputs.extend(self.dropped_elsewhere(agent).await);
            return inputs;
        }
        let running = self.agents.running_mut(agent);
        let (status, reason) = match running.and_then(|running| running.last_words.take()) {
            Some(last_word) => last_word,
            None if exit == Some(INTERRUPTED_EXIT) && self.agents.keeps_journal(agent) => {
                inputs.extend(self.stopped_at_its_pane(agent).await);
                return inputs;
            }
            None => {
                let (status, reason) = self.fate(agent, exit, screen).await;
                let changed =
                    RunEvent::AgentChanged { agent: agent.clone(), status, detail: reason.clone() };
                self.run_context.sink.tell(changed).await;
                self.run_context.note_state(agent, status, reason.clone()).await;
                (status, reason)
            }
        };
        self.agents.account(agent).note_state(status, reason.clone());
        if status == Status::Failed && !self.used_up(agent).is_empty() {
            // The member stays in the team. A later run with a higher limit can continue it.
            self.agents.end(agent);
            inputs.push(RunInput::Left(agent.clone()));
            return inputs;
        }
        let is_broken = status == Status::Failed
            && exit == Some(BROKEN_EXIT)
            && self.agents.keeps_journal(agent);
        // A team that the user ends has no next run.
        if is_broken && self.machine.end_reason().is_none() {
            let reason = reason.unwrap_or_else(|| "its process said nothing about it".to_owned());
            inputs.extend(self.broken_in_its_pane(agent, &reason).await);
            return inputs;
        }
        let worktree = self.agents.end(agent).and_then(RunningAgent::worktree);
        self.retire(agent, status, reason, worktree.as_deref()).await;
        inputs.push(RunInput::Left(agent.clone()));
        inputs
    }

    /// Handles that an error of the disk, of the system or in pitcrew ended a teammate in its pane.
    /// It may have more to do, so it stays in the team, and the next run can resume it.
    async fn broken_in_its_pane(&mut self, agent: &AgentName, reason: &str) -> Vec<RunInput> {
        let what = format!("An error of the disk, the system or pitcrew ended {agent}: {reason}");
        self.warn(format!("{what}; it stays in the team, and the next run goes on with it")).await;
        self.stays_for_the_next_run(agent, &format!("{}.", what.trim_end_matches('.')))
    }

    /// Records that a teammate's process is gone while the teammate stays a member. If another
    /// client runs the teammate, the next run starts that client again, and the client sends its
    /// open permission requests again.
    async fn dropped_elsewhere(&mut self, agent: &AgentName) -> Vec<RunInput> {
        if self.agents.is_foreign(agent) {
            // The next process of the client sends its permission requests again, so withdraw the
            // old requests.
            self.void_questions_of(agent).await;
        }
        self.dropped(agent).await
    }

    /// Records that a person stopped one of pitcrew's teammates at its pane. The member stays in
    /// the team and keeps its tasks. The next run can resume it.
    async fn stopped_at_its_pane(&mut self, agent: &AgentName) -> Vec<RunInput> {
        let reason = "the user stopped it at its pane; it can be resumed".to_owned();
        self.agents.account(agent).note_state(Status::Killed, Some(reason.clone()));
        let changed = RunEvent::AgentChanged {
            agent: agent.clone(),
            status: Status::Killed,
            detail: Some(reason.clone()),
        };
        self.run_context.sink.tell(changed).await;
        self.run_context.note_state(agent, Status::Killed, Some(reason)).await;
        self.stays_for_the_next_run(agent, &format!("The user stopped {agent} at its pane."))
    }

    /// Ends a teammate for this run, and tells the lead that it stays in the team. `what` says what
    /// happened to it.
    fn stays_for_the_next_run(&mut self, agent: &AgentName, what: &str) -> Vec<RunInput> {
        self.agents.end(agent);
        if self.machine.end_reason().is_some() {
            return vec![RunInput::Left(agent.clone())];
        }
        let text = format!(
            "{what} It stays in the team with its tasks, takes no mail, and goes on with the \
             team's next run."
        );
        let text = format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text));
        self.agents.tell_lead(Event::Told { text });
        vec![RunInput::LeadTold, RunInput::Left(agent.clone())]
    }

    async fn fate(
        &mut self,
        agent: &AgentName,
        exit: Option<i32>,
        screen: Option<String>,
    ) -> (Status, Option<String>) {
        if has_said_goodbye(&self.run_context.team, agent).await {
            return (Status::Completed, None);
        }
        let said = match (void_goodbye(&self.run_context.team, agent).await, exit) {
            (Some(id), _) => {
                format!(
                    "its process ended after it agreed to shut down by the request {id:?}, which nobody had sent"
                )
            }
            (None, Some(exit)) => {
                format!("its process ended without a word, with exit status {exit}")
            }
            (None, None) => "its process ended without a word".to_owned(),
        };
        (Status::Failed, Some(with_screen(said, screen.as_deref())))
    }

    /// Undoes what a failed launch has already done, and answers the spawn call.
    async fn not_launched(
        &mut self,
        agent: &AgentName,
        reason: String,
        call: Option<oneshot::Sender<ToolOutcome>>,
    ) -> Vec<RunInput> {
        let (status, detail) = (Status::Failed, Some(reason.clone()));
        self.run_context
            .sink
            .tell(RunEvent::AgentChanged { agent: agent.clone(), status, detail })
            .await;
        let Some(call) = call else {
            return self.ended(agent, Status::Failed, Some(reason), None).await;
        };
        self.agents.account(agent).note_state(Status::Failed, Some(reason.clone()));
        let worktree = self.agents.end(agent).and_then(RunningAgent::worktree);
        self.run_context.note_state(agent, Status::Failed, Some(reason.clone())).await;
        let _told_by_the_call =
            self.take_out(agent, Status::Failed, None, worktree.as_deref()).await;
        // Sending fails only if the spawn call no longer waits for the answer.
        let _not_waited_for =
            call.send(ToolOutcome::refused(format_args!("{agent} was not started: {reason}")));
        vec![RunInput::Left(agent.clone())]
    }

    /// Tells the lead that a teammate has not accepted its prompt in time.
    async fn silent(&mut self, agent: &AgentName, screen: Option<String>) -> Vec<RunInput> {
        let seconds = self.backends.hosting.prompt_deadline.as_secs();
        let said = format!("{agent} was started {seconds} s ago and has not taken its prompt");
        self.warn(said.clone()).await;
        if self.machine.end_reason().is_some() {
            return Vec::new();
        }
        let output = output_file(&self.run_context.team, agent);
        let text = task_notification(
            agent.as_str(),
            &output,
            Status::Pending,
            &with_screen(said, screen.as_deref()),
        );
        self.agents.tell_lead(Event::Told { text });
        vec![RunInput::LeadTold]
    }
}

/// Returns the usage of a model call from its journal entry.
fn spending_of(turn: &Turn) -> Spending {
    let cached = turn.cache_read_tokens.saturating_add(turn.cache_creation_tokens);
    let usage = Usage {
        input_tokens: turn.input_tokens.saturating_sub(cached),
        output_tokens: turn.output_tokens,
        cache_read_input_tokens: turn.cache_read_tokens,
        cache_creation_input_tokens: turn.cache_creation_tokens,
    };
    Spending {
        model: turn.model.clone(),
        usage,
        cost_usd: turn.cost_usd,
        tool_calls: turn.tool_calls,
        took: Duration::from_millis(turn.took_ms),
    }
}

/// Returns true if the lead's inbox contains the agent's shutdown approval.
pub(super) async fn has_said_goodbye(team: &Team, agent: &AgentName) -> bool {
    let mail = team.mail(&AgentName::lead()).await.unwrap_or_default();
    let requests = team.requests().await.unwrap_or_default();
    mail.iter()
        .filter(|mail| AgentName::foreign(&mail.message.from) == *agent)
        .any(|mail| mail.frame.as_ref().is_some_and(|frame| is_goodbye(&requests, agent, frame)))
}

/// Looks at an agent's latest shutdown approval. If no shutdown request with the approval's request
/// id exists, returns that id. The agent's model may have invented the id.
async fn void_goodbye(team: &Team, agent: &AgentName) -> Option<String> {
    let mail = team.mail(&AgentName::lead()).await.unwrap_or_default();
    let of_agent =
        mail.into_iter().rev().filter(|mail| AgentName::foreign(&mail.message.from) == *agent);
    let id = of_agent
        .filter_map(|mail| mail.frame.as_ref().and_then(answered_request).map(str::to_owned))
        .next()?;
    let requests = team.requests().await.unwrap_or_default();
    (!requests.contains_key(&id)).then(|| id.chars().take(REQUEST_ID_CHARS).collect())
}

/// Returns the id of the shutdown request that a message approves.
pub(super) fn answered_request(frame: &Frame) -> Option<&str> {
    match frame {
        Frame::ShutdownApproved(goodbye) => Some(&goodbye.request_id),
        Frame::ShutdownResponse(response) if response.approved => Some(&response.request_id),
        _ => None,
    }
}

/// Returns true if a message approves a shutdown request that the lead sent to the sender of this
/// message. Returns false if the request does not exist, was sent to another agent, or was
/// withdrawn. Requests of an ended run are withdrawn.
pub(super) fn is_goodbye(
    requests: &BTreeMap<String, Request>,
    sender: &AgentName,
    frame: &Frame,
) -> bool {
    let Some(request) = answered_request(frame) else { return false };
    requests
        .get(request)
        .is_some_and(|it| it.kind == RequestKind::Shutdown && it.to == *sender && !it.is_void)
}
