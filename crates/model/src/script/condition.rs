//! The conditions and captures of a script. They examine the texts that the agent received.

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::template::Variables;
use super::told::Told;

/// All texts of an agent's conversation, and the point of the conversation at which a condition or
/// a capture examines them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hearing<'a> {
    /// All texts that the agent received in the whole conversation. Texts at position `end` or
    /// later are not examined.
    pub(super) told: &'a [Told],
    /// The position of the first message after the agent's last turn.
    pub(super) latest: usize,
    /// The first position that is not examined. The agent had not received the messages from here
    /// on.
    pub(super) end: usize,
}

/// A condition of a script. All given parts must be true.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenCondition")]
#[schemars(with = "WrittenCondition")]
pub(super) struct Condition(WrittenCondition);

/// A condition as written in the file, before the check that it has at least one test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Condition", extend("anyOf" = [
    {"required": ["contains"]},
    {"required": ["matches"]},
    {"required": ["all"]},
    {"required": ["any"]},
    {"required": ["not"]},
]))]
struct WrittenCondition {
    /// A text that the agent must have received.
    #[serde(default)]
    contains: Option<String>,
    /// A regular expression that must match a text that the agent received.
    #[serde(default)]
    matches: Option<Pattern>,
    /// The texts to search: all texts that the agent received, or only those since its last turn.
    #[serde(default, rename = "in")]
    scope: Scope,
    /// The kind of texts to search.
    #[serde(default)]
    from: Source,
    /// Searches only the results of this tool.
    #[serde(default)]
    tool: Option<String>,
    /// The required number of matches.
    #[serde(default = "once")]
    times: usize,
    /// All of these conditions must be true.
    #[serde(default)]
    all: Vec<Condition>,
    /// At least one of these conditions must be true.
    #[serde(default)]
    any: Vec<Condition>,
    /// This condition must be false.
    #[serde(default)]
    not: Option<Box<Condition>>,
}

/// The part of the conversation to search.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    /// All texts that the agent received.
    #[default]
    Anywhere,
    /// The texts since the agent's last turn.
    Latest,
}

/// The kind of texts to search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// Results of tools, and messages.
    #[default]
    Any,
    /// Only results of tools.
    ToolResult,
    /// Only prompts and messages.
    Message,
}

/// A value to extract from the texts that the agent received. The last match counts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenCapture")]
#[schemars(with = "WrittenCapture")]
pub(super) struct Capture(WrittenCapture);

/// A capture as written in the file, before the check that it has exactly one way of searching.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Capture", extend("oneOf" = [{"required": ["regex"]}, {"required": ["pointer"]}]))]
struct WrittenCapture {
    /// The kind of texts to search.
    #[serde(default)]
    from: Source,
    /// Searches only the results of this tool.
    #[serde(default)]
    tool: Option<String>,
    /// A regular expression. The value is its first group, or the whole match if it has no group.
    #[serde(default)]
    regex: Option<Pattern>,
    /// A JSON pointer such as `/task/id` into a result or a message that is JSON.
    #[serde(default)]
    pointer: Option<String>,
    /// The value if nothing is found.
    #[serde(default)]
    default: Option<Value>,
}

/// A regular expression. It is compiled when the script is read, unless it contains variables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
struct Pattern {
    written: String,
    compiled: Option<Regex>,
}

fn once() -> usize {
    1
}

