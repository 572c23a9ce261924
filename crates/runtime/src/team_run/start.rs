//! Starts a team's run according to its options.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitcrew_agent::{Event, Role};
use pitcrew_panes::PaneTag;
use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, LEAD_NAME, Member, PermissionMode, TeamConfig, chain,
};
use pitcrew_team::store::{JournalSummary, LeaseName, Spent, StoreError};
use pitcrew_team::{KnownMode, MemberRemoved, RefusedMode, Team};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::agent_spec::AgentSpec;
use super::agents::{AgentKind, Agents, RunningAgent};
use super::backends::Backends;
use super::in_process::InProcess;
use super::open_work::TasksNow;
use super::plan_questions::PlanQuestions;
use super::recovery::Unremoved;
use super::run_context::{RunContext, can_start};
use super::run_machine::RunMachine;
use super::start_notices::{goes_on_after_all, left_running, passed_over, recorded_goal};
use super::subagents::SubagentRuns;
use super::take_lead::{Led, led, team_of};
use super::team_loop::{EventSources, LeadEnd, TeamLoop};
use super::usage_totals::UsageTotals;
use super::wake::{LoopHandle, REPORTS_WAITING};
use crate::control_socket::{VISITORS_WAITING, Visitor};
use crate::driver::Sink;
use crate::events::{RunEvent, RunStarted};
use crate::hooks::{HookEvent, HookKind, HookScope, HookSession, reminder};
use crate::hosting::root_word;
use crate::run::{Begin, RunError, RunHandle, RunLimits, RunOptions, Stopper};

/// Capacity of the queue of events for the user interface. When the queue is full, the team waits,
/// so that no event is lost.
pub(crate) const EVENTS_WAITING: usize = 1024;

/// Starts a run: creates or opens the team, takes its lease, and starts the lead and all other
/// members.
pub(crate) async fn start(options: RunOptions) -> Result<RunHandle, RunError> {
    can_start(&options)?;
    let is_new = !options.begin.is_resumed();
    let team = team_of(&options).await?;
    let started = match led(team.clone(), &options).await {
        Ok(led) => start_in(led, options).await,
        Err(error) => Err(error),
    };
    // If another process has already resumed the new team, the team belongs to that process.
    if is_new && matches!(&started, Err(error) if !matches!(error, RunError::Held { .. })) {
        discard(&team).await;
    }
    started
}

/// Removes the files of a team in which nothing has happened yet.
pub(super) async fn discard(team: &Team) -> bool {
    match team.discard().await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(team = %team.name(), %error, "a team in which nothing happened stays");
            false
        }
    }
}

/// Starts the lead and all other members of a team whose lease this process holds.
async fn start_in(led: Led, options: RunOptions) -> Result<RunHandle, RunError> {
    let Led { team, lease, narrowed } = led;
    let history = team.journal_summary().await;
    let spent_before_usd = spent_before_usd(&history);
    may_cost_more(options.agent_options.limits, spent_before_usd)?;
    let config = team.config().await?;
    let (events, received) = mpsc::channel(EVENTS_WAITING);
    let (reports, reported) = mpsc::channel(REPORTS_WAITING);
    let (supervisors, remote_reports) = mpsc::channel(REPORTS_WAITING);
    let (loop_handle, requests) = LoopHandle::new();
    let (limits, grace) = (options.agent_options.limits, options.agent_options.shutdown_grace);
    let (hosting, begin) = (options.hosting.clone(), options.begin.clone());
    let watch = team.watch().await.map_err(|error| store_error(&team, error))?;
    let (model, teammate_model) = (options.model, options.teammate_model);
    let mut run_context = RunContext::new(
        team.clone(),
        Role::Lead,
        options.agent_options,
        model,
        teammate_model,
        Sink(events),
        reports,
    )?;
    let name = run_context.model_name.clone();
    let model = run_context.model(&name).map_err(|source| RunError::Model { name, source })?;
    let stopper = Stopper::default();
    let (visitors, visiting) = mpsc::channel(VISITORS_WAITING);
    let incoming = (reported, remote_reports, requests, watch);
    let sources = EventSources::new(&team, stopper.clone(), incoming, visitors);
    let backends = Backends {
        here: InProcess::default(),
        hosting,
        settings_file: None,
        tag: PaneTag { root: root_word(&run_context.root), team: team.dir().clone(), agent: None },
        reports: supervisors,
    };
    let mut team_loop = TeamLoop {
        run_context,
        loop_handle,
        machine: RunMachine::new(AgentName::lead(), grace),
        backends,
        agents: Agents::default(),
        usage_totals: UsageTotals::default(),
        limits,
        kept: Vec::new(),
        lead_end: LeadEnd::default(),
        deleted: TasksNow::default(),
        began: (Instant::now(), Duration::ZERO),
        goal: begin.goal().map(recorded_goal),
        head: None,
        unremoved: Unremoved::default(),
        team_create: TeamCreateState::NotYet,
        is_resumed: begin.is_resumed(),
        journal_position: 0,
        plan_questions: PlanQuestions::default(),
        subagents: SubagentRuns::default(),
        sources,
        grace,
        asking_grace: grace,
        is_over: false,
        bounds: options.bounds,
        lease: Some(lease),
    };
    let beginning =
        team_loop.build_lead(&begin, model, &config, narrowed, spent_before_usd).await?;
    let receivers = Receivers { events: received, visitors: visiting };
    Ok(run_loop(team_loop, beginning, config, history, receivers, stopper))
}

