//! A small HTTP client that sends exactly what a test says.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client with the server's token.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { method, path, headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header. It replaces a header of the same name that the client would send.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        let sent = self.header("Content-Type", "application/json");
        Self { body: body.to_string().into_bytes(), ..sent }
    }

    /// Replaces the body.
    pub(crate) fn raw_body(self, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..self }
    }

    /// Returns the request without a token.
    pub(crate) fn bare(self) -> Self {
        self.header("Authorization", "")
    }

    pub(crate) fn bytes(&self, client: &Client) -> Vec<u8> {
        let mut headers = self.headers.clone();
        let usual = [
            ("Host", client.address.to_string()),
            ("Authorization", format!("Bearer {}", client.token)),
            ("Content-Length", self.body.len().to_string()),
            ("Connection", "close".to_owned()),
        ];
        for (name, value) in usual {
            if !headers.iter().any(|(there, _)| there.eq_ignore_ascii_case(name)) {
                headers.push((name.to_owned(), value));
            }
        }
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned() }
    }

    pub(crate) async fn send(&self, request: Request) -> Answer {
        let sending = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            // The server may answer and close before it has read everything.
            let _cut_off = stream.write_all(&request.bytes(self)).await;
            read_answer(&mut stream).await
        };
        tokio::time::timeout(PATIENCE, sending).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::new("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Request::new("POST", path).json(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(Request::new("PATCH", path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Request::new("DELETE", path)).await
    }
}

/// Reads an answer up to the end of the connection.
pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let mut read = Vec::new();
    // A server that closes before it has read the request resets the connection. What came before
    // counts.
    let _reset = stream.read_to_end(&mut read).await;
    let end = read.windows(4).position(|four| four == b"\r\n\r\n").expect("no head of an answer");
    let head = String::from_utf8(read[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = read[end + 4..].to_vec();
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(&body) } else { body };
    Answer { status, head, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            break;
        }
        whole.extend(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
    whole
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(there, _)| there.eq_ignore_ascii_case(name)).map(|(_, it)| it)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks the status and returns the JSON of the answer.
    #[track_caller]
    pub(crate) fn of(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self.json()
    }

    /// Checks that the answer is an error with this status and code, and returns it.
    #[track_caller]
    pub(crate) fn error(&self, status: u16, code: &str) -> Value {
        let envelope = self.of(status);
        assert_eq!(envelope["success"], false, "{envelope}");
        assert_eq!(envelope["error"], code, "{envelope}");
        assert!(!envelope["message"].as_str().unwrap().is_empty(), "{envelope}");
        envelope
    }
}
