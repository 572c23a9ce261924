//! The documents that pitcrew stores for a team. Reading skips unknown content, and writing
//! preserves it.
//!
//! A document is an object with a format version and usually one collection of entries. An entry
//! that cannot be read is skipped and stays in the file. An unknown field also stays. pitcrew
//! refuses a document whose format version is later than its own.

use pitcrew_protocol::{ApiError, FORMAT_VERSION, VERSION_KEY, newer_document};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bounds::{FirstGoal, RunBounds};
use crate::conversations::ClientConversations;
use crate::ended::Ended;
use crate::escaped::EscapedProcesses;
use crate::lead::Keys;
use crate::pane_hosts::PaneHosts;
use crate::requests::RequestLog;
use crate::send_once::SentOnce;
use crate::started::StartedMembers;
use crate::take_over::TakeOver;
use crate::{Team, refusal};

/// One of pitcrew's own documents.
pub(crate) trait Document:
    Default + PartialEq + Clone + Serialize + DeserializeOwned + Send + 'static
{
    /// The name of the document.
    const NAME: &'static str;

    /// Converts a document that an earlier version of pitcrew wrote without a format version into
    /// the current format.
    #[must_use]
    fn from_earlier(document: Value) -> Value {
        document
    }
}

impl Document for Option<TakeOver> {
    const NAME: &'static str = "take-over";
}

/// An entry that cannot be read, in a document that can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadEntry {
    /// The document's name.
    pub document: &'static str,
    /// The position of the entry in the document, such as `started.bob`.
    pub entry: String,
}

/// A parsed document, with the parts that could not be read.
struct Reading<D> {
    document: D,
    /// The readable part of the document, in the current format.
    readable: Value,
    /// The parts that cannot be read, in the current format. The field `places` lists their
    /// positions.
    unread: Map<String, Value>,
    places: Vec<String>,
}

