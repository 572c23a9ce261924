//! What every backend must do, as a list of checks over an empty store; each backend's tests run all of them.
//!
//! A check says what it saw instead of panicking, so that a medium can also be tried in place.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt as _, StreamExt as _};
use pitcrew_protocol::{
    AgentName, ApiError, ErrorCode, InboxFile, Message, MessageId, Rate, Task, TaskId, TaskStatus,
    TeamConfig, TeamDir, from_text,
};

mod archive;
mod journal;
mod mail;
mod tasks;
mod unread;

use archive::{
    a_removed_archive_is_gone_for_good, a_team_is_made_with_logs_of_one_in_the_archive,
    an_archived_team_is_shown_and_comes_back_whole, the_journal_of_an_archived_team_can_be_read,
};
use journal::{
    the_journal_is_asked_about_one_message_and_summed_up, the_journal_is_followed_from_a_position,
    the_journal_keeps_its_order,
};
use mail::{
    a_message_sent_twice_is_there_once, an_acknowledged_message_is_read_and_stays,
    an_acknowledged_message_of_a_session_is_gone,
    concurrent_sends_are_all_kept_in_order_per_sender,
    messages_stand_in_the_order_of_their_sending, trimming_takes_the_oldest_read_messages_only,
};
use tasks::{
    a_dependency_is_seen_from_both_ends, a_new_task_gets_the_next_id,
    a_refused_task_edit_changes_nothing, an_id_is_never_used_again,
    of_many_claims_exactly_one_wins,
};
use unread::{
    a_full_inbox_takes_no_more_and_stays_as_it_is, concurrent_sends_do_not_exceed_a_limit_together,
};

use crate::{
    Appended, Backend, Change, Event, JournalEntry, LeaseHolder, LeaseName, LogName, RateScope,
    Slot, StoreError, TaskTable,
};

/// One check; its name says what holds.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// What holds, as a sentence.
    pub name: &'static str,
    /// Runs the check over an empty store.
    pub run: fn(Arc<dyn Backend>) -> Running,
}

/// A check at work.
pub type Running = BoxFuture<'static, Result<(), Failure>>;

/// What a check saw that should not be.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Two things differ.
    #[error("{what}: expected {expected}, found {found}")]
    Differs {
        /// Of what.
        what: &'static str,
        /// What should be.
        expected: String,
        /// What is.
        found: String,
    },
    /// An operation failed that should not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A text of the suite is not what it should be.
    #[error(transparent)]
    Parse(#[from] pitcrew_protocol::ParseError),
}

macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        /// All checks.
        pub const CHECKS: &[Check] = &[$(Check { name: stringify!($name), run: |backend| $name(backend).boxed() }),*];
    };
}

checks![
    a_team_is_made_listed_and_read_back,
    of_two_names_on_one_folder_one_wins,
    an_edit_of_a_config_keeps_foreign_fields,
    a_refused_edit_changes_nothing,
    a_team_that_is_not_there_is_named_in_the_error,
    messages_stand_in_the_order_of_their_sending,
    a_message_sent_twice_is_there_once,
    concurrent_sends_are_all_kept_in_order_per_sender,
    a_full_inbox_takes_no_more_and_stays_as_it_is,
    concurrent_sends_do_not_exceed_a_limit_together,
    an_acknowledged_message_is_read_and_stays,
    an_acknowledged_message_of_a_session_is_gone,
    trimming_takes_the_oldest_read_messages_only,
    a_new_task_gets_the_next_id,
    an_id_is_never_used_again,
    a_dependency_is_seen_from_both_ends,
    of_many_claims_exactly_one_wins,
    a_refused_task_edit_changes_nothing,
    the_journal_keeps_its_order,
    the_journal_is_followed_from_a_position,
    the_journal_is_asked_about_one_message_and_summed_up,
    a_rate_is_an_exact_sliding_window,
    a_document_is_edited_and_removed,
    logs_are_apart_and_in_order,
    a_replaced_log_is_kept_under_another_name,
    a_lease_has_one_holder,
    leases_of_members_are_apart,
    a_watcher_is_told_of_every_kind_of_change,
    an_archived_team_is_gone_and_its_name_free,
    the_journal_of_an_archived_team_can_be_read,
    an_archived_team_is_shown_and_comes_back_whole,
    a_removed_archive_is_gone_for_good,
    a_team_is_made_with_logs_of_one_in_the_archive,
];

fn same<T: PartialEq + std::fmt::Debug>(
    what: &'static str,
    found: T,
    expected: T,
) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::Differs { what, expected: format!("{expected:?}"), found: format!("{found:?}") })
}

