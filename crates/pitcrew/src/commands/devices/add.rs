//! `pitcrew devices add`: makes a one-time code that pairs a device.

use clap::ValueEnum;
use pitcrew_web::{HostName, Invitation, Scope};
use serde::Serialize;

use super::{failed, files_of_user, of_files};
use crate::commands::serve::PORT;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::qr::{self, Drawing};
use crate::web_servers::{self, RunningServer};

/// Make a one-time code that pairs a device with `pitcrew serve`
///
/// It prints a link for a browser and the code for a program, which sends it as
/// `POST /pair {"code": CODE}` and gets its token. The code works once, within 10 minutes, and ends
/// after five wrong codes.
///
/// The link is that of the server that runs. If other machines can reach the server, a terminal also
/// shows the link as a QR code. Otherwise a browser elsewhere needs a forwarded port, such as that
/// of `ssh -L`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew devices add --scope watch
  pitcrew devices add --name phone --scope answer
  pitcrew devices add --scope watch --url https://team.example.org
  pitcrew devices add --name ci --scope everything --json")]
pub(crate) struct Add {
    /// The name of the device: 1 to 32 letters, digits, '-' and '_' [default: device-N]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// What the device may do
    #[arg(long, value_enum, value_name = "SCOPE")]
    scope: GivenScope,

    /// The port of the server on this machine, for the link [default: that of the server that runs]
    #[arg(long, value_name = "PORT", conflicts_with = "url")]
    port: Option<u16>,

    /// The address under which the device reaches the server, for the link
    #[arg(long, value_name = "URL", value_parser = origin)]
    url: Option<String>,
}

/// Reads the origin of a server: `https://HOST[:PORT]` or `http://HOST[:PORT]`.
fn origin(text: &str) -> Result<String, &'static str> {
    const FORM: &str = "it must be https://HOST or https://HOST:PORT, without a path";
    let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
    if !["https", "http"].contains(&scheme) {
        return Err(FORM);
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (rest, None),
    };
    let host = HostName::parse(host).map_err(|_| FORM)?;
    match port.map(str::parse::<u16>) {
        None => Ok(format!("{scheme}://{host}")),
        Some(Ok(port)) => Ok(format!("{scheme}://{host}:{port}")),
        Some(Err(_)) => Err(FORM),
    }
}

/// The scope of a device, as it is given on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GivenScope {
    /// Read everything
    Watch,
    /// Also answer questions and plans, and write messages
    Answer,
    /// Do everything that you can do
    Everything,
}

#[derive(Debug, Serialize)]
struct Added {
    name: String,
    scope: Scope,
    code: String,
    /// The origin of the server, such as `https://team.example.org`.
    url: String,
    /// The link that pairs a browser.
    link: String,
    /// The fingerprint of a certificate that browsers do not trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    ends_at_ms: i64,
    /// Whether other machines can reach the server.
    #[serde(skip)]
    is_public: bool,
    /// Whether a server runs, as far as is known.
    #[serde(skip)]
    is_there: bool,
}

impl Add {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let Self { name, scope, port, url } = self;
        let scope = match scope {
            GivenScope::Watch => Scope::Watch,
            GivenScope::Answer => Scope::Answer,
            GivenScope::Everything => Scope::Everything,
        };
        let files = files_of_user(context)?;
        let devices = of_files(files.clone());
        let (made, server) = context.briefly(async {
            let server = match (url, port) {
                (Some(url), _) => Some(RunningServer { url, is_public: true, fingerprint: None }),
                (None, Some(port)) => Some(on_this_machine(port)),
                (None, None) => web_servers::running(&files).await.map_err(Failure::internal)?,
            };
            Ok((devices.invite(name, scope).await.map_err(failed)?, server))
        })?;
        let Invitation { name, scope, code, ends_at_ms } = made;
        let is_there = server.is_some();
        let server = server.unwrap_or_else(|| on_this_machine(PORT));
        let RunningServer { url, is_public, fingerprint } = server;
        let link = format!("{url}/pair/{code}");
        let added =
            Added { name, scope, code, url, link, fingerprint, ends_at_ms, is_public, is_there };
        context.output.answer(&added, |added| added.text(context.output.form()))
    }
}

/// A server of which only the port is known.
fn on_this_machine(port: u16) -> RunningServer {
    RunningServer { url: format!("http://127.0.0.1:{port}"), is_public: false, fingerprint: None }
}

impl Added {
    fn text(&self, form: Form) -> String {
        let Self { name, scope, code, link, .. } = self;
        let mut text = format!(
            "pair device {name} (scope {}), once and within 10 minutes, while `pitcrew serve` runs\n  \
             a browser opens   {link}\n  \
             a program sends   POST /pair {{\"code\": \"{code}\"}}",
            scope.as_str()
        );
        if let Some(fingerprint) = &self.fingerprint {
            text += "\nthe certificate is self-signed: compare its SHA-256 fingerprint with the ";
            text += &format!("browser's\n  {fingerprint}");
        }
        if !self.is_there {
            text += "\nno server runs: start `pitcrew serve`, for other machines with --listen";
        } else if !self.is_public {
            text += &self.how_from_elsewhere();
        } else if let Some(picture) = self.picture(form) {
            text += &format!("\n\n{picture}");
        }
        text
    }

    /// Says how a browser on another machine reaches a server that listens on this one only.
    fn how_from_elsewhere(&self) -> String {
        let port = self.url.rsplit_once(':').map_or("7420", |(_, port)| port);
        format!(
            "\nthe server listens on this machine only; a browser elsewhere needs first\n  \
             ssh -L {port}:127.0.0.1:{port} HOST"
        )
    }

    /// Returns the link as a QR code, if stdout is a terminal.
    fn picture(&self, form: Form) -> Option<String> {
        let is_styled = output::styled_terminal().filter(|_| form == Form::Text)?;
        let drawing = if is_styled { Drawing::Ink } else { Drawing::Plain };
        // A link that is too long for a QR code is in the text all the same.
        qr::drawn(&self.link, drawing).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_host_and_no_path() {
        let read = |text| origin(text).ok();
        let same = |text: &str| Some(text.to_owned());
        assert_eq!(read("https://Team.example.org/"), same("https://team.example.org"));
        assert_eq!(read("http://192.168.1.5:7420"), same("http://192.168.1.5:7420"));
        assert_eq!(read("https://[::1]:1"), same("https://[::1]:1"));
        for other in ["", "team.example.org", "ftp://a", "https://", "https://a/b", "https://a:x"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
