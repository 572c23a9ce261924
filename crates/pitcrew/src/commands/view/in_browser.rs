//! Shows a replay in the browser: a server for this one view, which ends with Ctrl-C.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pitcrew_process::given_stream::GivenStream;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_team::{Clock as _, SystemClock, TeamRecords};
use pitcrew_tui::viewer::End;
use pitcrew_view::replay::{BEGUN_AGAIN, Clock, Replay, StreamReplay};
use pitcrew_web::{Devices, NewTeams, Options, Piece, Reach, Server, Token, Viewed};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::sleep;
use uuid::Uuid;

use super::first_lines::FirstLines;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::live::signals::Signals;
use crate::live::viewed;
use crate::output::{self, printable, visible};

/// Programs that open a link in the user's browser, if there is a display.
const OPENERS: &[&str] = &["xdg-open", "wslview", "open"];

/// How long the server of a stream with nothing to show stays after the end of the stream.
const PAGE_LEARNS: Duration = Duration::from_millis(500);

/// Opens a link in the user's browser.
#[derive(Debug)]
pub(super) struct Opener(String);

impl Opener {
    /// Finds the program that opens a link. Returns `None` if there is no display or no such
    /// program.
    pub(super) fn find(context: &Context) -> Option<Self> {
        let named = context.variable("BROWSER").and_then(|all| all.split(':').next());
        if let Some(program) = named.filter(|it| context.is_on_path(it) || it.starts_with('/')) {
            return Some(Self(program.to_owned()));
        }
        let displays = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
        let has_display =
            cfg!(target_os = "macos") || displays.iter().any(|it| context.variable(it).is_some());
        let program = OPENERS.iter().find(|program| context.is_on_path(program));
        program.filter(|_| has_display).map(|program| Self((*program).to_owned()))
    }

    /// Starts the program. It may run for as long as the browser does.
    fn open(&self, link: &str) -> Option<Child> {
        let mut command = Command::new(&self.0);
        command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().inspect_err(|error| self.failed(error)).ok()
    }

    fn failed(&self, error: &std::io::Error) {
        let program = visible(&self.0);
        output::remark(&format!("warning: {program} cannot open the link: {error}"));
    }
}

/// The line that is printed when the server takes requests.
#[derive(Debug, Serialize)]
struct Serving<'a> {
    /// What is shown.
    source: &'a str,
    /// The address of the page.
    url: String,
    /// The link that opens the page once.
    link: String,
}

impl Serving<'_> {
    fn text(&self) -> String {
        let Self { source, url, link } = self;
        let source = printable(source);
        format!(
            "showing {source} at {url}; Ctrl-C ends it\n\
             open the page, once and within 10 minutes:\n  {link}"
        )
    }
}

/// Shows a stream, also while it is written.
pub(super) async fn stream(
    context: &Context,
    given: GivenStream,
    name: &str,
    opener: Option<Opener>,
) -> Result<(), Failure> {
    // A file can have been written long ago. What comes through a pipe comes now.
    let clock = if given.is_file() { Clock::Lines } else { Clock::Recorded };
    let (refuse, refused) = oneshot::channel();
    let mut watched =
        Watched { name: name.to_owned(), first: FirstLines::default(), refuse: Some(refuse) };
    let timed = move |read| (SystemClock.now_ms(), watched.piece(read));
    let pieces = viewed::read_in_thread(given, timed).map_err(Failure::internal)?;
    let replay = StreamReplay::new(name, clock);
    let refused = async {
        match refused.await {
            Ok(failure) => {
                // A page that is open already learns of the end before its server is gone.
                sleep(PAGE_LEARNS).await;
                failure
            }
            Err(_) => std::future::pending().await,
        }
    };
    serve(context, name, Viewed::Stream(Box::new(replay), pieces), opener, refused).await
}

/// Shows the records of a team.
pub(super) async fn records(
    context: &Context,
    records: &TeamRecords,
    opener: Option<Opener>,
) -> Result<(), Failure> {
    let replay = Replay::of_records(records).await?;
    let name = format!("team {}", replay.name);
    let never = std::future::pending();
    serve(context, &name, Viewed::Replay(Box::new(replay)), opener, never).await
}

/// A stream whose pieces are shown in the browser. What the user must know is told in the terminal
/// too.
struct Watched {
    name: String,
    first: FirstLines,
    /// Ends the server, because the stream had nothing to show.
    refuse: Option<oneshot::Sender<Failure>>,
}

impl Watched {
    fn piece(&mut self, read: Result<Vec<u8>, End>) -> Piece {
        match read {
            Ok(bytes) => {
                self.first.feed(&bytes);
                Piece::Bytes(bytes)
            }
            Err(End::ForNow | End::NotYet) => Piece::EndForNow,
            Err(End::BegunAgain) => {
                self.tell(BEGUN_AGAIN);
                Piece::BegunAgain
            }
            Err(End::Reached) => {
                if let Some(failure) = self.first.refusal(&self.name)
                    && let Some(refuse) = self.refuse.take()
                {
                    // The server may have ended already.
                    let _either = refuse.send(failure);
                }
                Piece::End(None)
            }
            Err(End::Broken(reason)) => {
                self.tell(&reason);
                Piece::End(Some(reason))
            }
        }
    }

    fn tell(&self, what: &str) {
        output::remark(&format!("{}: {what}", printable(&self.name)));
    }
}

async fn serve(
    context: &Context,
    source: &str,
    shown: Viewed,
    opener: Option<Opener>,
    refused: impl Future<Output = Failure>,
) -> Result<(), Failure> {
    // The handlers are there before the line is printed, so that a caller that has read it can end
    // the server.
    let mut signals = Signals::listen()?;
    let server = bind(context).await?;
    let (url, link) = (server.url().to_owned(), server.link());
    let serving = Serving { source, url, link };
    context.output.item(&serving, Serving::text)?;
    let _browser = opener.and_then(|opener| opener.open(&serving.link));
    let mut failure = None;
    let end = async {
        tokio::select! {
            _signal = signals.next() => {}
            refused = refused => failure = Some(refused),
        }
    };
    server.serve_view(shown, end).await;
    failure.map_or(Ok(()), Err)
}

/// Binds a free port. Only the link opens the page: no program gets this server's token.
async fn bind(context: &Context) -> Result<Server, Failure> {
    let token = [Uuid::new_v4(), Uuid::new_v4()].map(|id| id.simple().to_string()).concat();
    let no_teams = "this server shows one run and makes no teams";
    let settings = context.usable_settings();
    let files = context.files(&settings)?;
    let reads = Arc::new(context.files(&settings)?.putting_back_when_asked());
    let options = Options {
        teams: context.teams()?,
        reads: Context::teams_in(reads, &settings)?,
        root: context.root.clone(),
        new_teams: NewTeams::Refused(ApiError::new(ErrorCode::PermissionDenied, no_teams)),
        worktrees: context.worktrees(&context.cwd),
        token: Token::new(token).map_err(Failure::internal)?,
        devices: Devices::new(files, Arc::new(SystemClock)),
        reach: Reach::Loopback { port: 0 },
    };
    Server::bind(options).await.map_err(|error| Failure::new(FailureKind::Failed, error))
}
