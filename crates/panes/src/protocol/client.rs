//! The backend that uses an external pane program through the pane protocol.
//!
//! One task starts the program and sends it one request at a time. If the program breaks the
//! protocol, hangs or ends, the task stops it, and starts it again for the next request. The panes
//! stay open meanwhile, because they belong to the terminal and not to the program.

use std::fmt;

use async_trait::async_trait;
use pitcrew_protocol::PaneHost;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::connection::Connection;
use super::wire::{Alive, Capability, Hello, Listed, Op, Refusal, Screen, Start, Started, code};
use crate::launch::{Launcher, with_screen};
use crate::{NewPane, PaneError, PaneId, PaneState, PaneTag, Panes, StartedPane};

/// Maximum number of requests that wait for the program. The limit keeps memory use small. If it is
/// reached, callers wait before they can add a request.
const WAITING: usize = 64;

/// Maximum length of a pane's id in bytes. The limit exists because the id is stored in the team's
/// config.
const ID_BYTES: usize = 256;

/// The backend for panes that an external program manages.
pub struct PaneProgram {
    argv: Vec<String>,
    launcher: Launcher,
    requests: mpsc::Sender<Call>,
    _asking: AbortOnDropHandle<()>,
}

/// A request and the channel for its answer.
struct Call {
    op: Op,
    answer: oneshot::Sender<Result<Value, PaneError>>,
}

impl PaneProgram {
    /// Creates the backend for the program with these arguments. The program is started with the
    /// first request. `launcher` says how the process of a pane gets its launch.
    ///
    /// This function must be called inside a tokio runtime.
    #[must_use]
    pub fn new(argv: Vec<String>, launcher: Launcher) -> Self {
        let (requests, waiting) = mpsc::channel(WAITING);
        let asking = AbortOnDropHandle::new(tokio::spawn(answer_all(argv.clone(), waiting)));
        Self { argv, launcher, requests, _asking: asking }
    }

    async fn ask<T: DeserializeOwned>(&self, op: Op) -> Result<T, PaneError> {
        let (answer, answered) = oneshot::channel();
        let lost = || self.broken("is asked no more");
        self.requests.send(Call { op, answer }).await.map_err(|_| lost())?;
        let value = answered.await.map_err(|_| lost())??;
        serde_json::from_value(value)
            .map_err(|e| self.broken(&format!("gave an answer of another shape: {e}")))
    }

    fn program(&self) -> &str {
        self.argv.first().map(String::as_str).unwrap_or_default()
    }

    fn broken(&self, what: &str) -> PaneError {
        PaneError::Broken {
            program: self.program().to_owned(),
            what: what.to_owned(),
            stderr: String::new(),
        }
    }

    fn checked(&self, pane: PaneId) -> Result<PaneId, PaneError> {
        // An external program chose this id. Check it, because it will be stored in the team's
        // config.
        let is_fit =
            !pane.0.is_empty() && pane.0.len() <= ID_BYTES && !pane.0.contains(char::is_control);
        if is_fit { Ok(pane) } else { Err(self.broken(&format!("named a pane {:.80?}", pane.0))) }
    }
}

