//! The three sandbox profiles, and whether a machine can enforce them.

/// Whether this machine can enforce a sandbox profile, as found by testing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// The sandbox is off: commands run without limits in every profile.
    Off,
    /// The kernel enforces the profile.
    Held {
        /// The names of the mechanisms that enforce the profile.
        by: String,
    },
    /// The kernel enforces the profile, with one gap.
    Partly {
        /// The gap, described in one sentence.
        gap: String,
    },
    /// The machine cannot enforce the profile.
    Missing {
        /// The failed test and the error of the operating system, in one sentence.
        reason: String,
    },
}

impl Support {
    /// Whether commands may be started in the profile.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self {
            Self::Off | Self::Held { .. } | Self::Partly { .. } => true,
            Self::Missing { .. } => false,
        }
    }
}

/// The mechanism that limits a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// No mechanism.
    Nothing,
    /// The command's process gave up rights by Landlock.
    Landlock,
    /// The command has its own mount namespace, made by bubblewrap.
    Bubblewrap,
}
