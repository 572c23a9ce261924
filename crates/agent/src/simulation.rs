//! A simulated team: state machines, inboxes and transcripts in memory. A seed determines the order
//! of events, and crashes can come between any two effects.
//!
//! Steps and read marks that need not be on disk yet are delayed, and a crash loses some of them.
//!
//! After every random action, the test checks these rules:
//! - No message is delivered twice, or marked as read before its delivery.
//! - Every conversation has a form that vendors accept.
//! - No call runs without its permission, and no call that changes something runs twice.
//! - If an agent approved its shutdown, its model has read all mail that is marked as read.
//!
//! At the end, the test checks that every agent that has not ended is idle and has no unread mail.

use std::collections::{HashMap, HashSet};

use pitcrew_model::{Block, Response, Role as Speaker, StopReason, Usage};
use pitcrew_protocol::SandboxProfile;
use pitcrew_protocol::{AgentName, Frame, MessageId, PermissionMode, Status, ToolSet};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::transcript::{Conversation, Step, ToolCall};

const AGENTS: usize = 3;
const STEPS: usize = 120;

/// A pseudo-random number generator (SplitMix64). It alone decides the order of events.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }
}

struct SentMessage {
    id: MessageId,
    text: String,
    is_read: bool,
}

/// One agent, its data on disk (transcript and inbox), and its effects that are not answered yet.
struct Cell {
    agent: Agent,
    transcript: Vec<Step>,
    /// The steps that the agent has written, but that are not in the transcript yet. A crash can
    /// lose them. The field `unmarked` has the ids of the messages that are not marked as read yet.
    unwritten: Vec<Step>,
    unmarked: Vec<MessageId>,
    inbox: Vec<SentMessage>,
    waiting: Vec<Effect>,
    open_requests: Vec<String>,
    /// The id of the permission request of each call that sent one. If a call asks again, it uses
    /// the same id.
    requests: HashMap<String, String>,
    runs: HashMap<String, usize>,
    granted: HashSet<String>,
    settled: HashSet<String>,
    is_parked: bool,
}

struct World {
    dice: Dice,
    cells: Vec<Cell>,
    ids: usize,
    /// Whether models no longer refuse a conversation as too long.
    is_calm: bool,
}

fn profile() -> Profile {
    Profile {
        name: AgentName::new("worker").unwrap(),
        role: Role::Teammate,
        max_turns: None,
        tools: ToolSet::default(),
        context: ContextBound::of(1_000, ContextBound::SHARE_PERCENT),
    }
}

impl Cell {
    /// Carries out the delayed writes that `wait` requires.
    fn catch_up(&mut self, wait: Wait) {
        if wait >= Wait::Written {
            self.transcript.append(&mut self.unwritten);
        }
        if wait >= Wait::Marked {
            let unmarked = std::mem::take(&mut self.unmarked);
            self.inbox
                .iter_mut()
                .filter(|letter| unmarked.contains(&letter.id))
                .for_each(|letter| letter.is_read = true);
        }
    }

    /// Checks that the steps are in the transcript before an effect that others can see. Before an
    /// agent becomes idle or ends, its read marks must be on disk too.
    fn check_said(&self, effect: &Effect) {
        let is_said = matches!(
            effect,
            Effect::Run(..)
                | Effect::Report(..)
                | Effect::AskPermission { .. }
                | Effect::Settle(_)
                | Effect::SendIdle(_)
        );
        assert!(!is_said || self.unwritten.is_empty(), "{effect:?} comes before the transcript");
        let rests = matches!(
            effect,
            Effect::SendIdle(_)
                | Effect::End { .. }
                | Effect::Announce(Status::Idle | Status::AwaitingPlanApproval)
        );
        assert!(!rests || self.unmarked.is_empty(), "{effect:?} comes before mail is marked read");
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let cell = || Cell {
            agent: Agent::new(profile(), PermissionMode::Default, Conversation::default()),
            transcript: Vec::new(),
            unwritten: Vec::new(),
            unmarked: Vec::new(),
            inbox: Vec::new(),
            waiting: Vec::new(),
            open_requests: Vec::new(),
            requests: HashMap::new(),
            runs: HashMap::new(),
            granted: HashSet::new(),
            settled: HashSet::new(),
            is_parked: false,
        };
        let mut world = Self {
            dice: Dice(seed),
            cells: (0..AGENTS).map(|_| cell()).collect(),
            ids: 0,
            is_calm: false,
        };
        for at in 0..AGENTS {
            world.feed(at, Event::Started { prompt: "work".to_owned() }, usize::MAX);
        }
        world
    }

