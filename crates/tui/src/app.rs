//! The application: all state of the terminal interface, what each input changes, and how it is
//! drawn. It does no I/O and waits for nothing.
//!
//! - `input` lists everything that reaches the application and everything that it asks for.
//! - `news` handles the host's events, `results` the results of actions, `keys` the keys, and `mouse`
//!   the mouse.
//! - `submit` handles a text that the user sends.
//! - `talk` is the conversation of an agent, `talk_view` its lines, `part_lines` those of one part.
//! - `review` connects the review of the changes, `choosing` the list of teams to go on with.
//! - `pages` shows long texts in place of the conversation, among them `help`.
//! - `draw` lays out the screen, and `status` has its short texts.

mod choosing;
mod draw;
mod help;
mod input;
mod keys;
mod mouse;
mod news;
mod pages;
pub(crate) mod part_lines;
mod request;
mod results;
mod review;
pub(crate) mod status;
mod submit;
mod talk;
pub(crate) mod talk_view;

use std::collections::VecDeque;
use std::time::Instant;

use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_runtime::run::RunOutcome;
use pitcrew_view::TeamState;
use pitcrew_view::asking::Chosen;
use pitcrew_view::client::TeamEnding;
use pitcrew_view::host::OpenQuestion;

use choosing::Choosing;
pub use choosing::{CompletedTeam, TeamItem};
pub use input::{Action, Begin, Done, ExportOf, ExportOrder, Input, Left, Onward};
use mouse::Places;
use pages::PlansShown;
use part_lines::Length;
pub use request::Request;
use talk::{Reading, Talk};

use crate::composer::Composer;
use crate::panels::{Page, TaskBoard, TeamList, TimelineView};
use crate::question::QuestionView;
use crate::review::ReviewView;
use crate::theme::{Theme, ThemeKind};

/// The terminal interface.
pub struct App {
    theme: Theme,
    stage: Stage,
    can_start: CanStart,
    /// The team's name, as soon as it is known.
    team: Option<String>,
    /// The completed team that the first message continues. `None` if the first message is the goal
    /// of a new team.
    completed: Option<CompletedTeam>,
    state: TeamState,
    questions: VecDeque<OpenQuestion>,
    /// The permission request on the screen.
    question: QuestionView,
    /// The permission request whose refusal gets the reason that the user types.
    refusing: Option<OpenQuestion>,
    lead: Talk,
    /// The conversation of another agent, if the user looks at one.
    peeked: Option<Talk>,
    composer: Composer,
    queued: Vec<Queued>,
    /// The messages that were delivered lately.
    delivered: VecDeque<MessageId>,
    team_list: TeamList,
    task_board: TaskBoard,
    timeline: TimelineView,
    review: ReviewView,
    /// What the user types for the review.
    writing: Option<String>,
    focus: Focus,
    /// A long text in place of the conversation.
    page: Option<Page>,
    plans_shown: PlansShown,
    /// The list of teams to go on with, while it is open.
    choosing: Option<Choosing>,
    places: Places,
    length: Length,
    leaving: Leaving,
    /// A short text about what happened last.
    notice: Option<Notice>,
    /// Whether the notice says that the host does not answer.
    is_host_slow: bool,
    /// Whether the notice says that a part of a request or a page was not on the screen yet.
    tells_unread: bool,
}

/// Whether the terminal interface can start a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanStart {
    /// It can start a team, and continue one whose run has ended.
    Yes,
    /// It only displays a run.
    No,
}

/// The part of a run's life in which the terminal interface is.
#[derive(Debug)]
enum Stage {
    /// No run has started. The next text of the user is the goal of a new team, or it continues the
    /// completed team.
    Goal,
    /// A run is being started. The value is the team's run before.
    Starting(Option<LastRun>),
    /// A team is displayed, and the host is there.
    Running,
    /// A team is displayed, and no process runs it.
    NoHost,
    /// The run has ended.
    Over(LastRun),
}

/// A run that has ended.
#[derive(Debug)]
enum LastRun {
    /// The host reported this outcome.
    Reported(Box<RunOutcome>),
    /// The run ended before its host could be followed. Only the team's records have its outcome.
    Unseen,
}

/// The part of the screen that gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Conversation,
    Team,
    Tasks,
    Timeline,
    Review,
}

/// How far the user is on the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// Ctrl-C was pressed once.
    Pressed,
    /// The user is asked what becomes of the team.
    Asked,
    /// The user ended the team. The terminal interface is closed when the run has ended.
    Ending(TeamEnding),
    /// The user stopped the run. The terminal interface is closed when it has ended.
    Stopping,
}

/// A message of the user that its receiver has not read yet.
#[derive(Debug)]
struct Queued {
    to: AgentName,
    text: String,
    /// The id of the message, as soon as it was sent.
    id: Option<MessageId>,
}

