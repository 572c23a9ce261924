//! `pitcrew export`: writes a run or a conversation as a document.

use std::path::PathBuf;

use clap_complete::engine::ArgValueCompleter;
use pitcrew_tui::ExportOf;
use pitcrew_view::markdown_export::{Detail, Exported};
use pitcrew_view::masking::Masked;
use serde::Serialize;

use crate::completing;
use crate::context::Context;
use crate::exporting;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::selection::{self, AnyTeamWord};

/// The name of the file that means the standard output.
const STDOUT: &str = "-";

/// Write a run as a markdown document: its goal, agents, tasks, events and conversations
///
/// The team may run, be stopped or be in the archive. A tool call is one line, and so is its result;
/// --full writes whole inputs and results. What looks like a key, a token or a password is masked,
/// and so are the values of the variables with a secret name in the environment of the team's runs.
/// The document lists what was masked. Read it before you publish it.
///
/// The file must be new. Without FILE, the document is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew export --markdown run.md              the team of this repository
  pitcrew export backend --markdown             prints the document
  pitcrew export backend --agent bob --markdown bob.md")]
pub(crate) struct Export {
    #[command(flatten)]
    team: AnyTeamWord,
    /// Write markdown into this file; - and no FILE print it
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT, required = true)]
    markdown: String,
    /// Write only the conversation of this agent
    #[arg(long, value_name = "AGENT", add = ArgValueCompleter::new(completing::members))]
    agent: Option<String>,
    /// Write whole inputs and results of tool calls, and the thoughts of the model
    #[arg(long)]
    full: bool,
}

/// The result that `pitcrew export` prints with `--json`.
#[derive(Debug, Serialize)]
struct Written {
    success: bool,
    /// The file. Null if the document is printed.
    file: Option<PathBuf>,
    /// The document. Null if it is in the file.
    markdown: Option<String>,
    /// What was masked.
    masked: Vec<Masked>,
    /// The conversations with lines that cannot be read.
    unread: Vec<String>,
}

impl Export {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let records = selection::records(context, self.team.name()).await?;
        let of = match &self.agent {
            Some(agent) => ExportOf::Conversation(records.member(agent).await?),
            None => ExportOf::Run,
        };
        let detail = if self.full { Detail::Whole } else { Detail::Brief };
        let exported = exporting::document(context, &records, &of, detail).await?;
        for text in &exported.unread {
            output::remark(&format!("warning: {text}"));
        }
        if self.markdown == STDOUT {
            return printed(context, exported);
        }
        let path = exporting::write(context, Some(&self.markdown), "", &exported.text)?;
        let said = exporting::in_words(&path, &exported);
        let Exported { masked, unread, .. } = exported;
        let written = Written { success: true, file: Some(path), markdown: None, masked, unread };
        context.output.answer(&written, |_| said)
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
