//! Measures how much time each sandbox profile costs. Bash runs the command `true` in several
//! cases: without a sandbox, in each profile, and in the profile `read` with a deny rule for `Read`
//! in a project of 50,000 files.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]
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

use pitcrew_permission::gate::Gate;
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_process::sandbox::{Machine, Profile, Sandbox, run_inside};
use pitcrew_protocol::PermissionMode;
use pitcrew_tools::{Bash, PathLocks, ReadLog, Shells, Tool, ToolContext, ToolLimits};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Default number of measurements of each case. The option `--rounds` sets another number.
const ROUNDS: usize = 200;

/// Number of commands that run for one case before the next case has its turn. The cases alternate,
/// so that other load on the machine affects all cases alike.
const AT_A_TIME: usize = 5;

/// A pause between two commands. It is shorter than the pauses of a real agent, because a model
/// needs more time for an answer.
const APART: Duration = Duration::from_millis(200);

/// Number of folders in the large project. The next constant is the number of files in each folder.
const FOLDERS: usize = 500;
const FILES: usize = 100;

/// Number of files in the large project to which a rule denies access. A Landlock rule can allow
/// access, but it cannot deny access. Every other file in the folder of a denied file therefore
/// needs its own Landlock rule.
const DENIED: usize = 5;

/// With this argument, the benchmark program sets up the sandbox from inside bubblewrap, like the
/// command `pitcrew sandbox-exec`.
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
        (0..FILES)
            .for_each(|file| fs::write(inner.join(format!("file-{file}.rs")), "").expect("a file"));
        if number % (FOLDERS / DENIED) == 0 {
            fs::write(inner.join(".env"), "").expect("a file");
        }
    }
    let sandbox = Sandbox::new(machine(&home));
    let runtime = Runtime::new().expect("a runtime");
    let denies =
        Settings::merge(vec![(Layer::User, json!({"permissions": {"deny": ["Read(**/.env)"]}}))]);
    let denies = Arc::new(Gate::from_settings(&denies.expect("settings"), None).expect("rules"));
    let mut cases =
        vec![Case::new("unconfined", context(&small, Sandbox::default(), Profile::Free))];
    for profile in [Profile::Free, Profile::Read, Profile::Work] {
        match sandbox.support(profile).is_held() {
            true => {
                cases.push(Case::new(profile.as_str(), context(&small, sandbox.clone(), profile)))
            }
            false => println!("{profile}: {:?}", sandbox.support(profile)),
        }
    }
    if sandbox.support(Profile::Work).is_held() {
        let apart = context(&small, sandbox.clone(), Profile::Work);
        cases.push(Case { pause: APART, ..Case::new("work, an agent thinks between", apart) });
    }
    let over_many = ToolContext { gate: denies, ..context(&large, sandbox, Profile::Read) };
    let first = Instant::now();
    runtime.block_on(once(&over_many));
    println!(
        "the first walk through {} files with Read(**/.env) denied: {:.3?}",
        FOLDERS * FILES,
        first.elapsed()
    );
    cases.push(Case::new("read, 500 folders with rules", over_many));
    look_for_keys(&runtime, &small, &base.join("rich"));
    let wanted = Wanted::read();
    cases.retain(|case| {
        wanted.only.as_ref().is_none_or(|only| case.name == *only || case.name == "unconfined")
    });
    for round in 0..wanted.rounds.div_ceil(AT_A_TIME) {
        for case in &mut cases {
            case.measure(&runtime, round > 0 || wanted.rounds <= AT_A_TIME);
        }
    }
    println!("true in Bash, {} times each, by turns of {AT_A_TIME}:", wanted.rounds);
    cases.iter().for_each(|case| case.show(cases.first()));
}

fn machine(home: &Path) -> Machine {
    Machine {
        root: home.join(".claude"),
        temporary: "/tmp".into(),
        path: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
        home: Some(home.to_path_buf()),
        inner: Some(vec![std::env::current_exe().expect("a path").into(), INSIDE.into()]),
        ..Machine::default()
    }
}

