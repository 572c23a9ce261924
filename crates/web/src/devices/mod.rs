//! The devices that may call the server: each has a token of its own with a scope.
//!
//! A device is paired by a one-time code. The file of devices (`pitcrew/web/devices.json` below the
//! root) has only the SHA-256 of tokens and codes. The server reads the file at each request of a
//! device, so that a removed device is refused at once.

mod changes;
mod registry;
mod scope;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pitcrew_team::Clock;
use pitcrew_team::store::{FileBackend, StoreError, WebFile, WebWatch};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(crate) use changes::Changes;
pub use registry::Device;
use registry::{Pairing, Registry};
pub use scope::Scope;
pub(crate) use scope::needed;

/// How long a code can be used, in milliseconds.
const CODE_LASTS_MS: i64 = 10 * 60 * 1000;

/// The characters of a code. Characters that look alike are left out.
const CODE_CHARACTERS: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// The reason why the devices cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The file of devices cannot be read or written.
    #[error("the file of devices cannot be used")]
    Store(#[from] StoreError),
    /// The file of devices has another form.
    #[error("{} has another form than the file of devices", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: serde_json::Error,
    },
    /// The name has a form that no device has.
    #[error("the name of a device has 1 to 32 letters, digits, '-' and '_'")]
    Name,
    /// Another device has this name, or waits to be paired under it.
    #[error("there is a device '{name}' already")]
    Taken {
        /// The name.
        name: String,
    },
    /// No device has this name.
    #[error("there is no device '{name}'")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all devices.
        names: Vec<String>,
    },
    /// There are too many devices.
    #[error("there are {most} devices already; remove one first")]
    TooMany {
        /// The maximum number.
        most: usize,
    },
}

/// A code with which a device can be paired once.
#[derive(Debug)]
pub struct Invitation {
    /// The name of the future device.
    pub name: String,
    /// What the device will be allowed to do.
    pub scope: Scope,
    /// The code, such as `7KQ2-M9XH`.
    pub code: String,
    /// The end of the code's time, in milliseconds since 1970.
    pub ends_at_ms: i64,
}

/// A code that waits for its device.
#[derive(Debug)]
pub struct WaitingCode {
    /// The name of the future device.
    pub name: String,
    /// What the device will be allowed to do.
    pub scope: Scope,
    /// The end of the code's time, in milliseconds since 1970.
    pub ends_at_ms: i64,
}

/// A device that was just paired, with its token. The token is not stored anywhere.
pub(crate) struct Paired {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) token: String,
}

/// The devices below one root.
#[derive(Clone)]
pub struct Devices {
    files: FileBackend,
    clock: Arc<dyn Clock>,
    /// The watch of the file, which all open streams share. It ends with the last of them.
    watch: Arc<Mutex<Weak<WebWatch>>>,
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").field("file", &self.file()).finish_non_exhaustive()
    }
}

impl Devices {
    /// Returns the devices below the root of these files.
    #[must_use]
    pub fn new(files: FileBackend, clock: Arc<dyn Clock>) -> Self {
        Self { files, clock, watch: Arc::default() }
    }

