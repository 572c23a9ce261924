//! Writes the events of a replay: the differences between the state of the team and the state after
//! the earlier events.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use pitcrew_protocol::{AgentName, Task, TaskId};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::conversation_changes::RecordedConversation;
use super::{Change, Changed, Clock, Replay, Timed};
use crate::conversation::Conversation;
use crate::host::HostState;
use crate::state::{AgentState, TeamState, TimelineEntry};

/// The events are kept in about this number of segments. The oldest segment leaves as a whole.
const SEGMENTS: usize = 16;

/// Writes the events of a replay, and keeps the latest ones.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The state after the events. Its timeline is empty.
    recorded: TeamState,
    conversations: BTreeMap<AgentName, RecordedConversation>,
    segments: VecDeque<Segment>,
    /// The time of the last event and of the first one.
    times: Option<(i64, i64)>,
    /// The number of the first event that was ever told.
    first_seq: u64,
    next_seq: u64,
    most: Limits,
}

/// The limits of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: Replay::EVENTS_MOST, bytes: Replay::BYTES_MOST }
    }
}

/// Some events, and the state before them.
#[derive(Debug)]
struct Segment {
    first: TeamState,
    begins_ms: i64,
    events: Vec<Timed>,
    bytes: usize,
}

impl Recorder {
    pub(super) fn new(most: Limits) -> Self {
        Self {
            recorded: TeamState::default(),
            conversations: BTreeMap::new(),
            segments: VecDeque::new(),
            times: None,
            first_seq: 0,
            next_seq: 0,
            most,
        }
    }

    /// Forgets all, as if nothing had been added. A number is left out, so that a reader of the
    /// events notices.
    pub(super) fn begin_again(&mut self) {
        let first_seq = self.next_seq + 1;
        *self = Self { first_seq, next_seq: first_seq, ..Self::new(self.most) };
    }

    /// Adds an event with what is different in the state of the team. [`Recorder::happened`] adds
    /// the timeline.
    pub(super) fn state(&mut self, at_ms: i64, state: &TeamState) {
        let changed = differences(&self.recorded, state);
        if changed != Changed::default() {
            self.push(at_ms, Change::Changed(Box::new(changed)));
            put(&mut self.recorded, state);
        }
    }

    /// Adds an entry of the timeline.
    pub(super) fn happened(&mut self, at_ms: i64, entry: TimelineEntry) {
        self.push(at_ms, Change::Happened(Box::new(entry)));
    }

    /// Adds what is new in the conversation of an agent.
    pub(super) fn conversation(&mut self, at_ms: i64, agent: &AgentName, now: &Conversation) {
        let recorded = match self.conversations.get_mut(agent) {
            Some(recorded) => recorded,
            None => self.conversations.entry(agent.clone()).or_default(),
        };
        for change in recorded.changes(agent, now) {
            self.push(at_ms, change);
        }
    }

    /// The number of the next event.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the kept events from the number `seq` on.
    pub(super) fn since(&self, seq: u64) -> impl Iterator<Item = &Timed> {
        let is_old = move |event: &&Timed| event.seq < seq;
        let ends_after =
            move |segment: &&Segment| segment.events.last().is_some_and(|last| last.seq >= seq);
        let segments = self.segments.iter().filter(ends_after);
        segments.flat_map(|segment| &segment.events).skip_while(is_old)
    }

    /// Returns the replay up to now, as if it had no events.
    pub(super) fn without_events(&self, name: String, clock: Clock, unread: Vec<String>) -> Replay {
        let first = self.segments.front();
        let team = first.map_or(&self.recorded, |segment| &segment.first);
        let kept: usize = self.segments.iter().map(|segment| segment.events.len()).sum();
        let next_seq = self.next_seq - kept as u64;
        let from_ms = first.map_or(0, |segment| segment.begins_ms);
        Replay {
            name,
            clock,
            from_ms,
            to_ms: self.times.map_or(from_ms, |(last, _)| last),
            first: HostState {
                next_seq,
                team: team.clone(),
                tasks: team.tasks.clone(),
                questions: Vec::new(),
            },
            events: Vec::new(),
            left_out: next_seq - self.first_seq,
            unread,
        }
    }

    /// Returns the replay, which is complete.
    pub(super) fn into_replay(self, name: String, clock: Clock, unread: Vec<String>) -> Replay {
        let replay = self.without_events(name, clock, unread);
        let events = self.segments.into_iter().flat_map(|segment| segment.events).collect();
        Replay { events, ..replay }
    }

    fn push(&mut self, at_ms: i64, what: Change) {
        // Clocks can be set back. The order of the events counts.
        let (last, begin) = self.times.unwrap_or((at_ms, at_ms));
        let at_ms = at_ms.max(last);
        self.times = Some((at_ms, begin));
        let event = Timed { seq: self.next_seq, at_ms, what };
        self.next_seq += 1;
        let bytes = size_of(&event);
        let room = Limits {
            events: (self.most.events / SEGMENTS).max(1),
            bytes: self.most.bytes / SEGMENTS,
        };
        match self.segments.back_mut() {
            Some(segment) if segment.has_room(room) => segment.add(event, bytes),
            Some(_) | None => self.segments.push_back(Segment {
                first: self.recorded.clone(),
                begins_ms: at_ms,
                events: vec![event],
                bytes,
            }),
        }
        self.forget();
    }

