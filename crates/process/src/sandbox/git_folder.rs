//! Finds the git folders that belong to a working folder. The functions read the same files as git,
//! but do not start git.
//!
//! A `.git` file, a `commondir` file, a symbolic link or a list of alternates in an unpacked archive
//! could name any repository of the user. Therefore a git folder outside of the checkout is accepted
//! only if it names the checkout itself. A git folder can name the checkout in two ways: as the
//! folder of a worktree, in git's data about this worktree, or in the setting `core.worktree`, which
//! git sets for submodules.
//!
//! Git's data about a worktree stay when somebody deletes the worktree's folder, and go on naming it.
//! An archive that is unpacked there later is not the worktree. Therefore the checkout must also be
//! the one that git made: git writes the files on both sides at the same time.
//!
//! Every other outside folder that the checkout names is called a *claim*. Examples are the folder
//! of `--separate-git-dir` and a borrowed object store. A claim is accepted only if the user trusts
//! the claimed folder.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::git_entries::{Entries, Extent, Unfit};
use crate::checkout::checkout_around;
use crate::given_file::read_plain;

/// Maximum size of a `.git`, `gitdir` or `alternates` file, in bytes.
const MOST_BYTES: u64 = 4096;

/// Maximum size of a git folder's configuration, in bytes.
const CONFIG_MOST_BYTES: u64 = 256 * 1024;

/// Maximum number of borrowed object stores (alternates).
const MOST_ALTERNATES: usize = 16;

/// Maximum time between the moments at which git writes both sides of a new worktree. Git writes
/// them one after the other. The rest is for a machine that is busy. A test has to wait longer than
/// that, because no program can set the time at which a file was created.
#[cfg(not(test))]
const MADE_WITHIN: Duration = Duration::from_secs(60);
#[cfg(test)]
const MADE_WITHIN: Duration = Duration::from_secs(3);

/// The git folders of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFolder {
    /// The top folder of the checkout.
    pub top: PathBuf,
    /// The git folder of the checkout itself.
    pub own: PathBuf,
    /// The git folder that all worktrees share. Without worktrees, `common` is the same as `own`.
    pub common: PathBuf,
    /// The object stores of other repositories that this repository uses (alternates).
    pub borrowed: Vec<PathBuf>,
}

/// A folder outside a checkout that the checkout's own files name, either as its git folder or as a
/// borrowed object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The path of the file that names the folder, relative to the top of the checkout.
    pub file: String,
    /// The claimed folder or file, with symbolic links resolved.
    pub folder: PathBuf,
}

impl Claim {
    fn new(file: &str, folder: &Path) -> Self {
        Self { file: file.to_owned(), folder: folder.to_path_buf() }
    }

    /// Returns what git has at the claimed path.
    pub fn what(&self) -> Claimed {
        match self.file.as_str() {
            POINTER | COMMON_POINTER => Claimed::GitFolder,
            file if file.starts_with(OBJECTS) => Claimed::Objects,
            _ => Claimed::Part,
        }
    }
}

/// What git has at a claimed path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The git folder itself.
    GitFolder,
    /// An object store.
    Objects,
    /// Another file or folder of the git folder, such as its references.
    Part,
}

/// Tells which folders outside of a checkout the user trusts as its git folder or object store. The
/// default trusts none.
#[derive(Clone, Default)]
pub struct TrustedStores(Option<Arc<TrustedIn>>);

type TrustedIn = dyn Fn(&Path) -> Vec<PathBuf> + Send + Sync;

impl TrustedStores {
    /// Creates a value that asks `trusted` for the folders that a checkout may borrow. It is asked
    /// only about a checkout that borrows something.
    pub fn by(trusted: impl Fn(&Path) -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(trusted)))
    }

    /// Returns the first claim of the checkout around `folder` that the user does not trust.
    pub fn refused(&self, folder: &Path) -> Option<Claim> {
        let mut claims = GitFolder::claims(folder);
        if let Some(trusted) = self.0.as_ref().filter(|_| !claims.is_empty()) {
            let trusted = trusted(folder);
            claims.retain(|claim| !trusted.contains(&claim.folder));
        }
        claims.into_iter().next()
    }
}

