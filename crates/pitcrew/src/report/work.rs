//! The work of a team, for the report at the end of a run: the files that each agent changed, the new
//! commits of the repository, and the commits and files of the worktrees that were kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pitcrew_process::worktree::{Changes, NewCommits};
use pitcrew_protocol::{AgentName, LEAD_NAME, TaskStatus, TeamConfig, counted};
use pitcrew_runtime::run::{KeptWorktree, RunOutcome};
use pitcrew_team::TeamRecords;
use pitcrew_view::wording::short;
use serde::Serialize;

use crate::commands::transcript;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, in_one_line, printable, shell_word};

/// The maximum number of files that are named of one agent or worktree. `--json` names all of them.
const FILES_NAMED: usize = 12;

/// The maximum number of commits that are named of one worktree.
const COMMITS_NAMED: usize = 5;

/// The work of a team in all its runs.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Work {
    /// The files that each agent wrote or edited with the tools for files. Changes by shell commands
    /// are not known. A file below the lead's folder, or in a worktree that was kept, is named
    /// relative to it.
    files_changed: BTreeMap<AgentName, BTreeSet<String>>,
    /// The number of commits that the lead's repository got since the team's first run began. Git
    /// does not tell whether an agent made them.
    commit_count: usize,
    /// The newest of these commits.
    commits: Vec<String>,
    /// The work in the worktrees that were kept.
    worktree_changes: Vec<InWorktree>,
    /// Whether the team's journal and conversations can be shown later.
    #[serde(skip)]
    is_recorded: bool,
}

/// The work in a worktree that was kept.
#[derive(Debug, Serialize)]
struct InWorktree {
    member: AgentName,
    path: PathBuf,
    branch: String,
    /// The number of commits that are not merged.
    commit_count: usize,
    /// The newest of these commits.
    commits: Vec<String>,
    /// The files that these commits changed, and the files that are changed and not committed.
    files: BTreeSet<String>,
    /// Whether further files are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_more_files: bool,
}

/// Returns the records of a team that was run. If the team is no longer in its place, it is in the
/// archive.
///
/// # Errors
/// Returns an error if the team is in neither place, or cannot be read.
pub(crate) async fn records(context: &Context, team: &str) -> Result<TeamRecords, Failure> {
    let teams = context.teams()?;
    match teams.open(team).await {
        Ok(team) => Ok(TeamRecords::Live(team)),
        Err(error) => match teams.find_archived(team).await? {
            Some(archived) => Ok(TeamRecords::Archived(teams, Box::new(archived))),
            None => Err(error.into()),
        },
    }
}

impl Work {
    /// Finds the work of the team of a run. If something cannot be read, a warning is printed and
    /// that part is missing.
    pub(crate) async fn of(context: &Context, outcome: &RunOutcome) -> Self {
        let mut work = match Self::recorded(context, outcome).await {
            Ok(work) => work,
            Err(failure) => {
                let said = failure.chain();
                output::remark(&format!("warning: the agents' files are not known: {said}"));
                Self::default()
            }
        };
        for kept in &outcome.kept {
            match context.worktrees(&context.cwd).changes(&kept.path).await {
                Ok(changes) => work.worktree_changes.push(InWorktree::of(kept, changes)),
                Err(error) => {
                    let said = Failure::internal(error).chain();
                    output::remark(&format!(
                        "warning: the changes in {}'s worktree are not known: {said}",
                        kept.agent
                    ));
                }
            }
        }
        work
    }

    async fn recorded(context: &Context, outcome: &RunOutcome) -> Result<Self, Failure> {
        let records = records(context, &outcome.team).await?;
        let config = records.config().await?;
        let mut places = places(&config);
        places.extend(outcome.kept.iter().map(|kept| kept.path.clone()));
        let mut files_changed = BTreeMap::new();
        for name in records.all_members().await? {
            let conversation = transcript::conversation(context, &records, &config, &name).await?;
            let files = conversation.map(|(_, it)| it.files_changed()).unwrap_or_default();
            let files: BTreeSet<String> =
                files.into_keys().map(|file| relative(&file, &places)).collect();
            if !files.is_empty() {
                files_changed.insert(name, files);
            }
        }
        let NewCommits { count, newest } = new_commits(context, &records, &config).await;
        Ok(Self {
            files_changed,
            commit_count: count,
            commits: newest,
            worktree_changes: Vec::new(),
            is_recorded: true,
        })
    }

    /// Describes the work, one line for each item.
    pub(super) fn lines(&self, outcome: &RunOutcome) -> Vec<String> {
        let mut lines = vec![in_all(outcome)];
        lines.extend(tasks(outcome));
        for (agent, files) in &self.files_changed {
            lines.push(format!("{} changed {}", printable(agent.as_str()), named(files)));
        }
        if self.commit_count > 0 {
            let named = commits(self.commit_count, &self.commits);
            lines.push(format!("new in the repository: {named}"));
        }
        lines.extend(self.worktree_changes.iter().filter_map(InWorktree::in_words));
        lines
    }

