//! Checks that every backend must pass for the journal.

use std::sync::Arc;

use pitcrew_protocol::{AgentName, MessageId, TeamDir};

use super::{Failure, same, team};
use crate::{
    Backend, EndedRun, Event, JournalEntry, JournalOf, JournalSummary, RunsSummary, Spent,
    TEAM_DELETED, Turn,
};

pub(super) async fn the_journal_keeps_its_order(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let entry = |at_ms| JournalEntry {
        at_ms,
        event: Event::MessageInjected { id: MessageId(format!("m{at_ms}")), to: AgentName::lead() },
    };
    backend.record(&dir, &[entry(1), entry(2)]).await?;
    backend.record(&dir, &[]).await?;
    backend.record(&dir, &[entry(3)]).await?;
    same("journal", backend.journal_since(&dir, 0).await?.0, vec![entry(1), entry(2), entry(3)])
}

pub(super) async fn the_journal_is_followed_from_a_position(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let entry = |at_ms| JournalEntry {
        at_ms,
        event: Event::MessageInjected { id: MessageId(format!("m{at_ms}")), to: AgentName::lead() },
    };
    let (none, start) = backend.journal_since(&dir, 0).await?;
    same("an empty journal", none, Vec::new())?;
    backend.record(&dir, &[entry(1), entry(2)]).await?;
    let (first, position) = backend.journal_since(&dir, start).await?;
    same("the first", first, vec![entry(1), entry(2)])?;
    same("the end", backend.journal_since(&dir, u64::MAX).await?, (Vec::new(), position))?;
    backend.record(&dir, &[entry(3)]).await?;
    let (then, position) = backend.journal_since(&dir, position).await?;
    same("the next", then, vec![entry(3)])?;
    same("no more", backend.journal_since(&dir, position).await?, (Vec::new(), position))
}

pub(super) async fn the_journal_is_asked_about_one_message_and_summed_up(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    check_one_message_and_summary(&backend, &dir).await?;
    check_another_of_the_name(&backend, &dir).await?;
    check_length_of_runs(&backend, &dir).await
}

async fn check_one_message_and_summary(
    backend: &Arc<dyn Backend>,
    dir: &TeamDir,
) -> Result<(), Failure> {
    let lead = AgentName::lead();
    let read = entry(3, Event::MessageInjected { id: id(1), to: lead.clone() });
    let always = |at_ms, lasts| {
        let what = format!("lasts: {lasts}");
        entry(at_ms, Event::AllowedAlways { member: AgentName::lead(), what, lasts })
    };
    let idle = changed(5, "idle", Some(&id(1).0));
    let assigned = sent(7, Some("task_assignment"));
    let changes =
        [turn(4), idle, changed(6, "running", None), assigned, always(7, true), always(7, false)];
    let first: Vec<_> =
        [sent(1, None), sent(2, None), read.clone()].into_iter().chain(changes).collect();
    backend.record(dir, &first).await?;
    let (_, end) = backend.journal_since(dir, 0).await?;
    same(
        "the way of a message",
        backend.message_journal(JournalOf::Team(dir), &id(1)).await?,
        vec![sent(1, None), read],
    )?;
    same("nobody's", backend.message_journal(JournalOf::Team(dir), &id(9)).await?, Vec::new())?;
    let (summary, position) = backend.journal_summary(dir).await?;
    same("the position", position, end)?;
    same("the assignments", summary.assignments.iter().cloned().collect(), vec![id(7)])?;
    let of_lead = summary.members.get(&lead).cloned().unwrap_or_default();
    same("the turns", of_lead.turns, 1)?;
    same("what lasts", of_lead.always.into_iter().collect(), vec!["lasts: true".to_owned()])?;
    let expected = vec![("idle".to_owned(), Some(id(1).0)), ("running".to_owned(), None)];
    same("the states", states_of_lead(&summary), expected)
}

