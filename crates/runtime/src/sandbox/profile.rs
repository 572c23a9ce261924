//! The three profiles, and what holds of them on a machine.

use std::fmt;

/// What a command can do, by the kernel, whatever its text was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Nothing but reading the working folder, system folders and toolchains, and writing a private temporary folder.
    Read,
    /// Besides, writing below the working folder, but for what decides rights or runs by itself; a network of its own.
    Work,
    /// All but changing the team's files and the user's settings.
    Free,
}

impl Profile {
    /// All of them, the tightest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Work, Self::Free];

    /// The profile's name, in texts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Work => "work",
            Self::Free => "free",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a profile can be held on this machine, found by trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// Nothing is to be kept: commands run as they are, whatever the profile.
    Off,
    /// The kernel holds it.
    Held {
        /// What of the system does, in words.
        by: String,
    },
    /// It holds but for one thing.
    Partly {
        /// What does not hold, in a sentence.
        gap: String,
    },
    /// It cannot be held.
    Missing {
        /// What was tried and what the system said, in a sentence.
        reason: String,
    },
}

impl Support {
    /// Whether commands may be started under the profile.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self {
            Self::Off | Self::Held { .. } | Self::Partly { .. } => true,
            Self::Missing { .. } => false,
        }
    }
}

/// What refuses a command that tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Nothing does.
    Nothing,
    /// The rights the command's process gave up.
    Landlock,
    /// A mount namespace of the command's own.
    Bubblewrap,
}
