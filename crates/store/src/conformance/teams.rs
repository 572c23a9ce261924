//! Checks that every backend must pass for teams.

use crate::NewTeam;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use pitcrew_protocol::{AgentName, ApiError, ErrorCode, TeamDir};

use super::{Failure, add_tasks, bob, config, message, same, team};
use crate::{
    Appended, Backend, Change, Event, JournalEntry, LeaseHolder, LeaseName, LogName, StoreError,
    UnreadLimit,
};

pub(super) async fn a_team_is_made_listed_and_read_back(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    same("no teams", backend.teams().await?, Vec::new())?;
    let dir = team(&backend).await?;
    same("teams", backend.teams().await?, vec![TeamDir::of("probe-team")])?;
    same("config", backend.team(&dir).await?.as_ref(), &config("Probe Team")?)?;
    same("inbox", backend.inbox(&dir, &bob()).await?, Vec::new())?;
    same("tasks", backend.tasks(&dir).await?.len(), 0)?;
    same("journal", backend.journal_since(&dir, 0).await?.0, Vec::new())
}

pub(super) async fn of_two_names_on_one_folder_one_wins(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let configs = [
        config("Probe Team")?,
        config("probe.team")?,
        config("PROBE TEAM")?,
        config("probe/team")?,
    ];
    let new = NewTeam::default();
    let made = join_all(configs.iter().map(|config| backend.create_team(config, &new))).await;
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

pub(super) async fn an_edit_of_a_config_keeps_foreign_fields(
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

pub(super) async fn a_refused_edit_changes_nothing(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
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

pub(super) async fn a_team_that_is_not_there_is_named_in_the_error(
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
        ("append", backend.append(&dir, &bob(), message("a", 1), UnreadLimit::None).await.err()),
        ("acknowledge", backend.acknowledge(&dir, &bob(), &[]).await.err()),
        ("trim_inbox", backend.trim_inbox(&dir, &bob(), 0).await.err()),
        ("tasks", backend.tasks(&dir).await.err()),
        ("edit_tasks", edit.err()),
        ("journal", backend.journal_since(&dir, 0).await.err()),
        (
            "edit_document",
            backend.edit_document(&dir, "requests", Box::new(|_| Ok(()))).await.err(),
        ),
        ("document", backend.document(&dir, "requests").await.err()),
        ("append_log", backend.append_log(&dir, &log, &["x".to_owned()]).await.err()),
        ("log", backend.log(&dir, &log).await.err()),
        ("watch", backend.watch(&dir).await.err()),
        ("archive_team", backend.archive_team(&dir).await.err()),
    ] {
        same(what, is_no_team(error), true)?;
    }
    same("teams", backend.teams().await?, Vec::new())
}

pub(super) async fn a_watcher_is_told_of_every_kind_of_change(
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
    same(
        "append",
        backend.append(&dir, &bob(), message("a", 1), UnreadLimit::None).await?,
        Appended::New,
    )?;
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
