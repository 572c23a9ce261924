//! The display of a run that it takes no part in: the stream-json of a client, or the records of a
//! team. It has the panels of the terminal interface, and sends nothing to anybody.
//!
//! The [`Viewer`] has all state. It does no I/O and waits for nothing.
//!
//! - `keys` handles keys.
//! - `draw` lays out the screen.

mod draw;
mod keys;

use crossterm::event::Event;
use pitcrew_protocol::AgentName;
use pitcrew_view::TeamState;
use pitcrew_view::client_stream::{ClientStream, LinesRead};
use pitcrew_view::conversation::Conversation;
use pitcrew_view::recorded::Recorded;
use pitcrew_view::replay::BEGUN_AGAIN;
use pitcrew_view::state::{Happened, Mail, Route};
use pitcrew_view::text::in_one_line;

use crate::app::part_lines::Length;
use crate::app::talk_view::TalkView;
use crate::panels::session_summary::SessionSummaryView;
use crate::panels::{TaskBoard, TeamList, TimelineView};
use crate::theme::{Theme, ThemeKind};

/// The display.
pub struct Viewer {
    theme: Theme,
    /// The file, stream or team, for the status line.
    source: String,
    feed: Feed,
    state: TeamState,
    /// The agent whose conversation is shown.
    shown: Shown,
    talk: TalkView,
    team_list: TeamList,
    task_board: TaskBoard,
    timeline: TimelineView,
    summary: SessionSummaryView,
    focus: Focus,
    length: Length,
    /// The latest message to the whole team, in words.
    broadcast: Option<String>,
    /// The number of timeline entries that were searched for such messages.
    searched: u64,
    /// A short text about the latest key.
    notice: Option<String>,
}

/// Where the state of the team comes from.
enum Feed {
    /// The stream of a client, with what is known about its end.
    Stream(Box<ClientStream>, End),
    /// The records of a team. They do not change.
    Records,
}

impl Feed {
    /// A stream of which nothing was read yet.
    fn begun() -> Self {
        Self::Stream(Box::new(ClientStream::with_conversations()), End::NotYet)
    }
}

/// What is known about the end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// More can come at any time.
    NotYet,
    /// A file has no more bytes for now.
    ForNow,
    /// A file was begun again. What comes next is its new content.
    BegunAgain,
    /// Nothing more comes.
    Reached,
    /// Nothing more can be read, for this reason.
    Broken(String),
}

/// The agent whose conversation is shown.
struct Shown {
    agent: AgentName,
    /// Whether the user chose the agent. Otherwise it is the lead.
    is_chosen: bool,
    /// The number of changes that the lines of the conversation have.
    changes: Option<u64>,
}

/// The part of the screen that gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Team,
    Conversation,
    Tasks,
    Timeline,
    Summary,
    Help,
}

/// Something that the display must handle.
#[derive(Debug)]
pub enum ViewerInput {
    /// A key or a new size of the terminal.
    Terminal(Event),
    /// The next bytes of the stream.
    Bytes(Vec<u8>),
    /// News about the end of the stream.
    Ended(End),
    /// A conversation was read from the records. `None` means that none is recorded.
    Read {
        /// The agent.
        agent: AgentName,
        /// The end of its conversation.
        conversation: Option<Conversation>,
    },
    /// A warning or another remark of this process.
    Remark(String),
    /// The process was resumed after it had been suspended.
    Resumed,
}

/// Something that the display asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerAction {
    /// Read the conversation of an agent from the records, and report it as [`ViewerInput::Read`].
    Read(AgentName),
    /// Suspend the process, as Ctrl-Z does.
    Suspend,
    /// Draw the whole screen again.
    Redraw,
    /// Close the display.
    Leave,
}

impl Viewer {
    /// Opens the display of a stream of which nothing was read yet. `source` names it.
    #[must_use]
    pub fn of_stream(theme: ThemeKind, source: &str) -> Self {
        Self::new(Theme::new(theme), source, Feed::begun(), TeamState::default())
    }

    /// Opens the display of a team's records, and returns what must be done first.
    #[must_use]
    pub fn of_records(
        theme: ThemeKind,
        source: &str,
        recorded: Recorded,
    ) -> (Self, Vec<ViewerAction>) {
        let mut viewer = Self::new(Theme::new(theme), source, Feed::Records, recorded.state);
        if !recorded.unread.is_empty() {
            viewer.notice = Some(recorded.unread.join("; "));
        }
        let actions = viewer.updated();
        (viewer, actions)
    }

