//! The latest events of a host, each serialised once for all followers, within a limit of memory.

use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of bytes of all events in the log.
pub(super) const LOG_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of events in the log. Without this limit, the bookkeeping of very short events
/// could be larger than the events.
const LOG_EVENTS: usize = 32 * 1024;

/// Maximum length of an event in the log. A longer event would drive too many others out. Followers
/// get a snapshot in its place.
const EVENT_BYTES: usize = LOG_BYTES / 4;

/// Maximum number of bytes that a follower takes at one time, unless one event is longer. A
/// follower that does not read keeps so many bytes alive after they left the log.
const BATCH_BYTES: usize = 256 * 1024;

/// The latest events of a host.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    next_seq: u64,
}

impl EventLog {
    /// Returns the number of the next event.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Appends the next event, as a line with its line break. `None` means that the event has no
    /// line. Followers then get a snapshot in its place.
    pub(super) fn push(&mut self, line: Option<String>) {
        self.next_seq += 1;
        match line.filter(|line| line.len() <= EVENT_BYTES) {
            Some(line) => {
                self.bytes += line.len();
                self.lines.push_back(line.into());
            }
            // Followers could not notice a gap in the lines, so no line before the gap stays.
            None => {
                self.lines.clear();
                self.bytes = 0;
            }
        }
        while self.bytes > LOG_BYTES || self.lines.len() > LOG_EVENTS {
            let Some(line) = self.lines.pop_front() else { return };
            self.bytes -= line.len();
        }
    }

    /// Returns the next lines for a follower that has all events before the number `seq`. The list
    /// is empty if there is no later event. Returns `None` if the log does not have these events
    /// any more, or if there is no event with this number yet.
    pub(super) fn since(&self, seq: u64) -> Option<Vec<Arc<str>>> {
        let first = self.next_seq - self.lines.len() as u64;
        let skipped = usize::try_from(seq.checked_sub(first)?).ok()?;
        if seq > self.next_seq {
            return None;
        }
        let mut room = BATCH_BYTES;
        let mut lines = Vec::new();
        for line in self.lines.iter().skip(skipped) {
            if line.len() > room && !lines.is_empty() {
                break;
            }
            room = room.saturating_sub(line.len());
            lines.push(line.clone());
        }
        Some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(lines: impl IntoIterator<Item = String>) -> EventLog {
        let mut log = EventLog::default();
        lines.into_iter().for_each(|line| log.push(Some(line)));
        log
    }

    fn texts(log: &EventLog, seq: u64) -> Option<Vec<String>> {
        Some(log.since(seq)?.iter().map(|line| line.to_string()).collect())
    }

    #[test]
    fn a_follower_gets_each_event_once_and_in_order() {
        let log = log_of((0..10).map(|at| at.to_string()));
        assert_eq!(texts(&log, 8), Some(vec!["8".to_owned(), "9".to_owned()]));
        assert_eq!(texts(&log, 10), Some(Vec::new()));
        assert_eq!(texts(&log, 11), None, "a number that was never counted");
        let mut seen = Vec::new();
        let long = log_of((0..100).map(|at| format!("{at:<10000}")));
        while let Some(lines) = long.since(seen.len() as u64).filter(|lines| !lines.is_empty()) {
            assert!(lines.iter().map(|line| line.len()).sum::<usize>() <= BATCH_BYTES);
            seen.extend(lines.iter().map(|line| line.trim_end().to_owned()));
        }
        assert_eq!(seen, (0..100).map(|at| at.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn the_log_stays_within_its_limits_and_says_that_old_events_are_gone() {
        let mut log = log_of((0..1_000).map(|at| format!("{at:<10000}")));
        assert!(log.bytes <= LOG_BYTES && log.bytes > LOG_BYTES - 10_000, "{}", log.bytes);
        assert_eq!(log.bytes, log.lines.iter().map(|line| line.len()).sum::<usize>());
        assert_eq!(texts(&log, 0), None);
        let first = log.next_seq() - log.lines.len() as u64;
        assert_eq!(texts(&log, first - 1), None);
        assert!(texts(&log, first).unwrap()[0].starts_with(&first.to_string()));
        (0..2 * LOG_EVENTS).for_each(|_| log.push(Some(String::new())));
        assert_eq!(log.lines.len(), LOG_EVENTS);
    }

    #[test]
    fn an_event_that_is_too_long_leaves_a_gap_that_a_follower_notices() {
        let mut log = log_of(["0".to_owned()]);
        log.push(Some("x".repeat(EVENT_BYTES + 1)));
        assert_eq!((texts(&log, 0), texts(&log, 1)), (None, None));
        assert_eq!(texts(&log, 2), Some(Vec::new()));
        log.push(Some("2".to_owned()));
        assert_eq!(texts(&log, 2), Some(vec!["2".to_owned()]));
        log.push(None);
        assert_eq!((texts(&log, 3), texts(&log, 4)), (None, Some(Vec::new())));
    }
}
