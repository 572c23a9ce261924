//! The content of the file of devices, and its changes without I/O, clock and random numbers.

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use super::{DeviceError, WaitingCode};
use crate::token::is_same;

/// The maximum number of devices and of codes that wait, together.
const DEVICES_MOST: usize = 64;

/// How many wrong codes end a code.
const ATTEMPTS: u8 = 5;

/// The maximum length of a name in bytes.
const NAME_BYTES_MOST: usize = 32;

/// A paired device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The name.
    pub name: String,
    /// What the device may do.
    pub scope: Scope,
    /// The time of the pairing, in milliseconds since 1970.
    pub paired_at_ms: i64,
    token_sha256: String,
}

impl Device {
    /// Whether the token of the device has this hash.
    pub(super) fn has_hash(&self, hash: &str) -> bool {
        is_same(&self.token_sha256, hash)
    }
}

/// A code that waits for its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pairing {
    name: String,
    scope: Scope,
    code_sha256: String,
    ends_at_ms: i64,
    attempts_left: u8,
}

impl Pairing {
    pub(super) fn new(name: String, scope: Scope, code_sha256: String, ends_at_ms: i64) -> Self {
        Self { name, scope, code_sha256, ends_at_ms, attempts_left: ATTEMPTS }
    }
}

/// All devices, and the codes that wait: the content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registry {
    pub(super) devices: Vec<Device>,
    #[serde(default)]
    pairings: Vec<Pairing>,
}

impl Registry {
    /// Reads the content of the file. Without a file there are no devices.
    pub(super) fn read(content: Option<&[u8]>) -> Result<Self, serde_json::Error> {
        content.map_or_else(|| Ok(Self::default()), serde_json::from_slice)
    }

    /// Returns the content of the file.
    pub(super) fn written(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(self)
    }

    /// Removes the codes whose time is over.
    pub(super) fn drop_late(&mut self, now_ms: i64) {
        self.pairings.retain(|pairing| pairing.ends_at_ms > now_ms);
    }

    /// Returns the codes, without what they are compared with.
    pub(super) fn waiting(&self) -> Vec<WaitingCode> {
        let code = |it: &Pairing| WaitingCode {
            name: it.name.clone(),
            scope: it.scope,
            ends_at_ms: it.ends_at_ms,
        };
        self.pairings.iter().map(code).collect()
    }

    /// Returns the first free name of `device-1`, `device-2` and so on.
    pub(super) fn free_name(&self) -> String {
        let mut number = 1;
        loop {
            let name = format!("device-{number}");
            if !self.names().any(|taken| taken == name) {
                return name;
            }
            number += 1;
        }
    }

    /// Adds a code.
    pub(super) fn invite(&mut self, pairing: Pairing) -> Result<(), DeviceError> {
        let name = &pairing.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > NAME_BYTES_MOST || !name.bytes().all(is_plain) {
            return Err(DeviceError::Name);
        }
        if self.names().any(|taken| taken == name) {
            return Err(DeviceError::Taken { name: name.clone() });
        }
        if self.names().count() >= DEVICES_MOST {
            return Err(DeviceError::TooMany { most: DEVICES_MOST });
        }
        self.pairings.push(pairing);
        Ok(())
    }

    /// Makes the device of a code and removes the code. If no code has this hash, takes one attempt
    /// of each code.
    pub(super) fn pair(&mut self, hash: &str, token_sha256: String, now_ms: i64) -> Option<Device> {
        let at = self.pairings.iter().position(|pairing| is_same(&pairing.code_sha256, hash));
        let Some(at) = at else {
            for pairing in &mut self.pairings {
                pairing.attempts_left = pairing.attempts_left.saturating_sub(1);
            }
            self.pairings.retain(|pairing| pairing.attempts_left > 0);
            return None;
        };
        let Pairing { name, scope, .. } = self.pairings.remove(at);
        let device = Device { name, scope, paired_at_ms: now_ms, token_sha256 };
        self.devices.push(device.clone());
        Some(device)
    }

    /// Removes a device, or the code that waits for it.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), DeviceError> {
        if !self.names().any(|known| known == name) {
            let names = self.names().map(str::to_owned).collect();
            return Err(DeviceError::Unknown { name: name.to_owned(), names });
        }
        self.devices.retain(|device| device.name != name);
        self.pairings.retain(|pairing| pairing.name != name);
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let waiting = self.pairings.iter().map(|pairing| pairing.name.as_str());
        self.devices.iter().map(|device| device.name.as_str()).chain(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn invite(registry: &mut Registry, name: &str) -> Result<(), DeviceError> {
        let hash = format!("code of {name}");
        registry.invite(Pairing::new(name.to_owned(), Scope::Watch, hash, NOW + 10))
    }

    fn pair(registry: &mut Registry, code: &str) -> Option<String> {
        registry.pair(code, format!("token for {code}"), NOW).map(|device| device.name)
    }

    #[test]
    fn a_code_pairs_one_device() {
        let mut registry = Registry::default();
        invite(&mut registry, "phone").unwrap();
        assert_eq!(pair(&mut registry, "code of phone").as_deref(), Some("phone"));
        assert_eq!(pair(&mut registry, "code of phone"), None);
        assert_eq!(registry.devices.len(), 1);
        assert_eq!(Registry::read(Some(&registry.written().unwrap())).unwrap(), registry);
    }

    #[test]
    fn wrong_codes_and_time_end_a_code() {
        let mut registry = Registry::default();
        invite(&mut registry, "phone").unwrap();
        for _ in 1..ATTEMPTS {
            assert_eq!(pair(&mut registry, "code of nobody"), None);
        }
        let mut guessed = registry.clone();
        assert_eq!(pair(&mut guessed, "code of nobody"), None);
        assert_eq!(pair(&mut guessed, "code of phone"), None);
        let mut late = registry.clone();
        late.drop_late(NOW + 10);
        assert_eq!(pair(&mut late, "code of phone"), None);
        registry.drop_late(NOW + 9);
        assert_eq!(pair(&mut registry, "code of phone").as_deref(), Some("phone"));
    }

    #[test]
    fn a_name_is_plain_and_taken_once() {
        let mut registry = Registry::default();
        let long = "x".repeat(NAME_BYTES_MOST + 1);
        for name in ["", "a b", "a/b", "é", "\u{1b}[31m", &long] {
            assert!(matches!(invite(&mut registry, name), Err(DeviceError::Name)), "{name}");
        }
        invite(&mut registry, "device-1").unwrap();
        assert!(matches!(invite(&mut registry, "device-1"), Err(DeviceError::Taken { .. })));
        assert_eq!(registry.free_name(), "device-2");
        registry.remove("device-1").unwrap();
        assert!(matches!(registry.remove("device-1"), Err(DeviceError::Unknown { .. })));
        assert_eq!(pair(&mut registry, "code of device-1"), None);
    }

    #[test]
    fn the_number_of_devices_is_bounded() {
        let mut registry = Registry::default();
        for number in 0..DEVICES_MOST {
            invite(&mut registry, &format!("d{number}")).unwrap();
        }
        assert!(matches!(invite(&mut registry, "more"), Err(DeviceError::TooMany { .. })));
    }
}
