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
use crate::crowd::Crowd;
use crate::patient::PatientStream;
use crate::tls::handshake;

/// The maximum number of new connections whose process is being looked for. Others wait in the
/// kernel's queue.
const LOOKS_MOST: usize = 64;

/// How long the headers of a request may take. It also ends a connection that is not used.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a caller may take none of the bytes that wait for it.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// The maximum number of bytes that are read ahead of a connection. It also limits the headers.
const BUFFER_BYTES: usize = 64 << 10;

/// How long running requests may take when the server ends.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Pause after a failed `accept`, for example because no file descriptors are free.
const PAUSE: Duration = Duration::from_secs(1);

/// How connections are taken.
#[derive(Clone)]
pub(crate) struct Taking {
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
pub(crate) async fn serve(listener: TcpListener, taking: Taking) {
    let (looks, crowd) = (Arc::new(Semaphore::new(LOOKS_MOST)), Crowd::default());
    let mut open = JoinSet::new();
    let (lookups, waiting) = Lookups::new(LOOKS_MOST);
    open.spawn(Lookups::serve(waiting));
    loop {
        let accepted = tokio::select! {
            () = taking.stop.cancelled() => break,
            Some(_ended) = open.join_next(), if !open.is_empty() => continue,
            accepted = next(&listener, &looks) => accepted,
        };
        if let Some(accepted) = accepted {
            open.spawn(taking.clone().take(accepted, crowd.clone(), lookups.clone()));
        }
    }
    drop(lookups);
    let all = async { while open.join_next().await.is_some() {} };
    // A request that takes longer is cut off: dropping the set ends its task.
    let _either = tokio::time::timeout(END_PATIENCE, all).await;
}

struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    own: SocketAddr,
    look: OwnedSemaphorePermit,
}

/// Waits for the next connection. It is cancel-safe.
async fn next(listener: &TcpListener, looks: &Arc<Semaphore>) -> Option<Accepted> {
    let look = Arc::clone(looks).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            let own = stream.local_addr().ok()?;
            Some(Accepted { stream, peer, own, look })
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

impl Taking {
    /// Serves a connection, if there is a place for its caller.
    async fn take(self, accepted: Accepted, crowd: Crowd, lookups: Lookups) {
        let Accepted { stream, peer, own, look } = accepted;
        let caller = Caller::of(peer, own, self.callers, &lookups).await;
        drop((look, lookups));
        let Some(place) = crowd.enter(caller.origin()) else {
            tracing::debug!(%peer, "a connection is closed: its caller has too many");
            return;
        };
        let connection = Connection { caller, place: place.clone() };
        let served = tokio::select! {
            served = self.serve_one(stream, connection) => served,
            () = place.ends() => return,
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
            None => requests(PatientStream::new(stream, WRITE_PATIENCE), router, self.stop).await,
            Some(Tls { acceptor, url }) => {
                let stream = tokio::select! {
                    stream = handshake(stream, acceptor, url, WRITE_PATIENCE) => stream?,
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
        .header_read_timeout(HEADER_PATIENCE)
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
