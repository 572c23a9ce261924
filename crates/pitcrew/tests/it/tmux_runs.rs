//! Tests of runs whose teammates are in the panes of a real tmux server. After each run, only the
//! panes, processes and members that the run should leave may be there.
//!
//! The module `crashes` tests crashes at random moments.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::processes::commands_in;
use crate::running::Running;
use crate::terminal::{GOODBYE, Terminal, ended, kill};
use crate::test_env::{Ran, journal_in};

/// The script of a lead and `count` teammates. Each teammate makes a file and reports this to the
/// lead.
pub(crate) fn crowd(count: usize) -> String {
    let names: Vec<String> = (1..=count).map(|n| format!("mate{n}")).collect();
    let each = |line: &dyn Fn(&String) -> String| names.iter().map(line).collect::<String>();
    let spawns = each(&|name| {
        format!(
            "        - {{name: Task, input: {{name: {name}, description: Make a file, prompt: Make {name}.txt}}}}\n"
        )
    });
    let asks = each(&|name| {
        format!(
            "        - {{name: SendMessage, input: {{type: shutdown_request, recipient: {name}}}}}\n"
        )
    });
    let mates = each(&|name| {
        format!(
            "  {name}:\n    - tools: [{{name: Write, input: {{file_path: {name}.txt, content: done}}}}]\n    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: done}}}}]{GOODBYE}"
        )
    });
    format!(
        "agents:\n  team-lead:\n    - tools:\n{spawns}    - wait_for: {{contains: my part is done, from: message, times: {count}}}\n    - tools:\n{asks}    - wait_for: {{contains: teammate_terminated, from: message, times: {count}}}\n    - text: All files are there.\n{mates}"
    )
}

#[test]
fn eight_teammates_work_in_panes_and_leave_nothing_behind() {
    let Some(terminal) = Terminal::new() else { return };
    let ran = ended(terminal.start(&crowd(8), &["--permission-mode", "acceptEdits"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout.trim(), "All files are there.", "{ran:?}");
    for n in 1..=8 {
        assert_eq!(
            fs::read_to_string(terminal.room.work().join(format!("mate{n}.txt"))).unwrap(),
            "done"
        );
    }
    terminal.check_nobody_is_left();
}

/// The script of a lead that waits for the end of its teammate bob. Bob starts the task, and then
/// runs a command that takes more than an hour.
const BUSY: &str = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do, description: Do it}}]
    - tools: [{name: Task, input: {name: bob, description: Do it, prompt: Do task 1.}}]
    - wait_for: {contains: teammate_terminated, from: message}
    - text: I lost bob.
    - text: Nobody does it now.
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress}}]
    - tools: [{name: Bash, input: {command: sleep 4242}}]
"#;

#[test]
fn a_teammate_that_is_killed_is_noticed_and_nothing_of_it_is_left() {
    let Some(terminal) = Terminal::new() else { return };
    let run = terminal.start(BUSY, &["--permission-mode", "acceptEdits"]);
    let running = || commands_in(&terminal.room, "sleep 4242");
    terminal.until("bob works", || (!running().is_empty()).then_some(()));
    let bob = terminal.teammates();
    assert_eq!(bob.len(), 1);
    kill(bob[0], Signal::KILL);
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (8, "Nobody does it now."), "{ran:?}");
    assert!(terminal.was("bob", "failed"), "{:?}", terminal.journal());
    terminal.check_nobody_is_left();
    assert_eq!(running(), [], "what bob had started still runs");
    let task = terminal.room.json(&["task", "get", "1", "--team", "work"]);
    assert_eq!(
        (task["status"].as_str(), task["owner"].as_str()),
        (Some("pending"), None),
        "{task}"
    );
}

