//! `pitcrew view`: shows a run without taking part: the stream-json of a client, or a team's
//! records.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCompleter;
use pitcrew_process::given_file::Refused;
use pitcrew_process::given_stream::GivenStream;
use pitcrew_team::TeamRecords;
use pitcrew_view::recorded::Recorded;
use pitcrew_view::running::Running;

mod first_lines;
mod in_browser;
mod printed;

use in_browser::Opener;

use crate::completing;
use crate::context::Context;
use crate::failure::{Explained, Failure, FailureKind};
use crate::live::viewed;
use crate::output::{self, Form, printable, shell_word};
use crate::selection;

/// The word that means the standard input.
const STDIN: &str = "-";

/// Show a run without taking part: a client's stream-json, or a team that has ended
///
/// The stream is a file with the stream-json of Claude Code or of pitcrew, or a pipe that a client
/// writes into. A team is named as in `pitcrew log`. A word with a slash is a file, and so is the
/// name of a file in this folder; --team names a team in any case.
///
/// A replay opens in the browser: cards, tasks, timeline and conversations as they were at any
/// moment. It follows a pipe, and a file that grows or is begun again, as `tail -F` does. A server
/// on this machine serves it until Ctrl-C, and prints a link that opens it once. --no-open only
/// prints the link, also where there is no display: over SSH, forward the port.
///
/// Without a display or a browser, or with --tui, the terminal interface opens: the conversation of
/// each agent, the team, its tasks, the timeline and the summary. It takes its keys from the terminal.
/// If the output is no terminal, the timeline is printed, and then the agents, the tasks and the cost
/// by model. --json prints the state of the team as one document. None of them sends messages or
/// answers.
///
/// Lines that are unknown, unreadable or longer than 32 MB are skipped and counted. Of a long stream,
/// the latest 100,000 entries of the timeline are kept, and the latest parts of each conversation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew view session.ndjson
  pitcrew view session.ndjson --no-open
  pitcrew view session.ndjson --tui
  claude -p --output-format stream-json --verbose \"GOAL\" | pitcrew view - --tui
  pitcrew view backend --tui       the records of a team that was stopped or has ended
  pitcrew view backend --json")]
pub(crate) struct View {
    /// A file, - for the standard input, or a team [default: the team that runs in this repository,
    /// else the one that was stopped here, else the last archived one]
    #[arg(value_name = "FILE|TEAM", add = ArgValueCompleter::new(completing::files_and_teams))]
    what: Option<PathBuf>,
    /// The team, instead of the positional argument
    #[arg(long, short = 't', value_name = "TEAM", conflicts_with = "what",
        add = ArgValueCompleter::new(completing::resumable_teams))]
    team: Option<String>,
    /// Open the terminal interface
    #[arg(long)]
    tui: bool,
    /// Print the link of the replay, and open no browser
    #[arg(long, conflicts_with = "tui")]
    no_open: bool,
}

/// How it is shown.
#[derive(Debug)]
enum Face {
    /// In the browser. Without a program that opens the link, the user does.
    Browser(Option<Opener>),
    /// In the terminal interface.
    Terminal,
    /// As text or as one JSON document.
    Printed,
}

