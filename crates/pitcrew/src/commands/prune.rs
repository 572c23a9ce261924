//! `pitcrew prune`: permanently removes teams from the archive.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use pitcrew_team::Teams;
use pitcrew_team::store::{ArchiveName, ArchivedTeam};
use serde::Serialize;

use crate::archive::day_and_time;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Form, printable};
use crate::when::age;

/// Remove teams from the archive permanently
///
/// The archive holds teams whose run was completed and teams that were deleted, with their
/// messages, tasks and conversations. The command first lists the teams to remove and then asks
/// you. It never touches teams outside of the archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew prune --dry-run
  pitcrew prune --older-than 90d
  pitcrew prune --older-than 0d --yes      the whole archive, unasked")]
pub(crate) struct Prune {
    /// Only remove teams that have been in the archive for longer than this, such as 12h, 30d or 8w
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = age)]
    older_than: Duration,
    /// List the teams that would be removed, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Remove without asking
    #[arg(long, short)]
    yes: bool,
}

/// The result that `pitcrew prune` prints.
#[derive(Debug, Serialize)]
struct Pruned {
    success: bool,
    dry_run: bool,
    /// The archived teams that were removed. With `--dry-run`, the archived teams that would be
    /// removed.
    archives: Vec<Row>,
    total: usize,
    /// Archived teams that cannot be read. They are not removed.
    unreadable: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(skip)]
    name: ArchiveName,
    id: String,
    team: String,
    archived_at_ms: Option<i64>,
    tasks: usize,
    path: PathBuf,
}

impl Prune {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let teams = context.teams()?;
        let mut pruned = context.briefly(self.found(&teams))?;
        for id in &pruned.unreadable {
            output::remark(&format!(
                "warning: {} cannot be read, and is left alone",
                printable(id)
            ));
        }
        if !self.dry_run && !pruned.archives.is_empty() && !self.is_wanted(context, &pruned)? {
            return Err(Failure::usage("nothing was removed, because nobody confirmed it")
                .hint("--yes removes without asking, --dry-run only shows"));
        }
        if !self.dry_run {
            context.briefly(async {
                for row in &pruned.archives {
                    // The archived team may no longer exist, because another process has removed or
                    // resumed it in the meantime. This is not an error.
                    let _was_there = teams.remove_archived(&row.name).await?;
                }
                Ok(())
            })?;
        }
        pruned.success = true;
        context.output.answer(&pruned, Pruned::text)
    }

    async fn found(&self, teams: &Teams) -> Result<Pruned, Failure> {
        let (mut archives, mut unreadable) = (Vec::new(), Vec::new());
        for entry in teams.archived().await? {
            match entry.team {
                Ok(team) if self.is_old(&team, teams.now_ms()) => {
                    let path = teams.archive_folder(&team);
                    archives.push(Row::of(team, path));
                }
                Ok(_) => {}
                Err(_) => unreadable.push(entry.name.to_string()),
            }
        }
        Ok(Pruned {
            success: false,
            dry_run: self.dry_run,
            total: archives.len(),
            archives,
            unreadable,
        })
    }

    fn is_old(&self, team: &ArchivedTeam, now_ms: i64) -> bool {
        let age = |at_ms: i64| u128::try_from(now_ms.saturating_sub(at_ms)).unwrap_or_default();
        // If the time of archiving is not known, the team is not removed.
        team.archived_at_ms.is_some_and(|at_ms| age(at_ms) >= self.older_than.as_millis())
    }

    /// Returns whether the user agrees to the removal, either by `--yes` or by an answer at the
    /// terminal.
    fn is_wanted(&self, context: &Context, pruned: &Pruned) -> Result<bool, Failure> {
        if self.yes {
            return Ok(true);
        }
        if !context.has_terminal() || context.output.form() == Form::Json {
            return Ok(false);
        }
        let question =
            format!("{}\nRemove them permanently? [y]es, [N]o: ", table(&pruned.archives));
        let mut err = anstream::stderr().lock();
        write!(err, "{question}").and_then(|()| err.flush()).map_err(Failure::internal)?;
        let mut typed = String::new();
        std::io::stdin().lock().read_line(&mut typed).map_err(Failure::internal)?;
        Ok(matches!(typed.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

impl Row {
    fn of(team: ArchivedTeam, path: PathBuf) -> Self {
        Self {
            id: team.name.to_string(),
            name: team.name,
            team: team.config.name.to_string(),
            archived_at_ms: team.archived_at_ms,
            tasks: team.tasks.len(),
            path,
        }
    }
}

impl Pruned {
    fn text(&self) -> String {
        if self.archives.is_empty() {
            return "nothing to remove".to_owned();
        }
        let done = if self.dry_run { "would be removed" } else { "removed" };
        let teams = if self.total == 1 { "team" } else { "teams" };
        format!("{}\n{} {teams} {done}", table(&self.archives), self.total)
    }
}

fn table(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let at = day_and_time(row.archived_at_ms).unwrap_or_else(|| "-".to_owned());
        [row.team.clone(), at, row.tasks.to_string(), row.id.clone()]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    output::table(["TEAM", "ARCHIVED", "TASKS", "ID"], &rows)
}
