//! Finds the repository of a folder. This module does not run git, because git would obey a
//! configuration that is not trusted yet.

use std::fs;
use std::path::{Path, PathBuf};

use pitcrew_process::checkout::checkout_around;
use pitcrew_process::given_file::Given;
use pitcrew_process::sandbox::git_folder::is_worktree_of;

/// Maximum size of a file that names a git folder, in bytes.
const POINTER_LIMIT_BYTES: u64 = 16 * 1024;

/// The repository of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The folder for which the trust answer is stored: the top of the repository's main checkout,
    /// with symbolic links resolved. Without a repository, it is the folder itself.
    pub top: PathBuf,
    /// The top of the checkout that contains the folder. In a worktree, `checkout` differs from
    /// `top`.
    pub checkout: PathBuf,
    /// The path of the folder, relative to the top of its checkout.
    pub below: PathBuf,
}

impl Repository {
    /// Finds the repository of a folder.
    ///
    /// # Errors
    /// If the folder cannot be resolved.
    pub fn of(folder: &Path) -> std::io::Result<Self> {
        let real = fs::canonicalize(folder)?;
        let checkout = checkout_around(&real).unwrap_or(&real).to_path_buf();
        let below = real.strip_prefix(&checkout).map(Path::to_path_buf).unwrap_or_default();
        let top = main_checkout(&checkout).unwrap_or_else(|| checkout.clone());
        Ok(Self { top, checkout, below })
    }
}

/// Returns the main checkout of the repository if `checkout` is one of the repository's worktrees,
/// otherwise `None`.
///
/// A checkout can claim to be a worktree, but this proves nothing, because its files may come from
/// an archive. The repository must also name the worktree, in the folder in which git stores data
/// about the worktree, and both must be of the same time ([`is_worktree_of`]).
fn main_checkout(checkout: &Path) -> Option<PathBuf> {
    let link = checkout.join(".git");
    let admin = pointer(&link, "gitdir:")
        .and_then(|target| fs::canonicalize(checkout.join(target)).ok())?;
    let worktrees = admin.parent().filter(|_| is_worktree_of(&admin, checkout))?;
    let common = worktrees.parent()?;
    let top = if common.file_name()? == ".git" { common.parent()? } else { common };
    Some(top.to_path_buf())
}

/// Reads a path from a file that has one line. The path is the text after `prefix`.
fn pointer(file: &Path, prefix: &str) -> Option<PathBuf> {
    if !file.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let text = Given::ByUser.read_text(file, POINTER_LIMIT_BYTES).ok()??;
    let path = text.strip_prefix(prefix)?.trim();
    (!path.is_empty()).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a repository with a worktree, by writing the files that git would write.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(base.join("main/.git/worktrees/bob")).unwrap();
        fs::create_dir_all(base.join("main/src")).unwrap();
        fs::create_dir_all(base.join("trees/bob/src")).unwrap();
        let admin = base.join("main/.git/worktrees/bob");
        fs::write(base.join("trees/bob/.git"), format!("gitdir: {}\n", admin.display())).unwrap();
        fs::write(admin.join("gitdir"), format!("{}\n", base.join("trees/bob/.git").display()))
            .unwrap();
        fs::write(admin.join("commondir"), "../..\n").unwrap();
        (dir, base)
    }

    #[test]
    fn a_worktree_belongs_to_its_repository() {
        let (_dir, base) = repository();
        let found = Repository::of(&base.join("trees/bob/src")).unwrap();
        let expected = Repository {
            top: base.join("main"),
            checkout: base.join("trees/bob"),
            below: PathBuf::from("src"),
        };
        assert_eq!(found, expected);
        let found = Repository::of(&base.join("main/src")).unwrap();
        assert_eq!((found.top, found.below), (base.join("main"), PathBuf::from("src")));
    }

    #[test]
    fn a_folder_that_only_claims_to_be_a_worktree_is_its_own() {
        let (_dir, base) = repository();
        let evil = base.join("evil");
        fs::create_dir_all(evil.join("admin/worktrees/x")).unwrap();
        let claims = [
            // This is the git folder of another worktree.
            format!("gitdir: {}", base.join("main/.git/worktrees/bob").display()),
            // The folder `admin` is inside the checkout. The files in `admin` claim that `admin`
            // belongs to the repository.
            format!("gitdir: {}", evil.join("admin").display()),
            "gitdir: admin/worktrees/../../../main/.git".to_owned(),
            "gitdir: ".to_owned(),
        ];
        fs::write(evil.join("admin/gitdir"), evil.join(".git").display().to_string()).unwrap();
        fs::write(evil.join("admin/commondir"), base.join("main/.git").display().to_string())
            .unwrap();
        for claim in claims {
            fs::write(evil.join(".git"), &claim).unwrap();
            assert_eq!(Repository::of(&evil).unwrap().top, evil, "{claim}");
        }
        // A checkout that comes from an archive may contain a folder with the same structure as
        // git's own folder for a worktree. Check that the repository's top is then a folder inside
        // the checkout.
        fs::write(evil.join(".git"), "gitdir: admin/worktrees/x").unwrap();
        fs::write(evil.join("admin/worktrees/x/gitdir"), "../../../.git").unwrap();
        assert!(Repository::of(&evil).unwrap().top.starts_with(&evil));
    }

    #[test]
    fn without_a_repository_the_folder_stands_for_itself() {
        let (_dir, base) = repository();
        let found = Repository::of(&base.join("trees")).unwrap();
        assert_eq!((found.top, found.below), (base.join("trees"), PathBuf::new()));
    }
}
