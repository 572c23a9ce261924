//! `pitcrew trust remove`: removes the stored answer about the trust in a repository.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use pitcrew_permission::trust::{Repository, Trust};
use serde::Serialize;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::visible;

/// Remove the stored answer about the trust in a repository
///
/// The repository's settings, hooks and agents then have no effect, and the next run on a terminal
/// asks whether you trust the repository. A run that has started is not affected.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew trust remove
  pitcrew trust remove ~/src/backend")]
pub(crate) struct Remove {
    /// A folder of the repository, which may no longer exist [default: the working folder]
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Removed {
    folder: String,
}

impl Remove {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let folder =
            self.folder.map_or_else(|| context.cwd.clone(), |folder| context.cwd.join(folder));
        // A folder that no longer exists has no repository, and a path copied from `trust list` may
        // name such a folder. The path itself is therefore looked up too.
        let names = [Repository::of(&folder).ok().map(|it| it.top), Some(folder)];
        for name in names.iter().flatten().filter_map(|path| path.to_str()) {
            let name = Path::new(name).components().as_path().to_string_lossy().into_owned();
            if Trust::forget(&context.root, &name).map_err(Failure::unusable)? {
                let removed = Removed { folder: name };
                return context.output.answer(&removed, |it| {
                    format!("{} is not trusted any more", visible(&it.folder))
                });
            }
        }
        Err(Failure::new(FailureKind::NotFound, "nothing was answered about this folder")
            .hint("`pitcrew trust list` shows the folders"))
    }
}
