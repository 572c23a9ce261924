//! Computes the sandbox profile that a command needs. The result follows from the needs of the
//! command's parts.

use pitcrew_process::sandbox::Profile;

/// The sandbox profile that a command needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) profile: Profile,
    /// True if only the kernel can ensure that the command only reads. In this case the command is
    /// allowed to run only in the sandbox profile *read*.
    pub(super) unproven: bool,
}

impl Need {
    pub(super) const READ: Self = Self { profile: Profile::Read, unproven: false };
    pub(super) const WORK: Self = Self { profile: Profile::Work, unproven: false };
    pub(super) const FREE: Self = Self { profile: Profile::Free, unproven: false };

    /// Combines two needs into the larger one.
    pub(super) fn and(self, other: Self) -> Self {
        Self { profile: self.profile.max(other.profile), unproven: self.unproven || other.unproven }
    }
}

/// Combines all needs into the largest one. Returns `None` if one of the needs is `None`, which
/// means that a person must be asked about the command.
pub(super) fn most(mut needed: impl Iterator<Item = Option<Need>>) -> Option<Need> {
    needed.try_fold(Need::READ, |most, need| Some(most.and(need?)))
}
