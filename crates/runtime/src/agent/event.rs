//! All that can happen to an agent, and all that it can want done: two closed enums.

use std::collections::BTreeSet;

use pitcrew_model::Response;
use pitcrew_protocol::{AgentName, MessageId};
use serde_json::Value;

use super::{Mail, Status};
use crate::gate::PermissionMode;
use crate::tools::Seen;
use crate::transcript::{Grant, Step, ToolCall};

/// What an agent is, for as long as it lives.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: AgentName,
    /// Its part in the team.
    pub role: Role,
    /// How many times its model may be called.
    pub max_turns: Option<u32>,
    /// The tools whose calls change nothing: several of one turn run at the same time.
    pub read_only: BTreeSet<&'static str>,
    /// The tools whose calls may be made a second time, as the team knows them by their key.
    pub repeatable: BTreeSet<&'static str>,
}

/// The part an agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Leads the team.
    Lead,
    /// Works on the team.
    Teammate,
    /// Works for one call of another agent: it has no inbox, and ends with its first turn.
    Subagent,
}

/// Something that happened to an agent.
#[derive(Clone, Debug)]
pub enum Event {
    /// It begins, with its prompt.
    Started {
        /// What it is to do.
        prompt: String,
    },
    /// It goes on from its transcript.
    Resumed,
    /// There may be mail in its inbox.
    MailWaiting,
    /// Its inbox was read: everything that was not marked read.
    MailArrived(Vec<Mail>),
    /// It is to know something; an idle agent starts a turn.
    Told {
        /// The text.
        text: String,
        /// The mail that was referred to the crew and is answered by this; none for what is no mail.
        ids: Vec<MessageId>,
    },
    /// Mail that was referred to the crew is dealt with, and there is nothing to know.
    Settled(Vec<MessageId>),
    /// It is to look at what it put aside, as nobody else is working any more. It starts a turn, or announces once more
    /// that it is idle.
    Wake,
    /// Its model answered.
    ModelFinished {
        /// The answer.
        response: Response,
        /// What it cost, where that is known.
        cost_usd: Option<f64>,
    },
    /// Its model could not be reached, or declined for good.
    ModelFailed {
        /// Why.
        reason: String,
        /// What kind of failure it is.
        failure: ModelFailure,
    },
    /// Hooks and the gate looked at a call.
    Judged {
        /// The call.
        call: String,
        /// What they say.
        judgement: Judgement,
        /// What the hooks want the model to read beside the call's result.
        context: Vec<String>,
    },
    /// A question for permission is in the lead's inbox.
    PermissionAsked {
        /// The call.
        call: String,
        /// The id of the request.
        request: String,
    },
    /// A permission was answered without mail.
    Answered {
        /// The call.
        call: String,
        /// The answer.
        grant: Grant,
    },
    /// A call of a tool ended.
    ToolFinished {
        /// The call.
        call: String,
        /// What came of it.
        ending: Ending,
    },
    /// What a call that a crash interrupted left behind.
    Inspected {
        /// The call.
        call: String,
        /// What was found.
        inspection: Inspection,
    },
    /// The hooks for the end of a turn ran.
    HookAnswered {
        /// What they want done before the turn may end.
        keep_going: Option<String>,
    },
    /// Its permission mode was changed from outside.
    ModeChanged(PermissionMode),
    /// It is to end at the next boundary.
    StopAsked {
        /// Why.
        reason: String,
    },
    /// Somebody ended it.
    Killed {
        /// Who, or why.
        reason: String,
    },
    /// An effect could not be carried out; those after it were not.
    Broken {
        /// Why.
        reason: String,
    },
}

/// How a model can fail for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// The conversation is longer than the model can read; a shorter one would do.
    TooLong,
    /// Anything else.
    Other,
}

/// What hooks and the gate say of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It may run, with this input where it differs.
    Allow {
        /// The input to use instead.
        input: Option<Value>,
    },
    /// It may not.
    Deny {
        /// Why, for the model to read.
        reason: String,
    },
    /// Somebody is to be asked.
    Ask(Question),
}

/// What somebody is asked about a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What the call would do, in a few words.
    pub description: String,
    /// Permission updates that would answer this and the like, in the wire's form.
    pub suggestions: Vec<Value>,
}

/// What came of a call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// What the model reads.
    pub text: String,
    /// What programs read.
    pub data: Value,
    /// Whether it failed.
    pub is_error: bool,
    /// What hooks add.
    pub context: Vec<String>,
    /// The files the agent has seen by it.
    pub seen: Vec<Seen>,
}

/// What a call that a crash interrupted left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// All of it was done; this is its result.
    Done {
        /// What the model reads.
        text: String,
        /// The file, as it is.
        seen: Vec<Seen>,
    },
    /// Nothing of it was done.
    Undone,
    /// That cannot be told.
    Unknown,
}

/// Something an agent wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write steps to the transcript, durably.
    Append(Vec<Step>),
    /// Note in the journal that messages were delivered, then mark them read.
    Acknowledge(Vec<MessageId>),
    /// Read the inbox; answered by [`Event::MailArrived`].
    TakeMail,
    /// Call the model with the conversation; answered by [`Event::ModelFinished`] or [`Event::ModelFailed`].
    CallModel,
    /// Ask the hooks and the gate; answered by [`Event::Judged`].
    Judge(Judging),
    /// Ask for a permission; answered by [`Event::PermissionAsked`] and mail, or by [`Event::Answered`].
    AskPermission {
        /// The call.
        call: ToolCall,
        /// What is asked about it.
        question: Question,
    },
    /// Run a call; answered by [`Event::ToolFinished`].
    Run(ToolCall),
    /// Tell everyone what came of a call.
    Report(ToolCall, Ending),
    /// Look what an interrupted call left behind; answered by [`Event::Inspected`].
    Inspect(ToolCall),
    /// Run the hooks for the end of a turn; answered by [`Event::HookAnswered`].
    EndTurn(TurnEnd),
    /// Tell the lead that this teammate is idle.
    SendIdle(IdleReport),
    /// Make a mode the agent's own, in the config.
    SetMode(PermissionMode),
    /// Apply permission updates to the agent's gate; a mode among them comes back as [`Event::ModeChanged`].
    Permit(Vec<Value>),
    /// Let the crew act on a frame. It stays unread until [`Event::Told`] or [`Event::Settled`] names it, so that after a
    /// crash it is referred again.
    Refer(Mail),
    /// Tell everyone the state.
    Announce(Status),
    /// The agent has used all its model calls.
    ReportLimit,
    /// Nothing follows.
    End {
        /// How it ended.
        status: Status,
        /// Why, where that is not plain.
        reason: Option<String>,
        /// The last word.
        text: Option<String>,
    },
}

/// A call that hooks and the gate are to look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Judging {
    /// The call.
    pub call: ToolCall,
    /// The mode it is to be judged by.
    pub mode: PermissionMode,
}

/// A turn that is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// What the model said last.
    pub text: Option<String>,
}

/// What the lead is told of an idle teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleReport {
    /// Why the teammate cannot go on, if it cannot.
    pub failure: Option<String>,
    /// The turn's last text, so that a report is not lost when nobody sent it.
    pub result: Option<String>,
}

/// What is to be done, in order.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "effects do nothing until a driver carries them out"]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Adds one at the end.
    pub(super) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    /// Puts one before all others.
    pub(super) fn push_first(&mut self, effect: Effect) {
        self.0.insert(0, effect);
    }
}

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::vec::IntoIter<Effect>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
