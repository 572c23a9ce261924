//! The permission modes and how freely an agent may act in each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How freely an agent may act (founding guide section 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads in the working folder are allowed. Any change needs approval.
    #[default]
    Default,
    /// Like `Default`, and edits in the working folder are allowed too.
    AcceptEdits,
    /// The agent may change only its plan file.
    Plan,
    /// The agent may use only team and task tools.
    Delegate,
    /// Like `Default`, but every call that would need approval is denied.
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

    /// Finds the mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Ranks the modes by how much they allow without asking. A higher number is freer.
    #[must_use]
    pub fn freedom(self) -> u8 {
        match self {
            Self::Default | Self::Plan | Self::Delegate | Self::DontAsk => 0,
            Self::AcceptEdits => 1,
            Self::BypassPermissions => 2,
        }
    }

    /// Returns the mode that spawned agents get in a run of this mode. Plan and delegate mode are
    /// not inherited.
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
