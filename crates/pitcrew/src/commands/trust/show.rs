//! `pitcrew trust show`: shows what a project's files would do.

use std::path::PathBuf;

use clap::ValueHint;
use pitcrew_permission::trust::{Item, LeftOut, Trust, TrustState};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::visible;
use crate::trusting;

/// Show what a project's files would do, and whether they are trusted; nothing is changed
///
/// The default FOLDER is the working folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew trust show
  pitcrew trust show ~/src/backend")]
pub(crate) struct Show {
    /// The folder of the project
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Shown {
    /// The top folder of the project's repository.
    folder: PathBuf,
    /// One word that says whether the project's files are trusted.
    state: &'static str,
    /// The effects that the project's files would have.
    things: Vec<Item>,
    /// For each file, the settings that never take effect from a project.
    never: Vec<Never>,
    #[serde(skip)]
    list: String,
    #[serde(skip)]
    said: &'static str,
}

#[derive(Debug, Serialize)]
struct Never {
    file: PathBuf,
    keys: Vec<String>,
}

impl Show {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let (project, folder) = trusting::find(context, self.folder.as_deref())?;
        let trust = Trust::load(&context.root).map_err(Failure::unusable)?;
        let (state, said) = in_words(trust.state(&project));
        let never = |left: &LeftOut| Never { file: left.file.clone(), keys: left.keys.clone() };
        let shown = Shown {
            folder,
            state,
            said,
            things: project.items().to_vec(),
            never: project.never().iter().map(never).collect(),
            list: trusting::list(&project),
        };
        context.output.answer(&shown, Shown::text)
    }
}

/// Describes whether the project's files are trusted: one word for JSON, and one sentence for
/// people.
fn in_words(state: TrustState) -> (&'static str, &'static str) {
    match state {
        TrustState::UsersOwn => ("users_own", "is the root itself, and its files count"),
        TrustState::NothingToTrust => ("nothing_to_trust", "has nothing that needs trust"),
        TrustState::Trusted => ("trusted", "is trusted, and its files do this:"),
        TrustState::Declined => {
            ("declined", "is not trusted, as you said. Its files would do this:")
        }
        TrustState::NotTrusted => ("not_trusted", "is not trusted. Its files would do this:"),
        TrustState::Grown => {
            ("grown", "was trusted when its files did less. Now they would do this:")
        }
    }
}

impl Shown {
    fn text(&self) -> String {
        let head = format!("{} {}", visible(&self.folder.display().to_string()), self.said);
        if self.list.is_empty() { head } else { format!("{head}\n{}", self.list) }
    }
}
