//! All that can happen to an agent, and all that it can want done: two closed enums.

use std::time::Duration;

use pitcrew_model::{Response, Usage};
use pitcrew_protocol::{AgentName, CallEffect, MessageId, PermissionMode, Status, ToolSet};
use serde_json::Value;

use super::Mail;
use crate::FileSeen;
use crate::transcript::{AnswerFault, Grant, Step, ToolCall};
use pitcrew_protocol::SandboxProfile;

/// What an agent is, for as long as it lives.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: AgentName,
    /// Its part in the team.
    pub role: Role,
    /// How many times its model may be called.
    pub max_turns: Option<u32>,
    /// Its tools: what their calls mean, and which of them may run side by side or be made again.
    pub tools: ToolSet,
    /// How much its model can read.
    pub context: ContextBound,
}

/// How much a model can read, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBound {
    /// All it can read.
    pub window: u64,
    /// What may be filled before the conversation is compacted.
    pub compact_above: u64,
}

impl ContextBound {
    /// The share of the window that may be filled unless the settings say otherwise. What is left takes an answer, results
    /// of tools that came since, and the call for the summary.
    pub const SHARE_PERCENT: u64 = 85;

    /// The bound for a window.
    #[must_use]
    pub fn of(window: u64, share_percent: u64) -> Self {
        Self {
            window,
            compact_above: window / 100 * share_percent + window % 100 * share_percent / 100,
        }
    }
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
    /// It goes on from its transcript; without one it begins with what is in its inbox.
    Resumed,
    /// The request to shut down in its conversation is void; it goes on with its work.
    ShutdownWithdrawn {
        /// What it is told of that.
        text: String,
    },
    /// There may be mail in its inbox.
    MailWaiting,
    /// Its inbox was read: everything that was not marked read.
    MailArrived(Vec<Mail>),
    /// It is to know something; an idle agent starts a turn.
    Told {
        /// The text.
        text: String,
    },
    /// Teammates of the lead have ended; it is told of each once.
    Parted {
        /// Who.
        members: Vec<AgentName>,
        /// The goodbyes that were referred to the crew and are answered by this.
        ids: Vec<MessageId>,
        /// What it is to know.
        text: String,
    },
    /// Teammates go on whose end the lead was told: their failure could not be put into the team's files.
    Rejoined {
        /// Those who go on.
        members: Vec<AgentName>,
        /// What the model is to read.
        text: String,
    },
    /// The lead has made another team, after it deleted one.
    TeamMade,
    /// It is given more to do, by the user; an idle agent starts a turn.
    Instructed {
        /// What.
        text: String,
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
    /// Its model summed the conversation up.
    Summarised(Summary),
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
    /// A person cut its turn off.
    Interrupted,
    /// Nobody leads it for now: it ends its turn, takes no mail and waits.
    Parked,
    /// It is led again.
    Unparked,
    /// Its run is being stopped: what it does is dropped where it is, to be gone on with another time. It still takes mail, of
    /// which it refers what is not for its model.
    Held,
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

impl Event {
    /// Whether an agent takes notice of it while it is held: of its mail, of what is settled, and of its end.
    pub(super) fn is_heard_when_held(&self) -> bool {
        match self {
            Self::MailWaiting
            | Self::MailArrived(_)
            | Self::Settled(_)
            | Self::Killed { .. }
            | Self::Broken { .. } => true,
            Self::Started { .. }
            | Self::Resumed
            | Self::ShutdownWithdrawn { .. }
            | Self::Told { .. }
            | Self::Parted { .. }
            | Self::Rejoined { .. }
            | Self::TeamMade
            | Self::Instructed { .. }
            | Self::Wake
            | Self::ModelFinished { .. }
            | Self::Summarised(_)
            | Self::ModelFailed { .. }
            | Self::Judged { .. }
            | Self::PermissionAsked { .. }
            | Self::Answered { .. }
            | Self::ToolFinished { .. }
            | Self::Inspected { .. }
            | Self::HookAnswered { .. }
            | Self::ModeChanged(_)
            | Self::Interrupted
            | Self::Parked
            | Self::Unparked
            | Self::Held
            | Self::StopAsked { .. } => false,
        }
    }
}

/// What is to take the place of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What the team is, who the agent is, its task and what waits for an answer.
    pub briefing: String,
    /// What the model wrote, as the conversation is to hold it; none when it wrote nothing.
    pub text: Option<String>,
    /// What the call used.
    pub usage: Usage,
    /// What it cost, where that is known.
    pub cost_usd: Option<f64>,
}

/// How a model can fail for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// The conversation is longer than the model can read; a shorter one would do.
    TooLong,
    /// It was unavailable for longer than a call may wait; the same call may succeed later.
    Unavailable {
        /// How long its vendor asks to wait.
        retry_after: Option<Duration>,
    },
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
        /// What it can do, if it is a command.
        profile: SandboxProfile,
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
    pub seen: Vec<FileSeen>,
}

/// What a call that a crash interrupted left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// All of it was done; this is its result.
    Done {
        /// What the model reads.
        text: String,
        /// The file, as it is.
        seen: Vec<FileSeen>,
    },
    /// Nothing of it was done.
    Undone,
    /// That cannot be told.
    Unknown,
}

