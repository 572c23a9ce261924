//! Two closed enums: all events that can happen to an agent, and all effects that it can ask for.

use std::time::Duration;

use pitcrew_model::{Response, Usage};
use pitcrew_protocol::SandboxProfile;
use pitcrew_protocol::{AgentName, CallEffect, MessageId, PermissionMode, Status, ToolSet};
use serde_json::Value;

use super::Mail;
use crate::FileSeen;
use crate::transcript::{AnswerFault, Grant, Step, ToolCall};

/// The fixed properties of an agent.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The agent's name.
    pub name: AgentName,
    /// The agent's role in the team.
    pub role: Role,
    /// Maximum number of model calls.
    pub max_turns: Option<u32>,
    /// The agent's tools, with their traits.
    pub tools: ToolSet,
    /// The context limits of the agent's model.
    pub context: ContextBound,
}

/// The context limits of a model, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBound {
    /// The whole context window.
    pub window: u64,
    /// Fill level above which the conversation is compacted.
    pub compact_above: u64,
}

impl ContextBound {
    /// Default share of the window that may be filled. The rest is for an answer, for tool results
    /// that arrived since, and for the summary call.
    pub const SHARE_PERCENT: u64 = 85;

    /// Returns the limits for a window.
    #[must_use]
    pub fn of(window: u64, share_percent: u64) -> Self {
        Self {
            window,
            compact_above: window / 100 * share_percent + window % 100 * share_percent / 100,
        }
    }
}

/// The role of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The lead of the team.
    Lead,
    /// A teammate.
    Teammate,
    /// A subagent, which works for one call of another agent. It has no inbox, and ends with its
    /// first turn.
    Subagent,
}

/// An event for an agent.
#[derive(Clone, Debug)]
pub enum Event {
    /// The agent starts with its prompt.
    Started {
        /// The prompt.
        prompt: String,
    },
    /// The agent resumes from its transcript. Without a transcript it begins with its inbox.
    Resumed,
    /// The shutdown request in the conversation is void. The agent continues its work.
    ShutdownWithdrawn {
        /// The text that tells the model about the withdrawal.
        text: String,
    },
    /// There may be mail in the inbox.
    MailWaiting,
    /// The inbox was read. Carries all unread messages.
    MailArrived(Vec<Mail>),
    /// A text for the model. An idle agent starts a turn.
    Told {
        /// The text.
        text: String,
    },
    /// Teammates of the lead have ended. The lead learns of each end once.
    Parted {
        /// The teammates that ended.
        members: Vec<AgentName>,
        /// The ids of the shutdown approvals that this event settles. The agent had passed them to
        /// the team's loop.
        ids: Vec<MessageId>,
        /// The text that tells the model about the end of the teammates.
        text: String,
    },
    /// Teammates whose end was reported to the lead still continue, because their failure could not
    /// be recorded in the team's files.
    Rejoined {
        /// The teammates that continue.
        members: Vec<AgentName>,
        /// The text that tells the model that the teammates continue.
        text: String,
    },
    /// The lead has created another team after deleting one.
    TeamMade,
    /// A further instruction of the user. An idle agent starts a turn.
    Instructed {
        /// The instruction.
        text: String,
    },
    /// The team's loop has handled mail that the agent passed to it. The model need not know of
    /// this mail.
    Settled(Vec<MessageId>),
    /// The agent must look at mail that does not start a turn, because all other agents are idle.
    /// The agent starts a turn, or reports idle again.
    Wake,
    /// The model answered.
    ModelFinished {
        /// The answer.
        response: Response,
        /// The cost of the call, if known.
        cost_usd: Option<f64>,
    },
    /// The model could not be reached, or refused for good.
    ModelFailed {
        /// The reason.
        reason: String,
        /// The kind of failure.
        failure: ModelFailure,
    },
    /// The model summarised the conversation.
    Summarised(Summary),
    /// Hooks and the permission gate have judged a call.
    Judged {
        /// The id of the call.
        call: String,
        /// The judgement.
        judgement: Judgement,
        /// Texts of the hooks for the model, beside the call's result.
        context: Vec<String>,
    },
    /// A permission question was sent to the lead's inbox.
    PermissionAsked {
        /// The id of the call.
        call: String,
        /// The id of the request.
        request: String,
    },
    /// A permission question was answered without mail.
    Answered {
        /// The id of the call.
        call: String,
        /// The answer.
        grant: Grant,
    },
    /// A tool call ended.
    ToolFinished {
        /// The id of the call.
        call: String,
        /// The result of the call.
        ending: Ending,
    },
    /// The effects of a call that a crash interrupted were inspected.
    Inspected {
        /// The id of the call.
        call: String,
        /// The result of the inspection.
        inspection: Inspection,
    },
    /// The hooks for the end of a turn ran.
    HookAnswered {
        /// The hooks' request to continue the turn, if any.
        keep_going: Option<String>,
    },
    /// The agent's permission mode was changed from outside.
    ModeChanged(PermissionMode),
    /// A person interrupted the turn.
    Interrupted,
    /// The team has no lead at the moment. The agent ends its turn, takes no mail and waits.
    Parked,
    /// The team has a lead again.
    Unparked,
    /// The run is being stopped. The agent's current work is cancelled and can be resumed later.
    /// The agent still reads its inbox, and passes mail that is not for its model to the team's
    /// loop.
    Held,
    /// The agent must end before the next step of its turn.
    StopAsked {
        /// The reason.
        reason: String,
    },
    /// The agent was ended from outside.
    Killed {
        /// The reason for the end, or the party that ended the agent.
        reason: String,
    },
    /// An effect failed. The effects after it were not carried out.
    Broken {
        /// The reason.
        reason: String,
    },
}

