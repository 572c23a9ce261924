//! Finds the next turn of a script. To do so, plays the script against the conversation from its
//! beginning.
//!
//! When a past turn is played again, the script sees only the texts that came before the agent's
//! answer in that turn. It skips the answer itself without reading it. The first turn without an
//! answer in the conversation is the next turn. If a summary has replaced turns, their outcomes
//! come from the script's memory in the summary.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;

use super::condition::{Capture, Condition, Hearing};
use super::format::{Act, Branch, Repeat, Step, Turn};
use super::memory::{self, Choice, Memory, Remembered};
use super::template::Variables;
use super::told::{self, Told};
use crate::{AgentTag, Block, Message, Role, StopReason};

/// A marker for interrupted tool calls. It is in the result of a call that a crash interrupted.
///
/// A scripted model first repeats such a call, with a new id, and then continues.
pub const INTERRUPTED: &str = "[interrupted]";

/// What the agent says after its script has ended.
const OVER: &str = "I have nothing left to do.";

/// The error text if the memory in the summary does not fit this script.
const CHANGED: &str = "the summary in the conversation was written by another script";

/// Maximum number of steps until the next answer. If a script needs more, it is in an endless loop.
const MAX_STEPS: u32 = 100_000;

/// The next answer of the agent.
#[derive(Debug)]
pub(super) struct Answer {
    /// The number of the agent's earlier answers.
    pub(super) position: usize,
    pub(super) blocks: Vec<Block>,
    pub(super) delay: Duration,
}

impl Answer {
    pub(super) fn stop(&self) -> StopReason {
        let calls = self.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        if calls { StopReason::ToolUse } else { StopReason::EndTurn }
    }
}

/// The error for a turn that cannot be played.
#[derive(Debug)]
pub(super) struct Fault {
    /// The number of the turn, counted from 1.
    pub(super) turn: usize,
    pub(super) reason: String,
}

/// Returns the next answer. It is the answer of the next turn, or a summary if the conversation
/// asks for one.
///
/// # Errors
/// A [`Fault`] if a capture finds nothing, a variable has no value, or the script is in an endless
/// loop.
pub(super) fn answer(
    steps: &[Step],
    agent: &AgentTag,
    messages: &[Message],
) -> Result<Answer, Fault> {
    let to_summarise = memory::to_summarise(messages);
    let mut replay = Replay::new(agent, to_summarise.as_deref().unwrap_or(messages));
    let due = match replay.play(steps) {
        Ok(ControlFlow::Break(answer)) => Ok(answer),
        Ok(ControlFlow::Continue(())) => replay.over(),
        Err(reason) => Err(reason),
    };
    let due = match due {
        // If a summary is wanted, ignore an error of the next turn. The text that the turn lacks
        // may arrive before the turn is really played.
        Ok(_) | Err(_) if to_summarise.is_some() && replay.position == replay.answered() => {
            Ok(replay.summary())
        }
        due => due,
    };
    due.map_err(|reason| Fault { turn: replay.position + 1, reason })
}

/// The state while a script is played against a conversation.
struct Replay<'a> {
    agent: String,
    messages: &'a [Message],
    told: Vec<Told>,
    /// `told` begins with texts from the memory. Texts from the briefing follow. This field
    /// contains how many of each there are.
    recalled: (usize, usize),
    /// The position of the first message of this conversation.
    first: usize,
    /// The positions of the agent's answers in the conversation.
    answers: Vec<usize>,
    /// The number of answers that the agent gave before this conversation, according to the memory.
    before: usize,
    /// The number of answers that were skipped so far. It includes the answers before this
    /// conversation.
    position: usize,
    /// The first position after the agent's last turn.
    latest: usize,
    vars: Variables,
    /// The remembered decisions that have not been played again yet. They belong to turns before
    /// this conversation.
    path: VecDeque<Choice>,
    /// The interrupted tool calls of the last turn before this conversation. They must be repeated.
    again: Vec<(String, Value)>,
    /// The outcomes of all decisions so far.
    taken: Vec<Choice>,
    steps_left: u32,
}

type Played = Result<ControlFlow<Answer>, String>;

impl<'a> Replay<'a> {
    fn new(agent: &AgentTag, messages: &'a [Message]) -> Self {
        let recalled = Memory::recall(messages);
        // If there is a memory, position 0 belongs to its texts. So the messages of the
        // conversation start at position 1.
        let first = usize::from(recalled.is_some());
        let (memory, briefing) = recalled.unwrap_or_default();
        let recalled = (memory.told.len(), briefing);
        let told =
            told::listen(memory.told.into_iter().map(Remembered::told).collect(), messages, first);
        let answers =
            (first..).zip(messages).filter(|(_, message)| message.role == Role::Assistant);
        Self {
            agent: super::plain(agent),
            messages,
            told,
            recalled,
            first,
            answers: answers.map(|(at, _)| at).collect(),
            before: memory.turns,
            position: 0,
            latest: first,
            vars: Variables::of(agent),
            path: memory.path,
            again: memory.again,
            taken: Vec::new(),
            steps_left: MAX_STEPS,
        }
    }

