//! Decides what the agents do. A decision depends only on the agent's conversation, the plan of the
//! run, and whether the team may end. So after a resume, an agent continues where it stopped.
//!
//! Each decision is a step with a name. The ids of its tool calls contain this name, so the
//! conversation shows which steps the agent has tried.

mod heard;
mod lead;
mod member;

use serde_json::{Value, json};

pub use heard::{Call, Came, Heard, call_id, step_of, texts};

use crate::plan::Plan;

/// The maximum number of attempts of a step. If a step needs more, that is a finding (a fault of
/// pitcrew).
pub const TRIES_MOST: usize = 12;

/// The maximum number of attempts of a step that fails because of a system limit. The limit applies
/// only to one process of the lead. In the next process, the step can succeed.
const TRIES_AT_A_LIMIT: usize = 100;

/// The error texts of system limits: too many open files (24), and a file that is too large (27).
const LIMITS: [&str; 2] = ["os error 24", "os error 27"];

/// This text in the answer of SendMessage tells the sender that the message cannot be delivered.
pub const IS_DEAD: &str = "is no longer in the team; message";

/// In the error of an answer to a plan that a user interface has answered before.
const IS_ANSWERED_PLAN: [&str; 2] = ["plan approval request ", " is answered already"];

/// The last text that the lead says.
pub const LAST_WORDS: &str = "Every part is done and everybody has left.";

/// The prompt with which a run continues after it ended with open work.
pub const GO_ON: &str = "Go on where it stopped.";

/// What an agent does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// The agent says a text and ends its turn.
    Text(String),
    /// The agent calls tools.
    Calls(Vec<Wanted>),
    /// The agent stops, because a step failed too often. The text is the reason.
    GivesUp(String),
}

/// A tool call that an agent wants to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The name of the step to which the call belongs.
    pub step: String,
    /// The name of the tool.
    pub tool: &'static str,
    /// The input of the call. Each `{token}` in the input is replaced by a unique token.
    pub input: Value,
}

impl Wanted {
    fn new(step: impl Into<String>, tool: &'static str, input: Value) -> Self {
        Self { step: step.into(), tool, input }
    }

    /// Builds a call that sends a message. The text of the message contains a unique token.
    fn note(step: impl Into<String>, to: &str, words: &str) -> Self {
        let content = format!("{words} {{token}}");
        let input =
            json!({"type": "message", "recipient": to, "content": content, "summary": "a note"});
        Self::new(step, "SendMessage", input)
    }
}

/// What the agents know in addition to their conversation.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// True if the team is allowed to end, because all crashes during the work are over.
    pub may_end: bool,
}

/// Decides the next action of an agent.
#[must_use]
pub fn decide(heard: &Heard, world: World<'_>) -> Say {
    // A request without tools asks for a summary of the conversation.
    if heard.tools == 0 {
        return Say::Text("A summary.".to_owned());
    }
    match heard.agent.as_str() {
        "team-lead" => lead::decide(heard, world),
        "" => Say::GivesUp("a request does not tell its agent".to_owned()),
        name => member::decide(heard, name, world),
    }
}

/// Returns the result of a step if it is done. Otherwise returns the call to make, or the reason to
/// give up.
fn try_step(heard: &Heard, wanted: Wanted) -> Next {
    match heard.came_of(&wanted.step) {
        Came::Done(text) => Next::Done(text),
        Came::Nothing => Next::Do(wanted),
        Came::Failed(_, text) if text.contains(IS_DEAD) => Next::Done(text),
        Came::Failed(_, text) if IS_ANSWERED_PLAN.iter().all(|part| text.contains(part)) => {
            Next::Done(text)
        }
        Came::Failed(tries, text) if tries >= tries_most(&text) => Next::GiveUp(format!(
            "{} cannot do {} in {tries} tries: {text}",
            heard.agent, wanted.step
        )),
        Came::Failed(..) => Next::Do(wanted),
    }
}

/// What follows for one step: its result, the call to make, or the reason to give up.
enum Next {
    Done(String),
    Do(Wanted),
    GiveUp(String),
}

fn tries_most(error: &str) -> usize {
    if LIMITS.iter().any(|limit| error.contains(limit)) { TRIES_AT_A_LIMIT } else { TRIES_MOST }
}

/// Returns the results of the steps if all of them are done.
///
/// # Errors
/// If a step is not done, the calls of all steps that are not done. The agent makes these calls
/// together. If a step failed too often, the reason to give up.
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

/// Returns the number that follows the first `#` in a text.
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
