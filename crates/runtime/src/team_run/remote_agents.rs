//! Teammates in processes of their own, as the loop sees them: where they are put, what their journal says, what their
//! minders report, and what of an earlier run is still there.
//!
//! Minding one such process is `remote`'s. What follows from an end, wherever the teammate lived, is `ends`'.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitcrew_model::Usage;
use pitcrew_protocol::{
    AgentName, BACKEND_IN_PROCESS, Frame, Member, PermissionMode, PlanApprovalRequest, Program,
    SpawnInput, Status, chain, neutralised,
};
use pitcrew_team::store::{
    Event as Noted, JournalEntry, JournalSummary, MemberState, StoreError, Turn,
};
use pitcrew_team::{KnownMode, Request, RequestKind, SpawnRecord, Team};
use tokio::sync::oneshot;

use super::agent_handle::AgentHandle;
use super::ends::Answers;
use super::remote::{
    Launching, RemoteEvent, RemoteReport, RemoteSpec, RemoteSupervisor, with_screen,
};
use super::run_machine::{EndReason, RunInput};
use super::team_loop::{AgentKind, RunningAgent, TeamLoop};
use crate::agent::Event;
use crate::definitions::AgentDefinition;
use crate::driver::{output_file, task_notification};
use crate::events::{AgentStarted, RemoteActivity, RunEvent, Spending};
use crate::hosting::{LaunchSpec, TeammatePlace, member_bounds, root_word};
use crate::identity::ProcessIdentity;
use crate::panes::{PaneTag, Panes};
use crate::tools::ToolOutcome;

/// The document that holds the command line's own layer of settings.
pub(super) const SETTINGS_DOCUMENT: &str = "settings";

/// Where a teammate is to live, and what is to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// The kind of panes; none in this process.
    pub(super) backend: Option<String>,
    pub(super) program: Program,
}

/// What our own process in a pane ends with when a person there stops it with Ctrl-C.
const INTERRUPTED_EXIT: i32 = 130;

/// The most that is told of a request's id that another client's model may have made up.
const REQUEST_ID_CHARS: usize = 120;

/// Why another client is no teammate of a run under `--sandbox`.
pub(super) const UNBOUNDED_CLIENT: &str = "this run holds commands to a sandbox, and another client runs its own outside of it; the user \
                                allows that with sandbox.allowOtherClients";

impl TeamLoop {
    /// Decides where a new teammate lives: as asked, as its definition says, or as the run does.
    pub(super) fn placement(
        &self,
        input: &SpawnInput,
        definition: &AgentDefinition,
    ) -> Result<Placement, ToolOutcome> {
        let program = match input.program.as_deref() {
            Some(name) => Some(Program::named(name).ok_or_else(|| {
                let known = Program::ALL.map(Program::as_str).join(", ");
                ToolOutcome::refused(format_args!(
                    "There is no program \"{name}\"; there are: {known}"
                ))
            })?),
            None => definition.program,
        };
        let panes = self.hosting.panes.as_deref().map(Panes::backend_type);
        let asked = match input.backend.as_deref() {
            Some(BACKEND_IN_PROCESS) => Some(TeammatePlace::InProcess),
            Some(name) if panes == Some(name) => Some(TeammatePlace::Pane),
            Some(name) => {
                let known =
                    [BACKEND_IN_PROCESS].into_iter().chain(panes).collect::<Vec<_>>().join(", ");
                let said =
                    format!("There is no backend \"{name}\" in this run; there are: {known}");
                return Err(ToolOutcome::refused(said));
            }
            // Another program than ours has to be somewhere else.
            None if program == Some(Program::Claude) => Some(TeammatePlace::Pane),
            None => None,
        };
        match (asked.unwrap_or(self.hosting.default), panes) {
            (TeammatePlace::InProcess, _) if program == Some(Program::Claude) => {
                Err(ToolOutcome::refused("claude cannot run in this process, only in a pane"))
            }
            (TeammatePlace::InProcess, _) => {
                Ok(Placement { backend: None, program: Program::Pitcrew })
            }
            (TeammatePlace::Pane, Some(panes)) => {
                let program = program.unwrap_or(self.hosting.program);
                if !self.may_run(program) {
                    return Err(ToolOutcome::refused(UNBOUNDED_CLIENT));
                }
                Ok(Placement { backend: Some(panes.to_owned()), program })
            }
            (TeammatePlace::Pane, None) => Err(ToolOutcome::refused(
                "It would run in a pane, and this run has none; the user gives it panes with --teammate-mode",
            )),
        }
    }

