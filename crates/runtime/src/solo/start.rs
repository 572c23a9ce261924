//! Starts a member that runs alone, according to the start options.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pitcrew_agent::Role;
use pitcrew_model::ModelError;
use pitcrew_permission::gate::DEFAULT_TYPE;
use pitcrew_protocol::{
    AgentName, ApiError, BACKEND_IN_PROCESS, ErrorCode, LEAD_NAME, Member, PermissionMode,
};
use pitcrew_team::store::{Lease, LeaseName, Watch};
use pitcrew_team::{JoinMember, KnownMode, SpawnRecord, Team};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::deferred::Deferred;
use super::lead::Lead;
use super::options::{Entry, SoloOptions};
use super::solo_loop::{Beginning, EntrySeen, EventSources, SoloLoop};
use crate::driver::Sink;
use crate::events::{AgentStarted, RunStarted};
use crate::prompts::Prompt;
use crate::run::{RunError, RunHandle, RunLimits, Stopper};
use crate::team_run::{
    Account, AgentSpec, BuiltAgent, EVENTS_WAITING, InProcess, LoopHandle, REPORTS_WAITING,
    RunContext, SubagentRuns, UsageTotals, holder_of_ours, says_mode, store_error,
};

/// Starts a member: takes the member's lease, updates its config entry, and starts its agent. The
/// agent continues from its transcript, if there is one.
pub(crate) async fn start(options: SoloOptions) -> Result<RunHandle, RunError> {
    let arrival = Arrival::of(&options).await?;
    let team = arrival.team.name().to_string();
    let (events, received) = mpsc::channel(EVENTS_WAITING);
    let stopper = Stopper::default();
    let (solo, beginning) = arrival.move_in(options, Sink(events), stopper.clone()).await?;
    let (sender, outcome) = oneshot::channel();
    let task = tokio::spawn(async move {
        // Sending fails only if nobody waits for the outcome.
        let _not_waited_for = sender.send(solo.live(beginning).await);
    });
    // A member that runs alone has no control socket, so nobody sends requests.
    let (_, visitors) = mpsc::channel(1);
    Ok(RunHandle { team, events: received, visitors, stopper, outcome, task: Some(task) })
}

/// The data of a member that this process is going to run.
struct Arrival {
    team: Team,
    member: Member,
    watch: Watch,
    lease: Lease,
    lead: Lead,
}

impl Arrival {
    /// Takes the member's lease before anything else. Only the holder of this lease is allowed to
    /// change the member's entry and to run the member.
    async fn of(options: &SoloOptions) -> Result<Self, RunError> {
        let team = options.teams.open(&options.team).await?;
        let config = team.config().await?;
        let known = config.member(&options.name).map(|member| member.name.clone());
        let name = known.unwrap_or_else(|| AgentName::foreign(&options.name));
        let lease = lease_of(&team, &name).await?;
        // The environment of this process can differ from that of the lead's process.
        team.keep_secret_texts(&options.agent_options.secret_texts).await?;
        let watch = team.watch().await.map_err(|error| store_error(&team, error))?;
        let lead = Lead::of(&team, options.lead_key.clone(), options.lead_process).await;
        let mut lead = lead.map_err(|error| store_error(&team, error))?;
        let mut member = match options.entry {
            Entry::Placed => placed(&team, &name).await?,
            Entry::Joins => joined(&team, &name, options).await?,
        };
        // The lead took the lease of the team's run before it signed the member's entry, so check
        // that lease now. If this check refuses the lead, the member reports the refusal later,
        // when it starts.
        let _told_later = lead.look(&team).await.map_err(|error| store_error(&team, error))?;
        member.agent_type = member.agent_type.or_else(|| options.agent_type.clone());
        member.color = member.color.or_else(|| options.color.clone());
        Ok(Self { team, member, watch, lease, lead })
    }

