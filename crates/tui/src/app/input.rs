//! Everything that reaches the application, and everything that it asks for.

use std::time::Instant;

use crossterm::event::Event;
use pitcrew_protocol::{AgentName, MessageId, PermissionMode};
use pitcrew_runtime::run::{RunOutcome, RunPermissions};
use pitcrew_team::PlanView;
use pitcrew_view::TeamState;
use pitcrew_view::asking::Chosen;
use pitcrew_view::changes::{MemberChanges, Merged, Versions};
use pitcrew_view::client::{News, TeamEnding};
use pitcrew_view::conversation::Conversation;
use pitcrew_view::markdown_export::Detail;
use pitcrew_view::state::Happened;

use super::{Request, TeamItem};

/// Something that the application must handle.
#[derive(Debug)]
pub enum Input {
    /// A key, a paste or a new size of the terminal, and its time.
    Terminal(Event, Instant),
    /// News of the host.
    Host(News),
    /// The result of an action.
    Done(Done),
    /// A warning or another remark of this process.
    Remark(String),
    /// The process was resumed after it had been suspended.
    Resumed,
}

/// The result of an action.
#[derive(Debug)]
pub enum Done {
    /// The team runs, or could not be started for this reason. The team has this name.
    Started(Result<String, String>),
    /// A message was sent to an agent.
    Sent {
        /// The receiver.
        to: AgentName,
        /// The text.
        text: String,
        /// The id of the message, or the reason why it was not sent.
        result: Result<MessageId, String>,
    },
    /// An answer was sent to the host.
    Answered {
        /// The answer.
        chosen: Box<Chosen>,
        /// The reason why the host did not take the answer.
        result: Result<(), String>,
    },
    /// A request to the host has waited for its answer for a while. Its own result comes later.
    Slow,
    /// The host was asked to end the team. An error is the reason why it does not.
    Ending(Result<TeamEnding, String>),
    /// Whether the host stops the run.
    Stopping(Result<(), String>),
    /// An action without an own result was carried out. The text reports it.
    Told(String),
    /// An action was not carried out. The text says why.
    Failed(String),
    /// The permissions of the run were read, or are not known for this reason.
    Permissions(Result<RunPermissions, String>),
    /// The plans that wait for an answer were read.
    Plans(Result<Vec<PlanView>, String>),
    /// The teams to go on with were listed.
    Teams(Result<Vec<TeamItem>, String>),
    /// The transcript of an agent was read. `None` means that it cannot be read.
    Read {
        /// The agent.
        agent: AgentName,
        /// The end of the transcript.
        recorded: Option<Conversation>,
    },
    /// The changes of the team's members were read, or could not be read for this reason.
    Changes(Result<Vec<MemberChanges>, String>),
    /// Both versions of a changed file were read.
    Versions {
        /// The member that changed the file.
        author: AgentName,
        /// The file.
        file: String,
        /// The versions, or the reason why they cannot be read.
        result: Result<Versions, String>,
    },
    /// A merge was tried.
    Merged {
        /// The member whose work was to be merged.
        author: AgentName,
        /// The result, or the reason why git failed.
        result: Result<Merged, String>,
    },
    /// The next entries of the timeline.
    Happened(Vec<Happened>),
    /// The names of files that begin with a text.
    Files {
        /// The text.
        prefix: String,
        /// The names.
        names: Vec<String>,
    },
}

/// Something that the application asks for. The caller carries it out and reports the result as a
/// [`Done`].
#[derive(Debug)]
pub enum Action {
    /// Start a team, or continue one.
    Start(Begin),
    /// Answer a permission request.
    Answer(Box<Chosen>),
    /// Send a message of the user to an agent.
    Send {
        /// The receiver.
        to: AgentName,
        /// The text.
        text: String,
    },
    /// Interrupt the turn of an agent.
    Interrupt(AgentName),
    /// Change the permission mode of an agent.
    ChangeMode {
        /// The agent.
        member: AgentName,
        /// The new mode.
        mode: PermissionMode,
    },
    /// Give an agent another model.
    ChangeModel {
        /// The agent.
        member: AgentName,
        /// The name of the new model.
        model: String,
    },
    /// Replace the conversation of an agent by a summary.
    Compact(AgentName),
    /// Make a request to the host.
    Request(Request),
    /// Write a conversation or the whole run into a file.
    Export(ExportOrder),
    /// List the teams to go on with.
    ListTeams,
    /// Ask every teammate to leave, and end the team.
    EndTeam,
    /// Stop the run at once. The teammates stay in the team.
    StopRun,
    /// Read from the team's records how its last run ended.
    ReadEnd,
    /// Read the end of an agent's transcript.
    Read(AgentName),
    /// Read what is new in the log of the team.
    ReadLog,
    /// Read what each member of the team has changed.
    ReadChanges,
    /// Read both versions of a changed file.
    ReadVersions {
        /// The changes of the member.
        changes: Box<MemberChanges>,
        /// The file.
        file: String,
    },
    /// Merge the changes of a member.
    Merge(Box<MemberChanges>),
    /// List the names of files that begin with a text.
    ListFiles(String),
    /// Suspend the process, as Ctrl-Z does.
    Suspend,
    /// Draw the whole screen again.
    Redraw,
    /// Close the terminal interface.
    Leave(Left),
}

/// How a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// A new team works on this goal.
    New {
        /// The goal.
        goal: String,
    },
    /// The team of an earlier run goes on.
    Resume {
        /// The team's name.
        team: String,
        /// The instruction for its lead.
        goal: String,
    },
}

/// An order to write a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOrder {
    /// What is written.
    pub of: ExportOf,
    /// The file. `None` means a new file in the working folder.
    pub file: Option<String>,
    /// How much of the tool calls is written.
    pub detail: Detail,
}

/// What a document contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportOf {
    /// The conversation of an agent.
    Conversation(AgentName),
    /// The whole run.
    Run,
}

/// Where the user goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Onward {
    /// In another team.
    Team {
        /// The name of the team's folder, or the id of its archive.
        id: String,
    },
    /// In the display of a team's records.
    Records {
        /// The name of the team's folder, or the id of its archive.
        id: String,
    },
    /// In a new team.
    NewTeam,
}

/// Why the terminal interface was closed.
#[derive(Debug)]
pub enum Left {
    /// The run has ended.
    Ended {
        /// The outcome that the host reported.
        outcome: Box<RunOutcome>,
        /// The state of the team at the end.
        state: Box<TeamState>,
    },
    /// No process ran the team when the terminal interface was to be opened.
    NobodyRuns,
    /// The user left after a run that ended before its host could be followed.
    AlreadyOver {
        /// The team's name.
        team: String,
    },
    /// The user left, and the team goes on.
    ByUser {
        /// The team's name. `None` if no team was started.
        team: Option<String>,
    },
    /// The user chose to go on elsewhere. The team on the screen goes on too.
    Onward(Onward),
    /// The process must end, or its terminal is gone. The team goes on.
    Signal {
        /// The team's name. `None` if no team was started.
        team: Option<String>,
    },
    /// The host ended without a word, for example because it was killed.
    HostGone {
        /// The team's name.
        team: String,
    },
    /// The team was archived or deleted while no process ran it.
    TeamGone {
        /// The team's name.
        team: String,
    },
}
