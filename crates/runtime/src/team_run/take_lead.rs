//! Makes this process the lead of a team. It takes the team's lease, and sets the rules that must
//! apply before any agent acts again.
//!
//! If a lead is killed, the processes of its teammates survive and wait for the next lead. While
//! the new lead holds the lease with the mark "prepares", these processes continue to wait. During
//! that time the new lead lowers the teammates' modes and stores the rules of this run. It also
//! ends the processes that were started under other rules, and the run later starts these teammates
//! again.

use std::time::Duration;

use pitcrew_process::identity::{ProcessIdentity, Stopped};
use pitcrew_protocol::TeamCreateInput;
use pitcrew_team::store::{Lease, LeaseHolder, LeaseName};
use pitcrew_team::{CreateTeam, FirstRun, LeadSigner, MadeBy, OnTaken, Team, VerifyKey};

use super::mode::{lower_modes, too_free};
use super::start::store_error;
use super::take_over::{begin_take_over, finish_take_over};
use crate::hosting::{member_bounds, rules_digest};
use crate::run::{Begin, RunError, RunOptions};
use crate::supervision::{RecordedPanes, own_process, stop_member, sweep};

/// Time that a process of an earlier run has to react to TERM. After this time the new lead
/// continues without waiting for the process.
const SWEEP_GRACE: Duration = Duration::from_secs(2);

/// A team that this process leads.
pub(super) struct Led {
    pub(super) team: Team,
    pub(super) lease: Lease,
    /// Notices about permissions that members lost, because this run allows less than the previous
    /// run.
    pub(super) narrowed: Vec<String>,
}

/// Takes the lease of the team.
///
/// For a resumed run, also ends two kinds of processes of the earlier run: commands whose agent
/// process is dead, and members that work under other rules than this run. If a take-over (a member
/// becomes the lead) was interrupted, completes it.
pub(super) async fn led(team: Team, options: &RunOptions) -> Result<Led, RunError> {
    let is_resumed = options.begin.is_resumed();
    if is_resumed {
        // Check the records before changing anything. If a record is damaged, the run cannot read
        // its mail or handle permission requests.
        team.check_records().await?;
        for (process, stopped) in sweep(&team, SWEEP_GRACE).await? {
            tracing::info!(%process, ?stopped, "what a dead process of the team left running");
        }
    }
    let seal = LeadSigner::make(team.teams())?;
    let mut holder =
        LeaseHolder { prepares: is_resumed, ..holder_with_key(&team, seal.verify_key()) };
    // Take the lease before any further change, so that only one process changes the team at a
    // time.
    let lease = lease_of(&team, &holder).await?;
    let team = team.take_lead(seal).await?;
    let panes = RecordedPanes::below(&options.agent_options.root);
    let panes = panes.with_named_programs(options.hosting.pane_programs.clone());
    let ended =
        if is_resumed { end_bound_otherwise(&team, &panes, options).await? } else { Vec::new() };
    // Lower the modes before the rules of this run are stored, because `lower_modes` reads the
    // rules of the previous run. If this run is killed between the two steps, the next run still
    // finds the previous rules and can lower the modes.
    let mut narrowed = lower_modes(&team, options.agent_options.mode).await?;
    // Store the rules before any agent acts. If this run is then killed, the next run still finds
    // the rules.
    team.keep_bounds(options.bounds.clone()).await?;
    team.keep_secret_texts(&options.agent_options.secret_texts).await?;
    if let Some(panes) = &options.hosting.panes {
        team.note_pane_host(panes.host()).await?;
    }
    if is_resumed {
        if let Begin::TakeOver { member: Some(member), .. } = &options.begin {
            begin_take_over(&team, member, &panes, options.agent_options.shutdown_grace).await?;
        }
        finish_take_over(&team, &options.agent_options.cwd).await?;
        narrowed.extend(ended);
        // Surviving teammates are allowed to act again from here on, because the rules are stored
        // and the lead is known.
        holder.prepares = false;
        let named = team.name_holder(&LeaseName::Run, &holder).await;
        named.map_err(|error| store_error(&team, error))?;
    }
    Ok(Led { team, lease, narrowed })
}

/// Ends the processes of members that were started under other rules than the rules of this run.
/// Also ends the processes of members whose mode this run does not allow, and the commands that all
/// these processes left running. The run later starts these members again.
async fn end_bound_otherwise(
    team: &Team,
    panes: &RecordedPanes,
    options: &RunOptions,
) -> Result<Vec<String>, RunError> {
    let agent_options = &options.agent_options;
    let rules =
        rules_digest(&agent_options.settings, &agent_options.root, &agent_options.project_agents);
    let too_free = too_free(team, agent_options.mode).await?;
    let (config, mut said) = (team.config().await?, Vec::new());
    for (name, started) in team.started().await? {
        let Some(member) = config.member(name.as_str()) else { continue };
        let bounds = member_bounds(&rules, agent_options.limits, member);
        let is_bound = started.bounds == Some(bounds) && !too_free.contains(&name);
        let Some(process) = own_process(panes, team, &name, &started).filter(|_| !is_bound) else {
            continue;
        };
        let stopped = stop_member(team, panes, SWEEP_GRACE, (name.clone(), started)).await?;
        if stopped.end == Stopped::StillRunning {
            return Err(RunError::MemberHeld { agent: name, pid: process.pid });
        }
        said.push(format!(
            "{name} outlived the run before, which had other rules; it is started anew under this run's"
        ));
    }
    Ok(said)
}

/// Creates or opens the team of a run.
pub(super) async fn team_of(options: &RunOptions) -> Result<Team, RunError> {
    Ok(match &options.begin {
        Begin::New { team, goal } => {
            let description = goal.lines().next().map(|line| line.chars().take(200).collect());
            let input = TeamCreateInput { team_name: team.clone(), description, agent_type: None };
            let create = CreateTeam {
                input,
                cwd: options.agent_options.cwd.to_string_lossy().into_owned(),
                model: options.model.clone(),
                session_id: options.agent_options.session_id.clone(),
                on_taken: OnTaken::Number,
                made_by: MadeBy::Run,
                first_run: Some(FirstRun { goal: goal.clone(), bounds: options.bounds.clone() }),
            };
            options.teams.create(create).await?.0
        }
        Begin::Resume { team, .. } | Begin::TakeOver { team, .. } => {
            options.teams.open(team).await?
        }
    })
}

/// Describes this process as the holder of a lease.
pub(crate) fn holder_of_ours(team: &Team) -> LeaseHolder {
    let ProcessIdentity { pid, start_ticks } = ProcessIdentity::own();
    LeaseHolder {
        pid,
        start_ticks,
        since_ms: team.teams().now_ms(),
        verify_key: None,
        prepares: false,
    }
}

/// Describes this process as the holder of a team's lease, with the key that verifies the lead's
/// signatures.
pub(super) fn holder_with_key(team: &Team, key: &VerifyKey) -> LeaseHolder {
    LeaseHolder { verify_key: Some(key.to_string()), ..holder_of_ours(team) }
}

/// Takes the lease of the team's run. Only one process can hold this lease, so a team has only one
/// run at a time.
pub(super) async fn lease_of(team: &Team, holder: &LeaseHolder) -> Result<Lease, RunError> {
    match team.take_lease(&LeaseName::Run, holder).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(other)) => Err(RunError::Held { team: team.name().to_string(), pid: other.pid }),
        Err(error) => Err(store_error(team, error)),
    }
}