    /// Builds the agent and everything that it uses.
    async fn move_in(
        self,
        options: SoloOptions,
        sink: Sink,
        stopper: Stopper,
    ) -> Result<(SoloLoop, Beginning), RunError> {
        let Self { team, member, watch, lease, lead } = self;
        let as_reader = team.clone().trusting(lead.trust().borrow().clone());
        let (known_mode, refused_mode) = KnownMode::of(&as_reader, &member);
        let (entry, grace) = (options.entry, options.agent_options.shutdown_grace);
        let limits = RunLimits {
            max_turns: options.agent_options.limits.turns_of(&member),
            ..options.agent_options.limits
        };
        let (reports, reported) = mpsc::channel(REPORTS_WAITING);
        let here = InProcess::default();
        let model = model_name(&member, options.model.as_deref())?;
        let mode = if says_mode(&member) { PermissionMode::named(known_mode.mode()) } else { None };
        let spec = spec(&team, &member, &model, &options, mode, here.token());
        let mut run_context = RunContext::new(
            team,
            Role::Teammate,
            options.agent_options,
            model,
            None,
            sink,
            reports,
        )?;
        run_context.trust = Some(lead.trust());
        let definition = run_context.definitions.get(agent_type(&member)).cloned().ok();
        let started = started(&run_context, &member, &spec, limits);
        let (loop_handle, requests) = LoopHandle::new();
        let built = run_context.spec(AgentSpec { definition, ..spec }, &loop_handle).await;
        let built = built.map_err(|error| RunError::Store {
            team: started.0.team.clone(),
            source: Box::new(error),
        })?;
        let (mut run, joins) = started;
        (run.tools, run.resumed) = (built.tools.clone(), built.conversation_turns > 0);
        let (mut account, mut usage_totals) = (Account::new(&member.name), UsageTotals::default());
        account.open(joins.agent_type.clone(), &run.model);
        carry_over(&run_context.team, &mut account, &mut usage_totals, limits).await?;
        run.spent_before_usd = usage_totals.cost_usd();
        let solo = SoloLoop {
            inbox: member.name.inbox_file(),
            is_placed_by_us: entry == Entry::Placed && SpawnRecord::of(&member).is_some(),
            known_mode,
            refused_mode,
            is_active: member.is_active,
            member: member.name.clone(),
            entry_seen: EntrySeen { member, put_back_at: None },
            entry,
            run_context,
            here,
            account,
            usage_totals,
            limits,
            grace,
            began: Instant::now(),
            link: built.link,
            turns: built.conversation_turns,
            parks: false,
            is_parked: false,
            asked: HashMap::new(),
            at_work: BTreeMap::new(),
            subagents: SubagentRuns::default(),
            loop_handle,
            why: None,
            end: None,
            sources: EventSources::new(&as_reader, stopper, (reported, requests), watch, lead),
            _lease: lease,
        };
        let BuiltAgent { driver, start, passed_over, .. } = built;
        Ok((solo, Beginning { run, joins, driver, start, passed_over }))
    }
}

async fn lease_of(team: &Team, name: &AgentName) -> Result<Lease, RunError> {
    let taken = team.take_lease(&LeaseName::of_member(name), &holder_of_ours(team)).await;
    match taken.map_err(|error| store_error(team, error))? {
        Ok(lease) => Ok(lease),
        Err(other) => Err(RunError::MemberHeld { agent: name.clone(), pid: other.pid }),
    }
}

