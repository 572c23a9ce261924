//! The event loop of the terminal interface. It passes keys, the news of the host and the results of
//! actions to the [`App`], carries out the actions that the [`App`] asks for, and draws.
//!
//! Nothing here ticks: the loop waits until something happens.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Instant;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, LocalBoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use pitcrew_runtime::control_socket::Notifies;
use pitcrew_team::Team;
use pitcrew_view::changes::Worktrees;
use pitcrew_view::client::{HostLink, News};
use pitcrew_view::host::What;
use pitcrew_view::lead::LeadError;
use pitcrew_view::notification::Notification;
use pitcrew_view::state::Happened;
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use crate::actions::{self, Outside, Progress};
use crate::app::{
    Action, App, Begin, CanStart, CompletedTeam, Done, ExportOrder, Input, Left, TeamItem,
};
use crate::keyboard::Keys;
use crate::team_log::LogReader;
use crate::terminal::{Mouse, Screen};
use crate::theme::ThemeKind;

/// The maximum number of inputs that are handled before the screen is drawn again.
const INPUTS_AT_ONCE: usize = 256;

/// Starts or continues a team, and returns it when it runs. An error is a text for the user. If the
/// future is dropped, the run does not start.
pub type StartTeam<'a> = Box<dyn Fn(Begin) -> LocalBoxFuture<'a, Result<Team, String>> + 'a>;

/// Returns the names of the files that begin with a text.
pub type ListFiles<'a> = Box<dyn Fn(&str) -> Vec<String> + 'a>;

/// Returns the characters that make the terminal show a notification, for example the bell.
pub type SignalOf<'a> = Box<dyn Fn(&Notification) -> String + 'a>;

/// Writes a document about a team into a file. The result is a text for the user.
pub type Export<'a> =
    Box<dyn Fn(Team, ExportOrder) -> LocalBoxFuture<'a, Result<String, String>> + 'a>;

/// Lists the teams to go on with, without the named team on the screen. An error is a text for the
/// user.
pub type ListTeams<'a> =
    Box<dyn Fn(Option<String>) -> LocalBoxFuture<'a, Result<Vec<TeamItem>, String>> + 'a>;

/// What the terminal interface needs from its caller.
pub struct FaceOptions<'a> {
    /// The theme.
    pub theme: ThemeKind,
    /// Whether the terminal reports the mouse.
    pub mouse: Mouse,
    /// The team to follow. With `start`, its run was just started. Without a team, the first
    /// message of the user is the goal of a new one.
    pub team: Option<Team>,
    /// The completed team that the first message of the user continues. It makes a difference only
    /// without `team`.
    pub completed: Option<CompletedTeam>,
    /// The first message, as if the user had typed it.
    pub goal: Option<String>,
    /// Starts or continues a team. `None` if the interface only displays a team.
    pub start: Option<StartTeam<'a>>,
    /// Makes signals of notifications. `None` if the terminal gets no signals.
    pub signal_of: Option<SignalOf<'a>>,
    /// The git worktrees of teammates, for the review of their changes.
    pub worktrees: Worktrees,
    /// Lists files for completions.
    pub list_files: ListFiles<'a>,
    /// Writes documents.
    pub export: Export<'a>,
    /// Lists teams.
    pub list_teams: ListTeams<'a>,
    /// The warnings of this process. The stream does not end.
    pub remarks: LocalBoxStream<'a, String>,
    /// Is ready when the process must end.
    pub end: LocalBoxFuture<'a, ()>,
}

/// Why the terminal interface failed.
#[derive(Debug, thiserror::Error)]
pub enum FaceError {
    /// The host refused this process, or the team cannot be read.
    #[error(transparent)]
    Host(Box<LeadError>),
    /// The terminal or the system refused something.
    #[error("the terminal interface cannot be opened")]
    Terminal(#[from] io::Error),
}

impl From<LeadError> for FaceError {
    fn from(error: LeadError) -> Self {
        Self::Host(Box::new(error))
    }
}

/// Something that wakes the event loop.
enum Wake {
    Input(Input),
    Linked(Result<News, LeadError>),
    Started(Result<Team, String>),
    End,
}

/// The sources of the event loop.
struct Sources<'a> {
    link: Option<HostLink>,
    keys: Keys,
    remarks: LocalBoxStream<'a, String>,
    end: LocalBoxFuture<'a, ()>,
    resumed: Signals,
    /// The actions that are being carried out.
    doing: FuturesUnordered<LocalBoxFuture<'a, Progress<'a>>>,
    log: Log<'a>,
    /// The start of a run.
    starting: Option<LocalBoxFuture<'a, Result<Team, String>>>,
}

