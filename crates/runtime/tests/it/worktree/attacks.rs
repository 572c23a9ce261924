//! A repository's author, or a command in one of its worktrees, writes into the `.git` folder what
//! pitcrew itself wrote there once, or what git reads there. Nothing of anybody else is removed,
//! emptied or waited for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pitcrew_process::worktree::{Worktree, Worktrees};
use serde_json::{Value, json};

use super::{TestEnv, commit, git};

/// The time in which an attacked call must end. Waiting for a FIFO takes forever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where an earlier version of pitcrew recorded its unfinished work.
const OLD_LOCK: &str = ".git/pitcrew-worktrees.lock";

/// The name of the file by which an earlier version of pitcrew recognized its worktrees.
const OLD_MARKER: &str = "pitcrew-worktree";

/// When a file is planted.
#[derive(Clone, Copy)]
enum When {
    /// Before pitcrew has done anything in the repository.
    First,
    /// After bob got his worktree, and before it is cleaned up.
    Later,
}

/// One attack: its name, its moment, and what it plants.
type Attack = (&'static str, When, fn(&World));

/// The attacked repository, and what must survive in its neighbourhood.
struct World {
    env: TestEnv,
    /// A worktree of another team in the same repository, with a file that is not committed.
    neighbour: Worktree,
    /// The worktree of another repository, with a file that is not committed.
    foreign: Worktree,
    /// The folder of the user's own files, which no worktree contains.
    home: PathBuf,
}

impl World {
    async fn new() -> Self {
        let env = TestEnv::new();
        let base = env.repository.parent().unwrap().to_path_buf();
        let other = base.join("other");
        fs::create_dir(&other).unwrap();
        git(&other, "init --quiet --initial-branch=main");
        commit(&other, "first");
        let neighbour = env.worktrees.create("neighbour", "ann").await.unwrap();
        let elsewhere = Worktrees::new(&other, &env.folder);
        let foreign = elsewhere.create("elsewhere", "eve").await.unwrap();
        for worktree in [&neighbour, &foreign] {
            fs::write(worktree.path.join("notes"), "a day's work").unwrap();
        }
        // A branch that was kept with its commit after its worktree was removed.
        git(&env.repository, "checkout --quiet -b pitcrew/neighbour/kept");
        commit(&env.repository, "kept");
        git(&env.repository, "checkout --quiet main");
        let home = base.join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("bashrc"), "alias ll='ls -l'\n").unwrap();
        fs::create_dir(base.join("worktrees/notes")).unwrap();
        fs::write(base.join("worktrees/notes/mine"), "mine").unwrap();
        Self { env, neighbour, foreign, home }
    }

    /// Returns the free path of the lock file.
    fn lock(&self) -> PathBuf {
        let path = self.env.repository.join(OLD_LOCK);
        // An earlier version leaves an empty file there.
        let _ = fs::remove_file(&path);
        path
    }

    fn bob(&self) -> PathBuf {
        self.env.folder.join("probe/bob")
    }

    fn admin(&self, name: &str) -> PathBuf {
        self.env.repository.join(".git/worktrees").join(name)
    }

    fn tip(&self, branch: &str) -> String {
        git(&self.env.repository, &format!("rev-parse {branch}"))
    }

    /// Writes the record of an unfinished creation or removal.
    fn claim(&self, path: &Path, branch: &str, removed: Option<Value>) {
        let mut record = json!({"path": path, "branch": branch});
        if let Some(marker) = removed {
            record["removed"] = marker;
        }
        fs::write(self.lock(), record.to_string()).unwrap();
    }

    /// Returns a marker that calls every commit of a branch merged.
    fn marker(&self, team: &str, branch: &str) -> Value {
        let base = format!("refs/heads/{branch}");
        json!({"team": team, "member": "bob", "branch": branch, "start": self.tip(branch), "base": base})
    }

    fn mark(&self, admin: &str, marker: &Value) {
        fs::write(self.admin(admin).join(OLD_MARKER), marker.to_string()).unwrap();
    }

    /// Adds a second entry to git's list of worktrees, which names an existing folder.
    fn register(&self, name: &str, like: &str, folder: &Path) {
        let copied =
            Command::new("cp").arg("-r").args([self.admin(like), self.admin(name)]).status();
        assert!(copied.unwrap().success());
        let dot_git = folder.join(".git").display().to_string();
        fs::write(self.admin(name).join("gitdir"), dot_git + "\n").unwrap();
    }

    /// Everything that must stay: the content of all files of others, and all their branches.
    fn of_others(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for folder in
            [&self.neighbour.path, &self.foreign.path, &self.home, &self.env.folder.join("notes")]
        {
            for file in fs::read_dir(folder).into_iter().flatten() {
                let file = file.unwrap().path();
                let text = fs::read_to_string(&file).unwrap_or_default();
                found.insert(file.display().to_string(), text);
            }
        }
        for (name, repository) in [
            ("this", &self.env.repository),
            ("other", &self.env.repository.with_file_name("other")),
        ] {
            let refs = "for-each-ref --format=%(refname)=%(objectname) \
                        refs/heads/main refs/heads/pitcrew/neighbour refs/heads/pitcrew/elsewhere";
            found.insert(format!("branches of {name}"), git(repository, refs));
        }
        found
    }

    /// Does all that pitcrew does in the repository: starts as after a crash, creates and removes
    /// bob's worktree, and cleans up as `doctor --repair` does. Returns what belonged to others
    /// after the attack was planted.
    async fn attacked(
        &self,
        plant: fn(&Self),
        when: When,
    ) -> Result<BTreeMap<String, String>, String> {
        let worktrees = &self.env.worktrees;
        let planted = || {
            plant(self);
            self.of_others()
        };
        let mut before = matches!(when, When::First).then(planted);
        let _ = worktrees.recover().await;
        if let Ok(bob) = worktrees.create("probe", "bob").await {
            commit(&bob.path, "bobs");
            before = Some(before.unwrap_or_else(planted));
            let finished = worktrees.finish(&bob).await;
            // `git branch` would wait for a FIFO.
            let refs = "for-each-ref --format=%(refname) refs/heads/pitcrew/probe/bob";
            if !bob.path.join("bobs").exists() || git(&self.env.repository, refs).is_empty() {
                return Err(format!("bob's commit is lost: {finished:?}"));
            }
        }
        let _ = worktrees.recover().await;
        let live = [self.neighbour.path.clone(), self.bob()];
        for orphan in worktrees.orphans(&live).await.unwrap_or_default() {
            let _ = worktrees.finish(&orphan).await;
        }
        before.ok_or_else(|| "nothing was planted".to_owned())
    }
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Plants a huge file without blocks.
fn sparse(path: &Path) {
    File::create(path).unwrap().set_len(1 << 40).unwrap();
}

const ATTACKS: &[Attack] = &[
    ("the old lock names another team's worktree", When::First, |world| {
        world.claim(&world.neighbour.path, "pitcrew/probe/x", None);
    }),
    ("the old lock names another team's worktree and branch", When::Later, |world| {
        world.claim(&world.neighbour.path, &world.neighbour.branch, None);
    }),
    ("the old lock names a worktree of another repository", When::First, |world| {
        world.claim(&world.foreign.path, "pitcrew/probe/x", None);
    }),
    ("the old lock names another team's branch as being created", When::First, |world| {
        world.claim(&world.bob(), "pitcrew/neighbour/kept", None);
    }),
    ("the old lock names another team's branch as being removed", When::First, |world| {
        let marker = world.marker("neighbour", "pitcrew/neighbour/kept");
        world.claim(&world.bob(), "pitcrew/neighbour/kept", Some(marker));
    }),
    ("the old lock names a folder outside", When::First, |world| {
        world.claim(&world.home, "pitcrew/probe/x", None);
    }),
    ("the old lock names a folder outside by dots", When::First, |world| {
        world.claim(&world.env.folder.join("probe/../../home"), "pitcrew/probe/x", None);
    }),
    ("the old lock names the folder of a team", When::First, |world| {
        world.claim(&world.env.folder.join("neighbour"), "pitcrew/probe/x", None);
    }),
    ("the old lock is a link to a file of the user", When::First, |world| {
        symlink(world.home.join("bashrc"), world.lock()).unwrap();
    }),
    ("the old lock is a link to a device", When::First, |world| {
        symlink("/dev/zero", world.lock()).unwrap();
    }),
    ("the old lock is a FIFO", When::First, |world| fifo(&world.lock())),
    ("the old lock is a socket", When::First, |world| {
        drop(UnixListener::bind(world.lock()).unwrap());
    }),
    ("the old lock is a folder", When::First, |world| fs::create_dir(world.lock()).unwrap()),
    ("the old lock is a sparse file of a terabyte", When::First, |world| sparse(&world.lock())),
    ("the old lock is binary junk", When::First, |world| {
        fs::write(world.lock(), b"\0\xff\x80{{{").unwrap();
    }),
    ("a marker calls the member's own branch its base", When::Later, |world| {
        world.mark("bob", &world.marker("probe", "pitcrew/probe/bob"));
    }),
    ("a marker names another team and its branch", When::Later, |world| {
        world.mark("bob", &world.marker("neighbour", "pitcrew/neighbour/kept"));
    }),
    ("a marker makes a worktree of the user's one of a member", When::First, |world| {
        let folder = world.env.folder.join("hand/made");
        let add = format!("worktree add --quiet -b pitcrew/neighbour/hand {}", folder.display());
        git(&world.env.repository, &add);
        world.mark("made", &world.marker("probe", "pitcrew/neighbour/hand"));
    }),
    ("a marker is a FIFO", When::Later, |world| {
        let _ = fs::remove_file(world.admin("bob").join(OLD_MARKER));
        fifo(&world.admin("bob").join(OLD_MARKER));
    }),
    ("a marker is a sparse file of a terabyte", When::Later, |world| {
        sparse(&world.admin("bob").join(OLD_MARKER));
    }),
    ("a second entry of git's list names another team's worktree", When::Later, |world| {
        world.register("second", "bob", &world.neighbour.path);
        world.mark("second", &world.marker("probe", "pitcrew/probe/bob"));
    }),
    ("a second entry of git's list names the member's worktree", When::Later, |world| {
        world.register("second", "ann", &world.bob());
        world.mark("second", &world.marker("probe", "pitcrew/probe/bob"));
    }),
    ("an entry of git's list names a worktree of another repository", When::First, |world| {
        world.register("second", "ann", &world.foreign.path);
        world.claim(&world.foreign.path, "pitcrew/probe/x", None);
    }),
    ("the member's entry of git's list names another team's worktree", When::Later, |world| {
        let dot_git = world.neighbour.path.join(".git").display().to_string();
        fs::write(world.admin("bob").join("gitdir"), dot_git).unwrap();
        world.claim(&world.neighbour.path, &world.neighbour.branch, None);
    }),
    ("an entry of git's list is a FIFO", When::Later, |world| {
        fs::create_dir(world.admin("odd")).unwrap();
        fifo(&world.admin("odd").join("gitdir"));
    }),
    ("the state of an entry of git's list is a FIFO", When::Later, |world| {
        world.register("odd", "ann", &world.env.folder.join("no/where"));
        fs::remove_file(world.admin("odd").join("HEAD")).unwrap();
        fifo(&world.admin("odd").join("HEAD"));
    }),
    ("an entry of git's list is a sparse file of a terabyte", When::Later, |world| {
        fs::create_dir(world.admin("odd")).unwrap();
        sparse(&world.admin("odd").join("gitdir"));
    }),
    ("git's list is a link out", When::First, |world| {
        let list = world.env.repository.join(".git/worktrees");
        fs::rename(&list, world.home.with_file_name("list")).unwrap();
        symlink(world.home.with_file_name("list"), list).unwrap();
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_repository_says_about_worktrees_harms_nobody() {
    let mut failed = Vec::new();
    for (name, when, plant) in ATTACKS {
        // If a call blocks the thread, the last line tells in which attack.
        eprintln!("{name}");
        let world = World::new().await;
        match tokio::time::timeout(PATIENCE, world.attacked(*plant, *when)).await {
            Err(_) => failed.push(format!("{name}: it did not end in time")),
            Ok(Err(why)) => failed.push(format!("{name}: {why}")),
            Ok(Ok(before)) => {
                let after = world.of_others();
                if before != after {
                    failed.push(format!("{name}: {before:#?}\n became \n{after:#?}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), ATTACKS.len(), failed.join("\n"));
}
