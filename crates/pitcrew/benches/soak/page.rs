//! A page in a process of its own. It follows the event stream of `pitcrew serve` as the
//! EventSource of a browser does: over HTTP, and after a broken connection from its last event on.

use std::net::SocketAddr;
use std::path::Path;

use pitcrew_view::host::HostEvent;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpSocket, TcpStream};

use crate::seen::{News, record};
use crate::team::TEAM;

/// The size of a page's receive buffer, in bytes. A large one would hold all events that a stopped
/// page does not read, and the server would not see that the page reads nothing.
const RECEIVE_BUFFER: u32 = 64 * 1024;

/// The event stream of the team, over all its connections.
struct EventStream {
    /// Address and port of the server.
    host: SocketAddr,
    token: String,
    /// The lines of the connection, unless it broke.
    lines: Option<Lines<BufReader<TcpStream>>>,
    /// The id of the last event. A new connection goes on after it.
    last_id: Option<String>,
}

/// An event of the stream.
#[derive(Debug, Default)]
struct ServerSentEvent {
    name: String,
    id: Option<String>,
    data: String,
}

/// The part of a host's state that this process needs.
#[derive(Deserialize)]
struct State {
    next_seq: u64,
}

/// Follows the stream until the benchmark closes the standard input of this process.
pub(crate) fn follow_server(url: &str, token_file: &Path, counts_bytes: bool) {
    let token = std::fs::read_to_string(token_file).expect("the token of the server");
    let host = url.strip_prefix("http://").expect("an address without TLS");
    let host = host.trim_end_matches('/').parse().expect("an address and a port");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let token = token.trim().to_owned();
        let mut stream = EventStream { host, token, lines: None, last_id: None };
        stream.connect().await;
        record(counts_bytes, async || stream.next().await).await;
    });
}

impl EventStream {
    async fn connect(&mut self) {
        let Self { host, token, .. } = self;
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(RECEIVE_BUFFER).expect("a smaller buffer");
        let mut connection = socket.connect(*host).await.expect("the server lives");
        let mut request = format!(
            "GET /api/teams/{TEAM}/events HTTP/1.1\r\nHost: {host}\r\n\
             Authorization: Bearer {token}\r\nAccept: text/event-stream\r\n"
        );
        if let Some(id) = &self.last_id {
            request += &format!("Last-Event-ID: {id}\r\n");
        }
        connection.write_all((request + "\r\n").as_bytes()).await.expect("the server reads");
        let mut lines = BufReader::new(connection).lines();
        let status = lines.next_line().await.expect("an answer").unwrap_or_default();
        assert!(status.starts_with("HTTP/1.1 200 "), "the server answers {status:?}");
        while !lines.next_line().await.expect("a head").expect("a whole head").is_empty() {}
        self.lines = Some(lines);
    }

    /// Waits for what the page gets next.
    async fn next(&mut self) -> News {
        loop {
            let Some(event) = self.next_event().await else {
                self.connect().await;
                return News::Reconnected;
            };
            self.last_id = event.id.or(self.last_id.take());
            match event.name.as_str() {
                "snapshot" => {
                    let state: State = serde_json::from_str(&event.data).expect("a state");
                    return News::Snapshot { next_seq: state.next_seq };
                }
                "event" => {
                    let event: HostEvent = serde_json::from_str(&event.data).expect("an event");
                    return News::Event(Box::new(event));
                }
                // The host is late, and what comes after this has its lateness.
                "silent" => {}
                other => panic!("the team does not run any more: {other:?}"),
            }
        }
    }

    /// Waits for the next whole event. Returns `None` at the end of the connection.
    async fn next_event(&mut self) -> Option<ServerSentEvent> {
        let lines = self.lines.as_mut()?;
        let mut event = ServerSentEvent::default();
        // A server that has waited too long for this process resets the connection.
        while let Ok(Some(line)) = lines.next_line().await {
            // The lines of chunks and comments are skipped. The server sends an event as one chunk,
            // so the lines of events are whole.
            match line.split_once(": ") {
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("data", data)) => data.clone_into(&mut event.data),
                Some(_) => {}
                None if line.is_empty() && !event.name.is_empty() => return Some(event),
                None => {}
            }
        }
        self.lines = None;
        None
    }
}
