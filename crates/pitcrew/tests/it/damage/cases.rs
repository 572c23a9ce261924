//! Damaged files and folders: files with damaged content, objects of an unexpected kind, locks, and
//! files that are only partly written.

use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::scene::{ARCHIVED_CONFIG, ID, Scene, paths};
use super::{Damage, Expect};

const CREW: &str = "root/teams/crew";

/// A function that turns the text of a file into damaged content.
type Torn = fn(&str) -> Vec<u8>;

/// A function that replaces a file by something unexpected, for example by a folder.
type Odd = fn(&Scene, &str);

/// Ways to damage the content of a file. Each entry has a description, and a function that makes
/// the damaged content from the healthy text.
const TORN: [(&str, Torn); 6] = [
    ("is empty", |_| Vec::new()),
    ("is cut", |was| was.as_bytes()[..was.len() / 2].to_vec()),
    ("holds zeros", |was| vec![0; was.len()]),
    ("is no text", |_| vec![0xff, 0xfe, 0x00]),
    ("has something after its end", |was| format!("{was} and more").into_bytes()),
    ("holds a number", |_| b"7".to_vec()),
];

/// Unexpected objects at the path of a file: a folder, links, a FIFO, and a file that is too long
/// to read.
const ODD: [(&str, Odd); 5] = [
    ("is an empty folder", |scene, path| {
        scene.remove(path);
        scene.folder(path);
    }),
    ("is a link to a file outside", |scene, path| scene.link(path, "outside/Cargo.lock")),
    ("is a link to nothing", |scene, path| scene.link(path, "outside/nothing")),
    ("is a FIFO", |scene, path| {
        scene.remove(path);
        mknodat(CWD, scene.at(path), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }),
    ("is longer than anybody reads", |scene, path| {
        std::fs::File::options()
            .write(true)
            .open(scene.at(path))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        // This file is too large to read, so the test does not check that its content is kept.
        scene.no_loss(path);
    }),
];

pub(super) fn all() -> Vec<Damage> {
    let mut all = torn();
    all.extend(odd());
    all.extend(locks());
    all.extend(unfinished());
    all.extend(roots());
    all
}

fn torn() -> Vec<Damage> {
    let mut all = Vec::new();
    for (how, torn) in TORN {
        let files = [
            ("an inbox", format!("{CREW}/inboxes/bob.json"), Expect::Mended("torn")),
            ("a task", "root/tasks/crew/2.json".to_owned(), Expect::Mended("torn")),
            ("what was started", format!("{CREW}/pitcrew/started.json"), Expect::Mended("torn")),
            ("the requests", format!("{CREW}/pitcrew/requests.json"), Expect::Mended("torn")),
            ("the config", format!("{CREW}/config.json"), Expect::Named("bad_config")),
        ];
        for (what, path, expect) in files {
            let expect = match (what, how) {
                // The file is valid JSON but describes no task. `doctor` therefore reports the file
                // and skips it.
                ("a task", "holds a number") => Expect::Named("no_task"),
                _ => expect,
            };
            all.push(Damage::new(format!("{what} {how}"), expect, move |scene| {
                let bytes = torn(&scene.read(&path));
                scene.write(&path, bytes);
                // `doctor` does not report a file that was changed recently, because another client
                // may still be writing it. The test therefore makes the file look old.
                scene.age(&path);
                paths(&[&path, "root/tasks/crew/.highwatermark"])
            }));
        }
    }
    all
}

fn odd() -> Vec<Damage> {
    let mut all = Vec::new();
    for (how, put) in ODD {
        let files = [
            ("an inbox", format!("{CREW}/inboxes/bob.json"), Expect::Mended("torn")),
            ("a task", "root/tasks/crew/2.json".to_owned(), Expect::Mended("torn")),
            ("the keys", format!("{CREW}/pitcrew/keys.json"), Expect::Mended("torn")),
            (
                "a transcript",
                format!("{CREW}/pitcrew/transcripts/ann.ndjson"),
                Expect::Mended("torn"),
            ),
            ("the journal", format!("{CREW}/pitcrew/journal.ndjson"), Expect::Mended("torn")),
            ("the config", format!("{CREW}/config.json"), Expect::Named("bad_config")),
        ];
        for (what, path, expect) in files {
            let is_log = matches!(what, "a transcript" | "the journal");
            if is_log && how == "is longer than anybody reads" {
                continue;
            }
            all.push(Damage::new(format!("{what} {how}"), expect, move |scene| {
                put(scene, &path);
                paths(&[&path, "root/tasks/crew/.highwatermark"])
            }));
        }
    }
    for (what, path) in [
        ("an inbox", format!("{CREW}/inboxes/bob.json")),
        ("a task", "root/tasks/crew/2.json".to_owned()),
        ("a record", format!("{CREW}/pitcrew/ended.json")),
    ] {
        all.push(Damage::new(
            format!("{what} is a folder with something in it"),
            Expect::Named("occupied"),
            move |scene| {
                scene.remove(&path);
                scene.write(&format!("{path}/notes"), "mine");
                Vec::new()
            },
        ));
    }
    all.push(Damage::new("the mark of used ids is no number", Expect::Mended("torn"), |scene| {
        scene.write("root/tasks/crew/.highwatermark", "many");
        paths(&["root/tasks/crew/.highwatermark"])
    }));
    all
}

fn locks() -> Vec<Damage> {
    let mut all = Vec::new();
    for lock in [
        format!("{CREW}/config.json.lock"),
        format!("{CREW}/inboxes/ann.json.lock"),
        format!("{CREW}/inboxes/gone.json.lock"),
        format!("{CREW}/pitcrew/started.json.lock"),
        "root/tasks/crew/.lock.lock".to_owned(),
        "root/tasks/crew/1.json.lock".to_owned(),
    ] {
        let path = lock.clone();
        all.push(Damage::new(
            format!("the stale lock {lock}"),
            Expect::Mended("stale_lock"),
            move |scene| {
                scene.folder(&path);
                scene.age(&path);
                paths(&[&path])
            },
        ));
        let path = lock.clone();
        all.push(Damage::new(
            format!("the stale lock {lock}, a file"),
            Expect::Mended("stale_lock"),
            move |scene| {
                scene.write(&path, "4711");
                scene.age(&path);
                paths(&[&path])
            },
        ));
    }
    let lock = format!("{CREW}/inboxes/ann.json.lock");
    let path = lock.clone();
    all.push(Damage::new("a lock that somebody holds", Expect::Untouched, move |scene| {
        scene.folder(&path);
        Vec::new()
    }));
    let path = lock.clone();
    all.push(Damage::new(
        "a lock of the next century",
        Expect::Mended("stale_lock"),
        move |scene| {
            scene.folder(&path);
            scene.date(&path, SystemTime::now() + Duration::from_secs(3_000_000_000));
            paths(&[&path])
        },
    ));
    let path = lock.clone();
    all.push(Damage::new(
        "a stale lock with something in it",
        Expect::Named("occupied"),
        move |scene| {
            scene.write(&format!("{path}/notes"), "mine");
            scene.age(&path);
            Vec::new()
        },
    ));
    all
}

fn unfinished() -> Vec<Damage> {
    let mut all = Vec::new();
    for folder in [
        CREW.to_owned(),
        format!("{CREW}/inboxes"),
        format!("{CREW}/pitcrew"),
        format!("{CREW}/pitcrew/transcripts"),
        "root/tasks/crew".to_owned(),
    ] {
        let path = format!("{folder}/.pitcrew-{ID}.tmp");
        all.push(Damage::new(
            format!("half a write, {path}"),
            Expect::Mended("unfinished"),
            move |scene| {
                scene.write(&path, "half a fi");
                scene.age(&path);
                paths(&[&path])
            },
        ));
    }
    let path = format!("{CREW}/.pitcrew-{ID}.tmp");
    all.push(Damage::new("a write that is going on", Expect::Untouched, move |scene| {
        scene.write(&path, "half a fi");
        Vec::new()
    }));
    let path = format!("{CREW}/inboxes/ann.json.stale-{ID}");
    all.push(Damage::new(
        "a lock that was being broken",
        Expect::Mended("unfinished"),
        move |scene| {
            scene.folder(&path);
            scene.age(&path);
            paths(&[&path])
        },
    ));
    let path = format!("root/teams/.new-{ID}");
    all.push(Damage::new(
        "a team that was never whole",
        Expect::Mended("unfinished"),
        move |scene| {
            scene.folder(&format!("{path}/inboxes"));
            scene.write(&format!("{path}/config.json"), "{");
            scene.age(&path);
            paths(&[&path])
        },
    ));
    let path = format!("root/teams/.new-{ID}");
    all.push(Damage::new(
        "half a team with more in it",
        Expect::Named("unfinished"),
        move |scene| {
            scene.write(&format!("{path}/notes"), "mine");
            scene.age(&path);
            Vec::new()
        },
    ));
    all.push(Damage::new(
        "a team archived without its tasks",
        Expect::Mended("half_archived"),
        |scene| {
            let place = scene.at("root/pitcrew/archive/crew-20261120T134500Z-12345678");
            std::fs::create_dir_all(&place).unwrap();
            std::fs::rename(scene.at(CREW), place.join("team")).unwrap();
            // The repair moves the tasks into the archive of this team. That place differs from the
            // place at which the test looks for removed files. The test therefore does not look for
            // the tasks.
            scene.no_loss("root/tasks/crew");
            paths(&["root/tasks/crew"])
        },
    ));
    all
}

/// Damages in which a file is at the path of a folder, or a folder is at the path of a file, and an
/// archive that cannot be read.
fn roots() -> Vec<Damage> {
    let mut all = Vec::new();
    for (folder, expect) in [
        ("root", Expect::Named("no_folder")),
        ("root/teams", Expect::Named("no_folder")),
        ("root/tasks", Expect::Named("no_folder")),
        ("root/tasks/crew", Expect::Named("no_folder")),
        ("root/teams/crew/inboxes", Expect::Named("no_folder")),
        ("root/teams/crew/pitcrew", Expect::Named("no_folder")),
        ("root/teams/crew/pitcrew/transcripts", Expect::Named("no_folder")),
        ("root/pitcrew", Expect::Named("no_folder")),
        ("root/pitcrew/archive", Expect::Named("no_folder")),
        ("root/pitcrew/rates", Expect::Named("no_folder")),
    ] {
        all.push(Damage::new(format!("{folder} is a file"), expect, move |scene| {
            scene.remove(folder);
            scene.write(folder, "mine");
            Vec::new()
        }));
    }
    all.push(Damage::new(
        "an archived team whose configuration is cut",
        Expect::Named("bad_archive"),
        |scene| {
            scene.write(ARCHIVED_CONFIG, "{\"name\": \"ol");
            Vec::new()
        },
    ));
    all.push(Damage::new("a counter is a folder", Expect::Mended("torn"), |scene| {
        scene.remove("root/pitcrew/rates/calls");
        scene.folder("root/pitcrew/rates/calls");
        paths(&["root/pitcrew/rates"])
    }));
    all
}
