//! The kinds of harm that the harness does to a run: it kills processes, sends signals, makes
//! models fail, fills the disk, or resizes the terminal.

use std::fmt;
use std::time::Duration;

use crate::chance::Chance;
use crate::plan::{Place, Victim};

/// One harm that the harness does to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The harness kills processes with SIGKILL.
    Kill(Victim),
    /// The harness sends the lead a signal that ends its run.
    Signal {
        /// The kind of signal.
        signal: EndSignal,
        /// The time until the same signal is sent a second time. `None` if it is sent only once.
        again: Option<Duration>,
    },
    /// The fake model server gives bad answers.
    Model {
        /// The kind of bad answer.
        fault: ModelFault,
        /// The agents that get the bad answers.
        whose: Whose,
        /// The number of bad answers.
        answers: u64,
    },
    /// The file system of pitcrew's root folder is full for this time.
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
    /// SIGINT, which a terminal sends at Ctrl-C.
    Interrupt,
    /// SIGTERM, which other programs send.
    Terminate,
    /// SIGHUP, which a terminal sends when it closes.
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

/// The kinds of bad answers that the fake model server gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelFault {
    /// HTTP status 401.
    Unauthorized,
    /// HTTP status 403.
    Forbidden,
    /// HTTP status 404.
    NotFound,
    /// HTTP status 429. The header `retry-after` asks for a short wait.
    ShortLimit,
    /// HTTP status 429. The header `retry-after` asks for a wait of one hour.
    LongLimit,
    /// HTTP status 500.
    ServerError,
    /// HTTP status 502. The body is an HTML page.
    BadGateway,
    /// HTTP status 529.
    Overloaded,
    /// A stream that ends in the middle of the answer.
    CutStream,
    /// A stream that stays open, but sends nothing more.
    SilentStream,
    /// An answer that ends at the maximum length.
    Truncated,
    /// A stream with an event that is not JSON.
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

    /// Returns the name of the end of a run that stops because its lead got bad answers of this
    /// kind. If the lead gets a good answer after the bad answers, the run can also end as
    /// `completed`.
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
    /// Returns the name of the kind of harm, for the statistics.
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

    /// Chooses a random harm, for a run that is resumed after each harm.
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