/// What is shown.
#[derive(Debug)]
enum Source<'a> {
    Stdin,
    File(&'a Path),
    Team(Option<&'a str>),
}

impl View {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let face = self.face(context)?;
        match self.source(&context.cwd)? {
            Source::Stdin => show(context, stdin()?, "standard input", face),
            Source::File(path) => {
                let name = output::visible(&path.display().to_string());
                let stream = GivenStream::open(&context.cwd.join(path));
                show(context, stream.map_err(|refused| unopened(&name, refused))?, &name, face)
            }
            Source::Team(name) => context.at_length(self.team(context, name, face)),
        }
    }

    /// Decides how it is shown.
    fn face(&self, context: &Context) -> Result<Face, Failure> {
        if self.tui {
            may_open(context)?;
            return Ok(Face::Terminal);
        }
        if self.no_open {
            return Ok(Face::Browser(None));
        }
        if context.output.form() == Form::Json || !std::io::stdout().is_terminal() {
            return Ok(Face::Printed);
        }
        Ok(match Opener::find(context) {
            Some(opener) => Face::Browser(Some(opener)),
            None if viewed::is_possible(context) => Face::Terminal,
            None => Face::Printed,
        })
    }

    /// Decides what the positional argument means.
    fn source(&self, folder: &Path) -> Result<Source<'_>, Failure> {
        let Some(what) = &self.what else { return Ok(Source::Team(self.team.as_deref())) };
        if what.as_os_str() == OsStr::new(STDIN) {
            return Ok(Source::Stdin);
        }
        let has_slash = what.as_os_str().as_encoded_bytes().contains(&b'/');
        let is_file = || folder.join(what).metadata().is_ok_and(|found| !found.is_dir());
        if has_slash || is_file() {
            return Ok(Source::File(what));
        }
        let name = what.to_str().ok_or_else(|| Failure::usage("there is no file of this name"))?;
        Ok(Source::Team(Some(name)))
    }

    async fn team(&self, context: &Context, name: Option<&str>, face: Face) -> Result<(), Failure> {
        let records = selection::records(context, name).await.map_err(|failure| {
            match self.what.as_deref().filter(|_| failure.kind == FailureKind::NotFound) {
                Some(what) if context.cwd.join(what).is_dir() => {
                    failure.hint("there is a folder of this name, but only a file is shown")
                }
                Some(_) => failure.hint("there is no file of this name either"),
                None => failure,
            }
        })?;
        tell_running(context, &records).await?;
        if let Face::Browser(opener) = face {
            return in_browser::records(context, &records, opener).await;
        }
        let mut recorded = Recorded::read(&records).await?;
        recorded.check_records(&records).await?;
        if matches!(face, Face::Terminal) {
            return viewed::records(context, records, recorded).await;
        }
        for text in &recorded.unread {
            output::remark(&format!("warning: {}", output::visible(text)));
        }
        printed::records(context, &recorded)
    }
}

fn show(context: &Context, mut stream: GivenStream, name: &str, face: Face) -> Result<(), Failure> {
    if !matches!(face, Face::Printed) {
        first_lines::check(&mut stream, name)?;
    }
    match face {
        Face::Browser(opener) => {
            context.at_length(in_browser::stream(context, stream, name, opener))
        }
        Face::Terminal => context.briefly(viewed::stream(context, stream, name)),
        Face::Printed => printed::stream(context, stream, name),
    }
}

/// Checks that the terminal interface can be opened.
fn may_open(context: &Context) -> Result<(), Failure> {
    if context.output.form() == Form::Json {
        return Err(Failure::usage("the terminal interface has no JSON")
            .hint("without --tui, --json prints the state of the team as one document"));
    }
    if !viewed::is_possible(context) {
        return Err(Failure::usage("the terminal interface needs a terminal")
            .hint("without --tui, the timeline and a summary are printed"));
    }
    Ok(())
}

fn stdin() -> Result<GivenStream, Failure> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::usage("the standard input is a terminal, and no stream").hint(
            "`claude -p --output-format stream-json --verbose \"GOAL\" | pitcrew view -` reads one",
        ));
    }
    GivenStream::stdin().map_err(|error| {
        Failure::internal(Explained::new("the standard input cannot be read", error))
    })
}

fn unopened(name: &str, refused: Refused) -> Failure {
    match refused {
        Refused::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::new(FailureKind::NotFound, format!("there is no file {}", printable(name)))
        }
        refused => Failure::unusable(Explained::new(
            format!("{} cannot be shown", printable(name)),
            refused,
        )),
    }
}

/// Says how to follow a team that runs, because its records are shown as they are now.
async fn tell_running(context: &Context, records: &TeamRecords) -> Result<(), Failure> {
    let TeamRecords::Live(team) = records else { return Ok(()) };
    let running = Running::of(team, team.config().await?.as_ref()).await?;
    if matches!(running, Running::ByPitcrew { .. }) {
        let (root, word) = (context.root_flag(), shell_word(team.name().as_str()));
        output::remark(&format!(
            "team {word} runs, and this is its state now; `pitcrew{root} attach {word}` follows it"
        ));
    }
    Ok(())
}
