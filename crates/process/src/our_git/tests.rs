//! Attacks by a repository on pitcrew's own git, as tables. Each attack is tried with each of the
//! two layers alone, and with none. The last shows that the attack works.

mod bounds;
mod links;
mod programs;
mod users;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Access, OurGit};
use crate::sandbox::{Machine, OwnGrant, Sandbox};
use crate::worktree::{IgnoredFiles, Worktree, WorktreeError, Worktrees};

/// A check of the first layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// Settings replace the programs of the repository.
    Settings,
    /// Links that leave the git folder are refused.
    Links,
}

/// Returns what a command may change, without a look at links in the git folder.
pub(super) fn grant_without_check(folder: &Path, access: Access<'_>) -> OwnGrant {
    let git = crate::sandbox::git_folder::GitFolder::as_git_sees(folder);
    let mut write: Vec<PathBuf> = git.into_iter().flat_map(|git| [git.common, git.own]).collect();
    if let Access::Write(written) = access {
        write.extend(written.folders.iter().map(|folder| folder.to_path_buf()));
    }
    OwnGrant { write, ..OwnGrant::default() }
}

/// The layers that guard git in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Both,
    FirstAlone,
    ConfinementAlone,
    None,
}

impl Guard {
    const ALL: [Self; 4] = [Self::Both, Self::FirstAlone, Self::ConfinementAlone, Self::None];

    fn git(self, scene: &Scene, layer: Layer) -> OurGit {
        let machine = Machine {
            home: Some(scene.home.clone()),
            ..Machine::with_root(&scene.base.join("root"), &scene.base.join("tmp"))
        };
        let sandbox = match self {
            Self::Both | Self::ConfinementAlone => Sandbox::by_landlock(machine),
            Self::FirstAlone | Self::None => Sandbox::by_nothing(machine),
        };
        let without = match self {
            Self::Both | Self::FirstAlone => None,
            Self::ConfinementAlone | Self::None => Some(layer),
        };
        OurGit { sandbox, without, ..OurGit::default() }
    }

    /// Whether the machine has what the test needs.
    fn can_be_tried(self, scene: &Scene) -> bool {
        let git = self.git(scene, Layer::Settings);
        let is_confined = git.sandbox.leaves_own_programs_free().is_none();
        let is_needed = matches!(self, Self::Both | Self::ConfinementAlone);
        if is_needed && !is_confined {
            eprintln!("\n!!! SKIPPED: no Landlock. Nothing was proved about {self:?}. !!!\n");
        }
        is_confined || !is_needed
    }
}

/// A home folder with a repository from an archive.
struct Scene {
    _folder: tempfile::TempDir,
    base: PathBuf,
    home: PathBuf,
    repository: PathBuf,
}

/// What stands in the user's start file of the shell.
const START_FILE: &str = "# the user's\n";

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let home = base.join("home");
        let repository = home.join("repository");
        fs::create_dir_all(&repository).unwrap();
        fs::write(home.join(".bashrc"), START_FILE).unwrap();
        git(&repository, "init --quiet --initial-branch=main --template=");
        fs::write(repository.join(".gitattributes"), "*.dat filter=evil\n").unwrap();
        commit(&repository, "x.dat");
        Self { _folder: folder, base, home, repository }
    }

    fn worktrees(&self, git: OurGit) -> Worktrees {
        Worktrees::new(&self.repository, self.base.join("root/pitcrew/worktrees")).run_by(git)
    }

    /// Creates a program of the repository's. It writes into the user's home, if it can.
    fn program(&self) -> String {
        let path = self.base.join("evil.sh");
        let bashrc = self.home.join(".bashrc").display().to_string();
        let text = format!("#!/bin/bash\necho evil >> {bashrc}\nchmod 777 {bashrc}\nexec cat\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn is_home_untouched(&self) -> bool {
        let bashrc = self.home.join(".bashrc");
        let mode = fs::metadata(&bashrc).unwrap().permissions().mode();
        let names = fs::read_dir(&self.home).unwrap().count();
        fs::read_to_string(bashrc).unwrap() == START_FILE && mode & 0o777 != 0o777 && names == 2
    }

    /// Makes a worktree, looks at it, merges its work and removes it. `changed` may attack the
    /// worktree after it was made. Returns the first error.
    async fn live(&self, git: OurGit, changed: impl Fn(&Worktree)) -> Result<(), WorktreeError> {
        let worktrees = self.worktrees(git).with_ignored(IgnoredFiles::Remove);
        let worktree = worktrees.create("probe", "worker").await?;
        changed(&worktree);
        // Git compares contents only where a file has another time and the same size.
        let before = fs::read(worktree.path.join("x.dat")).unwrap();
        let after: Vec<u8> = before.iter().rev().copied().collect();
        fs::write(worktree.path.join("x.dat"), after).unwrap();
        let touched = fs::File::options().write(true).open(worktree.path.join("x.dat")).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let mut result = worktrees.branch_state(&worktree.path).await.map(drop);
        result = result.and(worktrees.finish(&worktree).await.map(drop));
        commit(&worktree.path, "own");
        if let Ok(state) = worktrees.branch_state(&worktree.path).await {
            result = result.and(worktrees.merge(&worktree.path, &state.tip).await.map(drop));
        }
        result.and(worktrees.finish(&worktree).await.map(drop))
    }
}

/// Runs git as the author of the repository, or as an agent. No program of the repository runs.
fn git(folder: &Path, words: &str) -> String {
    let output = git_of_tests(folder).args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "git {words}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn git_of_tests(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    let names = ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"];
    git.envs(names.map(|name| (format!("GIT_{name}"), "tess@example.org")));
    let settings = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "maintenance.auto=false"];
    git.args(settings.iter().flat_map(|setting| ["-c", setting]));
    git.args([
        "-c",
        "protocol.file.allow=always",
        "--attr-source=4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    ]);
    git
}

fn commit(folder: &Path, name: &str) {
    fs::write(folder.join(name), name).unwrap();
    git(folder, "add --all");
    git(folder, &format!("commit --quiet -m {name}"));
}
