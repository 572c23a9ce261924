//! `pitcrew serve`: serves the HTTP API and the page of all teams below the root.

use std::sync::Arc;

use pitcrew_process::job::TAG_VARIABLE;
use pitcrew_process::worktree::Worktrees;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_team::SystemClock;
use pitcrew_web::{Devices, NewTeams, Options, Server, Token};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::live::signals::Signals;
use crate::output;
use crate::run_options;

/// The port if the user gives none.
pub(crate) const PORT: u16 = 7420;

/// Serve all teams below the root to browsers and programs on this machine
///
/// It prints a link that opens the page in a browser. The link works once, within 10 minutes.
/// Programs call the HTTP API below /api/ with the token, which is in a file that only you can read.
/// Only processes of yours on this machine can connect, and what a tool of an agent started is
/// refused. The teams run on without the server. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew serve
  pitcrew serve --port 0 --json    a free port, printed as JSON
  curl -H \"Authorization: Bearer $(cat ~/.claude/pitcrew/web/token)\" http://127.0.0.1:7420/api/teams")]
pub(crate) struct Serve {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
}

/// The line that is printed when the server takes requests.
#[derive(Debug, Serialize)]
pub(super) struct Serving {
    /// The address of the API and the page.
    pub(super) url: String,
    /// The link that opens the page once.
    link: String,
    /// The file with the token of programs.
    token_file: String,
}

impl Serve {
    /// Returns a server of this machine on a free port.
    pub(super) fn on_free_port() -> Self {
        Self { port: 0 }
    }

    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        context.at_length(async {
            // The handlers are there before the line is printed, so that a caller that has read it
            // can end the server.
            let mut signals = Signals::listen()?;
            let (server, serving) = self.open(context).await?;
            context.output.item(&serving, Serving::text)?;
            server.serve(async { _ = signals.next().await }).await;
            Ok(())
        })
    }

    /// Binds the port. Returns the server and the line that says how to reach it.
    ///
    /// # Errors
    /// Returns an error if a tool of an agent started this process, or if the port cannot be used.
    pub(super) async fn open(&self, context: &Context) -> Result<(Server, Serving), Failure> {
        // What a tool of an agent started may not act as the user.
        if context.environment.contains_key(TAG_VARIABLE) {
            let said = "a tool of an agent started this, and only the user may serve the teams";
            return Err(ApiError::new(ErrorCode::PermissionDenied, said).into());
        }
        let server = self.bind(context).await?;
        let (url, link) = (format!("http://{}", server.address()), server.link());
        let token_file = context.files(&context.usable_settings())?.web_token_file();
        let token_file = token_file.display().to_string();
        Ok((server, Serving { url, link, token_file }))
    }

    async fn bind(&self, context: &Context) -> Result<Server, Failure> {
        let settings = context.usable_settings();
        let files = context.files(&settings)?;
        let token = files.web_token().await.map_err(Failure::internal)?;
        let folder = Worktrees::folder_below(&context.root);
        let options = Options {
            teams: context.teams()?,
            root: context.root.clone(),
            new_teams: new_teams(context),
            worktrees: Worktrees::new(&context.cwd, folder).with_ignored(settings.ignored_files()),
            token: Token::new(token).map_err(Failure::internal)?,
            devices: Devices::new(files, Arc::new(SystemClock)),
            port: self.port,
        };
        Server::bind(options).await.map_err(|error| {
            let failure = Failure::new(FailureKind::Failed, error);
            failure.hint("`pitcrew serve --port 0` takes a free port")
        })
    }
}

/// Says in which folder the lead of a new team works, or why no team can be made.
fn new_teams(context: &Context) -> NewTeams {
    match run_options::teams_must_be_on(context) {
        Ok(()) => NewTeams::In(context.cwd.clone()),
        Err(failure) => {
            let error =
                ApiError::new(ErrorCode::PermissionDenied, output::visible(&failure.chain()));
            NewTeams::Refused(error)
        }
    }
}

impl Serving {
    pub(super) fn text(&self) -> String {
        let Self { url, link, token_file } = self;
        format!(
            "serving all teams at {url}; Ctrl-C ends it\n\
             open the page, once and within 10 minutes:\n  {link}\n\
             programs send the token in {token_file}"
        )
    }
}
