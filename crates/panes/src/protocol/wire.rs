//! Defines the lines of the pane protocol (`docs/pane-protocol.md`).
//!
//! Both sides ignore unknown fields, so that either side can be newer than the other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{NewPane, PaneError, PaneId, PaneState, StartedPane, TagError};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// Maximum length of a line in bytes, including its line break. A request that starts a program
/// with many variables fits into this length.
pub const LINE_BYTES: usize = 4 * 1024 * 1024;

/// A request to a pane program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// The number of the request. The answer has the same number.
    pub id: u64,
    /// The requested operation.
    #[serde(flatten)]
    pub op: Op,
}

/// An operation that a request can name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Asks the pane program for its name, version and capabilities. This must be the first
    /// request.
    Hello {
        /// The protocol version of the caller.
        protocol: u32,
    },
    /// Starts a program in a pane.
    Start(Start),
    /// Asks for the state of the program in a pane.
    Alive {
        /// The id of the pane.
        pane: PaneId,
    },
    /// Asks for the text on a pane's screen. Needs [`Capability::Screen`].
    Screen {
        /// The id of the pane.
        pane: PaneId,
    },
    /// Makes a hidden pane visible again. Needs [`Capability::Hide`].
    Show {
        /// The id of the pane.
        pane: PaneId,
    },
    /// Hides a pane. Needs [`Capability::Hide`].
    Hide {
        /// The id of the pane.
        pane: PaneId,
    },
    /// Lists the panes that have this tag. If the tag ends with `/`, lists all panes whose tag
    /// begins with it. Needs [`Capability::List`].
    List {
        /// The tag to search for.
        tag: String,
    },
    /// Closes a pane that has this tag. Succeeds also if the pane does not exist any more.
    Stop {
        /// The id of the pane.
        pane: PaneId,
        /// The tag that the pane must have. It is compared as in [`Op::List`].
        tag: String,
    },
}

/// A program to start in a pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder in which the program starts.
    pub cwd: PathBuf,
    /// The environment variables to set, by name.
    #[serde(default)]
    pub env: Map<String, Value>,
    /// The title of the pane.
    #[serde(default)]
    pub title: String,
    /// The color of the pane's border.
    #[serde(default)]
    pub color: Option<String>,
    /// The pane's tag.
    pub tag: String,
}

/// An optional ability of a pane program. Every pane program, even without capabilities, can start
/// a pane, report its state and close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// The pane program keeps a pane open after the program in the pane has ended, and reports the
    /// exit status.
    Exit,
    /// The pane program can read the screen of a pane.
    Screen,
    /// The pane program can hide panes and show them again.
    Hide,
    /// The pane program can find panes by their tag.
    List,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 4] = [Self::Exit, Self::Screen, Self::Hide, Self::List];
}

/// The answer to [`Op::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol.
    pub protocol: u32,
    /// The name of the terminal.
    pub name: String,
    /// The version of the terminal.
    pub version: String,
    /// The capabilities of the pane program. Unknown capabilities are ignored.
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
    /// The id of the pane.
    pub pane: PaneId,
    /// The process id of the started program.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The session that contains the pane.
    #[serde(default)]
    pub session: Option<String>,
    /// The name of the window that contains the pane.
    #[serde(default)]
    pub window: Option<String>,
    /// True if the pane was created by splitting an existing pane, false if it has its own window.
    /// `None` if this is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
}

/// The answer to [`Op::Alive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Alive {
    /// The program runs.
    Running {
        /// The process id of the program.
        #[serde(default)]
        pid: Option<u32>,
    },
    /// The program has ended. The pane still shows the program's last screen.
    Ended {
        /// The exit status of the program. If a signal ended the program, it is 128 plus the signal
        /// number.
        #[serde(default)]
        exit: Option<i32>,
    },
    /// The pane does not exist.
    Gone,
}

/// The answer to [`Op::Screen`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Screen {
    /// The text on the pane's screen. If the program has ended, this is the last text on the
    /// screen. `None` (`null`) if the pane does not exist any more.
    pub text: Option<String>,
}

/// The answer to [`Op::List`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The panes that have the requested tag.
    pub panes: Vec<TaggedPane>,
}

/// A pane with its tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedPane {
    /// The id of the pane.
    pub pane: PaneId,
    /// The tag of the pane.
    pub tag: String,
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The code of the error. [`code`] lists the possible codes.
    pub code: String,
    /// An error message for a person to read.
    pub message: String,
}

/// The error codes that a refusal can have.
pub mod code {
    /// The line is not a request, or one of its fields is invalid.
    pub const BAD_REQUEST: &str = "bad_request";
    /// The operation is unknown.
    pub const UNKNOWN_OP: &str = "unknown_op";
    /// This terminal does not support the operation.
    pub const UNSUPPORTED: &str = "unsupported";
    /// The pane does not exist.
    pub const GONE: &str = "gone";
    /// The pane does not have the requested tag.
    pub const FOREIGN: &str = "foreign";
    /// The terminal is not installed or is too old.
    pub const NOT_INSTALLED: &str = "not_installed";
    /// The terminal refused the request, or failed.
    pub const FAILED: &str = "failed";
}

/// Formats an answer as one line, including its line break.
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
    /// Returns the capability that a pane program needs for this operation. `None` if it needs no
    /// capability.
    #[must_use]
    pub fn needs(&self) -> Option<Capability> {
        match self {
            Self::Hello { .. } | Self::Start(_) | Self::Alive { .. } | Self::Stop { .. } => None,
            Self::Screen { .. } => Some(Capability::Screen),
            Self::Show { .. } | Self::Hide { .. } => Some(Capability::Hide),
            Self::List { .. } => Some(Capability::List),
        }
    }

    /// Returns the name of the operation in the protocol.
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
    /// Builds the request that starts a program in this new pane.
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

    /// Converts the request into the description of a new pane.
    ///
    /// # Errors
    /// A [`Refusal`] if a variable is not a string or if the tag is not a pitcrew tag.
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
    /// Creates a refusal with this error code.
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
            | PaneError::NotStarted { .. }
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