    /// Whether teammates may run in the program: another client's commands are bounded by no sandbox of ours.
    pub(super) fn may_run(&self, program: Program) -> bool {
        match program {
            Program::Pitcrew => true,
            Program::Claude => self.run_context.allows_clients,
        }
    }

    /// Lets the user know what there is to know of the other client. Its start does not wait for that.
    fn remark_on_client(&self) {
        let Some(remark) = self.hosting.client_remark.as_ref().map(|remark| remark()) else {
            return;
        };
        let sink = self.run_context.sink.clone();
        tokio::spawn(async move {
            if let Some(text) = remark.await {
                sink.tell(RunEvent::Warning { text }).await;
            }
        });
    }

    /// The panes that a member is recorded to live in, when this run has them, or knows those of the run before.
    pub(super) fn panes_of(&self, member: &Member) -> Option<Arc<dyn Panes>> {
        let backend = member.backend_type.as_deref();
        let known = [&self.hosting.panes, &self.hosting.former_panes];
        known.into_iter().flatten().find(|panes| Some(panes.backend_type()) == backend).cloned()
    }

    /// Starts a member's process in a pane, or minds the one it has. Whether it comes up is reported by its minder.
    pub(super) async fn start_elsewhere(
        &mut self,
        member: &Member,
        panes: Arc<dyn Panes>,
        launching: Launching,
    ) -> Vec<RunInput> {
        let program = SpawnRecord::of(member).map_or(Program::Claude, |record| record.program);
        let (known_mode, verify_key) = self.mode_and_key_for(member, program).await;
        if program == Program::Claude {
            self.remark_on_client();
        }
        let worktree = member.worktree_path.as_ref().map(PathBuf::from);
        let home = member.cwd.as_ref().map_or_else(|| self.run_context.cwd.clone(), PathBuf::from);
        let launch_spec = LaunchSpec {
            program,
            agent_id: member.name.id_in(self.run_context.team.name()).to_string(),
            name: member.name.clone(),
            team: self.run_context.team.name().clone(),
            color: member.color.clone(),
            session_id: self.run_context.session_id.clone(),
            plan_mode_required: member.plan_mode_required.unwrap_or(false),
            agent_type: member.agent_type.clone(),
            mode: PermissionMode::named(known_mode.mode()).unwrap_or_default(),
            model: member.model.clone(),
            lead_process: verify_key.is_some().then(ProcessIdentity::own),
            verify_key,
            cwd: worktree.clone().unwrap_or(home),
            max_turns: self.limits.turns_of(member),
            settings: self.settings_file.clone(),
            conversation: None,
        };
        self.announce_start(AgentStarted {
            agent: member.name.clone(),
            parent_call: None,
            agent_type: member.agent_type.clone(),
            color: member.color.clone(),
            model: member.model.clone().unwrap_or_default(),
            cwd: launch_spec.cwd.clone(),
            mode: launch_spec.mode,
        })
        .await;
        let (remote, supervisor) = RemoteSupervisor::new(RemoteSpec {
            team: self.run_context.team.clone(),
            root: self.run_context.root.clone(),
            member: member.clone(),
            program,
            hosting: self.hosting.clone(),
            panes,
            launch_spec,
            bounds: member_bounds(&self.run_context.rules_digest, self.limits, member),
            tag: self.pane_tag(Some(member.name.clone())),
            reports: self.supervisors.clone(),
            sink: self.run_context.sink.clone(),
            prices: self.run_context.prices.clone(),
            grace: self.grace,
            cancel: self.here.token(),
            kill: self.here.killed(),
        });
        let running = RunningAgent {
            body: AgentHandle::Elsewhere(remote),
            inbox: member.name.inbox_file(),
            part: AgentKind::Teammate { worktree },
            known_mode: Some(known_mode),
            member: Some(member.clone()),
            turns: self.last_turns.get(&member.name).copied().unwrap_or(0),
            answers: Answers::Yes,
        };
        if program == Program::Claude {
            self.usage_totals.not_counted_yet(&member.name);
        }
        self.agents.insert(member.name.clone(), running);
        self.here.mind(supervisor, launching);
        vec![RunInput::Joined(member.name.clone())]
    }

