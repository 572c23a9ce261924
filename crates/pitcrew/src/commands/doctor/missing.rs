//! The check of files of pitcrew that must exist and do not: the journal, the transcript of an agent
//! that has worked, and the file of an open task.
//!
//! A repair cannot bring such a file back. If an earlier repair removed it because it was damaged,
//! the finding is a note that names the kept copy.

use std::path::PathBuf;

use pitcrew_protocol::{Member, counted};
use pitcrew_team::SpawnRecord;
use pitcrew_team::store::{JournalSummary, LogName};

use super::fault::Fault;
use super::report::Finding;
use super::rooms::{Rooms, TeamView};
use crate::failure::Failure;
use crate::output::shell_word;

pub(super) async fn look(rooms: &Rooms, view: &TeamView) -> Result<Vec<Fault>, Failure> {
    if !view.is_ours() {
        return Ok(Vec::new());
    }
    let journal = rooms.files.paths().journal(view.team.dir());
    if is_missing(&journal) {
        let detail = "the history of the team is lost with it: who did what, and at what cost";
        return Ok(vec![fault(rooms, view, "missing_journal", journal, detail)?]);
    }
    let (summary, _) = view.team.journal_summary().await.map_err(Failure::internal)?;
    let mut faults = of_transcripts(rooms, view, &summary)?;
    faults.extend(of_tasks(rooms, view).await?);
    Ok(faults)
}

fn of_transcripts(
    rooms: &Rooms,
    view: &TeamView,
    summary: &JournalSummary,
) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    for member in view.config.members.iter().filter(|member| SpawnRecord::is_run_by_us(member)) {
        let turns = summary.members.get(&member.name).map_or(0, |known| known.turns);
        let path = view.team.log_file(&LogName::Transcript(member.name.clone()));
        if turns == 0 || !is_missing(&path) {
            continue;
        }
        let detail = format!(
            "the conversation of {}, {}, is lost with it; the next run starts it without what it knew",
            member.name,
            counted(turns, "model call"),
        );
        faults.push(fault(rooms, view, "missing_transcript", path, &detail)?);
    }
    Ok(faults)
}

/// Finds the open tasks whose files do not exist. A teammate that another client runs may have
/// deleted a task without a journal entry, so a team with such a teammate is not checked.
async fn of_tasks(rooms: &Rooms, view: &TeamView) -> Result<Vec<Fault>, Failure> {
    let is_ours = |member: &Member| SpawnRecord::is_run_by_us(member);
    if !view.config.teammates().all(is_ours) {
        return Ok(Vec::new());
    }
    let mut faults = Vec::new();
    for id in view.team.lost_tasks().await? {
        let path = rooms.files.paths().task(view.team.dir(), &id);
        // The file check reports a file that exists and cannot be read.
        if is_missing(&path) {
            let team = shell_word(view.config.name.as_str());
            let detail = format!(
                "task #{id} is open; `pitcrew task update {id} --status deleted --team {team}` gives it up"
            );
            faults.push(fault(rooms, view, "missing_task", path, &detail)?);
        }
    }
    Ok(faults)
}

fn is_missing(path: &std::path::Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn fault(
    rooms: &Rooms,
    view: &TeamView,
    kind: &'static str,
    path: PathBuf,
    detail: &str,
) -> Result<Fault, Failure> {
    let kept = rooms.files.kept_copy(&path).map_err(Failure::internal)?;
    let detail = match &kept {
        Some(place) => format!("a repair removed it and keeps it as {}; {detail}", place.display()),
        None => format!("this file of pitcrew is gone; {detail}"),
    };
    let finding = Finding::new(kind, detail).in_team(view.team.dir()).at(&path);
    Ok(match kept {
        Some(_) => Fault::note(finding),
        None => Fault::left_to_a_person(finding),
    })
}
