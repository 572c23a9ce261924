//! The three sandbox profiles.

use std::fmt;

/// What a command can do, by the kernel, whatever its text was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxProfile {
    /// Nothing but reading the working folder, system folders and toolchains, and writing a private temporary folder.
    Read,
    /// Besides, writing below the working folder, but for what decides rights or runs by itself; a network of its own.
    Work,
    /// All but changing the team's files and the user's settings.
    Free,
}

impl SandboxProfile {
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

impl fmt::Display for SandboxProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
