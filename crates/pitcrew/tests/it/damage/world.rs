//! Damages in which members, tasks, messages, processes, settings and worktrees contradict each
//! other.

use std::fs;
use std::process::Command;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_process::worktree::Worktrees;
use serde_json::{Value, json};

use super::scene::{Scene, paths};
use super::{Damage, Expect};
use crate::supervision::block_on;

const CONFIG: &str = "root/teams/crew/config.json";

pub(super) fn all() -> Vec<Damage> {
    let mut all = members();
    all.extend(circles_of_tasks());
    all.extend(owners_of_tasks());
    all.extend(files_among_tasks());
    all.extend(processes());
    all.extend(worktrees());
    all
}

fn members() -> Vec<Damage> {
    let members = |change: fn(&mut Vec<Value>)| {
        move |scene: &Scene| {
            scene.edit(CONFIG, |config| change(config["members"].as_array_mut().unwrap()));
            Vec::new()
        }
    };
    vec![
        Damage::new("nobody is left", Expect::Named("bad_members"), members(Vec::clear)),
        Damage::new(
            "there is no lead",
            Expect::Named("bad_members"),
            members(|it| _ = it.remove(0)),
        ),
        Damage::new(
            "two members of a name",
            Expect::Named("bad_members"),
            members(|it| it.push(it[1].clone())),
        ),
        Damage::new(
            "two members of an inbox",
            Expect::Named("bad_members"),
            members(|it| {
                let mut other = it[1].clone();
                other["name"] = json!("ANN");
                it.push(other);
            }),
        ),
        Damage::new("mail for somebody who is no member", Expect::Mended("dead_mail"), |scene| {
            let mail = scene.read("root/teams/crew/inboxes/bob.json");
            scene.write("root/teams/crew/inboxes/carl.json", mail);
            paths(&["root/teams/crew/inboxes/carl.json", "root/teams/crew/pitcrew/journal.ndjson"])
        }),
        Damage::new("a member of a run that was killed", Expect::Untouched, |scene| {
            scene.edit(CONFIG, |config| {
                let lead = config["members"][0].clone();
                let mut dead = config["members"][1].clone();
                dead["name"] = json!("carl");
                dead["agentId"] = json!("carl@crew");
                dead["pitcrew"] = lead["pitcrew"].clone();
                config["members"].as_array_mut().unwrap().push(dead);
            });
            paths(&[])
        }),
        Damage::new("settings that are no JSON", Expect::Named("bad_settings"), |scene| {
            scene.write("root/settings.json", "{");
            Vec::new()
        }),
        Damage::new(
            "settings whose rules cannot be read",
            Expect::Named("bad_settings"),
            |scene| {
                scene.write("root/settings.json", r#"{"permissions": {"deny": 7}}"#);
                Vec::new()
            },
        ),
    ]
}

fn circles_of_tasks() -> Vec<Damage> {
    let task = |id: u32| format!("root/tasks/crew/{id}.json");
    let waits = move |scene: &Scene, id: u32, blocker: u32| {
        scene.edit(&task(id), |it| it["blockedBy"] = json!([blocker.to_string()]));
    };
    vec![
        Damage::new("a task that waits for itself", Expect::Named("task_circle"), move |scene| {
            waits(scene, 1, 1);
            Vec::new()
        }),
        Damage::new(
            "two tasks that wait for each other",
            Expect::Named("task_circle"),
            move |scene| {
                waits(scene, 1, 2);
                waits(scene, 2, 1);
                Vec::new()
            },
        ),
        Damage::new("three tasks in a circle", Expect::Named("task_circle"), move |scene| {
            waits(scene, 1, 2);
            waits(scene, 2, 3);
            waits(scene, 3, 1);
            Vec::new()
        }),
        Damage::new("tasks that wait in a line", Expect::Untouched, move |scene| {
            waits(scene, 1, 2);
            waits(scene, 2, 3);
            Vec::new()
        }),
    ]
}

fn owners_of_tasks() -> Vec<Damage> {
    let owned = move |owner: &'static str, status: &'static str| {
        move |scene: &Scene| {
            scene.edit("root/tasks/crew/1.json", |it| {
                it["owner"] = json!(owner);
                it["status"] = json!(status);
            });
            paths(&["root/tasks/crew/1.json", "root/teams/crew/pitcrew/journal.ndjson"])
        }
    };
    vec![
        Damage::new(
            "a task of somebody who is no member",
            Expect::Mended("lost_task"),
            owned("carl", "in_progress"),
        ),
        Damage::new(
            "a pending task of somebody who is no member",
            Expect::Mended("lost_task"),
            owned("carl", "pending"),
        ),
        Damage::new(
            "a task that somebody completed and left",
            Expect::Untouched,
            owned("carl", "completed"),
        ),
        Damage::new("a task of a member", Expect::Untouched, owned("bob", "in_progress")),
    ]
}

fn files_among_tasks() -> Vec<Damage> {
    vec![
        Damage::new("a file with the number of another task", Expect::Named("no_task"), |scene| {
            scene.write("root/tasks/crew/9.json", scene.read("root/tasks/crew/1.json"));
            Vec::new()
        }),
        Damage::new("an object that is no task", Expect::Named("no_task"), |scene| {
            scene.write("root/tasks/crew/9.json", "{\"port\": 8080}");
            Vec::new()
        }),
        Damage::new(
            "a file of somebody's among the tasks that cannot be read",
            Expect::Named("no_task"),
            |scene| {
                scene.write("root/tasks/crew/notes.json", "{ mine");
                Vec::new()
            },
        ),
        Damage::new("a task of another client of another day", Expect::Untouched, |scene| {
            scene.edit("root/tasks/crew/1.json", |it| it["later"] = json!({"a": 1}));
            Vec::new()
        }),
    ]
}

fn processes() -> Vec<Damage> {
    let started = |process: fn() -> ProcessIdentity, owner: fn() -> ProcessIdentity| {
        move |scene: &Scene| {
            let (process, owner) = (process(), owner());
            let record = json!({"version": 1, "started": {"bob": {
                "process": {"pid": process.pid, "start_ticks": process.start_ticks}, "program": "pitcrew",
                "owner": {"pid": owner.pid, "start_ticks": owner.start_ticks}, "at_ms": 1,
            }}});
            scene.write("root/teams/crew/pitcrew/started.json", record.to_string());
            paths(&[
                "root/teams/crew/pitcrew/started.json",
                "root/teams/crew/pitcrew/journal.ndjson",
            ])
        }
    };
    fn first() -> ProcessIdentity {
        ProcessIdentity::of(1).unwrap_or(ProcessIdentity { pid: 1, start_ticks: 0 })
    }
    fn dead() -> ProcessIdentity {
        ProcessIdentity { pid: 1, start_ticks: u64::MAX }
    }
    vec![
        Damage::new(
            "a record that names the first process",
            Expect::Mended("orphaned_process"),
            started(first, dead),
        ),
        Damage::new(
            "a record that names the tests",
            Expect::Mended("orphaned_process"),
            started(ProcessIdentity::own, dead),
        ),
        Damage::new(
            "a record whose owner is the tests",
            Expect::Mended("orphaned_process"),
            started(dead, ProcessIdentity::own),
        ),
        Damage::new(
            "a record of the dead",
            Expect::Mended("orphaned_process"),
            started(dead, dead),
        ),
        Damage::new("a lease that names the first process", Expect::Untouched, |scene| {
            let first = first();
            let holder = json!({"pid": first.pid, "start_ticks": first.start_ticks, "since_ms": 1});
            scene.write("root/teams/crew/pitcrew/lease", holder.to_string());
            scene.write("root/teams/crew/pitcrew/lease.bob", holder.to_string());
            Vec::new()
        }),
        Damage::new("a lease that is no JSON", Expect::Untouched, |scene| {
            scene.write("root/teams/crew/pitcrew/lease", "{");
            Vec::new()
        }),
    ]
}

fn git(scene: &Scene, words: &[&str]) {
    let mut command: Command = scene.room.tool("git", words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// Makes a repository with one commit in the working folder.
fn repository(scene: &Scene) {
    git(scene, &["init", "--quiet", "--initial-branch=main"]);
    scene.write("work/.gitignore", "ignored\n");
    git(scene, &["add", "--all"]);
    let commit = [
        "-c",
        "user.name=Tess",
        "-c",
        "user.email=tess@example.org",
        "commit",
        "--quiet",
        "-m",
        "first",
    ];
    git(scene, &commit);
}

/// The worktree that belongs to no member.
const WORKTREE: &str = "root/pitcrew/worktrees/crew/gone";

/// Makes a worktree below the root, as a run makes it. The worktree belongs to no member.
fn worktree(scene: &Scene) -> &'static str {
    repository(scene);
    let folder = Worktrees::folder_below(&scene.at("root"));
    let made = Worktrees::new(scene.at("work"), folder);
    block_on(made.create("crew", "gone")).unwrap();
    WORKTREE
}

/// Makes a worktree below the root, as an earlier version of pitcrew made it: it has a marker in the
/// repository, and no record.
fn earlier_worktree(scene: &Scene) {
    repository(scene);
    let path = scene.at(WORKTREE).display().to_string();
    git(scene, &["worktree", "add", "--quiet", "-b", "pitcrew/crew/gone", &path]);
    let head = scene.room.tool("git", &["rev-parse", "HEAD"]).output().unwrap();
    let head = String::from_utf8(head.stdout).unwrap();
    let marker = json!({
        "team": "crew", "member": "gone", "branch": "pitcrew/crew/gone", "start": head.trim(), "base": "refs/heads/main",
    });
    scene.write("work/.git/worktrees/gone/pitcrew-worktree", marker.to_string());
    scene.write("work/.git/pitcrew-worktrees.lock", "");
}

/// Changes the only record of a worktree.
fn edit_record(scene: &Scene, change: impl Fn(&str) -> String) {
    let repositories = fs::read_dir(scene.at("root/pitcrew/repositories")).unwrap();
    let folder = repositories.map(|it| it.unwrap().path()).next().unwrap().join("worktrees");
    let record = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).next().unwrap();
    fs::write(&record, change(&fs::read_to_string(&record).unwrap())).unwrap();
}

fn worktrees() -> Vec<Damage> {
    let named = |name: &str, damage: fn(&Scene, &str)| {
        Damage::new(name, Expect::Named("orphaned_worktree"), move |scene| {
            let path = worktree(scene);
            damage(scene, path);
            Vec::new()
        })
    };
    let mended = |name: &str, damage: fn(&Scene, &str)| {
        Damage::new(name, Expect::Mended("orphaned_worktree"), move |scene| {
            let path = worktree(scene);
            damage(scene, path);
            scene.no_loss("work/.git");
            scene.no_loss("root/pitcrew/worktrees");
            scene.no_loss("root/pitcrew/repositories");
            paths(&["work/.git", "root/pitcrew/worktrees", "root/pitcrew/repositories"])
        })
    };
    let other = |name: &str, kind: &'static str, damage: fn(&Scene)| {
        Damage::new(name, Expect::Named(kind), move |scene| {
            damage(scene);
            Vec::new()
        })
    };
    let cut_off = |name: &str, damage: fn(&Scene)| {
        Damage::new(name, Expect::Mended("unfinished_worktree"), move |scene| {
            worktree(scene);
            edit_record(scene, |text| text.replace("\"made\"", "\"creating\""));
            damage(scene);
            scene.no_loss("work/.git");
            scene.no_loss("root/pitcrew");
            paths(&["work/.git", "root/pitcrew/worktrees", "root/pitcrew/repositories"])
        })
    };
    vec![
        mended("a worktree without a member", |_, _| {}),
        mended("a worktree whose folder is gone", |scene, path| scene.remove(path)),
        mended("a worktree whose folder is empty", |scene, path| {
            scene.remove(path);
            scene.folder(path);
        }),
        named("a worktree whose folder was made anew by hand", |scene, path| {
            scene.remove(path);
            scene.write(&format!("{path}/notes"), "mine");
        }),
        named("a link in the place of a worktree", |scene, path| scene.link(path, "outside")),
        named("a file in the place of a worktree", |scene, path| {
            scene.remove(path);
            scene.write(path, "mine");
        }),
        named("a worktree with a new file", |scene, path| {
            scene.write(&format!("{path}/notes"), "mine")
        }),
        named("a worktree with an ignored file", |scene, path| {
            scene.write(&format!("{path}/ignored"), "mine")
        }),
        named("a worktree without its .git", |scene, path| scene.remove(&format!("{path}/.git"))),
        named("another repository in the place of a worktree", |scene, path| {
            scene.remove(path);
            scene.folder(path);
            git(scene, &["init", "--quiet", &scene.at(path).display().to_string()]);
        }),
        cut_off("a worktree whose maker died over it", |_| {}),
        cut_off("a worktree whose maker died before git started", |scene| {
            scene.remove("root/pitcrew/worktrees/crew");
            git(scene, &["worktree", "prune"]);
            git(scene, &["branch", "--quiet", "-D", "pitcrew/crew/gone"]);
        }),
        other("a worktree of an earlier version", "unrecorded_worktree", earlier_worktree),
        other("a worktree whose record is damaged", "unreadable_record", |scene| {
            worktree(scene);
            edit_record(scene, |text| text.replace('{', "["));
        }),
        other("a worktree whose repository is gone", "worktree_without_repository", |scene| {
            worktree(scene);
            scene.remove("work/.git");
        }),
        other("a worktree that git does not list", "unlisted_worktree", |scene| {
            worktree(scene);
            scene.remove("work/.git/worktrees");
        }),
    ]
}
