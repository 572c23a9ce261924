//! What root keeps of its powers in *read* and *work*: to go about with files as it is used to.

use std::io;

#[cfg(target_os = "linux")]
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Gives up this thread's powers over the machine for good: what it starts gains none, as programs that give their own do
/// not from then on.
///
/// # Errors
/// What the system said.
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
