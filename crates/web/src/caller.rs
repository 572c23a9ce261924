//! The process at the other end of a connection.
//!
//! All agents run as the user, so an agent's command can read the token. As the control socket does,
//! the server asks the kernel who calls, and refuses other users and what a tool of an agent started.
//! The kernel knows nothing about callers on other machines: they need a key, as everybody.

use std::io;
use std::net::SocketAddr;

use pitcrew_view::caller::{Call, Peer, peers_of};
use tokio::sync::{mpsc, oneshot};

use crate::connection_limits::{Origin, Permit};

/// Which callers the server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    /// Processes of the user on this machine.
    User,
    /// Also other users, because a proxy usually runs as one.
    AlsoProxy,
    /// Processes of the user on this machine, and other machines.
    AlsoOtherMachines,
}

/// The caller of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The address at which the connection arrived.
    own: SocketAddr,
    origin: Origin,
    judged: Result<(), String>,
}

impl Caller {
    /// Asks who connected from `peer` to `own`.
    pub(crate) async fn of(
        peer: SocketAddr,
        own: SocketAddr,
        callers: Callers,
        lookups: &Lookups,
    ) -> Self {
        let found = match lookups.peer_of((peer, own)).await {
            Ok(found) => judged(found, peer, callers),
            Err(error) => Err(format!("cannot find out which process calls: {error}")),
        };
        let (origin, judged) = match found {
            Ok(origin) => (origin, Ok(())),
            Err(reason) => (Origin::Refused, Err(reason)),
        };
        Self { own, origin, judged }
    }

    /// The callers with which this one shares a limit of connections.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// The address at which the connection arrived.
    pub(crate) fn own(&self) -> SocketAddr {
        self.own
    }

    /// Checks that the caller may call.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.judged.clone()
    }
}

/// Looks for the processes of callers, one look for all that wait.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    asks: mpsc::Sender<Ask>,
}

/// A call whose process is looked for.
#[derive(Debug)]
pub(crate) struct Ask {
    call: Call,
    answer: oneshot::Sender<io::Result<Peer>>,
}

impl Lookups {
    /// Returns the lookups, and the calls that [`Lookups::serve`] looks for. At most `most` wait.
    pub(crate) fn new(most: usize) -> (Self, mpsc::Receiver<Ask>) {
        let (asks, waiting) = mpsc::channel(most);
        (Self { asks }, waiting)
    }

    /// Looks for the processes of calls, until all clones of the lookups are dropped.
    pub(crate) async fn serve(mut waiting: mpsc::Receiver<Ask>) {
        let (mut asks, most) = (Vec::new(), waiting.max_capacity());
        while waiting.recv_many(&mut asks, most).await > 0 {
            let calls: Vec<Call> = asks.iter().map(|ask| ask.call).collect();
            let found = tokio::task::spawn_blocking(move || peers_of(&calls)).await;
            // If the look failed, the answers are dropped unanswered, which is an error there.
            for (ask, peer) in asks.drain(..).zip(found.unwrap_or_default()) {
                // A connection may have been closed meanwhile.
                drop(ask.answer.send(peer));
            }
        }
    }

    async fn peer_of(&self, call: Call) -> io::Result<Peer> {
        let (answer, found) = oneshot::channel();
        self.asks.send(Ask { call, answer }).await.map_err(io::Error::other)?;
        found.await.map_err(io::Error::other)?
    }
}

/// A connection, as its requests know it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) caller: Caller,
    pub(crate) permit: Permit,
}

fn judged(found: Peer, peer: SocketAddr, callers: Callers) -> Result<Origin, String> {
    match (found, callers) {
        (Peer::Tool { pid }, _) => Err(format!(
            "process {pid} was started by a tool of an agent, and agents ask their lead by mail"
        )),
        (Peer::User { .. } | Peer::OtherUser, Callers::AlsoProxy) => Ok(Origin::Proxy),
        (Peer::User { pid }, _) => Ok(Origin::Process(pid)),
        (Peer::OtherUser, _) => Err("another user of this machine cannot call".to_owned()),
        (Peer::OtherMachine, Callers::AlsoOtherMachines) => Ok(Origin::machine(peer.ip())),
        (Peer::OtherMachine, _) => Err("another machine cannot call".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_call_depends_on_from_where_the_server_can_be_reached() {
        let peer = "192.0.2.7:1".parse().unwrap();
        let ok = |found, callers| judged(found, peer, callers).is_ok();
        let all = [Callers::User, Callers::AlsoProxy, Callers::AlsoOtherMachines];
        for (found, expected) in [
            (Peer::User { pid: 1 }, [true, true, true]),
            (Peer::OtherUser, [false, true, false]),
            (Peer::Tool { pid: 1 }, [false, false, false]),
            (Peer::OtherMachine, [false, false, true]),
        ] {
            assert_eq!(all.map(|callers| ok(found, callers)), expected, "{found:?}");
        }
    }
}