    /// Returns the commands that show the run again. Returns `None` if the team is not on disk.
    pub(super) fn look_again(&self, root: &str, team: &str) -> Option<String> {
        let team = shell_word(team);
        self.is_recorded.then(|| {
            format!(
                "look again: `pitcrew{root} log {team}`, `pitcrew{root} transcript AGENT --team {team}`"
            )
        })
    }
}

impl InWorktree {
    fn of(kept: &KeptWorktree, changes: Changes) -> Self {
        let Changes { commit_count, commits, files, has_more_files } = changes;
        let KeptWorktree { agent, path, branch, reason: _ } = kept.clone();
        Self { member: agent, path, branch, commit_count, commits, files, has_more_files }
    }

    fn in_words(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.commit_count > 0 {
            parts.push(commits(self.commit_count, &self.commits));
        }
        if !self.files.is_empty() {
            let more = if self.has_more_files { " and in files that are not listed" } else { "" };
            parts.push(format!("changes in {}{more}", named(&self.files)));
        }
        (!parts.is_empty()).then(|| format!("{} has {}", printable(&self.branch), parts.join(", ")))
    }
}

/// Finds the commits that the lead's repository got since the first run of the team. If git fails, a
/// warning is printed.
async fn new_commits(context: &Context, records: &TeamRecords, config: &TeamConfig) -> NewCommits {
    let runs = records.summary().await.map(|summary| summary.runs).unwrap_or_default();
    let cwd = config.member(LEAD_NAME).and_then(|lead| lead.cwd.clone());
    let (Some(head), Some(began_ms), Some(cwd)) = (runs.head, runs.began_ms, cwd) else {
        return NewCommits::default();
    };
    let repository = context.worktrees(cwd);
    repository.commits_since(&head, began_ms.div_euclid(1000)).await.unwrap_or_else(|error| {
        let said = Failure::internal(error).chain();
        output::remark(&format!("warning: the new commits are not known: {said}"));
        NewCommits::default()
    })
}

/// Names commits, at most [`COMMITS_NAMED`].
fn commits(count: usize, newest: &[String]) -> String {
    let shown: Vec<String> =
        newest.iter().take(COMMITS_NAMED).map(|commit| in_one_line(commit)).collect();
    let more = count.saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} ({}{more})", counted(count, "commit"), shown.join("; "))
}

/// Returns the folders below which files are named relative to the folder: the members' worktrees
/// and the lead's folder.
fn places(config: &TeamConfig) -> Vec<PathBuf> {
    let worktrees = config.members.iter().filter_map(|member| member.worktree_path.as_ref());
    let lead = config.member(LEAD_NAME).and_then(|lead| lead.cwd.as_ref());
    worktrees.chain(lead).map(PathBuf::from).collect()
}

fn relative(file: &str, places: &[PathBuf]) -> String {
    let path = Path::new(file);
    let below = places.iter().find_map(|place| path.strip_prefix(place).ok());
    below.unwrap_or(path).display().to_string()
}

/// Names files, at most [`FILES_NAMED`].
fn named(files: &BTreeSet<String>) -> String {
    let shown: Vec<String> = files.iter().take(FILES_NAMED).map(|file| in_one_line(file)).collect();
    let more = files.len().saturating_sub(shown.len());
    let more =
        if more > 0 { format!(" and {}", counted(more, "more file")) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn in_all(outcome: &RunOutcome) -> String {
    let agents = counted(outcome.agents.len(), "agent");
    let tokens = short(outcome.usage().context_tokens());
    // A cost of zero is shown only if a price is known.
    let is_unpriced = outcome.totals.unpriced().count() == outcome.totals.models.len();
    let cost = if is_unpriced { String::new() } else { format!(", ${:.2}", outcome.cost_usd()) };
    format!("in all: {agents}, {tokens} tokens{cost}")
}

fn tasks(outcome: &RunOutcome) -> Option<String> {
    let is_done = |status: TaskStatus| status == TaskStatus::Completed;
    let (done, open): (Vec<_>, Vec<_>) =
        outcome.tasks.iter().partition(|task| is_done(task.status));
    let open: Vec<String> = open.iter().map(|task| in_one_line(&task.in_words())).collect();
    let completed = format!("{} completed", counted(done.len(), "task"));
    match (done.is_empty(), open.is_empty()) {
        (true, true) => None,
        (_, true) => Some(completed),
        (_, false) => Some(format!("{completed}, {} open: {}", open.len(), open.join("; "))),
    }
}