impl fmt::Debug for TrustedStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrustedStores").field(&self.0.is_some()).finish()
    }
}

/// The path of a checkout's git folder, relative to the top folder of the checkout.
const POINTER: &str = ".git";

/// The file that leads git to another git folder for everything that worktrees share.
const COMMON_POINTER: &str = ".git/commondir";

/// The file that lists borrowed object stores.
const ALTERNATES: &str = ".git/objects/info/alternates";

/// The start of the paths of object stores.
const OBJECTS: &str = ".git/objects";

impl GitFolder {
    /// Finds the git folder of the checkout around `folder`. A folder outside the checkout that
    /// does not itself name the checkout is accepted only if `trusted` contains it.
    pub fn of(folder: &Path, trusted: &[PathBuf]) -> Option<Self> {
        Self::find(folder, &mut |claim| trusted.contains(&claim.folder))
    }

    /// Finds the git folder that git itself would use. Like git, this function accepts every folder
    /// that the files of the checkout name.
    pub fn as_git_sees(folder: &Path) -> Option<Self> {
        Self::find(folder, &mut |_| true)
    }

    /// Returns the claims of the checkout around `folder`. These are the folders outside the
    /// checkout that its files name, but that do not themselves name the checkout.
    pub fn claims(folder: &Path) -> Vec<Claim> {
        let mut claims = Vec::new();
        let _all_granted = Self::find(folder, &mut |claim| {
            claims.push(claim);
            true
        });
        claims
    }

    fn find(folder: &Path, grants: &mut dyn FnMut(Claim) -> bool) -> Option<Self> {
        let folder = fs::canonicalize(folder).ok()?;
        for top in folder.ancestors() {
            let Ok(metadata) = fs::symlink_metadata(top.join(POINTER)) else { continue };
            let found = Self::at(top, grants);
            // Git skips a `.git` folder that is not a repository, but stops at a `.git` file or
            // link that leads nowhere. This code does the same.
            if found.is_some() || !metadata.is_dir() {
                return found;
            }
        }
        None
    }

    /// Returns the first file in the git folders of the checkout around `folder` that git would open
    /// and could not read to its end: a FIFO for instance.
    pub fn unfit(folder: &Path, extent: Extent) -> Option<Unfit> {
        let folder = fs::canonicalize(folder).ok()?;
        let top = checkout_around(&folder)?;
        let own = own_of(top)?;
        let common = || common_of(&own).filter(|common| *common != own);
        let of = |folder: &Path| Entries::of(folder, extent).unfit;
        of(&own).or_else(|| of(&common()?))
    }

    /// Returns the checkout around `folder` that git would use, and the files of its configuration.
    /// This function looks only at `.git` and at the files that lead to the git folder.
    pub(crate) fn configured(folder: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
        let folder = fs::canonicalize(folder).ok()?;
        let mut nearest = None;
        for top in folder.ancestors() {
            let Ok(metadata) = fs::symlink_metadata(top.join(POINTER)) else { continue };
            let Some(own) = own_of(top) else { return nearest };
            let common = common_of(&own).unwrap_or_else(|| own.clone());
            let is_whole = has_head(&own) && is_repository(&common);
            let names =
                [(&common, "config"), (&common, "config.worktree"), (&own, "config.worktree")];
            let files = names.map(|(folder, name)| folder.join(name)).into();
            let found = Some((top.to_path_buf(), files));
            // Git skips a `.git` folder that is not a repository.
            if is_whole || !metadata.is_dir() {
                return found;
            }
            nearest = nearest.or(found);
        }
        nearest
    }

