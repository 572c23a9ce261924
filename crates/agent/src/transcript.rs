//! The conversation of an agent on disk. It has one line of JSON for each step. A conversation in
//! memory is built from these steps.
//!
//! A running agent and a resumed agent build their conversations with the same
//! [`Conversation::apply`]. After a crash, a model therefore gets the same messages as without the
//! crash. A message counts as delivered when its id is in a step. `apply` ignores ids that the
//! conversation already contains. The driver decides when and where steps are written.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use pitcrew_model::{Block, Message, Role, ToolContent};
use pitcrew_protocol::{AgentName, MessageId, Status};
use serde_json::Value;

use crate::FileSeen;

mod compacted;
mod lines;
mod step;

use compacted::Fill;
pub use compacted::{LEAST_CHARS, TOKEN_CHARS, shortened, tokens_of};
pub use lines::{NewerTranscript, Read, read};
pub use step::{AnswerFault, Entry, Grant, Step};

/// A tool call that the model made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id of the call. The result of the call has the same id.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The input of the call: an object, or a string if the model wrote something that is not an
    /// object.
    pub input: Value,
    /// A key that no other call in the conversation has. The key is the id of the call, or is
    /// derived from the id if the model has used the same id before.
    pub key: String,
}

/// A tool call without a result, and how far the call came according to the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// The tool call, with the input that counts: the input of the model, or the input by which a
    /// hook replaced it.
    pub call: ToolCall,
    /// The input that the model wrote, if a hook has replaced it.
    pub original: Option<Value>,
    /// How far the call came according to the transcript.
    pub reached: Reached,
}

/// How far a tool call without a result came, according to the transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum Reached {
    /// The transcript contains nothing about the call except the call itself.
    Nothing,
    /// A permission request about the call was sent.
    Asked {
        /// The id of the permission request.
        request: String,
    },
    /// The permission request about the call was answered.
    Granted(Grant),
    /// The call was started. It has possibly run, at least in part.
    Began,
}

/// A conversation, with all state that is computed from its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The messages. A request that is being sent shares them without copying.
    messages: Arc<Vec<Message>>,
    prompts: Vec<String>,
    fill: Fill,
    delivered: HashSet<MessageId>,
    parted: BTreeSet<AgentName>,
    open: Vec<OpenCall>,
    made: HashSet<String>,
    turns: u32,
    fault: Option<AnswerFault>,
    updates: Vec<Value>,
    seen: BTreeMap<PathBuf, FileSeen>,
    plan: Option<String>,
    shutdown: Option<String>,
    rested: bool,
    ended: Option<(Status, Option<String>)>,
}

impl Conversation {
    /// Returns the messages in the form that a model gets.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the messages for a model request, without copying them. If a step is added while the
    /// request still exists, the messages are copied then.
    #[must_use]
    pub fn share_messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// Returns the agent's prompt and all later instructions of the user.
    #[must_use]
    pub fn prompts(&self) -> &[String] {
        &self.prompts
    }

    /// Returns the tool calls that have no result, in the order of the calls.
    #[must_use]
    pub fn open_calls(&self) -> &[OpenCall] {
        &self.open
    }

    /// Whether the conversation already contains the message with this id.
    #[must_use]
    pub fn holds(&self, id: &MessageId) -> bool {
        self.delivered.contains(id)
    }

    /// Returns the names of the teammates whose end the conversation contains.
    #[must_use]
    pub fn parted(&self) -> &BTreeSet<AgentName> {
        &self.parted
    }

    /// Returns the number of answers of the model.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Returns the fault of the model's last answer, or `None` if that answer has no fault.
    #[must_use]
    pub fn answer_fault(&self) -> Option<AnswerFault> {
        self.fault
    }

    /// Returns all permission updates that were granted in this conversation.
    #[must_use]
    pub fn updates(&self) -> &[Value] {
        &self.updates
    }

    /// Returns the files that the agent has seen. For each file, the version seen last is returned.
    pub fn seen(&self) -> impl Iterator<Item = &FileSeen> {
        self.seen.values()
    }

    /// Returns the request id of the plan for which the lead's answer is still missing.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    /// Returns the id of the last shutdown request if the agent has not refused it.
    #[must_use]
    pub fn shutdown(&self) -> Option<&str> {
        self.shutdown.as_deref()
    }

    /// Whether the last turn ended completely and all notices about its end were sent.
    #[must_use]
    pub fn rested(&self) -> bool {
        self.rested
    }

