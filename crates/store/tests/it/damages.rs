//! Tests that damaged and abandoned files are found, and are repaired without losing data.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pitcrew_protocol::{TeamConfig, TeamName};
use pitcrew_store::{Damage, MailStore, Mend, NewTeam, TaskStore, TeamStore, UnreadLimit};

use crate::scene::{Scene, age};

#[tokio::test]
async fn of_a_torn_inbox_the_whole_messages_stay() {
    let scene = Scene::new().await;
    for said in ["m1", "m2", "m3"] {
        scene.send(said).await;
    }
    let inbox = scene.path("teams/probe/inboxes/worker.json");
    let torn = fs::read_to_string(&inbox).unwrap();
    let torn = &torn[..torn.len() - 30];
    fs::write(&inbox, torn).unwrap();
    let found = scene.backend.look().found;
    let aside = scene.repair(&found[0]);
    assert_eq!(scene.ids().await, ["m1", "m2"]);
    assert_eq!(fs::read_to_string(aside).unwrap(), torn);
    assert_eq!(scene.backend.look().found, []);
}

#[tokio::test]
async fn a_team_that_was_archived_without_its_tasks_is_archived_whole() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    let archive = scene.backend.archive_team(&scene.team).await.unwrap();
    let archive = scene.backend.paths().archived(&archive);
    fs::rename(archive.join("tasks"), scene.path("tasks/probe")).unwrap();
    let found = scene.backend.look().found;
    assert!(matches!(&found[..], [Damage::HalfArchived { .. }]), "{found:?}");
    assert_eq!(scene.repair(&found[0]), archive);
    assert!(archive.join("tasks/1.json").is_file());
    assert_eq!(scene.backend.look().found, []);
}

#[tokio::test]
async fn the_stale_locks_of_a_team_are_broken_and_the_others_are_not() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let stale = [
        "teams/probe/config.json.lock",
        "teams/probe/inboxes/gone.json.lock",
        "tasks/probe/.lock.lock",
    ];
    let live = scene.path("teams/probe/inboxes/worker.json.lock");
    let of_another = scene.path("teams/other/inboxes/worker.json.lock");
    for lock in stale.map(|path| scene.path(path)).iter().chain([&of_another]) {
        fs::create_dir_all(lock).unwrap();
        age(lock, 100);
    }
    fs::create_dir(&live).unwrap();
    assert_eq!(scene.backend.break_stale_locks(&scene.team).await.unwrap(), 3);
    assert!(stale.iter().all(|path| !scene.path(path).exists()));
    assert!(live.is_dir() && of_another.is_dir());
    assert_eq!(scene.backend.break_stale_locks(&scene.team).await.unwrap(), 0);
}

/// The test creates two young locks with pitcrew's mark, and holds the `flock` of one of them. The
/// lock without a held `flock` looks like the lock of a killed pitcrew process, so it must be
/// removed. The other lock must stay.
#[tokio::test]
async fn the_lock_of_a_dead_process_of_ours_is_broken_as_young_as_it_is() {
    let scene = Scene::new().await;
    let [left, held] =
        ["tasks/probe/.lock.lock", "teams/probe/config.json.lock"].map(|path| scene.path(path));
    for lock in [&left, &held] {
        fs::create_dir_all(lock).unwrap();
        fs::set_permissions(lock, fs::Permissions::from_mode(0o1700)).unwrap();
    }
    let holder = fs::File::open(&held).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(scene.backend.break_stale_locks(&scene.team).await.unwrap(), 1);
    assert!(!left.exists() && held.is_dir());
}

#[tokio::test]
async fn a_creation_removes_what_a_killed_creation_left_and_nothing_else() {
    let scene = Scene::new().await;
    let abandoned = scene.path("teams/.new-0123456789abcdef0123456789abcdef");
    let foreign = scene.path("teams/.new-fedcba9876543210fedcba9876543210");
    let temp = ".pitcrew-0123456789abcdef0123456789abcdef.tmp";
    fs::create_dir_all(abandoned.join("inboxes")).unwrap();
    fs::write(abandoned.join(temp), "{").unwrap();
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), "mine").unwrap();
    let other = TeamConfig { name: TeamName::new("other").unwrap(), ..crate::scene::config() };
    scene.backend.create_team(&other, &NewTeam::default()).await.unwrap();
    assert!(!abandoned.exists());
    assert_eq!(fs::read_to_string(foreign.join("notes.txt")).unwrap(), "mine");
}

