//! The server: binds its address, and serves until it is stopped.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use futures_util::future::join;
use pitcrew_team::Teams;
use pitcrew_view::changes::Worktrees;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::Keys;
use crate::app::{App, NewTeams, Shared};
use crate::caller::Callers;
use crate::connections::{self, ConnectionService, Tls};
use crate::device_streams::DeviceStreams;
use crate::devices::Devices;
use crate::logs::Logs;
use crate::metrics::Metrics;
use crate::pairing::Tries;
use crate::reach::Reach;
use crate::read_rates::ReadRates;
use crate::remembered::Remembered;
use crate::routes;
use crate::site::Site;
use crate::token::Token;
use crate::viewing::{self, Viewed};

/// How many replays of teams are made at a time. The replay of a long run takes a processor for
/// seconds, and much memory.
const REPLAYS_AT_A_TIME: usize = 2;

/// What a server needs.
#[derive(Debug)]
pub struct Options {
    /// All teams below the root, for changes.
    pub teams: Teams,
    /// The same teams, for reads. Their store writes nothing.
    pub reads: Teams,
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
    /// From where callers reach the server.
    pub reach: Reach,
}

/// The reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen at {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
}

/// A server that listens at its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Shared,
    callers: Callers,
    tls: Option<Tls>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the address. From then on, callers wait for [`Server::serve`].
    ///
    /// # Errors
    /// If the address is in use or cannot be used.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let Options { teams, reads, root, new_teams, worktrees, token, devices, reach } = options;
        let wanted = reach.address();
        let bind = |source| ServeError::Bind { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let site = Site::new(&reach, address);
        let (callers, tls) = match &reach {
            Reach::Loopback { .. } => (Callers::User, None),
            Reach::Proxy { .. } => (Callers::AlsoProxy, None),
            Reach::Tls { certificate, .. } => {
                let (acceptor, url) = (certificate.acceptor(), site.url().to_owned());
                (Callers::AlsoOtherMachines, Some(Tls { acceptor, url }))
            }
        };
        let app = App {
            teams,
            reads: reads.remembering(),
            root,
            new_teams,
            replay_permits: Semaphore::new(REPLAYS_AT_A_TIME),
            worktrees,
            keys: Keys::new(site, token),
            metrics: Metrics::default(),
            logs: Logs::default(),
            devices,
            device_streams: DeviceStreams::default(),
            snapshots: Arc::default(),
            remembered: Remembered::default(),
            pair_tries: Tries::default(),
            read_rates: ReadRates::default(),
            stop: CancellationToken::new(),
        };
        Ok(Self { listener, address, app: Arc::new(app), callers, tls })
    }

    /// The origin under which browsers reach the server, such as `https://team.example.org:7420`.
    #[must_use]
    pub fn url(&self) -> &str {
        self.app.keys.site().url()
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
        let Self { listener, app, callers, tls, .. } = self;
        let stop = app.stop.clone();
        let service = ConnectionService { router, callers, tls, stop: stop.clone() };
        let serving = join(connections::serve(listener, service), beside);
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
