//! Finds the next turn by playing the script against the conversation from its beginning.
//!
//! When a past turn is played again, the script sees the conversation only up to the agent's answer
//! in that turn. The answer itself is skipped without being read. The next turn is the first one
//! without an answer in the conversation. For turns that a summary replaced, the script's memory in
//! the summary is used.

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

/// A marker in the result of a tool call that a crash interrupted.
///
/// A scripted model repeats such a call, under a new id, before it continues.
pub const INTERRUPTED: &str = "[interrupted]";

/// The agent's text after the end of its script.
const OVER: &str = "I have nothing left to do.";

/// The error for a summary that another script wrote.
const CHANGED: &str = "the summary in the conversation was written by another script";

/// Maximum number of steps per answer. A script that needs more is in an endless loop.
const MAX_STEPS: u32 = 100_000;

/// The next answer.
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

/// The reason why a turn cannot be played.
#[derive(Debug)]
pub(super) struct Fault {
    /// The number of the turn, counted from 1.
    pub(super) turn: usize,
    pub(super) reason: String,
}

/// Returns the next answer: the next turn, or a summary if the conversation asks for one.
///
/// # Errors
/// When a capture finds nothing, a variable has no value, or the script is in an endless loop.
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
        // An error of the next turn does not prevent a summary, because the missing text may still
        // arrive before that turn.
        Ok(_) | Err(_) if to_summarise.is_some() && replay.position == replay.answered() => {
            Ok(replay.summary())
        }
        due => due,
    };
    due.map_err(|reason| Fault { turn: replay.position + 1, reason })
}

/// A script that is being played against a conversation.
struct Replay<'a> {
    agent: String,
    messages: &'a [Message],
    told: Vec<Told>,
    /// The number of texts from the memory, and the number of texts from the briefing, which follow
    /// in the list.
    recalled: (usize, usize),
    /// The position of the first message.
    first: usize,
    /// The positions of the agent's answers in the conversation.
    answers: Vec<usize>,
    /// The number of the agent's answers before this conversation.
    before: usize,
    /// The number of answers skipped so far, including those before this conversation.
    position: usize,
    /// The first position after the agent's last turn.
    latest: usize,
    vars: Variables,
    /// The remaining choices from the turns before this conversation.
    path: VecDeque<Choice>,
    /// The tool calls to repeat from the last turn before this conversation.
    again: Vec<(String, Value)>,
    /// All choices so far.
    taken: Vec<Choice>,
    steps_left: u32,
}

type Played = Result<ControlFlow<Answer>, String>;

impl<'a> Replay<'a> {
    fn new(agent: &AgentTag, messages: &'a [Message]) -> Self {
        let recalled = Memory::recall(messages);
        // The texts from the memory come before the conversation, so the conversation's positions
        // start at 1.
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

    /// Returns the number of all answers that the agent ever gave.
    fn answered(&self) -> usize {
        self.before + self.answers.len()
    }

    /// Returns a summary of the conversation from which the script can continue.
    fn summary(&self) -> Answer {
        let is_passed = |choice: &Choice| matches!(choice, Choice::Passed(_));
        // Choices after the last answer belong to the next turn, which makes them again after the
        // summary.
        let last = self.taken.iter().rposition(is_passed).map_or(0, |at| at + 1);
        // The unanswered message stays in the conversation, and the runtime writes a new briefing.
        // So neither belongs in the memory.
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
                // In a loop, a variable keeps its earlier value when a later round finds nothing.
                None if self.vars.has(name) => {}
                None => {
                    return Err(format!("nothing the agent was told fits the capture {name:?}"));
                }
            }
        }
        // The captures above come first, because they must not see texts that arrived after this
        // answer.
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
            // An empty loop would only count rounds, so it ends at once.
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

    /// Returns the answer after the end of the script, for any further input.
    fn over(&mut self) -> Result<Answer, String> {
        while self.pass()? {
            if let ControlFlow::Break(answer) = self.repeat_interrupted() {
                return Ok(answer);
            }
        }
        let position = self.position;
        Ok(Answer { position, blocks: vec![Block::text(OVER)], delay: Duration::ZERO })
    }

    /// Skips the next answer, and returns whether there was one.
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
        // Texts after this answer are the latest ones for the next condition.
        self.latest = at + 1;
        self.position += 1;
        self.taken.push(Choice::Passed(1));
        Ok(true)
    }

    /// Returns the position of the next answer in the conversation.
    fn next_answer(&self) -> Option<usize> {
        self.answers.get(self.position.checked_sub(self.before)?).copied()
    }

    /// Skips the repetitions of interrupted tool calls, or returns the repetition that is still
    /// missing.
    ///
    /// The latest texts still start at the turn itself, so that a condition sees the same texts
    /// with and without a crash.
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

    /// Returns those tool calls of the last skipped answer whose results say that a crash
    /// interrupted the call.
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

    /// Returns the end of the conversation at the time of the next answer.
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
