//! What every backend must do with the journal.

use std::sync::Arc;

use pitcrew_protocol::{AgentName, MessageId};

use super::{Failure, same, team};
use crate::{About, Backend, Event, JournalEntry};

pub(super) async fn the_journal_keeps_its_order(backend: Arc<dyn Backend>) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let entry = |at_ms| JournalEntry {
        at_ms,
        event: Event::MessageInjected { id: MessageId(format!("m{at_ms}")), to: AgentName::lead() },
    };
    backend.record(&dir, &[entry(1), entry(2)]).await?;
    backend.record(&dir, &[]).await?;
    backend.record(&dir, &[entry(3)]).await?;
    same("journal", backend.journal(&dir).await?, vec![entry(1), entry(2), entry(3)])
}

pub(super) async fn the_journal_is_followed_from_a_position(backend: Arc<dyn Backend>) -> Result<(), Failure> {
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

pub(super) async fn the_journal_is_asked_about_one_message_and_about_members(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let lead = AgentName::lead();
    let id = |nth: i64| MessageId(format!("01936e4c-0000-7000-8000-{nth:012}"));
    let entry = |at_ms, event| JournalEntry { at_ms, event };
    let sent = |nth: i64, frame: Option<&str>| {
        let frame = frame.map(str::to_owned);
        entry(nth, Event::MessagePersisted { id: id(nth), from: "bob".into(), to: AgentName::lead(), frame })
    };
    let read = entry(3, Event::MessageInjected { id: id(1), to: lead.clone() });
    let idle = entry(4, Event::MemberChanged { member: lead, state: "idle".into(), detail: Some(id(1).0) });
    let assigned = sent(5, Some("task_assignment"));
    let all = [sent(1, None), sent(2, None), read.clone(), idle.clone(), assigned.clone()];
    backend.record(&dir, &all).await?;
    let (_, end) = backend.journal_since(&dir, 0).await?;
    let of_message = backend.journal_about(&dir, &About::Message(id(1)), 0).await?;
    same("the way of a message", of_message, (vec![sent(1, None), read], end))?;
    same("the members", backend.journal_about(&dir, &About::Members, 0).await?, (vec![idle.clone()], end))?;
    same("the assignments", backend.journal_about(&dir, &About::Assignments, 0).await?, (vec![assigned], end))?;
    same("nobody's", backend.journal_about(&dir, &About::Message(id(9)), 0).await?, (Vec::new(), end))?;
    backend.record(&dir, std::slice::from_ref(&idle)).await?;
    let (then, _) = backend.journal_about(&dir, &About::Members, end).await?;
    same("the members since", then, vec![idle])
}
