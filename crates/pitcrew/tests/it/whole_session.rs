//! A whole session of the terminal interface, typed in real terminals: from the goal to the report.
//!
//! Its screens are snapshots. Some of them are the pictures in `docs/pictures`. If
//! `PITCREW_WRITE_DOCS=1` is set, the test writes the pictures. Otherwise it compares them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::adapter::strip_str;
use anstyle_svg::Term;
use regex::Regex;
use rustix::process::Signal;

use crate::attach::Displays;
use crate::detached::{Detached, hosts};
use crate::patience::within;
use crate::terminal::kill;
use crate::test_env::TestEnv;

/// The script of the lead and of its teammates bob and ann.
const SCRIPT: &str = include_str!("whole_session/script.yaml");

/// The file that bob changes.
const GREET: &str = r#"/// Greets a person.
pub fn greet(name: &str) -> String {
    format!("Hey {name}")
}
"#;

/// The folder that the screens show in place of the test's folder. It is exactly as long, so that
/// no line breaks elsewhere.
const SHOWN_FOLDER: &str = "/home/dev/greet";

/// The screens that are pictures in the documentation.
const PICTURES: &[&str] =
    &["80x24-permission", "80x24-plan", "80x24-comment", "200x60-interrupted"];

/// How long the last changes of a screen can take, after the screen has the texts that are waited
/// for.
const SETTLES_WITHIN: Duration = Duration::from_secs(20);

/// A session in terminals of one size.
struct Session<'a> {
    displays: Displays<'a>,
    room: &'a TestEnv,
    size: (u16, u16),
    /// The terminal in which the user types.
    terminal: &'static str,
}

impl<'a> Session<'a> {
    fn of(room: &'a TestEnv, size: (u16, u16)) -> Option<Self> {
        let displays = Displays::of(room)?;
        fs::write(room.work().join("greet.rs"), GREET).unwrap();
        let commit = "git init -q -b main && git add greet.rs && git -c user.name=t -c user.email=t@t commit -qm Greet";
        assert!(room.tool("sh", &["-c", commit]).status().unwrap().success());
        fs::write(room.work().join("play.yaml"), SCRIPT).unwrap();
        Some(Self { displays, room, size, terminal: "one" })
    }

    /// Runs a pitcrew command in a new terminal. The user types there from now on.
    fn opens(&mut self, terminal: &'static str, command: &str) {
        self.terminal = terminal;
        self.displays.start(terminal, self.size, command);
    }

    fn types(&self, line: &str) {
        self.displays.types(self.terminal, line);
    }

    fn keys(&self, keys: &[&str]) {
        keys.iter().for_each(|key| self.displays.key(self.terminal, key));
    }

    /// Answers the request on the screen.
    #[track_caller]
    fn answers(&self, key: &str) {
        self.displays.answers(self.terminal, key, "[n] no");
    }

    /// Goes back to the conversation with the lead. Esc and a letter directly after it would be Alt
    /// with this letter.
    #[track_caller]
    fn escapes(&self) {
        self.keys(&["Escape"]);
        self.shows("a message to team-lead");
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        self.displays.shows(self.terminal, text);
    }

    /// Waits until the screen has these texts, and compares the screen with its snapshot.
    #[track_caller]
    fn sees(&self, name: &str, texts: &[&str]) {
        let has_all = |it: &str| texts.iter().all(|text| it.contains(text));
        self.displays.until(self.terminal, &format!("{name}: {texts:?}"), has_all);
        let name = format!("{}x{}-{name}", self.size.0, self.size.1);
        let screen = self.settled(&name);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("whole_session");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name.clone(), plain(&screen)));
        if PICTURES.contains(&name.as_str()) {
            check_picture(&name, &screen);
        }
    }

    /// Returns the screen, as soon as it is like its snapshot. A screen that does not become like
    /// its snapshot is returned as it is at last.
    fn settled(&self, name: &str) -> String {
        let file = format!("tests/it/whole_session/{name}.snap");
        let file = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let expected = file.ok().and_then(|file| Some(file.splitn(3, "---\n").nth(2)?.to_owned()));
        let is_settled =
            |screen: &String| expected.as_ref().is_none_or(|it| it.trim_end() == plain(screen));
        let settled = within(SETTLES_WITHIN, || Some(self.screen()).filter(is_settled));
        settled.unwrap_or_else(|| self.screen())
    }

    /// Returns the screen with its colors. All that differs between two runs is replaced.
    fn screen(&self) -> String {
        let screen = self.displays.tmux(&["capture-pane", "-p", "-e", "-t", self.terminal]);
        let folder = self.room.work().parent().unwrap().display().to_string();
        assert_eq!(folder.len(), SHOWN_FOLDER.len(), "{folder}");
        let times = Regex::new(r"\b1[789]\d{11}\b").unwrap();
        let screen = screen.replace(&folder, SHOWN_FOLDER);
        times.replace_all(&screen, "1795190000000").trim_end().to_owned()
    }
}

/// Returns the text of a screen, without its colors.
fn plain(screen: &str) -> String {
    let text = strip_str(screen).to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn picture_file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    folder.join(format!("{name}.svg"))
}

/// Draws a screen. The cursor is a block and not a reversed blank, because the background of a line
/// with `>` is drawn too far to the right.
fn picture_of(screen: &str) -> String {
    let cursor = Regex::new("\u{1b}\\[7m((?:\u{1b}\\[[0-9;]*m)*) ").unwrap();
    Term::new().render_svg(&cursor.replace_all(screen, "$1█"))
}

