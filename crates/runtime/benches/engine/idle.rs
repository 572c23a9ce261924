//! Measures a thousand idle teammates that run inside this process: how much memory they need, and
//! how often their threads wake up while nothing happens.

use pitcrew_protocol::Status;
use std::fmt::Write as _;
use std::time::Duration;

use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::run::Runtime;

use crate::stage;

const TEAMMATES: usize = 1000;
const LIMIT_MB: f64 = 100.0;
/// The time during which context switches of the idle team are counted.
const LOOK: Duration = Duration::from_secs(3);

pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let before = resident_mb();
    let stage = stage::Stage::new();
    let (mut handle, crew) = runtime.block_on(async {
        let mut handle = Runtime::start(stage.options(&script())).await.expect("the run starts");
        let mut idle = 0;
        while idle < TEAMMATES {
            match handle.events.recv().await {
                Some(RunEvent::AgentChanged { agent, status: Status::Idle, .. })
                    if agent.as_str() != "team-lead" =>
                {
                    idle += 1
                }
                Some(_) => {}
                None => panic!("the run ended with {idle} idle teammates"),
            }
        }
        (handle, idle)
    });
    // When the last teammate has reported that it is idle, some files are still being written. The
    // team counts as idle as soon as one observation sees no context switch.
    let mut woken = switches_in(LOOK);
    for _ in 0..20 {
        if woken == 0 {
            break;
        }
        while handle.events.try_recv().is_ok() {}
        woken = switches_in(LOOK);
    }
    let resident = resident_mb();
    println!("{crew} idle in-process teammates, on files");
    println!(
        "  resident {resident:.1} MB ({:.1} KB a teammate)   limit {LIMIT_MB} MB   ratio {:.2}",
        (resident - before) * 1024.0 / TEAMMATES as f64,
        resident / LIMIT_MB
    );
    println!("  wake-ups of any thread in {LOOK:.0?} of idling: {woken}   limit 0");
    handle.stopper().kill();
    runtime.block_on(handle.outcome());
}

fn script() -> String {
    let mut script = "agents:\n  team-lead:\n    - tools:\n".to_owned();
    for n in 0..TEAMMATES {
        writeln!(script, "        - {{name: Task, input: {{name: w{n}, subagent_type: general-purpose, description: Wait, prompt: Wait.}}}}").expect("text");
    }
    script.push_str("    - tools:\n        - {name: Bash, input: {command: sleep 600, timeout: 600000}}\n  'w*':\n    - wait_for: {contains: never said}\n");
    script
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).expect("a number") / 1024.0
}

/// Returns how many voluntary context switches the threads of this process make during `look`. The
/// main thread does not count.
fn switches_in(look: Duration) -> u64 {
    let count = || -> u64 {
        let main = std::process::id().to_string();
        let threads = std::fs::read_dir("/proc/self/task").expect("proc").filter_map(Result::ok);
        let others = threads.filter(|thread| thread.file_name().to_string_lossy() != main);
        let texts =
            others.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
        texts
            .filter_map(|text| {
                text.lines().find_map(|line| {
                    line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok()
                })
            })
            .sum()
    };
    let start = count();
    std::thread::sleep(look);
    count() - start
}