    /// The mode that a member goes by, and the key by which it knows its lead's word. Another client goes by a mode of its own,
    /// and by a name for its lead's word.
    async fn mode_and_key_for(
        &mut self,
        member: &Member,
        program: Program,
    ) -> (KnownMode, Option<String>) {
        match program {
            Program::Pitcrew => {
                let (known_mode, refused) = KnownMode::of(&self.run_context.team, member);
                if let Some(refused) = refused {
                    self.refuse_mode(&member.name, &refused).await;
                }
                (known_mode, self.run_context.team.lead_keys().map(ToString::to_string))
            }
            Program::Claude => (KnownMode::of_another_client(member), None),
        }
    }

    /// The tag of this team's panes, or of one member's.
    pub(super) fn pane_tag(&self, agent: Option<AgentName>) -> PaneTag {
        PaneTag {
            root: root_word(&self.run_context.root),
            team: self.run_context.team.dir().clone(),
            agent,
        }
    }

    /// Stores the command line's own layer of settings where teammates in panes find it.
    pub(super) async fn store_settings(&mut self) {
        if self.hosting.panes.is_none() || self.hosting.settings.is_empty() {
            return;
        }
        let (team, layer) = (self.run_context.team.clone(), self.hosting.settings.clone());
        let write = Box::new(move |document: &mut Option<serde_json::Value>| {
            *document = Some(serde_json::Value::Object(layer.clone()));
            Ok(())
        });
        match team.backend().edit_document(team.dir(), SETTINGS_DOCUMENT, write).await {
            Ok(()) => {
                self.settings_file =
                    Some(team.backend().document_file(team.dir(), SETTINGS_DOCUMENT))
            }
            Err(error) => {
                let said = chain(&error);
                self.warn(format!(
                    "teammates in panes do not go by the command line's settings: {said}"
                ))
                .await;
            }
        }
    }

