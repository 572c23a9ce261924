//! `pitcrew view`: shows a run without taking part: the stream-json of a client, or a team's
//! records.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCompleter;
use pitcrew_process::given_file::Refused;
use pitcrew_process::given_stream::GivenStream;
use pitcrew_team::TeamRecords;
use pitcrew_view::recorded::Recorded;
use pitcrew_view::running::Running;

mod printed;

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
/// The timeline is printed, and then the agents, the tasks and the cost by model. --json prints the
/// state of the team as one document. --tui opens the terminal interface: the conversation of each
/// agent, the team, its tasks, the timeline and the summary. It follows a pipe, and a file that
/// grows, and takes its keys from the terminal. It sends no messages and no answers.
///
/// Lines that are unknown, unreadable or longer than 32 MB are skipped and counted. Of a long stream,
/// the latest 100,000 entries of the timeline are kept, and the latest parts of each conversation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew view session.ndjson
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
        if self.tui {
            may_open(context)?;
        }
        match self.source(&context.cwd)? {
            Source::Stdin => self.stream(context, stdin()?, "standard input"),
            Source::File(path) => {
                let name = path.display().to_string();
                let stream = GivenStream::open(&context.cwd.join(path));
                self.stream(context, stream.map_err(|refused| unopened(&name, refused))?, &name)
            }
            Source::Team(name) => context.briefly(self.team(context, name)),
        }
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

    fn stream(&self, context: &Context, stream: GivenStream, name: &str) -> Result<(), Failure> {
        match self.tui {
            true => context.briefly(viewed::stream(context, stream, name)),
            false => printed::stream(context, stream, name),
        }
    }

    async fn team(&self, context: &Context, name: Option<&str>) -> Result<(), Failure> {
        let records = selection::records(context, name).await.map_err(|failure| {
            match failure.kind == FailureKind::NotFound && self.what.is_some() {
                true => failure.hint("there is no file of this name either"),
                false => failure,
            }
        })?;
        let mut recorded = Recorded::read(&records).await?;
        recorded.check_conversations(&records).await?;
        tell_running(context, &records).await?;
        if self.tui {
            return viewed::records(context, records, recorded).await;
        }
        for text in &recorded.unread {
            output::remark(&format!("warning: {text}"));
        }
        printed::records(context, &recorded)
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
    use std::io::IsTerminal as _;

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