    /// Returns the final status and the reason if the agent has ended.
    #[must_use]
    pub fn ended(&self) -> Option<&(Status, Option<String>)> {
        self.ended.as_ref()
    }

    /// Whether the next step must be an answer of the model.
    #[must_use]
    pub fn wants_answer(&self) -> bool {
        self.open.is_empty()
            && self.messages.last().is_some_and(|message| message.role == Role::User)
    }

    /// Returns the text of the model's last answer.
    #[must_use]
    pub fn last_text(&self) -> Option<String> {
        let last = self.messages.iter().rev().find(|message| message.role == Role::Assistant)?;
        let texts: Vec<&str> = last.blocks.iter().filter_map(Block::as_text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Adds a step to the conversation. If the conversation already contains the same mail, result
    /// or end of a teammate, the step adds nothing.
    pub fn apply(&mut self, step: &Step) {
        self.rested = matches!(step, Step::Rested);
        self.ended = None;
        match step {
            Step::Told { text } => self.tell(text),
            Step::Instructed { text } => self.instruct(text),
            Step::Mail { ids, text } => {
                let known = self.delivered.len();
                self.delivered.extend(ids.iter().cloned());
                if self.delivered.len() > known && !text.is_empty() {
                    self.tell(text);
                }
            }
            Step::Parted { members, ids, text } => {
                self.delivered.extend(ids.iter().cloned());
                let known = self.parted.len();
                self.parted.extend(members.iter().cloned());
                if self.parted.len() > known && !text.is_empty() {
                    self.tell(text);
                }
            }
            Step::Rejoined { members, text } => {
                // The teammates in `members` work again. When they end later, the lead must be
                // informed again.
                self.parted.retain(|name| !members.contains(name));
                self.tell(text);
            }
            Step::TeamMade => self.parted.clear(),
            Step::Assistant { blocks, usage, fault, .. } => {
                self.fault = *fault;
                self.fill.answered(*usage);
                self.answer(blocks);
            }
            Step::Replaced { call, input } => self.replace(call, input),
            Step::Began { call } => self.reach(call, Reached::Began),
            Step::Asked { call, request } => {
                self.reach(call, Reached::Asked { request: request.clone() })
            }
            Step::Granted { ids, call, grant } => {
                self.delivered.extend(ids.iter().cloned());
                if let Grant::Allowed { updates, .. } = grant {
                    self.updates.extend(updates.iter().cloned());
                }
                self.reach(call, Reached::Granted(grant.clone()));
            }
            Step::Result { call, text, is_error, context, seen } => {
                self.seen.extend(seen.iter().map(|seen| (seen.path.clone(), seen.clone())));
                self.result(call, text, *is_error, context);
            }
            Step::PlanSent { request } => self.plan = Some(request.clone()),
            Step::PlanAnswered { request } => {
                self.plan = self.plan.take().filter(|open| open != request)
            }
            Step::ShutdownAsked { request } => self.shutdown = Some(request.clone()),
            Step::ShutdownRefused => self.shutdown = None,
            Step::Cut { keep } => self.cut(*keep),
            Step::Shortened { most } => self.shorten(*most),
            Step::Compacted { briefing, summary, kept_chars, .. } => {
                self.compact(briefing, summary, *kept_chars)
            }
            Step::NotCompacted { .. } => self.keep_as_it_is(),
            Step::Rested => {}
            Step::Ended { status, reason } => self.ended = Some((*status, reason.clone())),
        }
    }

    /// Returns how many tool results stay complete when old results are removed the next time. This
    /// is half of the results that are still complete. Returns `None` if at most one result is
    /// still complete.
    #[must_use]
    pub fn next_cut(&self) -> Option<usize> {
        let blocks = self.messages.iter().flat_map(|message| &message.blocks);
        let whole = blocks.filter(|block| is_whole_result(block)).count();
        (whole > 1).then_some(whole / 2)
    }

    fn cut(&mut self, keep: usize) {
        let blocks = Arc::make_mut(&mut self.messages)
            .iter_mut()
            .rev()
            .flat_map(|message| message.blocks.iter_mut().rev());
        for block in blocks.filter(|block| is_whole_result(block)).skip(keep) {
            if let Block::ToolResult { content, .. } = block {
                *content = Some(ToolContent::Text(CUT.to_owned()));
            }
        }
    }

    fn answer(&mut self, blocks: &[Block]) {
        self.turns = self.turns.saturating_add(1);
        // A model is called only after all its tool calls have results. If a result is missing, its
        // line in the transcript is damaged. A replacement is needed, because models refuse calls
        // without results.
        for lost in std::mem::take(&mut self.open) {
            self.open.push(lost.clone());
            self.result(&lost.call.id, LOST_RESULT, true, &[]);
        }
        if self.messages.is_empty() && !blocks.is_empty() {
            self.say(Block::text(LOST_BEGINNING));
        }
        for block in blocks {
            if let Block::ToolUse { id, name, input, .. } = block
                && self.open.iter().all(|open| open.call.id != *id)
            {
                // Some models use the same call id twice, also after a compaction. Each call
                // therefore gets a key that no other call has.
                let is_new = self.made.insert(id.clone());
                let key = if is_new { id.clone() } else { format!("{id}#{}", self.turns) };
                let call =
                    ToolCall { id: id.clone(), tool: name.clone(), input: input.clone(), key };
                self.open.push(OpenCall { call, original: None, reached: Reached::Nothing });
            }
        }
        if !blocks.is_empty() {
            let messages = Arc::make_mut(&mut self.messages);
            // The message that was just answered does not grow any more. Free the spare capacity of
            // its list.
            if let Some(answered) = messages.last_mut() {
                answered.blocks.shrink_to_fit();
            }
            messages.push(Message::assistant(blocks.to_vec()));
        }
    }

    fn result(&mut self, call: &str, text: &str, is_error: bool, context: &[String]) {
        // Ignore a result without an open call. Either the call already has a result, or the line
        // with the call is damaged.
        let Some(at) = self.open.iter().position(|open| open.call.id == call) else {
            return;
        };
        self.open.remove(at);
        let block =
            if is_error { Block::tool_error(call, text) } else { Block::tool_result(call, text) };
        // In a user message, the results must come before the texts, because vendors accept no
        // other order.
        let blocks = self.user_blocks();
        let results =
            blocks.iter().take_while(|block| matches!(block, Block::ToolResult { .. })).count();
        blocks.insert(results, block);
        for text in context {
            self.say(Block::text(text));
        }
    }

    fn replace(&mut self, call: &str, input: &Value) {
        if let Some(open) = self.open.iter_mut().find(|open| open.call.id == call) {
            let before = std::mem::replace(&mut open.call.input, input.clone());
            open.original.get_or_insert(before);
        }
    }

    fn reach(&mut self, call: &str, reached: Reached) {
        if let Some(open) = self.open.iter_mut().find(|open| open.call.id == call) {
            open.reached = reached;
        }
    }

    /// Adds a text to the user message. The first text of a conversation is also stored as the
    /// prompt.
    fn tell(&mut self, text: &str) {
        if self.prompts.is_empty() {
            self.prompts.push(text.to_owned());
        }
        self.say(Block::text(text));
    }

    fn instruct(&mut self, text: &str) {
        self.prompts.push(text.to_owned());
        self.say(Block::text(text));
    }

    fn say(&mut self, block: Block) {
        self.user_blocks().push(block);
    }

    /// Returns the blocks of the last message if it is a user message. Otherwise starts a new user
    /// message.
    fn user_blocks(&mut self) -> &mut Vec<Block> {
        let messages = Arc::make_mut(&mut self.messages);
        if messages.last().is_none_or(|message| message.role == Role::Assistant) {
            messages.push(Message::user(Vec::new()));
        }
        let last = messages.len().saturating_sub(1);
        #[expect(clippy::indexing_slicing, reason = "a user message was just made sure of")]
        &mut messages[last].blocks
    }
}

/// The text in place of a tool result that was in an unreadable line of the transcript.
const LOST_RESULT: &str = "[The result was lost with a damaged line of the transcript.]";

/// The text in place of a first message that was in an unreadable line of the transcript.
const LOST_BEGINNING: &str =
    "[The beginning of this conversation was lost with damaged lines of the transcript.]";

/// The text in place of a tool result that was removed to shorten the conversation.
const CUT: &str = "[The result was cut, as the conversation became too long. Make the call again if you need it.]";

fn is_whole_result(block: &Block) -> bool {
    matches!(block, Block::ToolResult { content: Some(content), .. } if content.text().len() > CUT.len())
}

#[cfg(test)]
mod tests;
