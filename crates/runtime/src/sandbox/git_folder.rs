//! Where the git folders of a working folder are, read as git does, without starting it.
//!
//! A folder is believed to be a checkout's only when it looks like git's and knows the checkout: a `.git` file, link or
//! `commondir` of an archive could name any repository of the user's. A git folder that stands apart from its checkout
//! (`--separate-git-dir`) knows nothing of it, and is none here.

use std::fs;
use std::path::{Path, PathBuf};

/// How long a `.git` or `commondir` file can be.
const MOST_BYTES: u64 = 4096;

/// How many other stores of objects are looked at.
const MOST_ALTERNATES: usize = 16;

/// The git folders of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitFolder {
    /// The top of the checkout.
    pub(super) top: PathBuf,
    /// Its own git folder.
    pub(super) own: PathBuf,
    /// The folder that all worktrees share; its own where there are none.
    pub(super) common: PathBuf,
    /// Other stores of objects that it borrows from.
    pub(super) borrowed: Vec<PathBuf>,
}

impl GitFolder {
    /// Finds the git folder of the checkout that a folder lies in.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let folder = fs::canonicalize(folder).ok()?;
        folder.ancestors().find_map(Self::at)
    }

    fn at(top: &Path) -> Option<Self> {
        let entry = top.join(".git");
        let metadata = fs::symlink_metadata(&entry).ok()?;
        let own = if metadata.is_file() {
            let text = read(&entry)?;
            fs::canonicalize(top.join(text.strip_prefix("gitdir:")?.trim())).ok()?
        } else {
            fs::canonicalize(&entry).ok()?
        };
        if !knows(&own, top) {
            return None;
        }
        let common = of_worktree(&own).map_or_else(|| own.clone(), Path::to_path_buf);
        if !own.join("HEAD").is_file() || !is_repository(&common) {
            return None;
        }
        let borrowed = borrowed(&common.join("objects"));
        Some(Self { top: top.to_path_buf(), own, common, borrowed })
    }

    /// All of them.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.own, &self.common].into_iter().chain(&self.borrowed).map(PathBuf::as_path)
    }
}

/// Whether a git folder is that of a checkout: it lies in it, or in the git folder of a checkout above (a submodule's), or the
/// repository knows the checkout as a worktree, or one above it.
fn knows(own: &Path, top: &Path) -> bool {
    let is_above = |folder: &Path| {
        let holds = folder.file_name().is_some_and(|name| name == ".git")
            && folder.parent().is_some_and(|it| top.starts_with(it));
        holds || of_worktree(folder).is_some() && worktree_of(folder).is_some_and(|worktree| top.starts_with(worktree))
    };
    own.starts_with(top) || own.ancestors().any(is_above)
}

/// The checkout that git keeps a folder for.
fn worktree_of(admin: &Path) -> Option<PathBuf> {
    let link = admin.join(read(&admin.join("gitdir"))?.trim());
    fs::canonicalize(link.parent()?).ok()
}

/// The repository that a folder is kept in for a worktree.
fn of_worktree(folder: &Path) -> Option<&Path> {
    let worktrees = folder.parent().filter(|it| it.file_name().is_some_and(|name| name == "worktrees"))?;
    worktrees.parent()
}

fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

fn read(file: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    fs::read_to_string(file).ok()
}

/// Stores that `objects/info/alternates` names, and theirs.
fn borrowed(objects: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut todo = vec![objects.to_path_buf()];
    while let Some(objects) = todo.pop() {
        let Some(text) = read(&objects.join("info/alternates")) else { continue };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Ok(store) = fs::canonicalize(objects.join(line)) else { continue };
            let is_store = store.ends_with("objects") && store.parent().is_some_and(is_repository);
            if is_store && !found.contains(&store) && found.len() < MOST_ALTERNATES {
                found.push(store.clone());
                todo.push(store);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, words: &str) {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"])
            .args(words.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {words}: {output:?}");
    }

    /// A repository with a commit, and a folder of somebody else beside it.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        for name in ["private", "evil"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        git(&base.join("private"), "init --quiet");
        git(&base.join("private"), "commit --quiet --allow-empty -m x");
        (dir, base.join("private"), base.join("evil"))
    }

    #[test]
    fn checkouts_worktrees_and_submodules_have_their_git_folders() {
        let (_dir, main, other) = place();
        let found = GitFolder::of(&main).unwrap();
        assert_eq!((&found.own, &found.common), (&main.join(".git"), &main.join(".git")));
        git(&main, "worktree add --quiet ../tree");
        let found = GitFolder::of(&main.with_file_name("tree")).unwrap();
        assert_eq!((&found.own, &found.common), (&main.join(".git/worktrees/tree"), &main.join(".git")));
        git(&other, "init --quiet");
        git(&other, "commit --quiet --allow-empty -m x");
        for folder in [main.clone(), main.with_file_name("tree")] {
            git(&folder, "submodule --quiet add ../evil sub");
            let found = GitFolder::of(&folder.join("sub")).unwrap();
            assert!(found.own.starts_with(main.join(".git")) && found.own.ends_with("modules/sub"), "{found:?}");
            assert_eq!(found.own, found.common);
        }
    }

    #[test]
    fn a_folder_that_only_claims_another_s_repository_has_none_of_it() {
        let (_dir, private, evil) = place();
        git(&private, "worktree add --quiet ../tree");
        let of_private = private.join(".git").display().to_string();
        let reaches = || GitFolder::of(&evil).is_some_and(|found| found.folders().any(|it| it.starts_with(&private)));
        for target in [of_private.clone(), format!("{of_private}/worktrees/tree")] {
            fs::write(evil.join(".git"), format!("gitdir: {target}\n")).unwrap();
            assert!(!reaches(), "a file that names {target}");
            fs::remove_file(evil.join(".git")).unwrap();
            symlink(&target, evil.join(".git")).unwrap();
            assert!(!reaches(), "a link to {target}");
            fs::remove_file(evil.join(".git")).unwrap();
        }
        git(&evil, "init --quiet");
        fs::write(evil.join(".git/commondir"), &of_private).unwrap();
        assert!(!reaches(), "a common folder");
        fs::create_dir_all(evil.join("g/worktrees")).unwrap();
        fs::rename(evil.join(".git"), evil.join("g/worktrees/x")).unwrap();
        fs::write(evil.join("g/worktrees/x/gitdir"), evil.join(".git").display().to_string()).unwrap();
        fs::write(evil.join(".git"), "gitdir: g/worktrees/x").unwrap();
        assert!(!reaches(), "a worktree of its own");
    }
}
