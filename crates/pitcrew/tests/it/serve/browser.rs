//! A blocking HTTP client for the server, with its event streams.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::patience::PATIENCE;

/// A client with the server's token.
pub(crate) struct Browser {
    host: String,
    token: String,
}

/// An open event stream.
pub(super) struct EventStream {
    lines: BufReader<TcpStream>,
}

/// An event of a stream.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) data: Value,
}

impl Browser {
    pub(super) fn new(url: &str, token: &str) -> Self {
        Self { host: url.strip_prefix("http://").unwrap().to_owned(), token: token.to_owned() }
    }

    pub(super) fn port(&self) -> u16 {
        self.host.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, None, &[])
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send("POST", path, Some(body), &[])
    }

    /// Sends a request, and returns the status and the JSON of the answer.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let (status, answer) = answer(self.asked(method, path, body, headers));
        (status, serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }

    /// Returns the text of a successful answer.
    pub(super) fn text(&self, path: &str) -> String {
        let (status, answer) = answer(self.asked("GET", path, None, &[]));
        assert_eq!(status, 200, "{path}");
        String::from_utf8(answer).unwrap()
    }

    /// Opens the event stream of a team.
    pub(super) fn events(&self, team: &str, last_id: Option<&str>) -> EventStream {
        let header = last_id.map(|id| ("Last-Event-ID", id));
        let path = format!("/api/teams/{team}/events");
        let stream = self.asked("GET", &path, None, header.as_slice());
        let mut lines = BufReader::new(stream);
        assert_eq!(head(&mut lines).0, 200);
        EventStream { lines }
    }

    fn asked(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let (host, token) = (&self.host, &self.token);
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        stream.write_all((request + "\r\n" + &body).as_bytes()).unwrap();
        stream
    }
}

/// Reads the status and the body of an answer.
fn answer(stream: TcpStream) -> (u16, Vec<u8>) {
    let mut stream = BufReader::new(stream);
    let (status, length) = head(&mut stream);
    let mut answer = vec![0; length.expect("the answer has no length")];
    stream.read_exact(&mut answer).unwrap();
    (status, answer)
}

/// Reads the head of an answer. Returns its status and the length of its body, if it has one.
fn head(stream: &mut BufReader<TcpStream>) -> (u16, Option<usize>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_lowercase()),
        }
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
    (status, length.map(|length| length.parse().unwrap()))
}

impl EventStream {
    /// Waits for the next event. Returns `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Option<Event> {
        let (mut name, mut id, mut data) = (None, String::new(), Value::Null);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The lines of chunks, comments and unknown fields are skipped. A chunk is one event,
            // so its lines are whole.
            match line.trim_end().split_once(": ") {
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("id", value)) => value.clone_into(&mut id),
                Some(("data", value)) => data = serde_json::from_str(value).unwrap(),
                Some(_) => {}
                None if line.trim_end().is_empty() && name.is_some() => {
                    return Some(Event { name: name?, id, data });
                }
                None => {}
            }
        }
    }

    /// Waits for an event that `is_it` accepts. Skips those before it.
    #[track_caller]
    pub(super) fn until(&mut self, is_it: impl Fn(&Event) -> bool) -> Event {
        let mut before = Vec::new();
        while let Some(event) = self.next() {
            if is_it(&event) {
                return event;
            }
            before.push(event);
        }
        panic!("the stream ended: {before:#?}");
    }
}
