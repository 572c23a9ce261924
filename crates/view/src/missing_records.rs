//! Finds records of a team that are not there although its journal tells of them: conversations of
//! agents that called a model, and files of tasks.
//!
//! A journal that is missing itself is reported by [`recorded`](crate::recorded).

use std::collections::BTreeSet;
use std::path::PathBuf;

use pitcrew_protocol::{AgentName, TaskId, TeamConfig, counted};
use pitcrew_team::store::{Event, JournalEntry, TaskChangeKind};
use pitcrew_team::{SpawnRecord, TeamRecords};

/// A character that every subagent's name contains, and that no member's name contains.
const SUBAGENT_MARK: char = '#';

/// Returns what is not there or, of the tasks, cannot be read, as texts for a person. The list is
/// empty for a team of another client. A record that cannot be read is not missing: its readers name
/// it.
pub async fn missing(records: &TeamRecords, config: &TeamConfig) -> Vec<String> {
    if !config.members.iter().any(|member| SpawnRecord::of(member).is_some()) {
        return Vec::new();
    }
    // Without a journal it is not known what should be there.
    let (Ok(summary), Ok((journal, _))) = (records.summary().await, records.journal().await) else {
        return Vec::new();
    };
    let mut missing = Vec::new();
    let mut is_all_ours = true;
    for (name, member) in &summary.members {
        if name.as_str().contains(SUBAGENT_MARK) {
            continue;
        }
        let is_of_client = is_of_client(records, config, name).await;
        is_all_ours &= !is_of_client;
        // A member that never called a model has no conversation by right.
        if is_of_client || member.turns == 0 {
            continue;
        }
        if records.transcript(name).await.is_ok_and(|lines| lines.is_empty()) {
            let calls = counted(member.turns, "model call");
            missing.push(format!("the conversation of {name} is not there; it had {calls}"));
        }
    }
    missing.extend(tasks(records, &journal, is_all_ours).await);
    missing
}

/// Whether another client runs a member or former member, or may run it. That client has the
/// conversation.
async fn is_of_client(records: &TeamRecords, config: &TeamConfig, name: &AgentName) -> bool {
    let is_known = matches!(records.client_conversation(name).await, Ok(None));
    let member = config.member(name.as_str());
    !is_known || member.is_some_and(|member| !SpawnRecord::is_run_by_us(member))
}

/// Returns the files of tasks that cannot be read. If pitcrew ran all members, also returns the
/// tasks that were created and not deleted, and that have no file: another client deletes tasks
/// without an entry in the journal.
async fn tasks(records: &TeamRecords, journal: &[JournalEntry], is_all_ours: bool) -> Vec<String> {
    let (Ok(there), Ok(torn)) = (records.tasks().await, records.torn_tasks().await) else {
        return Vec::new();
    };
    let unread = torn.iter().map(|path| format!("the task file {} cannot be read", path.display()));
    let is_lost = |id: &&TaskId| {
        let is_torn = |path: &PathBuf| path.file_stem().is_some_and(|name| name == id.as_str());
        there.iter().all(|task| task.id != **id) && !torn.iter().any(is_torn)
    };
    let expected = if is_all_ours { expected_tasks(journal) } else { BTreeSet::new() };
    let lost = expected.into_iter().filter(is_lost);
    let lost = lost.map(|id| format!("the file of task #{id} is not there"));
    unread.chain(lost).collect()
}

fn expected_tasks(journal: &[JournalEntry]) -> BTreeSet<&TaskId> {
    let mut expected = BTreeSet::new();
    for entry in journal {
        if let Event::TaskChanged { task, change, .. } = &entry.event {
            match *change == TaskChangeKind::Deleted {
                true => expected.remove(task),
                false => expected.insert(task),
            };
        }
    }
    expected
}
