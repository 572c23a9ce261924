//! Finds the conversation of a member that the reference client runs and pitcrew did not start. The
//! team's files do not have its id. But each entry of the conversation has the names of the team and
//! of the member (`teamName` and `agentName`, seen with the client's versions 2.1.39 and 2.1.330).

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pitcrew_process::given_file::Given;
use pitcrew_protocol::Member;
use serde::Deserialize;

/// Maximum number of files that are looked at, the newest first.
const FILES_MOST: usize = 200;

/// Number of bytes at the beginning of a file in which the names must be. The first entries of a
/// newer client have none.
const BEGINNING: u64 = 64 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    team_name: Option<String>,
    agent_name: Option<String>,
}

/// Returns the last `most` bytes of the newest conversation that a member of a team recorded below
/// the root folder since it joined.
#[must_use]
pub fn member_conversation(root: &Path, team: &str, member: &Member, most: u64) -> Option<String> {
    let folder = root.join("projects").join(folder_of(member.cwd.as_deref()?));
    let joined_ms = u64::try_from(member.joined_at_ms.unwrap_or_default()).unwrap_or_default();
    let joined = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(joined_ms))?;
    let entries = Given::ByUser.entries(&folder).ok()?;
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .filter(|(changed, _)| *changed >= joined)
        .collect();
    files.sort_by_key(|(changed, _)| Reverse(*changed));
    let mut newest = files.into_iter().take(FILES_MOST).map(|(_, path)| path);
    let found = newest.find(|path| is_of(path, team, member.name.as_str()))?;
    Given::ByUser.read_end(&found, most).ok()?
}

/// Whether the file is a conversation of this member.
fn is_of(path: &Path, team: &str, agent: &str) -> bool {
    let Ok(Some(beginning)) = Given::ByUser.read_from(path, 0, BEGINNING) else { return false };
    let mut lines = beginning.split(|byte| *byte == b'\n');
    lines.any(|line| match serde_json::from_slice::<Line>(line) {
        Ok(Line { team_name: Some(of), agent_name: Some(by) }) => of == team && by == agent,
        Ok(_) | Err(_) => false,
    })
}

/// Returns the name of the folder in which the client records the conversations of a folder.
fn folder_of(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, joined_at_ms: i64) -> Member {
        let text = format!(
            r#"{{"agentId":"{name}@probe","name":"{name}","joinedAt":{joined_at_ms},"cwd":"/home/dev/a.b","subscriptions":[]}}"#
        );
        pitcrew_protocol::from_text(&text).unwrap()
    }

    #[test]
    fn the_newest_conversation_of_the_member_in_this_team_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("projects/-home-dev-a-b");
        fs::create_dir_all(&folder).unwrap();
        let record = |file: &str, team: &str, agent: &str, age: u64| {
            let path = folder.join(file);
            let text = format!(
                "{{\"type\":\"mode\"}}\nhalf a line\n{{\"teamName\":\"{team}\",\"agentName\":\"{agent}\",\"n\":\"{file}\"}}\n"
            );
            fs::write(&path, text).unwrap();
            let at = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        };
        record("1.jsonl", "probe", "bob", 300);
        record("2.jsonl", "probe", "bob", 200);
        record("3.jsonl", "other", "bob", 100);
        record("4.jsonl", "probe", "ann", 100);
        record("5.json", "probe", "bob", 100);
        let found = |member: &Member| member_conversation(root.path(), "probe", member, 1 << 20);
        assert!(found(&member("bob", 1)).unwrap().contains("2.jsonl"));
        assert!(found(&member("ann", 1)).unwrap().contains("4.jsonl"));
        assert_eq!(found(&member("cat", 1)), None);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now_ms = i64::try_from(now.as_millis()).unwrap();
        assert_eq!(found(&member("bob", now_ms)), None, "an earlier member had this name");
    }
}