    fn new(theme: Theme, source: &str, feed: Feed, state: TeamState) -> Self {
        Self {
            theme,
            source: in_one_line(source),
            feed,
            state,
            shown: Shown { agent: AgentName::lead(), is_chosen: false, changes: None },
            talk: TalkView::default(),
            team_list: TeamList::read_only(),
            task_board: TaskBoard::new(),
            timeline: TimelineView::new(),
            summary: SessionSummaryView::new(),
            focus: Focus::Team,
            length: Length::default(),
            broadcast: None,
            searched: 0,
            notice: None,
        }
    }

    /// Handles an input, and returns what must be done.
    #[must_use]
    pub fn handle(&mut self, input: ViewerInput) -> Vec<ViewerAction> {
        match input {
            ViewerInput::Terminal(event) => self.terminal(event),
            ViewerInput::Bytes(bytes) => self.fed(&bytes),
            ViewerInput::Ended(end) => self.ended(end),
            ViewerInput::Read { agent, conversation } => {
                if agent == self.shown.agent {
                    let conversation = conversation.unwrap_or_default();
                    self.talk.set(conversation.parts.iter(), "", conversation.is_cut);
                }
                Vec::new()
            }
            ViewerInput::Remark(text) => {
                self.notice = Some(text);
                Vec::new()
            }
            ViewerInput::Resumed => vec![ViewerAction::Redraw],
        }
    }

    fn fed(&mut self, bytes: &[u8]) -> Vec<ViewerAction> {
        if let Feed::Stream(stream, end) = &mut self.feed {
            *end = End::NotYet;
            stream.feed(&mut self.state, bytes);
        }
        self.updated()
    }

    fn ended(&mut self, news: End) -> Vec<ViewerAction> {
        if news == End::BegunAgain {
            self.begin_again();
        } else if let Feed::Stream(stream, end) = &mut self.feed {
            match news {
                End::NotYet | End::BegunAgain => {}
                End::ForNow => stream.pause(&mut self.state),
                End::Reached | End::Broken(_) => stream.finish(&mut self.state),
            }
            *end = news;
        }
        self.updated()
    }

    /// Forgets what the stream told, because its file was begun again.
    fn begin_again(&mut self) {
        let empty =
            Self::new(self.theme.clone(), &self.source, Feed::begun(), TeamState::default());
        let notice = Some(BEGUN_AGAIN.to_owned());
        *self = Self { focus: self.focus, length: self.length, notice, ..empty };
        self.talk.set_length(self.length);
    }

    /// Adjusts the display to a new state of the team.
    fn updated(&mut self) -> Vec<ViewerAction> {
        for entry in self.state.timeline.since(self.searched) {
            if let Happened::Mail(Mail { to: Route::Team(_), .. }) = &entry.what {
                self.broadcast = Some(entry.text());
            }
        }
        self.searched = self.state.timeline.count();
        match &self.state.lead {
            Some(lead) if !self.shown.is_chosen && *lead != self.shown.agent => {
                let lead = lead.clone();
                self.show(lead)
            }
            Some(_) | None if matches!(self.feed, Feed::Records) => {
                vec![ViewerAction::Read(self.shown.agent.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Shows the conversation of an agent.
    fn show(&mut self, agent: AgentName) -> Vec<ViewerAction> {
        self.shown = Shown { agent, is_chosen: self.shown.is_chosen, changes: None };
        self.talk = TalkView::default();
        self.talk.set_length(self.length);
        match self.feed {
            Feed::Stream(..) => Vec::new(),
            Feed::Records => vec![ViewerAction::Read(self.shown.agent.clone())],
        }
    }

    /// Brings the lines of the shown conversation up to date with the stream.
    fn follow_conversation(&mut self) {
        let Feed::Stream(stream, _) = &self.feed else { return };
        let Some((conversation, changes)) = stream.conversation(&self.shown.agent) else { return };
        if self.shown.changes.replace(changes) != Some(changes) {
            self.talk.set(conversation.parts.iter(), "", conversation.is_cut);
        }
    }

    /// Returns the numbers of lines that were read of a stream.
    fn lines_read(&self) -> Option<LinesRead> {
        match &self.feed {
            Feed::Stream(stream, _) => Some(stream.lines_read()),
            Feed::Records => None,
        }
    }
}

#[cfg(test)]
mod tests;