#[tokio::test]
async fn everything_left_behind_is_found_and_mended() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    scene.send("m1").await;
    assert_eq!(scene.backend.look().found, []);
    let lock = scene.path("tasks/probe/.lock.lock");
    let file_lock = scene.path("teams/probe/inboxes/worker.json.lock");
    let temp = scene.path("teams/probe/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp");
    let unborn = scene.path("teams/.new-0123456789abcdef0123456789abcdef");
    let torn = scene.path("tasks/probe/1.json");
    fs::create_dir(&lock).unwrap();
    fs::write(&file_lock, "").unwrap();
    fs::write(&temp, "[").unwrap();
    fs::create_dir_all(unborn.join("inboxes")).unwrap();
    fs::write(&torn, "{\"id\": \"1\"").unwrap();
    assert!(
        matches!(&scene.backend.look().found[..], [Damage::Torn { .. }]),
        "what is young may be at work"
    );
    for path in [&lock, &file_lock, &temp, &unborn] {
        age(path, 100);
    }
    let found = scene.backend.look().found;
    assert_eq!(found.len(), 5);
    for damage in &found {
        let kept = scene.repair(damage);
        let is_whole = || fs::read_to_string(&kept).unwrap() == "{\"id\": \"1\"";
        assert!(!matches!(damage, Damage::Torn { .. }) || is_whole(), "{damage:?}");
        assert!(fs::symlink_metadata(&kept).is_ok(), "what was taken away is kept: {damage:?}");
    }
    assert_eq!(scene.backend.look().found, []);
    assert_eq!(scene.ids().await, ["m1"]);
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap().len(), 0);
    scene.add_tasks(1).await;
    assert_eq!(
        scene.backend.tasks(&scene.team).await.unwrap()[0].id.number(),
        2,
        "a torn task's id stays used"
    );
}

/// Adds a method that repairs one damaged file. It returns the path to which the repair moved the
/// file.
impl Scene {
    fn repair(&self, damage: &Damage) -> std::path::PathBuf {
        match self.backend.repair(damage, &mut self.backend.keep()).unwrap() {
            Mend::Kept(kept) => kept,
            other => panic!("{damage:?}: {other:?}"),
        }
    }
}

/// Creates a user's project. Some of its file names look like files that pitcrew leaves behind.
fn project(place: &std::path::Path) {
    fs::create_dir_all(place.join("my.lock")).unwrap();
    fs::create_dir_all(place.join("inboxes")).unwrap();
    for (name, text) in [
        ("Cargo.lock", "version = 4"),
        ("yarn.lock", "# yarn"),
        ("my.lock/notes", "mine"),
        (".pitcrew-notes", "mine"),
        ("tsconfig.json", "{ // a comment\n}"),
        ("inboxes/data.json", "[1, 2"),
        ("inboxes/data.json.lock", "mine"),
    ] {
        fs::write(place.join(name), text).unwrap();
        age(&place.join(name), 100);
    }
    age(&place.join("my.lock"), 100);
}

#[tokio::test]
async fn nothing_behind_a_link_and_nothing_foreign_in_a_team_is_touched() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let outside = tempfile::tempdir().unwrap();
    project(outside.path());
    for link in ["teams/work", "tasks/work"] {
        fs::create_dir_all(scene.path(link).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.path(), scene.path(link)).unwrap();
    }
    project(&scene.path("teams/plain"));
    let team = scene.path("teams/probe");
    project(&team);
    fs::remove_dir_all(team.join("inboxes/data.json.lock"))
        .or_else(|_| fs::remove_file(team.join("inboxes/data.json.lock")))
        .unwrap();
    let before = (names_in(outside.path()), names_in(&scene.path("teams/plain")));
    let looked = scene.backend.look();
    let torn = team.join("inboxes/data.json");
    let expected = [
        Damage::torn(torn.clone(), "EOF while parsing a list at line 1 column 5".to_owned()),
        Damage::Link { path: scene.path("teams/work") },
        Damage::NoConfig { path: scene.path("teams/plain") },
    ];
    assert_eq!(looked.found, expected);
    assert_eq!(looked.teams, std::slice::from_ref(&scene.team));
    scene.backend.break_stale_locks(&scene.team).await.unwrap();
    scene.repair(&looked.found[0]);
    assert_eq!((names_in(outside.path()), names_in(&scene.path("teams/plain"))), before);
    assert!(team.join("Cargo.lock").is_file() && team.join("my.lock/notes").is_file());
    // If the folder of a team is a link, only the link itself is moved to the archive.
    let archive =
        scene.backend.clear_away(&pitcrew_protocol::TeamDir::of("work")).unwrap().unwrap();
    assert!(fs::symlink_metadata(archive.join("team")).unwrap().is_symlink());
    assert_eq!(names_in(outside.path()), before.0);
}

