//! Defines all events that can happen to an agent ([`Event`]), and all effects that an agent can
//! ask for ([`Effect`]).

use std::time::Duration;

use pitcrew_model::{Response, Usage};
use pitcrew_protocol::SandboxProfile;
use pitcrew_protocol::{AgentName, CallEffect, MessageId, PermissionMode, Status, ToolSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Mail;
use crate::FileSeen;
use crate::transcript::{AnswerFault, Grant, Step, ToolCall};

/// The properties of an agent. Only the limits of the context window can change, together with the
/// agent's model.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The agent's name.
    pub name: AgentName,
    /// The agent's role in the team.
    pub role: Role,
    /// Maximum number of model calls. `None` means no limit.
    pub max_turns: Option<u32>,
    /// The agent's tools, with their traits.
    pub tools: ToolSet,
    /// The limits of the context window of the agent's model.
    pub context: ContextBound,
}

/// The limits of a model's context window, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBound {
    /// The size of the whole context window.
    pub window: u64,
    /// The number of tokens above which the conversation is compacted.
    pub compact_above: u64,
}

impl ContextBound {
    /// The default share of the context window that a conversation is allowed to fill. The rest is
    /// for an answer, for new tool results, and for the call that makes the summary.
    pub const SHARE_PERCENT: u64 = 85;

    /// Returns the limits for a context window of this size.
    #[must_use]
    pub fn of(window: u64, share_percent: u64) -> Self {
        Self {
            window,
            compact_above: window / 100 * share_percent + window % 100 * share_percent / 100,
        }
    }
}

/// The role of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The lead of the team.
    Lead,
    /// A teammate.
    Teammate,
    /// A subagent, which works for one tool call of another agent. A subagent has no inbox, and it
    /// ends after its first turn.
    Subagent,
}

