//! What the lines of the pane protocol hold (`docs/pane-protocol.md`).
//!
//! Unknown fields are passed over on both sides, so that either can be newer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{NewPane, PaneError, PaneId, PaneState, StartedPane, TagError};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// The most bytes of a line, its line break included. A launch with all its variables fits.
pub const LINE_BYTES: usize = 4 * 1024 * 1024;

/// A request: an id the answer repeats, and what is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// Any number; the answer has the same.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub op: Op,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Who are you? The first request.
    Hello {
        /// The version the asker speaks.
        protocol: u32,
    },
    /// Start a program in a pane.
    Start(Start),
    /// How is the program in a pane?
    Alive {
        /// The pane.
        pane: PaneId,
    },
    /// What does a pane show? Needs [`Capability::Screen`].
    Screen {
        /// The pane.
        pane: PaneId,
    },
    /// Bring a hidden pane back. Needs [`Capability::Hide`].
    Show {
        /// The pane.
        pane: PaneId,
    },
    /// Take a pane out of view. Needs [`Capability::Hide`].
    Hide {
        /// The pane.
        pane: PaneId,
    },
    /// Which panes carry the tag, or, when it ends with `/`, one that begins with it? Needs [`Capability::List`].
    List {
        /// The tag.
        tag: String,
    },
    /// Close a pane, if it carries the tag; one that is gone is a success.
    Stop {
        /// The pane.
        pane: PaneId,
        /// The tag, as for [`Op::List`].
        tag: String,
    },
}

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder.
    pub cwd: PathBuf,
    /// Variables to set, by name.
    #[serde(default)]
    pub env: Map<String, Value>,
    /// What the pane is called.
    #[serde(default)]
    pub title: String,
    /// The colour of its border.
    #[serde(default)]
    pub color: Option<String>,
    /// What the pane is tagged with.
    pub tag: String,
}

/// What a program can do beyond starting, telling and stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// It keeps the pane of a program that has ended, and tells its exit status.
    Exit,
    /// It reads the screen of a pane.
    Screen,
    /// It hides and shows panes.
    Hide,
    /// It finds panes by their tag.
    List,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Exit, Self::Screen, Self::Hide, Self::List];
}

/// The answer to [`Op::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol.
    pub protocol: u32,
    /// The terminal's name.
    pub name: String,
    /// The terminal's version.
    pub version: String,
    /// What it can do; what we do not know is passed over.
    #[serde(default, deserialize_with = "known")]
    pub capabilities: Vec<Capability>,
}

fn known<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Capability>, D::Error> {
    let names = Vec::<Value>::deserialize(deserializer)?;
    Ok(names.into_iter().filter_map(|name| serde_json::from_value(name).ok()).collect())
}

/// The answer to [`Op::Start`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The pane.
    pub pane: PaneId,
    /// The process of the argv itself.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The session it is in.
    #[serde(default)]
    pub session: Option<String>,
    /// The name of the window it is in.
    #[serde(default)]
    pub window: Option<String>,
    /// Whether it was split off a pane that was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
}

/// The answer to [`Op::Alive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Alive {
    /// It runs.
    Running {
        /// Its process.
        #[serde(default)]
        pid: Option<u32>,
    },
    /// It ended, and the pane still shows its last screen.
    Ended {
        /// Its exit status, 128 plus the number for a signal.
        #[serde(default)]
        exit: Option<i32>,
    },
    /// There is no such pane.
    Gone,
}

/// The answer to [`Op::Screen`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Screen {
    /// What the pane shows, or showed last; null when it is gone.
    pub text: Option<String>,
}

/// The answer to [`Op::List`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The panes.
    pub panes: Vec<TaggedPane>,
}

/// A pane with its tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedPane {
    /// The pane.
    pub pane: PaneId,
    /// Its tag.
    pub tag: String,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One word, see [`code`].
    pub code: String,
    /// For people.
    pub message: String,
}

/// The codes of refusals.
pub mod code {
    /// The line is no request, or a field of it cannot be used.
    pub const BAD_REQUEST: &str = "bad_request";
    /// There is no such op.
    pub const UNKNOWN_OP: &str = "unknown_op";
    /// This terminal cannot do that.
    pub const UNSUPPORTED: &str = "unsupported";
    /// There is no such pane.
    pub const GONE: &str = "gone";
    /// The pane does not carry the tag.
    pub const FOREIGN: &str = "foreign";
    /// The terminal is not installed, or too old.
    pub const NOT_INSTALLED: &str = "not_installed";
    /// The terminal refused, or failed.
    pub const FAILED: &str = "failed";
}