    fn at(top: &Path, grants: &mut dyn FnMut(Claim) -> bool) -> Option<Self> {
        let own = own_of(top)?;
        let common = common_of(&own)?;
        if !has_head(&own) || !is_repository(&common) {
            return None;
        }
        if !knows(&own, top) && !grants(Claim::new(POINTER, &own)) {
            return None;
        }
        // A worktree's git folder lies where its repository keeps such folders. No archive can put
        // it there.
        let is_known = common == own || of_worktree(&own) == Some(&common);
        if !is_known
            && !is_below(&common, &[top, &own])
            && !grants(Claim::new(COMMON_POINTER, &common))
        {
            return None;
        }
        let inside = [top, &own, &common];
        let mut borrowed = linked_out(&own, &inside, grants)?;
        if common != own {
            borrowed.extend(linked_out(&common, &inside, grants)?);
        }
        let mut is_granted = |store: &Path| {
            let claim = || Claim::new(ALTERNATES, store);
            is_below(store, &inside) || grants(claim())
        };
        borrowed.extend(alternates(&common.join("objects"), &mut is_granted));
        Some(Self { top: top.to_path_buf(), own, common, borrowed })
    }

    /// Returns the checkout's own git folder, the common git folder and the borrowed object stores.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.own, &self.common].into_iter().chain(&self.borrowed).map(PathBuf::as_path)
    }
}

/// Returns true if a git folder belongs to a checkout. That is so if the git folder is inside the
/// checkout, or names the checkout as its worktree.
fn knows(own: &Path, top: &Path) -> bool {
    own.starts_with(top)
        || is_worktree_of(own, top)
        || configured_worktree(own).is_some_and(|worktree| worktree == top)
}

/// Returns true if `top` is the worktree about which git stores data in the folder `admin`. Both
/// paths have their symbolic links resolved.
///
/// That the data name the checkout is not enough. The folder of a worktree can be deleted while the
/// data are left, and an archive can be unpacked at its path. So the checkout's `.git` must be as old
/// as the data.
pub fn is_worktree_of(admin: &Path, top: &Path) -> bool {
    of_worktree(admin).is_some()
        && worktree_of(admin).is_some_and(|worktree| worktree == top)
        && are_made_together(&top.join(POINTER), &admin.join("commondir"))
}

/// Returns true if two files were created at the same time. Neither tar nor a change of the modes
/// sets the time of a file's creation.
fn are_made_together(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (one.symlink_metadata(), other.symlink_metadata()) else {
        return false;
    };
    let (one, other) = match (created(&one), created(&other)) {
        (Some(one), Some(other)) => (one, other),
        // Some file systems do not tell it. They tell when a file was changed.
        (None, _) | (_, None) => (changed(&one), changed(&other)),
    };
    one.abs_diff(other) <= MADE_WITHIN
}

fn created(metadata: &Metadata) -> Option<Duration> {
    metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()
}

fn changed(metadata: &Metadata) -> Duration {
    Duration::from_secs(u64::try_from(metadata.ctime()).unwrap_or_default())
}

/// Returns the git folder that the `.git` of a checkout is, or names.
fn own_of(top: &Path) -> Option<PathBuf> {
    let entry = top.join(POINTER);
    if !entry.symlink_metadata().ok()?.is_file() {
        return fs::canonicalize(&entry).ok();
    }
    let text = read_plain(&entry, MOST_BYTES).ok()?;
    fs::canonicalize(top.join(text.strip_prefix("gitdir:")?.trim())).ok()
}

/// Returns the git folder that all worktrees of a repository share, as git finds it. Returns `None`
/// if the file that names it cannot be read.
fn common_of(own: &Path) -> Option<PathBuf> {
    let file = own.join("commondir");
    if file.symlink_metadata().is_err() {
        return Some(own.to_path_buf());
    }
    let text = read_plain(&file, MOST_BYTES).ok()?;
    fs::canonicalize(own.join(text.trim_end_matches(['\n', '\r']))).ok()
}

/// Returns the places outside to which links in a git folder lead. Returns `None` if one of them is
/// not granted.
fn linked_out(
    git_folder: &Path,
    inside: &[&Path],
    grants: &mut dyn FnMut(Claim) -> bool,
) -> Option<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    for (entry, target) in Entries::of(git_folder, Extent::Names).links {
        if is_below(&target, inside) || found.contains(&target) {
            continue;
        }
        let file = Path::new(POINTER).join(entry);
        if !grants(Claim::new(&file.display().to_string(), &target)) {
            return None;
        }
        found.push(target);
    }
    Some(found)
}

