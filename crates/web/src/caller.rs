//! The process at the other end of a connection.
//!
//! All agents run as the user, so an agent's command can read the token. As the control socket does,
//! the server asks the kernel who calls, and refuses other users and what a tool of an agent started.

use std::net::SocketAddr;
use std::sync::Arc;

use pitcrew_view::caller::{Peer, peer_of};
use tokio::sync::OnceCell;

/// The caller of one connection. The answer of the kernel is kept while the connection is open.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    addresses: (SocketAddr, SocketAddr),
    checked: Arc<OnceCell<Result<(), String>>>,
}

impl Caller {
    /// Returns the caller of a connection from `peer` to `own`.
    pub(crate) fn new(peer: SocketAddr, own: SocketAddr) -> Self {
        Self { addresses: (peer, own), checked: Arc::default() }
    }

    /// Checks that the caller may call.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let (peer, own) = self.addresses;
        let look = || async move {
            match tokio::task::spawn_blocking(move || peer_of(peer, own)).await {
                Ok(found) => judged(found),
                Err(error) => Err(format!("cannot find out which process calls: {error}")),
            }
        };
        self.checked.get_or_init(look).await.clone()
    }
}

fn judged(found: std::io::Result<Peer>) -> Result<(), String> {
    match found {
        Ok(Peer::User) => Ok(()),
        Ok(Peer::OtherUser) => Err("another user of this machine cannot call".to_owned()),
        Ok(Peer::Tool { pid }) => Err(format!(
            "process {pid} was started by a tool of an agent, and agents ask their lead by mail"
        )),
        Err(error) => Err(format!("cannot find out which process calls: {error}")),
    }
}
