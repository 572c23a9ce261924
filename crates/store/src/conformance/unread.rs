//! What every backend must do with a limit of unread mail.

use std::sync::Arc;

use futures_util::future::join_all;
use pitcrew_protocol::{Message, MessageId};

use super::{Failure, bob, ids, message, same, team};
use crate::{Appended, Backend, UnreadLimit};

/// What an inbox of two unread messages answers at a limit of two.
const FULL: Appended = Appended::Full { unread: 2, most: 2 };

pub(super) async fn a_full_inbox_takes_no_more_and_stays_as_it_is(
    backend: Arc<dyn Backend>,
) -> Result<(), Failure> {
    let dir = team(&backend).await?;
    let send = |from: &'static str, nth: usize, limit: UnreadLimit| {
        let (backend, dir) = (Arc::clone(&backend), dir.clone());
        // Many braces in a text are not many messages.
        let id = MessageId(format!("{from}-{nth}"));
        let message = Message::new(from, "{{{{ }}}}".into(), String::new()).with_id(&id);
        async move { backend.append_within(&dir, &bob(), message, limit).await }
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
    let send = |nth| backend.append_within(&dir, &inbox, message("a", nth), UnreadLimit::OfAll(7));
    let sent = join_all((0..20).map(send)).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    same("sent", sent.iter().filter(|done| **done == Appended::New).count(), 7)?;
    let refused = Appended::Full { unread: 7, most: 7 };
    same("refused", sent.iter().filter(|done| **done == refused).count(), 13)?;
    same("the inbox", ids(&backend, &dir).await?.len(), 7)
}
