//! The three sandbox profiles.

use std::fmt;

/// The limits that the sandbox sets for a command. The kernel enforces the limits, whatever the
/// command's text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxProfile {
    /// The command is allowed to read the working folder, system folders and toolchains. It is
    /// allowed to write only in a private temporary folder. It has no access to a network.
    Read,
    /// Like `Read`, and the command is also allowed to write below the working folder. It cannot
    /// write files of the working folder that control permissions or that run automatically. The
    /// command has a private network with loopback only, unless the setting `sandbox.network`
    /// shares the machine's network.
    Work,
    /// The command is allowed to do everything except change the files of teams and the settings of
    /// the user.
    Free,
}

impl SandboxProfile {
    /// All sandbox profiles, the strictest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Work, Self::Free];

    /// Returns the name of the sandbox profile for use in texts.
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