impl Event {
    /// Whether the agent handles this event while its run is being stopped. It then handles only
    /// mail, settled mail and its end.
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

/// The content that replaces a conversation after compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// A description of the team, the agent, its task and its open questions.
    pub briefing: String,
    /// The model's summary in its stored form, or `None` if the model wrote nothing.
    pub text: Option<String>,
    /// Usage of the summary call.
    pub usage: Usage,
    /// The cost of the call, if known.
    pub cost_usd: Option<f64>,
}

/// The kind of a final model failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// The conversation is longer than the model can read. A shorter one may succeed.
    TooLong,
    /// The model was unavailable for longer than a call may wait. The same call may succeed later.
    Unavailable {
        /// How long the vendor asks to wait.
        retry_after: Option<Duration>,
    },
    /// Any other failure.
    Other,
}

/// The judgement of hooks and the permission gate about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// The call may run, possibly with a changed input.
    Allow {
        /// The changed input, if any.
        input: Option<Value>,
        /// The sandbox profile of the call, if it is a command.
        profile: SandboxProfile,
    },
    /// The call may not run.
    Deny {
        /// The reason, for the model.
        reason: String,
    },
    /// A permission is needed.
    Ask(Question),
}

/// A permission question about a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// A short description of what the call would do.
    pub description: String,
    /// Permission updates that would allow this call and similar ones, in the wire format.
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
    /// Texts that hooks add.
    pub context: Vec<String>,
    /// The files that the agent has seen through this call.
    pub seen: Vec<FileSeen>,
}

/// The result of inspecting the effects of a call that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// The call was completed.
    Done {
        /// The result as text for the model.
        text: String,
        /// The file's current state.
        seen: Vec<FileSeen>,
    },
    /// The call had no effect.
    Undone,
    /// It cannot be determined whether the call had an effect.
    Unknown,
}

