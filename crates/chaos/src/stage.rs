//! The place of a run: a folder with a root, a repository and a private tmux server, and the binary started in it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::brain::GO_ON;
use crate::error::Error;
use crate::plan::{Fault, Place, Plan};
use crate::processes::{Process, processes_at_home};
use crate::terminal::Terminal;

/// The size of the file system that is cut off.
const IMAGE_BYTES: u64 = 96 * 1024 * 1024;

/// How often a file system that was cut off is tried to be unmounted.
const UNMOUNT_TRIES: usize = 200;

/// Has a file system go down without writing its journal out (EXT4_IOC_SHUTDOWN with NOLOGFLUSH, as in Linux's `ext4.h`).
const SHUT_DOWN: &str = "
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))
";

/// How long models may fail in a run whose ends are looked at.
const MODEL_PATIENCE_S: u64 = 4;

/// How long they may be silent there.
const MODEL_SILENCE_S: u64 = 2;

/// The team of every run.
pub const TEAM: &str = "chaos";

/// A place that is cleaned up when it is dropped.
#[derive(Debug)]
pub struct Stage {
    dir: tempfile::TempDir,
    binary: PathBuf,
    url: String,
    has_terminal: bool,
    disk: Disk,
}

/// How a lead begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With a new team.
    New,
    /// With the team as it is.
    Resume,
    /// With the team as it is, and a word from the user.
    GoOn,
}

/// A lead's process.
#[derive(Debug)]
pub struct Lead {
    /// The process.
    pub child: Child,
    /// Its terminal, where it has one.
    pub terminal: Option<Terminal>,
    /// When it was started.
    pub started: Instant,
}

/// What the root is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// A folder of the machine's own file system.
    Plain,
    /// A small file system in memory.
    Small,
    /// ext4 in a file, which can be cut off.
    Image,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end_all();
        if self.disk != Disk::Plain {
            let _gone = Command::new("umount").arg("-l").arg(self.root()).output();
        }
    }
}

