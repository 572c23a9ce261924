//! The check of the archive: archived teams that cannot be read, and records of theirs that cannot.
//! No command shows a team without a config or removes it, so only a person can decide about it.

use pitcrew_team::TeamRecords;
use pitcrew_view::recorded::unread;

use super::fault::Fault;
use super::report::Finding;
use super::rooms::Rooms;
use crate::failure::Failure;

pub(super) async fn look(rooms: &Rooms) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    for entry in rooms.teams.archived().await? {
        let error = match entry.team {
            Err(error) => error,
            Ok(team) => {
                let records = TeamRecords::Archived(rooms.teams.clone(), Box::new(team));
                let unread = unread(&records).await?.into_iter();
                faults.extend(unread.map(|said| Fault::note(Finding::new("bad_archive", said))));
                continue;
            }
        };
        let detail = format!(
            "this archived team cannot be read: {}; put the file right or remove the folder, by hand",
            error.message
        );
        let path = rooms.files.paths().archived(&entry.name);
        faults.push(Fault::left_to_a_person(Finding::new("bad_archive", detail).at(&path)));
    }
    Ok(faults)
}
