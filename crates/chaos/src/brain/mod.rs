//! The decisions of the agents. They depend only on the agent's conversation, so a resumed agent
//! continues where it stopped.
//!
//! Each decision is a named step. The ids of its calls contain the name, so the conversation shows
//! which steps were tried.

mod heard;
mod lead;
mod member;

use serde_json::{Value, json};

pub use heard::{Call, Came, Heard, call_id, step_of, texts};

use crate::plan::Plan;

/// The maximum number of attempts of a step. A step with more attempts is a finding.
pub const TRIES_MOST: usize = 12;

/// The maximum number of attempts of a step that fails at a system limit. The next process of the
/// lead has no limit, and the step can succeed there.
const TRIES_AT_A_LIMIT: usize = 100;

/// The error texts of system limits: too many open files, and a file that is too large.
const LIMITS: [&str; 2] = ["os error 24", "os error 27"];

/// The error text that informs a sender that its message cannot be delivered.
pub const IS_DEAD: &str = "is no longer in the team; message";

/// The last text of the lead.
pub const LAST_WORDS: &str = "Every part is done and everybody has left.";

/// The prompt for a lead whose run continues after it ended with open work.
pub const GO_ON: &str = "Go on where it stopped.";

/// The next action of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// The agent says a text and ends its turn.
    Text(String),
    /// The agent calls tools.
    Calls(Vec<Wanted>),
    /// The agent stops because a step failed too often.
    GivesUp(String),
}

/// A tool call that an agent wants to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The step of the call.
    pub step: String,
    /// The name of the tool.
    pub tool: &'static str,
    /// The input of the call. Each `{token}` in it is replaced by a unique token.
    pub input: Value,
}

impl Wanted {
    fn new(step: impl Into<String>, tool: &'static str, input: Value) -> Self {
        Self { step: step.into(), tool, input }
    }

    /// Builds a message with a unique token in its text.
    fn note(step: impl Into<String>, to: &str, words: &str) -> Self {
        let content = format!("{words} {{token}}");
        let input =
            json!({"type": "message", "recipient": to, "content": content, "summary": "a note"});
        Self::new(step, "SendMessage", input)
    }
}

/// The information that the agents have in addition to their conversation.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// Whether the crashes during the work are over, so that the team may end.
    pub may_end: bool,
}

/// Decides the next action of an agent.
#[must_use]
pub fn decide(heard: &Heard, world: World<'_>) -> Say {
    // A request without tools asks for a summary of the conversation, not for a step.
    if heard.tools == 0 {
        return Say::Text("A summary.".to_owned());
    }
    match heard.agent.as_str() {
        "team-lead" => lead::decide(heard, world),
        "" => Say::GivesUp("a request does not tell its agent".to_owned()),
        name => member::decide(heard, name, world),
    }
}

/// Returns the result of a step that is done, otherwise the call of the step.
fn try_step(heard: &Heard, wanted: Wanted) -> Next {
    match heard.came_of(&wanted.step) {
        Came::Done(text) => Next::Done(text),
        Came::Nothing => Next::Do(wanted),
        Came::Failed(_, text) if text.contains(IS_DEAD) => Next::Done(text),
        Came::Failed(tries, text) if tries >= tries_most(&text) => Next::GiveUp(format!(
            "{} cannot do {} in {tries} tries: {text}",
            heard.agent, wanted.step
        )),
        Came::Failed(..) => Next::Do(wanted),
    }
}

/// The next action for one step.
enum Next {
    Done(String),
    Do(Wanted),
    GiveUp(String),
}

fn tries_most(error: &str) -> usize {
    if LIMITS.iter().any(|limit| error.contains(limit)) { TRIES_AT_A_LIMIT } else { TRIES_MOST }
}

/// Returns the results of all steps if all are done. Otherwise returns the calls of the steps that
/// are not done. The agent makes these calls together.
fn all(heard: &Heard, wanted: impl IntoIterator<Item = Wanted>) -> Result<Vec<String>, Say> {
    let (mut done, mut todo) = (Vec::new(), Vec::new());
    for wanted in wanted {
        match try_step(heard, wanted) {
            Next::Done(text) => done.push(text),
            Next::Do(wanted) => todo.push(wanted),
            Next::GiveUp(why) => return Err(Say::GivesUp(why)),
        }
    }
    if todo.is_empty() { Ok(done) } else { Err(Say::Calls(todo)) }
}

/// Returns the first number after a `#` in a text.
fn number_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('#')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

/// Returns the tokens in a text. A token has the form `[[from>to:step:number]]`.
#[must_use]
pub fn tokens_in(text: &str) -> Vec<&str> {
    let starts = text.match_indices("[[").map(|(at, _)| at);
    let token = |at: usize| {
        let rest = text.get(at..)?;
        let end = rest.find("]]")?;
        rest.get(..end + 2).filter(|token| token.contains('>') && token.len() < 80)
    };
    starts.filter_map(token).collect()
}
