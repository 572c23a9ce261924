//! The terminal interface on real terminals. Terminals are really killed and processes really
//! suspended.

use std::fs;

use insta::assert_snapshot;
use rustix::process::Signal;

use crate::attach::Displays;
use crate::detached::{Detached, hosts};
use crate::patience;
use crate::terminal::{GOODBYE, kill};
use crate::test_env::TestEnv;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);

/// The hint of an interface whose run has ended.
const OVER: &str = "Enter closes; a message goes on";

/// The script of a lead that needs a permission, and of a teammate that does what it is told.
fn script() -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Wait, prompt: Wait for word.}}}}]
    - text: I write the **file** now.
      tools: [{{name: Write, input: {{file_path: it, content: "written\n"}}}}]
    - text: "The file is written:\n\n- it"
      tools: [{{name: Bash, input: {{command: sleep 600}}}}]
    - wait_for: {{contains: look again}}
    - text: I looked again.
      tools: [{{name: Bash, input: {{command: sleep 601}}}}]
  bob:
    - text: I wait.
    - wait_for: {{contains: begin}}
    - text: I began.{GOODBYE}"#
    )
}

/// Returns the words that start the team `work` with a script in the terminal interface.
fn start_of(room: &TestEnv) -> String {
    let model = room.script(&script());
    format!("start --team work --allow \"Bash(sleep:*)\" --model {model}")
}

/// Opens the interface in a small terminal and types the goal. Returns `None` if tmux is not
/// installed.
fn with_goal(room: &TestEnv) -> Option<Displays<'_>> {
    let displays = Displays::of(room)?;
    displays.start("one", SMALL, &start_of(room));
    displays.shows("one", "What shall the team do?");
    displays.types("one", "write the file");
    Some(displays)
}

/// Whether the terminal shows its alternate screen.
fn is_alternate(displays: &Displays<'_>, name: &str) -> bool {
    displays.tmux(&["display", "-p", "-t", name, "#{alternate_on}"]).trim() == "1"
}

#[test]
fn a_team_is_led_from_its_goal_to_its_end_and_a_lost_terminal_costs_nothing() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = with_goal(&detached.room) else { return };
    let asked =
        displays.until("one", "the question", |it| it.contains("asks permission for Write"));
    // The place of bob's notice in the conversation above depends on who is faster.
    let starts = asked.find("team-lead asks permission").unwrap();
    assert_snapshot!(detached.room.redacted(&asked[starts..]), @r"
    team-lead asks permission for Write
      in [dir]/work
      file it
      a new file
    │+written
    [y] yes, once   [n] no (a reason can follow)
    [a] always in this run: mode acceptEdits (all edits, and commands that only
    write in its folder)
    [p] always Edit(/[dir]/work/it), in this run   [P] and save it in your
    settings
    ────────────────────────────────────────────────────────────────────────────────
    >  keys answer the request first; a blank begins a message to team-lead
     team-lead  script:[dir]/work/script.yaml  default   /help  Tab: team
    ");
    displays.answers("one", "y", "asks permission for Write");
    displays.shows("one", "The file is written:");
    let file = detached.room.work().join("it");
    patience::until("it is written", || file.exists().then_some(()), || displays.screen("one"));
    // A message to a teammate, beside its conversation.
    displays.types("one", "/peek bob");
    displays.shows("one", "I wait.");
    displays.types("one", "begin now");
    displays.shows("one", "I began.");
    let host = hosts(&detached.room);
    assert_eq!(host.len(), 1);
    kill(displays.pid("one"), Signal::KILL);
    assert_eq!(displays.code("one"), "137");
    assert_eq!(hosts(&detached.room), host, "the team goes on");
    displays.start("two", LARGE, "attach work");
    displays.shows("two", "The file is written:");
    let is_there = |it: &str| it.contains("│ sleep 600") && it.contains("- bob        idle");
    let screen = displays.until("two", "the command, and bob beside it", is_there);
    let starts = screen.find("The file is written:").unwrap();
    assert_snapshot!(detached.room.redacted(&screen[starts..]), @r"
    The file is written:

    • it

    ● Bash
      │ sleep 600

    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    >  a message to team-lead
     team-lead  script:[dir]/work/script.yaml  default                                                                                                                           /help  Tab: team
    ");
    // The lead reads the message at once, because its command is interrupted.
    displays.types("two", "look again");
    displays.shows("two", "waits to be read: look again");
    displays.key("two", "Escape");
    displays.shows("two", "I looked again.");
    displays.types("two", "/stop");
    assert_eq!(displays.code("two"), "130", "the exit code is that of the run");
    assert!(!is_alternate(&displays, "two"));
    displays.shows("two", "team-lead");
    detached.until_no_host();
}

#[test]
fn leaving_asks_and_the_terminal_is_as_it_was_before() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = with_goal(&detached.room) else { return };
    displays.until("one", "the question", |it| it.contains("asks permission for Write"));
    assert!(is_alternate(&displays, "one"));
    displays.key("one", "C-c");
    displays.shows("one", "Ctrl-C again leaves");
    displays.key("one", "C-c");
    displays.shows("one", "team work is at work");
    displays.key("one", "l");
    assert_eq!(displays.code("one"), "0");
    displays.shows("one", "team work goes on; `pitcrew attach work` shows it again");
    assert!(!is_alternate(&displays, "one"));
    assert_eq!(hosts(&detached.room).len(), 1);
    // SIGTERM restores the terminal too.
    displays.start("two", SMALL, "attach work");
    displays.until("two", "the question", |it| it.contains("asks permission for Write"));
    kill(displays.pid("two"), Signal::TERM);
    assert_eq!(displays.code("two"), "143");
    assert!(!is_alternate(&displays, "two"));
}