    /// Returns how many answers the agent has given, in this conversation and before it.
    fn answered(&self) -> usize {
        self.before + self.answers.len()
    }

    /// Returns a summary from which the script can continue.
    fn summary(&self) -> Answer {
        let is_passed = |choice: &Choice| matches!(choice, Choice::Passed(_));
        // Decisions after the last answer belong to the next turn. Leave them out of the summary,
        // because the script makes them again when it continues after the summary.
        let last = self.taken.iter().rposition(is_passed).map_or(0, |at| at + 1);
        // The last user message has no answer yet, and stays in the conversation after the summary.
        // The runtime also writes a new briefing. So the memory contains neither this message nor a
        // briefing.
        let unanswered = self.messages.last().filter(|last| last.role == Role::User);
        let tail = unanswered.map(|_| self.first + self.messages.len() - 1);
        let (recalled, briefing) = self.recalled;
        let is_kept = |(at, told): &(usize, &Told)| {
            let is_tail = Some(told.at) == tail && told.tool.is_none() && *at >= recalled;
            let is_briefing = (recalled..recalled + briefing).contains(at);
            !is_tail && !is_briefing
        };
        let kept = self.told.iter().enumerate().filter(is_kept);
        let memory = Memory {
            turns: self.position,
            path: self.taken.iter().take(last).cloned().collect(),
            again: self.interrupted_calls(),
            told: kept.map(|(_, told)| Remembered::of(told, self.latest)).collect(),
        };
        Answer {
            position: self.position,
            blocks: vec![Block::text(memory.summary())],
            delay: Duration::ZERO,
        }
    }

