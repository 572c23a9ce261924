//! The environment that the benchmarks of panes share: a private tmux server, and a run. The
//! benchmark gives the answers of the lead's model.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::model::{Asked, Model, Say};

/// The maximum wait for an event. After this time, the benchmark fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The names of the lead's model and of the teammates' model.
const LEAD: &str = "lead";
const MATE: &str = "mate";

/// A team that has its own folder and its own tmux server.
pub(crate) struct Stage {
    pub(crate) model: Model,
    folder: TempDir,
    run: Child,
    /// The model request of the lead that still waits for an answer.
    lead: Option<Asked>,
    spawned: usize,
}

impl Stage {
    /// Starts a tmux server and a run.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        std::fs::create_dir(&root).expect("a root");
        let settings = r#"{"pitcrew": {"limits": {"callRate": {"count": 1000000, "seconds": 1}, "spawnRate": {"count": 1000000, "seconds": 1}}}}"#;
        std::fs::write(root.join("settings.json"), settings).expect("settings");
        let mut model = Model::start();
        succeeds(tmux(folder.path()).args([
            "new-session",
            "-d",
            "-s",
            "user",
            "-x",
            "200",
            "-y",
            "50",
            "cat",
        ]));
        let mut run = pitcrew(folder.path(), &model.url);
        run.args(["run", "spawn", "--team", "bench", "--teammate-mode", "tmux"]);
        run.args(["--model", "anthropic/lead", "--teammate-model", "anthropic/mate"]);
        run.args(["--permission-mode", "bypassPermissions"]);
        let run = run.stderr(Stdio::null()).spawn().expect("a run");
        let lead = Some(model.asked(LEAD));
        Self { model, folder, run, lead, spawned: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the lead spawn a teammate, and waits until the teammate is idle. Returns the time from
    /// the model's call to the arrival of the teammate's first request.
    pub(crate) fn spawn(&mut self) -> Duration {
        let name = format!("w{}", self.spawned);
        let input = json!({"name": name, "subagent_type": "general-purpose", "description": "Wait", "prompt": "Wait."});
        let lead = self.lead.take().expect("the lead waits");
        let start = Instant::now();
        lead.say(Say::Call("Task", input));
        let mate = self.model.asked(MATE);
        let took = mate.at.duration_since(start);
        mate.say(Say::Text("Done."));
        self.spawned += 1;
        self.wait_for_idle(&name);
        self.lead = Some(self.model.asked(LEAD));
        took
    }

    /// Waits until the journal reports that the member is idle.
    pub(crate) fn wait_for_idle(&self, name: &str) {
        let journal = self.folder.path().join("root/teams/bench/pitcrew/journal.ndjson");
        let says = |entry: &Value, field: &str, text: &str| {
            entry.get(field).is_some_and(|value| value == text)
        };
        let is_it = |entry: Value| says(&entry, "member", name) && says(&entry, "state", "idle");
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&journal).unwrap_or_default();
            if text.lines().filter_map(|line| serde_json::from_str(line).ok()).any(is_it) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{name} does not become idle");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The process ids of the teammates in panes.
    pub(crate) fn mates(&self) -> Vec<u32> {
        let mut list = tmux(self.path());
        list.args(["list-panes", "-s", "-t", "pitcrew", "-f", "#{@pitcrew}", "-F", "#{pane_pid}"]);
        let listed = list.output().expect("tmux");
        String::from_utf8_lossy(&listed.stdout)
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect()
    }

    pub(crate) fn pitcrew(&self) -> Command {
        pitcrew(self.path(), &self.model.url)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The run and the tmux server may have ended already, so the results are ignored.
        let _ = self.run.kill().and_then(|()| self.run.wait());
        let _ = tmux(self.folder.path()).arg("kill-server").status();
    }
}

/// A tmux command for the private server of the benchmark.
pub(crate) fn tmux(folder: &Path) -> Command {
    let mut command = Command::new("tmux");
    command
        .arg("-S")
        .arg(socket(folder))
        .args(["-f", "/dev/null"])
        .env_remove("TMUX")
        .current_dir(folder);
    command
}

/// Runs a command and checks that it succeeds. Returns the time that the command took.
pub(crate) fn succeeds(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("a process");
    let took = start.elapsed();
    assert!(status.success(), "{command:?}");
    took
}

fn pitcrew(folder: &Path, url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pitcrew"));
    command.env("CLAUDE_CONFIG_DIR", folder.join("root")).env("HOME", folder).current_dir(folder);
    command.env("TMUX", format!("{},1,0", socket(folder).display())).env_remove("TMUX_PANE");
    command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "sk-bench");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("tmux")
}

/// Returns the value below which `percent` percent of `values` are. `values` must be sorted.
pub(crate) fn percentile(values: &[Duration], percent: usize) -> Duration {
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or_default()
}
