//! Checks that every backend must pass for the mail of a team.

use crate::NewTeam;
use std::sync::Arc;

use futures_util::future::join_all;
use pitcrew_protocol::{Message, MessageId, TeamConfig, from_text};

use super::{Failure, bob, ids, message, same, team};
use crate::{Appended, Backend, Past, StoreError, UnreadLimit};

pub(super) async fn messages_stand_in_the_order_of_their_sending(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    for nth in 0..5 {
        same(
            "append",
            backend.append(&dir, &bob(), message("a", nth), UnreadLimit::None).await?,
            Appended::New,
        )?;
    }
    let inbox = backend.inbox(&dir, &bob()).await?;
    let found: Vec<_> = inbox.into_iter().map(|m| m.message).collect();
    same("messages", found, (0..5).map(|n| message("a", n)).collect())?;
    let nameless = backend
        .append(&dir, &bob(), Message::new("a", "no id".into(), String::new()), UnreadLimit::None)
        .await;
    same(
        "a message without an id is refused",
        matches!(nameless, Err(StoreError::Refused(_))),
        true,
    )
}

pub(super) async fn a_message_sent_twice_is_there_once(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let mention =
        Message::new("b", "about \"a-1\"".into(), String::new()).with_id(&MessageId("b-1".into()));
    same(
        "a mention",
        backend.append(&dir, &bob(), mention, UnreadLimit::None).await?,
        Appended::New,
    )?;
    same(
        "first",
        backend.append(&dir, &bob(), message("a", 1), UnreadLimit::None).await?,
        Appended::New,
    )?;
    same(
        "second",
        backend.append(&dir, &bob(), message("a", 1), UnreadLimit::None).await?,
        Appended::AlreadyThere,
    )?;
    let inbox = bob();
    let both = join_all(
        [(); 2].map(|()| backend.append(&dir, &inbox, message("a", 2), UnreadLimit::None)),
    )
    .await;
    let both = both.into_iter().collect::<Result<Vec<_>, _>>()?;
    same("at once", both.iter().filter(|done| **done == Appended::New).count(), 1)?;
    same("ids", ids(&backend, &dir).await?, vec!["b-1".into(), "a-1".into(), "a-2".into()])
}

pub(super) async fn concurrent_sends_are_all_kept_in_order_per_sender(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let senders = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let send_all = |from: &'static str| {
        let (backend, dir) = (&backend, &dir);
        async move {
            for nth in 0..10 {
                same(
                    "append",
                    backend.append(dir, &bob(), message(from, nth), UnreadLimit::None).await?,
                    Appended::New,
                )?;
            }
            Ok::<_, Failure>(())
        }
    };
    join_all(senders.map(send_all)).await.into_iter().collect::<Result<(), _>>()?;
    let all = ids(&backend, &dir).await?;
    same("messages", all.len(), 80)?;
    for from in senders {
        let of_one: Vec<_> = all.iter().filter(|id| id.starts_with(from)).cloned().collect();
        same("order of one sender", of_one, (0..10).map(|n| format!("{from}-{n}")).collect())?;
    }
    Ok(())
}

pub(super) async fn an_acknowledged_message_is_read_and_stays(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    for nth in 0..3 {
        same(
            "append",
            backend.append(&dir, &bob(), message("a", nth), UnreadLimit::None).await?,
            Appended::New,
        )?;
    }
    let known = [MessageId("a-1".into()), MessageId("nobody's".into())];
    same(
        "marked",
        backend.acknowledge(&dir, &bob(), &known).await?,
        vec![MessageId("a-1".into())],
    )?;
    same("marked again", backend.acknowledge(&dir, &bob(), &known).await?, Vec::new())?;
    let read: Vec<_> =
        backend.inbox(&dir, &bob()).await?.iter().map(|m| m.message.is_read()).collect();
    same("read", read, vec![false, true, false])
}

