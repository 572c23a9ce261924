//! Runs the command lines that README, the pages of `docs/` and the help show. The list [`SHOWN`]
//! contains every line, with the situation in which the tests run it. If the tests do not run a
//! line, the list contains the reason.
//!
//! The test fails if a shown line is not in the list, or if a line of the list is not shown
//! anywhere. Somebody must then correct the list.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use regex::Regex;
use rustix::process::Signal;

use crate::detached::Detached;
use crate::patience::until;
use crate::running::Running;
use crate::terminal::{GOODBYE, Terminal};
use crate::test_env::{Ran, TestEnv};
use crate::viewed::RECORDED;

mod list;

use Stage::{Alone, Empty, Follows, Lives, Named, Panes, Planned, Stopped, Tmux};
use list::{SHOWN, Stage};

/// Returns every shown command line, with the places that show it.
fn shown() -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![repository.join("README.md")];
    let docs = fs::read_dir(repository.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|it| it == "md")));
    let mut add = |place: &str, line: &str| {
        lines.entry(line.trim().to_owned()).or_default().push(place.to_owned())
    };
    for page in pages {
        let place = page.file_name().unwrap().to_string_lossy().into_owned();
        of_page(&fs::read_to_string(&page).unwrap(), |line| add(&place, line));
    }
    let room = TestEnv::new();
    of_help(&room, &[], &mut |command, line| add(&format!("pitcrew {command} --help"), line));
    lines
}

/// Finds the command lines of a page, and passes each of them to `line_is`. A command line is a
/// line in a block of shell commands, or a pitcrew command that the text quotes.
fn of_page(text: &str, mut line_is: impl FnMut(&str)) {
    let mut block: Option<String> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language.to_owned()),
            (None, Some(language)) if ["console", "sh", "bash"].contains(&language.as_str()) => {
                line_is(line.split(" #").next().unwrap_or_default());
            }
            (None, Some(_)) => {}
            (None, None) => in_text(line, &mut line_is),
        }
    }
}

/// Finds the pitcrew commands that a line of text quotes.
fn in_text(line: &str, line_is: &mut impl FnMut(&str)) {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|code| code.starts_with("pitcrew ")).for_each(line_is);
}

/// Finds the command lines in the help of a command and of all its subcommands, and passes each of
/// them to `add`. A command line is an example, or a pitcrew command that the help text quotes.
fn of_help(room: &TestEnv, command: &[&str], add: &mut impl FnMut(&str, &str)) {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r" {3,}").unwrap());
    let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
    let help = room.ok(&args).stdout;
    let (mut is_example, mut is_command, mut below) = (false, false, Vec::new());
    for line in help.lines() {
        is_example = (is_example && !line.is_empty()) || line.starts_with("Example");
        is_command = (is_command && !line.is_empty()) || line.starts_with("Commands:");
        let text = line.trim();
        if is_example && line.starts_with(' ') {
            add(&command.join(" "), COMMENT.split(text).next().unwrap());
        } else if is_command && line.starts_with("  ") && !line.starts_with("   ") {
            below.extend(text.split(' ').next().filter(|name| *name != "help"));
        }
        in_text(line, &mut |code| add(&command.join(" "), code));
    }
    for name in below {
        let command: Vec<&str> = command.iter().copied().chain([name]).collect();
        of_help(room, &command, add);
    }
}

#[test]
fn every_command_that_is_shown_is_listed_here_and_no_other_is() {
    let shown = shown();
    let is_listed = |line: &str| SHOWN.iter().any(|(listed, _)| *listed == line);
    let new: Vec<_> = shown.iter().filter(|(line, _)| !is_listed(line)).collect();
    assert!(new.is_empty(), "shown, and in no list of this test: {new:#?}");
    let gone: Vec<_> = SHOWN.iter().filter(|(line, _)| !shown.contains_key(*line)).collect();
    assert!(gone.is_empty(), "listed, and shown nowhere any more: {gone:#?}");
}

/// The script of a lead that works, and of teammates that wait and agree to shut down.
fn working() -> String {
    let mate = |name: &str| format!("  {name}:\n    - text: I wait.{GOODBYE}");
    let spawn = |name: &str| {
        format!(
            "{{name: Task, input: {{name: {name}, subagent_type: general-purpose, description: w, prompt: Wait.}}}}"
        )
    };
    format!(
        "agents:\n  team-lead:\n    - tools: [{}, {}]\n    - tools: [{{name: Bash, input: {{command: sleep 600}}}}]\n    - text: It is done.\n{}{}",
        spawn("bob"),
        spawn("reviewer"),
        mate("bob"),
        mate("reviewer")
    )
}

/// The script of agents that give the same answer in each turn: a text without a tool call. An
/// agent whose earlier answers came from another script can therefore continue with this script.
const ENDING: &str =
    "agents: {default: [{repeat: {at_most: 100000, turns: [{text: It is done.}]}}]}";

