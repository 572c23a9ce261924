//! The environment of one run: a folder that contains pitcrew's root folder and a git repository,
//! and a private tmux server. This module also starts the pitcrew binary in this environment.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::plan::{Fault, Place, Plan};
use crate::processes::{Process, processes_at_home};

/// The size in bytes of the file system for pitcrew's root folder in a run with power cuts.
const IMAGE_BYTES: u64 = 96 * 1024 * 1024;

/// The maximum number of attempts to unmount the file system after a power cut.
const UNMOUNT_TRIES: usize = 200;

/// A Python program that shuts down a file system without writing its journal. It uses
/// EXT4_IOC_SHUTDOWN with NOLOGFLUSH, as defined in Linux's `ext4.h`.
const SHUT_DOWN: &str = "
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))
";

/// How long pitcrew waits for a model that fails, in seconds. This value applies to runs that check
/// how each process of the lead ends.
const MODEL_PATIENCE_S: u64 = 4;

/// How long pitcrew waits for a model that sends nothing, in seconds. This value applies to runs
/// that check how each process of the lead ends.
const MODEL_SILENCE_S: u64 = 2;

/// The name of the team in every run.
pub const TEAM: &str = "chaos";

/// The environment of one run. Dropping this value ends its processes and removes its files.
#[derive(Debug)]
pub struct Stage {
    dir: tempfile::TempDir,
    binary: PathBuf,
    url: String,
    has_terminal: bool,
    disk: Disk,
}

/// The kind of file system that contains pitcrew's root folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// A folder on the file system of the machine.
    Plain,
    /// A small file system in memory.
    Small,
    /// An ext4 file system in an image file. It can be cut off, to simulate a power cut.
    Image,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end_all();
        if self.disk != Disk::Plain {
            // Unmount lazily, because a process that is still ending may have files open.
            let _gone = Command::new("umount").arg("-l").arg(self.root()).output();
        }
    }
}

impl Stage {
    /// Creates the environment of a run. `url` is the URL of the fake model server.
    ///
    /// # Errors
    /// An error if a folder, the repository or the tmux server cannot be created.
    pub fn new(plan: &Plan, binary: &Path, url: &str) -> Result<Self, Error> {
        // The folder is directly in `/tmp`, because the path of a socket has a small maximum
        // length.
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

    /// Starts the tmux server if the run needs one.
    ///
    /// # Errors
    /// An error if the tmux server does not start.
    fn open_terminal(&self) -> Result<(), Error> {
        if !self.has_terminal {
            return Ok(());
        }
        let args =
            ["-u", "-f", "/dev/null", "new-session", "-d", "-s", "mine", "-x", "200", "-y", "50"];
        done(self.tool("tmux").args(args).args(["sleep", "100000"]).env_remove("CLAUDE_CONFIG_DIR"))
    }

    /// If the plan needs a file system of its own, mounts it at pitcrew's root folder. Returns the
    /// kind of file system. If this process is not allowed to mount, returns [`Disk::Plain`].
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

    /// Simulates a power cut. The file system loses all data that is not on its disk, every process
    /// is killed, and the file system is mounted again.
    ///
    /// # Errors
    /// An error if the file system cannot be shut down, unmounted or mounted again.
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
        // Mount a copy of the image. The old file system may still be mounted in another mount
        // namespace, for example that of a sandboxed command in another test. In that case,
        // mounting the same image would show the old state again.
        let (image, copy) = (self.image(), self.dir.path().join("copy.img"));
        done(Command::new("cp").arg("--sparse=always").arg(&image).arg(&copy))?;
        fs::rename(&copy, &image).map_err(Error::io("put in place", &image))?;
        self.mount_image()?;
        self.open_terminal()
    }

    /// Returns the folder of the run. It is also the home folder of all processes of the run.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    /// Returns pitcrew's root folder, which contains all teams.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Returns the folder of the git repository in which the team works.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Returns the folder for temporary files and logs.
    #[must_use]
    pub fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Returns the folder of the team.
    #[must_use]
    pub fn team(&self) -> PathBuf {
        self.root().join("teams").join(TEAM)
    }

    /// Returns the path of the team's journal. If the team was deleted, the journal is in the
    /// archive.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.team_or_archive().join("pitcrew/journal.ndjson")
    }

    /// Returns the folder of the team. If the team was deleted, this is its folder in the archive.
    #[must_use]
    pub fn team_or_archive(&self) -> PathBuf {
        let live = self.team();
        if live.join("config.json").exists() {
            return live;
        }
        self.archived().map_or(live, |folder| folder.join("team"))
    }

    /// Returns the folder of the team's tasks. If the team was deleted, this is their folder in the
    /// archive.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        let live = self.root().join("tasks").join(TEAM);
        if self.team().join("config.json").exists() {
            return live;
        }
        self.archived().map_or(live, |folder| folder.join("tasks"))
    }

    /// Returns the newest folder in the archive.
    #[must_use]
    pub fn archived(&self) -> Option<PathBuf> {
        files(&self.root().join("pitcrew/archive")).pop()
    }

    /// Returns the kind of file system that contains pitcrew's root folder.
    #[must_use]
    pub fn disk(&self) -> Disk {
        self.disk
    }

    /// Keeps the folder of the run after the run has ended, and returns its path.
    pub fn keep(&mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        if self.disk != Disk::Plain {
            // Copy the files of the mounted file system, because it is unmounted at the end of the
            // run.
            let _either = Command::new("cp")
                .arg("-a")
                .arg(self.root())
                .arg(self.dir.path().join("root-kept"))
                .output();
        }
        self.dir.path().to_owned()
    }

    /// Builds a command that runs a program in this environment. Of the environment variables of
    /// the harness, the program inherits only `PATH`.
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

    /// Returns the path of the pitcrew binary.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns true if the members of the run can have panes.
    #[must_use]
    pub fn has_terminal(&self) -> bool {
        self.has_terminal
    }

    /// Builds a command that runs pitcrew in this environment.
    #[must_use]
    pub fn pitcrew(&self, args: &[&str]) -> Command {
        let mut command = self.tool(&self.binary.display().to_string());
        command.args(args);
        command
    }

    /// Changes the size of all windows of the tmux server.
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
            // An error is ignored, because the window may be closed already.
            let _gone = self
                .tool("tmux")
                .args(["resize-window", "-t", window, "-x", &columns, "-y", &rows])
                .output();
        }
    }

    /// Returns the panes of the tmux server, each as `id tag session`. The tag is the value of the
    /// tmux option `@pitcrew` of the pane. If there is no server, the list is empty.
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

    /// Returns all processes of the run. Leaves out the tmux server, and the process that the
    /// harness itself runs in that server.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let all = processes_at_home(self.home()).into_iter();
        all.filter(|process| !process.line.starts_with("tmux ") && process.line != "sleep 100000")
            .collect()
    }

    /// Ends all processes of the run.
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
/// An error if the command cannot be run, or if it fails.
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

/// Mounts a file system of a few MiB at a folder. Returns false if this process is not allowed to
/// mount.
fn mount_small(folder: &Path) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(folder).stdin(Stdio::null());
    mount.output().is_ok_and(|output| output.status.success())
}

/// Returns settings whose rate limits no run reaches. In a run that checks how each process of the
/// lead ends, the settings also make pitcrew wait only briefly for a failing model.
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

/// Returns the paths of everything in a folder, sorted. If the folder does not exist, the list is
/// empty.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
