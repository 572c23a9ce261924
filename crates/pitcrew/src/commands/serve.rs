//! `pitcrew serve`: serves the HTTP API and the page of all teams below the root.

mod reached;

use std::io::ErrorKind;
use std::sync::Arc;

use pitcrew_process::job::TAG_VARIABLE;
use pitcrew_protocol::{ApiError, ErrorCode};
use pitcrew_team::SystemClock;
use pitcrew_team::store::WebServerRecord;
use pitcrew_web::{Certificate, Devices, NewTeams, Options, Reach, ServeError, Server, Token};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::live::signals::Signals;
use crate::output;
use crate::run_options;
use crate::web_servers::{self, RunningServer};

/// The port if the user gives none.
pub(crate) const PORT: u16 = 7420;

/// Serve all teams below the root to browsers and programs
///
/// It prints a link that opens the page in a browser. The link works once, within 10 minutes.
/// Programs call the HTTP API below /api/ with the token, which is in a file that only you can read.
/// The teams run on without the server. Ctrl-C ends it.
///
/// Without --listen, only processes of yours on this machine can connect. With it, other machines
/// can connect over TLS, and whoever has the link, the token or a paired device gets in. What a tool
/// of an agent started on this machine is always refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew serve
  pitcrew serve --port 0 --json    a free port, printed as JSON
  pitcrew serve --listen 0.0.0.0   also for other machines, with a self-signed certificate
  pitcrew serve --listen 0.0.0.0:443 --tls-cert fullchain.pem --tls-key privkey.pem
  pitcrew serve --behind-proxy https://team.example.org
  curl -H \"Authorization: Bearer $(cat ~/.claude/pitcrew/web/token)\" http://127.0.0.1:7420/api/teams")]
pub(crate) struct Serve {
    #[command(flatten)]
    reached: reached::Reached,
}

/// The line that is printed when the server takes requests.
#[derive(Debug, Serialize)]
pub(super) struct Serving {
    /// The address of the API and the page.
    pub(super) url: String,
    /// The link that opens the page once.
    link: String,
    /// The file with the token of programs. `None` if the root cannot be written and has none.
    token_file: Option<String>,
    /// The certificate, if the server speaks TLS itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<ServedCertificate>,
    /// Whether the root can only be read. Then nothing can be changed.
    is_read_only: bool,
    #[serde(skip)]
    is_behind_proxy: bool,
}

#[derive(Debug, Serialize)]
struct ServedCertificate {
    /// The SHA-256 fingerprint.
    fingerprint: String,
    is_self_signed: bool,
}

/// What is known of a server when it is bound.
pub(super) struct Bound {
    pub(super) server: Server,
    pub(super) serving: Serving,
    /// The record by which `pitcrew devices add` finds the server, until it is dropped.
    pub(super) record: Option<WebServerRecord>,
}

