//! Takes connections and serves the requests on them, each connection in a task of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::caller::{Caller, Callers, Connection, Lookups};
use crate::connection_limits::ConnectionLimits;
use crate::tls::handshake;
use crate::write_timeout::WriteTimeoutStream;

/// The maximum number of new connections whose process is being looked for. Others wait in the
/// kernel's queue.
const LOOKUPS_MOST: usize = 64;

/// How long the headers of a request may take. It also ends a connection that is not used.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a caller may take none of the bytes that wait for it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of bytes that are read ahead of a connection. It also limits the headers.
const BUFFER_BYTES: usize = 64 << 10;

/// How long running requests may take when the server ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed `accept`, for example because no file descriptors are free.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves the requests of connections.
#[derive(Clone)]
pub(crate) struct ConnectionService {
    pub(crate) router: Router,
    pub(crate) callers: Callers,
    pub(crate) tls: Option<Tls>,
    pub(crate) stop: CancellationToken,
}

/// The TLS of a server.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The address for a caller that does not use TLS.
    pub(crate) url: String,
}

/// Takes connections until `stop` is cancelled. Then ends the open ones.
pub(crate) async fn serve(listener: TcpListener, service: ConnectionService) {
    let (running_lookups, limits) =
        (Arc::new(Semaphore::new(LOOKUPS_MOST)), ConnectionLimits::default());
    let mut open = JoinSet::new();
    let (lookups, waiting) = Lookups::new(LOOKUPS_MOST);
    open.spawn(Lookups::serve(waiting));
    loop {
        let accepted = tokio::select! {
            () = service.stop.cancelled() => break,
            Some(_ended) = open.join_next(), if !open.is_empty() => continue,
            accepted = next(&listener, &running_lookups) => accepted,
        };
        if let Some(accepted) = accepted {
            open.spawn(service.clone().serve_accepted(accepted, limits.clone(), lookups.clone()));
        }
    }
    drop(lookups);
    let all = async { while open.join_next().await.is_some() {} };
    // A request that takes longer is cut off: dropping the set ends its task.
    let _either = tokio::time::timeout(END_TIMEOUT, all).await;
}

struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    own: SocketAddr,
    lookup: OwnedSemaphorePermit,
}

/// Waits for the next connection. It is cancel-safe.
async fn next(listener: &TcpListener, running_lookups: &Arc<Semaphore>) -> Option<Accepted> {
    let lookup = Arc::clone(running_lookups).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            let own = stream.local_addr().ok()?;
            Some(Accepted { stream, peer, own, lookup })
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

impl ConnectionService {
    /// Serves a connection, if its caller may have another one.
    async fn serve_accepted(self, accepted: Accepted, limits: ConnectionLimits, lookups: Lookups) {
        let Accepted { stream, peer, own, lookup } = accepted;
        let caller = Caller::of(peer, own, self.callers, &lookups).await;
        drop((lookup, lookups));
        let Some(permit) = limits.admit(caller.origin()) else {
            tracing::debug!(%peer, "a connection is closed: its caller has too many");
            return;
        };
        let connection = Connection { caller, permit: permit.clone() };
        let served = tokio::select! {
            served = self.serve_one(stream, connection) => served,
            () = permit.revoked() => return,
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection ended");
        }
    }

    async fn serve_one(self, stream: TcpStream, connection: Connection) -> io::Result<()> {
        // An event is small and must not wait for the next one.
        let _slower = stream.set_nodelay(true);
        let router = self.router.layer(Extension(connection));
        match &self.tls {
            None => {
                requests(WriteTimeoutStream::new(stream, WRITE_TIMEOUT), router, self.stop).await
            }
            Some(Tls { acceptor, url }) => {
                let stream = tokio::select! {
                    stream = handshake(stream, acceptor, url, WRITE_TIMEOUT) => stream?,
                    () = self.stop.cancelled() => return Ok(()),
                };
                requests(stream, router, self.stop).await
            }
        }
    }
}

/// Serves the requests on a connection.
async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    served.map_err(io::Error::other)
}