fn is_below(path: &Path, folders: &[&Path]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// Returns the checkout folder of a worktree. `admin` is the folder in which git stores data about
/// the worktree.
fn worktree_of(admin: &Path) -> Option<PathBuf> {
    let link = admin.join(read_plain(&admin.join("gitdir"), MOST_BYTES).ok()?.trim());
    fs::canonicalize(link.parent()?).ok()
}

/// Returns the checkout that `core.worktree` in a git folder's configuration names.
fn configured_worktree(own: &Path) -> Option<PathBuf> {
    let value = |name: &str| worktree_in(&read_plain(&own.join(name), CONFIG_MOST_BYTES).ok()?);
    let value = value("config.worktree").or_else(|| value("config"))?;
    fs::canonicalize(own.join(value)).ok()
}

/// Returns the last `core.worktree` value in a configuration text. Understands only the format that
/// git writes.
fn worktree_in(config: &str) -> Option<String> {
    let mut is_core = false;
    let mut found = None;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_core = section.trim_end_matches(']').trim().eq_ignore_ascii_case("core");
        } else if is_core
            && let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case("worktree")
        {
            let value = value.trim();
            let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            found = Some(quoted.unwrap_or(value).replace("\\\"", "\"").replace("\\\\", "\\"));
        }
    }
    found
}

/// Returns the repository that contains a worktree's git folder (`REPOSITORY/worktrees/NAME`).
fn of_worktree(folder: &Path) -> Option<&Path> {
    let worktrees =
        folder.parent().filter(|it| it.file_name().is_some_and(|name| name == "worktrees"))?;
    worktrees.parent()
}

/// Returns true if a git folder has a `HEAD`. Git also accepts a link to a branch that does not
/// exist yet.
fn has_head(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join("HEAD")).is_ok_and(|head| !head.is_dir())
}

