//! The check of overwritten changes. Changes are overwritten when another program writes an old
//! version of a file back without taking the file's lock.

use pitcrew_protocol::TeamDir;
use pitcrew_team::store::Overwritten;

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::{Rooms, TeamView};
use crate::failure::Failure;

pub(super) fn look(rooms: &Rooms, view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let team = view.team.dir();
    let found = rooms.files.overwritten(team).map_err(Failure::internal)?;
    Ok(found.into_iter().map(|undone| fault(team, &undone)).collect())
}

fn fault(team: &TeamDir, undone: &Overwritten) -> Fault {
    let Overwritten { file, put_back, kept } = undone;
    let mut detail = format!("another program wrote an older {file} back");
    if !put_back.is_empty() {
        detail.push_str(&format!(" and undid: {}", put_back.join(", ")));
    }
    if !kept.is_empty() {
        detail.push_str(&format!("; it changed as well, and this stays: {}", kept.join(", ")));
    }
    let finding = Finding::new("overwritten", detail).in_team(team);
    Fault::mended_by(Remedy::PutBack(team.clone()), "put back", finding)
}

/// Restores all overwritten changes of the team. This function is called for each fault of this
/// kind. The first call for a team restores all changes, so later calls for the same team find
/// nothing to do.
pub(super) fn put_back(rooms: &Rooms, team: &TeamDir) -> Result<Mended, Failure> {
    rooms.files.put_back(team).map_err(Failure::internal)?;
    // If another process holds the lock of a file, the changes of that file stay overwritten until
    // the next `pitcrew doctor --repair`.
    let left = rooms.files.overwritten(team).map_err(Failure::internal)?;
    Ok(if left.is_empty() {
        Mended::Done("put back".to_owned())
    } else {
        Mended::Left("its file is locked".to_owned())
    })
}