#[test]
fn a_killed_host_is_reported_and_the_interface_goes_on_with_the_resumed_team() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = with_goal(&detached.room) else { return };
    displays.until("one", "the question", |it| it.contains("asks permission for Write"));
    kill(hosts(&detached.room)[0], Signal::KILL);
    let screen = displays.shows("one", "the process of team work is gone");
    assert!(!screen.contains("asks permission for Write"), "nobody waits for an answer: {screen}");
    detached.room.json(&["run", "--resume", "work", "--detach"]);
    displays.until("one", "the question again", |it| it.contains("asks permission for Write"));
    displays.answers("one", "y", "asks permission for Write");
    displays.shows("one", "The file is written:");
}

#[test]
fn an_answer_to_a_stopped_process_is_visible_until_the_process_takes_it() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    displays.start("one", SMALL, &start_of(&detached.room));
    displays.shows("one", "What shall the team do?");
    displays.types("one", "write the file");
    displays.until("one", "the question", |it| it.contains("asks permission for Write"));
    let host = hosts(&detached.room)[0];
    kill(host, Signal::STOP);
    displays.answers("one", "y", "asks permission for Write");
    displays.shows("one", "the process of team work does not answer yet");
    kill(host, Signal::CONT);
    displays.shows("one", "The file is written:");
    assert!(!displays.screen("one").contains("does not answer yet"), "{}", displays.screen("one"));
}

#[test]
fn a_suspended_interface_gives_the_terminal_back_and_comes_back() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let own = env!("CARGO_BIN_EXE_pitcrew");
    let size = ["-x", "80", "-y", "24"];
    displays.tmux(&[&["new-session", "-d", "-s", "shell"], &size[..], &["sh", "-i"]].concat());
    let command = format!("{own} {}", start_of(&detached.room));
    displays.types("shell", &command);
    displays.shows("shell", "What shall the team do?");
    displays.key("shell", "C-z");
    displays.until("shell", "the shell", |it| !it.contains("What shall the team do?"));
    assert!(!is_alternate(&displays, "shell"));
    displays.types("shell", "echo still $((40 + 2))");
    displays.shows("shell", "still 42");
    fs::write(detached.room.work().join("mark"), "").unwrap();
    displays.types("shell", "fg");
    displays.shows("shell", "What shall the team do?");
    displays.key("shell", "@");
    displays.shows("shell", "@mark");
    displays.key("shell", "C-c");
    displays.key("shell", "C-c");
    displays.until("shell", "the shell", |it| !it.contains("What shall the team do?"));
    assert!(!is_alternate(&displays, "shell"));
}

#[test]
fn without_a_terminal_the_interface_says_what_to_run() {
    let room = TestEnv::new();
    assert_snapshot!(room.transcript(&[&["start"], &["mend the parser"]]), @r#"
    $ pitcrew start
    error: the terminal interface needs a terminal
    hint: `pitcrew run "GOAL"` runs a team without one
    [exit 2]
    $ pitcrew "mend the parser"
    error: the terminal interface needs a terminal
    hint: `pitcrew run "GOAL"` runs a team without one
    [exit 2]
    "#);
    assert_eq!(room.run(&[]).code, 2);
}

#[test]
fn the_answer_of_a_run_that_ends_at_once_is_printed() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let model = detached.room.script("agents: {team-lead: [{text: It is forty-two.}]}");
    displays.start("one", LARGE, &format!("start --team work --model {model} \"what is it?\""));
    // It depends on the machine whether the interface sees the run. It stays open in both cases.
    displays.shows("one", "the run is complete");
    displays.key("one", "Enter");
    assert_eq!(displays.code("one"), "0");
    displays.shows("one", "It is forty-two.");
    assert!(!displays.screen("one").contains("error:"), "{}", displays.screen("one"));
}

#[test]
fn a_conversation_of_runs_that_end_at_once_goes_on() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let model = detached.room.script("agents: {default: [{text: First.}, {text: Second.}]}");
    displays.start("one", LARGE, &format!("start --team work --model {model} talk"));
    displays.shows("one", OVER);
    displays.types("one", "second question");
    displays.until("one", "the answer", |it| it.contains("Second.") && it.contains(OVER));
    displays.key("one", "Enter");
    assert_eq!(displays.code("one"), "0");
}

#[test]
fn the_interface_of_a_resumed_run_can_continue_it() {
    let detached = Detached { room: TestEnv::new() };
    let Some(displays) = Displays::of(&detached.room) else { return };
    let script = "agents:
  default:
    - tools: [{name: TaskCreate, input: {subject: Paint, description: Paint it.}}]
    - text: First.
    - text: First again.
    - text: Second.
    - text: Second again.
    - text: Third.
";
    let model = detached.room.script(script);
    detached.room.run(&["run", "--team", "work", "--model", &model, "talk"]);
    displays.start("one", LARGE, "resume work");
    displays.shows("one", OVER);
    displays.types("one", "and the third?");
    displays.until("one", "the end", |it| it.contains("Third.") && it.contains(OVER));
}
