//! The server: binds the port, and serves until it is stopped.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use futures_util::future::join;
use pitcrew_team::Teams;
use pitcrew_view::changes::Worktrees;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::access::Keys;
use crate::app::{App, NewTeams, Shared};
use crate::devices::Devices;
use crate::metrics::Metrics;
use crate::pairing::Tries;
use crate::token::Token;
use crate::viewing::Viewed;
use crate::{connections, routes, viewing};

/// What a server needs.
#[derive(Debug)]
pub struct Options {
    /// All teams below the root.
    pub teams: Teams,
    /// The root.
    pub root: PathBuf,
    /// How teams are made through the API.
    pub new_teams: NewTeams,
    /// The worktrees of members, for reviews.
    pub worktrees: Worktrees,
    /// The token of programs.
    pub token: Token,
    /// The paired devices.
    pub devices: Devices,
    /// The port on the loopback address. With 0 the system chooses one.
    pub port: u16,
}

/// The reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be used.
    #[error("cannot listen at 127.0.0.1:{port}")]
    Bind {
        /// The port.
        port: u16,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
}

/// A server that listens on the loopback address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Shared,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the port. From then on, callers wait for [`Server::serve`].
    ///
    /// # Errors
    /// If the port is in use or cannot be used.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let Options { teams, root, new_teams, worktrees, token, devices, port } = options;
        let bind = |source| ServeError::Bind { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let keys = Keys::new(address.port(), token);
        let stop = CancellationToken::new();
        let metrics = Metrics::default();
        let pair_tries = Tries::default();
        let app =
            App { teams, root, new_teams, worktrees, keys, metrics, devices, pair_tries, stop };
        let app = Arc::new(app);
        Ok(Self { listener, address, app })
    }

    /// The address at which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a link that opens the page in a browser, once and within 10 minutes.
    #[must_use]
    pub fn link(&self) -> String {
        self.app.keys.new_link()
    }

    /// Serves until `until` is ready. Then ends the event streams and waits for running requests.
    pub async fn serve(self, until: impl Future<Output = ()>) {
        let router = routes::all(self.app.clone());
        self.serve_paths(router, async {}, until).await;
    }

    /// Serves one view and no team until `until` is ready. Then ends as [`Server::serve`] does.
    pub async fn serve_view(self, viewed: Viewed, until: impl Future<Output = ()>) {
        let (view, task) = viewing::open(viewed);
        let router = routes::of_view(self.app.clone(), view);
        self.serve_paths(router, task, until).await;
    }

    /// Serves these paths. `beside` is a task that they need.
    async fn serve_paths(
        self,
        router: Router,
        beside: impl Future<Output = ()>,
        until: impl Future<Output = ()>,
    ) {
        let stop = self.app.stop.clone();
        let serving = join(connections::serve(self.listener, router, stop.clone()), beside);
        tokio::pin!(serving);
        tokio::select! {
            _ended = serving.as_mut() => {}
            () = until => {
                stop.cancel();
                serving.await;
            }
        }
    }
}