pub(super) async fn an_acknowledged_message_of_a_session_is_gone(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let config: TeamConfig = from_text(
        r#"{"name":"session-6132882e","leadProcess":{"pid":9522},"members":[{"name":"team-lead","tmuxPaneId":"leader"}]}"#,
    )?;
    backend.create_team(&config, &NewTeam::default()).await?;
    let dir = config.name.dir();
    for nth in 0..3 {
        same(
            "append",
            backend.append(&dir, &bob(), message("a", nth), UnreadLimit::None).await?,
            Appended::New,
        )?;
    }
    let known = ["a-1", "nobody's"].map(|id| MessageId(id.into()));
    same(
        "marked",
        backend.acknowledge(&dir, &bob(), &known).await?,
        vec![MessageId("a-1".into())],
    )?;
    same("marked again", backend.acknowledge(&dir, &bob(), &known).await?, Vec::new())?;
    same("left", ids(&backend, &dir).await?, vec!["a-0".into(), "a-2".into()])?;
    let past = backend.past_mail(&dir, &bob(), Past::Lately).await?;
    same("the past", past.first().map(|past| past.id.0.clone()), Some("a-1".into()))
}

pub(super) async fn trimming_takes_the_oldest_read_messages_only(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    for nth in 0..5 {
        same(
            "append",
            backend.append(&dir, &bob(), message("a", nth), UnreadLimit::None).await?,
            Appended::New,
        )?;
    }
    let read = [0, 1, 3].map(|n| MessageId(format!("a-{n}")));
    backend.acknowledge(&dir, &bob(), &read).await?;
    same("moved", backend.trim_inbox(&dir, &bob(), 1).await?, 2)?;
    same("left", ids(&backend, &dir).await?, vec!["a-2".into(), "a-3".into(), "a-4".into()])?;
    same("moved again", backend.trim_inbox(&dir, &bob(), 1).await?, 0)?;
    let past = backend.past_mail(&dir, &bob(), Past::All).await?;
    let past: Vec<_> = past.into_iter().take(2).map(|past| past.id.0).collect();
    same("the past", past, vec!["a-0".into(), "a-1".into()])
}

/// The result of an append that is refused: the inbox has two unread messages, and the limit is
/// two.
const FULL: Appended = Appended::Full { unread: 2, most: 2 };

pub(super) async fn a_full_inbox_takes_no_more_and_stays_as_it_is(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let send = |from: &'static str, nth: usize, limit: UnreadLimit| {
        let (backend, dir) = (Arc::clone(&backend), dir.clone());
        // The text of each message contains many braces. When the store counts the unread messages,
        // it must not mistake these braces for the beginnings of messages.
        let id = MessageId(format!("{from}-{nth}"));
        let message = Message::new(from, "{{{{ }}}}".into(), String::new()).with_id(&id);
        async move { backend.append(&dir, &bob(), message, limit).await }
    };
    let (all, own) = (UnreadLimit::OfAll(2), UnreadLimit::OfSender(2));
    same(
        "no room at all",
        send("a", 0, UnreadLimit::OfAll(0)).await?,
        Appended::Full { unread: 0, most: 0 },
    )?;
    for nth in 1..3 {
        same("room", send("a", nth, all).await?, Appended::New)?;
    }
    for nth in [3, 4, 3] {
        same("no room", send("a", nth, all).await?, FULL)?;
    }
    same("no room for others", send("b", 1, all).await?, FULL)?;
    same("no room for its own", send("a", 5, own).await?, FULL)?;
    same("the inbox", ids(&backend, &dir).await?, vec!["a-1".into(), "a-2".into()])?;
    same("what is there is not too much", send("a", 2, all).await?, Appended::AlreadyThere)?;
    same("room for one who sent nothing", send("b", 2, own).await?, Appended::New)?;
    same("no limit", send("c", 1, UnreadLimit::None).await?, Appended::New)?;
    let read = ["a-1", "a-2", "b-2"].map(|id| MessageId(id.into()));
    backend.acknowledge(&dir, &bob(), &read).await?;
    same("room again", send("a", 3, all).await?, Appended::New)?;
    same("no room again", send("a", 4, all).await?, FULL)
}

pub(super) async fn concurrent_sends_do_not_exceed_a_limit_together(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let (dir, inbox) = (team(&backend).await?, bob());
    let send = |nth| backend.append(&dir, &inbox, message("a", nth), UnreadLimit::OfAll(7));
    let sent = join_all((0..20).map(send)).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    same("sent", sent.iter().filter(|done| **done == Appended::New).count(), 7)?;
    let refused = Appended::Full { unread: 7, most: 7 };
    same("refused", sent.iter().filter(|done| **done == refused).count(), 13)?;
    same("the inbox", ids(&backend, &dir).await?.len(), 7)
}