/// The script of a teammate whose only command waits for a file.
pub(crate) fn patient() -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Wait, prompt: Wait for the word.}}}}]
    - wait_for: {{contains: my part is done, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: All is done.
  bob:
    - tools: [{{name: Bash, input: {{command: "touch waiting; for i in $(seq 600); do test -e word && break; sleep 0.05; done"}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: done}}}}]{GOODBYE}
"#
    )
}

/// Starts a team with the script of `patient`, and kills the lead when the teammate bob waits.
/// Returns the test environment and the id of bob's process.
fn without_its_lead() -> Option<(Terminal, u32)> {
    without_its_lead_in("tmux")
}

fn without_its_lead_in(mode: &str) -> Option<(Terminal, u32)> {
    let terminal = Terminal::new()?;
    let mut run = terminal.start_in(mode, &patient(), &[]);
    terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
    let bob = terminal.teammates();
    assert_eq!(bob.len(), 1);
    run.kill().unwrap();
    run.wait().unwrap();
    Some((terminal, bob[0]))
}

/// Returns the ids of bob's processes that the journal records, in order.
fn lives_of_bob(terminal: &Terminal) -> Vec<u64> {
    let entries = terminal.journal();
    let started =
        entries.iter().filter(|entry| entry["event"] == "started" && entry["member"] == "bob");
    let mut pids: Vec<u64> = started.map(|entry| entry["pid"].as_u64().unwrap()).collect();
    pids.dedup();
    pids
}

fn check_goes_on(terminal: &Terminal) {
    let run = terminal.resume();
    let lead = u64::from(run.id());
    terminal.until("bob is the new lead's", || {
        (terminal.started()["bob"]["owner"]["pid"] == lead).then_some(())
    });
    fs::write(terminal.room.work().join("word"), "").unwrap();
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{ran:?}");
    terminal.check_nobody_is_left();
}

#[test]
fn a_teammate_outlives_its_lead_and_the_next_one_goes_on_with_it() {
    let Some((terminal, bob)) = without_its_lead() else { return };
    assert_eq!(terminal.panes().len(), 2, "bob's pane went with its lead");
    assert_eq!(terminal.teammates(), [bob]);
    check_goes_on(&terminal);
    assert_eq!(lives_of_bob(&terminal), [u64::from(bob)], "bob was started twice");
}

#[test]
fn a_teammate_that_died_with_its_lead_is_started_again_and_goes_on() {
    let Some((terminal, bob)) = without_its_lead() else { return };
    kill(bob, Signal::KILL);
    terminal.until("bob is gone", || terminal.teammates().is_empty().then_some(()));
    check_goes_on(&terminal);
    assert_eq!(lives_of_bob(&terminal).len(), 2, "bob was not started again");
    // The journal may report one delivery twice. Bob's first process can die after it writes the
    // journal line and before it marks the message as read. The transcript must contain the message
    // only once.
    let steps = journal_in(&terminal.team().join("pitcrew/transcripts/bob.ndjson"));
    let mut ids: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["ids"].as_array())
        .flatten()
        .map(|id| id.as_str().unwrap())
        .collect();
    let count = ids.len();
    assert_ne!(count, 0, "{steps:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "bob was told something twice");
}

#[test]
fn a_lead_that_died_right_after_a_goodbye_leaves_nothing_to_the_next() {
    for _ in 0..3 {
        let Some(terminal) = Terminal::new() else { return };
        fs::write(terminal.room.work().join("word"), "").unwrap();
        let mut run = terminal.start(&patient(), &[]);
        let is_goodbye = |entry: &Value| entry["frame"] == "shutdown_approved";
        terminal
            .until("bob says goodbye", || terminal.journal().iter().any(is_goodbye).then_some(()));
        run.kill().unwrap();
        run.wait().unwrap();
        let ran = ended(terminal.resume());
        assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{ran:?}");
        terminal.check_nobody_is_left();
    }
}