/// A short text about what happened last.
#[derive(Debug)]
struct Notice {
    text: String,
    is_problem: bool,
}

impl App {
    /// Opens the terminal interface. `team` is the name of the team whose host is followed. With
    /// [`CanStart::Yes`], its run was just started. Without a team, the first text that the user
    /// sends is the goal of a new one.
    #[must_use]
    pub fn new(theme: ThemeKind, team: Option<String>, can_start: CanStart) -> Self {
        Self {
            theme: Theme::new(theme),
            stage: match (&team, can_start) {
                (None, _) => Stage::Goal,
                (Some(_), CanStart::No) => Stage::NoHost,
                (Some(_), CanStart::Yes) => Stage::Starting(None),
            },
            can_start,
            team,
            completed: None,
            state: TeamState::default(),
            questions: VecDeque::new(),
            question: QuestionView::new(),
            refusing: None,
            lead: Talk::new(AgentName::lead()),
            peeked: None,
            composer: Composer::new(),
            queued: Vec::new(),
            delivered: VecDeque::new(),
            team_list: TeamList::new(),
            task_board: TaskBoard::new(),
            timeline: TimelineView::new(),
            review: ReviewView::default(),
            writing: None,
            focus: Focus::Conversation,
            page: None,
            plans_shown: PlansShown::default(),
            choosing: None,
            places: Places::default(),
            length: Length::Short,
            leaving: Leaving::No,
            notice: None,
            is_host_slow: false,
            tells_unread: false,
        }
    }

    /// Opens the terminal interface for a team whose work is done.
    #[must_use]
    pub fn of_completed(theme: ThemeKind, completed: CompletedTeam) -> Self {
        Self { completed: Some(completed), ..Self::new(theme, None, CanStart::Yes) }
    }

    /// Handles an input, and returns what must be done.
    #[must_use]
    pub fn handle(&mut self, input: Input) -> Vec<Action> {
        match input {
            Input::Terminal(event, at) => self.terminal(event, at),
            Input::Host(news) => self.heard(news),
            Input::Done(done) => self.done(done),
            Input::Remark(text) => {
                self.problem(text);
                Vec::new()
            }
            Input::Resumed => vec![Action::Redraw],
        }
    }

    /// Takes note that the terminal shows what [`App::draw`] drew last.
    pub fn is_on_screen(&mut self, now: Instant) {
        self.question.is_on_screen(now);
    }

    /// Sends a first text, as if the user had typed it.
    #[must_use]
    pub fn begin(&mut self, text: String) -> Vec<Action> {
        self.submit(text)
    }

    /// Returns the conversation on the screen.
    fn shown(&mut self) -> &mut Talk {
        self.peeked.as_mut().unwrap_or(&mut self.lead)
    }

    /// Returns the agent whose conversation is on the screen. It gets the user's messages.
    fn receiver(&self) -> &AgentName {
        self.peeked.as_ref().unwrap_or(&self.lead).agent()
    }

    /// Shows the conversation of an agent.
    fn peek(&mut self, agent: AgentName) -> Vec<Action> {
        self.focus = Focus::Conversation;
        self.notice = None;
        self.close_page();
        if agent == *self.lead.agent() {
            self.peeked = None;
            return Vec::new();
        }
        let mut talk = Talk::new(agent);
        talk.view().set_length(self.length);
        let reading = talk.refresh();
        let agent = talk.agent().clone();
        self.peeked = Some(talk);
        read(reading, &agent)
    }

    /// Tells the user something that is not a problem.
    fn tell(&mut self, text: impl Into<String>) {
        self.notify(Notice { text: text.into(), is_problem: false });
    }

    /// Tells the user that something did not work.
    fn problem(&mut self, text: impl Into<String>) {
        self.notify(Notice { text: text.into(), is_problem: true });
    }

    fn notify(&mut self, notice: Notice) {
        self.notice = Some(notice);
        (self.is_host_slow, self.tells_unread) = (false, false);
    }

    /// Puts the first permission request on the screen.
    fn show_question(&mut self) {
        self.question.set(self.questions.front(), self.questions.len());
    }

    /// Takes the answered permission request from the screen, and sends the answer.
    fn answer(&mut self, chosen: Chosen) -> Vec<Action> {
        self.questions.retain(|question| question.id != chosen.question.id);
        self.show_question();
        vec![Action::Answer(Box::new(chosen))]
    }

    /// Returns whether a run goes on without this terminal interface.
    fn is_at_work(&self) -> bool {
        match self.stage {
            Stage::Running => true,
            // Without its starter, a run that is being started ends.
            Stage::Goal | Stage::Starting(_) | Stage::NoHost | Stage::Over(_) => false,
        }
    }
}

/// Returns the action of reading a transcript, if it must be read.
fn read(reading: Reading, agent: &AgentName) -> Vec<Action> {
    match reading {
        Reading::Begin => vec![Action::Read(agent.clone())],
        Reading::No => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
