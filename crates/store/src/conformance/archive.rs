//! Checks that every backend must pass for archived teams.

use crate::NewTeam;
use std::sync::Arc;

use pitcrew_protocol::MessageId;
use serde_json::{Value, json};

use super::{Failure, add_tasks, bob, config, ids, message, same, task_ids, team};
use crate::{
    Appended, ArchiveName, ArchivedLogs, Backend, Event, JournalEntry, JournalOf, JournalSummary,
    LogName, StoreError, UnreadLimit,
};

/// Creates a team with a message, tasks, a journal line and a log, and archives it.
async fn archived(backend: &Arc<dyn Backend>) -> Result<ArchiveName, Failure> {
    let before = backend.archives().await?;
    let dir = team(backend).await?;
    same(
        "append",
        backend.append(&dir, &bob(), message("a", 1), UnreadLimit::None).await?,
        Appended::New,
    )?;
    add_tasks(backend, &dir, 2).await?;
    backend.record(&dir, &[entry()]).await?;
    backend.append_log(&dir, &log(), &["{}".to_owned()]).await?;
    let write = Box::new(|document: &mut Option<Value>| {
        *document = Some(json!({"n": 1}));
        Ok(())
    });
    backend.edit_document(&dir, "probe", write).await?;
    backend.archive_team(&dir).await?;
    let new = backend.archives().await?.into_iter().find(|archive| !before.contains(archive));
    new.ok_or(Failure::Differs {
        what: "archives",
        expected: "one more".into(),
        found: "none".into(),
    })
}

fn entry() -> JournalEntry {
    JournalEntry { at_ms: 1, event: Event::TeamCreated { team: "Probe Team".into() } }
}

fn log() -> LogName {
    LogName::Transcript(pitcrew_protocol::AgentName::foreign("bob"))
}

pub(super) async fn an_archived_team_is_shown_and_comes_back_whole(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let archive = archived(&backend).await?;
    let shown = backend.archived_team(&archive).await?;
    let shown = shown.ok_or(Failure::Differs {
        what: "it",
        expected: "shown".into(),
        found: "nothing".into(),
    })?;
    same("its name", shown.config.name.as_str(), "Probe Team")?;
    same(
        "its tasks",
        shown.tasks.iter().map(|task| task.id.to_string()).collect(),
        vec!["1".to_owned(), "2".into()],
    )?;
    let dir = team(&backend).await?;
    let refused = backend.restore_team(&archive).await;
    same("a taken name", matches!(refused, Err(StoreError::TeamTaken { .. })), true)?;
    backend.archive_team(&dir).await?;
    same("its folder", backend.restore_team(&archive).await?, dir.clone())?;
    same(
        "not twice",
        matches!(backend.restore_team(&archive).await, Err(StoreError::NoTeam { .. })),
        true,
    )?;
    same("out of the archive", backend.archived_team(&archive).await?.is_none(), true)?;
    same("mail", ids(&backend, &dir).await?, vec!["a-1".to_owned()])?;
    same("tasks", task_ids(&backend, &dir).await?, vec!["1".to_owned(), "2".into()])?;
    same("journal", backend.journal_since(&dir, 0).await?.0, vec![entry()])?;
    same("log", backend.log(&dir, &log()).await?, vec!["{}".to_owned()])?;
    add_tasks(&backend, &dir, 1).await?;
    same("ids go on", task_ids(&backend, &dir).await?.len(), 3)
}

pub(super) async fn the_records_of_an_archived_team_are_read_in_place(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let archive = archived(&backend).await?;
    same("journal", backend.archived_journal(&archive).await?, vec![entry()])?;
    let summary = backend.archived_summary(&archive).await?;
    same("summary", summary, JournalSummary::of([entry()]))?;
    let mail = backend.archived_mail(&archive, &bob()).await?;
    let mut ids: Vec<String> = mail.into_iter().map(|mail| mail.id.0).collect();
    ids.dedup();
    same("mail", ids, vec!["a-1".to_owned()])?;
    same("log", backend.archived_log(&archive, &log()).await?, vec!["{}".to_owned()])?;
    same("document", backend.archived_document(&archive, "probe").await?, Some(json!({"n": 1})))?;
    same("no document", backend.archived_document(&archive, "other").await?, None)?;
    same("removed", backend.remove_archive(&archive).await?, true)?;
    same("no journal", backend.archived_journal(&archive).await?, Vec::new())?;
    same("no summary", backend.archived_summary(&archive).await?, JournalSummary::default())?;
    same("no mail", backend.archived_mail(&archive, &bob()).await?, Vec::new())?;
    same("no log", backend.archived_log(&archive, &log()).await?, Vec::new())
}

