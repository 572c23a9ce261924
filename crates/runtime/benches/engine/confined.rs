//! Measures how much time it costs to protect the team's own files from a command.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitcrew_process::sandbox::{Machine, Mechanism, Profile, Sandbox};
use pitcrew_protocol::PermissionMode;
use pitcrew_tools::{Bash, PathLocks, ReadLog, Shells, Tool, ToolContext, ToolLimits};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::percentile;

/// Number of measurements of each case.
const ROUNDS: usize = 200;

/// Number of other folders in the home folder. For each of them, the sandbox needs its own
/// permission rule.
const NEIGHBOURS: usize = 300;

/// Prints the time that Bash needs for the command `true`, with each available sandbox mechanism.
pub(crate) fn run() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().canonicalize().expect("a path");
    let (root, cwd) = (home.join(".claude"), home.join("project"));
    for path in [root.join("teams"), root.join("tasks"), cwd.clone()] {
        std::fs::create_dir_all(path).expect("a folder");
    }
    for number in 0..NEIGHBOURS {
        std::fs::create_dir(home.join(format!("neighbour-{number}"))).expect("a folder");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let measure = |sandbox: &Sandbox| runtime.block_on(measure(sandbox, &cwd));
    let machine = || Machine::with_root(&root, Path::new("/tmp"));
    println!("true in Bash, with {NEIGHBOURS} folders beside the root, {ROUNDS} times each:");
    for sandbox in [Sandbox::default(), Sandbox::by_landlock(machine()), Sandbox::new(machine())] {
        let name = match sandbox.means(&cwd) {
            Mechanism::Nothing => "unconfined",
            Mechanism::Landlock => "Landlock",
            Mechanism::Bubblewrap => "bubblewrap",
        };
        let times = measure(&sandbox);
        println!(
            "  {name:<11} p50 {:>9.3?}  p99 {:>9.3?}",
            percentile(&times, 50),
            percentile(&times, 99)
        );
    }
}

async fn measure(sandbox: &Sandbox, cwd: &Path) -> Vec<Duration> {
    let context = ToolContext {
        cwd: cwd.to_path_buf(),
        env: Vec::new(),
        call: "bench".to_owned(),
        judged: None,
        cancel: CancellationToken::new(),
        gate: Arc::default(),
        sandbox: sandbox.clone(),
        mode: PermissionMode::default(),
        profile: Profile::Free,
        may_unconfine: false,
        reads: ReadLog::new(PathLocks::new()),
        shells: Shells::new(cwd.join("shells")),
        limits: ToolLimits::default(),
    };
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let outcome = Bash.call(json!({"command": "true"}), &context).await;
        times.push(start.elapsed());
        assert!(!black_box(outcome).is_error, "true failed");
    }
    times.sort();
    times
}
