//! Creates ids: random ids that cannot be guessed, and fixed ids that a repeated call computes
//! again.

use std::sync::{Mutex, PoisonError};

use pitcrew_protocol::{ApiError, ErrorCode, MessageId};
use rand::rngs::{StdRng, SysRng};
use rand::{Rng as _, SeedableRng as _, TryRng as _};
use uuid::Uuid;

/// The number of random characters in the id of a permission request. 12 characters of base 36 are
/// 62 bits, so nobody can guess the id.
const REQUEST_CHARS: usize = 12;

const BASE_36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The source of random numbers.
#[derive(Debug)]
pub(crate) enum Entropy {
    /// The random generator of the operating system.
    System,
    /// A generator that repeats its numbers for the same seed, for simulations.
    Seeded(Box<Mutex<StdRng>>),
}

impl Entropy {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Box::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    fn bytes<const N: usize>(&self) -> Result<[u8; N], ApiError> {
        let mut bytes = [0; N];
        match self {
            Self::System => SysRng.try_fill_bytes(&mut bytes).map_err(|e| {
                ApiError::new(
                    ErrorCode::InternalError,
                    format!("the system gives no randomness: {e}"),
                )
            })?,
            Self::Seeded(generator) => {
                generator.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut bytes)
            }
        }
        Ok(bytes)
    }

    /// Returns a new message id. The id is a UUID of version 7, so ids sort by time.
    pub(crate) fn message_id(&self, now_ms: i64) -> Result<MessageId, ApiError> {
        let ms = u64::try_from(now_ms).unwrap_or(0);
        let id = uuid::Builder::from_unix_timestamp_millis(ms, &self.bytes()?).into_uuid();
        Ok(MessageId(id.to_string()))
    }

    /// Returns `<ms>-<random>`, the part after `perm-` in the id of a permission request.
    pub(crate) fn request_stem(&self, now_ms: i64) -> Result<String, ApiError> {
        let mut random = u128::from_le_bytes(self.bytes()?);
        let mut stem = format!("{now_ms}-");
        for _ in 0..REQUEST_CHARS {
            let digit = usize::try_from(random % 36).unwrap_or(0);
            stem.push(BASE_36.get(digit).copied().map_or('0', char::from));
            random /= 36;
        }
        Ok(stem)
    }

    /// Returns the random bytes for a new key.
    pub(crate) fn seed(&self) -> Result<[u8; 32], ApiError> {
        self.bytes()
    }

    /// Returns a random UUID.
    pub(crate) fn token(&self) -> Result<String, ApiError> {
        Ok(uuid::Builder::from_random_bytes(self.bytes()?).into_uuid().to_string())
    }
}

/// Returns the message id for `parts`. The same parts give the same id in every process.
pub(crate) fn made_id(parts: &[&str]) -> MessageId {
    let mut says = String::from("pitcrew");
    for part in parts {
        // The length of each part is included. Otherwise different parts could give the same joined
        // text.
        says.push_str(&format!("\n{}:{part}", part.len()));
    }
    MessageId(Uuid::new_v5(&Uuid::NAMESPACE_OID, says.as_bytes()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_ids_again_and_the_system_never_does() {
        let (one, two) = (Entropy::seeded(7), Entropy::seeded(7));
        assert_eq!(one.request_stem(5).unwrap(), two.request_stem(5).unwrap());
        assert_ne!(one.request_stem(5).unwrap(), one.request_stem(5).unwrap());
        assert_ne!(Entropy::System.token().unwrap(), Entropy::System.token().unwrap());
        let id = Entropy::System.message_id(1_795_175_309_433).unwrap();
        assert_eq!(Uuid::parse_str(&id.0).unwrap().get_version_num(), 7);
    }

    #[test]
    fn made_ids_do_not_run_together() {
        assert_eq!(made_id(&["a", "b"]), made_id(&["a", "b"]));
        assert_ne!(made_id(&["a\n1:b"]), made_id(&["a", "b"]));
    }
}
