//! `pitcrew trust list`: lists the stored answers about trust.

use std::path::Path;

use pitcrew_permission::trust::{Answer, FolderTrust, Trust, TrustState};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::trusting;

/// List the stored answers about trust in repositories, and whether each answer still covers what
/// the repository's files would do
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

#[derive(Debug, Serialize)]
struct Listed {
    folders: Vec<Row>,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    kept: FolderTrust,
    /// The number of effects of project files that the answer covers.
    things: usize,
    /// Whether the answer still covers everything that the files in the repository's top folder
    /// would do now. `None` if the files cannot be read.
    holds: Option<bool>,
}

impl List {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let trust = Trust::load(&context.root).map_err(Failure::unusable)?;
        let folders: Vec<Row> =
            trust.folders().iter().map(|kept| Row::of(context, &trust, kept)).collect();
        let listed = Listed { total: folders.len(), folders };
        context.output.answer(&listed, |listed| table(&listed.folders))
    }
}

impl Row {
    fn of(context: &Context, trust: &Trust, kept: &FolderTrust) -> Self {
        let folder = Path::new(&kept.folder);
        let project = folder.is_dir().then(|| trusting::read(context, folder).ok()).flatten();
        let holds = project.map(|project| match trust.state(&project) {
            TrustState::UsersOwn
            | TrustState::NothingToTrust
            | TrustState::Trusted
            | TrustState::Declined => true,
            TrustState::NotTrusted | TrustState::Grown => false,
        });
        Self { kept: kept.clone(), things: kept.items.len(), holds }
    }
}

fn table(folders: &[Row]) -> String {
    if folders.is_empty() {
        return "nothing was answered yet".to_owned();
    }
    let cells = |Row { kept, things, holds }: &Row| {
        let answer = match kept.answer {
            Answer::Trusted => "trusted",
            Answer::Declined => "declined",
        };
        let holds = match holds {
            Some(true) => "yes",
            Some(false) => "no: it would do more now",
            None => "unknown: it cannot be read",
        };
        let at = kept.at.clone().unwrap_or_else(|| "-".to_owned());
        [kept.folder.clone(), answer.to_owned(), things.to_string(), holds.to_owned(), at]
    };
    let rows: Vec<_> = folders.iter().map(cells).collect();
    output::table(["FOLDER", "ANSWER", "THINGS", "HOLDS", "AT"], &rows)
}