/// The line of an answer, its line break included.
#[must_use]
pub fn answer_line(id: Option<u64>, answer: Result<Value, Refusal>) -> String {
    let body = match answer {
        Ok(ok) => serde_json::json!({ "id": id, "ok": ok }),
        Err(error) => {
            serde_json::json!({ "id": id, "error": { "code": error.code, "message": error.message } })
        }
    };
    format!("{body}\n")
}

impl Op {
    /// What a program must be able to do for this.
    #[must_use]
    pub fn needs(&self) -> Option<Capability> {
        match self {
            Self::Hello { .. } | Self::Start(_) | Self::Alive { .. } | Self::Stop { .. } => None,
            Self::Screen { .. } => Some(Capability::Screen),
            Self::Show { .. } | Self::Hide { .. } => Some(Capability::Hide),
            Self::List { .. } => Some(Capability::List),
        }
    }

    /// Its name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Start(_) => "start",
            Self::Alive { .. } => "alive",
            Self::Screen { .. } => "screen",
            Self::Show { .. } => "show",
            Self::Hide { .. } => "hide",
            Self::List { .. } => "list",
            Self::Stop { .. } => "stop",
        }
    }
}

impl Start {
    /// The request that starts that pane.
    #[must_use]
    pub fn of(pane: &NewPane) -> Self {
        Self {
            argv: pane.argv.clone(),
            cwd: pane.cwd.clone(),
            env: pane
                .env
                .iter()
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect(),
            title: pane.title.clone(),
            color: pane.color.clone(),
            tag: pane.tag.to_string(),
        }
    }

    /// The pane that is asked for.
    ///
    /// # Errors
    /// A refusal when a variable is no text or the tag none of ours.
    pub fn pane(self) -> Result<NewPane, Refusal> {
        let variable = |(name, value): (String, Value)| match value {
            Value::String(value) => Ok((name, value)),
            _ => Err(Refusal::new(code::BAD_REQUEST, format!("the variable {name} is no text"))),
        };
        Ok(NewPane {
            argv: self.argv,
            cwd: self.cwd,
            env: self.env.into_iter().map(variable).collect::<Result<_, _>>()?,
            title: self.title,
            color: self.color,
            tag: self.tag.parse()?,
        })
    }
}

impl Refusal {
    /// A refusal with that code.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

impl From<TagError> for Refusal {
    fn from(error: TagError) -> Self {
        Self::new(code::BAD_REQUEST, error.to_string())
    }
}

impl From<PaneError> for Refusal {
    fn from(error: PaneError) -> Self {
        let code = match &error {
            PaneError::Unfit { .. } => code::BAD_REQUEST,
            PaneError::Missing { .. } | PaneError::TooOld { .. } => code::NOT_INSTALLED,
            PaneError::Gone { .. } => code::GONE,
            PaneError::Foreign { .. } => code::FOREIGN,
            PaneError::Unsupported { .. } => code::UNSUPPORTED,
            PaneError::Command { .. }
            | PaneError::Slow { .. }
            | PaneError::Io { .. }
            | PaneError::Answered { .. }
            | PaneError::Broken { .. } => code::FAILED,
        };
        let source = std::error::Error::source(&error)
            .map(|source| format!(": {source}"))
            .unwrap_or_default();
        Self::new(code, format!("{error}{source}"))
    }
}

impl From<StartedPane> for Started {
    fn from(started: StartedPane) -> Self {
        let StartedPane { id, pid, session, window, is_split } = started;
        Self { pane: id, pid, session, window, split: is_split }
    }
}

impl From<Started> for StartedPane {
    fn from(started: Started) -> Self {
        let Started { pane, pid, session, window, split } = started;
        Self { id: pane, pid, session, window, is_split: split }
    }
}

impl From<PaneState> for Alive {
    fn from(state: PaneState) -> Self {
        match state {
            PaneState::Running { pid } => Self::Running { pid },
            PaneState::Ended { exit } => Self::Ended { exit },
            PaneState::Gone => Self::Gone,
        }
    }
}

impl From<Alive> for PaneState {
    fn from(alive: Alive) -> Self {
        match alive {
            Alive::Running { pid } => Self::Running { pid },
            Alive::Ended { exit } => Self::Ended { exit },
            Alive::Gone => Self::Gone,
        }
    }
}
