//! The checks, in the order in which they run and their faults are mended.
//!
//! To add one: a file beside this one with its `look`, a variant of [`TeamCheck`], and a [`Remedy`](super::fault::Remedy)
//! when it can mend something.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pitcrew_protocol::TeamDir;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::{Rooms, TeamView};
use super::{
    configs, files, mail, members, overwritten, owners, processes, records, tasks, worktrees,
};
use crate::failure::Failure;

/// A check of one team. What runs for a member is stopped before the member goes.
#[derive(Clone, Copy, Debug)]
enum TeamCheck {
    Config,
    Owners,
    Records,
    Overwritten,
    Processes,
    Members,
    Mail,
    Tasks,
}

impl TeamCheck {
    const ALL: [Self; 8] = [
        Self::Config,
        Self::Owners,
        Self::Records,
        Self::Overwritten,
        Self::Processes,
        Self::Members,
        Self::Mail,
        Self::Tasks,
    ];

    /// What it looks at, for the finding that it could not.
    fn subject(self) -> &'static str {
        match self {
            Self::Config => "its config",
            Self::Owners => "whose its folders are",
            Self::Records => "its records and transcripts",
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
            Self::Overwritten => overwritten::look(rooms, view),
            Self::Processes => processes::look(rooms, view).await,
            Self::Members => members::look(view).await,
            Self::Mail => mail::look(rooms, view).await,
            Self::Tasks => tasks::look(view).await,
        }
    }
}

/// What the check of the files found, and the teams that can be looked at after it.
pub(super) struct Files {
    pub(super) faults: Vec<Fault>,
    /// Teams that others can be compared with.
    teams: Vec<TeamDir>,
    /// What else is among the teams: their members are not known, and their worktrees may be somebody's.
    unread: Vec<TeamDir>,
    /// What is wrong already: no other check says it again.
    known: Vec<String>,
}

/// The teams that may have worktrees, and those that cannot be read.
#[derive(Default)]
pub(super) struct Worktrees {
    teams: Vec<TeamDir>,
    unread: Vec<TeamDir>,
}

/// Looks at the files, which comes first: what is torn is mended before anything is read of it.
pub(super) fn files(rooms: &Rooms) -> Files {
    let looked = rooms.files.look();
    let faults: Vec<Fault> = looked.found.into_iter().map(files::fault).collect();
    let known = faults.iter().filter_map(|fault| fault.finding.place()).collect();
    Files { faults, teams: looked.teams, unread: looked.others, known }
}

/// Looks at every team. A check that cannot be made is one of the faults.
pub(super) async fn teams(rooms: &Rooms, files: Files) -> (Vec<Fault>, Worktrees) {
    let Files { teams, unread, known, .. } = files;
    let (mut faults, mut worktrees) = (Vec::new(), Worktrees { unread, ..Worktrees::default() });
    let is_known = |error: &Failure| known.iter().any(|place| error.chain().contains(place));
    for dir in teams {
        let view = match TeamView::at(rooms, &dir).await {
            Ok(view) => view,
            Err(error) => {
                faults.push(unchecked_in(&dir, "it", &error));
                worktrees.unread.push(dir);
                continue;
            }
        };
        worktrees.teams.push(dir.clone());
        for check in TeamCheck::ALL {
            match check.look(rooms, &view, &known).await {
                Ok(found) => faults.extend(found),
                Err(error) if is_known(&error) => {}
                Err(error) => faults.push(unchecked_in(&dir, check.subject(), &error)),
            }
        }
    }
    (faults, worktrees)
}

/// Looks at the worktrees of this repository, and of those that teams work in.
///
/// The members are read only now: a repair may have put somebody back.
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

/// A check that could not be made.
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
