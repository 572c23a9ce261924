//! Limits the capabilities of the user `root` in the sandbox profiles *read* and *work*. A command
//! keeps only the capabilities that normal work with files needs.

use std::io;

#[cfg(target_os = "linux")]
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Permanently gives up this thread's capabilities to administer the machine. Programs started by
/// this thread, even set-user-ID programs, do not gain such capabilities either.
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
