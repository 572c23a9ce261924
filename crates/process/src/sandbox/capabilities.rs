//! Limits the capabilities of root in the sandbox profiles *read* and *work* to those needed for
//! normal work with files.

use std::io;

#[cfg(target_os = "linux")]
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Gives up this thread's capabilities to administer the machine, permanently. Programs started by
/// this thread gain no such capabilities either, not even set-user-ID programs.
///
/// # Errors
/// The error of the system call.
#[cfg(target_os = "linux")]
pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID;
    let now = capabilities(None)?;
    let left = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, left)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn give_up() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
