//! The check of the files: locks, temporary files, damaged files, links and configs. The store
//! defines the kinds of damage.

use std::path::{Path, PathBuf};

use pitcrew_team::store::{BadLine, Damage, FileBackend, Keep, Mend};

use super::fault::{Fault, Mended, Remedy};
use super::report::Finding;
use super::rooms::Rooms;
use crate::failure::Failure;

/// The maximum number of line numbers in one finding.
const LINES_SHOWN: usize = 5;

/// The maximum number of paths in a finding about file permissions that are too open.
const PATHS_SHOWN: usize = 5;

/// Tells the user why a repair does not touch a folder.
const NOT_A_TEAM: &str = "so this is no team, and nothing in it is touched";

pub(super) fn fault(damage: Damage) -> Fault {
    let can_repair = FileBackend::can_repair(&damage);
    let (finding, does) = shown(&damage);
    match can_repair {
        true => Fault::mended_by(Remedy::Files(damage), does, finding),
        false => Fault::left_to_a_person(finding),
    }
}

/// Returns the finding for damage, and a text that says what a repair would do.
fn shown(damage: &Damage) -> (Finding, &'static str) {
    match damage {
        Damage::StaleLock { path } => {
            (Finding::new("stale_lock", "its holder gives no sign any more").at(path), "taken away")
        }
        Damage::Occupied { path } => {
            let detail =
                "a folder where a lock or a file should be, with something in it that is not ours";
            (Finding::new("occupied", detail).at(path), "")
        }
        Damage::NoTask { path } => (
            Finding::new("no_task", "it is in the tasks folder but is not a task; it is ignored")
                .at(path),
            "",
        ),
        Damage::Unfinished { path } => {
            (Finding::new("unfinished", "left by a write that never ended").at(path), "taken away")
        }
        Damage::Torn { path, reason, .. } => {
            let detail = format!("{reason}{}", lost_with(path));
            (Finding::new("torn", detail).at(path), "taken away")
        }
        Damage::BadLines { path, lines } => {
            let detail = format!("{}: no lines of ours", numbers(lines));
            (Finding::new("bad_lines", detail).at(path), "taken out")
        }
        Damage::HalfArchived { team, path } => {
            let detail = "its tasks are not in the archive yet";
            (Finding::new("half_archived", detail).in_team(team).at(path), "moved to the archive")
        }
        Damage::Link { path } => {
            let detail = "a link where a folder should be; what is behind it is neither looked at nor touched. Put a \
                          folder in its place; only the root may be a link";
            (Finding::new("link", detail).at(path), "")
        }
        Damage::NoFolder { path } => (
            Finding::new(
                "no_folder",
                "this is not a folder, but must be one; move it away, and pitcrew creates the folder",
            )
            .at(path),
            "",
        ),
        Damage::NoConfig { path } => (
            Finding::new("no_config", format!("there is no config.json in it, {NOT_A_TEAM}"))
                .at(path),
            "",
        ),
        Damage::BadConfig { path, reason } => {
            (Finding::new("bad_config", format!("{reason}; {NOT_A_TEAM}")).at(path), "")
        }
        Damage::Newer { path, version } => {
            let detail = format!("of version {version}, written by a newer pitcrew; use that one");
            (Finding::new("newer", detail).at(path), "")
        }
        Damage::TooOpen { team, path, open } => {
            let detail = format!("other users of this machine may use {}", paths(open, path));
            let finding = Finding::new("too_open", detail).at(path);
            (team.iter().fold(finding, Finding::in_team), "closed to others")
        }
        Damage::Unseen { path, reason } => {
            (Finding::new("unchecked", format!("it cannot be looked at: {reason}")).at(path), "")
        }
    }
}

/// Returns what a user must do again if this damaged file is taken away.
fn lost_with(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("bounds.json") => {
            "; the limits and rules of the last run (such as --deny, --sandbox, --max-cost-usd) are lost with it: \
             give them again with the next `run --resume`"
        }
        _ => "",
    }
}

fn numbers(lines: &[BadLine]) -> String {
    let shown: Vec<String> =
        lines.iter().take(LINES_SHOWN).map(|line| line.number.to_string()).collect();
    let noun = if lines.len() == 1 { "line" } else { "lines" };
    let more = lines.len().saturating_sub(LINES_SHOWN);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{noun} {}{and_more}", shown.join(", "))
}

/// Formats the first few paths, relative to the folder, and the number of the remaining paths.
fn paths(open: &[PathBuf], folder: &Path) -> String {
    let short = |path: &PathBuf| match path.strip_prefix(folder) {
        Ok(below) if below.as_os_str().is_empty() => "the folder itself".to_owned(),
        Ok(below) => below.display().to_string(),
        Err(_) => path.display().to_string(),
    };
    let shown: Vec<String> = open.iter().take(PATHS_SHOWN).map(short).collect();
    let more = open.len().saturating_sub(PATHS_SHOWN);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{and_more}", shown.join(", "))
}

pub(super) fn repair(rooms: &Rooms, damage: &Damage, keep: &mut Keep) -> Result<Mended, Failure> {
    Ok(match rooms.files.repair(damage, keep).map_err(Failure::internal)? {
        Mend::Done => Mended::Done("mended".to_owned()),
        Mend::Changed => {
            Mended::Done("it was written meanwhile, and stays as it is now".to_owned())
        }
        Mend::Kept(place) => {
            let lost = if let Damage::Torn { path, .. } = damage { lost_with(path) } else { "" };
            Mended::Done(format!("kept as {}{lost}", place.display()))
        }
        Mend::Left(why) => Mended::Left(why.to_owned()),
    })
}
