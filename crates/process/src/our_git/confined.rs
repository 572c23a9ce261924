//! Decides what a git command may change.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::programs::Programs;
use super::{Access, OurGitError, Written, written};
use crate::sandbox::git_folder::GitFolder;
use crate::sandbox::{OwnGrant, Reach, Sandbox};

/// Returns the grant of a git command, and the folder for temporary files of the user's filters.
pub(super) fn grant(
    sandbox: &Sandbox,
    folder: &Path,
    access: Access<'_>,
    programs: &Programs,
) -> Result<(OwnGrant, Option<TempDir>), OurGitError> {
    let mut grant = OwnGrant::default();
    let (runs_filters, is_writing) = match access {
        Access::Look => return Ok((grant, None)),
        Access::Compare => (programs.has_users_filters(), false),
        Access::Write(_) => (programs.has_users_filters(), true),
    };
    let git = match access {
        // Whether the checkout may have this git folder is decided before git is asked to write.
        Access::Write(_) => GitFolder::as_git_sees(folder),
        // A repository inside a worktree can name any git folder.
        Access::Look | Access::Compare => GitFolder::of(folder, sandbox.trusted_git_folders()),
    };
    if let Access::Write(written) = access {
        grant.write.extend(check_links(sandbox, folder, written)?);
        grant.write.extend(written.folders.iter().map(|folder| folder.to_path_buf()));
        grant.emptied.extend(written.emptied.map(Path::to_path_buf));
    }
    // A filter such as git-lfs stores files in the git folder, also while git only compares.
    if runs_filters || is_writing {
        grant.write.extend(git.into_iter().flat_map(|git| [git.common, git.own]));
    }
    let changes_modes = match access {
        Access::Write(written) => written.changes_modes || programs.is_shared(),
        Access::Look | Access::Compare => false,
    };
    grant.reach = match (runs_filters, changes_modes) {
        (true, _) => Reach::Network,
        (false, true) => Reach::SharedFiles,
        (false, false) => Reach::Files,
    };
    if !runs_filters {
        return Ok((grant, None));
    }
    let temporary = tempfile::tempdir();
    let temporary = temporary.map_err(OurGitError::io("make a temporary folder for", folder))?;
    grant.write.push(temporary.path().to_owned());
    Ok((grant, Some(temporary)))
}

/// Checks the links on the paths that git writes. Returns the targets of those that lead into a git
/// folder that the user trusts.
pub(super) fn check_links(
    sandbox: &Sandbox,
    folder: &Path,
    written: &Written<'_>,
) -> Result<Vec<PathBuf>, OurGitError> {
    let Some(git) = GitFolder::as_git_sees(folder) else { return Ok(Vec::new()) };
    written::check(&git, written, sandbox.trusted_git_folders())
}
