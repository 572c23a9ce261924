//! The format version of pitcrew's own files.
//!
//! A document states its version as `"version": N`. A document without this field has version 1. A
//! log line states its version as `"v": N`, but only from version 2 on. A file of a later version
//! is refused with an error that names the file and the version. In a file of a known version,
//! unknown content is ignored, and it stays in the file.

use serde_json::Value;

/// The format version that this program writes. It is also the latest version that it reads.
pub const FORMAT_VERSION: u64 = 1;

/// The key of the version in a document.
pub const VERSION_KEY: &str = "version";

/// Returns the version of a document if it is later than [`FORMAT_VERSION`].
#[must_use]
pub fn newer_document(document: &Value) -> Option<u64> {
    newer(document, VERSION_KEY)
}

/// Returns the version of a log line if it is later than [`FORMAT_VERSION`].
#[must_use]
pub fn newer_line(line: &Value) -> Option<u64> {
    newer(line, "v")
}

fn newer(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64().filter(|version| *version > FORMAT_VERSION)
}
