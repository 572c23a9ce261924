//! The three sandbox profiles, and the result of testing whether a machine can enforce them.

/// The result of testing whether this machine can enforce a sandbox profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// The sandbox is off. Commands run without limits, whatever their sandbox profile is.
    Off,
    /// The kernel enforces the sandbox profile.
    Held {
        /// The names of the mechanisms that enforce the sandbox profile.
        by: String,
    },
    /// The kernel enforces the sandbox profile, except for the gap that the field `gap` describes.
    Partly {
        /// The description of the gap, in one sentence.
        gap: String,
    },
    /// The machine cannot enforce the sandbox profile.
    Missing {
        /// The test that failed and the error of the operating system, in one sentence.
        reason: String,
    },
}

impl Support {
    /// Returns true if pitcrew is allowed to start commands in this sandbox profile.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self {
            Self::Off | Self::Held { .. } | Self::Partly { .. } => true,
            Self::Missing { .. } => false,
        }
    }
}

/// The kernel mechanism that limits a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// No mechanism limits the command.
    Nothing,
    /// The command's process gave up rights by Landlock.
    Landlock,
    /// The command has its own mount namespace, made by bubblewrap.
    Bubblewrap,
}
