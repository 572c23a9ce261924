//! The checks of `pitcrew doctor`. They examine the files first, then each team in the order of
//! [`TeamCheck`], then the worktrees. Faults are repaired in the same order.
//!
//! To add a check, add a file here with a `look` function, a variant of [`TeamCheck`], and a
//! [`Remedy`](super::fault::Remedy) if the check can repair something.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pitcrew_protocol::TeamDir;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::{Rooms, TeamView};
use super::{
    archives, configs, files, mail, members, missing, overwritten, owners, processes, records,
    tasks, worktrees,
};
use crate::failure::Failure;

/// A check that runs once for each team. The order of the variants matters: a repair must stop the
/// processes of a member before it removes the member.
#[derive(Clone, Copy, Debug)]
enum TeamCheck {
    Config,
    Owners,
    Records,
    Missing,
    Overwritten,
    Processes,
    Members,
    Mail,
    Tasks,
}

impl TeamCheck {
    const ALL: [Self; 9] = [
        Self::Config,
        Self::Owners,
        Self::Records,
        Self::Missing,
        Self::Overwritten,
        Self::Processes,
        Self::Members,
        Self::Mail,
        Self::Tasks,
    ];

    /// Returns what the check examines. The finding names this subject when the check itself fails.
    fn subject(self) -> &'static str {
        match self {
            Self::Config => "its config",
            Self::Owners => "whose its folders are",
            Self::Records => "its records and transcripts",
            Self::Missing => "whether its files are there",
            Self::Overwritten => "whether other programs undid what we wrote",
            Self::Processes => "its processes and panes",
            Self::Members => "its members",
            Self::Mail => "its mail",
            Self::Tasks => "its tasks",
        }
    }

    async fn look(
        self,
        rooms: &Rooms,
        view: &TeamView,
        known: &[String],
    ) -> Result<Vec<Fault>, Failure> {
        match self {
            Self::Config => Ok(configs::look(view)),
            Self::Owners => Ok(owners::look(&rooms.root, view)),
            Self::Records => records::look(view, known).await,
            Self::Missing => missing::look(rooms, view).await,
            Self::Overwritten => overwritten::look(rooms, view),
            Self::Processes => processes::look(rooms, view).await,
            Self::Members => members::look(view).await,
            Self::Mail => mail::look(rooms, view).await,
            Self::Tasks => tasks::look(view).await,
        }
    }
}

/// The result of the file check: its faults, and the teams that the later checks can examine.
pub(super) struct Files {
    pub(super) faults: Vec<Fault>,
    /// Teams whose files can be read well enough for the other checks.
    teams: Vec<TeamDir>,
    /// Folders of teams that cannot be read. The members of such a team are not known, and a
    /// worktree may belong to one of these members.
    unread: Vec<TeamDir>,
    /// Paths that already have a fault, so that no other check reports them again.
    known: Vec<String>,
}

/// The input of the worktree check: teams that may have worktrees, and teams that cannot be read.
#[derive(Default)]
pub(super) struct Worktrees {
    teams: Vec<TeamDir>,
    unread: Vec<TeamDir>,
}

/// Checks the files. This check runs first, because damaged files must be repaired before the other
/// checks read them.
pub(super) fn files(rooms: &Rooms) -> Files {
    let looked = rooms.files.look();
    let faults: Vec<Fault> = looked.found.into_iter().map(files::fault).collect();
    let known = faults.iter().filter_map(|fault| fault.finding.place()).collect();
    Files { faults, teams: looked.teams, unread: looked.others, known }
}

/// Runs every check on every team. Then checks whether archived teams can be read, and looks for
/// processes of theirs. If a check itself fails, that failure becomes a fault.
pub(super) async fn teams(rooms: &Rooms, files: Files) -> (Vec<Fault>, Worktrees) {
    let Files { teams, unread, known, .. } = files;
    let (mut faults, mut worktrees) = (Vec::new(), Worktrees { unread, ..Worktrees::default() });
    let is_known = |error: &Failure| known.iter().any(|place| error.chain().contains(place));
    for dir in teams {
        let view = match TeamView::at(rooms, &dir).await {
            Ok(view) => view,
            Err(error) => {
                faults.push(unchecked_in(&dir, "it", &error));
                // The members of this team are not known. Its worktrees must not be treated as
                // orphans.
                worktrees.unread.push(dir);
                continue;
            }
        };
        worktrees.teams.push(dir.clone());
        for check in TeamCheck::ALL {
            match check.look(rooms, &view, &known).await {
                Ok(found) => faults.extend(found),
                // The file check has already reported a fault for the path that this error names,
                // so do not report the path again.
                Err(error) if is_known(&error) => {}
                Err(error) => faults.push(unchecked_in(&dir, check.subject(), &error)),
            }
        }
    }
    for of_archive in [archives::look(rooms).await, processes::in_archive(rooms).await] {
        match of_archive {
            Ok(found) => faults.extend(found),
            Err(error) => faults.push(unchecked("the archive", &error)),
        }
    }
    (faults, worktrees)
}

/// Checks the worktrees of this repository and of the repositories in which teams work.
///
/// The members are read again, because a repair may have restored a member in a config.
pub(super) async fn worktrees(rooms: &Rooms, of_teams: &Worktrees) -> Vec<Fault> {
    let (mut live, mut folders, mut unread) =
        (Vec::new(), BTreeSet::new(), of_teams.unread.clone());
    for dir in &of_teams.teams {
        let Ok(view) = TeamView::at(rooms, dir).await else {
            unread.push(dir.clone());
            continue;
        };
        for member in &view.config.members {
            live.extend(member.worktree_path.as_ref().map(PathBuf::from));
            folders.extend(member.cwd.as_ref().map(PathBuf::from));
        }
    }
    worktrees::look(rooms, &live, &folders, &unread).await
}

/// Builds the fault for a check that failed to run.
pub(super) fn unchecked(subject: &str, error: &Failure) -> Fault {
    Fault::left_to_a_person(Finding::new(
        "unchecked",
        format!("{subject} cannot be checked: {}", error.chain()),
    ))
}

fn unchecked_in(team: &TeamDir, subject: &str, error: &Failure) -> Fault {
    let Fault { finding, remedy } = unchecked(subject, error);
    Fault { finding: finding.in_team(team), remedy }
}