#[test]
fn teammates_in_panes_stay_in_the_team_when_their_run_is_stopped_and_go_on_in_the_next() {
    for signal in [Signal::INT, Signal::HUP] {
        let Some(terminal) = Terminal::new() else { return };
        let run = Running::of(&mut terminal.run_in("tmux", &patient(), &[]));
        terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
        run.signal(signal);
        let (_, log) = run.ended();
        assert!(!log.contains("did not shut down in time"), "{log}");
        assert_eq!(terminal.panes(), std::slice::from_ref(&terminal.theirs));
        assert_eq!(terminal.teammates(), Vec::<u32>::new());
        let members = terminal.config().unwrap()["members"].as_array().unwrap().len();
        assert_eq!(members, 2, "bob was taken out of the team: {log}");
        check_goes_on(&terminal);
    }
}

#[test]
fn a_pane_is_hidden_and_shown_again_and_the_user_can_stop_it_all() {
    let Some(terminal) = Terminal::new() else { return };
    let mut run = Running::of(&mut terminal.run_in("tmux", &patient(), &[]));
    terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
    assert_eq!(terminal.ran(&["member", "hide", "bob"]).code, 0);
    let pane = terminal.started()["bob"]["pane"]["id"].clone();
    assert_eq!(terminal.config().unwrap()["hiddenPaneIds"], serde_json::json!([pane]));
    assert_eq!(terminal.ran(&["member", "show", "bob"]).code, 0);
    assert_eq!(terminal.config().unwrap()["hiddenPaneIds"], Value::Null);
    assert_eq!(terminal.ran(&["member", "hide", "team-lead"]).code, 4);
    // The host does the same at the request of a display.
    assert_eq!(terminal.ask_host("hide_pane", "bob")["hidden"], true);
    assert_eq!(terminal.config().unwrap()["hiddenPaneIds"], serde_json::json!([pane]));
    let shown = terminal.ask_host("show_pane", "bob");
    assert!(shown["place"].as_str().unwrap().starts_with("the tmux session"), "{shown}");
    assert_eq!(terminal.config().unwrap()["hiddenPaneIds"], Value::Null);
    // The test sends two signals to the run while bob is busy. At the second signal, the run must
    // stop without waiting for bob.
    run.signal(Signal::INT);
    run.until("stopping; press Ctrl-C again");
    run.signal(Signal::TERM);
    let (code, log) = run.ended();
    assert_eq!(code, Some(130), "{log}");
    assert!(!log.contains("did not shut down in time"), "it waited for bob: {log}");
    assert_eq!(terminal.panes(), std::slice::from_ref(&terminal.theirs));
    assert_eq!(terminal.teammates(), Vec::<u32>::new());
}

