//! The permission modes. A mode decides how freely an agent is allowed to act.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How freely an agent is allowed to act (founding guide, section 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads in the working folder are allowed. Every change needs approval.
    #[default]
    Default,
    /// The same as `Default`, except that edits in the working folder are also allowed.
    AcceptEdits,
    /// The agent is allowed to change only the file of its plan.
    Plan,
    /// The agent is allowed to use only team tools and task tools.
    Delegate,
    /// The same as `Default`, except that a call that would need approval is denied.
    DontAsk,
    /// Every call is allowed unless a deny rule matches it.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::Delegate,
        Self::DontAsk,
        Self::BypassPermissions,
    ];

    /// Returns the mode's name on the wire and in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::Delegate => "delegate",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// Finds the mode with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Ranks the modes by how much they allow without approval. A higher number allows more.
    #[must_use]
    pub fn freedom(self) -> u8 {
        match self {
            Self::Default | Self::Plan | Self::Delegate | Self::DontAsk => 0,
            Self::AcceptEdits => 1,
            Self::BypassPermissions => 2,
        }
    }

    /// Returns the mode that spawned agents get if the run has this mode. In a run with plan mode
    /// or delegate mode, spawned agents get the mode `Default`. Spawned agents inherit every other
    /// mode.
    #[must_use]
    pub fn handed_down(self) -> Self {
        match self {
            Self::Plan | Self::Delegate => Self::Default,
            Self::Default | Self::AcceptEdits | Self::DontAsk | Self::BypassPermissions => self,
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_the_reference_s() {
        for mode in PermissionMode::ALL {
            let written = serde_json::to_value(mode).unwrap();
            assert_eq!(written, mode.as_str());
            assert_eq!(serde_json::from_value::<PermissionMode>(written).unwrap(), mode);
            assert_eq!(PermissionMode::named(mode.as_str()), Some(mode));
        }
        assert_eq!(PermissionMode::DontAsk.as_str(), "dontAsk");
    }
}
