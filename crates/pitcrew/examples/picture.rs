//! Takes a picture of a terminal: runs a command in a private tmux server, and prints the screen as
//! SVG.
//!
//! `cargo run -p pitcrew --example picture -- --until PATTERN -- COMMAND [ARG...] > picture.svg`
//!
//! The command runs inside the first tmux server. A second tmux server displays the screen of the
//! first server. The picture therefore also contains the panes that the command opens, with their
//! borders. The picture is taken when the screen matches PATTERN.

#![allow(clippy::disallowed_methods, reason = "tests arrange files, the environment and times")]

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anstyle_svg::Term;
use clap::Parser;
use regex::Regex;

/// Pause between two checks of the screen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Take a picture of a terminal as SVG.
#[derive(Debug, Parser)]
struct Picture {
    /// Columns and rows of the terminal
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "150x42", value_parser = size)]
    size: (u16, u16),
    /// A regular expression; the picture is taken when the whole screen matches it
    #[arg(long, value_name = "PATTERN", default_value = r"\S")]
    until: Regex,
    /// The maximum time to wait until the screen matches
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    within: u64,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is no size such as 150x42"))
}

/// The two tmux servers. Both servers are stopped when this value is dropped.
struct Servers {
    folder: tempfile::TempDir,
}

impl Servers {
    fn tmux(&self, server: &str) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-f", "/dev/null", "-S"]).arg(self.folder.path().join(server));
        tmux.env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .env_remove("TMUX_PANE");
        tmux
    }

    /// Starts the command in the server `inner`. The server `outer` then displays the screen of
    /// `inner`.
    fn start(&self, picture: &Picture) -> Result<(), String> {
        let (columns, rows) = (picture.size.0.to_string(), picture.size.1.to_string());
        let sized = ["new-session", "-d", "-x", &columns, "-y", &rows];
        // Put `env` before the command, because tmux would pass a command of a single word to a
        // shell.
        run(self.tmux("inner").args(sized).arg("env").args(&picture.command))?;
        for option in [["status", "off"], ["default-terminal", "tmux-256color"]] {
            run(self.tmux("inner").args(["set-option", "-g"]).args(option))?;
        }
        let inner = self.folder.path().join("inner");
        let mut outer = self.tmux("outer");
        outer
            .args(sized)
            .args(["env", "-u", "TMUX", "tmux", "-u", "-f", "/dev/null", "-S"])
            .arg(inner)
            .arg("attach");
        outer.args([";", "set-option", "-g", "status", "off"]);
        run(&mut outer)
    }

    fn screen(&self) -> Result<String, String> {
        let captured = self
            .tmux("outer")
            .args(["capture-pane", "-p", "-e"])
            .output()
            .map_err(|e| e.to_string())?;
        if !captured.status.success() {
            return Err("the command ended before its picture was taken".to_owned());
        }
        Ok(String::from_utf8_lossy(&captured.stdout).into_owned())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in ["outer", "inner"] {
            // The server may have ended already, so the result is ignored.
            let _gone = self.tmux(server).arg("kill-server").stderr(Stdio::null()).status();
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let ended = command.output().map_err(|error| format!("cannot run tmux: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    Err(format!("tmux failed: {}", String::from_utf8_lossy(&ended.stderr).trim_end()))
}

fn take(picture: &Picture) -> Result<String, String> {
    let servers = Servers { folder: tempfile::tempdir().map_err(|error| error.to_string())? };
    servers.start(picture)?;
    let deadline = Instant::now() + Duration::from_secs(picture.within);
    loop {
        let screen = servers.screen()?;
        if picture.until.is_match(&anstream::adapter::strip_str(&screen).to_string()) {
            return Ok(Term::new().render_svg(screen.trim_end()));
        }
        if Instant::now() >= deadline {
            return Err(format!(
                "{} was not seen within {} s; the screen:\n{screen}",
                picture.until, picture.within
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example is its own face")]
fn main() -> ExitCode {
    match take(&Picture::parse()) {
        Ok(svg) => {
            println!("{svg}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("picture: {problem}");
            ExitCode::FAILURE
        }
    }
}
