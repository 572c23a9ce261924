//! A host and its user interfaces wake up only when something happens.

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::attach::Displays;
use crate::detached::Detached;
use crate::patience;

/// The script of a lead that asks for a permission and then waits for its model.
const ASKS: &str = r#"
agents:
  team-lead:
    - tools: [{name: Write, input: {file_path: it, content: "written\n"}}]
    - delay_ms: 600000
      text: I have waited.
"#;

/// The length of one period in which wake-ups are counted.
const LOOK: Duration = Duration::from_secs(2);

/// The maximum number of periods. In the first periods, the last event may still be at work.
const LOOKS: usize = 10;

/// Ends a process at the end of a test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended already, so the result is ignored.
        let _either = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Returns how often any thread of a process has waited since its start.
fn waits_of(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let statuses =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    statuses
        .map(|status| {
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        })
        .sum()
}

/// Checks that there is a period in which none of these processes wakes up.
#[track_caller]
fn check_idle(when: &str, processes: &[(&str, u32)]) {
    let mut woken = Vec::new();
    for _ in 0..LOOKS {
        let before: Vec<u64> = processes.iter().map(|(_, pid)| waits_of(*pid)).collect();
        thread::sleep(LOOK);
        let after = processes.iter().map(|(_, pid)| waits_of(*pid));
        woken = after.zip(before).map(|(after, before)| after - before).collect();
        if woken.iter().all(|woken| *woken == 0) {
            return;
        }
    }
    panic!("{when}: {processes:?} woke up so often in {LOOK:?}: {woken:?}");
}

#[test]
fn nothing_wakes_up_while_nothing_happens() {
    let (detached, host) = Detached::start(ASKS, &[]);
    let Some(displays) = Displays::of(&detached.room) else { return };
    let mut lines = detached.room.command(&["attach", "work", "--json"]);
    let out = detached.room.temporary().join("lines");
    let lines = lines.stdin(Stdio::null()).stdout(fs::File::create(&out).unwrap());
    let lines = Killed(lines.spawn().unwrap());
    displays.start("interface", (80, 24), "attach work");
    displays.start("plain", (80, 24), "attach work --plain");
    displays.until("interface", "the question", |it| it.contains("[y] yes, once"));
    displays.until("plain", "the question", |it| it.ends_with("answer>"));
    let reads = || fs::read_to_string(&out).ok().filter(|it| it.contains("\"questions\":[{"));
    patience::until("the question in JSON", reads, String::new);
    let processes = [
        ("host", host),
        ("interface", displays.pid("interface")),
        ("plain", displays.pid("plain")),
        ("lines", lines.0.id()),
    ];
    check_idle("while a question waits", &processes);
    displays.answers("interface", "y", "[y] yes, once");
    displays.until("plain", "the question is gone", |it| !it.contains("answer>"));
    displays.key("interface", "C-l");
    displays.shows("interface", "timeline");
    check_idle("while a model is silent", &processes);
}
