//! The check of the files that pitcrew itself writes about a team. The check finds entries of
//! documents and lines of transcripts that cannot be read.
//!
//! Pitcrew ignores such entries and lines whenever it reads the files. A repair can therefore
//! remove them without changing what pitcrew reads.

use std::path::Path;

use pitcrew_agent::transcript::read;
use pitcrew_team::store::{BadLine, Damage, Keep, LogName, Mend};
use pitcrew_team::{Team, UnreadEntry};

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::{Rooms, TeamView};
use crate::failure::Failure;

pub(super) async fn look(view: &TeamView, known: &[String]) -> Result<Vec<Fault>, Failure> {
    let team = &view.team;
    let mut faults = Vec::new();
    for (document, unread) in team.unread_entries().await {
        let path = team.document_file(document);
        match unread {
            Ok(unread) => faults.extend(unread.iter().map(|it| of_entry(team, it, &path))),
            // The file check already reports a document that is not JSON or that a later version of
            // pitcrew wrote.
            Err(_) if known.iter().any(|place| *place == path.display().to_string()) => {}
            Err(error) if error.details.contains_key("corrupt") => {
                faults.push(super::files::fault(Damage::torn(path, error.message)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for member in &view.config.members {
        let name = LogName::Transcript(member.name.clone());
        let path = team.log_file(&name);
        let lines = match team.log(&name).await {
            Ok(lines) => lines,
            Err(_) if known.iter().any(|place| *place == path.display().to_string()) => continue,
            Err(error) => return Err(Failure::internal(error)),
        };
        let unread = match read(&lines) {
            Ok(read) => read.unread,
            // The file check already reports a document that a later version of pitcrew wrote.
            Err(_) => continue,
        };
        // The file check already reports lines that are not JSON.
        let is_json = |line: &BadLine| {
            serde_json::from_slice::<serde_json::Value>(&line.bytes).is_ok_and(|it| it.is_object())
        };
        let bad_line = |number: usize| {
            let text = lines.get(number.checked_sub(1)?)?;
            Some(BadLine { number, bytes: text.clone().into_bytes() })
        };
        let lines: Vec<BadLine> = unread.into_iter().filter_map(bad_line).filter(is_json).collect();
        if !lines.is_empty() {
            faults.push(super::files::fault(Damage::BadLines { path, lines }));
        }
    }
    Ok(faults)
}

fn of_entry(team: &Team, unread: &UnreadEntry, path: &Path) -> Fault {
    let detail = format!("{} cannot be read", unread.entry);
    let finding = Finding::new("bad_entry", detail).in_team(team.dir()).at(path);
    let remedy = Remedy::TakeOutEntries { team: team.clone(), document: unread.document };
    Fault::mended_by(remedy, "taken out", finding)
}

pub(super) async fn take_out(
    rooms: &Rooms,
    team: &Team,
    document: &'static str,
    keep: &mut Keep,
) -> Result<Mended, Failure> {
    let path = team.document_file(document);
    let kept = match rooms.files.keep_copy(&path, keep).map_err(Failure::internal)? {
        Mend::Kept(place) => format!("kept as {}", place.display()),
        Mend::Done | Mend::Changed => return Ok(Mended::Done("it is gone".to_owned())),
        Mend::Left(why) => return Ok(Mended::Left(why.to_owned())),
    };
    // The entries are removed only after the document was copied to the folder for removed files.
    team.drop_unread_entries(document).await?;
    Ok(Mended::Done(kept))
}
