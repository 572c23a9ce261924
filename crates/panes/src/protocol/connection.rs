//! The connection to a running pane program. It sends one request at a time. Each answer has a
//! maximum length and a time limit.
//!
//! If a program fails, the error includes the last part of the text that the program wrote to
//! standard error. The module `client` interprets the answers.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use pitcrew_process::job::{Reaped, outlives_variable};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout, timeout_at};

use super::wire::{Hello, LINE_BYTES, Op, PROTOCOL, Refusal, Request};
use crate::PaneError;

/// Time limit for an answer. It is long, because the program may need to start a terminal first.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Maximum number of bytes of standard error that are kept. Older bytes are dropped.
const TAIL_BYTES: usize = 2048;

/// How long to wait for the exit status and the last error output of a program after it has closed
/// its standard output.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Maximum number of bytes that are read from a pipe at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// The connection to a running pane program.
#[derive(Debug)]
pub(super) struct Connection {
    program: String,
    child: Reaped,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    unread: Vec<u8>,
    tail: VecDeque<u8>,
    last_id: u64,
}

/// One answer of the pane program. It is one line of JSON.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) id: Option<u64>,
    #[serde(default)]
    pub(super) ok: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Refusal>,
}

impl Connection {
    /// Starts the pane program.
    pub(super) fn open(argv: &[String]) -> Result<Self, PaneError> {
        let program = argv.first().cloned().unwrap_or_default();
        let refused = |source| PaneError::Io {
            action: "start the pane program",
            what: program.clone(),
            source,
        };
        let mut command = Command::new(&program);
        command
            .args(argv.iter().skip(1))
            .process_group(0)
            .kill_on_drop(true)
            .envs([outlives_variable()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(refused)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(refused(std::io::Error::other("its pipes are missing")));
        };
        let stderr = child.stderr.take();
        let (unread, tail) = (Vec::new(), VecDeque::new());
        Ok(Self {
            program,
            child: Reaped::new(child),
            stdin,
            stdout,
            stderr,
            unread,
            tail,
            last_id: 0,
        })
    }

    /// Sends the request `hello`, which must be the first request.
    pub(super) async fn hello(&mut self) -> Result<Hello, PaneError> {
        let answer = self.ask(Op::Hello { protocol: PROTOCOL }).await?;
        let hello: Hello = self.read(answer)?;
        if hello.protocol != PROTOCOL {
            return Err(self.broken(format!(
                "speaks version {} of the protocol, not {PROTOCOL}",
                hello.protocol
            )));
        }
        Ok(hello)
    }

    /// Sends a request and waits for the answer. The inner `Err` is a refusal by the program.
    pub(super) async fn ask(&mut self, op: Op) -> Result<Result<Value, Refusal>, PaneError> {
        let id = self.send(op).await?;
        let answer = self.answer().await?;
        // If the id is wrong, requests and answers no longer match, so no later answer can be
        // trusted.
        if answer.id != Some(id) {
            let answered = answer.id.map_or_else(|| "null".to_owned(), |id| id.to_string());
            return Err(self.broken(format!("answered request {answered} when it was asked {id}")));
        }
        self.outcome(answer)
    }

    /// Sends a request without waiting for the answer. Returns the request's id.
    pub(super) async fn send(&mut self, op: Op) -> Result<u64, PaneError> {
        self.last_id += 1;
        let id = self.last_id;
        let line = serde_json::to_string(&Request { id, op })
            .map_err(|e| self.broken(format!("was asked too much: {e}")))?;
        self.send_line(&line).await?;
        Ok(id)
    }

    /// Sends a line without checking it. The conformance checks also send invalid lines.
    pub(super) async fn send_line(&mut self, line: &str) -> Result<(), PaneError> {
        let line = format!("{line}\n");
        let sending = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.flush().await
        };
        match timeout(ANSWER_TIME, sending).await {
            Ok(Ok(())) => Ok(()),
            // Writing failed because the program has closed its input, so the program has ended.
            Ok(Err(_)) => Err(self.ended().await),
            Err(_) => Err(PaneError::Slow { command: self.program.clone(), after: ANSWER_TIME }),
        }
    }

