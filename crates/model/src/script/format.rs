//! The format of a script file. The schema in `docs/script.schema.json` is generated from these
//! types.

use std::collections::BTreeMap;
use std::time::Duration;

use globset::Glob;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::condition::{Capture, Condition};

/// The name under which a script lists the steps for all agents that match no other name or
/// pattern.
const DEFAULT_AGENT: &str = "default";

/// Answers for the agents of a team, in place of a language model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFile {
    /// The purpose of the script, for people. Nothing reads it.
    #[serde(default)]
    #[expect(dead_code, reason = "for people; named here so that it is no unknown field")]
    description: Option<String>,
    /// The turns of each agent, by its name, by a pattern such as `worker-*`, or under `default`
    /// for all others.
    agents: BTreeMap<AgentPattern, Vec<Step>>,
}

impl ScriptFile {
    /// Returns the steps for an agent. Its exact name is preferred, then the longest matching
    /// pattern, then `default`.
    pub(super) fn steps_for(&self, agent: &str) -> Option<&[Step]> {
        let exact = self.agents.iter().find(|(pattern, _)| pattern.0 == agent);
        let fitting = || {
            let fitting = self.agents.iter().filter(|(pattern, _)| pattern.fits(agent));
            fitting.max_by_key(|(pattern, _)| pattern.0.len())
        };
        let default = || self.agents.iter().find(|(pattern, _)| pattern.0 == DEFAULT_AGENT);
        exact.or_else(fitting).or_else(default).map(|(_, steps)| steps.as_slice())
    }

    /// Lists the names and patterns, for an error message.
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

/// The action of a step.
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

/// A step as written in the file, before the check that it has exactly one action.
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
    /// The step is skipped if this condition is false at that moment.
    #[serde(default)]
    when: Option<Condition>,
    /// The agent's thoughts before its answer.
    #[serde(default)]
    thinking: Option<String>,
    /// The agent's text. With `wait_for`, this is the agent's text while it waits, which is empty
    /// by default.
    #[serde(default)]
    text: Option<String>,
    /// The tool calls of the agent, all in one turn.
    #[serde(default)]
    tools: Vec<ToolCall>,
    /// Variables to extract from the texts that the agent received, before the rest of the turn is
    /// written.
    #[serde(default)]
    capture: BTreeMap<String, Capture>,
    /// The duration of the answer, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
    /// The agent ends its turn and idles until this condition is true.
    #[serde(default)]
    wait_for: Option<Condition>,
    /// Plays the first branch whose `when` is true. Plays nothing if none is true.
    #[serde(default)]
    choose: Option<Vec<Branch>>,
    /// Turns to play repeatedly.
    #[serde(default)]
    repeat: Option<Repeat>,
}

/// A tool call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCall {
    /// The name of the tool.
    pub(super) name: String,
    /// The arguments of the call. Every string in them may contain `${variables}`.
    #[serde(default)]
    pub(super) input: Map<String, Value>,
}

/// One branch of a `choose`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Branch {
    /// The condition for this branch. Without it, the branch is always taken.
    #[serde(default)]
    pub(super) when: Option<Condition>,
    /// The turns of this branch.
    pub(super) turns: Vec<Step>,
}

/// A loop over turns.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    /// The condition that ends the loop. It is checked before each round.
    #[serde(default)]
    pub(super) until: Option<Condition>,
    /// The maximum number of rounds. After them the script continues.
    #[serde(default = "default_rounds")]
    pub(super) at_most: u32,
    /// The turns of each round.
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
