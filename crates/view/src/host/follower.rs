//! The other processes that follow a host. Each has its own place in the event log, so a slow one
//! delays nobody.

use std::sync::{Arc, Weak};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_runtime::control_socket::Caller;
use tokio::sync::watch;

/// Maximum number of followers of one host. A follower that does not read costs some memory, so
/// their number is limited.
pub(super) const FOLLOWERS_MOST: usize = 64;

/// A process that follows the host.
#[derive(Debug)]
pub(super) struct Follower {
    caller: Caller,
    /// The number of the first event that the follower does not have. `None` if it needs a
    /// snapshot.
    pub(super) next_seq: Option<u64>,
    /// The number of the next event of the host.
    of_host: watch::Receiver<u64>,
    /// The number of a follower that can notify the user on its terminal.
    #[expect(dead_code, reason = "while it is held, the follower with this number is there")]
    number: Option<Arc<u64>>,
}

/// All followers of a host. While a follower is in here, it either writes or waits for an event.
#[derive(Debug)]
pub(super) struct Followers {
    busy: FuturesUnordered<BoxFuture<'static, Option<Follower>>>,
    of_host: watch::Sender<u64>,
    /// The number of the next follower that can notify the user.
    next_number: u64,
    /// The numbers of the followers that can notify the user, in the order in which they came. A
    /// number that no follower holds any more belongs to a follower that is gone.
    numbers: Vec<Weak<u64>>,
}

impl Followers {
    pub(super) fn new() -> Self {
        Self {
            busy: FuturesUnordered::new(),
            of_host: watch::Sender::new(0),
            next_number: 1,
            numbers: Vec::new(),
        }
    }

    /// Gives a number to a follower that can notify the user on its terminal.
    pub(super) fn number(&mut self) -> Arc<u64> {
        let number = Arc::new(self.next_number);
        self.next_number += 1;
        self.numbers.retain(|number| number.strong_count() > 0);
        self.numbers.push(Arc::downgrade(&number));
        number
    }

    /// Returns the number of the follower that shows the next notification: the one that came last.
    /// Returns `None` if no follower can show it.
    pub(super) fn to_notify(&self) -> Option<u64> {
        self.numbers.iter().rev().find_map(Weak::upgrade).map(|number| *number)
    }

    /// Returns true if no process follows the host.
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Wakes the followers that wait for an event. `next_seq` is the number of the next event.
    pub(super) fn wake(&self, next_seq: u64) {
        self.of_host.send_replace(next_seq);
    }

    /// Adds a follower and sends it the first answer. If there are too many followers already,
    /// refuses it.
    pub(super) fn add(
        &mut self,
        caller: Caller,
        next_seq: Option<u64>,
        number: Option<Arc<u64>>,
        greeting: Arc<str>,
    ) {
        if self.busy.len() >= FOLLOWERS_MOST {
            let says = format!("this run has {FOLLOWERS_MOST} followers already");
            let error = ApiError::new(ErrorCode::RateLimit, says).with("followers", FOLLOWERS_MOST);
            self.busy.push(Box::pin(async move {
                caller.answer(Err(error)).await;
                None
            }));
            return;
        }
        let of_host = self.of_host.subscribe();
        self.write(Follower { caller, next_seq, of_host, number }, vec![greeting]);
    }

    /// Writes lines to a follower.
    pub(super) fn write(&mut self, mut follower: Follower, lines: Vec<Arc<str>>) {
        self.busy.push(Box::pin(async move {
            // Each write can wake the follower, so all lines are written at once.
            let batch = lines.concat();
            drop(lines);
            follower.caller.send(batch.as_bytes()).await.ok()?;
            Some(follower)
        }));
    }

    /// Lets a follower wait until the host has an event with the number `seq`.
    pub(super) fn wait(&mut self, mut follower: Follower, seq: u64) {
        self.busy.push(Box::pin(async move {
            tokio::select! {
                more = follower.of_host.wait_for(|next_seq| *next_seq > seq) => more.ok().map(drop)?,
                () = follower.caller.gone() => return None,
            }
            Some(follower)
        }));
    }

    /// Waits until a follower needs its next lines. The followers that are gone are dropped.
    /// Returns `None` if there are no followers any more. It is cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Follower> {
        loop {
            if let Some(follower) = self.busy.next().await? {
                return Some(follower);
            }
        }
    }
}
