//! Tests of the display of one agent. The tests run `pitcrew agent` and `pitcrew join` on a real
//! terminal, in a private tmux server, and check the text on the screen.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use insta::assert_snapshot;
use pitcrew_protocol::{AgentName, Frame, Limits, TeamDir};
use pitcrew_store::{FileBackend, FileOptions};
use pitcrew_team::{Actor, Mail, PermissionAnswer, SystemClock, Team, Teams};
use regex::Regex;
use serde_json::{Value, json};

use crate::models_over_http::model_server;
use crate::patience;
use crate::test_env::{TestEnv, journal_in};

pub(crate) mod followed;
mod questions;

/// The arguments that run bob. A lead has already added bob to the team.
const BOB: &[&str] = &["agent", "--agent-id", "bob@crew"];

/// The arguments that run bob in the permission mode in which no tool call needs an answer from the
/// user.
const FREE: &[&str] =
    &["agent", "--agent-id", "bob@crew", "--permission-mode", "bypassPermissions"];

/// The team `crew`, and a terminal that shows one of the team's members.
struct TerminalSession {
    room: TestEnv,
    socket: PathBuf,
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        // When the tmux server ends, the program in its terminal gets SIGHUP and ends too.
        let _either = self.tmux_command(&["kill-server"]).output();
    }
}

impl TerminalSession {
    /// Makes a team whose member bob plays the script `steps`. If tmux is not installed, prints a
    /// message and returns `None`.
    fn with_bob(steps: &str) -> Option<Self> {
        let room = TestEnv::with_crew();
        let model = room.script(&format!("agents:\n  bob: &bob\n{steps}\n  guest: *bob\n"));
        Self::with_bob_on(room, &model)
    }