/// The ends of the run's channels that its handle holds.
struct Receivers {
    events: mpsc::Receiver<RunEvent>,
    visitors: mpsc::Receiver<Visitor>,
}

/// Runs the team's loop in its own task, and returns the handle that controls the run.
fn run_loop(
    mut team_loop: TeamLoop,
    beginning: Beginning,
    config: Arc<TeamConfig>,
    history: Result<(JournalSummary, u64), StoreError>,
    Receivers { events, visitors }: Receivers,
    stopper: Stopper,
) -> RunHandle {
    let team = team_loop.run_context.team.name().to_string();
    let (sender, outcome) = oneshot::channel();
    let task = tokio::spawn(async move {
        team_loop.begin(beginning, &config, history).await;
        team_loop.run().await;
        // Sending fails only if nobody waits for the outcome.
        let _not_waited_for = sender.send(team_loop.close().await);
    });
    RunHandle { team, events, visitors, stopper, outcome, task: Some(task) }
}

/// Refuses a run if the earlier runs of its team have already reached the cost limit. Even the
/// first model call of such a run would exceed the limit.
fn may_cost_more(limits: RunLimits, cost_usd: f64) -> Result<(), RunError> {
    match limits.max_cost_usd {
        Some(most_usd) if cost_usd > 0.0 && cost_usd >= most_usd => {
            Err(RunError::Spent { cost_usd, most_usd })
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the cost of the team's earlier runs in US dollars. It is 0 if the journal cannot be read.
fn spent_before_usd(history: &Result<(JournalSummary, u64), StoreError>) -> f64 {
    let members = history.iter().flat_map(|(summary, _)| summary.members.values());
    members.flat_map(|member| member.spent.values()).map(Spent::cost_usd).sum()
}

/// Converts an error of the storage into a run error.
pub(crate) fn store_error(team: &Team, error: StoreError) -> RunError {
    RunError::Store { team: team.name().to_string(), source: Box::new(error) }
}

/// The lead's use of its team: before TeamCreate, after TeamCreate, or after the deletion. The run
/// itself creates the team at the start, so a call of TeamCreate only shows that the lead wants to
/// use that team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TeamCreateState {
    /// The lead has not called TeamCreate yet.
    NotYet,
    /// The lead has called TeamCreate and uses the team.
    Yes,
    /// The lead has deleted the team. It is allowed to create another team.
    Deleted,
}

/// The lead, which is ready to be started.
struct Beginning {
    lead: super::agent_spec::BuiltAgent,
    started: RunStarted,
    told: Option<String>,
    refused_mode: Option<RefusedMode>,
    /// Notices about permissions that members lost, because this run allows less than the previous
    /// run.
    narrowed: Vec<String>,
}

impl TeamLoop {
    async fn build_lead(
        &mut self,
        begin: &Begin,
        model: Arc<dyn pitcrew_model::Model>,
        config: &TeamConfig,
        narrowed: Vec<String>,
        spent_before_usd: f64,
    ) -> Result<Beginning, RunError> {
        let source = if begin.is_resumed() { "resume" } else { "startup" };
        let goal = self.goal_of(begin).await?;
        let prompt = self.prompt_of(goal, source).await?;
        let member = config.member(LEAD_NAME);
        let given = self.run_context.mode;
        let known =
            member.map(|member| KnownMode::of_lead(&self.run_context.team, member, given.as_str()));
        let (known_mode, refused) = known.unzip();
        let mode = known_mode
            .as_ref()
            .and_then(|known| PermissionMode::named(known.mode()))
            .unwrap_or(given);
        let spec = AgentSpec {
            name: AgentName::lead(),
            role: Role::Lead,
            definition: None,
            model,
            mode,
            cwd: self.run_context.cwd.clone(),
            parent_call: None,
            max_turns: self.limits.max_turns,
            prompt: Some(prompt.clone().unwrap_or_else(|| "Go on.".to_owned())),
            remembers: None,
            cancel: self.backends.here.token(),
        };
        let lead_model = self.run_context.model_name.clone();
        let agent_type = member.and_then(|member| member.agent_type.clone());
        self.agents.account(&spec.name).open(agent_type, &lead_model);
        let lead = self.run_context.spec(spec, &self.loop_handle).await;
        let lead = lead.map_err(|error| RunError::Store {
            team: self.run_context.team.name().to_string(),
            source: Box::new(error),
        })?;
        let is_resumed = matches!(lead.start, crate::driver::Start::Resumed);
        let (name, handle) = (AgentName::lead(), Box::new(lead.link.clone()));
        let running = RunningAgent {
            known_mode,
            turns: lead.conversation_turns,
            ..RunningAgent::new(&name, handle, AgentKind::Lead)
        };
        self.agents.start(&name, running);
        let started = RunStarted {
            agent: AgentName::lead(),
            team: self.run_context.team.name().to_string(),
            team_file: self.run_context.team.file(),
            session_id: self.run_context.session_id.clone(),
            cwd: self.run_context.cwd.clone(),
            model: lead_model,
            mode,
            tools: lead.tools.clone(),
            agents: self
                .run_context
                .definitions
                .iter()
                .map(|definition| definition.name.clone())
                .collect(),
            resumed: begin.is_resumed(),
            limits: self.limits,
            spent_before_usd,
        };
        Ok(Beginning {
            lead,
            started,
            told: prompt.filter(|_| is_resumed),
            refused_mode: refused.flatten(),
            narrowed,
        })
    }

    /// Returns the instruction for the lead. If an earlier run was killed before its lead had read
    /// the goal, the instruction begins with that goal.
    async fn goal_of(&self, begin: &Begin) -> Result<Option<String>, RunError> {
        let given = begin.goal().map(str::to_owned);
        if !begin.is_resumed() {
            return Ok(given);
        }
        let unread = self.run_context.team.unread_goal().await?;
        let both: Vec<String> = unread.into_iter().chain(given).collect();
        Ok((!both.is_empty()).then(|| both.join("\n\n")))
    }

    /// Returns the goal as the first prompt. The output of two kinds of hooks is added: the hooks
    /// for a new session and the hooks for a new prompt.
    async fn prompt_of(
        &mut self,
        goal: Option<String>,
        source: &str,
    ) -> Result<Option<String>, RunError> {
        let mut added = Vec::new();
        let mut kinds = vec![HookKind::SessionStart { source: source.to_owned() }];
        kinds.extend(goal.clone().map(|prompt| HookKind::UserPromptSubmit { prompt }));
        for kind in kinds {
            let said = self.run_hooks(kind.clone()).await;
            if let (HookKind::UserPromptSubmit { .. }, Some(reason)) = (&kind, said.feedback) {
                return Err(RunError::Refused { reason });
            }
            added.extend(said.additional_context.iter().map(|text| reminder(&kind, text)));
        }
        Ok(goal.map(|goal| std::iter::once(goal).chain(added).collect::<Vec<_>>().join("\n\n")))
    }

    pub(super) async fn run_hooks(&mut self, kind: HookKind) -> crate::hooks::HookOutcome {
        let team = &self.run_context.team;
        let transcript = pitcrew_team::store::LogName::Transcript(AgentName::lead());
        let session = HookSession {
            session_id: self.run_context.session_id.clone(),
            transcript_path: team.log_file(&transcript),
            cwd: self.run_context.cwd.clone(),
            permission_mode: self.run_context.mode,
        };
        let cancel = CancellationToken::new();
        // At the end of the session, everything that still runs is about to end, so nothing is left
        // for the background.
        let ends = matches!(kind, HookKind::SessionEnd { .. });
        let scope = HookScope {
            gate: None,
            background: Some(self.run_context.lead_background_hooks.as_ref()).filter(|_| !ends),
            cancel: &cancel,
        };
        let mut said = self.run_context.hooks.run(&HookEvent { session, kind }, scope).await;
        for text in std::mem::take(&mut said.warnings) {
            self.warn(text).await;
        }
        said
    }

    /// Starts all agents. Operations that a crash interrupted are completed first, so that no agent
    /// sees them half done.
    async fn begin(
        &mut self,
        beginning: Beginning,
        config: &TeamConfig,
        history: Result<(JournalSummary, u64), StoreError>,
    ) {
        let Beginning { lead, started, told, refused_mode, narrowed } = beginning;
        let is_resumed = started.resumed;
        self.run_context.sink.tell(RunEvent::Started(started)).await;
        let machine = self.run_context.look_at_machine().await.unwrap_or_default();
        let passed_over =
            passed_over(self.run_context.team.clone(), lead.passed_over.clone()).await;
        let left = if is_resumed { left_running(&self.run_context.team).await } else { Vec::new() };
        for text in self
            .run_context
            .warnings()
            .into_iter()
            .chain(machine)
            .chain(passed_over)
            .chain(left)
            .chain(narrowed)
        {
            self.warn(text).await;
        }
        self.open_journal(history).await;
        self.store_settings().await;
        self.open_control().await;
        if let Some(refused) = refused_mode {
            self.refuse_mode(&AgentName::lead(), &refused).await;
        }
        let (mut inputs, mut departed, mut untold, mut rejoined) =
            (Vec::new(), None, Vec::new(), Vec::new());
        if is_resumed {
            self.tidy_later();
            let removed = self.finish_what_was_begun().await;
            // Read the config again, because some members may just have been removed. They must not
            // be started.
            let config =
                self.run_context.team.config().await.unwrap_or_else(|_| Arc::new(config.clone()));
            self.finish_goodbyes(&config).await;
            self.stop_orphans().await;
            let config = self.run_context.team.config().await.unwrap_or(config);
            departed = self.finish_departures(&removed, &lead.parted, &config).await;
            let is_being_spawned = |member: &Member| {
                let call = pitcrew_team::SpawnRecord::of(member).and_then(|record| record.call);
                call.is_some_and(|call| lead.open_spawns.contains(&call))
            };
            // Skip a member that was being spawned when the crash happened. It starts later, when
            // the lead repeats its spawn call. Only the spawn call contains all parameters of the
            // member.
            for member in config.teammates().filter(|member| !is_being_spawned(member)) {
                match self.resume_teammate(member).await {
                    Ok(more) => {
                        rejoined.extend(lead.parted.get(&member.name).cloned());
                        inputs.extend(more);
                    }
                    Err(reason) => untold.push(self.not_resumed(&member.name, reason).await),
                }
            }
        }
        let link = lead.link.clone();
        self.backends.here.run(&AgentName::lead(), lead.driver, lead.start);
        if let Some(text) = told {
            link.tell(Event::Instructed { text });
        }
        if let Some((members, text)) = departed {
            self.tell_departure(members, text, Vec::new());
        }
        if !rejoined.is_empty() {
            link.tell(Event::Rejoined { text: goes_on_after_all(&rejoined), members: rejoined });
        }
        for text in untold.into_iter().chain(lead.lost_in_background) {
            link.tell(Event::Told { text });
        }
        self.follow(inputs).await;
        if is_resumed {
            self.ask_what_is_open().await;
            self.bury_overdue(config).await;
        }
    }

    /// Marks overdue mail of a member as undeliverable if no process runs the member. Mail is
    /// overdue if it has been unread for more than a day.
    async fn bury_overdue(&mut self, config: &TeamConfig) {
        let is_ours = |member: &&Member| pitcrew_team::SpawnRecord::of(member).is_some();
        let team = self.run_context.team.clone();
        for member in config.teammates().filter(is_ours) {
            let holder = team.lease_holder(&LeaseName::of_member(&member.name)).await;
            if self.agents.is_running(&member.name) || !matches!(holder, Ok(None)) {
                continue;
            }
            if let Err(error) = team.bury_overdue(&member.name).await {
                self.warn(format!("the mail of {} stays unread: {}", member.name, chain(&error)))
                    .await;
            }
        }
    }

    /// Completes operations in the team's files that a crash interrupted. Returns the members that
    /// these operations removed.
    async fn finish_what_was_begun(&mut self) -> BTreeMap<AgentName, MemberRemoved> {
        let team = self.run_context.team.clone();
        // Withdraw the shutdown requests of the ended run first. Otherwise a later step could
        // complete an interrupted answer to such a request.
        self.void_parting_requests().await;
        let removed = team.finish_removals().await;
        let (removed, failed) =
            removed.map_or_else(|error| (Vec::new(), Some(error)), |removed| (removed, None));
        let results =
            [team.finish_answers().await.map(|_| ()), team.finish_assignments().await.map(|_| ())]
                .map(Result::err);
        for error in failed.into_iter().chain(results.into_iter().flatten()) {
            self.warn(format!(
                "something that a crash cut off cannot be finished: {}",
                chain(&error)
            ))
            .await;
        }
        removed.into_iter().collect()
    }

    /// Withdraws the shutdown requests that an ended run sent when it exited.
    pub(super) async fn void_parting_requests(&mut self) {
        match self.run_context.team.void_parting_requests().await {
            Ok(()) | Err(ApiError { code: ErrorCode::TeamNotFound, .. }) => {}
            Err(error) => {
                self.warn(format!("what the run asked is still open: {}", chain(&error))).await
            }
        }
    }
}