    fn next_id(&mut self) -> usize {
        self.ids += 1;
        self.ids
    }

    fn send(&mut self, at: usize, text: String) {
        let id = MessageId(format!("m{}", self.next_id()));
        self.cells[at].inbox.push(SentMessage { id, text, is_read: false });
    }

    /// Passes an event to an agent and carries out its effects. After the agent has carried out
    /// `most` effects, it crashes.
    fn feed(&mut self, at: usize, event: Event, most: usize) {
        let mut events = vec![event];
        let mut carried_out = 0;
        while let Some(event) = events.pop() {
            let effects = self.cells[at].agent.handle(event);
            let is_parked = self.cells[at].agent.status() == Status::Parked;
            for effect in effects {
                let wants_work = matches!(effect, Effect::TakeMail | Effect::CallModel);
                assert!(!is_parked || !wants_work, "an agent that is parked wants to {effect:?}");
                if carried_out == most {
                    return self.crash(at);
                }
                carried_out += 1;
                events.extend(self.carry_out(at, effect));
            }
        }
    }

    fn carry_out(&mut self, at: usize, effect: Effect) -> Option<Event> {
        let number = self.next_id();
        let cell = &mut self.cells[at];
        cell.catch_up(effect.waits_for());
        cell.check_said(&effect);
        match effect {
            Effect::Append(steps) => cell.unwritten.extend(steps),
            Effect::Acknowledge(ids) => cell.unmarked.extend(ids),
            Effect::TakeMail => {
                let unread = cell
                    .inbox
                    .iter()
                    .filter(|letter| !letter.is_read && !cell.unmarked.contains(&letter.id));
                let mail = unread.map(|letter| Mail {
                    id: letter.id.clone(),
                    from: "team-lead".to_owned(),
                    rendered: letter.text.clone(),
                    frame: Frame::detect(&letter.text),
                });
                return Some(Event::MailArrived(mail.collect()));
            }
            Effect::AskPermission { call, .. } => {
                let open = &mut cell.open_requests;
                let request = cell.requests.entry(call.key.clone()).or_insert_with(|| {
                    open.push(format!("perm-{number}"));
                    format!("perm-{number}")
                });
                let request = request.clone();
                return Some(Event::PermissionAsked { call: call.id, request });
            }
            Effect::Run(call, profile, means) => {
                *cell.runs.entry(call.key.clone()).or_default() += 1;
                cell.waiting.push(Effect::Run(call, profile, means));
            }
            effect @ (Effect::CallModel
            | Effect::Compact { .. }
            | Effect::Judge(_)
            | Effect::EndTurn(_)
            | Effect::Inspect(_)) => {
                cell.waiting.push(effect);
            }
            Effect::CutOff => cell.waiting.clear(),
            Effect::Settle(settlement) => {
                assert!(
                    cell.settled.insert(settlement.request.clone()),
                    "{settlement:?} is settled twice"
                );
            }
            Effect::Report(..)
            | Effect::ReportCompaction(_)
            | Effect::SendIdle(_)
            | Effect::SetMode(_)
            | Effect::StopCommands
            | Effect::Permit(_)
            | Effect::Refer(_)
            | Effect::Announce(_)
            | Effect::ReportLimit
            | Effect::Park { .. }
            | Effect::End { .. } => {}
        }
        None
    }

