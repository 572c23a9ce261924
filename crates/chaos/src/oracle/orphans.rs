//! Checks that an ended run leaves nothing behind: no process, no pane, no lock, no temporary file,
//! no socket and no worktree. Only a worktree with uncommitted work is allowed to stay.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Finding, Scene};
use crate::run::UNFINISHED;
use crate::stage::{Stage, files};
use crate::writers::members;

/// After the end of a run, everything must be cleaned up within this time.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn judge(scene: &Scene<'_>) -> Vec<Finding> {
    let since = Instant::now();
    loop {
        let mut left = left(scene.stage);
        // Members may stay in the team only if the run ended with open work, because the next run
        // needs them.
        if scene.end.as_ref().is_none_or(|end| end.code != Some(UNFINISHED)) {
            let names = members(scene.stage).into_iter().filter(|name| name != "team-lead");
            left.extend(names.map(|name| format!("member {name}")));
        }
        if left.is_empty() {
            let files = temporary(scene.stage).into_iter().chain(sockets(scene));
            return files.chain(doctor(scene)).collect();
        }
        if since.elapsed() > PATIENCE {
            return left
                .into_iter()
                .map(|text| Finding::new("something is left over", text))
                .collect();
        }
        thread::park_timeout(Duration::from_millis(50));
    }
}

fn left(stage: &Stage) -> Vec<String> {
    let mut left: Vec<String> = stage
        .processes()
        .into_iter()
        .map(|process| format!("process {}: {}", process.pid, process.line))
        .collect();
    let panes = stage.panes().into_iter().filter(|pane| !pane.ends_with(" mine"));
    left.extend(panes.map(|pane| format!("pane {pane}")));
    let mut found = Vec::new();
    walk(&stage.root(), &mut found);
    let locks = found.into_iter().filter(|path| path.is_dir() && name(path).ends_with(".lock"));
    left.extend(locks.map(|path| format!("lock {}", path.display())));
    left.extend(idle_worktrees(stage).into_iter().map(|path| format!("worktree {path}")));
    let started = fs::read(stage.team().join("pitcrew/started.json")).unwrap_or_default();
    let started: Value = serde_json::from_slice(&started).unwrap_or_default();
    // The first version of the file `started.json` contained only the map of records, without the
    // field `started`.
    let records =
        started.get("started").unwrap_or(&started).as_object().cloned().unwrap_or_default();
    left.extend(records.iter().map(|(name, record)| format!("record of {name}: {record}")));
    left
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in files(folder) {
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            found.push(path.clone());
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Finds temporary files. Each write creates a file whose name begins with `.pitcrew-`, and renames
/// the file at the end. After a run, no such file may exist.
fn temporary(stage: &Stage) -> Vec<Finding> {
    let mut found = Vec::new();
    walk(&stage.root(), &mut found);
    let left = found.iter().filter(|path| name(path).starts_with(".pitcrew-"));
    left.map(|path| Finding::new("a temporary file is left over", path.display().to_string()))
        .collect()
}

/// Finds sockets. The host of a run has one, and removes it when the run ends by itself.
fn sockets(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if scene.end.is_some() {
        walk(&scene.stage.root(), &mut found);
    }
    let is_socket =
        |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let left = found.iter().filter(is_socket);
    left.map(|path| Finding::new("a socket is left over", path.display().to_string())).collect()
}

/// Returns the worktrees that contain no uncommitted work.
fn idle_worktrees(stage: &Stage) -> Vec<String> {
    let git = |at: &Path, args: &[&str]| {
        let output = stage.tool("git").current_dir(at).args(args).output();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default()
    };
    let listed = git(&stage.work(), &["worktree", "list", "--porcelain"]);
    let paths = listed.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1);
    let is_idle = |path: &&str| {
        let path = Path::new(path);
        !path.is_dir() || git(path, &["status", "--porcelain"]).is_empty()
    };
    paths.filter(is_idle).map(str::to_owned).collect()
}

/// Checks that `pitcrew doctor` reports no problem.
fn doctor(scene: &Scene<'_>) -> Vec<Finding> {
    let Ok(output) = scene.stage.pitcrew(&["doctor"]).output() else { return Vec::new() };
    if output.status.success() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    // A worktree with uncommitted work is kept on purpose, and `pitcrew doctor` reports it.
    let is_kept =
        scene.plan.workers.iter().any(|worker| worker.has_worktree) && text.contains("worktree");
    // Another client may write to a member that has just left. Nobody reads this message, so
    // `pitcrew doctor` reports it.
    let is_late =
        (scene.plan.writers.honouring || scene.plan.writers.ignoring) && text.contains("dead mail");
    if is_kept || is_late { Vec::new() } else { vec![Finding::new("doctor finds something", text)] }
}