impl<D: Document> Reading<D> {
    fn of(stored: Option<&Value>) -> Result<Self, ApiError> {
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
    fn at(stored: Option<&Value>, path: &str) -> Result<Self, ApiError> {
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
    fn written(&self, after: &D) -> Result<Value, serde_json::Error> {
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

/// Returns a document for a new team, with its name.
pub(crate) fn new_document<D: Document>(document: &D) -> Result<(&'static str, Value), ApiError> {
    let reading = Reading::<D>::of(None)?;
    let broken =
        |error| refusal::internal(format!("our document '{}' cannot be written: {error}", D::NAME));
    Ok((D::NAME, reading.written(document).map_err(broken)?))
}

/// Parses a document that was read from the file at `path`. A missing document counts as
/// `D::default()`.
pub(crate) fn parsed<D: Document>(stored: Option<&Value>, path: &str) -> Result<D, ApiError> {
    must_be_of_our_version(stored, path)?;
    Ok(Reading::at(stored, path)?.document)
}

impl Team {
    /// Reads one of pitcrew's documents. A missing document counts as `D::default()`.
    ///
    /// # Errors
    /// `internal_error` for a document of a later format version, or for a document that cannot be
    /// read at all.
    pub(crate) async fn read_document<D: Document>(&self) -> Result<D, ApiError> {
        Ok(self.reading::<D>().await?.document)
    }

    async fn reading<D: Document>(&self) -> Result<Reading<D>, ApiError> {
        let stored = self.ask(self.backend().document(self.dir(), D::NAME)).await?;
        let path = self.document_file(D::NAME).display().to_string();
        must_be_of_our_version(stored.as_ref(), &path)?;
        Reading::at(stored.as_ref(), &path)
    }

    /// Reads and changes one of pitcrew's documents. A missing document counts as `D::default()`.
    ///
    /// # Errors
    /// The errors of `edit`. Also `internal_error` for a document of a later format version, or for
    /// a document that cannot be read at all.
    pub(crate) async fn edit_document<D: Document, T: Send + 'static>(
        &self,
        mut edit: impl FnMut(&mut D) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.change_document(D::NAME, move |stored, path| {
            let reading = Reading::<D>::at(stored.as_ref(), path)?;
            let mut after = reading.document.clone();
            let answer = edit(&mut after)?;
            if after != reading.document {
                let broken = |error| {
                    refusal::internal(format!(
                        "our document '{}' cannot be written: {error}",
                        D::NAME
                    ))
                };
                *stored = Some(reading.written(&after).map_err(broken)?);
            }
            Ok(answer)
        })
        .await
    }

    /// Lists the unreadable entries of each pitcrew document. A document of a later format version,
    /// or one that cannot be read at all, has an error in the list.
    pub async fn unread_entries(&self) -> Vec<(&'static str, Result<Vec<UnreadEntry>, ApiError>)> {
        vec![
            (StartedMembers::NAME, self.unread_of::<StartedMembers>().await),
            (RequestLog::NAME, self.unread_of::<RequestLog>().await),
            (PaneHosts::NAME, self.unread_of::<PaneHosts>().await),
            (RunBounds::NAME, self.unread_of::<RunBounds>().await),
            (FirstGoal::NAME, self.unread_of::<FirstGoal>().await),
            (ClientConversations::NAME, self.unread_of::<ClientConversations>().await),
            (Ended::NAME, self.unread_of::<Ended>().await),
            (Keys::NAME, self.unread_of::<Keys>().await),
            (EscapedProcesses::NAME, self.unread_of::<EscapedProcesses>().await),
            (SentOnce::NAME, self.unread_of::<SentOnce>().await),
            (Option::<TakeOver>::NAME, self.unread_of::<Option<TakeOver>>().await),
        ]
    }

    /// Checks that a run can use the team's documents and the inboxes of its members. No file may
    /// be damaged or have a later format version. Single unreadable entries are allowed. This
    /// function changes nothing.
    ///
    /// # Errors
    /// `internal_error` for the first file that is damaged or has a later format version.
    pub async fn check_records(&self) -> Result<(), ApiError> {
        for (document, unread) in self.unread_entries().await {
            // A run needs neither the list of processes that commands left running nor the keys of
            // programs that sent messages.
            if document != EscapedProcesses::NAME && document != SentOnce::NAME {
                unread?;
            }
        }
        // A run reads and changes every inbox, so a damaged inbox would stop the run later.
        for member in &self.config().await?.members {
            self.unread(&member.name).await?;
        }
        Ok(())
    }

    /// Removes the unreadable parts of a document.
    ///
    /// # Errors
    /// `internal_error` when the store fails.
    pub async fn drop_unread_entries(&self, document: &str) -> Result<(), ApiError> {
        self.drop_unread_of::<StartedMembers>(document).await?;
        self.drop_unread_of::<RequestLog>(document).await?;
        self.drop_unread_of::<PaneHosts>(document).await?;
        self.drop_unread_of::<RunBounds>(document).await?;
        self.drop_unread_of::<FirstGoal>(document).await?;
        self.drop_unread_of::<ClientConversations>(document).await?;
        self.drop_unread_of::<Ended>(document).await?;
        self.drop_unread_of::<Keys>(document).await?;
        self.drop_unread_of::<SentOnce>(document).await?;
        self.drop_unread_of::<EscapedProcesses>(document).await
    }

    async fn unread_of<D: Document>(&self) -> Result<Vec<UnreadEntry>, ApiError> {
        let entry = |entry: String| UnreadEntry { document: D::NAME, entry };
        Ok(self.reading::<D>().await?.places.into_iter().map(entry).collect())
    }

    async fn drop_unread_of<D: Document>(&self, document: &str) -> Result<(), ApiError> {
        if document != D::NAME {
            return Ok(());
        }
        self.change_document(D::NAME, |stored, _| {
            let reading = Reading::<D>::of(stored.as_ref())?;
            if !reading.places.is_empty() {
                let mut readable = reading.readable;
                if let Value::Object(fields) = &mut readable {
                    fields.insert(VERSION_KEY.to_owned(), FORMAT_VERSION.into());
                }
                *stored = Some(readable);
            }
            Ok(())
        })
        .await
    }

    /// Changes the stored value of a document. Refuses a document of a later format version.
    async fn change_document<T: Send + 'static>(
        &self,
        name: &'static str,
        mut change: impl FnMut(&mut Option<Value>, &str) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let path = self.document_file(name).display().to_string();
        let (inside, outside) = crate::edit::Answer::pair();
        let edit = Box::new(move |stored: &mut Option<Value>| {
            must_be_of_our_version(stored.as_ref(), &path)?;
            inside.put(change(stored, &path)?);
            Ok(())
        });
        self.ask(self.backend().edit_document(self.dir(), name, edit)).await?;
        outside.take()
    }
}

fn must_be_of_our_version(stored: Option<&Value>, path: &str) -> Result<(), ApiError> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Probe {
        named: BTreeMap<String, Entry>,
        listed: Vec<Entry>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Entry {
        n: u32,
    }

    impl Document for Probe {
        const NAME: &'static str = "probe";
    }

    fn changed(stored: Value, change: impl FnOnce(&mut Probe)) -> (Vec<String>, Value) {
        let reading = Reading::<Probe>::of(Some(&stored)).unwrap();
        let mut after = reading.document.clone();
        change(&mut after);
        (reading.places.clone(), reading.written(&after).unwrap())
    }

    #[test]
    fn what_is_not_known_stays_where_it_is() {
        let stored = json!({
            "named": {"a": {"n": 1, "more": true}, "b": {"n": "x"}, "c": {"n": 3}}, "listed": [{"n": 1}], "later": 7,
        });
        let (unread, written) = changed(stored, |probe| {
            probe.named.get_mut("a").unwrap().n = 2;
            probe.named.remove("c");
        });
        assert_eq!(unread, ["named.b"]);
        let expected = json!({
            "version": 1, "named": {"a": {"n": 2, "more": true}, "b": {"n": "x"}}, "listed": [{"n": 1}], "later": 7,
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn entries_of_a_list_are_kept_too() {
        let stored =
            json!({"version": 1, "named": 5, "listed": [{"n": 1, "more": 1}, 7, {"n": 2}]});
        let (unread, written) = changed(stored, |probe| probe.listed.push(Entry { n: 3 }));
        assert_eq!(unread, ["named", "listed[1]"]);
        let expected = json!({"version": 1, "named": 5, "listed": [{"n": 1, "more": 1}, {"n": 2}, {"n": 3}, 7]});
        assert_eq!(written, expected);
    }

    #[test]
    fn a_document_that_is_well_is_written_with_its_version_and_nothing_else() {
        let (unread, written) =
            changed(json!({"named": {}, "listed": []}), |probe| probe.listed.push(Entry { n: 1 }));
        assert!(unread.is_empty());
        assert_eq!(written, json!({"version": 1, "named": {}, "listed": [{"n": 1}]}));
    }
}
