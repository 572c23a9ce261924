//! The harms that a run can suffer: a kill, a signal, a failing model, a full disk, or a resized
//! terminal.

use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::plan::{Place, Victim};

/// A harm that happens to a run at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Harm {
    /// SIGKILL kills processes.
    Kill(Victim),
    /// The lead gets a signal that ends its run.
    Signal {
        /// The kind of signal.
        signal: EndSignal,
        /// The time after which the same signal is sent a second time. `None` if it is sent only
        /// once.
        again: Option<Duration>,
    },
    /// Models return bad answers.
    Model {
        /// The kind of bad answer.
        fault: ModelFault,
        /// The agents that get the bad answers.
        whose: Whose,
        /// The number of bad answers.
        answers: u64,
    },
    /// The file system of the root is full for this time.
    FullDisk(Duration),
    /// The size of the terminal changes.
    Resize {
        /// The number of columns.
        columns: u16,
        /// The number of rows.
        rows: u16,
    },
}

/// A signal that ends a run of the lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
}

/// The agents whose model fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The lead's model fails.
    Lead,
    /// The model of one teammate fails.
    Teammate,
    /// The models of all agents fail.
    Everybody,
}

/// The kinds of bad answers. `Refused` and `Empty` are similar to `Truncated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelFault {
    /// HTTP status 401.
    Unauthorized,
    /// HTTP status 403.
    Forbidden,
    /// HTTP status 404.
    NotFound,
    /// HTTP status 429 with a short wait in `retry-after`.
    ShortLimit,
    /// HTTP status 429 with a wait of one hour in `retry-after`.
    LongLimit,
    /// HTTP status 500.
    ServerError,
    /// HTTP status 502 with an HTML page.
    BadGateway,
    /// HTTP status 529.
    Overloaded,
    /// A stream that breaks off.
    CutStream,
    /// A stream that stays open, but sends nothing more.
    SilentStream,
    /// An answer that is cut off at the maximum length.
    Truncated,
    /// An event that is not JSON.
    BadJson,
    /// An answer in which the model refuses.
    Refused,
    /// An answer without text.
    Empty,
}

impl ModelFault {
    /// All kinds of bad answers.
    pub const ALL: [Self; 14] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::ShortLimit,
        Self::LongLimit,
        Self::ServerError,
        Self::BadGateway,
        Self::Overloaded,
        Self::CutStream,
        Self::SilentStream,
        Self::Truncated,
        Self::BadJson,
        Self::Refused,
        Self::Empty,
    ];

    /// Returns the end of a run whose lead gets only this kind of bad answer, if the run does not
    /// end as `completed`.
    #[must_use]
    pub fn end(self) -> &'static str {
        match self {
            Self::Unauthorized | Self::Forbidden | Self::NotFound => "failed",
            Self::ShortLimit
            | Self::LongLimit
            | Self::ServerError
            | Self::BadGateway
            | Self::Overloaded
            | Self::CutStream
            | Self::SilentStream
            | Self::BadJson => "model_unavailable",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Empty => "empty",
        }
    }
}

impl Harm {
    /// Returns the kind of the harm, for the statistics.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Kill(victim) => format!("kill {victim:?}"),
            Self::Signal { signal, again: None } => format!("{signal:?}"),
            Self::Signal { signal, again: Some(_) } => format!("{signal:?} twice"),
            Self::Model { fault, .. } => format!("model {fault:?}"),
            Self::FullDisk(_) => "full disk".to_owned(),
            Self::Resize { .. } => "resize".to_owned(),
        }
    }

    /// Selects a random harm after which the run is resumed.
    pub(crate) fn draw(chance: &mut Chance, place: Place) -> Self {
        match chance.below(100) {
            0..=21 => Self::Signal { signal: EndSignal::Interrupt, again: None },
            22..=31 => {
                let again = Some(Duration::from_millis(chance.below(500)));
                Self::Signal { signal: EndSignal::Interrupt, again }
            }
            32..=36 => Self::Signal { signal: EndSignal::Terminate, again: None },
            37..=41 => Self::Signal { signal: EndSignal::HangUp, again: None },
            42..=51 => Self::Kill(Victim::Lead),
            52..=59 if place == Place::InProcess => Self::Kill(Victim::Lead),
            52..=55 => Self::Kill(Victim::Member),
            56..=57 => Self::Kill(Victim::LeadAndMember),
            58..=59 => Self::Kill(Victim::Everyone),
            60..=65 => Self::FullDisk(Duration::from_millis(chance.between(100, 1_500))),
            66..=75 => {
                let (columns, rows) = (chance.between(20, 220), chance.between(5, 60));
                Self::Resize {
                    columns: u16::try_from(columns).unwrap_or(80),
                    rows: u16::try_from(rows).unwrap_or(24),
                }
            }
            _ => Self::draw_model(chance),
        }
    }

    fn draw_model(chance: &mut Chance) -> Self {
        let whose = [Whose::Lead, Whose::Lead, Whose::Teammate, Whose::Everybody];
        Self::Model {
            fault: chance.pick(&ModelFault::ALL).copied().unwrap_or(ModelFault::ServerError),
            whose: chance.pick(&whose).copied().unwrap_or(Whose::Lead),
            answers: chance.pick(&[1, 1, 3, u64::MAX]).copied().unwrap_or(1),
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(victim) => write!(f, "{victim:?}"),
            Self::Model { answers: u64::MAX, fault, whose } => {
                write!(f, "{fault:?} for {whose:?}, until the resume")
            }
            Self::Signal { .. } | Self::Model { .. } | Self::FullDisk(_) | Self::Resize { .. } => {
                write!(f, "{self:?}")
            }
        }
    }
}