/// An event that happens to an agent.
#[derive(Clone, Debug)]
pub enum Event {
    /// The agent starts with a prompt.
    Started {
        /// The text of the prompt.
        prompt: String,
    },
    /// The agent resumes from its transcript. If the transcript is empty, the agent starts by
    /// reading its inbox.
    Resumed,
    /// The shutdown request in the conversation is no longer valid. The agent continues its work.
    ShutdownWithdrawn {
        /// The text for the model about the withdrawn request.
        text: String,
    },
    /// The inbox possibly contains new mail.
    MailWaiting,
    /// The inbox was read. The event contains all unread messages.
    MailArrived(Vec<Mail>),
    /// A text for the model has arrived. If the agent is idle, it starts a turn.
    Told {
        /// The text for the model.
        text: String,
    },
    /// Teammates of this lead have ended. The lead gets this event only once for each end.
    Parted {
        /// The names of the teammates that ended.
        members: Vec<AgentName>,
        /// The ids of the messages in which the teammates approved their shutdown. The lead has
        /// already passed these messages to the loop that runs the team. When the lead handles this
        /// event, it records the messages as delivered.
        ids: Vec<MessageId>,
        /// The text for the model about the end of the teammates.
        text: String,
    },
    /// The lead was told that some teammates had ended, but these teammates continue. Their failure
    /// could not be recorded in the team's files, and so they were started again.
    Rejoined {
        /// The names of the teammates that continue.
        members: Vec<AgentName>,
        /// The text for the model about the teammates that continue.
        text: String,
    },
    /// The lead deleted its team and has created another one.
    TeamMade,
    /// The user gave a further instruction. If the agent is idle, it starts a turn.
    Instructed {
        /// The text of the instruction.
        text: String,
    },
    /// The loop that runs the team has handled mail that the agent passed to it. The agent's model
    /// need not read this mail.
    Settled(Vec<MessageId>),
    /// All other agents are idle. The agent must therefore look at all its waiting mail, also at
    /// mail that does not start a turn by itself. If there is mail, the agent starts a turn.
    /// Otherwise it reports again that it is idle.
    Wake,
    /// The model answered.
    ModelFinished {
        /// The model's answer.
        response: Response,
        /// The cost of the model call, if it is known.
        cost_usd: Option<f64>,
    },
    /// The model could not be reached, or it refused the call and a retry would not help.
    ModelFailed {
        /// The reason for the failure.
        reason: String,
        /// The kind of failure.
        failure: ModelFailure,
    },
    /// The model wrote a summary of the conversation.
    Summarised(Summary),
    /// The hooks and the permission gate have decided about a tool call.
    Judged {
        /// The id of the tool call.
        call: String,
        /// The input that a hook puts in the place of the original one, if a hook does so. The
        /// judgement is about this input.
        replaced: Option<Value>,
        /// The decision about the tool call.
        judgement: Judgement,
        /// Texts from the hooks. The model gets them together with the result of the tool call.
        context: Vec<String>,
    },
    /// A permission request was written to the lead's inbox.
    PermissionAsked {
        /// The id of the tool call that needs the permission.
        call: String,
        /// The id of the permission request.
        request: String,
    },
    /// A permission request got an answer that is not a message in the inbox. For example, a person
    /// answered at the agent's own terminal, or the lead could not be asked and the request counts
    /// as refused.
    Answered {
        /// The id of the tool call that needs the permission.
        call: String,
        /// The answer to the permission request.
        grant: Grant,
    },
    /// A tool call ended.
    ToolFinished {
        /// The id of the tool call.
        call: String,
        /// The result of the tool call.
        ending: Ending,
    },
    /// The effects of a tool call that a crash had interrupted were inspected.
    Inspected {
        /// The id of the tool call.
        call: String,
        /// The result of the inspection.
        inspection: Inspection,
    },
    /// The hooks for the end of a turn have run.
    HookAnswered {
        /// The text with which a hook asks the agent to continue the turn, if there is one.
        keep_going: Option<String>,
    },
    /// The agent's permission mode was changed from outside.
    ModeChanged(PermissionMode),
    /// The agent calls another model from its next call on, with these limits of its window.
    ModelChanged(ContextBound),
    /// A person asked for a compaction of the conversation.
    CompactionAsked,
    /// A person interrupted the agent's turn.
    Interrupted,
    /// The team has lost its lead. The agent ends its turn, and then reads no mail until the team
    /// has a lead again.
    Parked,
    /// The team has a lead again after it had none.
    Unparked,
    /// The run is being stopped. The agent's current work is cancelled, and can be resumed later.
    /// The agent still reads its inbox. It passes mail that is not for its model to the loop that
    /// runs the team.
    Held,
    /// The agent must end before it makes the next step of its turn.
    StopAsked {
        /// The reason why the agent must end.
        reason: String,
    },
    /// The agent was ended from outside.
    Killed {
        /// The reason why the agent was ended, or who ended it.
        reason: String,
    },
    /// The driver could not carry out an effect. It did not carry out the effects after it either.
    Broken {
        /// The reason for the failure.
        reason: String,
    },
}

impl Event {
    /// Whether the agent handles this event while its run is being stopped. During that time, the
    /// agent handles only mail, the ids of mail that the loop of the team has handled, and its own
    /// end.
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
            | Self::ModelChanged(_)
            | Self::CompactionAsked
            | Self::Interrupted
            | Self::Parked
            | Self::Unparked
            | Self::Held
            | Self::StopAsked { .. } => false,
        }
    }
}

/// The content that replaces a conversation at a compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// A description of the team, the agent, the agent's task and its open permission requests.
    pub briefing: String,
    /// The model's summary, with escaped tags, as it is written to the transcript. `None` if the
    /// model wrote no summary.
    pub text: Option<String>,
    /// The tokens of all model calls for this summary, including the calls that returned an empty
    /// summary.
    pub usage: Usage,
    /// The cost of all model calls for this summary. A cost that is not known counts as zero.
    /// `None` if no cost is known.
    pub cost_usd: Option<f64>,
}

/// The kind of a failure after which the model call is not retried at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// The conversation is longer than the model can read. A shorter conversation can succeed.
    TooLong,
    /// The model was unavailable for longer than a call is allowed to wait. The same call can
    /// succeed later.
    Unavailable {
        /// The time after which the vendor allows a new attempt, if the vendor gave one.
        retry_after: Option<Duration>,
    },
    /// Any other kind of failure.
    Other,
}