    /// Passes over what the journal says until now; keeps the last state of everybody, the model calls of who lives, and what
    /// earlier runs took.
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
                        self.run_context
                            .sink
                            .tell(RunEvent::AllowedAlways { agent: name.clone(), what })
                            .await;
                    }
                    let is_status = |change: &MemberState| {
                        Some((Status::named(&change.state)?, change.detail.clone()))
                    };
                    let last = member.states.iter().rev().find_map(is_status);
                    if !member.spent.is_empty() {
                        self.usage_totals.carry_over(&name, &member, last.clone());
                    }
                    self.last_states.extend(last.map(|last| (name.clone(), last)));
                    self.last_turns.insert(name, member.turns);
                }
            }
            Err(error) => self.warn(format!("the journal cannot be read: {}", chain(&error))).await,
        }
        self.run_context.team.note([Noted::RunStarted]).await;
        // A later resume counts from this note; what was counted is never less than what is told.
        self.began.0 = Instant::now();
    }

    /// Reads on in the journal: what teammates of ours elsewhere did stands there.
    pub(super) async fn read_journal(&mut self) -> Vec<RunInput> {
        if self.asked.is_empty() && !self.agents.values().any(|running| running.body.is_elsewhere())
        {
            return Vec::new();
        }
        let team = self.run_context.team.clone();
        let entries = match team.backend().journal_since(team.dir(), self.journal_position).await {
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
            && let (true, Some(status)) = (self.is_elsewhere(member), Status::named(state))
        {
            return self.changed_elsewhere(member, status, detail.clone()).await;
        }
        if let Noted::Permission { request, outcome, .. } = &entry.event
            && outcome != "asked"
        {
            self.answered_elsewhere(request, outcome).await;
            return Vec::new();
        }
        if let Noted::AllowedAlways { member, what, lasts: _ } = &entry.event {
            // Only processes of members write it.
            let (agent, what) = (member.clone(), what.clone());
            self.run_context.sink.tell(RunEvent::AllowedAlways { agent, what }).await;
            return Vec::new();
        }
        let Some((agent, activity)) = self.activity(entry.event).await else { return Vec::new() };
        let inputs = match &activity {
            RemoteActivity::TurnEnded(spending) => {
                let mut inputs = self.count(&agent, spending);
                inputs.extend(self.client_used_up(&agent, spending.tool_calls).await);
                inputs
            }
            RemoteActivity::TaskChanged { .. } | RemoteActivity::PlanHandedIn => Vec::new(),
        };
        self.run_context.sink.tell(RunEvent::DoneElsewhere { agent, activity }).await;
        inputs
    }

    /// What a teammate elsewhere did, by the journal. Mail that it read is told as that of everybody.
    async fn activity(&mut self, event: Noted) -> Option<(AgentName, RemoteActivity)> {
        if let Noted::TurnEnded(turn) = event {
            let spending = spending_of(&turn);
            let is_counted = self.is_counted_by_journal(&turn.member);
            return is_counted.then_some((turn.member, RemoteActivity::TurnEnded(spending)));
        }
        if let Noted::TaskChanged { task, by, change, .. } = event {
            let agent = AgentName::foreign(&by);
            return self
                .is_elsewhere(&agent)
                .then_some((agent, RemoteActivity::TaskChanged { task, change }));
        }
        if let Noted::MessagePersisted { id, from, to, frame } = event {
            if self.is_elsewhere(&to) {
                self.senders.insert(id, from);
                return None;
            }
            let is_plan = frame.as_deref() == Some(PlanApprovalRequest::TYPE);
            let agent = AgentName::foreign(&from);
            return (is_plan && self.is_elsewhere(&agent))
                .then_some((agent, RemoteActivity::PlanHandedIn));
        }
        if let Noted::MessageInjected { id, to: agent } = event
            && self.is_elsewhere(&agent)
        {
            let from = vec![self.senders.remove(&id).unwrap_or_default()];
            self.run_context
                .sink
                .tell(RunEvent::MailDelivered { agent, from, ids: vec![id] })
                .await;
        }
        None
    }

    pub(super) fn is_elsewhere(&self, member: &AgentName) -> bool {
        self.agents.get(member).is_some_and(|running| running.body.keeps_journal())
    }

    async fn changed_elsewhere(
        &mut self,
        agent: &AgentName,
        status: Status,
        detail: Option<String>,
    ) -> Vec<RunInput> {
        let account = self.usage_totals.of(agent);
        (account.state, account.reason) =
            (status, detail.clone().filter(|_| status != Status::Active));
        let changed =
            RunEvent::AgentChanged { agent: agent.clone(), status, detail: detail.clone() };
        self.run_context.sink.tell(changed).await;
        let Some(running) = self.agents.get(agent) else { return Vec::new() };
        if status.is_over() {
            // What follows from it follows when its process is gone.
            running.body.said_goodbye();
            self.last_words.insert(agent.clone(), (status, detail));
            return if status == Status::Failed { self.used_up(agent) } else { Vec::new() };
        }
        if status == Status::Active {
            running.body.was_seen_at_work();
        }
        let answers = match (status, &detail) {
            (_, None) => Answers::Yes,
            (Status::Active, Some(_waits_for_model)) => Answers::Later,
            (_, Some(_)) => Answers::No,
        };
        self.set_answers(agent, answers);
        let stuck = detail
            .filter(|_| answers == Answers::No)
            .map(|reason| RunInput::Unavailable(agent.clone(), reason));
        std::iter::once(RunInput::Announced(agent.clone(), status)).chain(stuck).collect()
    }

    /// Acts on what a minder reports.
    pub(super) async fn sighted(&mut self, remote_report: RemoteReport) -> Vec<RunInput> {
        let RemoteReport { agent, seen } = remote_report;
        match seen {
            RemoteEvent::State(status) => {
                self.usage_totals.of(&agent).state = status;
                self.usage_totals.seen_at_work(&agent);
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

    /// Acts on the end of a process elsewhere that nobody here asked for: it said its last word in the journal, or goodbye
    /// to the lead, or it died.
    async fn gone(
        &mut self,
        agent: &AgentName,
        exit: Option<i32>,
        screen: Option<String>,
    ) -> Vec<RunInput> {
        let mut inputs = self.read_journal().await;
        if self.machine.end_reason().is_some_and(EndReason::is_resumable) {
            // It stays in the team, for the next run.
            inputs.extend(self.dropped_elsewhere(agent).await);
            return inputs;
        }
        let (status, reason) = match self.last_words.remove(agent) {
            Some(last_word) => last_word,
            None if exit == Some(INTERRUPTED_EXIT) && self.is_elsewhere(agent) => {
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
        let account = self.usage_totals.of(agent);
        (account.state, account.reason) = (status, reason.clone());
        if status == Status::Failed && !self.used_up(agent).is_empty() {
            // It stays in the team, for a run that gives it more.
            self.agents.remove(agent);
            inputs.push(RunInput::Left(agent.clone()));
            return inputs;
        }
        let worktree = self.strike_off(agent);
        self.retire(agent, status, reason, worktree.as_deref()).await;
        inputs.push(RunInput::Left(agent.clone()));
        inputs
    }

    /// Takes note that a process elsewhere is gone, and that its member stays in the team. Another client is started anew by the
    /// next run, and asks anew by itself.
    async fn dropped_elsewhere(&mut self, agent: &AgentName) -> Vec<RunInput> {
        if self.agents.get(agent).is_some_and(|running| running.body.is_foreign()) {
            self.void_questions_of(agent).await;
        }
        self.dropped(agent).await
    }

    /// Takes note that a person stopped a teammate of ours at its pane. It stays in the team, with its tasks, for the next run.
    async fn stopped_at_its_pane(&mut self, agent: &AgentName) -> Vec<RunInput> {
        let reason = "the user stopped it at its pane; it can be resumed".to_owned();
        let account = self.usage_totals.of(agent);
        (account.state, account.reason) = (Status::Killed, Some(reason.clone()));
        let changed = RunEvent::AgentChanged {
            agent: agent.clone(),
            status: Status::Killed,
            detail: Some(reason.clone()),
        };
        self.run_context.sink.tell(changed).await;
        self.run_context.note_state(agent, Status::Killed, Some(reason)).await;
        self.agents.remove(agent);
        if self.machine.end_reason().is_some() {
            return vec![RunInput::Left(agent.clone())];
        }
        let text = format!(
            "The user stopped {agent} at its pane. It stays in the team with its tasks, takes no mail, and goes on with the \
             team's next run."
        );
        let text = format!("<system-reminder>\n{}\n</system-reminder>", neutralised(&text));
        self.tell_lead(Event::Told { text });
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
                    "its process ended after it agreed to shut down by the request {id:?}, which nobody had made"
                )
            }
            (None, Some(exit)) => {
                format!("its process ended without a word, with exit status {exit}")
            }
            (None, None) => "its process ended without a word".to_owned(),
        };
        (Status::Failed, Some(with_screen(said, screen.as_deref())))
    }

    /// Takes a teammate off the crew; says where its worktree is.
    fn strike_off(&mut self, agent: &AgentName) -> Option<PathBuf> {
        match self.agents.remove(agent).map(|running| running.part) {
            Some(AgentKind::Teammate { worktree }) => worktree,
            Some(AgentKind::Lead | AgentKind::SubagentRun(_)) | None => None,
        }
    }

    /// Takes back what a launch that failed had begun, and answers the spawn.
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
        let account = self.usage_totals.of(agent);
        (account.state, account.reason) = (Status::Failed, Some(reason.clone()));
        let worktree = self.strike_off(agent);
        self.run_context.note_state(agent, Status::Failed, Some(reason.clone())).await;
        let _told_by_the_call =
            self.take_out(agent, Status::Failed, None, worktree.as_deref()).await;
        // The only error is that the call is not waited for any more.
        let _not_waited_for =
            call.send(ToolOutcome::refused(format_args!("{agent} was not started: {reason}")));
        vec![RunInput::Left(agent.clone())]
    }

    /// Tells the lead of a teammate that does not take its prompt.
    async fn silent(&mut self, agent: &AgentName, screen: Option<String>) -> Vec<RunInput> {
        let seconds = self.hosting.prompt_deadline.as_secs();
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
        self.tell_lead(Event::Told { text });
        vec![RunInput::LeadTold]
    }
}

/// What a turn took, as the journal has it.
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

/// Whether an agent's goodbye is in the lead's inbox.
pub(super) async fn has_said_goodbye(team: &Team, agent: &AgentName) -> bool {
    let mail = team.mail(&AgentName::lead()).await.unwrap_or_default();
    let usage_totals = team.requests().await.unwrap_or_default();
    mail.iter().filter(|mail| AgentName::foreign(&mail.message.from) == *agent).any(|mail| {
        mail.frame.as_ref().is_some_and(|frame| is_goodbye(&usage_totals, agent, frame))
    })
}

/// The request that an agent's latest goodbye names, when that answers to nothing: its model may have made the id up.
async fn void_goodbye(team: &Team, agent: &AgentName) -> Option<String> {
    let mail = team.mail(&AgentName::lead()).await.unwrap_or_default();
    let of_agent =
        mail.into_iter().rev().filter(|mail| AgentName::foreign(&mail.message.from) == *agent);
    let id = of_agent
        .filter_map(|mail| mail.frame.as_ref().and_then(answered_request).map(str::to_owned))
        .next()?;
    let usage_totals = team.requests().await.unwrap_or_default();
    (!usage_totals.contains_key(&id)).then(|| id.chars().take(REQUEST_ID_CHARS).collect())
}

/// The request to shut down that a frame agrees to.
pub(super) fn answered_request(frame: &Frame) -> Option<&str> {
    match frame {
        Frame::ShutdownApproved(goodbye) => Some(&goodbye.request_id),
        Frame::ShutdownResponse(response) if response.approved => Some(&response.request_id),
        _ => None,
    }
}

/// Whether a frame says that its sender shuts down as it was asked to. One that nobody asked for was written by somebody else,
/// and what a run that is over asked on its way out ends nobody.
pub(super) fn is_goodbye(
    usage_totals: &BTreeMap<String, Request>,
    sender: &AgentName,
    frame: &Frame,
) -> bool {
    let Some(request) = answered_request(frame) else { return false };
    usage_totals
        .get(request)
        .is_some_and(|it| it.kind == RequestKind::Shutdown && it.to == *sender && !it.is_void)
}
