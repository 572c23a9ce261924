//! Links, and files of other programs or people, at places where pitcrew may have files. `doctor`
//! is allowed to report them, but never changes them.

use super::scene::{ID, Scene, paths};
use super::{Damage, Expect};

/// Makes a project whose files have names like files that pitcrew leaves behind.
fn project(scene: &Scene, place: &str) {
    for (name, text) in [
        ("Cargo.lock", "version = 4"),
        ("yarn.lock", "# yarn"),
        ("my.lock/notes", "mine"),
        (".pitcrew-notes", "mine"),
        (".pitcrew-0123.tmp", "mine"),
        ("tsconfig.json", "{ // a comment\n}"),
        ("inboxes/data.json", "[1, 2"),
        ("inboxes/data.json.lock", ""),
        ("config.json.lock", ""),
        ("1.json", "{"),
        ("pitcrew/started.json", "{"),
    ] {
        scene.write(&format!("{place}/{name}"), text);
        scene.age(&format!("{place}/{name}"));
    }
    scene.write(&format!("{place}/.pitcrew-{ID}.tmp"), "mine");
    scene.age(&format!("{place}/.pitcrew-{ID}.tmp"));
    scene.age(&format!("{place}/my.lock"));
}

pub(super) fn all() -> Vec<Damage> {
    let mut all = links();
    all.extend(configs());
    all.extend(folders());
    all.extend(names());
    all
}

fn links() -> Vec<Damage> {
    let mut all = Vec::new();
    for folder in [
        "root/teams",
        "root/teams/work",
        "root/teams/crew",
        "root/teams/crew/inboxes",
        "root/teams/crew/pitcrew",
        "root/teams/crew/pitcrew/transcripts",
        "root/teams/crew/pitcrew/read",
        "root/tasks",
        "root/tasks/crew",
        "root/pitcrew",
        "root/pitcrew/archive",
    ] {
        all.push(Damage::new(
            format!("{folder} is a link to a project"),
            Expect::Named("link"),
            move |scene| {
                project(scene, "project");
                scene.link(folder, "project");
                Vec::new()
            },
        ));
    }
    all.push(Damage::new("a link to a folder that is a team", Expect::Named("link"), |scene| {
        project(scene, "project");
        scene.write(
            "project/config.json",
            scene.read("root/teams/crew/config.json").replace("crew", "work"),
        );
        scene.link("root/teams/work", "project");
        Vec::new()
    }));
    all.push(Damage::new("a link to the tasks of nobody", Expect::Untouched, |scene| {
        project(scene, "project");
        scene.link("root/tasks/work", "project");
        Vec::new()
    }));
    all.push(Damage::new("a link that leads nowhere", Expect::Named("link"), |scene| {
        scene.link("root/teams/work", "nowhere");
        Vec::new()
    }));
    all.push(Damage::new("a stale lock that is a link", Expect::Named("occupied"), |scene| {
        scene.link("root/teams/crew/inboxes/ann.json.lock", "outside");
        let long_ago = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
        let path = scene.at("root/teams/crew/inboxes/ann.json.lock");
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .unwrap();
        Vec::new()
    }));
    all
}

/// Cases in which a folder of a project is at a place where folders of teams are. Some of these
/// folders contain a `config.json`.
fn configs() -> Vec<Damage> {
    let with_config = |config: &'static str| {
        move |scene: &Scene| {
            project(scene, "root/teams/work");
            scene.write("root/teams/work/config.json", config);
            Vec::new()
        }
    };
    vec![
        Damage::new("a project without a config", Expect::Named("no_config"), |scene| {
            project(scene, "root/teams/work");
            Vec::new()
        }),
        Damage::new(
            "a project whose config is its own",
            Expect::Named("bad_config"),
            with_config("{\"port\": 8080}"),
        ),
        Damage::new(
            "a config that names another team",
            Expect::Named("bad_config"),
            with_config("{\"name\": \"crew\", \"members\": []}"),
        ),
        Damage::new(
            "a config without a name",
            Expect::Named("bad_config"),
            with_config("{\"members\": []}"),
        ),
        Damage::new(
            "a config without a list of members",
            Expect::Named("bad_config"),
            with_config("{\"name\": \"work\"}"),
        ),
        Damage::new("a config that is a list", Expect::Named("bad_config"), with_config("[]")),
    ]
}

fn folders() -> Vec<Damage> {
    vec![
        Damage::new("a folder whose name is no team's", Expect::Untouched, |scene| {
            project(scene, "root/teams/My Project");
            Vec::new()
        }),
        Damage::new("a team whose config is gone", Expect::Named("no_config"), |scene| {
            scene.remove("root/teams/crew/config.json");
            scene.folder("root/teams/crew/inboxes/ann.json.lock");
            scene.age("root/teams/crew/inboxes/ann.json.lock");
            Vec::new()
        }),
        Damage::new(
            "a link to a project beside a team that is mended",
            Expect::Named("link"),
            |scene| {
                project(scene, "project");
                scene.link("root/teams/work", "project");
                scene.link("root/tasks/work", "project");
                Vec::new()
            },
        ),
        Damage::new("tasks of a client that has no team", Expect::Untouched, |scene| {
            project(scene, "root/tasks/4711");
            Vec::new()
        }),
        Damage::new(
            "a folder in the archive that is called like a repair",
            Expect::Untouched,
            |scene| {
                let place = "root/pitcrew/archive/.repair-20200101T000000Z-12345678";
                scene.write(
                    &format!("{place}/kept.ndjson"),
                    "{\"kind\":\"kept\",\"path\":\"notes\"}\n",
                );
                scene.write(&format!("{place}/notes"), "mine");
                Vec::new()
            },
        ),
        Damage::new(
            "what an earlier repair kept, beside what is somebody's",
            Expect::Untouched,
            |scene| {
                let place = "root/pitcrew/archive/.repair-20991231T000000Z-12345678";
                scene.write(
                &format!("{place}/kept.ndjson"),
                "{\"kind\":\"repair\",\"v\":1,\"at_ms\":4102358400000}\n{\"kind\":\"kept\",\"path\":\"../../../outside\"}\n",
            );
                scene.write(&format!("{place}/teams/crew/inboxes/bob.json"), "[");
                Vec::new()
            },
        ),
    ]
}

/// Files in a team's folders with names that pitcrew never uses.
fn names() -> Vec<Damage> {
    let mut all = Vec::new();
    for path in [
        "root/teams/crew/Gemfile.lock",
        "root/teams/crew/.pitcrew-1.tmp",
        "root/teams/crew/.pitcrewrc",
        "root/teams/crew/package.json",
        "root/teams/crew/inboxes/bob.json.bak",
        "root/teams/crew/inboxes/bob.json.torn-1",
        "root/teams/crew/inboxes/two words.json",
        "root/teams/crew/pitcrew/Cargo.lock",
        "root/teams/crew/pitcrew/transcripts/ann.ndjson.swp",
        "root/tasks/crew/flake.lock",
        "root/teams/notes.lock",
    ] {
        all.push(Damage::new(format!("somebody's {path}"), Expect::Untouched, move |scene| {
            scene.write(path, "{ mine");
            scene.age(path);
            paths(&[])
        }));
    }
    all
}
