//! Bounds what one git process uses, also after pitcrew itself was killed.

use crate::identity::ProcessIdentity;

/// The most that each process of a git command may use. The processes that it starts inherit this.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The memory that a process allocates, in bytes. Files that git maps, such as packs, do not
    /// count.
    pub(super) memory_bytes: u64,
    /// The time that a process computes, in seconds.
    pub(super) cpu_s: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { memory_bytes: 4 << 30, cpu_s: 600 }
    }
}

impl Bounds {
    /// Bounds a process that was started just now.
    #[cfg(target_os = "linux")]
    pub(super) fn hold(self, process: ProcessIdentity) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let Some(number) = process.number() else { return };
        for (resource, most) in [(Resource::Data, self.memory_bytes), (Resource::Cpu, self.cpu_s)] {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            // This fails if the process has ended, or if the user's own limit is lower.
            if let Err(error) = prlimit(Some(number), resource, limit) {
                tracing::debug!(%process, ?resource, %error, "git is not bounded");
            }
        }
    }

    /// Does nothing. Other systems bound a process only from within.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn hold(self, _process: ProcessIdentity) {}
}