#[test]
fn a_pane_that_its_lead_died_over_before_it_was_recorded_is_found_and_closed() {
    let Some((terminal, _bob)) = without_its_lead() else { return };
    fs::write(terminal.team().join("pitcrew/started.json"), "{}").unwrap();
    let told = terminal.ran(&["doctor"]);
    assert!(
        told.stdout.contains("orphaned pane in team work: pane tmux:%1 of bob is not recorded"),
        "{told:?}"
    );
    let deleted = terminal.ran(&["team", "delete", "work", "--force"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert_eq!(terminal.panes(), std::slice::from_ref(&terminal.theirs));
    terminal.until("bob is gone", || terminal.teammates().is_empty().then_some(()));
}

/// The value of `--teammate-mode` with which the run opens panes through the pane protocol.
fn by_program() -> String {
    format!("pane:{} pane serve tmux", env!("CARGO_BIN_EXE_pitcrew"))
}

#[test]
fn what_a_pane_program_shows_is_hidden_and_shown_by_name_and_a_resumed_run_goes_on_there() {
    let Some((terminal, bob)) = without_its_lead_in(&by_program()) else { return };
    for command in ["hide", "show"] {
        let ran = terminal.ran(&["member", command, "bob"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    check_goes_on(&terminal);
    assert_eq!(lives_of_bob(&terminal), [u64::from(bob)], "bob was started twice");
}

#[test]
fn what_a_pane_program_shows_goes_with_its_team() {
    let Some((terminal, _bob)) = without_its_lead_in(&by_program()) else { return };
    let deleted = terminal.ran(&["team", "delete", "work", "--force"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert_eq!(terminal.panes(), std::slice::from_ref(&terminal.theirs));
    terminal.until("bob is gone", || terminal.teammates().is_empty().then_some(()));
}

#[test]
fn a_users_own_slow_configuration_is_no_hindrance() {
    let rc = "run-shell 'sleep 1'\nset -g base-index 3\nset -g pane-base-index 2\nset -g prefix C-a\nset -g default-command 'exit 1'\n";
    let Some(terminal) = Terminal::with_rc(rc) else { return };
    let ran = ended(terminal.start(&crowd(2), &["--permission-mode", "acceptEdits"]));
    assert_eq!((ran.code, ran.stdout.trim()), (0, "All files are there."), "{ran:?}");
    terminal.check_nobody_is_left();
}

#[test]
fn the_demo_runs_in_panes_and_cleans_up() {
    let Some(terminal) = Terminal::new() else { return };
    let mut demo =
        terminal.command(&["--json", "demo", "--dir", "demo", "--teammate-mode", "tmux"]);
    let ran = Ran::of(demo.output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(shown["tests_after"], serde_json::json!({"passed": 8, "failed": 0}));
    assert_eq!(
        (shown["tasks_completed"].as_u64(), shown["plans"].as_u64()),
        (Some(4), Some(1)),
        "{shown:#}"
    );
    assert_eq!(
        (shown["permissions_asked"].as_u64(), shown["permissions_refused"].as_u64()),
        (Some(1), Some(0))
    );
    terminal.check_nobody_is_left();
    assert!(!terminal.room.work().join("demo/root/teams/demo").exists(), "the team is still there");
}

/// A pane program that passes requests to tmux and never reports a process, as a terminal that does
/// not know the processes in its panes.
const UNKNOWING: &str = r#"
'PITCREW' pane serve tmux | while IFS= read -r line; do
  printf '%s\n' "$line" | sed 's/"pid":[0-9][0-9]*/"pid":null/'
done
"#;

#[test]
fn a_teammate_whose_terminal_does_not_know_its_process_tells_it_by_its_connection() {
    let Some(terminal) = Terminal::new() else { return };
    let program = terminal.room.work().join("unknowing");
    fs::write(&program, UNKNOWING.replace("PITCREW", env!("CARGO_BIN_EXE_pitcrew"))).unwrap();
    let mode = format!("pane:sh {}", program.display());
    let run = terminal.start_in(&mode, &patient(), &[]);
    terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
    let recorded = terminal.started()["bob"]["process"]["pid"].as_u64();
    assert_eq!(recorded, terminal.teammates().first().map(|pid| u64::from(*pid)));
    fs::write(terminal.room.work().join("word"), "").unwrap();
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{ran:?}");
    terminal.check_nobody_is_left();
}

/// The script of a teammate that never ends its work.
const ENDLESS: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Look, prompt: Look again and again.}}]
    - wait_for: {contains: what never comes}
  bob:
    - repeat: {at_most: 1000, turns: [{tools: [{name: TaskList}]}]}
"#;

#[test]
fn a_run_ends_when_a_teammate_in_a_pane_has_used_its_turns_and_goes_on_with_more() {
    let Some(terminal) = Terminal::new() else { return };
    let check = |run: Child, told: &str| {
        let ran = ended(run);
        assert_eq!(ran.code, 7, "{ran:?}");
        assert!(ran.stderr.contains(told), "{ran:?}");
        assert_eq!(terminal.panes(), std::slice::from_ref(&terminal.theirs));
        assert_eq!((terminal.teammates(), terminal.started()), (Vec::new(), serde_json::json!({})));
        let config = terminal.config().unwrap();
        let names =
            config["members"].as_array().unwrap().iter().map(|member| member["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), ["team-lead", "bob"], "it can be resumed");
    };
    check(terminal.start(ENDLESS, &["--max-turns", "8"]), "bob has used all of its 8 turns");
    let args = ["run", "--resume", "work", "--yes", "--max-turns", "12", "--teammate-mode", "tmux"];
    let again =
        terminal.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check(again, "bob has used all of its 12 turns");
}

#[test]
fn it_is_told_who_runs_where() {
    let Some(terminal) = Terminal::new() else { return };
    let mut run = terminal.start(&patient(), &[]);
    terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
    let bob = terminal.teammates()[0];
    let shown = || terminal.room.json(&["team", "show", "work"])["runs"].clone();
    let shows = |name: &str, program: &str, pid: Option<u32>, state: &str| {
        let its = shown()
            .as_array()
            .unwrap()
            .iter()
            .find(|member| member["name"] == name)
            .unwrap()
            .clone();
        let expected = serde_json::json!({"program": program, "pid": pid, "state": state});
        let is_so = ["program", "pid", "state"].iter().all(|field| its[field] == expected[field]);
        is_so.then_some(its)
    };
    let its = terminal.until("bob is at work", || shows("bob", "pitcrew", Some(bob), "running"));
    let pane = terminal.started()["bob"]["pane"].clone();
    assert_eq!(its["pane"], pane);
    assert!(shows("team-lead", "pitcrew", Some(run.id()), "running").is_some(), "{:#}", shown());
    let text = terminal.room.ok(&["team", "show", "work"]).stdout;
    let line = text.lines().find(|line| line.starts_with("bob")).unwrap();
    assert!(
        line.contains(&format!("tmux {}  runs, pitcrew {bob}", pane["id"].as_str().unwrap())),
        "{text}"
    );
    assert_eq!(terminal.room.json(&["team", "list"])["teams"][0]["runs"], shown());
    assert!(terminal.room.ok(&["team", "list"]).stdout.contains("2 (2 running)"));
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(shows("team-lead", "pitcrew", None, "not_running").is_some(), "{:#}", shown());
    assert!(shows("bob", "pitcrew", Some(bob), "running").is_some(), "{:#}", shown());
    kill(bob, Signal::KILL);
    terminal.until("bob is gone", || shows("bob", "pitcrew", Some(bob), "gone"));
    assert!(terminal.room.ok(&["team", "list"]).stdout.contains("  2        "), "nobody runs");
}

#[test]
fn a_command_of_a_teammate_in_a_pane_is_turned_away_by_the_lead_whatever_it_sheds() {
    let Some(terminal) = Terminal::new() else { return };
    let (pitcrew, root) = (env!("CARGO_BIN_EXE_pitcrew"), terminal.room.root());
    // Bob's command runs in a tmux pane. The lead's process is therefore not among the ancestors of
    // the command.
    let asks = format!("{pitcrew} --root {} member mode bob acceptEdits", root.display());
    let script = format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Try, prompt: Try it.}}}}]
    - wait_for: {{contains: my part is done, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: All is done.
  bob:
    - tools: [{{name: Bash, input: {{command: "env -i {asks} > bare 2>&1; setsid -f env -i sh -c '{asks} > moved 2>&1; echo done >> moved'; for i in $(seq 600); do grep -q done moved && break; sleep 0.05; done"}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: my part is done, summary: done}}}}]{GOODBYE}
"#
    );
    let ran = ended(terminal.start_in("tmux", &script, &[]));
    assert_eq!(ran.code, 0, "{ran:?}");
    for file in ["bare", "moved"] {
        let said = fs::read_to_string(terminal.room.work().join(file)).unwrap();
        assert!(said.contains("was started by a tool of an agent"), "{file}: {said}");
    }
}

#[test]
fn who_shows_a_pane_from_another_terminal_learns_where_it_is() {
    let Some(terminal) = Terminal::new() else { return };
    let run = terminal.start(BUSY, &["--permission-mode", "acceptEdits"]);
    terminal.until("bob works", || {
        (!commands_in(&terminal.room, "sleep 4242").is_empty()).then_some(())
    });
    assert!(terminal.command(&["member", "hide", "bob"]).output().unwrap().status.success());
    let shown =
        ended(terminal.command(&["member", "show", "bob"]).stdout(Stdio::piped()).spawn().unwrap());
    let session = terminal.tmux(&["list-panes", "-a", "-F", "#{session_name} #{@pitcrew}"]);
    let session = session
        .lines()
        .find_map(|line| line.strip_suffix("/work/bob")?.split(' ').next())
        .unwrap()
        .to_owned();
    assert_ne!(session, "pitcrew-hidden");
    let said =
        format!("bob's pane is in the tmux session {session}, which no terminal shows now; `tmux");
    assert!(shown.stdout.contains(&said), "{shown:?}");
    assert!(shown.stdout.contains(&format!("attach -t {session}` goes there")), "{shown:?}");
    assert!(terminal.command(&["shutdown", "--force"]).output().unwrap().status.success());
    ended(run);
}

/// The script of a lead that works until a file exists and a message from the user has arrived, and
/// of a teammate that waits.
fn told_in_time() -> String {
    format!(
        "
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: bob, description: Wait, prompt: Wait.}}}}]
    - tools: [{{name: Bash, input: {{command: for i in $(seq 6000); do test -e word && break; sleep 0.05; done, timeout: 600000}}}}]
    - wait_for: {{contains: look at the wheel, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: teammate_terminated, from: message}}
    - text: The wheel turns.
  bob:
    - text: I wait.{GOODBYE}