/// The decision of the hooks and the permission gate about a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// The call is allowed to run.
    Allow {
        /// The sandbox profile of the call. It matters only if the call runs a command.
        profile: SandboxProfile,
    },
    /// The call is not allowed to run.
    Deny {
        /// The reason for the refusal, as text for the model.
        reason: String,
    },
    /// The call needs a permission first.
    Ask(Question),
}

/// A permission request about a tool call, as a person or the lead sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// A short description of what the call would do.
    pub description: String,
    /// The permission updates, in the wire format, that the answer can include. They would allow
    /// this call and similar calls in the future.
    pub suggestions: Vec<Value>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The result as text for the model.
    pub text: String,
    /// The result as data for programs.
    pub data: Value,
    /// Whether the call failed.
    pub is_error: bool,
    /// Texts from hooks, which the model gets together with the result.
    pub context: Vec<String>,
    /// The files whose content the agent has learned through this call.
    pub seen: Vec<FileSeen>,
}

/// The result of inspecting the effects of a call that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// The call was completed before the crash.
    Done {
        /// The result as text for the model.
        text: String,
        /// The current state of the files that the call changed.
        seen: Vec<FileSeen>,
    },
    /// The call had no effect before the crash.
    Undone,
    /// It cannot be determined whether the call had an effect.
    Unknown,
}

/// An action that an agent asks its driver (the code that carries out effects) to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write steps durably to the transcript. The driver can delay this, but only until an effect
    /// that waits for the steps ([`Effect::waits_for`]).
    Append(Vec<Step>),
    /// Record in the journal that messages were delivered, and then mark the messages as read.
    /// Later effects do not wait for the read marks, except those with [`Wait::Marked`].
    Acknowledge(Vec<MessageId>),
    /// Read the inbox. The answer is [`Event::MailArrived`].
    TakeMail,
    /// Call the model with the conversation. The answer is [`Event::ModelFinished`] or
    /// [`Event::ModelFailed`].
    CallModel,
    /// Ask the model to summarise the conversation. The answer is [`Event::Summarised`] or
    /// [`Event::ModelFailed`].
    Compact {
        /// Maximum number of characters of the conversation that the model gets. `None` means the
        /// whole conversation.
        most: Option<usize>,
    },
    /// Report the result of a compaction.
    ReportCompaction(Compaction),
    /// Ask the hooks and the permission gate about a tool call. The answer is [`Event::Judged`].
    Judge(Judging),
    /// Ask for a permission. If the request was written to the lead's inbox,
    /// [`Event::PermissionAsked`] follows, and later the lead's answer as mail. If a person answers
    /// at the agent's own terminal, or if the lead cannot be asked, [`Event::Answered`] follows.
    /// Both events can follow for one request.
    AskPermission {
        /// The tool call that needs the permission.
        call: ToolCall,
        /// The description of the call for the person or lead that decides.
        question: Question,
    },
    /// A permission request to the lead has been answered. Inform all others who got the same
    /// request.
    Settle(Settlement),
    /// Run a tool call with a sandbox profile. [`CallEffect`] is the effect of the call on this
    /// agent. The answer is [`Event::ToolFinished`].
    Run(ToolCall, SandboxProfile, CallEffect),
    /// Cancel the running model call, tool calls and hooks. After that, no event brings their
    /// results.
    CutOff,
    /// Report the result of a tool call.
    Report(ToolCall, Ending),
    /// Inspect the effects of a tool call that a crash interrupted. The answer is
    /// [`Event::Inspected`].
    Inspect(ToolCall),
    /// Run the hooks for the end of a turn. The answer is [`Event::HookAnswered`].
    EndTurn(TurnEnd),
    /// Send the lead a notice that this teammate is idle.
    SendIdle(IdleReport),
    /// Store this permission mode as the agent's mode in the team's config.
    SetMode(PermissionMode),
    /// Stop the agent's background commands, because the agent enters plan mode and must change
    /// nothing.
    StopCommands,
    /// Apply permission updates to the agent's permission gate. If an update changes the mode, the
    /// new mode returns as [`Event::ModeChanged`].
    Permit(Vec<Value>),
    /// Pass the message to the loop that runs the team. The loop handles the protocol frame in the
    /// message. The message stays unread until [`Event::Parted`] or [`Event::Settled`] names it.
    /// After a crash, the loop therefore gets the message again.
    Refer(Mail),
    /// Report the agent's new state.
    Announce(Status),
    /// Report that the agent has reached its maximum number of model calls.
    ReportLimit,
    /// Stop the agent for this run, because the model is unavailable. The next run continues from
    /// this point.
    Park {
        /// The reason why the model is unavailable.
        reason: String,
        /// The time after which the vendor allows a new attempt, if the vendor gave one.
        retry_after: Option<Duration>,
    },
    /// End the agent.
    End {
        /// The agent's final state.
        status: Status,
        /// The reason for the end, if the final state does not explain it.
        reason: Option<String>,
        /// The last text that the agent's model wrote.
        text: Option<String>,
    },
}