    fn crash(&mut self, at: usize) {
        let (steps, marks) = (self.dice.roll(3), self.dice.roll(2));
        let cell = &mut self.cells[at];
        cell.unwritten.truncate(steps);
        cell.unmarked.truncate(marks);
        cell.catch_up(Wait::Marked);
        cell.waiting.clear();
        let mut conversation = Conversation::default();
        cell.transcript.iter().for_each(|step| conversation.apply(step));
        let event = if conversation == Conversation::default() {
            Event::Started { prompt: "work".to_owned() }
        } else {
            Event::Resumed
        };
        cell.agent = Agent::new(profile(), PermissionMode::Default, conversation);
        if cell.is_parked {
            self.feed(at, Event::Parked, usize::MAX);
        }
        self.feed(at, event, usize::MAX);
    }

    /// Performs one random action.
    fn step(&mut self) {
        let at = self.dice.roll(AGENTS);
        let most = if self.dice.roll(8) == 0 { self.dice.roll(4) } else { usize::MAX };
        match self.dice.roll(12) {
            0 if self.dice.roll(8) == 0 => {
                let request = format!("shutdown-{}@worker", self.next_id());
                self.send(
                    at,
                    json!({"type": "shutdown_request", "requestId": request, "from": "team-lead"})
                        .to_string(),
                );
            }
            0 | 1 => self.send(at, "hello".to_owned()),
            2 | 3 => self.feed(at, Event::MailWaiting, most),
            4 | 5 => self.answer_a_request(at),
            6 if self.dice.roll(3) == 0 => self.feed(at, Event::Interrupted, most),
            7 if self.dice.roll(3) == 0 => self.park_or_lead(at, most),
            8 if self.dice.roll(6) == 0 => self.feed(at, Event::CompactionAsked, most),
            _ => self.finish_something(at, most),
        }
    }

    fn park_or_lead(&mut self, at: usize, most: usize) {
        let is_parked = !self.cells[at].is_parked;
        self.cells[at].is_parked = is_parked;
        self.feed(at, if is_parked { Event::Parked } else { Event::Unparked }, most);
    }

    fn answer_a_request(&mut self, at: usize) {
        let Some(request) = self.cells[at].open_requests.pop() else { return };
        let subtype = if self.dice.roll(3) == 0 { "error" } else { "success" };
        let answer =
            json!({"type": "permission_response", "request_id": request, "subtype": subtype});
        self.send(at, answer.to_string());
    }

    fn finish_something(&mut self, at: usize, most: usize) {
        let waiting = self.cells[at].waiting.len();
        if waiting == 0 {
            return;
        }
        let which = self.dice.roll(waiting);
        let effect = self.cells[at].waiting.remove(which);
        let event = match effect {
            Effect::CallModel => self.response(at),
            Effect::Compact { most } => self.summary(at, most),
            Effect::Judge(judging) => self.judgement(at, &judging.call),
            Effect::Run(call, _, _) => {
                let ending = Ending {
                    text: "done".to_owned(),
                    data: Value::Null,
                    is_error: false,
                    context: Vec::new(),
                    seen: Vec::new(),
                };
                Event::ToolFinished { call: call.id, ending }
            }
            Effect::Inspect(call) => {
                let done = Inspection::Done { text: "was done".to_owned(), seen: Vec::new() };
                Event::Inspected { call: call.id, inspection: done }
            }
            _ => Event::HookAnswered {
                keep_going: (self.dice.roll(10) == 0).then(|| "go on".to_owned()),
            },
        };
        self.feed(at, event, most);
    }

    fn judgement(&mut self, at: usize, call: &ToolCall) -> Event {
        let judgement = match self.dice.roll(4) {
            0 => Judgement::Deny { reason: "no".to_owned() },
            1 => Judgement::Ask(Question {
                description: "may it?".to_owned(),
                suggestions: Vec::new(),
            }),
            _ => {
                self.cells[at].granted.insert(call.key.clone());
                Judgement::Allow { profile: SandboxProfile::Free }
            }
        };
        Event::Judged { call: call.id.clone(), replaced: None, judgement, context: Vec::new() }
    }

