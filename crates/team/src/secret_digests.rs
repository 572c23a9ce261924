//! Keyed digests of the secret values in the environment of a team's runs. With them the values are
//! found in texts later, without being stored.
//!
//! The document has one random key for the team. For each text it has the length, the HMAC-SHA-256
//! under the key, and a filter: 16 bits that depend on the first bytes. The filter finds the few
//! places of a long text at which an HMAC is worth its time.
//!
//! Whoever can read the document can test a guess. A random key or token has too many values to
//! guess; a weak password has not. The document is therefore readable by its user only, as the
//! environment of the user's processes is.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pitcrew_protocol::ApiError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Team;
use crate::document::Document;

mod counted_bytes;

pub use counted_bytes::CountedBytes;

/// The number of first bytes of a text on which its filter depends. Shorter texts have no digest.
pub const FILTER_BYTES: usize = 8;

/// The maximum number of digests of a team. An environment has a few dozen. Tokens that are new in
/// each run add up, and then the oldest digests are removed.
const DIGESTS_MOST: usize = 4_096;

/// The number of bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// A text that must not appear in a document: a secret value, or one of its forms.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText {
    /// The name of the variable.
    pub name: String,
    /// The text.
    pub text: String,
    /// Whether the text is the inner part of an encoding. The characters around it then belong to
    /// the secret too.
    pub is_inner: bool,
}

/// The random key of a team's digests.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DigestKey([u8; 32]);

/// The digest of a secret text. It is that of the text's [`CountedBytes`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretDigest {
    /// The name of the variable.
    pub name: String,
    /// The number of counted bytes of the text.
    pub length: usize,
    /// The result of [`DigestKey::filter`] for the first bytes of the text.
    pub filter: u16,
    /// The result of [`DigestKey::mac`] for the text.
    pub mac: Mac,
    /// Whether the text is the inner part of an encoding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_inner: bool,
}

/// An HMAC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 32]);

/// The stored document: the key and the digests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretDigests {
    /// The key. `None` if no value was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<DigestKey>,
    /// The digests.
    pub digests: Vec<SecretDigest>,
}

impl Document for SecretDigests {
    const NAME: &'static str = "secret-digests";
}

impl Team {
    /// Records the digests of secret texts, in addition to the earlier ones.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails, when the record cannot be read,
    /// or when the system gives no randomness.
    pub async fn keep_secret_texts(&self, texts: &[SecretText]) -> Result<(), ApiError> {
        if texts.is_empty() {
            return Ok(());
        }
        let (new_key, texts) = (DigestKey(self.teams().entropy().seed()?), texts.to_vec());
        self.edit_document(move |all: &mut SecretDigests| {
            all.add(&texts, &new_key);
            Ok(())
        })
        .await
    }

    /// Returns the digests of the secret texts of the team's runs.
    ///
    /// # Errors
    /// `team_not_found`, or `internal_error` when the store fails or the record cannot be read.
    pub(crate) async fn secret_digests(&self) -> Result<SecretDigests, ApiError> {
        self.read_document().await
    }
}

impl SecretDigests {
    /// Adds the digests of texts. `new_key` becomes the key if there is none. If there are too many
    /// digests, the oldest ones are removed.
    pub fn add(&mut self, texts: &[SecretText], new_key: &DigestKey) {
        let key = self.key.get_or_insert_with(|| {
            // Digests without their key find nothing.
            self.digests.clear();
            new_key.clone()
        });
        let mut seen = BTreeSet::new();
        let present: Vec<SecretDigest> = texts
            .iter()
            .filter_map(|text| SecretDigest::of(key, text))
            .filter(|digest| seen.insert(digest.mac.clone()))
            .collect();
        // The digests of the present texts come last, so that they are the last to be removed.
        self.digests.retain(|known| !seen.contains(&known.mac));
        self.digests.extend(present);
        self.digests.drain(..self.digests.len().saturating_sub(DIGESTS_MOST));
    }
}

impl SecretDigest {
    /// Returns the digest of a text. Returns `None` if the text is too short.
    fn of(key: &DigestKey, SecretText { name, text, is_inner }: &SecretText) -> Option<Self> {
        let counted = CountedBytes::of(text);
        let bytes = counted.bytes();
        let filter = key.filter(*bytes.first_chunk()?);
        let (length, mac) = (bytes.len(), key.mac(bytes));
        Some(Self { name: name.clone(), length, filter, mac, is_inner: *is_inner })
    }
}

