//! Runs the conformance suite on other file systems. Each test mounts the file system that it
//! needs. If a file system cannot be mounted on this machine, the test reports that and is skipped.

use pitcrew_store::NewTeam;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use pitcrew_store::conformance::CHECKS;
use pitcrew_store::{FileBackend, FileOptions, MailStore, TeamStore, UnreadLimit};

use crate::scene::{config, ids, message, open, worker};

/// A file system that is mounted for one test. Dropping this value unmounts the file system.
struct Place {
    dir: tempfile::TempDir,
    mounted: Vec<PathBuf>,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), mounted: Vec::new() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn root(&self) -> &Path {
        self.mounted.last().unwrap()
    }

    /// Runs the mount command `command`, which mounts a file system at the folder `at`.
    fn mount(mut self, at: &Path, command: &[&str]) -> Result<Self, String> {
        run(command)?;
        self.mounted.push(at.to_owned());
        Ok(self)
    }

    fn tmpfs() -> Result<Self, String> {
        let place = Self::new();
        let at = place.folder("tmpfs");
        let mount = ["mount", "-t", "tmpfs", "none", text(&at)];
        place.mount(&at, &mount)
    }

    /// Mounts a file system of type `kind` whose content is in an image file.
    fn on_a_loop(kind: &str, megabytes: u64) -> Result<Self, String> {
        let place = Self::new();
        let (image, at) = (place.dir.path().join("image"), place.folder("mounted"));
        fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        run(&[&format!("mkfs.{kind}"), text(&image)])?;
        let mount = ["mount", "-t", kind, "-o", "loop", text(&image), text(&at)];
        place.mount(&at, &mount)
    }

    /// Mounts an overlay with a writable upper layer. `fill` writes the files of the lower layer.
    fn overlay(fill: impl FnOnce(&Path)) -> Result<Self, String> {
        let place = Self::tmpfs()?;
        let below = |name: &str| place.folder(&format!("tmpfs/{name}"));
        let (lower, upper, work) = (below("lower"), below("upper"), below("work"));
        fill(&lower);
        let at = place.folder("merged");
        let layers =
            format!("lowerdir={},upperdir={},workdir={}", text(&lower), text(&upper), text(&work));
        place.mount(&at, &["mount", "-t", "overlay", "none", "-o", &layers, text(&at)])
    }

    /// Mounts a folder through FUSE. FUSE has no rename that refuses to replace an existing entry.
    fn bindfs() -> Result<Self, String> {
        let place = Self::new();
        let (below, at) = (place.folder("below"), place.folder("seen"));
        let mount = ["bindfs", "--no-allow-other", text(&below), text(&at)];
        place.mount(&at, &mount)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for at in self.mounted.iter().rev() {
            if let Err(error) = run(&["umount", "--lazy", text(at)]) {
                eprintln!("{} stays mounted: {error}", at.display());
            }
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(command: &[&str]) -> Result<(), String> {
    let (program, arguments) = command.split_first().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr)))
}

/// Returns the mounted file system. If it could not be mounted on this machine, prints the reason
/// and returns `None`.
fn unless_skipped(place: Result<Place, String>) -> Option<Place> {
    place.inspect_err(|reason| eprintln!("skipped: it cannot be mounted here: {reason}")).ok()
}

/// Runs all checks of the conformance suite on this file system. Each check gets a separate root.
async fn check(place: Result<Place, String>) {
    let Some(place) = unless_skipped(place) else { return };
    let mut failed = Vec::new();
    for check in CHECKS {
        let root = place.root().join(check.name);
        fs::create_dir(&root).unwrap();
        let backend = FileBackend::open(&root, FileOptions::default());
        if let Err(failure) = (check.run)(Arc::new(backend)).await {
            failed.push(format!("{}: {:?}", check.name, failure));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test]
async fn the_suite_holds_on_tmpfs() {
    check(Place::tmpfs()).await;
}

#[tokio::test]
async fn the_suite_holds_on_ext4() {
    check(Place::on_a_loop("ext4", 64)).await;
}

#[tokio::test]
async fn the_suite_holds_on_xfs() {
    check(Place::on_a_loop("xfs", 320)).await;
}

#[tokio::test]
async fn the_suite_holds_on_btrfs() {
    check(Place::on_a_loop("btrfs", 256)).await;
}

#[tokio::test]
async fn the_suite_holds_on_vfat() {
    check(Place::on_a_loop("vfat", 64)).await;
}

#[tokio::test]
async fn the_suite_holds_on_an_overlay() {
    check(Place::overlay(|_| ())).await;
}

#[tokio::test]
async fn the_suite_holds_through_fuse() {
    check(Place::bindfs()).await;
}

/// Tests that a team in the lower layer of an overlay file system can be used and archived, and
/// that a new team can get its name. A team is in the lower layer if a container image contains the
/// team.
#[tokio::test]
async fn a_team_of_the_lower_layer_of_an_overlay_is_used_and_archived() {
    let team = config().name.dir();
    let made = tempfile::tempdir().unwrap();
    let (backend, inbox) = (open(made.path()), worker());
    backend.create_team(&config(), &NewTeam::default()).await.unwrap();
    let _new = backend.append(&team, &inbox, message("m1"), UnreadLimit::None).await.unwrap();
    let copied = |lower: &Path| {
        run(&["cp", "-a", &format!("{}/.", text(made.path())), text(lower)]).unwrap()
    };
    let Some(place) = unless_skipped(Place::overlay(copied)) else { return };
    let backend = open(place.root());
    let _new = backend.append(&team, &inbox, message("m2"), UnreadLimit::None).await.unwrap();
    assert_eq!(ids(&backend, &team).await, ["m1", "m2"]);
    let archive = backend.archive_team(&team).await.unwrap();
    let archive = backend.paths().archived(&archive);
    assert_eq!(backend.teams().await.unwrap(), []);
    let kept = fs::read_to_string(archive.join("team/inboxes/worker.json")).unwrap();
    assert!(kept.contains("m1") && kept.contains("m2"), "{kept}");
    assert!(
        !place.root().join("teams/probe").exists() && !place.root().join("tasks/probe").exists()
    );
    backend.create_team(&config(), &NewTeam::default()).await.unwrap();
}

/// FUSE has no rename that refuses to replace an existing entry. The test creates the same team
/// from eight stores at once. Exactly one store must succeed, so that no existing team is replaced.
#[tokio::test]
async fn a_team_of_another_client_is_not_replaced_through_fuse() {
    let Some(place) = unless_skipped(Place::bindfs()) else { return };
    let stores: Vec<FileBackend> = (0..8).map(|_| open(place.root())).collect();
    let config = config();
    let new = NewTeam::default();
    let made =
        futures_util::future::join_all(stores.iter().map(|store| store.create_team(&config, &new)))
            .await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
}