    /// Returns a summary or, at random, a "too long" failure. A failure is possible only if the
    /// agent can still request a summary of a shorter part of the conversation. If the agent needs
    /// a summary to continue, the returned summary is shorter than the conversation.
    fn summary(&mut self, at: usize, most: Option<usize>) -> Event {
        let agent = &self.cells[at].agent;
        assert!(agent.conversation().open_calls().is_empty(), "a call is open in a compaction");
        if agent.conversation().next_shown(most).is_some() && self.dice.roll(4) == 0 {
            return Event::ModelFailed {
                reason: "too long".to_owned(),
                failure: ModelFailure::TooLong,
            };
        }
        let is_needed = self.cells[at].agent.is_stuck();
        let useless =
            "a summary that is longer than most of what it sums up, so that it is of no use";
        let text = if is_needed || self.dice.roll(2) == 0 { "s" } else { useless };
        Event::Summarised(Summary {
            briefing: "b".to_owned(),
            text: Some(text.to_owned()),
            usage: Usage::default(),
            cost_usd: None,
        })
    }

    fn response(&mut self, at: usize) -> Event {
        let conversation = self.cells[at].agent.conversation();
        if !self.is_calm && conversation.can_be_compacted() && self.dice.roll(16) == 0 {
            return Event::ModelFailed {
                reason: "too long".to_owned(),
                failure: ModelFailure::TooLong,
            };
        }
        let calls = [0, 1, 3][self.dice.roll(3)];
        let tools = ["Read", "Bash", "TaskUpdate", "Write"];
        let mut blocks = vec![Block::text("so")];
        for _ in 0..calls {
            let id = format!("call-{}", self.next_id());
            blocks.push(Block::tool_use(id, tools[self.dice.roll(tools.len())], json!({})));
        }
        if let Some(request) = self.cells[at].agent.conversation().shutdown().map(str::to_owned)
            && self.dice.roll(2) == 0
        {
            let agree =
                json!({"type": "shutdown_response", "request_id": request, "approve": true});
            let place = self.dice.roll(blocks.len()) + 1;
            blocks.insert(
                place,
                Block::tool_use(format!("call-{}", self.next_id()), "SendMessage", agree),
            );
        }
        let response = Response {
            id: "msg".to_owned(),
            model: "simulated".to_owned(),
            blocks,
            stop: StopReason::EndTurn,
            usage: Usage { input_tokens: self.dice.roll(1_000) as u64, ..Usage::default() },
        };
        Event::ModelFinished { response, cost_usd: None }
    }

    /// Runs until all agents are idle or have ended. All open permission requests are allowed.
    /// There is no other new mail and no crash, no agent is without a lead, and no model refuses a
    /// conversation as too long.
    fn settle(&mut self) {
        self.is_calm = true;
        for at in 0..AGENTS {
            if self.cells[at].is_parked {
                self.park_or_lead(at, usize::MAX);
            }
            for _ in 0..2_000 {
                if let Some(request) = self.cells[at].open_requests.pop() {
                    let answer = json!({"type": "permission_response", "request_id": request, "subtype": "success"});
                    self.send(at, answer.to_string());
                }
                self.feed(at, Event::MailWaiting, usize::MAX);
                if self.cells[at].waiting.is_empty() {
                    break;
                }
                self.finish_something(at, usize::MAX);
            }
        }
    }
}

