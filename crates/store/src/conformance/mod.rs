//! The conformance suite: checks that every backend must pass. Each check starts with an empty
//! store. The tests of each backend run all checks.
//!
//! A failed check returns a [`Failure`] and does not panic. Therefore a user can also run the suite
//! on a real storage medium.

use crate::NewTeam;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pitcrew_protocol::{
    AgentName, InboxFile, Message, MessageId, Task, TaskId, TaskStatus, TeamConfig, TeamDir,
    from_text,
};

use crate::{Backend, StoreError, TaskTable};

mod archive;
mod journal;
mod leases;
mod mail;
mod rates;
mod records;
mod tasks;
mod teams;

/// One check of the suite. The name states the property that is checked.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The checked property, as a sentence.
    pub name: &'static str,
    /// Runs the check on an empty store.
    pub run: fn(Arc<dyn Backend>) -> Running,
}

/// The future of a running check.
pub type Running = BoxFuture<'static, Result<(), Failure>>;

/// The reason why a check failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A value differs from the expected value.
    #[error("{what}: expected {expected}, found {found}")]
    Differs {
        /// A description of what the value is.
        what: &'static str,
        /// The expected value.
        expected: String,
        /// The value that was found.
        found: String,
    },
    /// An operation failed unexpectedly.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A text constant of the suite cannot be parsed.
    #[error(transparent)]
    Parse(#[from] pitcrew_protocol::ParseError),
}

macro_rules! checks {
    ($($group:ident: $($name:ident),* ;)*) => {
        /// All checks, grouped by the store trait that they test.
        pub const CHECKS: &[Check] = &[$($(
            Check { name: stringify!($name), run: |backend| $group::$name(backend).boxed() }
        ),*),*];
    };
}

checks! {
    teams:
        a_team_is_made_listed_and_read_back,
        of_two_names_on_one_folder_one_wins,
        an_edit_of_a_config_keeps_foreign_fields,
        a_refused_edit_changes_nothing,
        a_team_that_is_not_there_is_named_in_the_error,
        a_watcher_is_told_of_every_kind_of_change;
    archive:
        an_archived_team_is_gone_and_its_name_free,
        an_archived_team_is_shown_and_comes_back_whole,
        the_records_of_an_archived_team_are_read_in_place,
        a_removed_archive_is_gone_for_good,
        the_end_of_a_run_is_added_to_an_archived_team,
        a_team_is_made_with_logs_of_one_in_the_archive,
        the_journal_of_an_archived_team_can_be_read;
    mail:
        messages_stand_in_the_order_of_their_sending,
        a_message_sent_twice_is_there_once,
        concurrent_sends_are_all_kept_in_order_per_sender,
        a_full_inbox_takes_no_more_and_stays_as_it_is,
        concurrent_sends_do_not_exceed_a_limit_together,
        an_acknowledged_message_is_read_and_stays,
        an_acknowledged_message_of_a_session_is_gone,
        trimming_takes_the_oldest_read_messages_only;
    tasks:
        a_new_task_gets_the_next_id,
        an_id_is_never_used_again,
        a_dependency_is_seen_from_both_ends,
        of_many_claims_exactly_one_wins,
        a_refused_task_edit_changes_nothing;
    journal:
        the_journal_keeps_its_order,
        the_journal_is_followed_from_a_position,
        the_journal_is_asked_about_one_message_and_summed_up;
    records:
        a_document_is_edited_and_removed,
        logs_are_apart_and_in_order,
        the_end_of_a_log_is_read_by_whole_lines,
        a_replaced_log_is_kept_under_another_name;
    leases:
        a_lease_has_one_holder,
        leases_of_members_are_apart;
    rates:
        a_rate_is_an_exact_sliding_window;
}

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
    backend.create_team(&config, &NewTeam::default()).await?;
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