fn config(name: &str) -> Result<TeamConfig, Failure> {
    let name = serde_json::Value::from(name);
    Ok(from_text(&format!(
        r#"{{"name":{name},"createdAt":1795175309433,"x":{{"kept": 1.0}},"members":[{{"name":"team-lead","tmuxPaneId":"","y":[1]}}]}}"#
    ))?)
}

async fn team(backend: &Arc<dyn Backend>) -> Result<TeamDir, Failure> {
    let config = config("Probe Team")?;
    backend.create_team(&config).await?;
    Ok(config.name.dir())
}

fn bob() -> InboxFile {
    AgentName::foreign("bob").inbox_file()
}

fn message(from: &str, nth: usize) -> Message {
    Message::new(
        from,
        format!("{from} says {nth} \"\\ \u{1F600}"),
        "2026-11-20T11:48:29.735Z".into(),
    )
    .with_id(&MessageId(format!("{from}-{nth}")))
}

async fn ids(backend: &Arc<dyn Backend>, team: &TeamDir) -> Result<Vec<String>, Failure> {
    Ok(backend.inbox(team, &bob()).await?.into_iter().map(|m| m.id.0).collect())
}

fn task(id: TaskId) -> Task {
    Task {
        id,
        subject: "s".into(),
        description: "d".into(),
        active_form: None,
        owner: None,
        status: TaskStatus::Pending,
        blocks: Vec::new(),
        blocked_by: Vec::new(),
        metadata: None,
        foreign: pitcrew_protocol::Foreign::default(),
    }
}

async fn add_tasks(
    backend: &Arc<dyn Backend>,
    team: &TeamDir,
    count: usize,
) -> Result<(), Failure> {
    let add = move |table: &mut TaskTable| {
        for _ in 0..count {
            let id = TaskId::from_number(table.next_id);
            table.tasks.insert(id.clone(), task(id));
            table.next_id += 1;
        }
        Ok(())
    };
    Ok(backend.edit_tasks(team, Box::new(add)).await?)
}

async fn task_ids(backend: &Arc<dyn Backend>, team: &TeamDir) -> Result<Vec<String>, Failure> {
    Ok(backend.tasks(team).await?.iter().map(|t| t.id.to_string()).collect())
}

async fn a_team_is_made_listed_and_read_back(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    same("no teams", backend.teams().await?, Vec::new())?;
    let dir = team(&backend).await?;
    same("teams", backend.teams().await?, vec![TeamDir::of("probe-team")])?;
    same("config", backend.team(&dir).await?.as_ref(), &config("Probe Team")?)?;
    same("inbox", backend.inbox(&dir, &bob()).await?, Vec::new())?;
    same("tasks", backend.tasks(&dir).await?.len(), 0)?;
    same("journal", backend.journal(&dir).await?, Vec::new())
}

async fn of_two_names_on_one_folder_one_wins(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let configs = [
        config("Probe Team")?,
        config("probe.team")?,
        config("PROBE TEAM")?,
        config("probe/team")?,
    ];
    let made = join_all(configs.iter().map(|config| backend.create_team(config))).await;
    same("winners", made.iter().filter(|made| made.is_ok()).count(), 1)?;
    let winner = backend.team(&TeamDir::of("probe team")).await?.name.to_string();
    for lost in made.into_iter().filter_map(Result::err) {
        match lost {
            StoreError::TeamTaken { name, .. } => same("taken by", name, winner.clone())?,
            other => return Err(other.into()),
        }
    }
    Ok(())
}

async fn an_edit_of_a_config_keeps_foreign_fields(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let edited = backend.edit_team(
        &dir,
        Arc::new(|c| {
            c.description = Some("new".into());
            Ok(())
        }),
    );
    let edited = edited.await?;
    let mut expected = config("Probe Team")?;
    expected.description = Some("new".into());
    same("answer", edited, expected.clone())?;
    same("config", backend.team(&dir).await?.as_ref(), &expected)
}

async fn a_refused_edit_changes_nothing(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let edited = backend.edit_team(
        &dir,
        Arc::new(|c| {
            c.members.clear();
            Err(ApiError::new(ErrorCode::PermissionDenied, "no"))
        }),
    );
    let is_refused = matches!(edited.await, Err(StoreError::Refused(e)) if e.code == ErrorCode::PermissionDenied);
    same("refused", is_refused, true)?;
    same("config", backend.team(&dir).await?.as_ref(), &config("Probe Team")?)
}

