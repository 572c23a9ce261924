//! The check of the files: locks, temporary files, torn files. What is wrong with them is the store's to know.

use std::path::Path;

use pitcrew_store::Leaving;

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::Rooms;
use crate::failure::Failure;

pub(super) fn look(rooms: &Rooms) -> Result<Vec<Fault>, Failure> {
    Ok(rooms.files.leavings().map_err(Failure::internal)?.into_iter().map(fault).collect())
}

fn fault(leaving: Leaving) -> Fault {
    let (finding, does) = match &leaving {
        Leaving::StaleLock { path } => (Finding::new("stale_lock", "").at(path), "removed"),
        Leaving::Unfinished { path } => (Finding::new("unfinished", "").at(path), "removed"),
        Leaving::Torn { path, reason } => {
            let finding = Finding::new("torn", reason.as_str()).at(path);
            // A team without a config is no team: a person knows what it was.
            if is_config(path) {
                return Fault::left_to_a_person(finding);
            }
            (finding, "moved aside")
        }
        Leaving::HalfArchived { team, path } => {
            let detail = "its tasks are not in the archive yet";
            (Finding::new("half_archived", detail).in_team(team).at(path), "moved to the archive")
        }
    };
    Fault::mended_by(Remedy::Files(leaving), does, finding)
}

pub(super) fn mend(rooms: &Rooms, leaving: &Leaving) -> Result<Mended, Failure> {
    let moved = rooms.files.mend(leaving).map_err(Failure::internal)?;
    Ok(Mended::Done(moved.map_or_else(|| "removed".to_owned(), |place| format!("moved to {}", place.display()))))
}

fn is_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config.json")
}