"
    )
}

#[test]
fn a_line_typed_where_a_run_was_started_reaches_its_lead_and_the_view_survives_resizing() {
    let Some(terminal) = Terminal::new() else { return };
    let (room, model) = (&terminal.room, terminal.room.script(&told_in_time()));
    let line = format!(
        "cd {}; CLAUDE_CONFIG_DIR={} {} run go --team typed --model {model} --yes --teammate-mode in-process; sleep 1000",
        room.work().display(),
        room.root().display(),
        env!("CARGO_BIN_EXE_pitcrew"),
    );
    let pane = terminal.tmux(&["new-window", "-d", "-P", "-F", "#{pane_id}", &line]);
    let screen = || terminal.tmux(&["capture-pane", "-p", "-t", &pane]);
    // Checks that the footer of the screen has exactly one row for each agent. A footer row begins
    // with the agent's name, filled with spaces to twelve characters. Other lines on the screen do
    // not begin in this way.
    let is_whole = || {
        let screen = screen();
        let rows = |agent: &str| {
            screen.lines().filter(|row| row.starts_with(&format!("{agent:<12} "))).count()
        };
        (rows("bob") == 1 && rows("team-lead") == 1).then_some(())
    };
    terminal.until("bob is idle", || screen().contains("bob is idle").then_some(()));
    terminal.tmux(&["send-keys", "-t", &pane, "-l", "look at "]);
    terminal.until("it is typed below the foot", || screen().contains("> look at").then_some(()));
    for columns in ["60", "32", "100", "80"] {
        terminal.tmux(&["resize-window", "-t", &pane, "-x", columns, "-y", "20"]);
        terminal.until("the foot is whole", is_whole);
        terminal.until("what is typed stays", || screen().contains("> look at").then_some(()));
    }
    terminal.tmux(&["send-keys", "-t", &pane, "-l", "the wheel"]);
    terminal.tmux(&["send-keys", "-t", &pane, "Enter"]);
    terminal.until("it is sent", || {
        screen().contains("you to team-lead: look at the wheel").then_some(())
    });
    fs::write(room.work().join("word"), "").unwrap();
    terminal.until("the run is at its end", || screen().contains("The wheel turns.").then_some(()));
    let transcript =
        fs::read_to_string(room.find("teams/typed/pitcrew/transcripts/team-lead.ndjson")).unwrap();
    assert!(transcript.contains("look at the wheel"), "{transcript}");
    let shown =
        terminal.until("the table is there", || Some(screen()).filter(|it| it.contains("TOKENS")));
    assert!(shown.lines().all(|row| row.chars().count() <= 80), "{shown}");
}

