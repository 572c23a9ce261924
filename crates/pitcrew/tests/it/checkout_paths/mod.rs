//! Every path that pitcrew opens below a checkout, with every kind of file in its place.
//!
//! The paths are recorded: `strace` tells which paths a whole run touches, from the spawn of a
//! teammate with a worktree to its review, merge and cleanup, and `doctor`. Then each path gets each
//! kind of file that the author of an archive, or a command in a worktree, can put there: a link
//! that leads out, a FIFO, a file of a terabyte. The same run follows. Nothing outside of the
//! checkout may be read or changed, nothing may hang, and TERM must end everything.
//!
//! A part of the cases, chosen by a seed, always runs. `PITCREW_ATTACKS=all` runs all of them, and a
//! number as its value runs another part. `PITCREW_PATHS=REGEX` runs those whose name matches, such as
//! `Work .git/HEAD Fifo`.

mod expected;
mod frozen_disk;
mod left_locks;
mod plant;
mod recorded;
mod scene;
mod watched;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use regex::Regex;

use plant::{KINDS, Kind, plant};
use recorded::{Checkout, Place, places};
use scene::{Prepared, Scene};
use watched::Watched;

/// The number of cases that always run.
const SAMPLE: usize = 24;

/// The number of cases that run at the same time.
const AT_ONCE: usize = 2;

/// A kind of file at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    place: Place,
    kind: Kind,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Place { checkout, below } = &self.place;
        write!(f, "{checkout:?} {} {:?}", below.display(), self.kind)
    }
}

#[test]
fn whatever_lies_at_a_path_of_a_checkout_nothing_outside_is_touched_and_nothing_hangs() {
    for tool in ["strace", "git", "bwrap", "setpriv"] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("\n!!! SKIPPED: paths of a checkout: {tool} is not installed !!!\n");
            return;
        }
    }
    let prepared = Prepared::new();
    let places = recorded_places(&prepared);
    let cases = chosen(&places);
    eprintln!("{} paths, {} cases", places.len(), cases.len());
    let (todo, found) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = todo.lock().unwrap().next();
                    let Some(case) = next else { break };
                    let faults = play_surely(&prepared, case);
                    for fault in faults {
                        eprintln!("{case}: {fault}");
                        if expected::branch(case, &fault).is_none() {
                            found.lock().unwrap().push(format!("{case}: {fault}"));
                        }
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Plays the run with nothing planted, and returns the paths that it touches. The run does all that
/// the cases are about.
fn recorded_places(prepared: &Prepared) -> BTreeSet<Place> {
    let mut scene = Scene::new(prepared).recorded();
    scene.give();
    let watched = Watched::new(&scene.outside());
    scene.run();
    scene.afterwards();
    let traces = scene.at("traces");
    let places =
        places(&traces, &scene.folder_of(Checkout::Work), &scene.folder_of(Checkout::Worktree));
    let happened = watched.happened();
    let merged = scene.folder_of(Checkout::Work).join("made.txt").is_file();
    let is_left = scene.folder_of(Checkout::Worktree).exists();
    let (faults, said) = scene.ended();
    assert!(faults.is_empty() && happened.is_empty(), "{faults:?} {happened:?}: {said}");
    assert!(merged && !is_left, "the work is not merged, or its worktree is left: {said}");
    assert!(said.contains("[TERM took"), "{said}");
    for (checkout, below) in [
        (Checkout::Work, ".git/HEAD"),
        (Checkout::Work, "CLAUDE.md"),
        (Checkout::Work, ".git/commondir"),
        (Checkout::Work, ".claude/agents/helper.md"),
        (Checkout::Worktree, ".git"),
    ] {
        let place = Place { checkout, below: below.into() };
        assert!(places.contains(&place), "{place:?} is not recorded: {places:#?}");
    }
    places
}

/// Plays a case again if something was wrong, and returns what was wrong each time. Another program
/// of the machine, such as a search of the temporary folder, can open a folder meanwhile.
fn play_surely(prepared: &Prepared, case: &Case) -> BTreeSet<String> {
    let mut wrong = play(prepared, case);
    for _ in 0..2 {
        if wrong.iter().any(|fault| !fault.starts_with("opened ")) || wrong.is_empty() {
            break;
        }
        let again = play(prepared, case);
        wrong.retain(|fault| again.contains(fault));
    }
    wrong
}

/// Plays a run with one file planted. Returns what was wrong.
fn play(prepared: &Prepared, case: &Case) -> BTreeSet<String> {
    let mut scene = Scene::new(prepared);
    let Case { place, kind } = case;
    let path = scene.folder_of(place.checkout).join(&place.below);
    let is_early = place.is_of_archive();
    if is_early && !plant(&path, *kind, &scene.outside()) {
        return BTreeSet::new();
    }
    scene.give();
    let mut watched = Watched::new(&scene.outside());
    scene.run();
    let mut happened = BTreeSet::new();
    if !is_early {
        happened = watched.happened();
        if !scene.folder_of(Checkout::Worktree).exists() {
            happened.insert("no worktree was made".to_owned());
            return happened;
        }
        if !plant(&path, *kind, &scene.outside()) {
            return happened;
        }
        scene.give();
        watched = Watched::new(&scene.outside());
    }
    scene.afterwards();
    happened.extend(watched.happened());
    let (faults, said) = scene.ended();
    happened.extend(faults);
    if !happened.is_empty() && std::env::var_os("PITCREW_KEEP").is_some() {
        eprintln!("{case}:\n{said}");
    }
    happened
}

fn chosen(places: &BTreeSet<Place>) -> Vec<Case> {
    let all = places.iter().flat_map(|place| KINDS.map(|kind| Case { place: place.clone(), kind }));
    if let Ok(wanted) = std::env::var("PITCREW_PATHS") {
        let wanted = Regex::new(&wanted).expect("PITCREW_PATHS is a regular expression");
        return all.filter(|case| wanted.is_match(&case.to_string())).collect();
    }
    let seed = match std::env::var("PITCREW_ATTACKS").ok().as_deref() {
        Some("all") => return all.collect(),
        Some(seed) => seed.parse().expect("PITCREW_ATTACKS is `all` or a number"),
        None => 1_u64,
    };
    let mut all: Vec<(u64, Case)> = all
        .map(|case| {
            let mut hasher = DefaultHasher::new();
            (seed, case.to_string()).hash(&mut hasher);
            (hasher.finish(), case)
        })
        .collect();
    all.sort();
    all.into_iter().take(SAMPLE).map(|(_, case)| case).collect()
}