/// The log of the team.
enum Log<'a> {
    /// Nobody has asked for it.
    None,
    /// It was read up to the position of the reader.
    Read(Box<LogReader>),
    /// It is being read.
    Reading {
        /// Returns the reader with the new entries.
        reading: LocalBoxFuture<'a, (LogReader, Vec<Happened>)>,
        /// Whether it must be read again afterwards.
        is_stale: bool,
    },
}

/// The event loop.
struct Face<'a> {
    app: App,
    screen: Screen,
    sources: Sources<'a>,
    start: Option<StartTeam<'a>>,
    signal_of: Option<SignalOf<'a>>,
    list_files: ListFiles<'a>,
    export: Export<'a>,
    list_teams: ListTeams<'a>,
    worktrees: Worktrees,
    team: Option<Team>,
}

/// Opens the terminal interface, and returns why it was closed. The terminal is then as it was
/// before.
///
/// # Errors
/// Returns an error if the host refuses this process, or if the terminal cannot be used.
pub async fn run(options: FaceOptions<'_>) -> Result<Left, FaceError> {
    let FaceOptions {
        theme,
        mouse,
        team,
        completed,
        goal,
        start,
        signal_of,
        worktrees,
        list_files,
        export,
        list_teams,
        remarks,
        mut end,
    } = options;
    let mut link = team.clone().map(|team| link_to(team, signal_of.as_ref()));
    // The terminal is opened after the host, so that an error before that is printed on an ordinary
    // terminal.
    let opened = tokio::select! {
        opened = first_news(link.as_mut()) => opened?,
        () = &mut end => return Ok(Left::Signal { team: name_of(team.as_ref()) }),
    };
    // A run that was just started can be over. The interface shows its end.
    if start.is_none()
        && let Some(left) = opened.as_ref().and_then(|news| without_host(news, team.as_ref()))
    {
        return Ok(left);
    }
    let name = name_of(team.as_ref());
    let can_start = if start.is_some() { CanStart::Yes } else { CanStart::No };
    let sources = Sources {
        link,
        keys: Keys::open()?,
        remarks,
        end,
        resumed: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        doing: FuturesUnordered::new(),
        log: Log::None,
        starting: None,
    };
    let app = match completed.filter(|_| name.is_none()) {
        Some(completed) => App::of_completed(theme, completed),
        None => App::new(theme, name, can_start),
    };
    let screen = Screen::open(mouse)?;
    let mut face = Face {
        app,
        screen,
        sources,
        start,
        signal_of,
        list_files,
        export,
        list_teams,
        worktrees,
        team,
    };
    let first = opened.map(|news| face.app.handle(Input::Host(news)));
    let goal = goal.map(|goal| face.app.begin(goal));
    let actions = first.into_iter().chain(goal).flatten().collect();
    match face.carry_out(actions)? {
        Some(left) => Ok(left),
        None => face.until_left().await,
    }
}

/// Returns why the interface is not opened if the first news is that nobody runs the team.
fn without_host(first: &News, team: Option<&Team>) -> Option<Left> {
    match first {
        News::Nobody => Some(Left::NobodyRuns),
        News::TeamGone => Some(Left::TeamGone { team: name_of(team).unwrap_or_default() }),
        News::Open(_)
        | News::Snapshot(_)
        | News::Event(_)
        | News::Recorded(_)
        | News::Unwatched(_) => None,
    }
}

/// Whether the host of the run says nothing more after this.
fn is_last(news: &News) -> bool {
    match news {
        News::TeamGone => true,
        News::Event(event) => matches!(event.what, What::Ended(_)),
        News::Open(_)
        | News::Snapshot(_)
        | News::Recorded(_)
        | News::Nobody
        | News::Unwatched(_) => false,
    }
}

