//! `pitcrew team show`: shows one team. The team can be in the archive.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pitcrew_protocol::{AgentName, TeamConfig};
use pitcrew_team::store::{ArchivedTeam, LeaseHolder, LeaseName, Paths};
use pitcrew_team::{TaskListView, TeamRecords};
use pitcrew_view::agent_now::AgentNow;
use pitcrew_view::member_status::MemberStatus;
use pitcrew_view::running::Running;
use pitcrew_view::{AgentState, TeamState, ViewEvent, fold};
use serde::Serialize;

use crate::archive::day_and_time;
use crate::commands::member::list;
use crate::commands::task::list::table as tasks;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, FAINT, STRONG, in_one_line, printable, shell_word};
use crate::selection::{self, AnyTeamWord, Chosen};

/// Show a team: its members and where they run, its tasks, and who runs it
///
/// A team whose run is completed is in the archive. It is shown if you give its name or the id of
/// its archive.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    team: AnyTeamWord,
}

/// The result that `pitcrew team show` prints: the team's config as it is on disk, with the team's
/// tasks and processes.
#[derive(Debug, Serialize)]
struct Shown {
    team: TeamConfig,
    team_file_path: PathBuf,
    tasks: TaskListView,
    /// The pitcrew process that runs the team now. `None` if no pitcrew process runs the team.
    run_by: Option<LeaseHolder>,
    /// Who runs the team, as far as known: pitcrew, another client or nobody.
    running: Running,
    /// Where each member runs, in the order of the members.
    runs: Vec<MemberStatus>,
    /// What each agent does now, and what it used. Former members are included.
    agents: Vec<AgentNow>,
    /// The members whose mode in the config no lead has signed.
    #[serde(skip)]
    unsigned: BTreeSet<AgentName>,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let name = self.team.name();
        let team = match selection::open_or_archived(context, name).await? {
            Chosen::Live(team) => team,
            Chosen::Archived(archived) => {
                let records = TeamRecords::Archived(context.teams()?, archived.clone());
                let agents = AgentNow::of_team(&records, &[], &context.root).await?;
                let shown = ShownArchived {
                    agents,
                    ..ShownArchived::of(*archived, &Paths::new(&context.root), name)
                };
                return context.output.answer(&shown, ShownArchived::text);
            }
        };
        let config = team.config().await?;
        let running = Running::of(&team, &config).await?;
        let runs = MemberStatus::of(&team, &config, &running).await?;
        let records = TeamRecords::Live(team.clone());
        let shown = Shown {
            agents: AgentNow::of_team(&records, &runs, &context.root).await?,
            runs,
            running,
            unsigned: team.unsigned_modes().await?,
            team: config.as_ref().clone(),
            team_file_path: team.file(),
            tasks: TaskListView::of(&team.tasks().await?),
            run_by: team.lease_holder(&LeaseName::Run).await.map_err(Failure::internal)?,
        };
        context.output.answer(&shown, Shown::text)
    }
}

/// The result that `pitcrew team show` prints for an archived team.
#[derive(Debug, Serialize)]
struct ShownArchived {
    team: TeamConfig,
    team_file_path: PathBuf,
    tasks: TaskListView,
    /// The id of the archive, and the time at which the team was archived.
    archive: InArchive,
    /// How each agent ended, and what it used.
    agents: Vec<AgentNow>,
    #[serde(skip)]
    resume: String,
}

#[derive(Debug, Serialize)]
struct InArchive {
    id: String,
    archived_at_ms: Option<i64>,
}

impl ShownArchived {
    /// Builds the result for an archived team. `name` is the name that the user typed; `--resume`
    /// accepts the same name.
    fn of(archived: ArchivedTeam, paths: &Paths, name: Option<&str>) -> Self {
        Self {
            resume: name.unwrap_or(archived.config.name.as_str()).to_owned(),
            team_file_path: paths.archived(&archived.name).join("team/config.json"),
            tasks: TaskListView::of(&archived.tasks),
            archive: InArchive {
                id: archived.name.to_string(),
                archived_at_ms: archived.archived_at_ms,
            },
            agents: Vec::new(),
            team: archived.config,
        }
    }

    fn text(&self) -> String {
        let about = self
            .team
            .description
            .as_deref()
            .map(|text| format!("{}\n", printable(text)))
            .unwrap_or_default();
        let since = day_and_time(self.archive.archived_at_ms)
            .unwrap_or_else(|| "an unknown time".to_owned());
        format!(
            "{STRONG}{}{STRONG:#}  {FAINT}in the archive since {since}, {}{FAINT:#}\n{about}\
             `pitcrew run --resume {}` goes on with it\n\n{}\n\n{}{}",
            in_one_line(self.team.name.as_str()),
            self.team_file_path.display(),
            shell_word(&self.resume),
            list::table(&self.team, &BTreeSet::new()),
            tasks(&self.tasks),
            agents(&self.agents),
        )
    }
}

impl Shown {
    fn text(&self) -> String {
        let about = self
            .team
            .description
            .as_deref()
            .map(|text| format!("{}\n", printable(text)))
            .unwrap_or_default();
        let run_by = self.running.text();
        format!(
            "{STRONG}{}{STRONG:#}  {FAINT}{run_by}, {}{FAINT:#}\n{about}\n{}\n\n{}{}",
            in_one_line(self.team.name.as_str()),
            self.team_file_path.display(),
            self.members(),
            tasks(&self.tasks),
            agents(&self.agents),
        )
    }

    fn members(&self) -> String {
        let state = fold(TeamState::default(), &ViewEvent::Config(&self.team));
        let state = fold(state, &ViewEvent::Located(&self.runs));
        let row = |member: &AgentState| {
            let [name, kind, model, mode, _, worktree] = list::cells(member, &self.unsigned);
            let [place, state] = member.process.as_ref()?.cells(member.backend_type.as_deref());
            Some([name, kind, model, mode, place, state, worktree])
        };
        let rows: Vec<_> = state.agents.iter().filter_map(row).collect();
        output::table(["MEMBER", "TYPE", "MODEL", "MODE", "RUNS IN", "STATE", "WORKTREE"], &rows)
    }
}

/// Formats the agents as a table below an empty line. Returns an empty text if nothing is recorded of
/// any agent.
fn agents(agents: &[AgentNow]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = agents.iter().map(AgentNow::cells).collect();
    format!(
        "\n\n{}",
        output::table(["AGENT", "NOW", "TURNS", "TOOL CALLS", "TOKENS", "COST"], &rows)
    )
}