    /// Removes the oldest segments that are beyond the limits.
    fn forget(&mut self) {
        let sum = |of: fn(&Segment) -> usize| self.segments.iter().map(of).sum::<usize>();
        let (mut events, mut bytes) = (sum(|it| it.events.len()), sum(|it| it.bytes));
        while self.segments.len() > 1 && (events > self.most.events || bytes > self.most.bytes) {
            let Some(oldest) = self.segments.pop_front() else { return };
            events -= oldest.events.len();
            bytes -= oldest.bytes;
        }
    }
}

impl Segment {
    fn has_room(&self, room: Limits) -> bool {
        self.events.len() < room.events && self.bytes < room.bytes
    }

    fn add(&mut self, event: Timed, bytes: usize) {
        self.events.push(event);
        self.bytes += bytes;
    }
}

/// Returns the fields of the state that have other values.
fn differences(recorded: &TeamState, now: &TeamState) -> Changed {
    let known = |at: usize, agent: &AgentState| {
        let is_same = |known: &&AgentState| known.name == agent.name;
        // An agent is nearly always in the same place.
        let there = recorded.agents.get(at).filter(is_same);
        there.or_else(|| recorded.agents.iter().find(is_same))
    };
    let agents = now.agents.iter().enumerate().filter_map(|(at, agent)| match known(at, agent) {
        Some(known) if known == agent => None,
        known => Some(changed_fields(known, agent)),
    });
    let (tasks, tasks_gone) = changed_tasks(&recorded.tasks, &now.tasks);
    Changed {
        team: changed_team(recorded, now),
        agents: agents.collect(),
        order: order(&recorded.agents, &now.agents),
        tasks,
        tasks_gone,
    }
}

fn changed_team(recorded: &TeamState, now: &TeamState) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    if now.team != recorded.team {
        put("team", json!(now.team));
    }
    if now.lead != recorded.lead {
        put("lead", json!(now.lead));
    }
    if now.cleanup != recorded.cleanup {
        put("cleanup", json!(now.cleanup));
    }
    if now.session != recorded.session {
        put("session", json!(now.session));
    }
    fields
}

/// Returns the name of an agent and its fields with other values.
fn changed_fields(known: Option<&AgentState>, now: &AgentState) -> Map<String, Value> {
    let fields_of = |agent: &AgentState| match json!(agent) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let known = known.map(fields_of).unwrap_or_default();
    let mut fields = fields_of(now);
    fields.retain(|name, value| name == "name" || known.get(name) != Some(value));
    fields
}

/// Returns the names of all agents. Returns `None` if the known agents are the first ones, and in
/// the same order.
fn order(recorded: &[AgentState], now: &[AgentState]) -> Option<Vec<AgentName>> {
    let is_same = recorded.len() <= now.len()
        && recorded.iter().zip(now).all(|(recorded, now)| recorded.name == now.name);
    (!is_same).then(|| now.iter().map(|agent| agent.name.clone()).collect())
}

/// Returns the tasks that are new or different, and those that are gone. Both lists are sorted.
fn changed_tasks(recorded: &[Task], now: &[Task]) -> (Vec<Task>, Vec<TaskId>) {
    if recorded == now {
        return (Vec::new(), Vec::new());
    }
    let known: BTreeMap<&TaskId, &Task> = recorded.iter().map(|task| (&task.id, task)).collect();
    let there: BTreeMap<&TaskId, &Task> = now.iter().map(|task| (&task.id, task)).collect();
    let is_changed = |task: &&Task| known.get(&task.id) != Some(task);
    let is_gone = |task: &&Task| !there.contains_key(&task.id);
    (
        now.iter().filter(is_changed).cloned().collect(),
        recorded.iter().filter(is_gone).map(|task| task.id.clone()).collect(),
    )
}

/// Makes the recorded state equal to the state of the team, without its timeline. Only what differs
/// is copied, because there are many events.
fn put(recorded: &mut TeamState, now: &TeamState) {
    recorded.agents.truncate(now.agents.len());
    for (recorded, now) in recorded.agents.iter_mut().zip(&now.agents) {
        if recorded != now {
            recorded.clone_from(now);
        }
    }
    let added = now.agents.get(recorded.agents.len()..).unwrap_or_default();
    recorded.agents.extend_from_slice(added);
    if recorded.tasks != now.tasks {
        recorded.tasks.clone_from(&now.tasks);
    }
    if recorded.session != now.session {
        recorded.session.clone_from(&now.session);
    }
    recorded.team.clone_from(&now.team);
    recorded.lead.clone_from(&now.lead);
    recorded.cleanup.clone_from(&now.cleanup);
}

/// Returns the length of an event as JSON.
fn size_of(event: &Timed) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A value that cannot be written counts for what was written of it.
    let _written = event.serialize(&mut serde_json::Serializer::new(&mut counter));
    counter.0
}
