//! Parses a document around the parts that cannot be read, and writes those parts back.

use pitcrew_protocol::{ApiError, FORMAT_VERSION, VERSION_KEY, newer_document};
use serde_json::{Map, Value};

use super::Document;
use crate::refusal;

/// A parsed document, with the parts that could not be read.
pub(super) struct Reading<D> {
    pub(super) document: D,
    /// The readable part of the document, in the current format.
    pub(super) readable: Value,
    /// The parts that cannot be read, in the current format. The field `places` lists their
    /// positions.
    unread: Map<String, Value>,
    pub(super) places: Vec<String>,
}

impl<D: Document> Reading<D> {
    pub(super) fn of(stored: Option<&Value>) -> Result<Self, ApiError> {
        let Some(stored) = stored else {
            let document = D::default();
            return Ok(Self {
                document,
                readable: Value::Null,
                unread: Map::new(),
                places: Vec::new(),
            });
        };
        let whole = match stored.get(VERSION_KEY).and_then(Value::as_u64) {
            Some(_) => stored.clone(),
            None => D::from_earlier(stored.clone()),
        };
        let error = match D::deserialize(&whole) {
            Ok(document) => {
                return Ok(Self {
                    document,
                    readable: whole,
                    unread: Map::new(),
                    places: Vec::new(),
                });
            }
            Err(error) => error,
        };
        // Look for single unreadable entries only if the whole document cannot be parsed. A valid
        // document is therefore parsed only once.
        let (readable, unread, places) = sifted::<D>(&whole);
        match D::deserialize(&readable) {
            Ok(document) => Ok(Self { document, readable, unread, places }),
            Err(_) => Err(refusal::internal(format!(
                "our document '{}' is not readable: {error}",
                D::NAME
            ))),
        }
    }

    /// Parses the document that is stored in the file at `path`. An error contains `path`.
    pub(super) fn at(stored: Option<&Value>, path: &str) -> Result<Self, ApiError> {
        let reading =
            Self::of(stored).map_err(|error| error.with("path", path).with("corrupt", true))?;
        if let Some(first) = reading.places.first() {
            let entries = reading.places.len();
            tracing::debug!(path, first, entries, "passed over what cannot be read");
        }
        Ok(reading)
    }

    /// Returns the value to store after a change. It includes all unknown and unreadable content of
    /// the old value.
    pub(super) fn written(&self, after: &D) -> Result<Value, serde_json::Error> {
        let (before, mut new) =
            (serde_json::to_value(&self.document)?, serde_json::to_value(after)?);
        restore(&self.readable, &before, &mut new);
        if let Value::Object(fields) = &mut new {
            for (key, unread) in &self.unread {
                match (fields.get_mut(key), unread) {
                    (Some(Value::Array(there)), Value::Array(unread)) => {
                        there.extend(unread.iter().cloned())
                    }
                    (Some(Value::Object(there)), Value::Object(unread)) => {
                        there.extend(unread.clone())
                    }
                    // The stored value had an unreadable type, and the edit did not set a new
                    // value. Restore the stored value.
                    (Some(there), unread) if before.get(key) == Some(&*there) => {
                        *there = unread.clone()
                    }
                    (Some(_) | None, _) => {}
                }
            }
            // Put the version first, so that a person who opens the file sees it at once.
            fields.shift_insert(0, VERSION_KEY.to_owned(), FORMAT_VERSION.into());
        }
        Ok(new)
    }
}

pub(super) fn must_be_of_our_version(stored: Option<&Value>, path: &str) -> Result<(), ApiError> {
    match stored.and_then(newer_document) {
        Some(version) => Err(refusal::newer(path, version)),
        None => Ok(()),
    }
}

/// Splits a document into three parts: the readable entries, the unreadable entries, and the
/// positions of the unreadable entries.
fn sifted<D: Document>(whole: &Value) -> (Value, Map<String, Value>, Vec<String>) {
    let Value::Object(fields) = whole else { return (whole.clone(), Map::new(), Vec::new()) };
    let (mut readable, mut unread, mut places) = (Map::new(), Map::new(), Vec::new());
    let alone =
        |key: &str, entries: Value| Value::Object(Map::from_iter([(key.to_owned(), entries)]));
    let can_be_read = |document: &Value| D::deserialize(document).is_ok();
    for (key, value) in fields {
        match value {
            // A collection of the wrong type has no readable entry.
            Value::Object(_) if !can_be_read(&alone(key, Map::new().into())) => {
                unread.insert(key.clone(), value.clone());
                places.push(key.clone());
            }
            Value::Array(_) if !can_be_read(&alone(key, Value::Array(Vec::new()))) => {
                unread.insert(key.clone(), value.clone());
                places.push(key.clone());
            }
            Value::Object(entries) => {
                let is_readable = |(name, entry): &(&String, &Value)| {
                    can_be_read(&alone(
                        key,
                        Map::from_iter([((*name).clone(), (*entry).clone())]).into(),
                    ))
                };
                let (good, bad): (Vec<_>, Vec<_>) = entries.iter().partition(is_readable);
                places.extend(bad.iter().map(|(name, _)| format!("{key}.{name}")));
                let owned = |pairs: Vec<(&String, &Value)>| -> Map<String, Value> {
                    pairs.into_iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
                };
                readable.insert(key.clone(), owned(good).into());
                unread.insert(key.clone(), owned(bad).into());
            }
            Value::Array(entries) => {
                let is_readable = |(_, entry): &(usize, &Value)| {
                    can_be_read(&alone(key, vec![(*entry).clone()].into()))
                };
                let (good, bad): (Vec<_>, Vec<_>) =
                    entries.iter().enumerate().partition(is_readable);
                places.extend(bad.iter().map(|(at, _)| format!("{key}[{at}]")));
                let owned = |pairs: Vec<(usize, &Value)>| -> Vec<Value> {
                    pairs.into_iter().map(|(_, entry)| entry.clone()).collect()
                };
                readable.insert(key.clone(), owned(good).into());
                unread.insert(key.clone(), owned(bad).into());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)
                if key != VERSION_KEY =>
            {
                if can_be_read(&alone(key, value.clone())) {
                    readable.insert(key.clone(), value.clone());
                } else {
                    unread.insert(key.clone(), value.clone());
                    places.push(key.clone());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                readable.insert(key.clone(), value.clone());
            }
        }
    }
    (readable.into(), unread, places)
}

/// Copies unknown fields and entries into `new`. Unknown content is in the stored value `whole`,
/// but not in the parsed value `before`.
fn restore(whole: &Value, before: &Value, new: &mut Value) {
    match (whole, before, new) {
        (Value::Object(whole), Value::Object(before), Value::Object(new)) => {
            for (key, value) in whole {
                match (before.get(key), new.get_mut(key)) {
                    (None, None) => _ = new.insert(key.clone(), value.clone()),
                    (Some(before), Some(new)) => restore(value, before, new),
                    // The edit removed or added this field, so `new` is already right.
                    (Some(_), None) | (None, Some(_)) => {}
                }
            }
        }
        (Value::Array(whole), Value::Array(before), Value::Array(new))
            if whole.len() == before.len() =>
        {
            // Entries of a list have no names. If the edit did not change an entry, that entry is
            // written exactly as it was stored.
            for entry in new {
                if let Some(at) = before.iter().position(|known| known == entry)
                    && let Some(was) = whole.get(at)
                {
                    entry.clone_from(was);
                }
            }
        }
        (_, _, _) => {}
    }
}