impl fmt::Debug for PaneProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaneProgram").field("program", &self.program()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Panes for PaneProgram {
    fn backend_type(&self) -> &'static str {
        "pane"
    }

    fn host(&self) -> PaneHost {
        PaneHost { command: self.argv.clone(), ..PaneHost::of(self.backend_type()) }
    }

    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError> {
        pane.check()?;
        // The program learns nothing secret, and what it keeps in files starts no other program.
        let offer = self.launcher.offer(pane)?;
        let asked_for = NewPane { argv: offer.argv().to_vec(), env: Vec::new(), ..pane.clone() };
        let started: Started = self.ask(Op::Start(Start::of(&asked_for))).await?;
        let started = StartedPane { id: self.checked(started.pane.clone())?, ..started.into() };
        match offer.give(started.pid).await {
            Ok(pid) => Ok(StartedPane { pid: Some(pid), ..started }),
            Err(error) => {
                let screen = self.screen(&started.id).await.ok().flatten();
                // The requested program does not run, so nobody needs the pane.
                let _ = self.stop(&started.id, &pane.tag).await;
                Err(with_screen(error, screen.as_deref()))
            }
        }
    }

    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError> {
        Ok(self.ask::<Alive>(Op::Alive { pane: pane.clone() }).await?.into())
    }

    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError> {
        Ok(self.ask::<Screen>(Op::Screen { pane: pane.clone() }).await?.text)
    }

    async fn show(&self, pane: &PaneId) -> Result<(), PaneError> {
        self.ask::<Value>(Op::Show { pane: pane.clone() }).await.map(drop)
    }

    async fn hide(&self, pane: &PaneId) -> Result<(), PaneError> {
        self.ask::<Value>(Op::Hide { pane: pane.clone() }).await.map(drop)
    }

    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError> {
        self.ask::<Value>(Op::Stop { pane: pane.clone(), tag: tag.to_string() }).await.map(drop)
    }

    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError> {
        let listed: Listed = self.ask(Op::List { tag: tag.to_string() }).await?;
        let mut found = Vec::new();
        for it in listed.panes {
            let its: PaneTag =
                it.tag.parse().map_err(|e| self.broken(&format!("listed a pane: {e}")))?;
            // The program may wrongly return panes with other tags, so check each tag here.
            if tag.covers(&its) {
                found.push((self.checked(it.pane)?, its));
            }
        }
        Ok(found)
    }
}

/// Receives requests and sends them to the program, one after the other. Ends when all senders are
/// dropped.
async fn answer_all(argv: Vec<String>, mut waiting: mpsc::Receiver<Call>) {
    let mut open: Option<(Connection, Hello)> = None;
    while let Some(Call { op, answer }) = waiting.recv().await {
        let outcome = ask_one(&argv, &mut open, op).await;
        if let Err(PaneError::Broken { .. } | PaneError::Slow { .. }) = &outcome {
            // Dropping the connection stops the program.
            open = None;
        }
        // An error means that the caller no longer waits for the answer. It is ignored, because the
        // request was carried out anyway.
        let _ = answer.send(outcome);
    }
}

async fn ask_one(
    argv: &[String],
    open: &mut Option<(Connection, Hello)>,
    op: Op,
) -> Result<Value, PaneError> {
    if open.is_none() {
        let mut link = Connection::open(argv)?;
        let hello = link.hello().await?;
        *open = Some((link, hello));
    }
    let Some((link, hello)) = open else { return Ok(Value::Null) };
    let missing = op.needs().filter(|needed| !hello.capabilities.contains(needed));
    if let Some(missing) = missing {
        return Err(PaneError::Unsupported { terminal: hello.name.clone(), what: cannot(missing) });
    }
    let (asked_for, tag) = match &op {
        Op::Hello { .. } | Op::Start(_) | Op::List { .. } => (None, String::new()),
        Op::Alive { pane } | Op::Screen { pane } | Op::Show { pane } | Op::Hide { pane } => {
            (Some(pane.clone()), String::new())
        }
        Op::Stop { pane, tag } => (Some(pane.clone()), tag.clone()),
    };
    let answer = link.ask(op).await?;
    match (answer, asked_for) {
        (Err(Refusal { code, message }), _) if code == code::BAD_REQUEST => {
            Err(PaneError::Unfit { what: message })
        }
        (Err(Refusal { code, .. }), Some(pane)) if code == code::GONE => {
            Err(PaneError::Gone { pane })
        }
        (Err(Refusal { code, .. }), Some(pane)) if code == code::FOREIGN => {
            Err(PaneError::Foreign { pane, tag })
        }
        (answer, _) => link.read(answer),
    }
}

fn cannot(capability: Capability) -> &'static str {
    match capability {
        Capability::Exit => "keep the pane of an ended program",
        Capability::Screen => "read a pane's screen",
        Capability::Hide => "hide a pane",
        Capability::List => "find panes by their tag",
    }
}
