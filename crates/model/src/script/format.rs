//! The form of a script's file. The schema in `docs/script.schema.json` is made from these types.

use std::collections::BTreeMap;
use std::time::Duration;

use globset::Glob;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::condition::{Capture, Condition};

/// The agent name that stands for all that no other name fits.
const DEFAULT_AGENT: &str = "default";

/// Answers for the agents of a team, in place of a language model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFile {
    /// What the script is for; nothing reads it.
    #[serde(default)]
    #[expect(dead_code, reason = "for people; named here so that it is no unknown field")]
    description: Option<String>,
    /// The turns of each agent, by its name, by a pattern such as `worker-*`, or under `default` for all others.
    agents: BTreeMap<AgentPattern, Vec<Step>>,
}

impl ScriptFile {
    /// Finds an agent's steps: its name wins, then the longest pattern that fits, then `default`.
    pub(super) fn steps_for(&self, agent: &str) -> Option<&[Step]> {
        let exact = self.agents.iter().find(|(pattern, _)| pattern.0 == agent);
        let fitting = || {
            let fitting = self.agents.iter().filter(|(pattern, _)| pattern.fits(agent));
            fitting.max_by_key(|(pattern, _)| pattern.0.len())
        };
        let default = || self.agents.iter().find(|(pattern, _)| pattern.0 == DEFAULT_AGENT);
        exact.or_else(fitting).or_else(default).map(|(_, steps)| steps.as_slice())
    }

    /// Lists the names and patterns, for an error.
    pub(super) fn known_agents(&self) -> String {
        let names: Vec<&str> = self.agents.keys().map(|pattern| pattern.0.as_str()).collect();
        names.join(", ")
    }
}

/// An agent's name, or a pattern of names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
struct AgentPattern(String);

impl AgentPattern {
    fn fits(&self, agent: &str) -> bool {
        Glob::new(&self.0).is_ok_and(|glob| glob.compile_matcher().is_match(agent))
    }
}

impl TryFrom<String> for AgentPattern {
    type Error = globset::Error;

    fn try_from(pattern: String) -> Result<Self, globset::Error> {
        Glob::new(&pattern)?;
        Ok(Self(pattern))
    }
}

/// A step: an answer (`text`, `thinking`, `tools`), or `wait_for`, or `choose`, or `repeat`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenStep")]
#[schemars(with = "WrittenStep")]
pub(super) struct Step {
    pub(super) when: Option<Condition>,
    pub(super) act: Act,
}

/// What a step is.
#[derive(Debug)]
pub(super) enum Act {
    Turn(Turn),
    WaitFor { condition: Condition, turn: Turn },
    Choose(Vec<Branch>),
    Repeat(Repeat),
}

/// One answer of the model.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) thinking: Option<String>,
    pub(super) text: Option<String>,
    pub(super) tools: Vec<ToolCall>,
    pub(super) capture: BTreeMap<String, Capture>,
    pub(super) delay: Duration,
}

/// A step as it is written, before it is checked that it is one thing only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Step", extend("anyOf" = [
    {"required": ["text"]},
    {"required": ["thinking"]},
    {"required": ["tools"]},
    {"required": ["wait_for"]},
    {"required": ["choose"]},
    {"required": ["repeat"]},
]))]
struct WrittenStep {
    /// The step is skipped unless this holds when its turn comes.
    #[serde(default)]
    when: Option<Condition>,
    /// What the agent thinks before it answers.
    #[serde(default)]
    thinking: Option<String>,
    /// What the agent says. With `wait_for`: what it says while it waits, by default nothing.
    #[serde(default)]
    text: Option<String>,
    /// The tools the agent calls, all in one turn.
    #[serde(default)]
    tools: Vec<ToolCall>,
    /// Variables to take out of what the agent was told, before the rest of the turn is written.
    #[serde(default)]
    capture: BTreeMap<String, Capture>,
    /// How long the answer takes, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
    /// The agent ends its turn, and idles, until this holds.
    #[serde(default)]
    wait_for: Option<Condition>,
    /// The first branch whose `when` holds is played; none when none holds.
    #[serde(default)]
    choose: Option<Vec<Branch>>,
    /// Turns to be played again and again.
    #[serde(default)]
    repeat: Option<Repeat>,
}

/// A call of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCall {
    /// The tool's name.
    pub(super) name: String,
    /// Its arguments; every string in them may hold `${variables}`.
    #[serde(default)]
    pub(super) input: Map<String, Value>,
}

/// One way to go on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Branch {
    /// When to take this branch; always, if absent.
    #[serde(default)]
    pub(super) when: Option<Condition>,
    /// What to play.
    pub(super) turns: Vec<Step>,
}

/// A loop.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    /// Looked at before each round; the loop ends when it holds.
    #[serde(default)]
    pub(super) until: Option<Condition>,
    /// How many rounds there are at most; the script then goes on.
    #[serde(default = "default_rounds")]
    pub(super) at_most: u32,
    /// What to play in each round.
    pub(super) turns: Vec<Step>,
}

fn default_rounds() -> u32 {
    100
}

impl TryFrom<WrittenStep> for Step {
    type Error = &'static str;

    fn try_from(written: WrittenStep) -> Result<Self, &'static str> {
        let says = written.text.is_some() || written.thinking.is_some();
        let calls = !written.tools.is_empty();
        let turn = Turn {
            thinking: written.thinking,
            text: written.text,
            tools: written.tools,
            capture: written.capture,
            delay: Duration::from_millis(written.delay_ms),
        };
        let bare = !says && !calls && turn.capture.is_empty() && turn.delay.is_zero();
        let act = match (written.wait_for, written.choose, written.repeat) {
            (None, None, None) if says || calls => Act::Turn(turn),
            (None, None, None) => {
                return Err("a step needs text, thinking or tools, or wait_for, choose or repeat");
            }
            (Some(condition), None, None) if !calls && turn.capture.is_empty() => {
                Act::WaitFor { condition, turn }
            }
            (None, Some(branches), None) if bare => Act::Choose(branches),
            (None, None, Some(repeat)) if bare => Act::Repeat(repeat),
            _ => return Err("a step is one thing: an answer, a wait_for, a choose or a repeat"),
        };
        Ok(Self { when: written.when, act })
    }
}
