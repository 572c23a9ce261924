//! The event loop of the terminal interface. It passes keys, the news of the host and the results of
//! actions to the [`App`], carries out the actions that the [`App`] asks for, and draws.
//!
//! Nothing here ticks: the loop waits until something happens.

use std::future::Future;
use std::io;
use std::pin::Pin;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, LocalBoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use pitcrew_team::Team;
use pitcrew_view::client::{HostLink, News};
use pitcrew_view::lead::LeadError;
use pitcrew_view::team_log::{LogPart, follow_log};
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use crate::actions::{self, Outside};
use crate::app::{Action, App, Begin, CanStart, Done, Input, Left};
use crate::keyboard::Keys;
use crate::terminal::Screen;
use crate::theme::ThemeKind;

/// The maximum number of inputs that are handled before the screen is drawn again.
const INPUTS_AT_ONCE: usize = 256;

/// Starts or continues a team, and returns it when it runs. An error is a text for the user. If the
/// future is dropped, the run does not start.
pub type StartTeam<'a> = Box<dyn Fn(Begin) -> LocalBoxFuture<'a, Result<Team, String>> + 'a>;

/// Returns the names of the files that begin with a text.
pub type ListFiles<'a> = Box<dyn Fn(&str) -> Vec<String> + 'a>;

/// What the terminal interface needs from its caller.
pub struct FaceOptions<'a> {
    /// The theme.
    pub theme: ThemeKind,
    /// The team to follow. Without it, the first message of the user is the goal of a new team.
    pub team: Option<Team>,
    /// The first message, as if the user had typed it.
    pub goal: Option<String>,
    /// Starts or continues a team. `None` if the interface only displays a team.
    pub start: Option<StartTeam<'a>>,
    /// Lists files for completions.
    pub list_files: ListFiles<'a>,
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
    Host(#[from] LeadError),
    /// The terminal or the system refused something.
    #[error("the terminal interface cannot be opened")]
    Terminal(#[from] io::Error),
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
    doing: FuturesUnordered<LocalBoxFuture<'a, Done>>,
    /// The start of a run.
    starting: Option<LocalBoxFuture<'a, Result<Team, String>>>,
    /// The team's log, if the user has looked at the timeline.
    log: Option<LocalBoxStream<'a, LogPart>>,
}

/// The event loop.
struct Face<'a> {
    app: App,
    screen: Screen,
    sources: Sources<'a>,
    start: Option<StartTeam<'a>>,
    list_files: ListFiles<'a>,
    team: Option<Team>,
}

/// Opens the terminal interface, and returns why it was closed. The terminal is then as it was
/// before.
///
/// # Errors
/// Returns an error if the host refuses this process, or if the terminal cannot be used.
pub async fn run(options: FaceOptions<'_>) -> Result<Left, FaceError> {
    let FaceOptions { theme, team, goal, start, list_files, remarks, mut end } = options;
    let mut link = team.clone().map(HostLink::new);
    // The terminal is opened after the host, so that an error before that is printed on an ordinary
    // terminal.
    let opened = tokio::select! {
        opened = first_news(link.as_mut()) => opened?,
        () = &mut end => return Ok(Left::Signal { team: name_of(team.as_ref()) }),
    };
    match opened {
        Some(News::Nobody) => return Ok(Left::NobodyRuns),
        Some(News::TeamGone) => {
            return Ok(Left::TeamGone { team: name_of(team.as_ref()).unwrap_or_default() });
        }
        Some(News::Open(_) | News::Snapshot(_) | News::Event(_) | News::Unwatched(_)) | None => {}
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
        starting: None,
        log: None,
    };
    let app = App::new(theme, name, can_start);
    let screen = Screen::open()?;
    let mut face = Face { app, screen, sources, start, list_files, team };
    let first = opened.map(|news| face.app.handle(Input::Host(news)));
    let goal = goal.map(|goal| face.app.begin(goal));
    let actions = first.into_iter().chain(goal).flatten().collect();
    match face.carry_out(actions)? {
        Some(left) => Ok(left),
        None => face.until_left().await,
    }
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
            self.follow_log();
            // The terminal is gone if it cannot be drawn on.
            if self.screen.draw(|frame| self.app.draw(frame)).is_err() {
                return Ok(self.signalled());
            }
            let mut wake = Some(self.sources.next().await);
            // What is there already is handled before the screen is drawn again.
            for _ in 0..INPUTS_AT_ONCE {
                let Some(woken) = wake else { break };
                if let Some(left) = self.woken(woken)? {
                    return Ok(left);
                }
                wake = self.sources.next().now_or_never();
            }
        }
    }

    /// Begins to read the team's log when the user looks at the timeline. A long log takes a while.
    fn follow_log(&mut self) {
        if self.sources.log.is_none() && self.app.shows_timeline() {
            let team = self.team.clone();
            self.sources.log = team.map(|team| follow_log(team).fuse().boxed_local());
        }
    }

    fn woken(&mut self, wake: Wake) -> Result<Option<Left>, FaceError> {
        let input = match wake {
            Wake::Input(input) => input,
            Wake::Linked(news) => Input::Host(news?),
            Wake::Started(result) => {
                self.sources.starting = None;
                Input::Done(Done::Started(self.started(result)))
            }
            Wake::End => return Ok(Some(self.signalled())),
        };
        let actions = self.app.handle(input);
        self.carry_out(actions)
    }

    fn signalled(&self) -> Left {
        Left::Signal { team: name_of(self.team.as_ref()) }
    }

    /// Follows a team that was started, and returns its name.
    fn started(&mut self, result: Result<Team, String>) -> Result<String, String> {
        let team = result?;
        let name = team.name().to_string();
        self.sources.link = Some(HostLink::new(team.clone()));
        self.sources.log = None;
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
                Action::EndTeam => self.outside(Outside::EndTeam),
                Action::Read(agent) => self.outside(Outside::Read(agent)),
            }
        }
        Ok(None)
    }

    /// Begins an action on the team. Without a team, there is nothing to act on.
    fn outside(&mut self, action: Outside) {
        if let Some(team) = self.team.clone() {
            self.sources.doing.push(actions::done(team, action).boxed_local());
        }
    }
}

impl Sources<'_> {
    /// Waits for the next input. It is cancel-safe.
    async fn next(&mut self) -> Wake {
        tokio::select! {
            biased;
            () = &mut self.end => Wake::End,
            key = self.keys.next() => Wake::Input(Input::Terminal(key)),
            _ = self.resumed.recv() => Wake::Input(Input::Resumed),
            Some(done) = self.doing.next() => Wake::Input(Input::Done(done)),
            started = ready(self.starting.as_mut()) => Wake::Started(started),
            news = news(self.link.as_mut()) => Wake::Linked(news),
            Some(remark) = self.remarks.next() => Wake::Input(Input::Remark(remark)),
            part = log_part(self.log.as_mut()) => Wake::Input(Input::Log(part)),
        }
    }
}

/// Waits for the next part of the log. Without a log, and after its end, this function waits forever.
async fn log_part(log: Option<&mut LocalBoxStream<'_, LogPart>>) -> LogPart {
    let part = match log {
        Some(log) => log.next().await,
        None => None,
    };
    match part {
        Some(part) => part,
        None => std::future::pending().await,
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
