//! The replay of a client's stream-json, from a file or while the client writes.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::recorder::{Limits, Recorder};
use super::{Clock, Replay, Timed};
use crate::client_stream::{ClientStream, LinesRead};
use crate::state::TeamState;

/// The time that a line of a stream without times counts for, in milliseconds.
const LINE_MS: i64 = 1_000;

/// Tells a person why a replay has other lines than before.
pub const BEGUN_AGAIN: &str = "the file was begun again, and this is its new content";

/// A stream of a client, and its replay up to now.
#[derive(Debug)]
pub struct StreamReplay {
    name: String,
    clock: Clock,
    stream: ClientStream,
    state: TeamState,
    recorder: Recorder,
    /// The time of the last line.
    at_ms: i64,
    /// Whether the stream was begun again.
    is_begun_again: bool,
}

impl StreamReplay {
    /// Creates the replay of a stream of which nothing was read yet. With [`Clock::Recorded`] the
    /// caller gives the times, with [`Clock::Lines`] each line counts for a second.
    #[must_use]
    pub fn new(name: &str, clock: Clock) -> Self {
        Self::with_limits(name, clock, Limits::default())
    }

    fn with_limits(name: &str, clock: Clock, most: Limits) -> Self {
        Self {
            name: name.to_owned(),
            clock,
            stream: ClientStream::with_conversations(),
            state: TeamState::default(),
            recorder: Recorder::new(most),
            at_ms: 0,
            is_begun_again: false,
        }
    }

    /// Reads the next bytes of the stream, which came at `now_ms`.
    pub fn feed(&mut self, bytes: &[u8], now_ms: i64) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let before = self.stream.lines_read().lines;
            self.stream.feed(&mut self.state, line);
            self.tell(before, now_ms);
        }
    }

    /// Reads the begun line of a file that may grow, if the line is a whole object already.
    pub fn pause(&mut self, now_ms: i64) {
        let before = self.stream.lines_read().lines;
        self.stream.pause(&mut self.state);
        self.tell(before, now_ms);
    }

    /// Reads the last line of a stream that has ended.
    pub fn finish(&mut self, now_ms: i64) {
        let before = self.stream.lines_read().lines;
        self.stream.finish(&mut self.state);
        self.tell(before, now_ms);
    }

    /// Forgets what was read: the file was begun again, and other lines follow. The events get new
    /// numbers, so that nobody takes them for the next ones.
    pub fn begin_again(&mut self) {
        self.stream = ClientStream::with_conversations();
        self.state = TeamState::default();
        self.recorder.begin_again();
        self.at_ms = 0;
        self.is_begun_again = true;
    }

    /// Returns the numbers of lines that were read so far.
    #[must_use]
    pub fn lines_read(&self) -> LinesRead {
        self.stream.lines_read()
    }

    /// The number of the next event.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.recorder.next_seq()
    }

    /// Returns the kept events from the number `seq` on.
    pub fn since(&self, seq: u64) -> impl Iterator<Item = &Timed> {
        self.recorder.since(seq)
    }

    /// Returns the replay up to now.
    #[must_use]
    pub fn replay(&self) -> Replay {
        Replay { events: self.since(0).cloned().collect(), ..self.without_events() }
    }

    fn without_events(&self) -> Replay {
        let read = self.lines_read();
        let skipped = read.has_skipped().then(|| read.in_words());
        let again = self.is_begun_again.then(|| BEGUN_AGAIN.to_owned());
        let unread = again.into_iter().chain(skipped).collect();
        self.recorder.without_events(self.name.clone(), self.clock, unread)
    }

    /// Tells what a line has changed, if a line was read.
    fn tell(&mut self, lines_before: u64, now_ms: i64) {
        let read = self.stream.lines_read().lines - lines_before;
        if read == 0 {
            return;
        }
        self.at_ms = match self.clock {
            // Lines that come at once are a millisecond apart, so that each has a moment.
            Clock::Recorded => now_ms.max(self.at_ms + 1),
            Clock::Lines => self.at_ms + LINE_MS * i64::try_from(read).unwrap_or_default(),
        };
        let (at_ms, recorder) = (self.at_ms, &mut self.recorder);
        recorder.state(at_ms, &self.state);
        // The events have the timeline from here on.
        for entry in std::mem::take(&mut self.state.timeline).entries() {
            recorder.happened(at_ms, entry.clone());
        }
        let agents = self.state.agents.iter().map(|agent| &agent.name);
        for agent in agents.chain(&self.state.lead) {
            if let Some((conversation, _changes)) = self.stream.conversation(agent) {
                recorder.conversation(at_ms, agent, conversation);
            }
        }
    }
}

