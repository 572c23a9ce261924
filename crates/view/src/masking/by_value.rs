//! Finds the secret values of a run's environment in texts, by their digests.
//!
//! White space in a text does not count, because a terminal breaks long lines, and an escape counts as
//! the character for which it stands ([`CountedBytes`]). A value that was cut is found by its first
//! bytes if the sign `…` follows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use pitcrew_team::{CountedBytes, DigestKey, FILTER_BYTES, SecretDigest, SecretDigests};

use super::Found;

/// The maximum number of characters of a variable's name that is shown.
const NAME_CHARS: usize = 64;

/// The sign after a text that was cut.
const CUT: &str = "…";

/// Values that are found by their digests.
#[derive(Clone, Debug)]
pub(super) struct KnownValues {
    key: DigestKey,
    /// The digests of each filter.
    by_filter: BTreeMap<u16, Vec<SecretDigest>>,
    /// One bit for each filter. It is looked up at each byte of a text.
    bits: Vec<u64>,
}

impl KnownValues {
    /// Returns `None` if there are no digests.
    pub(super) fn of(SecretDigests { key, digests }: SecretDigests) -> Option<Self> {
        let mut known = Self {
            key: key?,
            by_filter: BTreeMap::new(),
            bits: vec![0; usize::from(u16::MAX) / 64 + 1],
        };
        for digest in digests.into_iter().filter(|digest| digest.length >= FILTER_BYTES) {
            if let Some(bits) = known.bits.get_mut(usize::from(digest.filter / 64)) {
                *bits |= 1 << (digest.filter % 64);
            }
            known.by_filter.entry(digest.filter).or_default().push(digest);
        }
        for same in known.by_filter.values_mut() {
            // The longest value counts: another one can be a part of it.
            same.sort_by_key(|digest| std::cmp::Reverse(digest.length));
        }
        (!known.by_filter.is_empty()).then_some(known)
    }

    /// Returns the places of known values, in order.
    pub(super) fn find(&self, text: &str) -> Vec<Found> {
        let counted = CountedBytes::of(text);
        let mut all: Vec<Found> = Vec::new();
        let mut at = 0;
        while let Some((kind, end, is_inner)) = self.next(&counted, &mut at) {
            let mut range = counted.place(at..end);
            if is_inner {
                range = whole_encoding(text, range);
            }
            let mut kind = Cow::Owned(kind);
            // Another value can begin inside of this one. Together they are one place.
            while let Some(last) = all.pop_if(|last| last.range.end > range.start) {
                range = range.start.min(last.range.start)..range.end.max(last.range.end);
                kind = last.kind;
            }
            all.push(Found { kind, range });
            at += 1;
        }
        all
    }

    /// Moves `at` to the next known value. Returns its kind, its end, and whether it is the inner part
    /// of an encoding.
    fn next(&self, counted: &CountedBytes, at: &mut usize) -> Option<(String, usize, bool)> {
        while let Some(first) = counted.bytes().get(*at..).and_then(|rest| rest.first_chunk()) {
            let filter = self.key.filter(*first);
            let [byte, ..] = *first;
            let bits = self.bits.get(usize::from(filter / 64)).copied().unwrap_or_default();
            // A value begins with a whole character.
            if bits >> (filter % 64) & 1 == 1
                && byte & 0xc0 != 0x80
                && let Some(digests) = self.by_filter.get(&filter)
                && let Some(found) = self.known(counted, *at, digests)
            {
                let (kind, length, is_inner) = found;
                return Some((kind, *at + length, is_inner));
            }
            *at += 1;
        }
        None
    }

    /// Returns the value that begins at `at`, whole or cut.
    fn known(
        &self,
        counted: &CountedBytes,
        at: usize,
        digests: &[SecretDigest],
    ) -> Option<(String, usize, bool)> {
        let rest = counted.bytes().get(at..)?;
        let is_whole = |digest: &&SecretDigest| {
            rest.get(..digest.length).is_some_and(|text| self.key.mac(text) == digest.mac)
        };
        if let Some(digest) = digests.iter().find(is_whole) {
            let kind = format!("value of {}", shown(&digest.name));
            return Some((kind, digest.length, digest.is_inner));
        }
        digests.iter().find_map(|digest| {
            let length = cut_length(rest, digest.length)?;
            counted.is_one_word(at..at + length).then_some(())?;
            Some((format!("cut value of {}", shown(&digest.name)), length, false))
        })
    }
}

/// Returns the length of a word that was cut before `most` bytes.
fn cut_length(rest: &[u8], most: usize) -> Option<usize> {
    let near = rest.get(..rest.len().min(most.saturating_add(CUT.len())))?;
    let length = near.windows(CUT.len()).position(|window| window == CUT.as_bytes())?;
    (length >= FILTER_BYTES).then_some(length)
}

/// Returns the name of a variable for a document. The record of the names is a file that other
/// programs can write.
fn shown(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "_.-".contains(*c);
    name.chars().filter(is_plain).take(NAME_CHARS).collect()
}

/// Returns the range with the characters of base64 around it. In an address, some of them are
/// escapes.
fn whole_encoding(text: &str, range: Range<usize>) -> Range<usize> {
    let is_base64 = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=_-%".contains(byte);
    let (before, after) = (&text.as_bytes().get(..range.start), &text.as_bytes().get(range.end..));
    let before = before.map_or(0, |before| before.iter().rev().take_while(is_base64).count());
    let after = after.map_or(0, |after| after.iter().take_while(is_base64).count());
    range.start - before..range.end + after
}

#[cfg(test)]
mod tests;