    /// Returns the path of the file of devices.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.files.web_file_path(WebFile::Devices)
    }

    /// Lists the paired devices, in the order in which they were paired.
    ///
    /// # Errors
    /// If the file of devices cannot be read.
    pub async fn list(&self) -> Result<Vec<Device>, DeviceError> {
        Ok(self.registry().await?.devices)
    }

    /// Lists the codes that wait for their devices.
    ///
    /// # Errors
    /// If the file of devices cannot be read.
    pub async fn waiting(&self) -> Result<Vec<WaitingCode>, DeviceError> {
        let mut registry = self.registry().await?;
        registry.drop_late(self.clock.now_ms());
        Ok(registry.waiting())
    }

    /// Makes a code that pairs one device within 10 minutes. Without a name, the device gets the
    /// first free name of `device-1`, `device-2` and so on.
    ///
    /// # Errors
    /// If the name is taken or malformed, if there are too many devices, or if the file of devices
    /// cannot be used.
    pub async fn invite(
        &self,
        name: Option<String>,
        scope: Scope,
    ) -> Result<Invitation, DeviceError> {
        let code = new_code();
        let now_ms = self.clock.now_ms();
        let ends_at_ms = now_ms.saturating_add(CODE_LASTS_MS);
        let hash = code_hash(&code);
        let name = self
            .edit(move |registry| {
                registry.drop_late(now_ms);
                let name = name.unwrap_or_else(|| registry.free_name());
                registry.invite(Pairing::new(name.clone(), scope, hash, ends_at_ms))?;
                Ok(name)
            })
            .await?;
        Ok(Invitation { name, scope, code, ends_at_ms })
    }

    /// Removes a device, or the code that waits for it.
    ///
    /// # Errors
    /// If there is no such device, or if the file of devices cannot be used.
    pub async fn remove(&self, name: &str) -> Result<(), DeviceError> {
        let name = name.to_owned();
        self.edit(move |registry| registry.remove(&name)).await
    }

    /// Pairs a device. Returns `None` if no code is `code`. Each call with a wrong code takes one
    /// attempt of all codes.
    pub(crate) async fn pair(&self, code: &str) -> Result<Option<Paired>, DeviceError> {
        let (hash, now_ms) = (code_hash(code), self.clock.now_ms());
        // Each of the two random ids has 122 random bits.
        let token: String = (0..2).map(|_| Uuid::new_v4().simple().to_string()).collect();
        let token_hash = hash_of(&token);
        let device = self
            .edit(move |registry| {
                registry.drop_late(now_ms);
                Ok(registry.pair(&hash, token_hash, now_ms))
            })
            .await?;
        Ok(device.map(|Device { name, scope, .. }| Paired { name, scope, token }))
    }

    /// Returns the device that has this token.
    pub(crate) async fn find(&self, token: &str) -> Result<Option<Device>, DeviceError> {
        let hash = hash_of(token);
        Ok(self.registry().await?.devices.into_iter().find(|device| device.has_hash(&hash)))
    }

    /// Whether this device is still paired.
    pub(crate) async fn has(&self, device: &Device) -> Result<bool, DeviceError> {
        Ok(self.registry().await?.devices.contains(device))
    }

    /// Reports changes of the devices from now on.
    pub(crate) fn changes(&self) -> Changes {
        let mut shared = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = shared.upgrade().or_else(|| {
            let watch = Arc::new(self.files.watch_web_file(WebFile::Devices)?);
            *shared = Arc::downgrade(&watch);
            Some(watch)
        });
        Changes::new(watch)
    }

    async fn registry(&self) -> Result<Registry, DeviceError> {
        let content = self.files.web_file(WebFile::Devices).await?;
        Registry::read(content.as_deref()).map_err(|source| self.unreadable(source))
    }

    /// Changes the registry. If `change` fails or changes nothing, nothing is written.
    async fn edit<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Registry) -> Result<T, DeviceError> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let edited = self.files.edit_web_file(WebFile::Devices, move |content| {
            let changed = Registry::read(content.as_deref()).map(|before| {
                let mut after = before.clone();
                let result = change(&mut after);
                (result.is_ok() && after != before, after, result)
            });
            match changed {
                Ok((true, after, result)) => match after.written() {
                    Ok(written) => (Some(written), Ok(result)),
                    Err(error) => (None, Err(error)),
                },
                Ok((false, _, result)) => (None, Ok(result)),
                Err(error) => (None, Err(error)),
            }
        });
        edited.await?.map_err(|source| self.unreadable(source))?
    }

    fn unreadable(&self, source: serde_json::Error) -> DeviceError {
        DeviceError::Unreadable { path: self.file(), source }
    }
}

/// Returns a new code of 8 characters with 40 random bits.
fn new_code() -> String {
    let random = Uuid::new_v4();
    // Bytes 6 and 8 of a random id have the bits of its version.
    let bytes = random.as_bytes().iter().take(6).chain(random.as_bytes().iter().skip(14));
    let characters = bytes.filter_map(|byte| CODE_CHARACTERS.get(usize::from(byte % 32)));
    let mut code: String = characters.map(|byte| char::from(*byte)).collect();
    code.insert(4, '-');
    code
}

/// Returns the hash of a code. People may type a code in lower case and without the hyphen.
fn code_hash(code: &str) -> String {
    let typed: String = code.chars().filter(|it| !matches!(it, '-' | ' ')).collect();
    hash_of(&typed.to_ascii_uppercase())
}

fn hash_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_can_be_typed_and_is_another_one_each_time() {
        let (one, other) = (new_code(), new_code());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.find('-')), (9, Some(4)), "{one}");
        let typed = one.replace('-', " ").to_lowercase();
        assert_eq!(code_hash(&typed), code_hash(&one));
        assert_ne!(code_hash(&one), code_hash(&other));
    }
}
