//! The replay of a run as one HTML file, which a browser plays without a server.

use pitcrew_protocol::counted;
use pitcrew_team::TeamRecords;
use pitcrew_view::markdown_export::masked_in_words;
use pitcrew_view::masking::Masked;
use pitcrew_view::replay::Replay;
use pitcrew_web::replay_document;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::masker;
use crate::failure::Failure;
use crate::output::printable;

/// A replay as a document.
#[derive(Debug)]
pub(crate) struct ReplayFile {
    /// The document.
    pub(crate) html: String,
    /// The number of events in it.
    pub(crate) events: usize,
    /// The number of older events that are not in it.
    pub(crate) left_out: u64,
    /// The secrets that were masked in it.
    pub(crate) masked: Vec<Masked>,
    /// What could not be read, as texts for a person.
    pub(crate) unread: Vec<String>,
}

/// A replay without secrets, as it is written.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    about: Map<String, Value>,
    events: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    masked: Option<String>,
}

/// Makes a document of the replay of a team. No text gets into it before it is masked.
///
/// # Errors
/// Returns an error if the records cannot be read.
pub(crate) async fn replay_file(records: &TeamRecords) -> Result<ReplayFile, Failure> {
    let mut replay = Replay::of_records(records).await?;
    let events = std::mem::take(&mut replay.events);
    let (count, left_out, unread) = (events.len(), replay.left_out, replay.unread.clone());
    let mut masker = masker(records).await?;
    // As values, all events at once would need many times the memory of their text.
    let events = events.into_iter().map(|event| {
        let event = masker.value(&serde_json::to_value(event)?);
        to_raw_value(&event)
    });
    let events = events.collect::<Result<_, _>>().map_err(Failure::internal)?;
    let about = masker.value(&serde_json::to_value(replay).map_err(Failure::internal)?);
    let mut about: Map<String, Value> = serde_json::from_value(about).map_err(Failure::internal)?;
    about.remove("events");
    let name = about.get("name").and_then(Value::as_str).unwrap_or_default();
    let title = printable(name).into_owned();
    let masked = masker.masked();
    let written = Written { about, events, masked: masked_in_words(&masked) };
    let written = serde_json::to_string(&written).map_err(Failure::internal)?;
    let html = replay_document(&title, &written).map_err(Failure::internal)?;
    Ok(ReplayFile { html, events: count, left_out, masked, unread })
}

impl ReplayFile {
    /// Describes the size of the document and what is not in it.
    pub(crate) fn in_words(&self) -> String {
        let kilobytes = self.html.len().div_ceil(1_000);
        let size = format!("{kilobytes} KB, {}", counted(self.events, "event"));
        match self.left_out {
            0 => size,
            left_out => format!("{size}; {left_out} older ones are left out"),
        }
    }
}