/// The data that must be on disk before an effect is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// No data. Only the agent sees the result of the effect, and after a crash the agent asks for
    /// the effect again.
    Nothing,
    /// All steps before the effect.
    Written,
    /// All steps before the effect, and the read marks of all mail delivered before it.
    Marked,
}

impl Effect {
    /// Returns which data must be on disk before this effect. A model call and the reading of mail
    /// need not wait for earlier steps: their results are written after these steps, or not at all.
    /// Effects that others can see wait for the steps.
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
            // When a team is deleted, its mail is archived. Delivered mail must be marked as read
            // before that, or it would be archived as unread.
            Self::Run(_, _, CallEffect::EndsTeam) => Wait::Marked,
            // Unread mail of an ended agent counts as undelivered. The delivered mail must
            // therefore be marked as read before the agent ends, becomes idle or parks.
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

/// The result of a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// The number of tokens in the conversation before the compaction.
    pub tokens_before: u64,
    /// The estimated number of tokens after the compaction. Equal to `tokens_before` if the summary
    /// was not used.
    pub tokens_after: u64,
    /// The tokens of all model calls for this summary, including the calls that returned an empty
    /// summary.
    pub usage: Usage,
    /// The cost of all model calls for this summary. A cost that is not known counts as zero.
    /// `None` if no cost is known.
    pub cost_usd: Option<f64>,
}

/// A tool call about which the hooks and the permission gate must decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Judging {
    /// The tool call.
    pub call: ToolCall,
    /// The permission mode in which the gate decides.
    pub mode: PermissionMode,
}

/// A turn that is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The model's last text.
    pub text: Option<String>,
}

/// A permission request that has been answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The id of the tool call that needed the permission.
    pub call: String,
    /// The id of the permission request.
    pub request: String,
    /// Who answered the permission request.
    pub by: Answerer,
    /// The reason for a refusal. `None` if the call was allowed.
    pub refused: Option<String>,
}

/// Who answered a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The lead answered by a message.
    Lead,
    /// A person answered at the agent's own terminal. The lead does not know this answer yet.
    Here,
}

/// The reason why a teammate is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleCause {
    /// The agent's turn has ended normally.
    TurnOver,
    /// A person interrupted the agent's turn.
    Interrupted,
    /// The agent cannot continue. The text is the reason.
    Failed(String),
    /// The turn ended, but its last answer has this fault.
    BadAnswer(AnswerFault),
}

/// A report to the lead about an idle teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleReport {
    /// The reason why the teammate is idle.
    pub cause: IdleCause,
    /// The last text of the turn. A teammate sometimes does not send its result in a message. The
    /// result is then still in this text.
    pub result: Option<String>,
}

/// The effects to carry out, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "effects do nothing until a driver carries them out"]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Adds an effect at the end of the list.
    pub(super) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    /// Adds an effect at the beginning of the list.
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