/// Something an agent wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write steps to the transcript, durably: at the latest when an effect comes that waits for it ([`Effect::waits_for`]).
    Append(Vec<Step>),
    /// Note in the journal that messages were delivered, then mark them read, beside what comes next.
    Acknowledge(Vec<MessageId>),
    /// Read the inbox; answered by [`Event::MailArrived`].
    TakeMail,
    /// Call the model with the conversation; answered by [`Event::ModelFinished`] or [`Event::ModelFailed`].
    CallModel,
    /// Have the model sum the conversation up; answered by [`Event::Summarised`] or [`Event::ModelFailed`].
    Compact {
        /// How many characters of the conversation are shown to it; all when absent.
        most: Option<usize>,
    },
    /// Tell everyone what came of a compaction.
    ReportCompaction(Compaction),
    /// Ask the hooks and the gate; answered by [`Event::Judged`].
    Judge(Judging),
    /// Ask for a permission; answered by [`Event::PermissionAsked`] and mail, or by [`Event::Answered`], or by both.
    AskPermission {
        /// The call.
        call: ToolCall,
        /// What is asked about it.
        question: Question,
    },
    /// A question for permission that lay with the lead has its answer: whoever else was asked is to know.
    Settle(Settlement),
    /// Run a call, which means this to the agent; answered by [`Event::ToolFinished`].
    Run(ToolCall, SandboxProfile, CallEffect),
    /// Drop what runs: the model's answer, calls of tools, hooks. Nothing of it is answered any more.
    CutOff,
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
    /// Stop the agent's background commands, which may change things, as it is to change nothing from now on.
    StopCommands,
    /// Apply permission updates to the agent's gate; a mode among them comes back as [`Event::ModeChanged`].
    Permit(Vec<Value>),
    /// Let the crew act on a frame. It stays unread until [`Event::Parted`] or [`Event::Settled`] names it, so that after a
    /// crash it is referred again.
    Refer(Mail),
    /// Tell everyone the state.
    Announce(Status),
    /// The agent has used all its model calls.
    ReportLimit,
    /// Nothing follows in this run, as the model is unavailable; the next run goes on from here.
    Park {
        /// Why.
        reason: String,
        /// How long the model's vendor asks to wait.
        retry_after: Option<Duration>,
    },
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

/// What must be on disk before an effect is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// Nothing: nobody but the agent sees anything of it, and after a crash it comes again.
    Nothing,
    /// Every step before it.
    Written,
    /// Every step before it, and that the mail delivered before it is read.
    Marked,
}

impl Effect {
    /// What must be on disk before it. An agent may think and read ahead of its transcript, for what comes of that is
    /// written after the steps it came from, or not at all; what it does and says waits for them.
    #[must_use]
    pub fn waits_for(&self) -> Wait {
        match self {
            Self::Append(_)
            | Self::TakeMail
            | Self::CallModel
            | Self::Compact { .. }
            | Self::CutOff
            | Self::Inspect(_)
            | Self::Permit(_) => Wait::Nothing,
            // What is unread is archived with the team.
            Self::Run(_, _, CallEffect::EndsTeam) => Wait::Marked,
            // What is unread when an agent ends is dead, and one that rests has no mail that it took.
            Self::SendIdle(_) | Self::Park { .. } | Self::End { .. } => Wait::Marked,
            Self::Announce(
                Status::Pending
                | Status::Idle
                | Status::AwaitingPlanApproval
                | Status::Parked
                | Status::Completed
                | Status::Failed
                | Status::Killed,
            ) => Wait::Marked,
            Self::Announce(Status::Active | Status::ShutdownRequested)
            | Self::Acknowledge(_)
            | Self::ReportCompaction(_)
            | Self::Judge(_)
            | Self::AskPermission { .. }
            | Self::Settle(_)
            | Self::Run(..)
            | Self::Report(..)
            | Self::EndTurn(_)
            | Self::SetMode(_)
            | Self::StopCommands
            | Self::Refer(_)
            | Self::ReportLimit => Wait::Written,
        }
    }
}

/// What came of a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// What the conversation filled before, in tokens.
    pub tokens_before: u64,
    /// What it fills now, about; as much as before when the summary was of no use.
    pub tokens_after: u64,
    /// What the call for the summary used.
    pub usage: Usage,
    /// What it cost, where that is known.
    pub cost_usd: Option<f64>,
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

/// A question for permission that has its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The call.
    pub call: String,
    /// The id of the request.
    pub request: String,
    /// Who answered.
    pub by: Answerer,
    /// The reason of a refusal.
    pub refused: Option<String>,
}

/// Who answered a question for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The lead, by mail.
    Lead,
    /// Somebody beside the agent; the lead does not know of it.
    Here,
}

/// Why a teammate is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleCause {
    /// Its turn is over.
    TurnOver,
    /// A person cut its turn off.
    Interrupted,
    /// It cannot go on, for this reason.
    Failed(String),
    /// Its turn is over with an answer that has this fault.
    BadAnswer(AnswerFault),
}

/// What the lead is told of an idle teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleReport {
    /// Why it is idle.
    pub cause: IdleCause,
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