    fn play(&mut self, steps: &[Step]) -> Played {
        for step in steps {
            self.steps_left = self
                .steps_left
                .checked_sub(1)
                .ok_or("the script goes in circles without an answer")?;
            if let Some(when) = &step.when
                && !self.holds(when)?
            {
                continue;
            }
            let played = match &step.act {
                Act::Turn(turn) => self.turn(turn)?,
                Act::WaitFor { condition, turn } => self.wait_for(condition, turn)?,
                Act::Choose(branches) => self.choose(branches)?,
                Act::Repeat(repeat) => self.repeat(repeat)?,
            };
            if played.is_break() {
                return Ok(played);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn turn(&mut self, turn: &Turn) -> Played {
        for (name, capture) in &turn.capture {
            match self.found(capture)? {
                Some(value) => self.vars.set(name, value),
                // The variable has a value from an earlier round of a loop. Keep this value,
                // because this round finds nothing.
                None if self.vars.has(name) => {}
                None => {
                    return Err(format!("nothing the agent was told fits the capture {name:?}"));
                }
            }
        }
        // Skip the answer only after the captures above. They must see only texts that came before
        // this answer.
        if self.pass()? {
            return Ok(self.repeat_interrupted());
        }
        let mut blocks = Vec::new();
        if let Some(thinking) = &turn.thinking {
            blocks.push(Block::thinking(self.vars.fill(thinking)?, ""));
        }
        if let Some(text) = &turn.text {
            blocks.push(Block::text(self.vars.fill(text)?));
        }
        for (i, call) in turn.tools.iter().enumerate() {
            let input = self.vars.fill_value(&Value::Object(call.input.clone()))?;
            blocks.push(Block::tool_use(self.tool_use_id(i), &call.name, input));
        }
        Ok(self.due(blocks, turn.delay))
    }

    fn wait_for(&mut self, condition: &Condition, turn: &Turn) -> Played {
        while !self.holds(condition)? {
            let played = self.turn(turn)?;
            if played.is_break() {
                return Ok(played);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn choose(&mut self, branches: &[Branch]) -> Played {
        for branch in branches {
            let chosen = match &branch.when {
                Some(when) => self.holds(when)?,
                None => true,
            };
            if chosen {
                return self.play(&branch.turns);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn repeat(&mut self, repeat: &Repeat) -> Played {
        for _ in 0..repeat.at_most {
            if let Some(until) = &repeat.until
                && self.holds(until)?
            {
                break;
            }
            // A loop without turns does nothing, so end it now.
            if repeat.turns.is_empty() {
                break;
            }
            let played = self.play(&repeat.turns)?;
            if played.is_break() {
                return Ok(played);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the answer that the agent gives to any message after the end of its script.
    fn over(&mut self) -> Result<Answer, String> {
        while self.pass()? {
            if let ControlFlow::Break(answer) = self.repeat_interrupted() {
                return Ok(answer);
            }
        }
        let position = self.position;
        Ok(Answer { position, blocks: vec![Block::text(OVER)], delay: Duration::ZERO })
    }

    /// Skips the next answer of the conversation. Returns false if there is no further answer.
    fn pass(&mut self) -> Result<bool, String> {
        match self.path.pop_front() {
            Some(Choice::Passed(answers)) => {
                self.position += answers;
                self.taken.push(Choice::Passed(answers));
                return Ok(true);
            }
            Some(Choice::Held(_) | Choice::Found(_)) => return Err(CHANGED.to_owned()),
            None => {}
        }
        let Some(at) = self.next_answer() else {
            return Ok(false);
        };
        // From now on, the latest texts are those after this answer.
        self.latest = at + 1;
        self.position += 1;
        self.taken.push(Choice::Passed(1));
        Ok(true)
    }

    /// Returns the position of the next answer in the conversation, or `None` if there is no
    /// further answer.
    fn next_answer(&self) -> Option<usize> {
        self.answers.get(self.position.checked_sub(self.before)?).copied()
    }

    /// Skips the answers that repeat interrupted tool calls. If such an answer is still missing,
    /// returns it.
    ///
    /// `latest` does not change here. So a later condition sees the same texts with and without a
    /// crash.
    fn repeat_interrupted(&mut self) -> ControlFlow<Answer> {
        loop {
            let calls = self.interrupted_calls();
            if calls.is_empty() {
                return ControlFlow::Continue(());
            }
            if self.position == self.answered() {
                let renewed = calls
                    .into_iter()
                    .enumerate()
                    .map(|(i, (name, input))| Block::tool_use(self.tool_use_id(i), name, input));
                return self.due(renewed.collect(), Duration::ZERO);
            }
            self.position += 1;
            if let Some(Choice::Passed(answers)) = self.taken.last_mut() {
                *answers += 1;
            }
        }
    }

    /// Returns the interrupted tool calls of the last skipped answer. A call was interrupted by a
    /// crash if its result says so.
    fn interrupted_calls(&self) -> Vec<(String, Value)> {
        if self.position <= self.before {
            let is_last = self.position == self.before && self.path.is_empty();
            return if is_last { self.again.clone() } else { Vec::new() };
        }
        let Some(at) = self.answers.get(self.position - self.before - 1).map(|at| at - self.first)
        else {
            return Vec::new();
        };
        let results: Vec<&str> = self
            .messages
            .get(at + 1..self.horizon() - self.first)
            .into_iter()
            .flatten()
            .flat_map(|message| &message.blocks)
            .filter_map(interrupted_id)
            .collect();
        let calls = self.messages.get(at).into_iter().flat_map(|message| &message.blocks);
        let interrupted = calls.filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } if results.contains(&id.as_str()) => {
                Some((name.clone(), input.clone()))
            }
            Block::ToolUse { .. }
            | Block::Text { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolResult { .. }
            | Block::Image { .. }
            | Block::Other(_) => None,
        });
        interrupted.collect()
    }

    /// Returns the position up to which the agent sees messages before it gives the next answer.
    fn horizon(&self) -> usize {
        self.next_answer().unwrap_or(self.first + self.messages.len())
    }

    fn hearing(&self) -> Hearing<'_> {
        Hearing { told: &self.told, latest: self.latest, end: self.horizon() }
    }

    fn holds(&mut self, condition: &Condition) -> Result<bool, String> {
        let held = match self.path.pop_front() {
            Some(Choice::Held(held)) => held,
            Some(Choice::Found(_) | Choice::Passed(_)) => return Err(CHANGED.to_owned()),
            None => condition.holds(self.hearing(), &self.vars)?,
        };
        self.taken.push(Choice::Held(held));
        Ok(held)
    }

    fn found(&mut self, capture: &Capture) -> Result<Option<Value>, String> {
        let found = match self.path.pop_front() {
            Some(Choice::Found(found)) => found,
            Some(Choice::Held(_) | Choice::Passed(_)) => return Err(CHANGED.to_owned()),
            None => capture.take(self.hearing(), &self.vars)?,
        };
        self.taken.push(Choice::Found(found.clone()));
        Ok(found)
    }

    fn due(&self, blocks: Vec<Block>, delay: Duration) -> ControlFlow<Answer> {
        ControlFlow::Break(Answer { position: self.position, blocks, delay })
    }

    fn tool_use_id(&self, call: usize) -> String {
        format!("toolu_script_{}_{}_{call}", self.agent, self.position)
    }
}

fn interrupted_id(block: &Block) -> Option<&str> {
    match block {
        Block::ToolResult { tool_use_id, content: Some(content), .. }
            if content.text().contains(INTERRUPTED) =>
        {
            Some(tool_use_id)
        }
        Block::ToolResult { .. }
        | Block::ToolUse { .. }
        | Block::Text { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::Image { .. }
        | Block::Other(_) => None,
    }
}