    fn with_bob_on(room: TestEnv, model: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let mut config = room.json_file("teams/crew/config.json");
        let bob = config["members"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .find(|member| member["name"] == "bob")
            .unwrap();
        let place =
            json!({"tmuxPaneId": "%7", "backendType": "tmux", "model": model, "cwd": room.work()});
        bob.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        fs::write(room.root().join("teams/crew/config.json"), config.to_string()).unwrap();
        let socket = room.temporary().join("tmux");
        Some(Self { room, socket })
    }

    fn tmux_command(&self, args: &[&str]) -> Command {
        // The tmux server passes its environment to the programs that it starts. The server is
        // therefore started with the environment variables of the test.
        let mut command = self.room.tool("tmux", &["-u", "-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(args).env("SHELL", "/bin/sh");
        command
    }

    #[track_caller]
    fn tmux(&self, args: &[&str]) -> String {
        let output = self.tmux_command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the binary on a terminal of this size. The shell that starts the binary writes the
    /// terminal's modes to one file before the start, and to another file after the end of the
    /// binary.
    fn open(&self, (columns, rows): (u16, u16), args: &[&str]) {
        let call = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let shell = format!(
            "stty -a > before; '{own}' {call}; echo $? > code; stty -a > after; exec sleep 1000"
        );
        let size = [columns.to_string(), rows.to_string()];
        let made = ["new-session", "-d", "-x", &size[0], "-y", &size[1], "sh", "-c", &shell];
        self.tmux(&made);
        // Keep tmux from changing the size and the name that the test gives to a window.
        self.tmux(&["set-option", "-g", "window-size", "manual"]);
        self.tmux(&["set-option", "-g", "automatic-rename", "off"]);
    }

    /// Returns the text that the terminal shows now.
    fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Returns the text of the terminal, including the lines that have scrolled off.
    fn history(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    #[track_caller]
    fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        patience::until(what, look, || self.history())
    }

    /// Waits until the text on the screen meets the condition `is_so`.
    #[track_caller]
    fn shows(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        self.until(what, || Some(self.screen()).filter(|screen| is_so(screen)))
    }

    #[track_caller]
    fn shows_text(&self, text: &str) -> String {
        self.shows(text, |screen| screen.contains(text))
    }

    /// Waits until bob is idle and the screen no longer changes. The screen then ends with the
    /// prompt, and the status line reports no unread message.
    #[track_caller]
    fn is_idle(&self) -> String {
        let rests = |foot: &str| foot.starts_with("idle") && !foot.ends_with("unread");
        self.shows("bob is idle", |screen| {
            screen.ends_with("\n>") && foot(screen).is_some_and(rests)
        })
    }

    fn types(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.room.work().join(name)).ok().filter(|text| text.ends_with('\n'))
    }

    /// Waits until the binary has ended, and checks that the terminal has the same modes as before
    /// the start. Returns the exit code of the binary.
    #[track_caller]
    fn is_ordinary_again(&self) -> String {
        let after = self.until("the shell goes on", || self.file("after"));
        assert_eq!(after, self.file("before").unwrap());
        assert!(
            ["icanon", "echo", "isig"]
                .iter()
                .all(|mode| after.split_whitespace().any(|word| word == *mode)),
            "{after}"
        );
        self.file("code").unwrap().trim().to_owned()
    }

    fn team(&self) -> Team {
        let backend = Arc::new(FileBackend::open(&self.room.root(), FileOptions::default()));
        Teams::new(backend, Limits::default(), Arc::new(SystemClock))
            .at(&TeamDir::of("crew"))
            .unwrap()
    }

    fn journal(&self) -> Vec<Value> {
        journal_in(&self.room.root().join("teams/crew/pitcrew/journal.ndjson"))
    }

    fn transcript(&self) -> String {
        fs::read_to_string(self.room.root().join("teams/crew/pitcrew/transcripts/bob.ndjson"))
            .unwrap()
    }

    /// Returns the outcome of each `permission` entry in the journal: that the agent asked for
    /// permission, or how the request was answered.
    fn outcomes(&self) -> Vec<String> {
        let asked = self.journal().into_iter().filter(|entry| entry["event"] == "permission");
        asked.map(|entry| entry["outcome"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns the status line of the agent, which is the line below the heading.
fn foot(screen: &str) -> Option<&str> {
    let heading = screen.rfind("── bob of crew")?;
    screen.get(heading..)?.lines().nth(1)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn the_view_shows_what_its_member_does_and_a_typed_line_is_a_message_of_the_users() {
    let Some(seat) = TerminalSession::with_bob(
        "    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress}}]
    - tools: [{name: Bash, input: {command: echo hello; echo there}}]
    - text: I said hello.
    - wait_for: {contains: Say it again}
    - delay_ms: 300
      text: Hello again.",
    ) else {
        return;
    };
    seat.room.ok(&["task", "create", "Greet", "Say hello"]);
    seat.room.ok(&["send", "bob", "Do task 1."]);
    seat.open((100, 30), FREE);
    seat.is_idle();
    seat.types("Say it again!");
    seat.shows_text("Hello again.");
    let screen = seat.is_idle();
    let starts = screen.find("> operator").unwrap();
    assert_snapshot!(&screen[starts..], @r"
    > operator
      Do task 1.
    * TaskUpdate(1)
      Updated task #1 owner, status
    > bob [task_assignment]
    * Bash(echo hello; echo there)
      hello
    < I said hello.
    - is idle
    > user
      Say it again!
    < Hello again.
    - is idle
    ── bob of crew
    idle  task #1 Greet
    >
    ");
    let entries = seat.journal();
    let of_typed = |event: &str| {
        let found = entries.iter().rfind(|entry| entry["event"] == event && entry["to"] == "bob");
        found.unwrap()["id"].clone()
    };
    let sent = entries
        .iter()
        .rfind(|entry| entry["event"] == "message_persisted" && entry["to"] == "bob")
        .unwrap();
    assert_eq!(sent["from"], "user");
    assert_eq!(of_typed("message_persisted"), of_typed("message_injected"));
    assert_eq!(seat.transcript().matches("Say it again!").count(), 1, "{}", seat.transcript());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_shows_tokens_and_cost() {
    let (url, server) = model_server(&Arc::new(AtomicUsize::new(0))).await;
    let shown = tokio::task::spawn_blocking(move || {
        let room = TestEnv::with_crew();
        let keys = json!({"env": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-test"}});
        fs::write(room.root().join("settings.json"), keys.to_string()).unwrap();
        let seat = TerminalSession::with_bob_on(room, "anthropic/claude-opus-5-5")?;
        seat.room.ok(&["send", "bob", "ROLE:bob write your file and tell me"]);
        seat.open((100, 30), FREE);
        Some(foot(&seat.is_idle()).unwrap().to_owned())
    });
    let shown = shown.await.unwrap();
    server.abort();
    let Some(shown) = shown else { return };
    let tells = Regex::new(r"^idle +\d\.\dk tokens  \$0\.\d\d$").unwrap();
    assert!(tells.is_match(&shown), "{shown}");
}

#[test]
fn escape_cuts_a_long_turn_off_and_the_next_line_starts_another() {
    let Some(seat) = TerminalSession::with_bob(
        "    - tools: [{name: Bash, input: {command: 'echo $$ > pid; exec sleep 1000'}}]
    - text: I stopped.",
    ) else {
        return;
    };
    seat.room.ok(&["send", "bob", "Sleep."]);
    seat.open((100, 30), FREE);
    let pid = seat.until("the command runs", || seat.file("pid"));
    seat.shows("the command in the foot", |screen| {
        foot(screen).is_some_and(|foot| foot.starts_with("Bash(echo"))
    });
    seat.tmux(&["send-keys", "Escape"]);
    let screen = seat.is_idle();
    assert!(!screen.contains("I stopped."), "{screen}");
    seat.until("the command is gone", || {
        (!Path::new(&format!("/proc/{}", pid.trim())).exists()).then_some(())
    });
    seat.types("What did you do?");
    seat.shows_text("I stopped.");
    seat.is_idle();
}

/// The script steps of an agent that asks permission for Write.
const ASKS: &str = "    - tools: [{name: Write, input: {file_path: it, content: \"written\\n\"}}]\n    - text: It is written.";

fn asking(size: (u16, u16)) -> Option<TerminalSession> {
    let seat = TerminalSession::with_bob(ASKS)?;
    seat.room.ok(&["send", "bob", "Write it."]);
    seat.open(size, BOB);
    // Whether the screen is complete: it ends with the permission request, and the status line no
    // longer reports an unread message. After that, the screen does not change until a key is sent.
    let asks = |screen: &str| {
        foot(screen) == Some("asks permission for Write") && screen.ends_with("\nanswer>")
    };
    seat.shows("the question", asks);
    Some(seat)
}

/// Checks that the permission request was allowed. Waits until the turn has ended and the screen no
/// longer shows the request. Also checks that the file `it` was written, and that the journal
/// contains the request and its answer.
#[track_caller]
fn check_it_was_answered(seat: &TerminalSession) {
    seat.shows_text("It is written.");
    let screen = seat.is_idle();
    assert!(!screen.contains("bob asks permission for") && !screen.contains("answer>"), "{screen}");
    assert_eq!(seat.file("it").as_deref(), Some("written\n"));
    seat.until("the answer in the journal", || {
        (seat.outcomes() == ["asked", "allowed"]).then_some(())
    });
}

#[test]
fn a_permission_is_given_at_the_pane_and_the_question_to_the_lead_is_void() {
    let Some(seat) = asking((100, 30)) else { return };
    let screen = seat.screen();
    let starts = screen.find("── bob of crew").unwrap();
    assert_snapshot!(seat.room.redacted(&screen[starts..]), @r#"
    ── bob of crew
    asks permission for Write
    bob asks permission for Write
      in [dir]/work
      file it
      a new file
    │+written
    [y]es, [n]o, or n and the reason
    [a]lways in this run: mode acceptEdits (all edits, and commands that only write in its folder)
    [p] always Edit(/[dir]/work/it), in this run (p save: in your settings too)
    answer>
    "#);
    seat.until("the lead is asked", || (seat.outcomes() == ["asked"]).then_some(()));
    let shown = seat.room.json(&["team", "show", "--team", "crew"]);
    let waits: Vec<&Value> =
        shown["runs"].as_array().unwrap().iter().map(|it| &it["waits_for"]).collect();
    assert!(waits.contains(&&json!("asks permission for Write")), "{shown:#}");
    seat.tmux(&["send-keys", "-l", "what is it?"]);
    seat.shows_text("answer> what is it?");
    seat.tmux(&["send-keys", "Enter"]);
    seat.shows_text(
        "this is not an answer, so nothing was answered; the answers are: y, n, n and the reason, a, p",
    );
    seat.shows("what was no answer is kept", |screen| screen.ends_with("answer> what is it?"));
    seat.tmux(&["send-keys", "C-u"]);
    seat.types("y");
    check_it_was_answered(&seat);
    let is_request = |mail: &Mail| matches!(mail.frame, Some(Frame::PermissionRequest(_)));
    let unread = || block_on(seat.team().unread(&AgentName::lead())).unwrap();
    seat.until("the question is void", || (!unread().iter().any(is_request)).then_some(()));
}

#[test]
fn a_permission_that_the_lead_gives_takes_the_question_off_the_pane() {
    let Some(seat) = asking((100, 30)) else { return };
    let team = seat.team();
    let request =
        seat.until("the lead is asked", || block_on(team.requests()).unwrap().into_keys().next());
    let allow = PermissionAnswer::Allow {
        updated_input: json!({"file_path": "it", "content": "written\n"}),
        updates: Vec::new(),
        digest: None,
    };
    block_on(team.answer_permission(&Actor::Lead, &request, allow, None)).unwrap();
    check_it_was_answered(&seat);
}

#[test]
fn control_c_ends_a_guest_in_order_and_leaves_an_ordinary_terminal() {
    let Some(seat) = TerminalSession::with_bob("    - delay_ms: 600000\n      text: Late.") else {
        return;
    };
    let model = format!("script:{}", seat.room.work().join("script.yaml").display());
    seat.open((100, 30), &["join", "crew", "--as", "guest", "--model", &model]);
    seat.shows("the guest thinks", |screen| screen.contains("── guest of crew\nthinks"));
    seat.tmux(&["send-keys", "-l", "half a line"]);
    seat.shows_text("> half a line");
    seat.tmux(&["send-keys", "C-c"]);
    assert_eq!(seat.is_ordinary_again(), "130");
    // tmux draws the last output a short time after the binary has ended, so wait for that output.
    let screen = seat.shows_text("pitcrew join crew --as guest");
    assert!(!screen.contains("half a line") && !screen.contains("── guest of crew"), "{screen}");
    let config = seat.room.json_file("teams/crew/config.json");
    let guest = config["members"]
        .as_array()
        .unwrap()
        .iter()
        .find(|member| member["name"] == "guest")
        .unwrap()
        .clone();
    assert_eq!(guest["isActive"], false, "it stays in the team, and is not at work");
    seat.tmux(&["kill-session"]);
}

#[test]
fn a_view_that_is_told_to_end_by_a_signal_leaves_an_ordinary_terminal() {
    let Some(seat) = asking((100, 30)) else { return };
    let shell = seat.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let child = format!("/proc/{0}/task/{0}/children", shell.trim());
    let pid = fs::read_to_string(child).unwrap();
    let killed = Command::new("kill").arg(pid.trim()).status().unwrap();
    assert_eq!((killed.code(), killed.signal()), (Some(0), None));
    assert_eq!(seat.is_ordinary_again(), "143");
}

/// A text whose control characters would clear the screen, rename the window, write to the
/// clipboard and move the cursor back.
const HOSTILE: &str =
    "a\u{1b}[2Jb\u{1b}]0;named\u{7}c\u{1b}]52;c;ZXZpbA==\u{7}d\u{9b}1Ae\rf\u{8}g\u{202e}h";

#[test]
fn what_others_write_does_not_steer_the_terminal() {
    let Some(seat) = TerminalSession::with_bob(&format!(
        "    - tools: [{{name: Bash, input: {{command: cat hostile}}}}]\n    - text: {}\n    - text: Again.",
        // YAML accepts these control characters only in escaped form.
        json!(HOSTILE).to_string().replace('\u{9b}', "\\u009b").replace('\u{202e}', "\\u202e")
    )) else {
        return;
    };
    fs::write(seat.room.work().join("hostile"), HOSTILE).unwrap();
    seat.room.ok(&["send", "bob", "Wait."]);
    let raw = seat.room.work().join("raw");
    let mail = format!("Look: {HOSTILE}");
    seat.room.ok(&["send", "bob", &mail]);
    seat.room.ok(&["task", "create", HOSTILE, HOSTILE]);
    seat.room.ok(&["task", "update", "1", "--owner", "bob", "--status", "in_progress"]);
    seat.open((100, 30), FREE);
    seat.tmux(&["pipe-pane", &format!("cat >> '{}'", raw.display())]);
    let title = seat.tmux(&["display-message", "-p", "#{pane_title} #{window_name}"]);
    let screen = seat.is_idle();
    let defused = "a�[2Jb�]0;named�c�]52;c;ZXZpbA==�d�1Ae";
    assert!(screen.contains(&format!("  Look: {defused}")), "the mail: {screen}");
    assert!(screen.contains(&format!("\n  {defused}")), "the tool's result: {screen}");
    assert!(screen.contains(&format!("\n< {defused}")), "what it said: {screen}");
    assert!(foot(&screen).unwrap().contains("task #1 a�[2Jb"), "the task: {screen}");
    assert_eq!(seat.tmux(&["display-message", "-p", "#{pane_title} #{window_name}"]), title);
    assert_eq!(seat.history().matches("── bob of crew").count(), 1, "{}", seat.history());
    seat.types("Once more.");
    seat.shows_text("Again.");
    let raw = seat.until("the piped bytes", || {
        fs::read_to_string(&raw).ok().filter(|raw| raw.contains("Again."))
    });
    for steering in ["\u{1b}]", "\u{1b}[2J", "\u{9b}", "\u{7}", "\u{8}", "\u{202e}"] {
        assert!(!raw.contains(steering), "{steering:?} in {raw:?}");
    }
}

#[test]
fn the_foot_fits_a_narrow_terminal_and_follows_when_that_is_resized() {
    let Some(seat) = asking((60, 30)) else { return };
    let resize =
        |columns: &str, rows: &str| seat.tmux(&["resize-window", "-x", columns, "-y", rows]);
    // The screen breaks lines at different places in each run, because the path of the temporary
    // folder has a different length in each run.
    let without_breaks = |screen: &str| screen.split_whitespace().collect::<String>();
    let answers = format!(
        "│+written[y]es,[n]o,ornandthereason[a]lwaysinthisrun:modeacceptEdits(alledits,andcommandsthatonlywriteinitsfolder)[p]alwaysEdit(/{}/it),inthisrun(psave:inyour\
         settingstoo)answer>",
        seat.room.work().display()
    );
    let is_whole = |screen: &str| without_breaks(screen).ends_with(&answers);
    resize("40", "30");
    seat.shows("the narrow foot", is_whole);
    // tmux reports a new size with a short delay. The test therefore waits until the program has
    // drawn its screen in the new size, and then sends the key.
    resize("60", "30");
    seat.shows("the wider foot", |screen| {
        is_whole(screen) && screen.contains("[a]lways in this run: mode acceptEdits (all edits")
    });
    seat.tmux(&["send-keys", "-l", "w"]);
    seat.shows_text("answer> w");
    assert_eq!(seat.history().matches("── bob of crew").count(), 1, "{}", seat.history());
    seat.tmux(&["send-keys", "BSpace"]);
    seat.shows("an empty line", |screen| screen.ends_with("answer>"));
    seat.types("y");
    seat.is_idle();
    check_it_was_answered(&seat);
    assert_eq!(seat.history().matches("bob asks permission for").count(), 0, "{}", seat.history());
}

#[test]
fn nothing_is_drawn_while_nothing_changes_that_is_shown() {
    let Some(seat) = TerminalSession::with_bob("    - text: I wait.") else { return };
    seat.room.ok(&["send", "bob", "Wait."]);
    seat.open((100, 30), FREE);
    seat.shows_text("I wait.");
    seat.is_idle();
    let raw = seat.room.work().join("raw");
    seat.tmux(&["pipe-pane", &format!("cat >> '{}'", raw.display())]);
    seat.room.ok(&["task", "create", "Not bob's", "Nothing to see"]);
    seat.room.ok(&["send", "ann", "This is not for bob."]);
    seat.room.ok(&["member", "mode", "ann", "plan"]);
    // The test sends this key last. When the key is on the screen, the program has drawn everything
    // before it too.
    seat.tmux(&["send-keys", "-l", "x"]);
    let drawn = seat.until("what was typed is drawn", || {
        fs::read_to_string(&raw).ok().filter(|raw| raw.contains("> x"))
    });
    assert_eq!(drawn.matches("bob of crew").count(), 1, "{drawn:?}");
}
