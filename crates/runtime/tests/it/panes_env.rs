//! A tmux server that only one test uses, on its own socket. The server ends with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pitcrew_panes::launch::{Launcher, take};
use pitcrew_panes::{NewPane, PaneId, PaneState, PaneTag, Panes, Tmux, TmuxOptions};
use pitcrew_protocol::{AgentName, TeamDir};

use crate::patience::{PATIENCE, until};

/// A private tmux server for a test. tmux starts it with the first command.
pub(crate) struct Server {
    dir: tempfile::TempDir,
    socket: PathBuf,
}

impl Server {
    /// Creates a server with the configuration text `config`. If tmux is not installed, prints a
    /// message and returns `None`.
    pub(crate) fn with_config(config: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        // The folder's name contains special characters that are valid in the path of a socket.
        let folder = dir.path().join("it's a \"socket\" #{pid};");
        fs::create_dir(&folder).unwrap();
        fs::write(dir.path().join("tmux.conf"), config).unwrap();
        Some(Self { socket: folder.join("s;"), dir })
    }

    pub(crate) fn new() -> Option<Self> {
        Self::with_config("")
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a tmux command as the user would, and returns the output of the command.
    pub(crate) fn user(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-u")
            .arg("-S")
            .arg(&self.socket)
            .arg("-f")
            .arg(self.dir.path().join("tmux.conf"));
        command.args(args).env_remove("TMUX").env_remove("TMUX_PANE").current_dir(self.dir.path());
        command
    }

    /// Starts a tmux command that continues after its parent process has ended. Returns as soon as
    /// the command runs.
    pub(crate) fn stranded(&self, args: &[&str]) {
        let mut caller = Command::new("sh");
        caller
            .args(["-c", "\"$@\" > /dev/null & echo $!", "sh", "tmux", "-S"])
            .arg(&self.socket)
            .args(args);
        let output =
            caller.env_remove("TMUX").stderr(std::process::Stdio::inherit()).output().unwrap();
        let pid = String::from_utf8(output.stdout).unwrap();
        let words = || fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap();
        let started = std::time::Instant::now();
        while !words().starts_with(b"tmux\0") {
            assert!(started.elapsed() < PATIENCE, "tmux does not start");
            std::thread::yield_now();
        }
    }

    /// Creates the user's session, which has one window (200 columns, 50 lines) with one pane.
    /// Returns the id of the pane.
    pub(crate) fn users_session(&self) -> PaneId {
        let made = [
            "new-session",
            "-d",
            "-s",
            "mine",
            "-x",
            "200",
            "-y",
            "50",
            "-P",
            "-F",
            "#{pane_id}",
            "cat",
        ];
        PaneId(self.user(&made))
    }

    /// Returns one line for each pane, printed by tmux in the given `format`.
    pub(crate) fn panes(&self, format: &str) -> Vec<String> {
        let output = self.command(&["list-panes", "-a", "-F", format]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns a backend that creates its panes in pitcrew's own tmux session.
    pub(crate) fn outside(&self) -> Tmux {
        self.tmux("tmux".into(), None)
    }

    /// Returns a backend that creates its panes in pitcrew's own session, and runs `program`
    /// instead of tmux.
    pub(crate) fn with_program(&self, program: PathBuf) -> Tmux {
        self.tmux(program, None)
    }

    /// Returns a backend that creates its panes beside the lead's pane.
    pub(crate) fn beside(&self, lead: &PaneId) -> Tmux {
        self.tmux("tmux".into(), Some(lead.clone()))
    }

    fn tmux(&self, program: PathBuf, beside: Option<PaneId>) -> Tmux {
        Tmux::new(TmuxOptions {
            program,
            socket: Some(self.socket.clone()),
            config: Some(self.dir.path().join("tmux.conf")),
            beside,
            session: "pitcrew-crew".to_owned(),
            launcher: Launcher { command: launching(), root: self.dir.path().join("root") },
        })
    }

    /// Describes a new pane for `agent`, which runs `argv` in the test's folder.
    pub(crate) fn pane(&self, agent: &str, argv: &[&str]) -> NewPane {
        NewPane {
            argv: argv.iter().map(ToString::to_string).collect(),
            cwd: self.dir.path().to_owned(),
            env: Vec::new(),
            title: agent.to_owned(),
            color: Some("blue".to_owned()),
            tag: tag(Some(agent)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error is ignored: the test may have started no server, or may have ended it.
        let _ = self.command(&["kill-server"]).output();
    }
}

/// Returns the command with which this test program does the work of `pitcrew pane-exec`.
fn launching() -> Vec<String> {
    let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    [&own, "--exact", "panes_env::a_launch_is_taken_and_started", "--nocapture"]
        .map(str::to_owned)
        .to_vec()
}

/// Takes a launch and becomes its program, if a pane started this test program for that. The test
/// runner takes the last two arguments for names of tests.
#[test]
fn a_launch_is_taken_and_started() {
    use std::os::unix::process::CommandExt as _;
    let arguments: Vec<String> = std::env::args().collect();
    let Some([socket, starter]) = arguments.last_chunk() else { return };
    let Ok(starter) = starter.parse() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let taken = runtime.block_on(take(Path::new(socket), starter)).unwrap();
    let mut program = Command::new(&taken.launch.argv[0]);
    program.args(&taken.launch.argv[1..]).envs(taken.launch.env.clone());
    let error = program.current_dir(&taken.launch.cwd).exec();
    taken.fail(&error.to_string());
}

/// Writes an executable file, through another process. If this process wrote the file, a child
/// process started by another thread could briefly inherit the open file descriptor. The kernel
/// refuses to execute a file that is open for writing.
pub(crate) fn program(path: &Path, text: &str) {
    let mut writing = Command::new("sh");
    writing.args(["-c", "printf %s \"$2\" > \"$1\" && chmod 700 \"$1\"", "sh"]).arg(path).arg(text);
    assert!(writing.status().unwrap().success());
}

/// Returns the tag of a pane in the team `crew`. With `agent`, the pane belongs to this agent,
/// otherwise to the whole team.
pub(crate) fn tag(agent: Option<&str>) -> PaneTag {
    PaneTag {
        root: "0af3".to_owned(),
        team: TeamDir::of("crew"),
        agent: agent.map(AgentName::foreign),
    }
}

/// Waits until the program in a pane has ended, and returns its exit status.
pub(crate) async fn ended(panes: &dyn Panes, pane: &PaneId) -> Option<i32> {
    let exit = async || match panes.state(pane).await.unwrap() {
        PaneState::Running { .. } => None,
        PaneState::Ended { exit } => Some(exit),
        other => panic!("{other:?}"),
    };
    until("the program has ended", exit).await
}

/// Waits until a file exists, and returns its content. The writer of the file must rename a
/// complete file to this path.
pub(crate) async fn told(path: &Path) -> String {
    let bytes = until("the file is told", async || fs::read(path).ok()).await;
    String::from_utf8(bytes).unwrap()
}