fn check(cell: &Cell) {
    let mut conversation = Conversation::default();
    let mut delivered = HashSet::new();
    let mut granted = cell.granted.clone();
    let mut tools = HashMap::new();
    for step in cell.transcript.iter().chain(&cell.unwritten) {
        conversation.apply(step);
        match step {
            Step::Assistant { blocks, .. } => {
                tools.extend(blocks.iter().filter_map(|block| match block {
                    Block::ToolUse { id, name, .. } => Some((id.clone(), name.clone())),
                    _ => None,
                }))
            }
            Step::Mail { ids, .. } => {
                ids.iter().for_each(|id| assert!(delivered.insert(id.clone()), "{id} comes twice"))
            }
            Step::Granted { ids, call, .. } => {
                ids.iter().for_each(|id| assert!(delivered.insert(id.clone()), "{id} comes twice"));
                granted.insert(call.clone());
            }
            _ => {}
        }
    }
    assert_eq!(&conversation, cell.agent.conversation(), "the transcript tells all");
    let is_written = |id: &MessageId| {
        cell.transcript
            .iter()
            .any(|step| matches!(step, Step::Mail { ids, .. } | Step::Granted { ids, .. } if ids.contains(id)))
    };
    assert!(
        cell.unmarked.iter().all(is_written),
        "mail is being marked read ahead of the transcript"
    );
    for letter in &cell.inbox {
        assert!(
            !letter.is_read || delivered.contains(&letter.id),
            "{} is read and was not delivered",
            letter.id
        );
    }
    for (call, runs) in &cell.runs {
        assert!(granted.contains(call), "{call} ran without leave");
        let tool = tools.get(call).map(String::as_str);
        assert!(
            *runs == 1 || matches!(tool, Some("Read" | "TaskUpdate" | "SendMessage")),
            "{tool:?} {call} ran {runs} times"
        );
    }
    check_form(&conversation);
    if conversation.ended().is_some() {
        check_all_was_seen(cell);
    }
}

/// Checks that the model of an ended agent has read all mail that was delivered to the agent.
fn check_all_was_seen(cell: &Cell) {
    let steps = || cell.transcript.iter().chain(&cell.unwritten);
    let after_the_last_answer = steps().collect::<Vec<_>>().into_iter().rev();
    let mut unseen =
        after_the_last_answer.take_while(|step| !matches!(step, Step::Assistant { .. }));
    let is_mail = |step: &&Step| matches!(step, Step::Mail { text, .. } if !text.is_empty());
    assert_eq!(unseen.find(is_mail), None, "mail was marked read and the model never saw it");
}

/// Checks that the roles of the messages alternate. The results of all calls in a message must be
/// at the start of the next message.
fn check_form(conversation: &Conversation) {
    let messages = conversation.messages();
    for pair in messages.windows(2) {
        assert_ne!(pair[0].role, pair[1].role, "a speaker speaks twice");
        let calls: HashSet<&str> = pair[0].blocks.iter().filter_map(call_id).collect();
        let results = pair[1].blocks.iter().take_while(|block| result_id(block).is_some()).count();
        let given: HashSet<&str> = pair[1].blocks.iter().filter_map(result_id).collect();
        assert_eq!(results, given.len(), "a result stands behind a text");
        if pair[0].role == Speaker::Assistant {
            assert!(given.is_subset(&calls), "a result without a call");
        }
    }
    for (message, next) in messages.iter().zip(messages.iter().skip(1)) {
        let is_last = std::ptr::eq(next, messages.last().unwrap());
        let calls = message.blocks.iter().filter_map(call_id).count();
        let results = next.blocks.iter().filter_map(result_id).count();
        assert!(calls == results || is_last, "a call without a result");
    }
}

fn call_id(block: &Block) -> Option<&str> {
    match block {
        Block::ToolUse { id, .. } => Some(id),
        _ => None,
    }
}

fn result_id(block: &Block) -> Option<&str> {
    match block {
        Block::ToolResult { tool_use_id, .. } => Some(tool_use_id),
        _ => None,
    }
}

proptest! {
    #[test]
    fn whatever_the_schedule_and_wherever_it_crashes_mail_and_calls_come_out_right(seed in any::<u64>()) {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.cells.iter().for_each(check);
        }
        world.settle();
        for cell in &mut world.cells {
            check(cell);
            cell.catch_up(Wait::Marked);
            // The random answers of a model can repeat the same call until its agent is stopped.
            if cell.agent.status() == Status::Completed || cell.agent.was_looping() {
                continue;
            }
            prop_assert_eq!(cell.agent.status(), Status::Idle);
            prop_assert!(cell.inbox.iter().all(|letter| letter.is_read), "mail was left");
        }
    }
}
