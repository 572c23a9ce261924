//! What the agents decide: a function of their conversation, so that one that is resumed goes on where it stood.
//!
//! Each decision is a step with a name. The name is in the ids of its calls, so the conversation tells what was tried.

mod heard;
mod lead;
mod member;

use serde_json::{Value, json};

pub use heard::{Call, Came, Heard, call_id, step_of, texts};

use crate::plan::Plan;

/// How often a step is tried before that is a finding.
pub const TRIES_MOST: usize = 12;

/// The same for a step that fails at a limit of the system: the next life of the lead has none, and tries it again.
const TRIES_AT_A_LIMIT: usize = 100;

/// The errors of the system at a limit: too many open files, a file too large.
const LIMITS: [&str; 2] = ["os error 24", "os error 27"];

/// The words of a refusal that tells the sender that its message is dead.
pub const IS_DEAD: &str = "is no longer in the team; message";

/// The lead's last words.
pub const LAST_WORDS: &str = "Every part is done and everybody has left.";

/// What a lead is told when its run goes on after an end that left work open.
pub const GO_ON: &str = "Go on where it stopped.";

/// What an agent does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// It says something and ends its turn.
    Text(String),
    /// It calls tools.
    Calls(Vec<Wanted>),
    /// A step was tried too often.
    GivesUp(String),
}

/// A call that an agent wants to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The step that it is for.
    pub step: String,
    /// The tool.
    pub tool: &'static str,
    /// Its input; a text `{token}` in it becomes a unique token.
    pub input: Value,
}

impl Wanted {
    fn new(step: impl Into<String>, tool: &'static str, input: Value) -> Self {
        Self { step: step.into(), tool, input }
    }

    /// A message; its text is made unique.
    fn note(step: impl Into<String>, to: &str, words: &str) -> Self {
        let content = format!("{words} {{token}}");
        let input =
            json!({"type": "message", "recipient": to, "content": content, "summary": "a note"});
        Self::new(step, "SendMessage", input)
    }
}

/// What the agents know beside their conversation.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The crashes at work are over, so the team may end.
    pub may_end: bool,
}

/// Decides what an agent does next.
#[must_use]
pub fn decide(heard: &Heard, world: World<'_>) -> Say {
    if heard.tools == 0 {
        return Say::Text("A summary.".to_owned());
    }
    match heard.agent.as_str() {
        "team-lead" => lead::decide(heard, world),
        "" => Say::GivesUp("a request does not tell its agent".to_owned()),
        name => member::decide(heard, name, world),
    }
}

/// A step that is not done: its call, or what came of it.
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

/// What is next of a step.
enum Next {
    Done(String),
    Do(Wanted),
    GiveUp(String),
}

fn tries_most(error: &str) -> usize {
    if LIMITS.iter().any(|limit| error.contains(limit)) { TRIES_AT_A_LIMIT } else { TRIES_MOST }
}

/// The steps of a list that are not done, to be done together; or the results of all.
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

/// The first number after a `#` in a text.
fn number_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('#')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

/// The tokens in a text: `[[from>to:step:number]]`.
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