#[test]
fn a_client_of_a_version_that_was_not_tested_is_told_of_once_when_it_starts() {
    let spawn = |name: &str| {
        format!(
            "{{name: Task, input: {{name: {name}, subagent_type: general-purpose, description: w, prompt: Wait.}}}}"
        )
    };
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{}, {}]\n    - tools: [{{name: Bash, input: {{command: 'until [ -e over ]; do sleep 0.1; done'}}}}]\n    - text: It is done.\n",
        spawn("bob"),
        spawn("ann")
    );
    for (says, expected) in [
        ("echo '9.9.9 (Claude Code)'", vec!["has version 9.9.9; tested are 2.1.39, "]),
        ("exit 1", vec!["does not tell its version; tested are 2.1.39, "]),
        ("echo '2.1.330 (Claude Code)'", vec![]),
    ] {
        let Some(terminal) = Terminal::new() else { return };
        let client = terminal.room.work().join("client");
        let stand_in = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo asked >> asked; {says}; exit; fi\nsleep 1000\n"
        );
        fs::write(&client, stand_in).unwrap();
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
        let settings = serde_json::json!({"pitcrew": {"claude": client}});
        fs::write(terminal.room.root().join("settings.json"), settings.to_string()).unwrap();
        let mut run =
            Running::of(&mut terminal.run_in("tmux", &script, &["--teammate-program", "claude"]));
        for expected in &expected {
            run.until(expected);
        }
        terminal.until("both have panes", || (terminal.panes().len() == 3).then_some(()));
        let asked = || fs::read_to_string(terminal.room.work().join("asked")).ok();
        terminal.until("the version is asked for", asked);
        fs::write(terminal.room.work().join("over"), "").unwrap();
        assert!(terminal.command(&["shutdown", "work", "--force"]).status().unwrap().success());
        let (_, log) = run.ended();
        assert!(!log.contains("tested are"), "{says}: {log}");
        assert_eq!(asked().unwrap(), "asked\n");
    }
}