impl Serialize for StreamReplay {
    /// Writes the replay up to now. It can be long, so its events are not copied for this.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Replay { name, clock, from_ms, to_ms, first, events: _, left_out, unread } =
            self.without_events();
        let mut fields = serializer.serialize_struct("Replay", 8)?;
        fields.serialize_field("name", &name)?;
        fields.serialize_field("clock", &clock)?;
        fields.serialize_field("from_ms", &from_ms)?;
        fields.serialize_field("to_ms", &to_ms)?;
        fields.serialize_field("first", &first)?;
        fields.serialize_field("events", &Events(self))?;
        fields.serialize_field("left_out", &left_out)?;
        fields.serialize_field("unread", &unread)?;
        fields.end()
    }
}

/// The kept events of a stream.
struct Events<'a>(&'a StreamReplay);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.since(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_leave_a_long_replay_and_are_counted() {
        let most = Limits { events: 32, bytes: usize::MAX };
        let mut stream = StreamReplay::with_limits("long", Clock::Lines, most);
        let said = |n: usize| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"m{n}","role":"assistant","model":"opus","content":[{{"type":"text","text":"text {n}"}}],"usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#
            )
        };
        for n in 0..100 {
            stream.feed(format!("{}\n", said(n)).as_bytes(), 0);
        }
        let replay = stream.replay();
        assert!((24..=32).contains(&replay.events.len()), "{}", replay.events.len());
        assert_eq!(replay.left_out + replay.events.len() as u64, stream.next_seq());
        assert_eq!(replay.first.next_seq, replay.left_out);
        assert_eq!(replay.events.first().map(|event| event.seq), Some(replay.left_out));
        // The state before the kept events has the turns of the events that left.
        let turns = replay.first.team.agents.first().map(|agent| agent.turns);
        assert!(turns.is_some_and(|turns| turns > 50), "{turns:?}");
        assert_eq!((replay.from_ms, replay.to_ms), (replay.events[0].at_ms, 100_000));
    }

    #[test]
    fn a_stream_that_is_begun_again_has_only_its_new_lines_with_new_numbers() {
        let made = |team: &str| {
            let input = format!(
                r#"{{"type":"tool_use","id":"t","name":"TeamCreate","input":{{"team_name":"{team}"}}}}"#
            );
            let said = format!(
                r#"{{"type":"assistant","message":{{"id":"m","role":"assistant","model":"opus","content":[{input}]}}}}"#
            );
            format!("{said}\n")
        };
        let mut stream = StreamReplay::new("s", Clock::Lines);
        stream.feed(made("one").as_bytes(), 0);
        let (old, before) = (stream.next_seq(), stream.replay());
        stream.begin_again();
        assert_eq!(stream.since(0).count(), 0);
        stream.feed(made("two").as_bytes(), 0);
        let replay = stream.replay();
        // A reader that waits for the event `old` gets a later one, and reads the replay again.
        assert_eq!(stream.since(old).next().map(|event| event.seq), Some(old + 1));
        assert_eq!((replay.first.next_seq, replay.left_out), (old + 1, 0));
        assert_eq!((before.unread.len(), replay.unread), (0, vec![BEGUN_AGAIN.to_owned()]));
        assert_eq!(replay.to_ms, 1_000);
        assert_eq!(replay.events.len(), before.events.len());
    }
}