async fn a_team_that_is_not_there_is_named_in_the_error(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = TeamDir::of("nobody");
    let is_no_team =
        |e: Option<StoreError>| matches!(e, Some(StoreError::NoTeam { team }) if team == dir);
    let edit = backend.edit_tasks(&dir, Box::new(|_| Ok(()))).await;
    let log = LogName::Output(AgentName::lead());
    for (what, error) in [
        ("team", backend.team(&dir).await.err()),
        ("edit_team", backend.edit_team(&dir, Arc::new(|_| Ok(()))).await.err()),
        ("inbox", backend.inbox(&dir, &bob()).await.err()),
        ("append", backend.append(&dir, &bob(), message("a", 1)).await.err()),
        ("acknowledge", backend.acknowledge(&dir, &bob(), &[]).await.err()),
        ("trim_inbox", backend.trim_inbox(&dir, &bob(), 0).await.err()),
        ("tasks", backend.tasks(&dir).await.err()),
        ("edit_tasks", edit.err()),
        ("journal", backend.journal(&dir).await.err()),
        (
            "edit_document",
            backend.edit_document(&dir, "requests", Box::new(|_| Ok(()))).await.err(),
        ),
        ("append_log", backend.append_log(&dir, &log, &["x".to_owned()]).await.err()),
        ("log", backend.log(&dir, &log).await.err()),
        ("watch", backend.watch(&dir).await.err()),
        ("archive_team", backend.archive_team(&dir).await.err()),
    ] {
        same(what, is_no_team(error), true)?;
    }
    same("teams", backend.teams().await?, Vec::new())
}

async fn a_rate_is_an_exact_sliding_window(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let rate = Rate { count: 2, seconds: 5 };
    let scope = RateScope::Broadcasts(TeamDir::of("x"));
    let full = |ms| Slot::Full { retry_after: Duration::from_millis(ms) };
    let takes = [
        (1000, Slot::Taken),
        (2000, Slot::Taken),
        (3000, full(3000)),
        (6000, Slot::Taken),
        (6999, full(1)),
    ];
    for (now_ms, expected) in takes {
        same("slot", backend.take_slot(&scope, rate, now_ms).await?, expected)?;
    }
    same("another scope", backend.take_slot(&RateScope::Calls, rate, 3000).await?, Slot::Taken)
}

async fn a_document_is_edited_and_removed(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    for expected in 0..3 {
        let count = move |document: &mut Option<serde_json::Value>| {
            let there = document.as_ref().and_then(serde_json::Value::as_i64).unwrap_or(0);
            if there != expected {
                return Err(ApiError::new(
                    ErrorCode::InternalError,
                    format!("{there}, not {expected}"),
                ));
            }
            *document = Some((there + 1).into());
            Ok(())
        };
        backend.edit_document(&dir, "requests", Box::new(count)).await?;
    }
    let remove = |document: &mut Option<serde_json::Value>| {
        *document = None;
        Ok(())
    };
    backend.edit_document(&dir, "requests", Box::new(remove)).await?;
    let is_gone = |document: &mut Option<serde_json::Value>| match document {
        None => Ok(()),
        Some(_) => Err(ApiError::new(ErrorCode::InternalError, "still there")),
    };
    Ok(backend.edit_document(&dir, "requests", Box::new(is_gone)).await?)
}

async fn logs_are_apart_and_in_order(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let (transcript, output) =
        (LogName::Transcript(AgentName::lead()), LogName::Output(AgentName::lead()));
    same("empty", backend.log(&dir, &transcript).await?, Vec::new())?;
    backend.append_log(&dir, &transcript, &["one".into(), "two".into()]).await?;
    backend.append_log(&dir, &output, &["other".into()]).await?;
    backend.append_log(&dir, &transcript, &["three".into()]).await?;
    same(
        "transcript",
        backend.log(&dir, &transcript).await?,
        vec!["one".into(), "two".into(), "three".into()],
    )?;
    same("output", backend.log(&dir, &output).await?, vec!["other".to_owned()])
}

async fn a_replaced_log_is_kept_under_another_name(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let log = LogName::Transcript(AgentName::lead());
    let kept = LogName::Former { agent: AgentName::lead(), until_ms: 7 };
    backend.append_log(&dir, &log, &["one".into(), "two".into()]).await?;
    backend.replace_log(&dir, &log, &["new".into()], &kept).await?;
    same("kept", backend.log(&dir, &kept).await?, vec!["one".into(), "two".into()])?;
    backend.append_log(&dir, &log, &["newer".into()]).await?;
    same("in its place", backend.log(&dir, &log).await?, vec!["new".into(), "newer".into()])?;
    let (none, empty) = (
        LogName::Output(AgentName::lead()),
        LogName::Former { agent: AgentName::lead(), until_ms: 8 },
    );
    backend.replace_log(&dir, &none, &[], &empty).await?;
    same("nothing for nothing", backend.log(&dir, &none).await?, Vec::new())?;
    same("nothing kept", backend.log(&dir, &empty).await?, Vec::new())
}