impl Serve {
    /// Returns a server of this machine on a free port.
    pub(super) fn on_free_port() -> Self {
        Self { reached: reached::Reached::on_free_port() }
    }

    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        context.at_length(async {
            // The handlers are there before the line is printed, so that a caller that has read it
            // can end the server.
            let mut signals = Signals::listen()?;
            let Bound { server, serving, record: _record } = self.open(context).await?;
            context.output.item(&serving, Serving::text)?;
            server.serve(async { _ = signals.next().await }).await;
            Ok(())
        })
    }

    /// Binds the address.
    ///
    /// # Errors
    /// Returns an error if a tool of an agent started this process, or if the port cannot be used.
    pub(super) async fn open(self, context: &Context) -> Result<Bound, Failure> {
        // What a tool of an agent started may not act as the user.
        if context.environment.contains_key(TAG_VARIABLE) {
            let said = "a tool of an agent started this, and only the user may serve the teams";
            return Err(ApiError::new(ErrorCode::PermissionDenied, said).into());
        }
        self.bind(context).await
    }

    async fn bind(self, context: &Context) -> Result<Bound, Failure> {
        let settings = context.usable_settings();
        let files = context.files(&settings)?;
        let reads = Arc::new(context.files(&settings)?.putting_back_when_asked());
        let token = files.web_token().await.map_err(Failure::internal)?;
        let reach = self.reached.reach(&files).await?;
        let certificate = match &reach {
            Reach::Tls { certificate, .. } => Some(ServedCertificate::of(certificate)),
            Reach::Loopback { .. } | Reach::Proxy { .. } => None,
        };
        let is_behind_proxy = matches!(reach, Reach::Proxy { .. });
        let options = Options {
            teams: context.teams()?,
            reads: Context::teams_in(reads, &settings)?,
            root: context.root.clone(),
            new_teams: new_teams(context),
            worktrees: context.worktrees(&context.cwd).with_ignored(settings.ignored_files()),
            token: Token::new(token.text).map_err(Failure::internal)?,
            devices: Devices::new(files.clone(), Arc::new(SystemClock)),
            reach,
        };
        let server = Server::bind(options).await.map_err(not_bound)?;
        let token_file = token.is_kept.then(|| files.web_token_file().display().to_string());
        let (url, link) = (server.url().to_owned(), server.link());
        let is_read_only = token.is_read_only;
        let serving = Serving { url, link, token_file, certificate, is_read_only, is_behind_proxy };
        let record = match is_read_only {
            true => None,
            false => web_servers::recorded(&files, &serving.record()).await,
        };
        Ok(Bound { server, serving, record })
    }
}

fn not_bound(error: ServeError) -> Failure {
    let ServeError::Bind { address, source } = &error;
    let hint = match source.kind() {
        ErrorKind::AddrNotAvailable => format!(
            "{} is no address of this machine; `--listen 0.0.0.0` listens at all that it has",
            address.ip()
        ),
        ErrorKind::PermissionDenied => {
            format!("only root may take port {}; `--port 7420` is free for all", address.port())
        }
        _ => "`pitcrew serve --port 0` takes a free port".to_owned(),
    };
    Failure::new(FailureKind::Failed, error).hint(hint)
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

impl ServedCertificate {
    fn of(certificate: &Certificate) -> Self {
        let fingerprint = certificate.fingerprint().to_owned();
        Self { fingerprint, is_self_signed: certificate.is_self_signed() }
    }
}

impl Serving {
    /// Returns how devices reach the server.
    fn record(&self) -> RunningServer {
        let is_local = ["//127.", "//localhost", "//[::1]"].iter().any(|it| self.url.contains(it));
        let own = self.certificate.as_ref().filter(|it| it.is_self_signed);
        RunningServer {
            url: self.url.clone(),
            is_public: !is_local,
            fingerprint: own.map(|it| it.fingerprint.clone()),
        }
    }

    pub(super) fn text(&self) -> String {
        let Self { url, link, token_file, certificate, is_read_only, is_behind_proxy } = self;
        let token = match token_file {
            Some(file) => format!("programs send the token in {}", output::visible(file)),
            None => "there is no token for programs, because no file can be made for it".to_owned(),
        };
        let warning = match is_read_only {
            true => "\nthe root can only be read: nothing can be changed, and no device paired",
            false => "",
        };
        let certificate = match certificate {
            Some(ServedCertificate { fingerprint, is_self_signed: true }) => format!(
                "the certificate is self-signed: compare its SHA-256 fingerprint with the browser's\n  \
                 {fingerprint}\n\
                 the page cannot be installed: a browser allows no service worker without a \
                 certificate that it trusts"
            ),
            Some(ServedCertificate { fingerprint, is_self_signed: false }) => format!(
                "SHA-256 fingerprint of the certificate:\n  {fingerprint}\n\
                 the page can be installed where the browser trusts the certificate"
            ),
            None if *is_behind_proxy => {
                "the page can be installed where the browser trusts the proxy's certificate"
                    .to_owned()
            }
            None => "the page can be installed from the browser's menu".to_owned(),
        };
        format!(
            "serving all teams at {url}; Ctrl-C ends it\n\
             open the page, once and within 10 minutes:\n  {link}\n{token}\n{certificate}{warning}"
        )
    }
}