async fn check_another_of_the_name(
    backend: &Arc<dyn Backend>,
    dir: &TeamDir,
) -> Result<(), Failure> {
    let lead = AgentName::lead();
    backend
        .record(dir, &[turn(8), changed(9, "spawned", None), changed(10, "idle", None), turn(11)])
        .await?;
    let (summary, _) = backend.journal_summary(dir).await?;
    let another = summary.members.get(&lead).map(|member| (member.turns, member.always.len()));
    same("the turns of another of that name, and what lasts", another, Some((1, 0)))?;
    let spent = summary.members.get(&lead).and_then(|member| member.spent.get("m")).copied();
    let both = Spent {
        turns: 3,
        tool_calls: 6,
        input_tokens: 15,
        cost_nano_usd: 750_000_000,
        ..Spent::default()
    };
    same("what both of that name took", spent, Some(both))?;
    let expected = ["running", "spawned", "idle"].map(|state| (state.to_owned(), None)).to_vec();
    same("the states since", states_of_lead(&summary), expected)?;
    same("the same as of all", summary, JournalSummary::of(backend.journal_since(dir, 0).await?.0))
}

async fn check_length_of_runs(backend: &Arc<dyn Backend>, dir: &TeamDir) -> Result<(), Failure> {
    let runs = [
        entry(100, started()),
        changed(130, "idle", None),
        entry(140, ended()),
        entry(900, started()),
        turn(905),
        // The previous run was killed, so the journal has no `RunEnded` entry before this
        // `RunStarted` entry.
        entry(2000, started()),
        turn(2003),
    ];
    backend.record(dir, &runs).await?;
    let summary = backend.journal_summary(dir).await?.0;
    same("how long the runs took", summary.ran_ms(), 40 + 5 + 3)?;
    let RunsSummary { count, began_ms, goal, head, ended } = summary.runs.clone();
    same("the runs", (count, began_ms, goal), (3, Some(100), Some("mend it".to_owned())))?;
    same("the commit at the start", head, Some("c0ffee".to_owned()))?;
    same("the end of a killed run", (ended, summary.latest_ms()), (None, Some(2003)))?;
    let deleted = Event::TeamDeleted { team: "Probe Team".into() };
    backend.record(dir, &[entry(2100, deleted)]).await?;
    let ended = backend.journal_summary(dir).await?.0.runs.ended;
    let expected = EndedRun { at_ms: 2100, end: Some(TEAM_DELETED.to_owned()), reason: None };
    same("the end of a run with its team", ended, Some(expected))
}

fn started() -> Event {
    Event::RunStarted { goal: Some("mend it".to_owned()), head: Some("c0ffee".to_owned()) }
}

fn ended() -> Event {
    Event::RunEnded { end: Some("interrupted".to_owned()), reason: None }
}

fn id(nth: i64) -> MessageId {
    MessageId(format!("01936e4c-0000-7000-8000-{nth:012}"))
}

fn entry(at_ms: i64, event: Event) -> JournalEntry {
    JournalEntry { at_ms, event }
}

fn sent(nth: i64, frame: Option<&str>) -> JournalEntry {
    let (to, frame) = (AgentName::lead(), frame.map(str::to_owned));
    entry(nth, Event::MessagePersisted { id: id(nth), from: "bob".into(), author: None, to, frame })
}

fn changed(at_ms: i64, state: &str, detail: Option<&str>) -> JournalEntry {
    let (state, detail) = (state.to_owned().into(), detail.map(str::to_owned));
    entry(at_ms, Event::MemberChanged { member: AgentName::lead(), state, detail })
}

fn turn(at_ms: i64) -> JournalEntry {
    let of_lead = Turn {
        input_tokens: 5,
        tool_calls: 2,
        cost_usd: Some(0.25),
        ..Turn::new(AgentName::lead(), "m")
    };
    entry(at_ms, Event::TurnEnded(of_lead))
}

fn states_of_lead(summary: &JournalSummary) -> Vec<(String, Option<String>)> {
    let states = summary.members.get(&AgentName::lead()).cloned().unwrap_or_default().states;
    states.into_iter().map(|change| (change.state.to_string(), change.detail)).collect()
}