impl Stage {
    /// Makes a place for a run whose models answer at `url`.
    ///
    /// # Errors
    /// When a folder, the repository or the tmux server cannot be made.
    pub fn new(plan: &Plan, binary: &Path, url: &str) -> Result<Self, Error> {
        // Sockets have short paths.
        let dir = tempfile::Builder::new().prefix("chaos-").tempdir_in("/tmp");
        let dir = dir.map_err(Error::io("make a folder below", Path::new("/tmp")))?;
        let has_terminal = plan.place != Place::InProcess;
        let mut stage = Self {
            dir,
            binary: binary.to_owned(),
            url: url.to_owned(),
            has_terminal,
            disk: Disk::Plain,
        };
        for folder in [stage.root(), stage.work(), stage.temporary()] {
            fs::create_dir(&folder).map_err(Error::io("make", &folder))?;
        }
        stage.disk = stage.mounted(plan);
        let settings = stage.root().join("settings.json");
        fs::write(&settings, settings_text(plan).to_string())
            .map_err(Error::io("write", &settings))?;
        for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "Begin"]] {
            let name = ["-c", "user.name=dev", "-c", "user.email=dev@example.com"];
            done(stage.tool("git").args(name).args(args))?;
        }
        stage.open_terminal()?;
        Ok(stage)
    }

    /// Starts the tmux server, where the run has one.
    ///
    /// # Errors
    /// When it does not start.
    fn open_terminal(&self) -> Result<(), Error> {
        if !self.has_terminal {
            return Ok(());
        }
        let args =
            ["-u", "-f", "/dev/null", "new-session", "-d", "-s", "mine", "-x", "200", "-y", "50"];
        done(self.tool("tmux").args(args).args(["sleep", "100000"]).env_remove("CLAUDE_CONFIG_DIR"))
    }

    /// Mounts what a fault needs below the root; says what that is, which is nothing without the right to.
    fn mounted(&self, plan: &Plan) -> Disk {
        if plan.fills_disk() && mount_small(&self.root()) {
            Disk::Small
        } else if plan.fault == Some(Fault::PowerCuts) && self.make_image().is_ok() {
            Disk::Image
        } else {
            Disk::Plain
        }
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    fn make_image(&self) -> Result<(), Error> {
        let image = self.image();
        let file = File::create(&image).map_err(Error::io("make", &image))?;
        file.set_len(IMAGE_BYTES).map_err(Error::io("make", &image))?;
        done(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image))?;
        self.mount_image()
    }

    fn mount_image(&self) -> Result<(), Error> {
        done(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.root()))
    }

    /// Cuts the power: the file system loses what it has not written, every process dies, and the disk is there again.
    ///
    /// # Errors
    /// When the file system cannot be cut off or mounted again.
    pub fn cut_power(&self) -> Result<(), Error> {
        done(Command::new("python3").args(["-c", SHUT_DOWN]).arg(self.root()))?;
        let mut unmounted = Err(Error::Stopped);
        for _ in 0..UNMOUNT_TRIES {
            self.end_all();
            unmounted = done(Command::new("umount").arg(self.root()));
            if unmounted.is_ok() {
                break;
            }
            thread::park_timeout(Duration::from_millis(50));
        }
        unmounted?;
        // A program in a mount namespace of its own, such as a sandboxed command of another test, still holds the file system
        // that went down, and mounting its image would show that again. A copy is another file system.
        let (image, copy) = (self.image(), self.dir.path().join("copy.img"));
        done(Command::new("cp").arg("--sparse=always").arg(&image).arg(&copy))?;
        fs::rename(&copy, &image).map_err(Error::io("put in place", &image))?;
        self.mount_image()?;
        self.open_terminal()
    }

    /// The folder of the run.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    /// The folder teams live below.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The repository.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The folder for temporary files and logs.
    #[must_use]
    pub fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// The team's folder.
    #[must_use]
    pub fn team(&self) -> PathBuf {
        self.root().join("teams").join(TEAM)
    }

    /// The team's journal; in the archive when the team is deleted.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.team_or_archive().join("pitcrew/journal.ndjson")
    }

    /// The team's folder, or the one in the archive when the team is deleted.
    #[must_use]
    pub fn team_or_archive(&self) -> PathBuf {
        let live = self.team();
        if live.join("config.json").exists() {
            return live;
        }
        self.archived().map_or(live, |folder| folder.join("team"))
    }

    /// The folder of the team's tasks, or the one in the archive when the team is deleted.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        let live = self.root().join("tasks").join(TEAM);
        if self.team().join("config.json").exists() {
            return live;
        }
        self.archived().map_or(live, |folder| folder.join("tasks"))
    }

    /// The newest folder of the archive.
    #[must_use]
    pub fn archived(&self) -> Option<PathBuf> {
        files(&self.root().join("pitcrew/archive")).pop()
    }

    /// What the root is on.
    #[must_use]
    pub fn disk(&self) -> Disk {
        self.disk
    }

    /// Keeps the folder after the end, and says where.
    pub fn keep(&mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        if self.disk != Disk::Plain {
            // What is on the small file system goes with it.
            let _either = Command::new("cp")
                .arg("-a")
                .arg(self.root())
                .arg(self.dir.path().join("root-kept"))
                .output();
        }
        self.dir.path().to_owned()
    }

    /// A program, about to run here with nothing of the harness's environment but where programs are.
    #[must_use]
    pub fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).env_clear().stdin(Stdio::null());
        let temporary = self.temporary();
        command
            .env("HOME", self.home())
            .env("CLAUDE_CONFIG_DIR", self.root())
            .env("TMPDIR", &temporary);
        command.env("TMUX_TMPDIR", temporary).env("SHELL", "/bin/sh");
        command.env("ANTHROPIC_BASE_URL", &self.url).env("ANTHROPIC_API_KEY", "sk-none");
        command.env("NO_PROXY", "127.0.0.1");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// pitcrew with arguments, about to run here.
    #[must_use]
    pub fn pitcrew(&self, args: &[&str]) -> Command {
        let mut command = self.tool(&self.binary.display().to_string());
        command.args(args);
        command
    }

    /// Starts the lead's process: a new run, or one that goes on.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn lead(&self, life: usize, plan: &Plan, begin: &Begin) -> Result<Lead, Error> {
        let mode = if self.has_terminal { "tmux" } else { "in-process" };
        let common =
            ["--model", "anthropic/claude-opus-5-5", "--teammate-mode", mode, "--yes", "--json"];
        let begin: &[&str] = match begin {
            Begin::New => &["run", "Have it done.", "--team", TEAM],
            Begin::Resume => &["run", "--resume", TEAM],
            Begin::GoOn => &["run", "--resume", TEAM, GO_ON],
        };
        let limit = match plan.fault {
            Some(Fault::FileSize { life: at, kib }) if at == life => {
                Some(format!("ulimit -f {kib}"))
            }
            Some(Fault::Descriptors { life: at, count }) if at == life => {
                Some(format!("ulimit -n {count}"))
            }
            Some(_) | None => None,
        };
        let has_terminal = plan.ends.is_some_and(|ends| ends.has_terminal);
        let mut command = match limit {
            Some(limit) => {
                let mut command = self.tool("bash");
                command.arg("-c").arg(format!("{limit}; exec \"$0\" \"$@\"")).arg(&self.binary);
                command
            }
            // It makes the terminal that it has as its input its own, and becomes the lead.
            None if has_terminal => {
                let mut command = self.tool("setsid");
                command.arg("--ctty").arg(&self.binary);
                command
            }
            None => self.pitcrew(&[]),
        };
        command.args(begin).args(common);
        let path = |ending: &str| self.temporary().join(format!("lead-{life}.{ending}"));
        let log =
            |ending: &str| File::create(path(ending)).map_err(Error::io("make", &path(ending)));
        command.stdout(log("json")?);
        let terminal = if has_terminal { Some(Terminal::open(&path("log"))?) } else { None };
        match &terminal {
            Some(terminal) => terminal.attach(&mut command)?,
            None => {
                command.process_group(0).stderr(log("log")?);
            }
        }
        let child = command.spawn().map_err(Error::io("start", &self.binary))?;
        Ok(Lead { child, terminal, started: Instant::now() })
    }

    /// Gives the windows of the tmux server another size.
    pub fn resize_windows(&self, columns: u16, rows: u16) {
        if !self.has_terminal {
            return;
        }
        let listed = self.tool("tmux").args(["list-windows", "-a", "-F", "#{window_id}"]).output();
        let listed = listed
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default();
        let (columns, rows) = (columns.to_string(), rows.to_string());
        for window in listed.lines() {
            // A window may have gone since.
            let _gone = self
                .tool("tmux")
                .args(["resize-window", "-t", window, "-x", &columns, "-y", &rows])
                .output();
        }
    }

    /// The panes of the tmux server: `id tag`; empty without one.
    #[must_use]
    pub fn panes(&self) -> Vec<String> {
        if !self.has_terminal {
            return Vec::new();
        }
        let listed = self
            .tool("tmux")
            .args(["list-panes", "-a", "-F", "#{pane_id} #{@pitcrew} #{session_name}"])
            .output();
        let listed = listed
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    /// All processes of the run, but for the tmux server and what the harness itself keeps in it.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let all = processes_at_home(self.home()).into_iter();
        all.filter(|process| !process.line.starts_with("tmux ") && process.line != "sleep 100000")
            .collect()
    }

    /// Ends everything that runs here.
    pub fn end_all(&self) {
        if self.has_terminal {
            let _gone = self.tool("tmux").arg("kill-server").output();
        }
        for process in processes_at_home(self.home()) {
            process.kill();
        }
    }
}

/// Runs a command that must succeed.
///
/// # Errors
/// When it cannot be run, or fails.
pub fn done(command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(Error::io("run", Path::new(&program)))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Program {
        program,
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Puts a file system of a few MiB below a folder; false without the right to.
fn mount_small(folder: &Path) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(folder).stdin(Stdio::null());
    mount.output().is_ok_and(|output| output.status.success())
}

/// Settings under which no limit of rates is met, and the patience with models is short where those fail.
fn settings_text(plan: &Plan) -> Value {
    let plenty = json!({"count": 1_000_000, "seconds": 60});
    let mut ours = json!({"limits": {
        "tasks": 100_000, "callRate": plenty, "spawnRate": plenty, "taskRate": plenty, "messageRate": plenty,
    }});
    if plan.ends.is_some()
        && let Some(fields) = ours.as_object_mut()
    {
        fields.insert("modelPatience".to_owned(), json!(MODEL_PATIENCE_S));
        fields.insert("modelSilence".to_owned(), json!(MODEL_SILENCE_S));
    }
    json!({"pitcrew": ours})
}

/// What is in a folder; nothing when it is not there.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
