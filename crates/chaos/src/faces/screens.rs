//! Faces in terminals: a tmux server of their own starts them, sends them keys and tells what their
//! screens show.

use std::fs;
use std::process::Command;
use std::str::FromStr;

use crate::error::Error;
use crate::stage::{Stage, TEAM, done};

/// The name of the tmux server.
const SERVER: &str = "faces";

/// The number of lines above the screen that are read too. A face with plain lines scrolls.
const LINES_ABOVE: &str = "-400";

/// The tmux server of the faces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screens<'a>(&'a Stage);

/// The state of a face in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The exit code of the process, or `None` if it runs. A shell adds 128 to the number of a
    /// signal.
    pub(super) code: Option<i32>,
    /// The text of the screen.
    pub(super) text: String,
}

impl<'a> Screens<'a> {
    /// Uses the server, which runs already.
    pub(super) fn of(stage: &'a Stage) -> Self {
        Self(stage)
    }

    /// Starts the server.
    pub(super) fn start(stage: &'a Stage) -> Result<(), Error> {
        let keep = ["new-session", "-d", "-s", "keep", "sleep", "100000"];
        done(Self(stage).tmux(&["-u", "-f", "/dev/null"]).args(keep))
    }

    fn tmux(self, args: &[&str]) -> Command {
        let mut command = self.0.tool("tmux");
        command.args(["-L", SERVER]).args(args);
        command
    }

    /// Starts a face in a terminal. Its process id and its exit code are then in files, because a
    /// tmux server sometimes misses the end of a program.
    pub(super) fn open(self, name: &str, options: &str) -> Result<(), Error> {
        let binary = self.0.binary().display();
        let face = self.0.temporary().join(name);
        let face = face.display();
        let shell = format!(
            "sh -c 'echo $$ > {face}.pid; exec {binary} attach {TEAM} {options}'; echo $? > {face}.code; exec sleep 100000"
        );
        let mut open = self.tmux(&["new-session", "-d", "-s", name, "-x", "110", "-y", "40"]);
        done(open.args(["sh", "-c", &shell]))
    }

    /// Returns the process id of a face, as soon as its process has one.
    pub(super) fn pid(self, name: &str) -> Option<u32> {
        self.number(&format!("{name}.pid"))
    }

    /// Returns the number in a file of a face, if the line is whole.
    fn number<T: FromStr>(self, file: &str) -> Option<T> {
        let text = fs::read_to_string(self.0.temporary().join(file)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    }

    /// Returns what a face shows. Returns `None` if its terminal is gone.
    pub(super) fn look(self, name: &str) -> Option<Look> {
        // The exit code is read first, so that the text of an ended face is its last one.
        let code = self.number(&format!("{name}.code"));
        let mut look = self.tmux(&["capture-pane", "-p", "-J", "-t", name, "-S", LINES_ABOVE]);
        let output = look.output().ok().filter(|output| output.status.success())?;
        Some(Look { code, text: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    /// Sends keys to a face. A face that has just ended gets none.
    pub(super) fn press(self, name: &str, keys: &[&str]) {
        let _gone = self.tmux(&["send-keys", "-t", name]).args(keys).output();
    }

    /// Closes the terminal of a face. Its process gets SIGHUP if it still runs.
    pub(super) fn close(self, name: &str) {
        let _gone = self.tmux(&["kill-session", "-t", name]).output();
    }
}