fn names_in(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(names_in(&path)),
            false => {
                found.push(format!("{}: {}", path.display(), fs::read_to_string(&path).unwrap()))
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_lock_with_something_in_it_is_never_broken() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let lock = scene.path("teams/probe/inboxes/worker.json.lock");
    fs::create_dir(&lock).unwrap();
    fs::write(lock.join("notes"), "mine").unwrap();
    age(&lock, 100);
    assert_eq!(scene.backend.look().found, [Damage::Occupied { path: lock.clone() }]);
    assert_eq!(scene.backend.break_stale_locks(&scene.team).await.unwrap(), 0);
    let sent = scene
        .backend
        .append(
            &scene.team,
            &crate::scene::worker(),
            crate::scene::message("m2"),
            UnreadLimit::None,
        )
        .await;
    assert!(sent.unwrap_err().to_string().contains("empty folder"));
    assert_eq!(fs::read_to_string(lock.join("notes")).unwrap(), "mine");
}

#[tokio::test]
async fn what_a_repair_took_away_is_removed_a_week_later_and_nothing_else_is() {
    let scene = Scene::new().await;
    let lock = scene.path("teams/probe/config.json.lock");
    fs::create_dir(&lock).unwrap();
    age(&lock, 100);
    let mut keep = scene.backend.keep();
    scene.backend.repair(&scene.backend.look().found[0], &mut keep).unwrap();
    let place = keep.place().unwrap().to_owned();
    assert!(scene.backend.old_keeps().unwrap().is_empty(), "it is kept for a week");
    let list = fs::read_to_string(place.join("kept.ndjson")).unwrap();
    let (first, rest) = list.split_once('\n').unwrap();
    let at_ms =
        first.split_once("at_ms\":").unwrap().1.trim_end_matches('}').parse::<i64>().unwrap();
    let earlier = at_ms - 8 * 24 * 60 * 60 * 1000;
    fs::write(
        place.join("kept.ndjson"),
        format!("{}\n{rest}", first.replace(&at_ms.to_string(), &earlier.to_string())),
    )
    .unwrap();
    let foreign = place.with_file_name(".repair-of-my-bike");
    fs::create_dir(&foreign).unwrap();
    fs::write(place.join("mine"), "mine").unwrap();
    assert_eq!(scene.backend.old_keeps().unwrap(), std::slice::from_ref(&place));
    scene.backend.remove_keep(&place).unwrap();
    assert!(place.join("mine").is_file() && !place.join("teams").exists() && foreign.is_dir());
    fs::remove_file(place.join("mine")).unwrap();
    scene.backend.remove_keep(&place).unwrap();
    assert!(!place.exists());
}

#[tokio::test]
async fn what_is_whole_again_when_a_repair_comes_to_it_stays() {
    let scene = Scene::new().await;
    scene.add_tasks(1).await;
    scene.send("m1").await;
    fs::write(scene.path("teams/probe/pitcrew/requests.json"), "{\"version\":1,\"requests\":{}}")
        .unwrap();
    fs::write(scene.path("tasks/probe/.highwatermark"), "7").unwrap();
    for file in [
        "tasks/probe/1.json",
        "tasks/probe/.highwatermark",
        "teams/probe/inboxes/worker.json",
        "teams/probe/pitcrew/requests.json",
    ] {
        let path = scene.path(file);
        let whole = fs::read_to_string(&path).unwrap();
        let cut = whole.get(..whole.len() / 2).filter(|cut| !cut.is_empty()).unwrap_or("?");
        fs::write(&path, cut).unwrap();
        let found = scene.backend.look().found;
        assert!(matches!(&found[..], [Damage::Torn { .. }]), "{file}: {found:?}");
        // The test acts as a program that completes the damaged file between the check and the
        // repair.
        fs::write(&path, &whole).unwrap();
        let mut keep = scene.backend.keep();
        assert_eq!(scene.backend.repair(&found[0], &mut keep).unwrap(), Mend::Changed, "{file}");
        assert_eq!((fs::read_to_string(&path).unwrap(), keep.place()), (whole, None), "{file}");
        assert_eq!(scene.backend.look().found, [], "{file}");
    }
}

#[tokio::test]
async fn of_two_repairs_at_once_the_second_takes_nothing() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    fs::write(scene.path("teams/probe/pitcrew/requests.json"), "{\"").unwrap();
    let inbox = scene.path("teams/probe/inboxes/worker.json");
    let text = fs::read_to_string(&inbox).unwrap();
    fs::write(&inbox, &text[..text.len() - 1]).unwrap();
    let stale = scene.path("teams/probe/config.json.lock");
    fs::create_dir(&stale).unwrap();
    age(&stale, 100);
    let found = scene.backend.look().found;
    assert_eq!(found.len(), 3, "{found:?}");
    let repair = |damage: &Damage| scene.backend.repair(damage, &mut scene.backend.keep()).unwrap();
    assert!(found.iter().map(repair).all(|done| matches!(done, Mend::Kept(_))));
    let again: Vec<Mend> = found.iter().map(repair).collect();
    assert_eq!(again, [Mend::Changed, Mend::Changed, Mend::Changed]);
    assert_eq!(scene.ids().await, ["m1"]);
}
