//! `pitcrew export`: writes a run or a conversation as a document, or a run as a replay.

use std::path::PathBuf;

use clap::ArgGroup;
use clap_complete::engine::ArgValueCompleter;
use pitcrew_team::TeamRecords;
use pitcrew_tui::ExportOf;
use pitcrew_view::markdown_export::{Detail, Exported};
use pitcrew_view::masking::Masked;
use serde::Serialize;

use crate::completing;
use crate::context::Context;
use crate::exporting::{self, Existing, ReplayFile};
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::selection::{self, AnyTeamWord};

/// The name of the file that means the standard output.
const STDOUT: &str = "-";

/// Write a run as a markdown document, or as a replay in one HTML file
///
/// The team may run, be stopped or be in the archive. What looks like a key, a token or a password is
/// masked, and so are the values of the variables with a secret name in the environment of the team's
/// runs. The file lists what was masked. Read it before you publish it.
///
/// --markdown writes the goal, the agents, the tasks, the events and the conversations. A tool call is
/// one line, and so is its result; --full writes whole inputs and results.
///
/// --html writes a page that plays the run: the team as it was at any moment. A browser opens it from
/// the disk. It needs no server and no network, and makes no request.
///
/// The file must be new, or --force replaces it. Without FILE, the markdown is printed.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("form").required(true).args(["markdown", "html"]))]
#[command(after_help = "Examples:
  pitcrew export --markdown run.md              the team of this repository
  pitcrew export backend --markdown             prints the document
  pitcrew export backend --agent bob --markdown bob.md
  pitcrew export backend --html replay.html     a replay, for any browser")]
pub(crate) struct Export {
    #[command(flatten)]
    team: AnyTeamWord,
    /// Write markdown into this file; - and no FILE print it
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    markdown: Option<String>,
    /// Write a replay into this file, a page for a browser
    #[arg(long, value_name = "FILE", conflicts_with_all = ["agent", "full"])]
    html: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Write only the conversation of this agent
    #[arg(long, value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    agent: Option<String>,
    /// Write whole inputs and results of tool calls, and the thoughts of the model
    #[arg(long)]
    full: bool,
}

/// The result that `pitcrew export --markdown` prints with `--json`.
#[derive(Debug, Serialize)]
struct Written {
    success: bool,
    /// The file. Null if the document is printed.
    file: Option<PathBuf>,
    /// The document. Null if it is in the file.
    markdown: Option<String>,
    /// What was masked.
    masked: Vec<Masked>,
    /// What is missing or cannot be read, as texts for a person.
    unread: Vec<String>,
}

/// The result that `pitcrew export --html` prints with `--json`.
#[derive(Debug, Serialize)]
struct WrittenReplay {
    success: bool,
    file: PathBuf,
    /// The size of the file.
    bytes: usize,
    /// The number of events in the replay.
    events: usize,
    /// The number of older events that are not in the replay.
    left_out: u64,
    /// What was masked.
    masked: Vec<Masked>,
    /// What could not be read, as texts for a person.
    unread: Vec<String>,
}

impl Export {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.html.as_deref() == Some(STDOUT) {
            return Err(Failure::usage("a replay is written into a file, and not printed")
                .hint("name the file: --html run.html"));
        }
        let records = selection::records(context, self.team.name()).await?;
        match &self.html {
            Some(file) => self.replay(context, &records, file).await,
            None => self.markdown(context, &records).await,
        }
    }

    async fn markdown(&self, context: &Context, records: &TeamRecords) -> Result<(), Failure> {
        let of = match &self.agent {
            Some(agent) => ExportOf::Conversation(records.member(agent).await?),
            None => ExportOf::Run,
        };
        let detail = if self.full { Detail::Whole } else { Detail::Brief };
        let exported = exporting::document(context, records, &of, detail).await?;
        warn(&exported.unread);
        let file = self.markdown.as_deref().unwrap_or(STDOUT);
        if file == STDOUT {
            return printed(context, exported);
        }
        let path = self.write(context, file, &exported.text)?;
        let said = exporting::in_words(&path, &exported.masked);
        let Exported { masked, unread, .. } = exported;
        let written = Written { success: true, file: Some(path), markdown: None, masked, unread };
        context.output.answer(&written, |_| said)
    }

    async fn replay(
        &self,
        context: &Context,
        records: &TeamRecords,
        file: &str,
    ) -> Result<(), Failure> {
        let replay = exporting::replay_file(records).await?;
        warn(&replay.unread);
        let path = self.write(context, file, &replay.html)?;
        let size = replay.in_words();
        let said = format!("{}\n{size}", exporting::in_words(&path, &replay.masked));
        let ReplayFile { html, events, left_out, masked, unread } = replay;
        let written = WrittenReplay {
            success: true,
            file: path,
            bytes: html.len(),
            events,
            left_out,
            masked,
            unread,
        };
        context.output.answer(&written, |_| said)
    }

    fn write(&self, context: &Context, file: &str, text: &str) -> Result<PathBuf, Failure> {
        let existing = match self.force {
            true => Existing::Replaced,
            false => Existing::Kept(Some("--force replaces it")),
        };
        exporting::write(context, file, text, existing)
    }
}

fn warn(unread: &[String]) {
    for text in unread {
        output::remark(&format!("warning: {}", output::visible(text)));
    }
}

/// Prints a document. On a terminal nothing in it is a control character, because the document has
/// none.
fn printed(context: &Context, exported: Exported) -> Result<(), Failure> {
    match context.output.form() {
        Form::Text => output::line(exported.text.trim_end()),
        Form::Json => {
            let Exported { text, masked, unread } = exported;
            let written =
                Written { success: true, file: None, markdown: Some(text), masked, unread };
            context.output.answer(&written, |_| String::new())
        }
    }
}