/// An action that an agent wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write steps to the transcript, durably. This happens at the latest before an effect that
    /// waits for it ([`Effect::waits_for`]).
    Append(Vec<Step>),
    /// Note in the journal that messages were delivered, then mark them as read, while later
    /// effects proceed.
    Acknowledge(Vec<MessageId>),
    /// Read the inbox. Answered by [`Event::MailArrived`].
    TakeMail,
    /// Call the model with the conversation. Answered by [`Event::ModelFinished`] or
    /// [`Event::ModelFailed`].
    CallModel,
    /// Ask the model to summarise the conversation. Answered by [`Event::Summarised`] or
    /// [`Event::ModelFailed`].
    Compact {
        /// Maximum number of characters of the conversation shown to the model, or `None` for all.
        most: Option<usize>,
    },
    /// Report the result of a compaction.
    ReportCompaction(Compaction),
    /// Ask hooks and the permission gate about a call. Answered by [`Event::Judged`].
    Judge(Judging),
    /// Ask for a permission. Answered by [`Event::PermissionAsked`] and mail, or by
    /// [`Event::Answered`], or by both.
    AskPermission {
        /// The call.
        call: ToolCall,
        /// The question about the call.
        question: Question,
    },
    /// A permission question to the lead is answered. Notify all other parties that were asked.
    Settle(Settlement),
    /// Run a tool call with a sandbox profile. [`CallEffect`] is the effect of the call for the
    /// agent. Answered by [`Event::ToolFinished`].
    Run(ToolCall, SandboxProfile, CallEffect),
    /// Cancel the running model call, tool calls and hooks. None of them is answered any more.
    CutOff,
    /// Report the result of a call.
    Report(ToolCall, Ending),
    /// Inspect the effects of an interrupted call. Answered by [`Event::Inspected`].
    Inspect(ToolCall),
    /// Run the hooks for the end of a turn. Answered by [`Event::HookAnswered`].
    EndTurn(TurnEnd),
    /// Send the lead an idle notice of this teammate.
    SendIdle(IdleReport),
    /// Store a permission mode in the config as the mode of this agent.
    SetMode(PermissionMode),
    /// Stop the agent's background commands, because the agent enters plan mode and must change
    /// nothing.
    StopCommands,
    /// Apply permission updates to the agent's permission gate. If an update changes the mode, the
    /// new mode returns as [`Event::ModeChanged`].
    Permit(Vec<Value>),
    /// Let the team's loop handle a frame. The frame stays unread until [`Event::Parted`] or
    /// [`Event::Settled`] names it, so that the loop gets the frame again after a crash.
    Refer(Mail),
    /// Report the agent's state.
    Announce(Status),
    /// Report that the agent has used all its model calls.
    ReportLimit,
    /// Stop for this run because the model is unavailable. The next run continues from here.
    Park {
        /// The reason.
        reason: String,
        /// How long the model's vendor asks to wait.
        retry_after: Option<Duration>,
    },
    /// End the agent.
    End {
        /// The final status.
        status: Status,
        /// The reason, if it is not obvious.
        reason: Option<String>,
        /// The agent's last text.
        text: Option<String>,
    },
}

/// The data that must be on disk before an effect is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// Nothing. Only the agent sees the effect, and after a crash it is requested again.
    Nothing,
    /// All earlier steps.
    Written,
    /// All earlier steps, and the read marks of all mail delivered before.
    Marked,
}

impl Effect {
    /// Returns which data must be on disk before this effect. An agent may call its model and read
    /// mail before its steps are on disk, because the results are written after those steps or not
    /// at all. Effects that others can see wait for the steps.
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
            // Mail without a read mark would be archived as unread when the team is deleted.
            Self::Run(_, _, CallEffect::EndsTeam) => Wait::Marked,
            // Unread mail of an ended agent counts as undelivered, so mark delivered mail as read
            // before the end. An agent that becomes idle must mark its delivered mail too.
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
    /// Tokens in the conversation before the compaction.
    pub tokens_before: u64,
    /// Estimated tokens after the compaction. Unchanged if the summary was not used.
    pub tokens_after: u64,
    /// Usage of the summary call.
    pub usage: Usage,
    /// The cost of the call, if known.
    pub cost_usd: Option<f64>,
}

/// A call that hooks and the permission gate must judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Judging {
    /// The call.
    pub call: ToolCall,
    /// The permission mode in which the call is judged.
    pub mode: PermissionMode,
}

/// A turn that is about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The model's last text.
    pub text: Option<String>,
}

/// A permission question that has been answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The id of the call.
    pub call: String,
    /// The id of the request.
    pub request: String,
    /// The party that answered.
    pub by: Answerer,
    /// The reason of a refusal.
    pub refused: Option<String>,
}

/// The party that answered a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The lead, by mail.
    Lead,
    /// A person at the agent's own terminal. The lead does not know of the answer yet.
    Here,
}

/// The reason why a teammate is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleCause {
    /// The turn has ended.
    TurnOver,
    /// A person interrupted the turn.
    Interrupted,
    /// The agent cannot continue, for this reason.
    Failed(String),
    /// The turn ended with an answer that has this fault.
    BadAnswer(AnswerFault),
}

/// A report to the lead about an idle teammate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleReport {
    /// The reason why the teammate is idle.
    pub cause: IdleCause,
    /// The turn's last text. If the teammate did not send its result by message, this text keeps
    /// the result from being lost.
    pub result: Option<String>,
}

/// The effects to carry out, in order.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "effects do nothing until a driver carries them out"]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Adds an effect at the end.
    pub(super) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    /// Adds an effect before all others.
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