/// Returns the texts of a picture: its lines without the empty ones. A block is the cursor or a part
/// of a background.
fn texts_of(picture: &str) -> Vec<String> {
    let tag = Regex::new("<[^>]*>").unwrap();
    let body = picture.split_once("</style>").map_or("", |(_, body)| body);
    let body = tag.replace_all(body, "").replace('█', " ");
    let body = body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let lines = body.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// Writes a picture of a screen, or compares its texts with the picture in the documentation. The
/// colors are not compared, because a slow machine leaves out the highlighting of code.
#[track_caller]
fn check_picture(name: &str, screen: &str) {
    let (file, made) = (picture_file(name), picture_of(screen));
    if std::env::var_os("PITCREW_WRITE_DOCS").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let again = "PITCREW_WRITE_DOCS=1 makes the pictures anew";
    assert_eq!(texts_of(&written), texts_of(&made), "{name}: {again}");
}

/// The user names the goal, and allows bob's edit after a look at its diff.
fn goal_and_permission(session: &mut Session<'_>) {
    let options = "start --team greet --allow \"Bash(sleep:*)\" --model script:play.yaml";
    session.opens("one", options);
    session.sees("start", &["What shall the team do?", "the goal of the team"]);
    session.types("make the greeting polite");
    let waits = ["1 working, 1 idle  1 waiting for you", "│ sleep 600"];
    session.sees("permission", &[&waits[..], &["bob asks permission for Edit"]].concat());
    session.answers("y");
    session.sees("allowed", &["1 working, 2 idle"]);
}

/// The user writes to ann, sends her plan back, and approves the next one.
fn message_and_plan(session: &Session<'_>) {
    session.types("/peek ann");
    session.shows("I wait for word.");
    session.types("plan the tests");
    session.sees("plan", &["ann asks you to approve its plan", "handed in its plan"]);
    let asks_why = |screen: &str| screen.contains("what must change? ann gets it");
    session.displays.presses_until(session.terminal, "n", asks_why);
    session.types("also plan for an empty name");
    session.sees("plan-again", &["ann asks you to approve its plan", "3. No name:"]);
    session.answers("y");
    session.sees("approved", &["I follow the plan from tomorrow on.", "1 working, 2 idle"]);
    session.escapes();
}

/// The user interrupts the lead, so that it reads a message.
fn interrupt(session: &Session<'_>) {
    session.types("how far are we?");
    session.sees("queued", &["waits to be read: how far are we?"]);
    session.keys(&["Escape"]);
    session.sees("interrupted", &["│ sleep 601", "you interrupt team-lead"]);
}

/// The user leaves the team at work and comes back. A killed terminal costs nothing either.
fn leave_and_come_back(session: &mut Session<'_>) {
    let host = hosts(session.room);
    session.keys(&["C-c", "C-c"]);
    session.sees("leaving", &["team greet is at work"]);
    session.keys(&["l"]);
    assert_eq!(session.displays.code("one"), "0");
    session.sees("left", &["`pitcrew attach greet` shows it again"]);
    session.opens("two", "attach greet");
    session.shows("│ sleep 601");
    kill(session.displays.pid("two"), Signal::KILL);
    assert_eq!(session.displays.code("two"), "137");
    session.opens("three", "attach greet");
    session.sees("attached", &["│ sleep 601", "1 working, 2 idle"]);
    assert_eq!(hosts(session.room), host, "the same process has run the team all the time");
}

/// The user comments on a line of bob's change, and bob answers.
fn review(session: &Session<'_>) {
    session.keys(&["C-r"]);
    session.sees("review", &["1 file is not committed", "+     format!("]);
    session.keys(&["Down", "Down", "Down", "c"]);
    session.shows("comment for bob on greet.rs, line 3");
    session.displays.tmux(&["send-keys", "-t", "three", "-l", "the caller adds a full stop"]);
    session.sees("comment", &["the caller adds a full stop"]);
    session.keys(&["Enter"]);
    session.shows("bob gets it as a message from you");
    session.escapes();
    session.types("/peek bob");
    session.sees("answer", &["You are right about the full stop", "1 working, 2 idle"]);
    session.escapes();
}

/// The lead ends the team, and the terminal gets its report.
fn end(session: &Session<'_>) {
    session.types("we are done");
    session.shows("waits to be read: we are done");
    session.keys(&["Escape"]);
    session.sees("complete", &["the run is complete", "Enter closes"]);
    session.keys(&["Enter"]);
    assert_eq!(session.displays.code("three"), "0");
    session.sees("report", &["the team is in the archive", "look again"]);
}

fn check_session(size: (u16, u16)) {
    let detached = Detached { room: TestEnv::new() };
    let Some(mut session) = Session::of(&detached.room, size) else { return };
    goal_and_permission(&mut session);
    message_and_plan(&session);
    interrupt(&session);
    leave_and_come_back(&mut session);
    review(&session);
    end(&session);
    detached.until_no_host();
}

#[test]
fn a_session_from_its_goal_to_its_report_on_a_small_terminal() {
    check_session((80, 24));
}

#[test]
fn a_session_from_its_goal_to_its_report_on_a_large_terminal() {
    check_session((200, 60));
}