impl Condition {
    /// Returns true if the condition is met.
    ///
    /// # Errors
    /// An error if the condition names a variable that has no value.
    pub(super) fn holds(&self, hearing: Hearing<'_>, vars: &Variables) -> Result<bool, String> {
        let Self(this) = self;
        let heard = || this.heard(hearing);
        if let Some(text) = &this.contains {
            let text = vars.fill(text)?;
            let found: usize = heard().map(|told| told.text.matches(&text).count()).sum();
            if found < this.times {
                return Ok(false);
            }
        }
        if let Some(pattern) = &this.matches {
            let regex = pattern.regex(vars)?;
            let found: usize = heard().map(|told| regex.find_iter(&told.text).count()).sum();
            if found < this.times {
                return Ok(false);
            }
        }
        for condition in &this.all {
            if !condition.holds(hearing, vars)? {
                return Ok(false);
            }
        }
        if let Some(not) = &this.not
            && not.holds(hearing, vars)?
        {
            return Ok(false);
        }
        for condition in &this.any {
            if condition.holds(hearing, vars)? {
                return Ok(true);
            }
        }
        Ok(this.any.is_empty())
    }
}

impl WrittenCondition {
    fn heard<'a>(&'a self, hearing: Hearing<'a>) -> impl Iterator<Item = &'a Told> {
        let from = match self.scope {
            Scope::Anywhere => 0,
            Scope::Latest => hearing.latest,
        };
        let told = hearing.told.iter().filter(move |told| (from..hearing.end).contains(&told.at));
        told.filter(|told| self.from.includes(told, self.tool.as_deref()))
    }
}

impl Source {
    fn includes(self, told: &Told, tool: Option<&str>) -> bool {
        let kind = match self {
            Self::Any => true,
            Self::ToolResult => told.tool.is_some(),
            Self::Message => told.tool.is_none(),
        };
        kind && tool.is_none_or(|tool| told.tool.as_deref() == Some(tool))
    }
}

impl Capture {
    /// Returns the value that the capture finds, or `None` if it finds nothing.
    ///
    /// # Errors
    /// An error if the capture names a variable that has no value.
    pub(super) fn take(
        &self,
        hearing: Hearing<'_>,
        vars: &Variables,
    ) -> Result<Option<Value>, String> {
        let Self(this) = self;
        let told = hearing.told.iter().rev().filter(|told| told.at < hearing.end);
        let heard = told.filter(|told| this.from.includes(told, this.tool.as_deref()));
        let found = match (&this.regex, &this.pointer) {
            (Some(pattern), _) => {
                let regex = pattern.regex(vars)?;
                heard.filter_map(|told| last_group(&regex, &told.text)).next()
            }
            (None, Some(pointer)) => {
                let pointer = vars.fill(pointer)?;
                heard.filter_map(|told| told.pointer(&pointer)).next()
            }
            (None, None) => None,
        };
        Ok(found.or_else(|| this.default.clone()))
    }
}

fn last_group(regex: &Regex, text: &str) -> Option<Value> {
    let found = regex.captures_iter(text).last()?;
    let group = found.get(1).or_else(|| found.get(0))?;
    Some(Value::String(group.as_str().to_owned()))
}

impl Pattern {
    fn regex(&self, vars: &Variables) -> Result<Regex, String> {
        match &self.compiled {
            Some(regex) => Ok(regex.clone()),
            None => {
                let filled = vars.fill_escaped(&self.written)?;
                Regex::new(&filled).map_err(|error| error.to_string())
            }
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(written: String) -> Result<Self, regex::Error> {
        let compiled = if written.contains("${") { None } else { Some(Regex::new(&written)?) };
        Ok(Self { written, compiled })
    }
}

impl TryFrom<WrittenCondition> for Condition {
    type Error = &'static str;

    fn try_from(written: WrittenCondition) -> Result<Self, &'static str> {
        let asks = written.contains.is_some()
            || written.matches.is_some()
            || written.not.is_some()
            || !written.all.is_empty()
            || !written.any.is_empty();
        if asks {
            Ok(Self(written))
        } else {
            Err("a condition needs contains, matches, all, any or not")
        }
    }
}

impl TryFrom<WrittenCapture> for Capture {
    type Error = &'static str;

    fn try_from(written: WrittenCapture) -> Result<Self, &'static str> {
        if written.regex.is_some() == written.pointer.is_some() {
            return Err("a capture needs either regex or pointer");
        }
        Ok(Self(written))
    }
}
