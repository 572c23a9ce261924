//! Puts the log of the team into the timeline.

use pitcrew_view::state::{Happened, Timeline, TimelineEntry};
use pitcrew_view::team_log::{LogEntry, LogPart};

use super::App;

impl App {
    pub(super) fn logged(&mut self, part: LogPart) {
        let entries = match part {
            LogPart::All(entries) => {
                self.state.timeline = Timeline::default();
                entries
            }
            LogPart::More(entries) => entries,
            LogPart::Failed(error) => {
                return self.problem(format!("the timeline cannot be read: {error}"));
            }
        };
        let timeline = &mut self.state.timeline;
        let last = timeline.entries().next_back().map_or(0, |entry| entry.line);
        // The details are in `pitcrew log --kind all`.
        let entries = entries.into_iter().filter(|entry: &LogEntry| !entry.kind.is_detail());
        for (line, entry) in (last + 1..).zip(entries) {
            timeline.push(TimelineEntry { line, what: Happened::Logged(Box::new(entry)) });
        }
    }
}
