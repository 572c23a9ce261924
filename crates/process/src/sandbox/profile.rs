//! The three profiles, and what holds of them on a machine.

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
