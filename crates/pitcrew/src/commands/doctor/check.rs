//! The checks, in the order in which they run and their faults are mended.
//!
//! To add one: a file beside this one with its `look`, a variant here, and a [`Remedy`](super::fault::Remedy) when it can
//! mend something.

use std::path::PathBuf;

use pitcrew_protocol::TeamDir;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::{Looked, Rooms};
use super::{files, mail, members, processes, worktrees};
use crate::failure::Failure;

/// A check of one team. What runs for a member is stopped before the member goes.
#[derive(Clone, Copy, Debug)]
enum TeamCheck {
    Processes,
    Members,
    Mail,
}

impl TeamCheck {
    const ALL: [Self; 3] = [Self::Processes, Self::Members, Self::Mail];

    /// What it looks at, for the finding that it could not.
    fn subject(self) -> &'static str {
        match self {
            Self::Processes => "its processes and panes",
            Self::Members => "its members",
            Self::Mail => "its mail",
        }
    }

    async fn look(self, rooms: &Rooms, looked: &Looked) -> Result<Vec<Fault>, Failure> {
        match self {
            Self::Processes => processes::look(rooms, looked).await,
            Self::Members => members::look(looked).await,
            Self::Mail => mail::look(rooms, looked).await,
        }
    }
}

/// Everything that is wrong. A check that cannot be made is one of the faults.
pub(super) async fn all(rooms: &Rooms) -> Vec<Fault> {
    let mut faults = files::look(rooms).unwrap_or_else(|error| vec![unchecked("the files", &error)]);
    let dirs = rooms.teams.backend().teams().await.unwrap_or_else(|error| {
        faults.push(unchecked("the teams", &Failure::internal(error)));
        Vec::new()
    });
    let (mut live, mut unread) = (Vec::new(), Vec::new());
    for dir in dirs {
        let looked = match Looked::at(rooms, &dir).await {
            Ok(looked) => looked,
            // The file is among the files' faults; here it matters that its members are not known.
            Err(_) => {
                unread.push(dir);
                continue;
            }
        };
        let paths = looked.config.members.iter().filter_map(|member| member.worktree_path.as_ref());
        live.extend(paths.map(PathBuf::from));
        for check in TeamCheck::ALL {
            let found = check.look(rooms, &looked).await;
            faults.extend(found.unwrap_or_else(|error| vec![unchecked_in(&dir, check.subject(), &error)]));
        }
    }
    faults.extend(worktrees::look(rooms, &live, &unread).await);
    faults
}

/// A check that could not be made.
pub(super) fn unchecked(subject: &str, error: &Failure) -> Fault {
    Fault::left_to_a_person(Finding::new("unchecked", format!("{subject} cannot be checked: {}", error.chain())))
}

fn unchecked_in(team: &TeamDir, subject: &str, error: &Failure) -> Fault {
    let Fault { finding, remedy } = unchecked(subject, error);
    Fault { finding: finding.in_team(team), remedy }
}