/// Prepares a connection that says whether this terminal can show notifications.
fn link_to(team: Team, signal_of: Option<&SignalOf<'_>>) -> HostLink {
    HostLink::new(team).notifying(Notifies::from(signal_of.is_some()))
}

fn name_of(team: Option<&Team>) -> Option<String> {
    team.map(|team| team.name().to_string())
}

/// Waits for the first news of the host. Without a team, there is none.
async fn first_news(link: Option<&mut HostLink>) -> Result<Option<News>, LeadError> {
    match link {
        Some(link) => link.next().await.map(Some),
        None => Ok(None),
    }
}

impl<'a> Face<'a> {
    async fn until_left(mut self) -> Result<Left, FaceError> {
        loop {
            // The terminal is gone if it cannot be drawn on.
            if self.screen.draw(|frame| self.app.draw(frame)).is_err() {
                return Ok(self.signalled());
            }
            self.app.is_on_screen(Instant::now());
            let mut wake = Some(self.sources.next().await);
            let mut handled = 0;
            // What is there already is handled before the screen is drawn again.
            while let Some(woken) = wake {
                if let Some(left) = self.woken(woken)? {
                    return Ok(left);
                }
                handled += 1;
                // An event that was taken would be lost if it were not handled.
                wake = match handled < INPUTS_AT_ONCE {
                    true => self.sources.next().now_or_never(),
                    false => None,
                };
            }
        }
    }

    fn woken(&mut self, wake: Wake) -> Result<Option<Left>, FaceError> {
        let input = match wake {
            Wake::Input(input) => input,
            Wake::Linked(news) => {
                let news = news?;
                if let News::Event(event) = &news
                    && let What::Notify(notification) = &event.what
                {
                    self.notify(notification)?;
                }
                // The link of a team that is gone would say so again and again.
                // A run that has ended is not followed any more: its team may be on the way into
                // the archive.
                if is_last(&news) {
                    self.sources.link = None;
                }
                Input::Host(news)
            }
            Wake::Started(result) => {
                self.sources.starting = None;
                Input::Done(Done::Started(self.started(result)))
            }
            Wake::End => return Ok(Some(self.signalled())),
        };
        let actions = self.app.handle(input);
        self.carry_out(actions)
    }

    /// Makes the terminal show a notification, if the host chose this terminal for it.
    fn notify(&mut self, notification: &Notification) -> Result<(), FaceError> {
        let is_ours = self.sources.link.as_ref().is_some_and(|link| link.shows(notification));
        if let Some(signal_of) = self.signal_of.as_ref().filter(|_| is_ours) {
            self.screen.signal(&signal_of(notification))?;
        }
        Ok(())
    }

    fn signalled(&self) -> Left {
        Left::Signal { team: name_of(self.team.as_ref()) }
    }