/// Adds the usage of the member's earlier runs to the totals. Refuses to continue if the member has
/// already reached its cost limit.
async fn carry_over(
    team: &Team,
    account: &mut Account,
    usage_totals: &mut UsageTotals,
    limits: RunLimits,
) -> Result<(), RunError> {
    let summary = team.journal_summary().await;
    let (summary, _) = summary.map_err(|error| store_error(team, error))?;
    let Some(before) = summary.members.get(&account.summary.name) else { return Ok(()) };
    account.carry_over(before, None, usage_totals);
    let cost_usd = usage_totals.cost_usd();
    match limits.max_cost_usd {
        Some(most_usd) if cost_usd > 0.0 && cost_usd >= most_usd => {
            Err(RunError::Spent { cost_usd, most_usd })
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the config entry that a lead created for the member.
async fn placed(team: &Team, name: &AgentName) -> Result<Member, RunError> {
    let member = team.member(name.as_str()).await?;
    if member.is_called(LEAD_NAME) {
        let message = format!("'{LEAD_NAME}' leads the team; only a teammate runs alone");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message)
            .with("name", LEAD_NAME)
            .into());
    }
    // If a member is in-process, its lead's process runs it as long as that process lives.
    if member.backend_type.as_deref() == Some(BACKEND_IN_PROCESS) {
        let lead = team.lease_holder(&LeaseName::Run).await;
        if let Some(lead) = lead.map_err(|error| store_error(team, error))? {
            return Err(RunError::MemberHeld { agent: member.name, pid: lead.pid });
        }
    }
    Ok(member)
}

/// Returns the member's own config entry. At the first start, creates this entry.
async fn joined(team: &Team, name: &AgentName, options: &SoloOptions) -> Result<Member, RunError> {
    let config = team.config().await?;
    if let Some(member) = config.member(name.as_str()).filter(|member| has_joined(member)) {
        return Ok(member.clone());
    }
    let join = JoinMember {
        name: options.name.clone(),
        agent_type: options.agent_type.clone().unwrap_or_else(|| DEFAULT_TYPE.to_owned()),
        model: options.model.clone().unwrap_or_default(),
        cwd: options.agent_options.cwd.to_string_lossy().into_owned(),
        color: options.color.clone(),
        ..JoinMember::default()
    };
    Ok(team.join(join).await?)
}

/// Returns true if a member joined the team by itself. A spawned member has a prompt, and the lead
/// was created together with the team; neither has joined by itself.
fn has_joined(member: &Member) -> bool {
    SpawnRecord::of(member).is_some() && member.prompt.is_none() && !member.is_called(LEAD_NAME)
}

/// Returns the requested model. If none is requested, returns the model in the config.
fn model_name(member: &Member, asked: Option<&str>) -> Result<String, RunError> {
    let named = asked.or(member.model.as_deref()).filter(|name| !name.is_empty());
    named.map(str::to_owned).ok_or_else(|| RunError::Model {
        name: member.name.to_string(),
        source: ModelError::NoModel,
    })
}

/// Returns the specification of the agent without its agent definition, which is added later.
fn spec(
    team: &Team,
    member: &Member,
    model: &str,
    options: &SoloOptions,
    mode: Option<PermissionMode>,
    cancel: CancellationToken,
) -> AgentSpec {
    let folder = member.worktree_path.as_ref().or(member.cwd.as_ref());
    let prompt = match options.entry {
        Entry::Placed => None,
        Entry::Joins => {
            let values = [
                ("name", member.name.as_str()),
                ("team", team.name().as_str()),
                ("lead", LEAD_NAME),
            ];
            let text = Prompt::Joined.render(&values);
            text.inspect_err(|error| tracing::error!(%error, "a prompt does not fit its values"))
                .ok()
        }
    };
    AgentSpec {
        name: member.name.clone(),
        role: Role::Teammate,
        definition: None,
        model: Arc::new(Deferred::new(model.to_owned(), options.agent_options.open_model.clone())),
        mode: mode.unwrap_or(options.agent_options.mode),
        cwd: folder.map_or_else(|| options.agent_options.cwd.clone(), PathBuf::from),
        parent_call: None,
        max_turns: options.agent_options.limits.turns_of(member),
        prompt,
        remembers: None,
        cancel,
    }
}

/// Returns the first events for the user interface: they describe the run and its only agent.
fn started(
    run_context: &RunContext,
    member: &Member,
    spec: &AgentSpec,
    limits: RunLimits,
) -> (RunStarted, AgentStarted) {
    let run = RunStarted {
        agent: member.name.clone(),
        team: run_context.team.name().to_string(),
        team_file: run_context.team.file(),
        session_id: run_context.session_id.clone(),
        cwd: spec.cwd.clone(),
        model: run_context.model_name.clone(),
        mode: spec.mode,
        tools: Vec::new(),
        agents: run_context.definitions.iter().map(|definition| definition.name.clone()).collect(),
        resumed: false,
        limits,
        spent_before_usd: 0.0,
    };
    let joins = AgentStarted {
        agent: member.name.clone(),
        parent_call: None,
        agent_type: Some(agent_type(member).to_owned()),
        model: run_context.model_name.clone(),
        color: member.color.clone(),
        cwd: spec.cwd.clone(),
        mode: spec.mode,
    };
    (run, joins)
}

fn agent_type(member: &Member) -> &str {
    member.agent_type.as_deref().unwrap_or(DEFAULT_TYPE)
}