/// A test environment with a repository that has no team yet. Its runs use the script [`ENDING`].
fn empty() -> TestEnv {
    let room = TestEnv::new();
    let home = room.work().parent().unwrap().to_owned();
    let folders = [
        "src/backend",
        ".local/share/bash-completion/completions",
        ".config/fish/completions",
        "bin",
    ];
    folders.iter().for_each(|folder| fs::create_dir_all(home.join(folder)).unwrap());
    for repository in [room.work(), home.join("src/backend")] {
        fs::create_dir(repository.join(".claude")).unwrap();
        let rules = r#"{"permissions": {"allow": ["Bash(ls:*)"]}}"#;
        fs::write(repository.join(".claude/settings.json"), rules).unwrap();
        assert!(
            room.tool("git", &["init", "-q"]).current_dir(repository).status().unwrap().success()
        );
    }
    let goal = room.work().join("goal.md");
    fs::write(&goal, "mend it").unwrap();
    let commit = "git add . && git -c user.name=t -c user.email=t@t commit -qm first";
    assert!(room.tool("sh", &["-c", commit]).status().unwrap().success());
    fs::write(&goal, "mend all of it").unwrap();
    fs::write(room.work().join("session.ndjson"), RECORDED).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pitcrew"), home.join("bin/pitcrew")).unwrap();
    use_script(&room, ENDING);
    room
}

/// Makes the script `script` the default model, so that all agents use it from now on.
fn use_script(room: &TestEnv, script: &str) {
    let model = room.script(script);
    fs::write(room.root().join("settings.json"), serde_json::json!({"model": model}).to_string())
        .unwrap();
}

/// Starts the team `backend`. Returns the test environment, the run, and the id of a message to
/// bob.
fn running() -> (TestEnv, Running, String) {
    let room = empty();
    use_script(&room, &working());
    let mut run = Running::start(&room, &["run", "work", "--team", "backend", "--yes"]);
    for idle in 0..2 {
        run.until("is idle");
        let _both = idle;
    }
    for task in ["one", "two", "three"] {
        room.ok(&["task", "create", task, "all of it"]);
    }
    let sent = room.json(&["send", "bob", "hello"]);
    (room, run, sent["receipts"][0]["id"].as_str().unwrap().to_owned())
}

/// A test environment in which the team `backend` has been stopped. If `is_alone` is true, the lead
/// is its only member, otherwise the team also has `reviewer`.
fn stopped(is_alone: bool) -> TestEnv {
    let room = empty();
    if is_alone {
        let turns = "[{delay_ms: 20, tools: [{name: TaskList}]}]";
        use_script(
            &room,
            &format!("agents: {{team-lead: [{{repeat: {{at_most: 99999, turns: {turns}}}}}]}}"),
        );
        let mut run = Running::start(&room, &["run", "work", "--team", "backend"]);
        run.until("team-lead TaskList");
        run.signal(Signal::INT);
        assert_eq!(run.ended().0, Some(130));
    } else {
        use_script(&room, &working());
        let mut run = Running::start(&room, &["run", "work", "--team", "backend", "--yes"]);
        run.until("is idle");
        run.until("is idle");
        run.signal(Signal::INT);
        assert_eq!(run.ended().0, Some(130));
        room.ok(&["member", "remove", "bob"]);
    }
    use_script(&room, ENDING);
    room
}

/// Returns the line with real names instead of its placeholders. The name of a vendor's model is
/// replaced by the name of the model that plays the script.
fn filled(room: &TestEnv, line: &str, message: &str) -> String {
    let model = format!("script:{}", room.work().join("script.yaml").display());
    let words = [
        ("TEAM", "backend"),
        ("myteam", "backend"),
        ("SHELL", "bash"),
        ("PROGRAM", "pitcrew pane serve tmux"),
        ("[FOLDER]", "."),
        // On a terminal, `trust add` asks the user. The test has no terminal, so it adds the flag
        // `--yes`.
        ("trust add", "trust add --yes"),
        ("message ID", &format!("message {message}")),
    ];
    let line = words.iter().fold(line.to_owned(), |line, (word, by)| line.replace(word, by));
    let vendors = Regex::new(r"(--(?:teammate-)?model) (?:\S+/\S+|opus|sonnet|haiku)").unwrap();
    vendors.replace_all(&line, format!("$1 {model}")).into_owned()
}

/// Returns a shell command that runs the line in the test environment.
fn shell(room: &TestEnv, line: &str) -> Command {
    let mut command = room.tool("sh", &["-c", line]);
    let home = room.work().parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", home.join("bin").display())).stdin(Stdio::null());
    // If the line starts a tmux server, the sockets of the server are in the test's folder.
    command.env("TMUX_TMPDIR", room.temporary());
    command
}

fn has_tmux() -> bool {
    let found = Command::new("tmux").arg("-V").output().is_ok();
    if !found {
        eprintln!("skipped: tmux is not installed");
    }
    found
}

#[track_caller]
fn check(room: &TestEnv, line: &str, message: &str) {
    let ran = Ran::of(shell(room, &filled(room, line, message)).output().unwrap());
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
}