#[test]
fn a_teammate_that_the_user_spawns_gets_a_pane_like_one_that_the_lead_spawns() {
    let Some(terminal) = Terminal::new() else { return };
    let turns = "[{delay_ms: 100, tools: [{name: TaskList}]}]";
    let script = format!(
        "agents:\n  team-lead:\n    - repeat: {{at_most: 100000, until: {{contains: 'The user has added the teammate carl'}}, turns: {turns}}}\n    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: carl}}}}]\n    - wait_for: {{contains: teammate_terminated, from: message}}\n    - text: Carl was here.\n  carl:{GOODBYE}"
    );
    let mut run = terminal.run_in("tmux", &script, &["--permission-mode", "acceptEdits"]);
    let run =
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    terminal.until("the lead works", || terminal.was("team-lead", "running").then_some(()));
    let spawned = terminal.ran(&["member", "spawn", "carl", "Wait.", "--json"]);
    let answer: Value = serde_json::from_str(&spawned.stdout).unwrap();
    assert_eq!(
        (&answer["agent_id"], &answer["status"]),
        (&"carl@work".into(), &"spawned".into()),
        "{spawned:?}"
    );
    let is_carls = |entry: &Value| entry["event"] == "started" && entry["pane"].is_string();
    assert!(terminal.journal().iter().any(is_carls), "{:?}", terminal.journal());
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Carl was here."), "{ran:?}");
    terminal.check_nobody_is_left();
}
