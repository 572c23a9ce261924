//! Takes connections and serves the requests on them, each connection in a task of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::patient::PatientStream;

/// The maximum number of connections. Others wait in the kernel's queue. A browser opens six to a
/// server.
const CONNECTIONS_MOST: usize = 256;

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

/// Takes connections until `stop` is cancelled. Then ends the open ones.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MOST));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_ended) = open.join_next(), if !open.is_empty() => continue,
            accepted = next(&listener, &room) => accepted,
        };
        if let Some(Accepted { stream, peer, own, permit }) = accepted {
            let router = router.clone().layer(Extension(Caller::new(peer, own)));
            open.spawn(serve_one(stream, router, stop.clone(), permit));
        }
    }
    let all = async { while open.join_next().await.is_some() {} };
    // A request that takes longer is cut off: dropping the set ends its task.
    let _either = tokio::time::timeout(END_PATIENCE, all).await;
}

struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    own: SocketAddr,
    permit: OwnedSemaphorePermit,
}

/// Waits for room and for the next connection. It is cancel-safe.
async fn next(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<Accepted> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            let own = stream.local_addr().ok()?;
            Some(Accepted { stream, peer, own, permit })
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

async fn serve_one(
    stream: TcpStream,
    router: Router,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    // An event is small and must not wait for the next one.
    let _slower = stream.set_nodelay(true);
    let io = TokioIo::new(PatientStream::new(stream, WRITE_PATIENCE));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}
