//! Hints that tell the user how to solve a problem.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use pitcrew_protocol::ApiError;
use pitcrew_team::store::StoreError;
use rustix::io::Errno;
use serde_json::Value;

use crate::archive;
use crate::output::shell_word;

/// Returns a hint that names the limit of the system that was reached, and the command that displays
/// the limit. `os_error` is the number of the system's error.
pub(super) fn limit_hint(os_error: i32) -> Option<&'static str> {
    match Errno::from_raw_os_error(os_error) {
        Errno::MFILE => Some("`ulimit -n` shows how many files a process may open, and raises it"),
        Errno::NFILE => Some(
            "the whole system has no file to open left; `sysctl fs.file-max` shows how many there are",
        ),
        Errno::FBIG => Some("`ulimit -f` shows how long a file may become, and raises it"),
        Errno::AGAIN => {
            Some("`ulimit -u` shows how many processes and threads a user may have, and raises it")
        }
        Errno::NOSPC => Some(
            "the disk is full; `df -h` shows the space of each disk, and `df -i` its room for files",
        ),
        Errno::DQUOT => Some("your share of the disk is used up; `quota` shows it"),
        Errno::ROFS => Some("the disk can only be read; `mount` shows how it is mounted"),
        Errno::NOMEM => Some("`ulimit -v` shows how much memory a process may take, and raises it"),
        _ => None,
    }
}

/// Returns the hints that follow from the details of an API error.
pub(super) fn hints_in(error: &ApiError) -> Vec<String> {
    let mut hints = Vec::new();
    for (key, value) in &error.details {
        let names: Vec<&str> =
            value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(of) = key.strip_prefix("available_").or_else(|| key.strip_prefix("valid_")) {
            let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            hints.push(format!("{}: {shown}", of.replace('_', " ")));
        }
    }
    if let (Some(name), Some(_)) =
        (error.details.get("team_name").and_then(Value::as_str), error.details.get("archive"))
    {
        hints.push(archive::hint("", name));
    }
    if error.details.contains_key("corrupt") {
        let path = error.details.get("path").and_then(Value::as_str).unwrap_or_default();
        hints.push(hint_of_corrupt(Path::new(path)));
    }
    let os_error = error.details.get("os_error").and_then(Value::as_i64);
    let os_error = os_error.and_then(|number| i32::try_from(number).ok());
    hints.extend(os_error.and_then(limit_hint).map(str::to_owned));
    if error.details.contains_key("no_folder") {
        hints.push(NO_FOLDER.to_owned());
    }
    hints
}

/// Returns a hint for a file or folder of the store that cannot be used.
pub(crate) fn hint_of(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Corrupt { path, .. } => Some(hint_of_corrupt(path)),
        StoreError::NoFolder { .. } => Some(NO_FOLDER.to_owned()),
        StoreError::NoTeam { .. }
        | StoreError::TeamTaken { .. }
        | StoreError::Locked { .. }
        | StoreError::NotHeld { .. }
        | StoreError::Io { .. }
        | StoreError::Refused(_) => None,
    }
}

fn hint_of_corrupt(path: &Path) -> String {
    if let Some(archived) = archived_of(path) {
        let folder = shell_word(&archived.to_string_lossy()).into_owned();
        return format!(
            "no command repairs a team in the archive; put the file right by hand, or remove {folder} by hand to give the archived team up"
        );
    }
    if let Some(team) = team_of_config(path) {
        let team = shell_word(&team);
        return format!(
            "a config is put right by hand; `pitcrew team delete {team} --force` clears the team away"
        );
    }
    if path.parent().is_some_and(|folder| folder.ends_with("tasks")) {
        return "move task files that nobody needs to another folder by hand, or archive the team with `pitcrew team delete`".to_owned();
    }
    "`pitcrew doctor --repair` repairs it; files that it removes are kept for a week".to_owned()
}

/// Returns the folder of the archived team that a file belongs to. Such a folder is in
/// `pitcrew/archive/`, and the files are in its folders `team` and `tasks`.
fn archived_of(file: &Path) -> Option<&Path> {
    file.ancestors().skip(1).find_map(|part| {
        let is_part = part.ends_with("team") || part.ends_with("tasks");
        let archived = part.parent().filter(|_| is_part)?;
        archived.parent()?.ends_with("pitcrew/archive").then_some(archived)
    })
}

/// Returns the folder name of the team whose config the file is: `teams/<dir>/config.json`.
fn team_of_config(file: &Path) -> Option<Cow<'_, str>> {
    let team = file.parent().filter(|_| file.ends_with("config.json"))?;
    let is_team = team.parent()?.ends_with("teams");
    team.file_name().filter(|_| is_team).map(OsStr::to_string_lossy)
}

/// The hint for a path that must be a folder but is something else.
const NO_FOLDER: &str = "move it away by hand; a folder that is missing is made when it is needed (only the root itself may be a link)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_config_of_a_team_in_its_place_gets_a_command_that_deletes_the_team() {
        let deleted = |path: &str| {
            let hint = hint_of_corrupt(Path::new(path));
            hint.contains("team delete").then_some(hint)
        };
        let of_team = deleted("/root/teams/crew/config.json").unwrap();
        assert!(of_team.contains("`pitcrew team delete crew --force`"), "{of_team}");
        for path in [
            "/root/pitcrew/archive/crew-20261120T134500Z-12345678/team/config.json",
            "/root/pitcrew/archive/teams-20261120T134500Z-12345678/team/config.json",
            "/root/teams/crew/inboxes/config.json",
            "/elsewhere/crew/config.json",
            "config.json",
        ] {
            assert_eq!(deleted(path), None, "{path}");
        }
    }

    #[test]
    fn a_file_of_an_archived_team_gets_a_hint_with_the_folder_of_that_team() {
        let archived = "/root/pitcrew/archive/crew-20261120T134500Z-12345678";
        for file in ["team/config.json", "team/pitcrew/secrets.json", "tasks/1.json"] {
            let hint = hint_of_corrupt(Path::new(&format!("{archived}/{file}")));
            assert!(hint.contains(&format!("remove {archived} by hand")), "{file}: {hint}");
            assert!(!hint.contains("doctor"), "{file}: {hint}");
        }
    }
}