pub(super) async fn the_end_of_a_run_is_added_to_an_archived_team(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let archive = archived(&backend).await?;
    let ended = JournalEntry { at_ms: 2, event: Event::RunEnded { end: None, reason: None } };
    backend.record_archived(&archive, std::slice::from_ref(&ended)).await?;
    backend.append_archived_log(&archive, &log(), &["[]".to_owned()]).await?;
    let both = vec!["{}".to_owned(), "[]".to_owned()];
    same("journal", backend.archived_journal(&archive).await?, vec![entry(), ended.clone()])?;
    let summary = backend.archived_summary(&archive).await?;
    same("summary", summary, JournalSummary::of([entry(), ended.clone()]))?;
    same("log", backend.archived_log(&archive, &log()).await?, both.clone())?;
    let dir = backend.restore_team(&archive).await?;
    same("log of the restored", backend.log(&dir, &log()).await?, both)?;
    let refused = [
        backend.record_archived(&archive, &[ended]).await,
        backend.append_archived_log(&archive, &log(), &["[]".to_owned()]).await,
    ];
    let is_refused = refused.iter().all(|it| matches!(it, Err(StoreError::NoTeam { .. })));
    same("an archive that is gone", is_refused, true)
}

pub(super) async fn a_removed_archive_is_gone_for_good(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let (first, second) = (archived(&backend).await?, archived(&backend).await?);
    same("removed", backend.remove_archive(&first).await?, true)?;
    same("once", backend.remove_archive(&first).await?, false)?;
    same("the other stays", backend.archives().await?, vec![second])?;
    same("not shown", backend.archived_team(&first).await?.is_none(), true)?;
    same("not restored", backend.restore_team(&first).await.is_err(), true)?;
    same(
        "no message",
        backend.message_journal(JournalOf::Archive(&first), &MessageId("any".into())).await?,
        Vec::new(),
    )
}

pub(super) async fn a_team_is_made_with_logs_of_one_in_the_archive(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let archive = archived(&backend).await?;
    let config = config("Probe Team")?;
    let dir = config.name.dir();
    let other = LogName::Output(pitcrew_protocol::AgentName::foreign("bob"));
    let both = ArchivedLogs { archive: archive.clone(), logs: vec![log(), other.clone()] };
    let both = NewTeam { logs: Some(both), documents: Vec::new() };
    backend.create_team(&config, &both).await?;
    same("the log taken along", backend.log(&dir, &log()).await?, vec!["{}".to_owned()])?;
    same("the log that was not there", backend.log(&dir, &other).await?, Vec::new())?;
    same("mail", ids(&backend, &dir).await?, Vec::new())?;
    same("tasks", task_ids(&backend, &dir).await?, Vec::new())?;
    same("journal", backend.journal_since(&dir, 0).await?.0, Vec::new())?;
    backend.append_log(&dir, &log(), &["[]".to_owned()]).await?;
    same(
        "the log goes on",
        backend.log(&dir, &log()).await?,
        vec!["{}".to_owned(), "[]".to_owned()],
    )?;
    let refused = backend.create_team(&config, &both).await;
    same("a taken name", matches!(refused, Err(StoreError::TeamTaken { .. })), true)?;
    backend.archive_team(&dir).await?;
    same("removed", backend.remove_archive(&archive).await?, true)?;
    let refused = backend.create_team(&config, &both).await;
    same("an archive that is gone", matches!(refused, Err(StoreError::NoTeam { .. })), true)?;
    same("no team then", backend.teams().await?, Vec::new())
}

pub(super) async fn the_journal_of_an_archived_team_can_be_read(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    same("no archives", backend.archives().await?, Vec::new())?;
    let entry =
        |at_ms| JournalEntry { at_ms, event: Event::TeamDeleted { team: "Probe Team".into() } };
    for at_ms in 1..3 {
        let dir = team(&backend).await?;
        backend.record(&dir, &[entry(at_ms)]).await?;
        backend.archive_team(&dir).await?;
    }
    let mut journals = Vec::new();
    for archive in backend.archives().await? {
        journals.extend(
            backend.message_journal(JournalOf::Archive(&archive), &MessageId("any".into())).await?,
        );
    }
    journals.sort_by_key(|entry| entry.at_ms);
    same("journals", journals, vec![entry(1), entry(2)])
}

pub(super) async fn an_archived_team_is_gone_and_its_name_free(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 2).await?;
    same(
        "append",
        backend.append(&dir, &bob(), message("a", 1), UnreadLimit::None).await?,
        Appended::New,
    )?;
    let first = backend.archive_team(&dir).await?;
    same("teams", backend.teams().await?, Vec::new())?;
    same(
        "twice",
        matches!(backend.archive_team(&dir).await, Err(StoreError::NoTeam { .. })),
        true,
    )?;
    team(&backend).await?;
    same("inbox", backend.inbox(&dir, &bob()).await?, Vec::new())?;
    same("tasks", task_ids(&backend, &dir).await?, Vec::new())?;
    add_tasks(&backend, &dir, 1).await?;
    same("first id", task_ids(&backend, &dir).await?, vec!["1".to_owned()])?;
    same("another archive", backend.archive_team(&dir).await? != first, true)
}
