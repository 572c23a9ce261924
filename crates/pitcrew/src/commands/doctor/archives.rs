//! The check of the archive: archived teams that cannot be read. No command shows such a team or
//! removes it, so only a person can decide about it.

use super::fault::Fault;
use super::report::Finding;
use super::rooms::Rooms;
use crate::failure::Failure;

pub(super) async fn look(rooms: &Rooms) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    for entry in rooms.teams.archived().await? {
        let Err(error) = entry.team else { continue };
        let detail = format!(
            "this archived team cannot be read: {}; put the file right or remove the folder, by hand",
            error.message
        );
        let path = rooms.files.paths().archived(&entry.name);
        faults.push(Fault::left_to_a_person(Finding::new("bad_archive", detail).at(&path)));
    }
    Ok(faults)
}