/// Returns the lines that run in the situation `stage`.
fn on(stage: Stage) -> impl Iterator<Item = &'static str> {
    SHOWN.iter().filter(move |(_, of)| *of == stage).map(|(line, _)| *line)
}

#[test]
fn what_is_shown_runs_without_a_team() {
    for line in on(Empty) {
        let room = empty();
        if let Some((before, after)) = line.split_once("trust remove") {
            // `trust remove` works only after `trust add`.
            check(&room, &format!("{before}trust add{after}"), "");
        }
        if let Some((before, name)) = line.split_once("devices remove ") {
            check(&room, &format!("{before}devices add --name {name} --scope watch"), "");
        }
        check(&room, line, "");
    }
    for line in on(Stage::Detaches) {
        let detached = Detached { room: empty() };
        check(&detached.room, line, "");
        detached.until_no_host();
    }
    // Some lines end with an option that lacks its value. Such an option would take `--help` as its
    // value, so the test removes all options.
    let named = on(Named).map(|line| line.split(" --").next().unwrap());
    named.for_each(|line| check(&empty(), &format!("{line} --help"), ""));
}

#[test]
fn what_is_shown_runs_with_tmux() {
    if has_tmux() {
        for line in on(Tmux) {
            let room = empty();
            check(&room, line, "");
            // The result is ignored, because the tmux server may have ended by itself, or may never
            // have started.
            let _either = shell(&room, "tmux kill-server 2>&1").output();
        }
    }
}

#[test]
fn what_is_shown_runs_on_a_team_that_was_stopped() {
    on(Alone).for_each(|line| check(&stopped(true), line, ""));
    on(Stopped).for_each(|line| check(&stopped(false), line, ""));
}

#[test]
fn what_is_shown_runs_while_a_team_is_at_work() {
    for line in on(Stage::Running) {
        let (room, _run, message) = running();
        check(&room, line, &message);
    }
}

/// Starts the team `backend`, and waits until `bob` has submitted a plan.
fn planned() -> (TestEnv, Running) {
    let room = empty();
    let spawn = "{name: Task, input: {name: bob, subagent_type: general-purpose, description: w, prompt: Plan it., mode: plan}}";
    let plan = "{name: ExitPlanMode, input: {plan: 1. Do it.}}";
    let wait = "wait_for: {contains: never}";
    use_script(
        &room,
        &format!(
            "agents:\n  team-lead:\n    - tools: [{spawn}]\n    - tools: [{{name: Bash, input: {{command: sleep 600}}}}]\n  bob:\n    - tools: [{plan}]\n    - {wait}\n"
        ),
    );
    let run = Running::start(&room, &["run", "work", "--team", "backend", "--yes"]);
    let waits = || (room.json(&["plan", "list"])["total"] == 1).then_some(());
    until("the plan waits", waits, || room.run(&["plan", "list", "--all"]).stdout);
    (room, run)
}

#[test]
fn what_is_shown_runs_while_a_plan_waits() {
    for line in on(Planned) {
        let (room, _run) = planned();
        check(&room, line, "");
    }
}

#[test]
fn what_is_shown_and_goes_on_does_so_until_it_is_interrupted() {
    for line in on(Follows) {
        let (room, _run, message) = running();
        if line.contains("team-lead") {
            room.ok(&["send", "team-lead", "hello"]);
        }
        let mut follows = Running::answering(&mut shell(
            &room,
            &format!("exec {}", filled(&room, line, &message)),
        ));
        assert!(!follows.line().is_empty(), "{line}");
        follows.signal(Signal::INT);
        assert_eq!(follows.ended().0, Some(0), "{line}");
    }
    for line in on(Lives) {
        let room = if line.contains("bob") { with_bob() } else { stopped(true) };
        let mut lives =
            Running::of(&mut shell(&room, &format!("exec {}", filled(&room, line, ""))));
        lives.until("joins as a teammate");
        lives.signal(Signal::INT);
        assert_eq!(lives.ended().0, Some(130), "{line}");
    }
}

/// A test environment in which the team `backend` has been stopped. The team has the teammate
/// `bob`.
fn with_bob() -> TestEnv {
    let room = empty();
    use_script(&room, &working());
    let mut run = Running::start(&room, &["run", "work", "--team", "backend", "--yes"]);
    run.until("is idle");
    run.until("is idle");
    run.signal(Signal::INT);
    assert_eq!(run.ended().0, Some(130));
    room
}

#[test]
fn what_is_shown_of_panes_runs_in_tmux() {
    let Some(terminal) = Terminal::new() else { return };
    let script = working();
    let run = terminal.start(&script, &[]);
    terminal.until("bob is idle", || terminal.was("bob", "idle").then_some(()));
    let mut lines: Vec<&str> = on(Panes).collect();
    // The line with `show` needs a hidden pane. Sorting puts the line with `hide` before the line
    // with `show`.
    lines.sort_unstable();
    for line in lines {
        let args: Vec<&str> = line.split(' ').skip(1).collect();
        let ran = Ran::of(terminal.command(&args).output().unwrap());
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    let ended = terminal.command(&["shutdown", "--force"]).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    drop(run.wait_with_output().unwrap());
}
