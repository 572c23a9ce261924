//! Makes short runs and checks that they have no finding: runs with crashes for each place where
//! members can run, a run with power cuts, runs with stale writes, runs that check how each
//! process of the lead ends, and detached runs with faces.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use pitcrew_chaos::cli::kept_ends;
use pitcrew_chaos::plan::{Place, Plan, StaleWrites};
use pitcrew_chaos::run::{Options, run};

/// The number of crashes in each run. With `./test --long`, a run has all crashes of its plan.
const CRASHES: usize = 3;

/// The number of runs that check how each process of the lead ends. `./test --long` makes two
/// hundred of them.
const ENDS: usize = 14;

/// The number of detached runs with faces. `./test --long` makes two hundred of them.
const FACES: u64 = 4;

static STOP: AtomicBool = AtomicBool::new(false);

/// Returns the path of the pitcrew binary, which is in the folder of the test programs. If only the
/// tests of this crate are built, builds the binary first.
fn binary() -> PathBuf {
    let own = env::current_exe().unwrap();
    let folder = own.parent().and_then(|deps| deps.parent()).unwrap();
    let binary = folder.join("pitcrew");
    if !binary.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "-p", "pitcrew", "--locked", "--quiet"]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the binary cannot be built");
    }
    binary
}

/// Makes one run for each plan, two at a time, and checks that no run has a finding.
async fn check(plans: Vec<Plan>) {
    let options = Options { binary: binary(), keeps: env::var_os("PITCREW_KEEP").is_some() };
    let mut found = Vec::new();
    for pair in plans.chunks(2) {
        let runs = pair.iter().map(|plan| tokio::spawn(run(plan.clone(), options.clone(), &STOP)));
        for outcome in runs.collect::<Vec<_>>() {
            let outcome = outcome.await.unwrap().unwrap();
            outcome.skipped.iter().for_each(|what| eprintln!("skipped: {what}"));
            if !outcome.findings.is_empty() {
                found.push(format!("{}{:#?}\n{:#?}", outcome.plan, outcome.log, outcome.findings));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn short(seeds: std::ops::Range<u64>, place: Place) -> Vec<Plan> {
    seeds.map(|seed| Plan::of(seed, Some(place)).shortened(CRASHES)).collect()
}

fn has_tmux() -> bool {
    let is_there = Command::new("tmux").arg("-V").output().is_ok();
    if !is_there {
        eprintln!("skipped: tmux is not installed");
    }
    is_there
}

#[tokio::test(flavor = "multi_thread")]
async fn teams_in_one_process_survive_their_crashes() {
    check(short(0..4, Place::InProcess)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn teams_in_panes_survive_their_crashes() {
    if has_tmux() {
        check(short(4..8, Place::Panes)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn teams_here_and_there_survive_their_crashes() {
    if has_tmux() {
        check(short(8..11, Place::Mixed)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_power_cuts() {
    check(vec![Plan::of_power_cuts(0).shortened(CRASHES)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stale_writes_undo_in_a_running_team_is_put_back() {
    if has_tmux() {
        let some = StaleWrites { messages: 60, updates: 15, writes: 60 };
        check(vec![Plan::of_stale_writes(0, some), Plan::of_stale_writes(1, some)]).await;
    }
}

/// Makes the plans for [`ENDS`] seeds: first for the seeds whose runs failed in the past, and then
/// for other seeds from 0 up. Returns only the plans with panes if `has_panes` is true, otherwise
/// only the plans without panes.
fn ends(has_panes: bool) -> Vec<Plan> {
    let kept = kept_ends();
    let others = (0..).filter(|seed| !kept.contains(seed));
    let plans = kept.iter().copied().chain(others).take(ENDS).map(Plan::of_ends);
    plans.filter(|plan| (plan.place != Place::InProcess) == has_panes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_run_in_one_process_says_what_the_files_say() {
    check(ends(false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_run_with_panes_says_what_the_files_say() {
    if has_tmux() {
        check(ends(true)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faces_and_hosts_survive_each_others_deaths() {
    if has_tmux() {
        check((0..FACES).map(Plan::of_faces).collect()).await;
    }
}
