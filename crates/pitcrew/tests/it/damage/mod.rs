//! Tests of `doctor` with every kind of damage that it knows. Each damage is made in a separate
//! root. `doctor` must repair or report the damage, and must not change a healthy or foreign file.
//! The tests compare the contents, modes and links of all files before and after a repair.

mod cases;
mod foreign;
mod records;
mod scene;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use scene::{Entry, Scene, Tree};

/// The number of roots that are checked at the same time. A check spends most of its time waiting
/// for processes to start, so several checks at the same time are faster.
const AT_ONCE: usize = 4;

/// The reaction that a test expects of `doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// `doctor` reports the damage as this kind, and a repair removes the damage.
    Mended(&'static str),
    /// `doctor` reports the damage as this kind. A repair does not change the damage, because a
    /// person must decide.
    Named(&'static str),
    /// `doctor` does not report the file and does not change it.
    Untouched,
}

type Make = Box<dyn Fn(&Scene) -> Vec<PathBuf> + Send + Sync>;

/// One kind of damage, and the expected reaction of `doctor`.
pub(super) struct Damage {
    pub(super) name: String,
    /// A function that makes the damage. It returns the files and folders that a repair is allowed
    /// to change or remove.
    pub(super) make: Make,
    pub(super) expect: Expect,
}

impl Damage {
    pub(super) fn new(
        name: impl Into<String>,
        expect: Expect,
        make: impl Fn(&Scene) -> Vec<PathBuf> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), make: Box::new(make), expect }
    }
}

fn check_all(damages: &[Damage]) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(damage) = damages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = check(damage) {
                        failed.lock().unwrap().push(format!("{}: {why}", damage.name));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        damages.len(),
        failed.join("\n")
    );
}

fn check(damage: &Damage) -> Result<(), String> {
    let scene = Scene::new();
    let may_change = (damage.make)(&scene);
    let (before, stamps) = (scene.tree(), scene.stamps());
    let (code, looked) = scene.doctor(&[]);
    is(scene.tree() == before, || {
        format!("a look changed {}", differences(&before, &scene.tree()))
    })?;
    let touched: Vec<_> =
        scene.stamps().into_iter().filter(|(path, at)| stamps.get(path) != Some(at)).collect();
    is(touched.is_empty(), || format!("a look wrote to {touched:?}"))?;
    match damage.expect {
        Expect::Untouched => {
            is(code == 0, || format!("it ended with {code}: {looked:#}"))?;
            scene.doctor(&["--repair"]);
            unchanged(&before, &scene.tree(), &[])
        }
        Expect::Named(kind) => {
            finds(&looked, kind, code)?;
            let (code, repaired) = scene.doctor(&["--repair"]);
            finds(&repaired, kind, code)?;
            unchanged(&before, &scene.tree(), &[])
        }
        Expect::Mended(kind) => {
            finds(&looked, kind, code)?;
            let says = findings(&looked).iter().all(|it| it["repair"].is_string());
            is(says, || format!("it does not say what a repair does: {looked:#}"))?;
            let (code, repaired) = scene.doctor(&["--repair"]);
            is(code == 0 && repaired["left"] == 0, || {
                format!("it was not mended: {code} {repaired:#}")
            })?;
            let after = scene.tree();
            unchanged(&before, &after, &may_change)?;
            kept(&before, &after, &scene)?;
            let (code, again) = scene.doctor(&[]);
            is(code == 0, || format!("all is not well after the repair: {again:#}"))
        }
    }
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn finds(report: &Value, kind: &str, code: i32) -> Result<(), String> {
    let is_found = findings(report).iter().any(|finding| finding["kind"] == kind);
    is(is_found && code == 1, || {
        format!("no {kind} in the report, which ended with {code}: {report:#}")
    })
}

/// Checks that only paths in `may_change` changed. The only allowed new files are files that a
/// repair writes: the archive, the journal and counters.
fn unchanged(before: &Tree, after: &Tree, may_change: &[PathBuf]) -> Result<(), String> {
    let is_expected = |path: &PathBuf| {
        may_change.iter().any(|it| path.starts_with(it))
            || path.starts_with("root/pitcrew/rates")
            || path.starts_with("root/teams/crew/pitcrew/writes")
            || (path.starts_with("root/pitcrew") && !before.contains_key(path))
    };
    let rest = |tree: &Tree| -> Tree {
        tree.iter()
            .filter(|(path, _)| !is_expected(path))
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .collect()
    };
    let (before, after) = (rest(before), rest(after));
    is(before == after, || format!("changed: {}", differences(&before, &after)))
}

/// Checks that each removed file is in the archive, with the same content.
fn kept(before: &Tree, after: &Tree, scene: &Scene) -> Result<(), String> {
    let in_archive: BTreeMap<PathBuf, &Entry> = after
        .iter()
        .filter_map(|(path, entry)| {
            let below = path.strip_prefix("root/pitcrew/archive").ok()?;
            Some((below.iter().skip(1).collect(), entry))
        })
        .collect();
    for (path, entry) in before.iter().filter(|(path, _)| !after.contains_key(*path)) {
        if scene.is_no_loss(path) {
            continue;
        }
        let below = path.strip_prefix("root").unwrap_or(path);
        is(in_archive.get(below) == Some(&entry), || {
            format!("{} is gone and not kept", path.display())
        })?;
    }
    Ok(())
}

fn differences(before: &Tree, after: &Tree) -> String {
    let gone = before
        .iter()
        .filter(|(path, entry)| after.get(*path) != Some(entry))
        .map(|(path, entry)| format!("- {} {entry:?}", path.display()));
    let come = after
        .iter()
        .filter(|(path, entry)| before.get(*path) != Some(entry))
        .map(|(path, entry)| format!("+ {} {entry:?}", path.display()));
    gone.chain(come).collect::<Vec<_>>().join("\n")
}

pub(super) fn is(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

#[test]
fn a_hundred_kinds_of_damage_are_mended_or_named_and_nothing_else_changes() {
    let all = [cases::all(), records::all(), foreign::all(), world::all()].map(|cases| cases.len());
    assert!(all.iter().sum::<usize>() >= 100, "{all:?}");
}

#[test]
fn damaged_files_are_mended_or_named() {
    check_all(&cases::all());
}

#[test]
fn damaged_records_are_mended_or_named() {
    check_all(&records::all());
}

#[test]
fn what_is_not_ours_is_not_touched() {
    check_all(&foreign::all());
}

#[test]
fn members_tasks_processes_and_worktrees_are_mended_or_named() {
    check_all(&world::all());
}