async fn a_lease_has_one_holder(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let run = LeaseName::Run;
    let key = Some("1.key".to_owned());
    let holder = |pid| LeaseHolder {
        pid,
        start_ticks: 7,
        since_ms: 8,
        verify_key: key.clone(),
        prepares: false,
    };
    same("nobody", backend.lease_holder(&dir, &run).await?, None)?;
    same("nobody yet", backend.last_holder(&dir, &run).await?, None)?;
    let lease = backend.take_lease(&dir, &run, &holder(1)).await?.ok();
    same("taken", lease.is_some(), true)?;
    same("refused", backend.take_lease(&dir, &run, &holder(2)).await?.err(), Some(holder(1)))?;
    same("holder", backend.lease_holder(&dir, &run).await?, Some(holder(1)))?;
    let preparing = LeaseHolder { prepares: true, since_ms: 123_456, ..holder(1) };
    for named in [preparing, holder(1)] {
        backend.name_holder(&dir, &run, &named).await?;
        same("named anew", backend.lease_holder(&dir, &run).await?, Some(named))?;
    }
    drop(lease);
    let late = backend.name_holder(&dir, &run, &holder(1)).await.err();
    same(
        "named too late",
        late.is_some_and(|late| matches!(late, StoreError::NotHeld { .. })),
        true,
    )?;
    same("given up", backend.lease_holder(&dir, &run).await?, None)?;
    same("the last one", backend.last_holder(&dir, &run).await?, Some(holder(1)))?;
    same("taken again", backend.take_lease(&dir, &run, &holder(2)).await?.is_ok(), true)
}

async fn leases_of_members_are_apart(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let all = [LeaseName::Run, LeaseName::of_member(&AgentName::lead()), LeaseName::Member(bob())];
    let holder =
        |pid| LeaseHolder { pid, start_ticks: 7, since_ms: 8, verify_key: None, prepares: false };
    let mut held = Vec::new();
    for (lease, pid) in all.iter().zip(1..) {
        held.push(backend.take_lease(&dir, lease, &holder(pid)).await?.ok());
    }
    same("all taken", held.iter().all(Option::is_some), true)?;
    held.pop();
    let mut holders = Vec::new();
    for lease in &all {
        holders.push(backend.lease_holder(&dir, lease).await?.map(|holder| holder.pid));
    }
    same("holders", holders, vec![Some(1), Some(2), None])
}

async fn a_watcher_is_told_of_every_kind_of_change(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let mut watch = backend.watch(&dir).await?;
    let mut next = async |expected: Change| {
        while let Ok(told) = tokio::time::timeout(Duration::from_secs(120), watch.next()).await {
            match told {
                Some(change) if change == expected || change == Change::Unsure => return Ok(()),
                Some(_) => {}
                None => break,
            }
        }
        same("told", None, Some(expected))
    };
    backend
        .edit_team(
            &dir,
            Arc::new(|c| {
                c.description = Some("new".into());
                Ok(())
            }),
        )
        .await?;
    next(Change::Config).await?;
    same("append", backend.append(&dir, &bob(), message("a", 1)).await?, Appended::New)?;
    next(Change::Inbox(bob())).await?;
    add_tasks(&backend, &dir, 1).await?;
    next(Change::Tasks).await?;
    let gone = Event::TeamDeleted { team: "Probe Team".into() };
    backend.record(&dir, &[JournalEntry { at_ms: 1, event: gone }]).await?;
    next(Change::Journal).await?;
    for lease in [LeaseName::Run, LeaseName::Member(bob())] {
        let holder =
            LeaseHolder { pid: 1, start_ticks: 7, since_ms: 8, verify_key: None, prepares: false };
        let held = backend.take_lease(&dir, &lease, &holder).await?.ok();
        next(Change::Lease(lease.clone())).await?;
        same("who holds it", backend.lease_holder(&dir, &lease).await?, Some(holder.clone()))?;
        backend.name_holder(&dir, &lease, &LeaseHolder { prepares: true, ..holder }).await?;
        while !backend.lease_holder(&dir, &lease).await?.is_some_and(|holder| holder.prepares) {
            next(Change::Lease(lease.clone())).await?;
        }
        drop(held);
        while backend.lease_holder(&dir, &lease).await?.is_some() {
            next(Change::Lease(lease.clone())).await?;
        }
    }
    backend.archive_team(&dir).await?;
    next(Change::Gone).await?;
    same("the end", watch.next().await, None)
}

async fn an_archived_team_is_gone_and_its_name_free(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    add_tasks(&backend, &dir, 2).await?;
    same("append", backend.append(&dir, &bob(), message("a", 1)).await?, Appended::New)?;
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
