//! The reasons why git did not run, or failed.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why git did not run, or failed.
#[derive(Debug, thiserror::Error)]
pub enum OurGitError {
    /// A git command failed.
    #[error("git {command} failed: {answer}")]
    Git {
        /// The git command.
        command: String,
        /// Git's error message.
        answer: String,
    },
    /// Git would use the store of another repository in this checkout.
    #[error(
        "{file} in {} leads git to {}, outside of the checkout, and nobody has trusted that",
        .checkout.display(),
        .folder.display()
    )]
    Borrowed {
        /// The folder in which git was to be run.
        checkout: PathBuf,
        /// The path of the file that leads there, relative to the top of the checkout.
        file: String,
        /// The folder outside of the checkout.
        folder: PathBuf,
    },
    /// Git would write through this path to another place, or wait at it for ever.
    #[error(
        "git is not run, because it would write to {}: {why}. Remove this, then try again",
        .path.display()
    )]
    Written {
        /// The link or special file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The configuration includes a file that git cannot read to an end.
    #[error("git is not run, because its configuration reads {}: {why}", .path.display())]
    Configured {
        /// The file of the configuration.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing would keep a program that the repository names from running with all rights.
    #[error(
        "git is not run in {}: the repository's setting {setting} may name a program, and nothing \
         on this machine confines git ({reason}). Remove the setting, or use a kernel with Landlock",
        .folder.display()
    )]
    Unconfined {
        /// The working copy.
        folder: PathBuf,
        /// The name of the setting.
        setting: String,
        /// Why git cannot be confined.
        reason: &'static str,
    },
    /// A file could not be read, or git could not be started.
    #[error("cannot {doing} {}", .path.display())]
    Io {
        /// The action that failed, as a verb such as "open".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl OurGitError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}
