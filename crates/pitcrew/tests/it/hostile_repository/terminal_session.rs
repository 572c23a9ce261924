//! The terminal of a user who works in a hostile repository.

use std::path::PathBuf;
use std::process::Command;

use super::Hostile;
use crate::patience::until;

/// A terminal in a private tmux server. The environment of the binary does not mention tmux.
pub(super) struct TerminalSession<'a> {
    hostile: &'a Hostile,
    socket: PathBuf,
}

impl Drop for TerminalSession<'_> {
    fn drop(&mut self) {
        let _either = self.tmux_command(&["kill-server"]).output();
    }
}

impl<'a> TerminalSession<'a> {
    pub(super) fn open(hostile: &'a Hostile) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let seat = Self { hostile, socket: hostile.room.temporary().join("tmux") };
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let shell = format!(
            "'{own}' run 'Look around.' --model anthropic/claude-opus-5-5 --permission-mode dontAsk; echo ended $?; exec sleep 1000"
        );
        let mut start =
            seat.tmux_command(&["new-session", "-d", "-x", "200", "-y", "120", "sh", "-c", &shell]);
        assert!(start.output().unwrap().status.success());
        Some(seat)
    }

    pub(super) fn tmux_command(&self, args: &[&str]) -> Command {
        let mut command = self.hostile.room.tool("tmux", &["-u", "-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(args).env("SHELL", "/bin/sh");
        command.env("ANTHROPIC_BASE_URL", &self.hostile.url).env("ANTHROPIC_API_KEY", "sk-user");
        command
    }

    pub(super) fn history(&self) -> String {
        let output = self.tmux_command(&["capture-pane", "-p", "-J", "-S", "-"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    pub(super) fn shows(&self, text: &str) -> String {
        let found = || Some(self.history()).filter(|shown| shown.contains(text));
        until(&format!("the terminal shows {text:?}"), found, || self.history())
    }

    pub(super) fn types(&self, text: &str) {
        assert!(self.tmux_command(&["send-keys", "-l", text]).status().unwrap().success());
        assert!(self.tmux_command(&["send-keys", "Enter"]).status().unwrap().success());
    }
}