    /// Follows a team that was started, and returns its name.
    fn started(&mut self, result: Result<Team, String>) -> Result<String, String> {
        let team = result?;
        let name = team.name().to_string();
        self.sources.link = Some(link_to(team.clone(), self.signal_of.as_ref()));
        self.sources.log = Log::None;
        self.team = Some(team);
        Ok(name)
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> Result<Option<Left>, FaceError> {
        for action in actions {
            match action {
                Action::Leave(left) => return Ok(Some(left)),
                Action::Suspend => self.screen.suspend()?,
                Action::Redraw => self.screen.redraw()?,
                Action::Start(begin) => {
                    self.sources.starting = self.start.as_ref().map(|start| start(begin));
                    // The host of the former run is gone.
                    self.sources.link = None;
                }
                Action::ListFiles(prefix) => {
                    let names = (self.list_files)(&prefix);
                    let files = Input::Done(Done::Files { prefix, names });
                    // This input asks for no further action.
                    let _none = self.app.handle(files);
                }
                Action::Answer(chosen) => self.outside(Outside::Answer(chosen)),
                Action::Send { to, text } => self.outside(Outside::Send { to, text }),
                Action::Interrupt(agent) => self.outside(Outside::Interrupt(agent)),
                Action::ChangeMode { member, mode } => {
                    self.outside(Outside::ChangeMode { member, mode });
                }
                Action::ChangeModel { member, model } => {
                    self.outside(Outside::ChangeModel { member, model });
                }
                Action::Compact(agent) => self.outside(Outside::Compact(agent)),
                Action::Request(request) => self.outside(Outside::Request(request)),
                Action::Export(order) => self.write_document(order),
                Action::ListTeams => {
                    let listing = (self.list_teams)(name_of(self.team.as_ref()));
                    self.sources.doing.push(
                        listing.map(|teams| Progress::Done(Done::Teams(teams))).boxed_local(),
                    );
                }
                Action::EndTeam => self.outside(Outside::EndTeam),
                Action::StopRun => self.outside(Outside::StopRun),
                Action::ReadEnd => self.outside(Outside::ReadEnd),
                Action::Read(agent) => self.outside(Outside::Read(agent)),
                Action::ReadLog => self.read_log(),
                Action::ReadChanges => {
                    self.outside(Outside::ReadChanges(self.worktrees.clone()));
                }
                Action::ReadVersions { changes, file } => {
                    let worktrees = self.worktrees.clone();
                    self.outside(Outside::ReadVersions { changes, file, worktrees });
                }
                Action::Merge(changes) => {
                    self.outside(Outside::Merge(changes, self.worktrees.clone()));
                }
            }
        }
        Ok(None)
    }

    /// Begins to read what is new in the team's log.
    fn read_log(&mut self) {
        let Some(team) = &self.team else { return };
        let log = &mut self.sources.log;
        *log = match std::mem::replace(log, Log::None) {
            Log::None => Log::reading(LogReader::new(team.clone())),
            Log::Read(reader) => Log::reading(*reader),
            Log::Reading { reading, .. } => Log::Reading { reading, is_stale: true },
        };
    }

    /// Begins to write a document about the team.
    fn write_document(&mut self, order: ExportOrder) {
        let Some(team) = self.team.clone() else { return };
        let writing = (self.export)(team, order).map(|result| match result {
            Ok(text) => Done::Told(text),
            Err(reason) => Done::Failed(format!("nothing is written: {reason}")),
        });
        self.sources.doing.push(writing.map(Progress::Done).boxed_local());
    }

    /// Begins an action on the team. Without a team, there is nothing to act on.
    fn outside(&mut self, action: Outside) {
        if let Some(team) = self.team.clone() {
            self.sources.doing.push(actions::begin(team, action).boxed_local());
        }
    }
}

impl Log<'_> {
    fn reading(reader: LogReader) -> Self {
        Self::Reading { reading: reader.more().boxed_local(), is_stale: false }
    }

    /// Waits for the entries that are being read. Without any, this function waits forever. It is
    /// cancel-safe.
    async fn next(&mut self) -> Vec<Happened> {
        let Self::Reading { reading, is_stale } = self else { return std::future::pending().await };
        let (reader, entries) = reading.await;
        *self = if *is_stale { Self::reading(reader) } else { Self::Read(Box::new(reader)) };
        entries
    }
}

impl<'a> Sources<'a> {
    /// Returns the result of an action. The rest of a slow one is carried out further.
    fn progressed(&mut self, progress: Progress<'a>) -> Done {
        match progress {
            Progress::Done(done) => done,
            Progress::Slow(work) => {
                self.doing.push(work.map(Progress::Done).boxed_local());
                Done::Slow
            }
        }
    }

    /// Waits for the next input. It is cancel-safe.
    async fn next(&mut self) -> Wake {
        tokio::select! {
            biased;
            () = &mut self.end => Wake::End,
            key = self.keys.next() => Wake::Input(Input::Terminal(key, Instant::now())),
            _ = self.resumed.recv() => Wake::Input(Input::Resumed),
            Some(progress) = self.doing.next() => Wake::Input(Input::Done(self.progressed(progress))),
            entries = self.log.next() => Wake::Input(Input::Done(Done::Happened(entries))),
            started = ready(self.starting.as_mut()) => Wake::Started(started),
            news = news(self.link.as_mut()) => Wake::Linked(news),
            Some(remark) = self.remarks.next() => Wake::Input(Input::Remark(remark)),
        }
    }
}

async fn news(link: Option<&mut HostLink>) -> Result<News, LeadError> {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for a future. Without one, this function waits forever.
async fn ready<T>(future: Option<&mut Pin<Box<dyn Future<Output = T> + '_>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
