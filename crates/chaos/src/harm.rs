//! The harms that a run may suffer: a kill, a signal, a model that fails, a full disk, a resized terminal.

use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::plan::{Place, Victim};

/// What happens to a run at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Processes are killed with SIGKILL.
    Kill(Victim),
    /// The lead gets a signal that ends its run.
    Signal {
        /// The signal.
        signal: EndSignal,
        /// The same signal comes again, so long after the first.
        again: Option<Duration>,
    },
    /// Models answer badly.
    Model {
        /// How.
        fault: ModelFault,
        /// To whom.
        whose: Whose,
        /// How many answers are bad.
        answers: u64,
    },
    /// The file system of the root is full for so long.
    FullDisk(Duration),
    /// The terminal gets another size.
    Resize {
        /// Its columns.
        columns: u16,
        /// Its rows.
        rows: u16,
    },
}

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
}

/// Whose model fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The lead's.
    Lead,
    /// That of any one teammate.
    Teammate,
    /// Everybody's.
    Everybody,
}

/// How a model fails. The first twelve are one way each; the last two vary the eleventh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelFault {
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 429 that asks for a short wait.
    ShortLimit,
    /// 429 that asks to wait for an hour.
    LongLimit,
    /// 500.
    ServerError,
    /// 502 with a page of HTML.
    BadGateway,
    /// 529.
    Overloaded,
    /// A stream that breaks off.
    CutStream,
    /// A stream in which nothing comes any more.
    SilentStream,
    /// An answer that is cut off at its greatest length.
    Truncated,
    /// An event that is not JSON.
    BadJson,
    /// An answer that the model refuses.
    Refused,
    /// An answer without text.
    Empty,
}

impl ModelFault {
    /// All faults.
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

    /// The end of a run whose lead has met only this fault, besides `completed`.
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
    /// The kind of the harm, as figures count it.
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

    /// Draws a harm of a run that is resumed after it.
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