impl DigestKey {
    /// Makes a key of random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns 16 bits that depend on the first bytes of a text.
    #[must_use]
    pub fn filter(&self, first: [u8; FILTER_BYTES]) -> u16 {
        let (multiplier, mask) = self.filter_numbers();
        // The upper bits of a product depend on all bits of its factors.
        let product = (u64::from_le_bytes(first) ^ mask).wrapping_mul(multiplier | 1);
        u16::try_from(product >> 48).unwrap_or_default()
    }

    fn filter_numbers(&self) -> (u64, u64) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = self.0;
        let multiplier = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        (multiplier, u64::from_le_bytes([i, j, k, l, m, n, o, p]))
    }

    /// Returns the HMAC-SHA-256 of a text under this key (RFC 2104).
    #[must_use]
    pub fn mac(&self, text: &[u8]) -> Mac {
        let padded = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.iter_mut().zip(self.0).for_each(|(byte, key)| *byte ^= key);
            block
        };
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
        Mac(Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into())
    }
}

/// Parses 32 bytes in base64.
fn bytes_of(text: &str) -> Result<[u8; 32], &'static str> {
    let bytes = STANDARD.decode(text).map_err(|_| "this is no base64")?;
    bytes.try_into().map_err(|_| "these are not 32 bytes")
}

impl TryFrom<String> for DigestKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        bytes_of(&text).map(Self)
    }
}

impl From<DigestKey> for String {
    fn from(key: DigestKey) -> Self {
        STANDARD.encode(key.0)
    }
}

impl TryFrom<String> for Mac {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        bytes_of(&text).map(Self)
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        STANDARD.encode(mac.0)
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretText").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(name: &str, text: &str) -> SecretText {
        SecretText { name: name.to_owned(), text: text.to_owned(), is_inner: false }
    }

    /// The key of the RFC is shorter. Zero bytes after a key make the same block.
    #[test]
    fn a_mac_is_the_hmac_of_rfc_4231() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let mac = DigestKey::new(key).mac(b"what do ya want for nothing?");
        let hex: String = mac.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_document_has_a_digest_of_each_text_once_and_no_text() {
        let (key, other) = (DigestKey::new([7; 32]), DigestKey::new([8; 32]));
        let mut all = SecretDigests::default();
        let texts =
            [text("A_TOKEN", "aB3dE5fG7h"), text("B", "short"), text("C", "aB3dE\r\n5fG7h")];
        all.add(&texts, &key);
        let before = all.clone();
        all.add(&texts, &other);
        assert_eq!(all, before);
        assert_eq!(all.digests.len(), 1);
        let written = serde_json::to_value(&all).unwrap();
        assert_eq!(written["digests"][0]["length"], 10);
        assert!(!written.to_string().contains("aB3d"), "{written}");
        assert_eq!(serde_json::from_value::<SecretDigests>(written).unwrap(), all);
        assert!(!format!("{texts:?}{all:?}").contains("aB3d"));
        // A record without a usable key is made anew.
        all.key = None;
        all.add(&texts[..1], &other);
        assert_eq!((all.digests.len(), all.key), (1, Some(other)));
        let short = json!({"key": "AAAA", "digests": []});
        assert!(serde_json::from_value::<SecretDigests>(short).is_err());
    }

    #[test]
    fn the_latest_digests_stay() {
        let (key, mut all) = (DigestKey::new([7; 32]), SecretDigests::default());
        let token = |number: usize| text("CI_TOKEN", &format!("aB3dE5fG7h-{number}"));
        let first = [token(0)];
        all.add(&first, &key);
        let earlier: Vec<SecretText> = (1..DIGESTS_MOST).map(token).collect();
        all.add(&earlier, &key);
        let is_known = |all: &SecretDigests, number: usize| {
            let mac = SecretDigest::of(&key, &token(number)).unwrap().mac;
            all.digests.iter().any(|known| known.mac == mac)
        };
        assert_eq!(all.digests.len(), DIGESTS_MOST);
        // The first one is in the environment of this run again.
        all.add(&[token(0), token(DIGESTS_MOST)], &key);
        assert_eq!(all.digests.len(), DIGESTS_MOST);
        assert!(is_known(&all, 0) && is_known(&all, DIGESTS_MOST));
        assert!(!is_known(&all, 1) && is_known(&all, 2));
    }
}
