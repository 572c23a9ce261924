//! What it costs a command to be held to its profile: `true` in Bash, in the same run unconfined and in each profile, and in
//! *read* with a `Read` deny rule over 50,000 files.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitcrew_runtime::gate::Gate;
use pitcrew_runtime::sandbox::{Machine, Profile, Sandbox, run_inside};
use pitcrew_runtime::settings::{Layer, Settings};
use pitcrew_runtime::tools::{Bash, PathLocks, ReadLog, Shells, Tool, ToolContext, ToolLimits};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// How often each is measured.
const ROUNDS: usize = 200;

/// Folders of the large project, and files in each.
const FOLDERS: usize = 500;
const FILES: usize = 100;

/// How many files there a rule names: each costs the other files of its folder a right of their own.
const DENIED: usize = 5;

/// How this program is told that it runs inside of bubblewrap.
const INSIDE: &str = "sandbox-exec";

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == INSIDE) {
        panic!("{}", run_inside(arguments));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().canonicalize().expect("a path");
    let (home, small, large) = (base.join("home"), base.join("small"), base.join("large"));
    for path in [home.join(".claude"), home.join(".cargo/bin"), small.clone(), large.clone()] {
        fs::create_dir_all(path).expect("a folder");
    }
    for number in 0..FOLDERS {
        let inner = large.join(format!("folder-{number}"));
        fs::create_dir(&inner).expect("a folder");
        (0..FILES).for_each(|file| fs::write(inner.join(format!("file-{file}.rs")), "").expect("a file"));
        if number % (FOLDERS / DENIED) == 0 {
            fs::write(inner.join(".env"), "").expect("a file");
        }
    }
    let machine = Machine {
        root: home.join(".claude"),
        temporary: "/tmp".into(),
        path: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
        home: Some(home),
        inner: Some(vec![std::env::current_exe().expect("a path").into(), INSIDE.into()]),
        ..Machine::default()
    };
    let sandbox = Sandbox::new(machine);
    let runtime = Runtime::new().expect("a runtime");
    let denies = Settings::merge(vec![(Layer::User, json!({"permissions": {"deny": ["Read(**/.env)"]}}))]);
    let denies = Arc::new(Gate::from_settings(&denies.expect("settings"), None).expect("rules"));
    println!("true in Bash, {ROUNDS} times each:");
    let unconfined = show(&runtime, "unconfined", &context(&small, Sandbox::default(), Profile::Free), None);
    for profile in [Profile::Free, Profile::Read, Profile::Work] {
        if !sandbox.support(profile).is_held() {
            println!("  {profile:<28} {:?}", sandbox.support(profile));
            continue;
        }
        show(&runtime, profile.as_str(), &context(&small, sandbox.clone(), profile), Some(unconfined));
    }
    let context = ToolContext { gate: denies, ..context(&large, sandbox, Profile::Read) };
    let first = Instant::now();
    runtime.block_on(once(&context));
    println!("  the first walk through {} files with Read(**/.env) denied: {:.3?}", FOLDERS * FILES, first.elapsed());
    show(&runtime, "read, 500 folders with rules", &context, Some(unconfined));
}

fn context(cwd: &Path, sandbox: Sandbox, profile: Profile) -> ToolContext {
    ToolContext {
        cwd: cwd.to_path_buf(),
        env: Vec::new(),
        call: "bench".to_owned(),
        cancel: CancellationToken::new(),
        gate: Arc::default(),
        sandbox,
        profile,
        may_unconfine: false,
        reads: ReadLog::new(PathLocks::new()),
        shells: Shells::new(cwd.join("shells")),
        limits: ToolLimits::default(),
    }
}

/// Measures, prints, and answers with the median.
fn show(runtime: &Runtime, name: &str, context: &ToolContext, than: Option<Duration>) -> Duration {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        runtime.block_on(once(context));
        times.push(start.elapsed());
    }
    times.sort();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    let median = at(50);
    let more = than.map_or_else(String::new, |than| {
        format!(
            "  {:+.2} ms, {:.2} times",
            (median.as_secs_f64() - than.as_secs_f64()) * 1e3,
            median.as_secs_f64() / than.as_secs_f64()
        )
    });
    println!("  {name:<28} p50 {median:>9.3?}  p99 {:>9.3?}{more}", at(99));
    median
}

async fn once(context: &ToolContext) {
    let outcome = Bash.call(json!({"command": "true"}), context).await;
    assert!(!outcome.is_error, "true failed: {}", outcome.text);
}