    /// Waits for the next answer.
    pub(super) async fn answer(&mut self) -> Result<Answer, PaneError> {
        let Ok(line) = timeout(ANSWER_TIME, self.line()).await else {
            return Err(PaneError::Slow { command: self.program.clone(), after: ANSWER_TIME });
        };
        let line = line?;
        serde_json::from_slice(&line).map_err(|error| {
            let said: String = String::from_utf8_lossy(&line).chars().take(100).collect();
            self.broken(format!("said {said:?}, which is no answer ({error})"))
        })
    }

    /// Converts an answer line into the program's result or its refusal.
    pub(super) fn outcome(&self, answer: Answer) -> Result<Result<Value, Refusal>, PaneError> {
        match (answer.ok, answer.error) {
            (Some(ok), None) => Ok(Ok(ok)),
            (None, Some(error)) => Ok(Err(error)),
            (Some(_), Some(_)) | (None, None) => {
                Err(self.broken("gave an answer that is neither ok nor error".to_owned()))
            }
        }
    }

    /// Parses the result of a successful answer into the expected type.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        answer: Result<Value, Refusal>,
    ) -> Result<T, PaneError> {
        let refused = |it: Refusal| PaneError::Answered {
            program: self.program.clone(),
            code: it.code,
            message: it.message,
        };
        let value = answer.map_err(refused)?;
        serde_json::from_value(value)
            .map_err(|e| self.broken(format!("gave an answer of another shape: {e}")))
    }

    /// Builds the error for a program that broke the protocol.
    pub(super) fn broken(&self, what: String) -> PaneError {
        let (front, back) = self.tail.as_slices();
        let stderr = String::from_utf8_lossy(&[front, back].concat()).trim().to_owned();
        PaneError::Broken { program: self.program.clone(), what, stderr }
    }

    async fn line(&mut self) -> Result<Vec<u8>, PaneError> {
        let mut looked_at = 0;
        loop {
            let fresh = self.unread.get(looked_at..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(looked_at + at + 1);
                return Ok(std::mem::replace(&mut self.unread, rest));
            }
            // The bytes read so far contain no line break. After the next read, search only the new
            // bytes.
            looked_at = self.unread.len();
            if looked_at >= LINE_BYTES {
                return Err(self.broken(format!("said a line of more than {LINE_BYTES} bytes")));
            }
            if self.chunk().await? == 0 {
                return Err(self.ended().await);
            }
        }
    }

    /// Reads the next bytes of standard output, and meanwhile stores what comes from standard
    /// error. Returns 0 if standard output is closed.
    async fn chunk(&mut self) -> Result<usize, PaneError> {
        let mut out = vec![0; CHUNK_BYTES];
        let mut err = vec![0; CHUNK_BYTES];
        loop {
            tokio::select! {
                read = self.stdout.read(&mut out) => {
                    // A pipe that cannot be read counts as closed.
                    let count = read.unwrap_or(0);
                    self.unread.extend_from_slice(out.get(..count).unwrap_or_default());
                    return Ok(count);
                }
                read = next(&mut self.stderr, &mut err) => match read {
                    // Standard error is closed. The program may still answer on standard output, so
                    // continue.
                    0 => self.stderr = None,
                    count => self.keep(err.get(..count).unwrap_or_default()),
                },
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.tail.extend(bytes);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
    }

    /// Builds the error for a program that has closed its standard output. Waits a short time for
    /// the program's exit status and its last error output.
    async fn ended(&mut self) -> PaneError {
        let deadline = Instant::now() + LAST_WORDS;
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.stderr.is_some()
            && let Ok(count @ 1..) = timeout_at(deadline, next(&mut self.stderr, &mut chunk)).await
        {
            self.keep(chunk.get(..count).unwrap_or_default());
        }
        let status = timeout_at(deadline, self.child.wait()).await.ok().and_then(Result::ok);
        let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
        self.broken(format!("ended{status}"))
    }
}

/// Reads the next bytes of standard error. Returns 0 when it is closed. If `stderr` is `None`, this
/// future never completes.
async fn next(stderr: &mut Option<ChildStderr>, buffer: &mut [u8]) -> usize {
    match stderr {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}