/// Measures how long the first command of a run takes if the home folder contains a toolchain of
/// 50,000 files. The sandbox searches these files for secret keys. For comparison, measures the
/// first command in a home folder without a toolchain, and the time to list the toolchain's
/// folders.
fn look_for_keys(runtime: &Runtime, small: &Path, home: &Path) {
    let registry = home.join(".cargo/registry");
    for folder in 0..FOLDERS {
        let folder = registry.join(format!("folder-{folder}"));
        fs::create_dir_all(&folder).expect("a folder");
        (0..FILES).for_each(|file| {
            fs::write(folder.join(format!("file-{file}.rs")), "").expect("a file")
        });
    }
    let empty = home.with_extension("empty");
    for path in [home.join(".claude"), empty.join(".claude"), empty.join(".cargo/bin")] {
        fs::create_dir_all(path).expect("a folder");
    }
    let first = |home: &Path| {
        let sandbox = Sandbox::new(machine(home));
        let started = Instant::now();
        runtime.block_on(once(&context(small, sandbox, Profile::Read)));
        started.elapsed()
    };
    let started = Instant::now();
    for folder in fs::read_dir(&registry).expect("a folder").flatten() {
        std::hint::black_box(
            fs::read_dir(folder.path())
                .expect("a folder")
                .flatten()
                .filter(|it| it.file_type().is_ok())
                .count(),
        );
    }
    let listed = started.elapsed();
    let (rich, poor) = (first(home), first(&empty));
    let more = rich.saturating_sub(poor);
    println!(
        "the first command of a run, in a home whose toolchain has {} files: {rich:.1?}, without one {poor:.1?}: {more:.1?} more, \
         {:.2} times the listing of its folders, {listed:.1?}",
        FOLDERS * FILES,
        more.as_secs_f64() / listed.as_secs_f64()
    );
}

/// The parsed arguments: `--rounds N`, and `--only NAME`, which runs one case.
struct Wanted {
    rounds: usize,
    only: Option<String>,
}

impl Wanted {
    fn read() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let after = |name: &str| arguments.iter().skip_while(|it| *it != name).nth(1);
        let rounds = after("--rounds").and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
        Self { rounds, only: after("--only").cloned() }
    }
}

/// One case of the benchmark: a way to run the command, with its measurements.
struct Case {
    name: &'static str,
    context: ToolContext,
    pause: Duration,
    times: Vec<Duration>,
    /// The processor time that this process and its children used for this case, in clock ticks.
    ticks: u64,
}

impl Case {
    fn new(name: &'static str, context: ToolContext) -> Self {
        Self { name, context, pause: Duration::ZERO, times: Vec::new(), ticks: 0 }
    }

    /// Runs the command several times. Measurements are recorded only if `counts` is true. The
    /// first calls fill caches, so they are made with `counts` false.
    fn measure(&mut self, runtime: &Runtime, counts: bool) {
        let before = ticks();
        for _ in 0..AT_A_TIME {
            std::thread::sleep(self.pause);
            let start = Instant::now();
            runtime.block_on(once(&self.context));
            if counts {
                self.times.push(start.elapsed());
            }
        }
        if counts {
            self.ticks += ticks() - before;
        }
    }

    fn show(&self, than: Option<&Self>) {
        let (median, processors) = (self.at(50).as_secs_f64() * 1e3, self.processors());
        let mut line = format!(
            "  {:<28} p50 {median:>7.2} ms  p99 {:>7.2} ms  processors {processors:>6.2} ms",
            self.name,
            self.at(99).as_secs_f64() * 1e3
        );
        if let Some(than) = than.filter(|than| than.name != self.name) {
            let (its_median, its_processors) = (than.at(50).as_secs_f64() * 1e3, than.processors());
            line += &format!(
                "  p50 {:+.2} ms, {:.2} times; processors {:+.2} ms",
                median - its_median,
                median / its_median,
                processors - its_processors
            );
        }
        println!("{line}");
    }

    fn at(&self, percent: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    }

    /// Returns the processor time for one command, in milliseconds.
    fn processors(&self) -> f64 {
        const TICKS_A_SECOND: f64 = 100.0;
        self.ticks as f64 * 1e3 / TICKS_A_SECOND / self.times.len().max(1) as f64
    }
}

/// Returns the processor time of this process and of its ended children, in clock ticks.
fn ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("a process table");
    let fields = stat.rsplit(')').next().expect("fields").split_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<u64>().expect("a number")).sum()
}

fn context(cwd: &Path, sandbox: Sandbox, profile: Profile) -> ToolContext {
    ToolContext {
        cwd: cwd.to_path_buf(),
        env: Vec::new(),
        call: "bench".to_owned(),
        judged: None,
        cancel: CancellationToken::new(),
        gate: Arc::default(),
        sandbox,
        mode: PermissionMode::default(),
        profile,
        may_unconfine: false,
        reads: ReadLog::new(PathLocks::new()),
        shells: Shells::new(cwd.join("shells")),
        limits: ToolLimits::default(),
    }
}

async fn once(context: &ToolContext) {
    let outcome = Bash.call(json!({"command": "true"}), context).await;
    assert!(!outcome.is_error, "true failed: {}", outcome.text);
}