fn is_repository(folder: &Path) -> bool {
    has_head(folder) && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Returns the object stores that `info/alternates` names, and the object stores that those stores
/// name in turn. Only stores that `is_granted` accepts are included.
fn alternates(objects: &Path, is_granted: &mut dyn FnMut(&Path) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut todo = vec![objects.to_path_buf()];
    while let Some(objects) = todo.pop() {
        let Ok(text) = read_plain(&objects.join("info/alternates"), MOST_BYTES) else { continue };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Ok(store) = fs::canonicalize(objects.join(line)) else { continue };
            let is_store = store.ends_with("objects") && store.parent().is_some_and(is_repository);
            // Alternates may name each other in a loop, so skip a store that was already found.
            let is_new = !found.contains(&store) && found.len() < MOST_ALTERNATES;
            if is_store && is_new && is_granted(&store) {
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
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.invalid",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(words.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {words}: {output:?}");
    }

    /// Returns the git folders for a user who trusts no claimed folder.
    fn of(folder: &Path) -> Option<GitFolder> {
        GitFolder::of(folder, &[])
    }

    /// Creates a repository with a commit, and next to it a folder with another person's
    /// repository.
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
        let found = of(&main).unwrap();
        assert_eq!((&found.own, &found.common), (&main.join(".git"), &main.join(".git")));
        git(&main, "worktree add --quiet ../tree");
        let found = of(&main.with_file_name("tree")).unwrap();
        assert_eq!(
            (&found.own, &found.common),
            (&main.join(".git/worktrees/tree"), &main.join(".git"))
        );
        git(&other, "init --quiet");
        git(&other, "commit --quiet --allow-empty -m x");
        for folder in [main.clone(), main.with_file_name("tree")] {
            git(&folder, "submodule --quiet add ../evil sub");
            let found = of(&folder.join("sub")).unwrap();
            assert!(
                found.own.starts_with(main.join(".git")) && found.own.ends_with("modules/sub"),
                "{found:?}"
            );
            assert_eq!(found.own, found.common);
        }
    }

    #[test]
    fn a_folder_that_only_claims_another_s_repository_has_none_of_it() {
        let (_dir, private, evil) = place();
        git(&private, "worktree add --quiet ../tree");
        let of_private = private.join(".git").display().to_string();
        let reaches =
            || of(&evil).is_some_and(|found| found.folders().any(|it| it.starts_with(&private)));
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
        fs::write(evil.join("g/worktrees/x/gitdir"), evil.join(".git").display().to_string())
            .unwrap();
        fs::write(evil.join(".git"), "gitdir: g/worktrees/x").unwrap();
        assert!(!reaches(), "a worktree of its own");
    }

    /// Each row is a way in which the files of an unpacked archive lead git to the store of another
    /// repository, as a shell script in the archive's folder. `$P` is the other repository. Behind it
    /// is the file that makes the claim.
    const BORROWING: [(&str, &str); 12] = [
        ("ln -s $P/.git .git", ".git"),
        ("echo gitdir: $P/.git > .git", ".git"),
        ("git init -q && echo $P/.git > .git/commondir", ".git/commondir"),
        ("git init -q && echo $P/.git/objects > .git/objects/info/alternates", ALTERNATES),
        ("git init -q && rm -r .git/objects && ln -s $P/.git/objects .git/objects", ".git/objects"),
        (
            "git init -q && rm -r .git/objects/pack && ln -s $P/.git/objects/pack .git/objects/pack",
            ".git/objects/pack",
        ),
        ("git init -q && rm -r .git/refs && ln -s $P/.git/refs .git/refs", ".git/refs"),
        (
            "git init -q && mkdir -p .git/logs/refs && touch $P/.git/log && ln -s $P/.git/log .git/logs/HEAD",
            ".git/logs/HEAD",
        ),
        ("git init -q && ln -s $P/.git/nothing-yet .git/COMMIT_EDITMSG", ".git/COMMIT_EDITMSG"),
        ("git init -q && ln -sf $P/.git/config .git/config", ".git/config"),
        // The archive's author has written both folders, so they name each other.
        (
            "git init -q ../store && git -C ../store config core.worktree $PWD && \
             echo gitdir: ../store/.git > .git && echo $P/.git > ../store/.git/commondir",
            ".git/commondir",
        ),
        (
            "mkdir -p ../store/worktrees && git init -q && mv .git ../store/worktrees/x && \
             echo $PWD/.git > ../store/worktrees/x/gitdir && echo $P/.git > ../store/worktrees/x/commondir && \
             echo gitdir: $(dirname $PWD)/store/worktrees/x > .git",
            ".git/commondir",
        ),
    ];

    #[test]
    fn a_store_of_another_repository_is_borrowed_until_it_is_trusted_by_name() {
        for (script, file) in BORROWING {
            let (_dir, private, evil) = place();
            let mut shell = Command::new("sh");
            let done = shell.args(["-ec", script]).env("P", &private).current_dir(&evil).status();
            assert!(done.unwrap().success(), "{script}");
            let claims = GitFolder::claims(&evil);
            assert_eq!(
                claims.iter().map(|it| it.file.as_str()).collect::<Vec<_>>(),
                [file],
                "{script}"
            );
            let folder = claims[0].folder.clone();
            assert!(folder.starts_with(&private), "{script}: {folder:?}");
            let reached = of(&evil)
                .is_some_and(|found| found.folders().any(|folder| folder.starts_with(&private)));
            assert!(!reached, "{script}");
            assert_eq!(TrustedStores::default().refused(&evil).unwrap().folder, folder, "{script}");
            let stores = TrustedStores::by(move |_| vec![folder.clone()]);
            assert_eq!(stores.refused(&evil), None, "{script}: trusted by name");
        }
    }

    #[test]
    fn an_archive_at_the_path_of_a_deleted_worktree_is_not_that_worktree() {
        let (_dir, main, _) = place();
        git(&main, "worktree add --quiet ../tree");
        let tree = main.with_file_name("tree");
        let pointer = fs::read_to_string(tree.join(".git")).unwrap();
        let admin = main.join(".git/worktrees/tree");
        assert!(is_worktree_of(&admin, &tree));
        fs::remove_dir_all(&tree).unwrap();
        let made = admin.join("commondir").metadata().unwrap().created().unwrap();
        while made.elapsed().unwrap() <= MADE_WITHIN {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), &pointer).unwrap();
        assert_eq!(GitFolder::claims(&tree)[0].folder, admin);
    }

    #[test]
    fn a_git_folder_apart_counts_when_it_names_the_checkout_and_else_when_it_is_trusted() {
        let (_dir, main, other) = place();
        let apart = main.with_file_name("apart.git");
        git(&other, &format!("init --quiet --separate-git-dir={}", apart.display()));
        assert_eq!(of(&other), None, "git writes nothing there by which it knows the checkout");
        assert_eq!(GitFolder::claims(&other), [Claim::new(POINTER, &apart)]);
        assert_eq!(GitFolder::of(&other, std::slice::from_ref(&apart)).unwrap().own, apart);
        for worktree in [other.clone(), PathBuf::from("../evil")] {
            git(&apart, &format!("config core.worktree {}", worktree.display()));
            assert_eq!(of(&other).unwrap().own, apart, "{}", worktree.display());
            assert_eq!(GitFolder::claims(&other), []);
        }
        git(&apart, &format!("config core.worktree {}", main.display()));
        assert_eq!(of(&other), None, "it is another's");
    }

    #[test]
    fn a_file_in_a_folder_of_a_repository_reaches_neither_it_nor_its_submodules() {
        let (_dir, main, other) = place();
        git(&other, "init --quiet");
        git(&other, "commit --quiet --allow-empty -m x");
        git(&main, "submodule --quiet add ../evil sub");
        fs::create_dir_all(main.join("vendor/evil")).unwrap();
        for target in [
            "../../.git",
            "../../.git/modules/sub",
            "../../../private/.git",
            "../../../../../../../root/.ssh",
        ] {
            fs::write(main.join("vendor/evil/.git"), format!("gitdir: {target}")).unwrap();
            assert_eq!(of(&main.join("vendor/evil")), None, "{target}");
        }
        assert!(of(&main.join("vendor")).is_some());
    }

    #[test]
    fn a_folder_that_is_no_repository_is_no_claim() {
        let (_dir, private, evil) = place();
        let ssh = private.with_file_name(".ssh");
        fs::create_dir_all(ssh.join("objects/pack")).unwrap();
        fs::write(ssh.join("id_rsa"), "key").unwrap();
        fs::write(evil.join(".git"), format!("gitdir: {}", ssh.display())).unwrap();
        assert_eq!((of(&evil), GitFolder::claims(&evil)), (None, Vec::new()));
        fs::remove_file(evil.join(".git")).unwrap();
        git(&evil, "init --quiet");
        let alternates = format!("{}\n{}/objects\n/\n", ssh.display(), ssh.display());
        fs::write(evil.join(".git/objects/info/alternates"), alternates).unwrap();
        assert_eq!(
            (of(&evil).unwrap().borrowed, GitFolder::claims(&evil)),
            (Vec::new(), Vec::new())
        );
    }

    #[test]
    fn objects_are_borrowed_from_a_repository_only_when_it_is_trusted() {
        let (_dir, private, evil) = place();
        git(&evil, "init --quiet");
        let objects = private.join(".git/objects");
        fs::write(evil.join(".git/objects/info/alternates"), format!("{}\n", objects.display()))
            .unwrap();
        assert_eq!(of(&evil).unwrap().borrowed, Vec::<PathBuf>::new());
        assert_eq!(GitFolder::claims(&evil), [Claim::new(ALTERNATES, &objects)]);
        assert_eq!(
            GitFolder::of(&evil, std::slice::from_ref(&objects)).unwrap().borrowed,
            [objects]
        );
        // An object store inside the checkout is not a claim.
        git(&evil, "init --quiet --bare inner.git");
        fs::write(evil.join(".git/objects/info/alternates"), "../../inner.git/objects\n").unwrap();
        assert_eq!(of(&evil).unwrap().borrowed, [evil.join("inner.git/objects")]);
    }
}
