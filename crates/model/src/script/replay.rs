//! Finds the turn that is due, by playing the script against the conversation from its beginning.
//!
//! At each turn the conversation is looked at as it was then: up to the agent's answer, which is passed over without
//! being read. The first turn that the conversation has no answer for is the one that is due.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;

use super::condition::{Condition, Hearing};
use super::format::{Act, Branch, Repeat, Step, Turn};
use super::template::Variables;
use super::told::{self, Told};
use crate::{AgentTag, Block, Message, Role, StopReason};

/// Marks the result of a tool call that a crash interrupted; it stands in the result's text.
///
/// A scripted model makes such a call again, under a new id, before it goes on.
pub const INTERRUPTED: &str = "[interrupted]";

/// What an agent says when its script is over.
const OVER: &str = "I have nothing left to do.";

/// How many steps may be looked at for one answer; a script that needs more goes in circles.
const MAX_STEPS: u32 = 100_000;

/// The answer that is due.
#[derive(Debug)]
pub(super) struct Answer {
    /// How many answers the agent gave before.
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

/// Why a turn cannot be played.
#[derive(Debug)]
pub(super) struct Fault {
    /// The turn, counted from 1.
    pub(super) turn: usize,
    pub(super) reason: String,
}

/// Finds the answer that is due.
///
/// # Errors
/// When a capture finds nothing, a variable has no value, or the script goes in circles.
pub(super) fn answer(steps: &[Step], agent: &AgentTag, messages: &[Message]) -> Result<Answer, Fault> {
    let mut replay = Replay::new(agent, messages);
    let due = match replay.play(steps) {
        Ok(ControlFlow::Break(answer)) => return Ok(answer),
        Ok(ControlFlow::Continue(())) => replay.over(),
        Err(reason) => Err(reason),
    };
    due.map_err(|reason| Fault { turn: replay.position + 1, reason })
}

/// A script on its way through a conversation.
struct Replay<'a> {
    agent: String,
    messages: &'a [Message],
    told: Vec<Told>,
    /// Where the agent's answers stand in the conversation.
    answers: Vec<usize>,
    /// How many of them have been passed.
    position: usize,
    /// Where what came since the last turn begins.
    latest: usize,
    vars: Variables,
    steps_left: u32,
}

type Played = Result<ControlFlow<Answer>, String>;

impl<'a> Replay<'a> {
    fn new(agent: &AgentTag, messages: &'a [Message]) -> Self {
        let answers = messages.iter().enumerate();
        let answers = answers.filter(|(_, message)| message.role == Role::Assistant);
        Self {
            agent: super::plain(agent),
            messages,
            told: told::listen(messages),
            answers: answers.map(|(at, _)| at).collect(),
            position: 0,
            latest: 0,
            vars: Variables::of(agent),
            steps_left: MAX_STEPS,
        }
    }

    fn play(&mut self, steps: &[Step]) -> Played {
        for step in steps {
            self.steps_left = self.steps_left.checked_sub(1).ok_or("the script goes in circles without an answer")?;
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
            match capture.take(self.hearing(), &self.vars)? {
                Some(value) => self.vars.set(name, value),
                None if self.vars.has(name) => {}
                None => {
                    return Err(format!("nothing the agent was told fits the capture {name:?}"));
                }
            }
        }
        if self.pass() {
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

    /// Answers whatever else comes when the script is over.
    fn over(&mut self) -> Result<Answer, String> {
        while self.pass() {
            if let ControlFlow::Break(answer) = self.repeat_interrupted() {
                return Ok(answer);
            }
        }
        let position = self.position;
        Ok(Answer { position, blocks: vec![Block::text(OVER)], delay: Duration::ZERO })
    }

    /// Passes over the next answer of the conversation; tells whether there was one.
    fn pass(&mut self) -> bool {
        let Some(at) = self.answers.get(self.position) else {
            return false;
        };
        self.latest = at + 1;
        self.position += 1;
        true
    }

    /// Passes over the repetitions of the calls that a crash interrupted, or makes the one that is still due.
    ///
    /// What counts as latest still begins at the turn itself, so that a condition sees the same with and without a crash.
    fn repeat_interrupted(&mut self) -> ControlFlow<Answer> {
        loop {
            let calls = self.interrupted_calls();
            if calls.is_empty() {
                return ControlFlow::Continue(());
            }
            if self.position == self.answers.len() {
                let renewed = calls
                    .into_iter()
                    .enumerate()
                    .map(|(i, (name, input))| Block::tool_use(self.tool_use_id(i), name, input.clone()));
                return self.due(renewed.collect(), Duration::ZERO);
            }
            self.position += 1;
        }
    }

    /// Lists the calls of the last passed answer whose results say that a crash interrupted them.
    fn interrupted_calls(&self) -> Vec<(&'a str, &'a Value)> {
        let Some(at) = self.position.checked_sub(1).and_then(|last| self.answers.get(last)) else {
            return Vec::new();
        };
        let results: Vec<&str> = self
            .messages
            .get(at + 1..self.horizon())
            .into_iter()
            .flatten()
            .flat_map(|message| &message.blocks)
            .filter_map(interrupted_id)
            .collect();
        let calls = self.messages.get(*at).into_iter().flat_map(|message| &message.blocks);
        let interrupted = calls.filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } if results.contains(&id.as_str()) => Some((name.as_str(), input)),
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

    /// Returns where the conversation ended when the next answer was given.
    fn horizon(&self) -> usize {
        self.answers.get(self.position).copied().unwrap_or(self.messages.len())
    }

    fn hearing(&self) -> Hearing<'_> {
        Hearing { told: &self.told, latest: self.latest, end: self.horizon() }
    }

    fn holds(&self, condition: &Condition) -> Result<bool, String> {
        condition.holds(self.hearing(), &self.vars)
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
        Block::ToolResult { tool_use_id, content: Some(content), .. } if content.text().contains(INTERRUPTED) => {
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
