//! How late events came to the faces.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;

use crate::seen::Seen;

/// The maximum time from an event to each face, in milliseconds.
pub(crate) const LATE_MS_MOST: f64 = 50.0;

/// For each face and event, how late the face was, in microseconds; and for each event, how late
/// the last face was.
pub(crate) struct Lateness {
    each_us: Vec<i64>,
    last_us: Vec<i64>,
}

impl Lateness {
    /// Collects how late each face got each event, since the event got its number in the host.
    pub(crate) fn from_host<'a>(seen: impl Iterator<Item = &'a Seen>) -> Self {
        Self::of(seen, |seen| {
            seen.late_us.iter().map(|(seq, late_us)| (seq.to_string(), *late_us)).collect()
        })
    }

    /// Collects how late each face learned of each delivery, since its entry in the journal of the
    /// team below `root`.
    pub(crate) fn from_journal<'a>(seen: impl Iterator<Item = &'a Seen>, root: &Path) -> Self {
        let journal = injections(root);
        let late = |(id, at_us): &(String, i64)| Some((id.clone(), at_us - journal.get(id)?));
        Self::of(seen, |seen| seen.deliveries.iter().filter_map(late).collect())
    }

    /// `of_face` returns the events of a face, each with its name.
    fn of<'a>(
        seen: impl Iterator<Item = &'a Seen>,
        of_face: impl Fn(&'a Seen) -> Vec<(String, i64)>,
    ) -> Self {
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut each_us = Vec::new();
        for (event, late_us) in seen.flat_map(of_face) {
            each_us.push(late_us);
            let last = last.entry(event).or_insert(late_us);
            *last = late_us.max(*last);
        }
        let mut last_us: Vec<i64> = last.into_values().collect();
        each_us.sort_unstable();
        last_us.sort_unstable();
        Self { each_us, last_us }
    }

    /// Prints the times of one kind of event, to one kind of `face`. Returns the time within which
    /// 99 of 100 events have reached every face, in milliseconds.
    pub(crate) fn print(&self, what: &str, face: &str) -> f64 {
        let at = |sorted: &[i64], share: f64| {
            let at = (sorted.len() as f64 * share) as usize;
            let at = at.min(sorted.len().saturating_sub(1));
            *sorted.get(at).expect("events happened") as f64 / 1e3
        };
        let Self { each_us, last_us } = self;
        let late_ms = at(last_us, 0.99);
        println!(
            "{what}, to a {face}: p50 {:.1} ms, p99 {:.1} ms; to the last {face}: p50 {:.1} ms, p99 {late_ms:.1} ms, max {:.1} ms; {:.2} of the limit of {LATE_MS_MOST} ms ({} events)",
            at(each_us, 0.5),
            at(each_us, 0.99),
            at(last_us, 0.5),
            at(last_us, 1.0),
            late_ms / LATE_MS_MOST,
            last_us.len(),
        );
        late_ms
    }
}

/// Returns the times at which the journal says that messages were written into conversations, in
/// microseconds since 1970, by the ids of the messages.
fn injections(root: &Path) -> HashMap<String, i64> {
    #[derive(Deserialize)]
    struct Entry {
        at_ms: i64,
        event: String,
        id: Option<String>,
    }
    let journal = std::fs::read_to_string(root.join("teams/soak/pitcrew/journal.ndjson"));
    let journal = journal.expect("a journal");
    // The team still writes: the last line may be cut.
    let entries = journal.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let injections = entries.filter(|entry| entry.event == "message_injected");
    injections.filter_map(|entry| Some((entry.id?, entry.at_ms * 1_000))).collect()
}
