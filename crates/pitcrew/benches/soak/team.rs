//! The measured team: its pitcrew process, its folder, and the process of its model server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::model::{GOAL, LEAD_MODEL, ModelStats, TEAMMATE_MODEL};
use crate::options::Options;
use crate::process::ProcessReading;
use crate::report::{Files, Sample};

/// The name of the team.
pub(crate) const TEAM: &str = "soak";

/// The maximum time that the start of the whole team may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The pause between two checks of whether the team has started.
const LOOK: Duration = Duration::from_millis(100);

/// A running team.
pub(crate) struct SoakTeam {
    model: ModelProcess,
    run: Child,
    root: PathBuf,
    start: Instant,
    teammates: usize,
    _folder: Option<TempDir>,
}

/// The model server, in a separate process.
struct ModelProcess {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
}

impl SoakTeam {
    /// Starts the model server and the team.
    pub(crate) fn start(options: &Options) -> Self {
        let temporary = options.folder.is_none().then(|| tempfile::tempdir().expect("a folder"));
        let folder = match (&options.folder, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => panic!("there is no folder"),
        };
        let root = folder.join("root");
        std::fs::create_dir_all(&root).expect("a root");
        let many = json!({"count": 1_000_000, "seconds": 1});
        let limits = json!({"agents": options.agents, "callRate": many, "spawnRate": many, "taskRate": many});
        let settings =
            json!({"pitcrew": {"contextWindow": options.context_window, "limits": limits}});
        std::fs::write(root.join("settings.json"), settings.to_string()).expect("settings");
        let model = ModelProcess::start(options);
        let mut run = pitcrew(options, &root);
        run.env("ANTHROPIC_BASE_URL", &model.url).env("ANTHROPIC_API_KEY", "sk-bench");
        run.args(["run", GOAL, "--team", TEAM, "--teammate-mode", "in-process"]);
        run.args(["--model", &format!("anthropic/{LEAD_MODEL}")]);
        run.args(["--teammate-model", &format!("anthropic/{TEAMMATE_MODEL}")]);
        run.args(["--permission-mode", "bypassPermissions"]);
        let errors = std::fs::File::create(folder.join("stderr")).expect("a file for warnings");
        let run =
            run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().expect("a run");
        Self {
            model,
            run,
            root,
            start: Instant::now(),
            teammates: options.agents - 1,
            _folder: temporary,
        }
    }

    /// Waits until every teammate has made a model request.
    pub(crate) fn wait_until_all_have_spoken(&mut self) {
        while self.model.stats().teammates < self.teammates {
            self.assert_running();
            assert!(self.start.elapsed() < PATIENCE, "the team does not start");
            std::thread::sleep(LOOK);
        }
        // Reset the statistics, because values from before the measurement belong to no window.
        let _before = self.model.take_stats();
    }

    /// Reads all values, and makes the model server start its statistics for a new window.
    pub(crate) fn sample(&mut self) -> Sample {
        self.assert_running();
        let model = self.model.take_stats();
        Sample {
            at: self.start.elapsed(),
            model,
            team: ProcessReading::of(self.run.id()),
            server: ProcessReading::of(self.model.process.id()),
            files: Files {
                transcripts: size_of(&self.root.join("teams/soak/pitcrew/transcripts")),
                journal: size_of(&self.root.join("teams/soak/pitcrew/journal.ndjson")),
                inboxes: size_of(&self.root.join("teams/soak/inboxes")),
                ours: size_of(&self.root.join("teams/soak/pitcrew")),
            },
        }
    }

    /// The root of the team's files.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The process that runs the team.
    pub(crate) fn pid(&self) -> u32 {
        self.run.id()
    }

    /// Ends the run and the model server of the team.
    pub(crate) fn stop(mut self) {
        // The drop of `self` ends the processes.
        self.assert_running();
    }

    fn assert_running(&mut self) {
        if let Some(status) = self.run.try_wait().expect("a child") {
            let errors =
                std::fs::read_to_string(self.root.with_file_name("stderr")).unwrap_or_default();
            panic!("the run has ended: {status}\n{errors}");
        }
    }
}

impl Drop for SoakTeam {
    fn drop(&mut self) {
        for process in [&mut self.run, &mut self.model.process] {
            // The process may have ended already, so the result is ignored.
            let _ = process.kill().and_then(|()| process.wait());
        }
    }
}

impl ModelProcess {
    fn start(options: &Options) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--serve-model", "--agents", &options.agents.to_string()]);
        command.args(["--think-ms", &options.think.as_millis().to_string()]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a model");
        let questions = process.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut url = String::new();
        answers.read_line(&mut url).expect("an address");
        Self { process, questions, answers, url: url.trim().to_owned() }
    }

    fn stats(&mut self) -> ModelStats {
        self.ask("look")
    }

    fn take_stats(&mut self) -> ModelStats {
        self.ask("take")
    }

    fn ask(&mut self, question: &str) -> ModelStats {
        writeln!(self.questions, "{question}").expect("the model lives");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the model lives");
        serde_json::from_str(&answer).expect("an answer")
    }
}

/// Returns a command of the measured binary for the teams below `root`. The home of the command is
/// the folder that holds the root.
pub(crate) fn pitcrew(options: &Options, root: &Path) -> Command {
    let home = root.parent().expect("a folder that holds the root");
    let mut command = Command::new(&options.binary);
    command.env("CLAUDE_CONFIG_DIR", root).env("HOME", home).current_dir(home);
    command
}

/// Returns the size of a file, or the total size of all files below a folder.
fn size_of(path: &Path) -> u64 {
    // A file may disappear after it was listed, because another process replaces it.
    let Ok(meta) = std::fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten();
    entries.filter_map(|entry| Some(size_of(&entry.ok()?.path()))).sum()
}
