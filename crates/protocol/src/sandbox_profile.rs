//! The three sandbox profiles.

use std::fmt;

/// The limits on a command. The kernel enforces them, whatever the command's text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxProfile {
    /// The command may only read the working folder, system folders and toolchains, and write a
    /// private temporary folder.
    Read,
    /// Like `Read`, and the command may also write below the working folder, except files that
    /// control permissions or run automatically. The command has its own network.
    Work,
    /// The command may do everything except change the team's files and the user's settings.
    Free,
}

impl SandboxProfile {
    /// All profiles, the strictest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Work, Self::Free];

    /// Returns the profile's name for use in texts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Work => "work",
            Self::Free => "free",
        }
    }
}

impl fmt::Display for SandboxProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
