//! Parses a request of the Messages API: which agent sent it, which texts the agent received, and
//! which tools it called. The modules `brain` and `oracle` use the result.

use serde_json::Value;

/// A tool call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    /// The id that the fake model server gave to the call.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The input of the call.
    pub input: Value,
    /// The text of the result, and true if the result is an error. `None` if there is no result
    /// yet.
    pub result: Option<(String, bool)>,
}

/// What an agent's conversation contains.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// The name of the agent. Empty if the request does not name it.
    pub agent: String,
    /// All texts that the agent received, except tool results.
    pub told: String,
    /// All tool calls of the agent, in order.
    pub calls: Vec<Call>,
    /// The number of tools that the agent is allowed to call.
    pub tools: usize,
}

/// The state of a step according to the conversation. (A step is one planned tool call of an agent,
/// with all attempts to make it.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The agent has not tried the step.
    Nothing,
    /// Every attempt of the step failed. The fields are the number of attempts and the last error.
    Failed(usize, String),
    /// The step succeeded with this result.
    Done(String),
}

impl Heard {
    /// Parses the body of a request.
    #[must_use]
    pub fn of(body: &Value) -> Self {
        let tools = body["tools"].as_array().map_or(0, Vec::len);
        let mut heard = Self { agent: agent(&texts(&body["system"])), tools, ..Self::default() };
        for message in list(&body["messages"]) {
            let is_user = message["role"] == "user";
            if let (true, Some(text)) = (is_user, message["content"].as_str()) {
                heard.tell(text);
            }
            for block in list(&message["content"]) {
                heard.add(block, is_user);
            }
        }
        heard
    }

    fn add(&mut self, block: &Value, is_user: bool) {
        match block["type"].as_str() {
            Some("text") if is_user => self.tell(block["text"].as_str().unwrap_or_default()),
            Some("tool_use") => self.calls.push(Call {
                id: owned(&block["id"]),
                tool: owned(&block["name"]),
                input: block["input"].clone(),
                result: None,
            }),
            Some("tool_result") => {
                let result = (texts(&block["content"]), block["is_error"] == true);
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                if let Some(call) = self.calls.iter_mut().rev().find(|call| call.id == id) {
                    call.result = Some(result);
                }
            }
            Some(_) | None => {}
        }
    }

    fn tell(&mut self, text: &str) {
        self.told.push_str(text);
        self.told.push('\n');
    }

    /// Returns the state of a step of this agent: not tried, failed or done.
    #[must_use]
    pub fn came_of(&self, step: &str) -> Came {
        let tries: Vec<&Call> =
            self.calls.iter().filter(|call| step_of(&call.id) == Some(step)).collect();
        let done = tries.iter().find_map(|call| match &call.result {
            Some((text, false)) => Some(text.clone()),
            Some((_, true)) | None => None,
        });
        match (done, tries.last()) {
            (Some(text), _) => Came::Done(text),
            (None, None) => Came::Nothing,
            (None, Some(last)) => {
                let text = last.result.as_ref().map(|(text, _)| text.clone()).unwrap_or_default();
                Came::Failed(tries.len(), text)
            }
        }
    }

    /// Returns the words that begin with `start` in the texts that the agent received. Each word is
    /// returned once, in the order of the texts. A word consists of letters, digits, `-`, `_`, `@`
    /// and `.`.
    #[must_use]
    pub fn words_with(&self, start: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (at, _) in self.told.match_indices(start) {
            let rest = self.told.get(at..).unwrap_or_default();
            let end =
                rest.find(|sign: char| !(sign.is_ascii_alphanumeric() || "-_@.".contains(sign)));
            let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().to_owned();
            if !found.contains(&word) {
                found.push(word);
            }
        }
        found
    }
}

/// Builds the id of a tool call. It contains the agent, the step, and a number that no other call
/// has.
#[must_use]
pub fn call_id(agent: &str, step: &str, number: u64) -> String {
    format!("toolu_{agent}_{step}_{number}")
}

/// Returns the step that the id of a tool call contains.
#[must_use]
pub fn step_of(id: &str) -> Option<&str> {
    id.strip_prefix("toolu_")?.split('_').nth(1)
}

/// Finds the name of the agent in its system prompt.
fn agent(system: &str) -> String {
    let named = system.split_once("# You are \"").and_then(|(_, rest)| rest.split_once('"'));
    match named {
        Some((name, _)) => name.to_owned(),
        None if system.contains("You lead the team") => "team-lead".to_owned(),
        None => String::new(),
    }
}

/// Returns all texts in a JSON value, joined by line breaks.
#[must_use]
pub fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => fields.get("text").map(texts).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn owned(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
