//! The programs that can run a teammate: pitcrew or the reference client.

use serde::{Deserialize, Serialize};

/// The program that runs a teammate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// Pitcrew itself.
    #[default]
    Pitcrew,
    /// The reference client.
    Claude,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 2] = [Self::Pitcrew, Self::Claude];

    /// Returns the program's name, as it is written in flags and files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pitcrew => "pitcrew",
            Self::Claude => "claude",
        }
    }

    /// Finds the program with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.as_str() == name)
    }

    /// Whether the program is pitcrew itself.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        *self == Self::Pitcrew
    }
}
