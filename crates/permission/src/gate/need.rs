//! The profile that a command needs, put together from what its parts need.

use pitcrew_process::sandbox::Profile;

/// What a command needs in order to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) profile: Profile,
    /// Only the kernel makes sure that it reads: it may run in the profile *read*, and in no freer one.
    pub(super) unproven: bool,
}

impl Need {
    pub(super) const READ: Self = Self { profile: Profile::Read, unproven: false };
    pub(super) const WORK: Self = Self { profile: Profile::Work, unproven: false };
    pub(super) const FREE: Self = Self { profile: Profile::Free, unproven: false };

    /// Both needs together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { profile: self.profile.max(other.profile), unproven: self.unproven || other.unproven }
    }
}

/// All needs together; nothing where one cannot be met.
pub(super) fn most(mut needed: impl Iterator<Item = Option<Need>>) -> Option<Need> {
    needed.try_fold(Need::READ, |most, need| Some(most.and(need?)))
}
