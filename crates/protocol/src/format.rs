//! The version of the files that are ours alone.
//!
//! A document says it as `"version": N`, and one that says none is of version 1. A line of a log says it as `"v": N`, and
//! only from version 2 on. A file of a later version is refused by name and version. Whatever else is not known, in a
//! file of a version that is, is kept and passed over.

use serde_json::Value;

/// The version that this program writes, and the latest one that it reads.
pub const FORMAT_VERSION: u64 = 1;

/// The key of the version in a document.
pub const VERSION_KEY: &str = "version";

/// The version of a document when it is a later one than ours.
#[must_use]
pub fn newer_document(document: &Value) -> Option<u64> {
    newer(document, VERSION_KEY)
}

/// The version of a line of a log when it is a later one than ours.
#[must_use]
pub fn newer_line(line: &Value) -> Option<u64> {
    newer(line, "v")
}

fn newer(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64().filter(|version| *version > FORMAT_VERSION)
}
