//! `pitcrew run` and `pitcrew shutdown`, with scripted models.

use rustix::process::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::test_env::{Ran, TestEnv};

/// The script of a lead that creates a task, completes the task, and says its last text.
const SHORT: &str = "
agents:
  team-lead:
    - text: One task is enough.
      tools:
        - name: TaskCreate
          input: {subject: Do it, description: All of it}
        - name: TaskUpdate
          input: {taskId: '1', status: completed}
    - text: It is done.
";

/// The script of a lead that never ends its work.
const ENDLESS: &str = "
agents:
  team-lead:
    - repeat:
        at_most: 100000
        turns:
          - delay_ms: 20
            tools: [{name: TaskList}]
";

/// The script of a lead that never ends its work, and of a teammate that waits. The teammate agrees
/// to a shutdown request.
pub(crate) const WAITING: &str = "
agents:
  team-lead:
    - tools:
        - name: Task
          input: {name: bob, subagent_type: general-purpose, description: wait, prompt: Wait.}
    - repeat:
        at_most: 100000
        turns:
          - delay_ms: 200
            tools: [{name: TaskList}]
  bob:
    - {wait_for: {contains: shutdown_request}, text: I wait.}
    - capture:
        request: {from: message, regex: '\"requestId\":\"(shutdown-[^\"]+)\"'}
      tools:
        - name: SendMessage
          input: {type: shutdown_response, request_id: '${request}', approve: true}
";

fn run(room: &TestEnv, script: &str, more: &[&str]) -> Ran {
    let model = room.script(script);
    let mut args = vec!["run", "do it", "--model", &model];
    args.extend(more);
    room.run(&args)
}

#[test]
fn the_leads_last_words_are_the_answer() {
    let room = TestEnv::new();
    let ran = run(&room, SHORT, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is done.\n"), "{ran:?}");
    assert!(ran.stderr.contains("team-lead TaskCreate(Do it)"), "{ran:?}");
}

#[test]
fn a_goal_is_read_from_stdin_and_an_empty_one_is_refused() {
    let room = TestEnv::new();
    let model = room.script(SHORT);
    let goal = room.work().join("goal.md");
    std::fs::write(&goal, "mend the wheel\n").unwrap();
    let mut command = room.command(&["run", "-", "--team", "typed", "--model", &model]);
    let ran = Ran::of(command.stdin(std::fs::File::open(&goal).unwrap()).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(room.json_file("teams/typed/config.json")["description"], "mend the wheel");
    for empty in ["", "  ", "-"] {
        let ran = room.run(&["run", empty, "--model", &model]);
        assert_eq!(ran.code, 2, "{empty:?}: {ran:?}");
        assert!(ran.stderr.contains("the goal is empty"), "{ran:?}");
        assert_eq!(room.run(&["run", "--resume", "typed", empty]).code, 2, "{empty:?}");
    }
}

#[test]
fn commands_that_are_shown_are_quoted_for_the_shell() {
    let room = TestEnv::new();
    let limited = run(&room, SHORT, &["--team", "my team's", "--max-turns", "1"]);
    assert!(limited.stderr.contains(r"pitcrew run --resume 'my team'\''s'"), "{limited:?}");
}

/// The script for a run in which no inbox may contain an unread message. The lead gives bob a task,
/// sends bob a message, and asks bob to shut down. Bob sends a message to the lead.
const WITHOUT_ROOM: &str = "
agents:
  team-lead:
    - tools:
        - name: Task
          input: {name: bob, subagent_type: general-purpose, description: wait, prompt: Wait.}
        - {name: TaskCreate, input: {subject: Do it, description: All of it}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', owner: bob}}
        - {name: SendMessage, input: {type: message, recipient: bob, content: from the lead, summary: hello}}
    - wait_for: {contains: idle_notification}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: has shut down}
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - text: That is all.
  bob:
    - wait_for: {contains: task_assignment}
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: from bob, summary: hello}}]
    - {wait_for: {contains: shutdown_request}, text: I wait.}
    - capture:
        request: {from: message, regex: '\"requestId\":\"(shutdown-[^\"]+)\"'}
      tools:
        - name: SendMessage
          input: {type: shutdown_response, request_id: '${request}', approve: true}
";

#[test]
fn agents_learn_that_an_inbox_is_full_and_their_team_still_works_and_ends() {
    let room = TestEnv::new();
    let settings = r#"{"pitcrew": {"limits": {"unreadMessages": 0}}}"#;
    std::fs::write(room.root().join("settings.json"), settings).unwrap();
    let ran = run(&room, WITHOUT_ROOM, &["--team", "tight"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "That is all.\n"), "{ran:?}");
    let folder = room.find("teams/tight/pitcrew/transcripts");
    for (agent, to) in [("team-lead", "bob"), ("bob", "team-lead")] {
        let transcript = std::fs::read_to_string(folder.join(format!("{agent}.ndjson"))).unwrap();
        // Find the line that tells the agent that an inbox is full. The test does not check the
        // number of unread messages in this line, because unread frames count too. A frame is a
        // message from one program to another, such as a shutdown request.
        let told = transcript.lines().find(|line| line.contains("at most 0 are allowed"));
        assert!(
            told.is_some_and(|line| line.contains(&format!("Agent '{to}' has "))),
            "{agent}: {transcript}"
        );
    }
}

#[test]
fn the_team_is_named_after_the_folder_and_a_taken_name_gets_a_number() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "work"]);
    assert!(run(&room, SHORT, &[]).stderr.contains("team work-2 starts"));
    assert!(run(&room, SHORT, &["--team", "mine"]).stderr.contains("team mine starts"));
}

#[test]
fn json_is_one_result_event() {
    let room = TestEnv::new();
    for ran in [run(&room, SHORT, &["--output-format", "json"]), run(&room, SHORT, &["--json"])] {
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["type"], "result");
        assert_eq!(result["subtype"], "success");
        assert_eq!(result["is_error"], false);
        assert_eq!(result["num_turns"], 2);
        assert_eq!(result["result"], "It is done.");
    }
}

#[test]
fn stream_json_is_as_recorded_and_has_team_events_only_when_asked_for() {
    let room = TestEnv::new();
    let kinds = |ran: &Ran| -> Vec<String> {
        let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kind = |line: Value| match line["subtype"].as_str() {
            Some(subtype) => format!("{} {subtype}", line["type"].as_str().unwrap()),
            None => line["type"].as_str().unwrap().to_owned(),
        };
        lines.map(kind).collect()
    };
    let plain = run(&room, SHORT, &["--output-format", "stream-json"]);
    assert_eq!(
        kinds(&plain),
        [
            "system init",
            "assistant",
            "assistant",
            "assistant",
            "user",
            "user",
            "assistant",
            "result success"
        ],
        "{}",
        plain.stdout
    );
    let more = run(&room, SHORT, &["--output-format", "stream-json", "--include-team-events"]);
    assert!(kinds(&more).iter().any(|kind| kind == "system pitcrew_team_event"), "{}", more.stdout);
}

#[test]
fn a_limit_ends_the_run_in_order_and_says_so() {
    let room = TestEnv::new();
    let ran = run(&room, ENDLESS, &["--max-turns", "3"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.stderr.contains("error: "), "{ran:?}");
}

#[test]
fn a_model_that_cannot_be_used_is_a_malformed_request() {
    let room = TestEnv::new();
    for model in ["nonsense", "script:/nowhere.yaml", "anthropic/claude-x"] {
        let ran = room.run(&["run", "do it", "--model", model]);
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    let none = room.run(&["run", "do it"]);
    assert_eq!(none.code, 2, "{none:?}");
    for way in ["--model", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama"] {
        assert!(none.stderr.contains(way), "{none:?}");
    }
}

#[test]
fn only_what_exists_and_is_not_running_can_be_resumed() {
    let room = TestEnv::new();
    assert_eq!(room.run(&["run", "--resume", "nobody"]).code, 3);
    let running = room.start_waiting();
    let model = room.script(WAITING);
    let second = room.run(&["run", "--resume", "work", "--model", &model]);
    assert_eq!(second.code, 4, "{second:?}");
    running.kill();
}

#[test]
fn a_signal_stops_a_run_and_everyone_stays_in_the_team_for_the_next() {
    let room = TestEnv::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        let running = room.start_waiting();
        running.signal(signal);
        let (ended, log) = running.ended();
        assert_eq!(ended, Some(code), "{log}");
        assert!(log.contains("pitcrew run --resume work"), "{log}");
        let members = || room.json(&["member", "list", "--team", "work"])["total"].clone();
        assert_eq!(members(), 2, "bob was taken out of the team");
        let inbox = room.root().join("teams/work/inboxes/bob.json");
        let asked = std::fs::read_to_string(inbox).unwrap_or_default();
        assert!(!asked.contains("shutdown_request"), "{asked}");
        let resumed = room.resume_and_stop("work");
        assert_eq!(resumed.0, Some(130), "{resumed:?}");
        assert_eq!(members(), 2);
        room.ok(&["doctor", "--repair"]);
        room.ok(&["team", "delete", "work", "--force"]);
    }
}

/// The script of a lead, and of a teammate that never answers a shutdown request.
const DEAF: &str = "
agents:
  team-lead:
    - tools:
        - name: Task
          input: {name: bob, subagent_type: general-purpose, description: wait, prompt: Wait.}
    - wait_for: {contains: what never comes}
  bob:
    - text: I wait.
    - wait_for: {contains: what never comes}
";

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let room = TestEnv::new();
    for second in [Signal::INT, Signal::TERM] {
        let mut running = room.start(DEAF);
        running.signal(Signal::INT);
        // The kernel may reorder two pending signals, and merges two pending signals of the same
        // kind. The test therefore waits until the first signal has taken effect, and then sends
        // the second signal.
        running.until("stopping; press Ctrl-C again");
        running.signal(second);
        let (ended, log) = running.ended();
        assert_eq!(ended, Some(130), "{log}");
        assert!(log.contains("it was stopped, and can be resumed"), "{log}");
        assert!(!log.contains("did not shut down in time"), "it waited for bob: {log}");
        room.ok(&["team", "delete", "work", "--force"]);
    }
}

#[test]
fn shutdown_ends_the_team_of_another_process_and_waits_for_it() {
    let room = TestEnv::new();
    assert_eq!(room.run(&["shutdown"]).code, 3);
    let running = room.start_waiting();
    assert!(
        room.ok(&["team", "show"]).stdout.contains(&format!("run by process {}", running.id()))
    );
    assert_eq!(room.ok(&["shutdown"]).stdout, "team work is shut down\n");
    assert_eq!(running.ended().0, Some(130));
    assert_eq!(
        room.json(&["member", "list", "--team", "work"])["total"],
        1,
        "bob was asked to leave"
    );
    let again = room.run(&["shutdown", "work"]);
    assert_eq!(again.code, 4, "{again:?}");
}

#[test]
fn a_message_reaches_a_running_team() {
    let room = TestEnv::new();
    let mut running = room.start_waiting();
    let sent = room.json(&["send", "bob", "hello from outside"]);
    let id = sent["receipts"][0]["id"].as_str().unwrap().to_owned();
    running.until("bob reads mail from operator");
    assert_ne!(room.json(&["message", &id])["state"], "persisted");
    running.kill();
}

#[test]
fn nobody_at_the_terminal_means_no() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch made.txt}}]
    - text: I tried.
";
    let room = TestEnv::new();
    let refused = run(&room, script, &[]);
    assert_eq!(refused.code, 0, "{refused:?}");
    assert!(!room.work().join("made.txt").exists());
    run(&room, script, &["--deny", "Bash(touch:*)", "--yes"]);
    assert!(!room.work().join("made.txt").exists(), "a rule that denies wins over --yes");
    run(&room, script, &["--yes"]);
    assert!(room.work().join("made.txt").exists());
    run(&room, &script.replace("made", "ruled"), &["--allow", "Bash(touch:*)"]);
    assert!(room.work().join("ruled.txt").exists());
}

/// Returns the tools that a run offers to its lead. The first event of the run lists them.
fn tools(room: &TestEnv, more: &[&str], switch: &str) -> Vec<String> {
    let model = room.script(SHORT);
    let mut run =
        room.command(&["run", "do it", "--model", &model, "--output-format", "stream-json"]);
    let ran = Ran::of(
        run.args(more).env("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", switch).output().unwrap(),
    );
    let init: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    init["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn team_tools_are_switched_off_by_the_environment_or_a_settings_file() {
    let room = TestEnv::new();
    let off = room.work().join("off.json");
    std::fs::write(&off, r#"{"pitcrew": {"teams": false}}"#).unwrap();
    let has_team_tools = |tools: Vec<String>| tools.iter().any(|tool| tool == "SendMessage");
    assert!(has_team_tools(tools(&room, &[], "1")));
    assert!(!has_team_tools(tools(&room, &[], "0")));
    assert!(!has_team_tools(tools(&room, &["--settings", off.to_str().unwrap()], "1")));
}

#[test]
fn where_teams_are_switched_off_a_run_is_one_agent_that_leaves_no_team_and_no_command_makes_one() {
    let room = TestEnv::new();
    let model = room.script(
        "agents:\n  team-lead:\n    - tools: [{name: Bash, input: {command: touch made}}]\n    - text: It is made.\n",
    );
    let off = |args: &[&str]| {
        let mut command = room.command(args);
        Ran::of(command.env("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "0").output().unwrap())
    };
    let ran = off(&["run", "make it", "--team", "crew", "--model", &model, "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is made.\n"), "{ran:?}");
    assert!(room.work().join("made").exists());
    assert!(!ran.stderr.contains("--resume") && !ran.stderr.contains("warning"), "{ran:?}");
    let cut = off(&["run", "make it", "--model", &model, "--yes", "--max-turns", "1"]);
    assert!(cut.code == 7 && !cut.stderr.contains("--resume"), "{cut:?}");
    let refused = off(&["team", "create", "crew"]);
    assert!(
        refused.code == 5 && refused.stderr.contains("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"),
        "{refused:?}"
    );
    assert_eq!(off(&["demo"]).code, 5);
    for place in ["teams", "tasks", "pitcrew/archive"] {
        let left: Vec<_> =
            std::fs::read_dir(room.root().join(place)).into_iter().flatten().collect();
        assert!(left.is_empty(), "{place}: {left:?}");
    }
    room.ok(&["team", "create", "crew"]);
}

#[test]
fn what_the_user_adds_for_the_lead_and_a_model_for_teammates_are_taken() {
    let room = TestEnv::new();
    let mate = room.work().join("mate.yaml");
    std::fs::write(&mate, "agents: {bob: [{text: I run on another model.}]}").unwrap();
    let mate = format!("script:{}", mate.display());
    let script = WAITING.replace("at_most: 100000", "at_most: 3");
    let ran =
        run(&room, &script, &["--teammate-model", &mate, "--append-system-prompt", "Be brief."]);
    assert!(ran.stderr.contains("bob says: I run on another model."), "{ran:?}");
}

impl TestEnv {
    /// Writes a script file, and returns the name of the model that plays this script.
    pub(crate) fn script(&self, text: &str) -> String {
        let file = self.work().join("script.yaml");
        std::fs::write(&file, text).unwrap();
        format!("script:{}", file.display())
    }

    /// Starts the team `work`, and returns when its teammate is waiting.
    pub(crate) fn start_waiting(&self) -> Running {
        self.start(WAITING)
    }

    /// Starts the team `work` with a script, and returns when its teammate is idle.
    fn start(&self, script: &str) -> Running {
        let model = self.script(script);
        let mut running =
            Running::start(self, &["run", "wait", "--team", "work", "--model", &model]);
        running.until("bob is idle");
        running
    }

    /// Resumes a team, and stops the run when the lead works. Returns the exit code and the log of
    /// the run.
    fn resume_and_stop(&self, team: &str) -> (Option<i32>, String) {
        let mut running = Running::start(self, &["run", "--resume", team]);
        running.until("team-lead TaskList");
        running.signal(Signal::INT);
        running.ended()
    }

    /// Starts the team `work`, and kills the process of the run.
    pub(crate) fn killed_run(&self) {
        self.start_waiting().kill();
    }
}

#[test]
fn a_refusal_without_a_terminal_names_the_flag_that_allows_the_call() {
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: "touch 'it is' made"}}]
    - text: I have tried.
"#;
    let room = TestEnv::new();
    let ran = run(&room, script, &[]);
    let flag = r"--allow 'Bash(touch '\''it is'\'' made)'";
    let said =
        format!("the run asked nobody; these rules would have allowed the refused calls: {flag}");
    assert!(ran.stderr.contains(&said), "{ran:?}");
    let json = run(&room, script, &["--json"]);
    let result: Value = serde_json::from_str(&json.stdout).unwrap();
    let denied = &result["permission_denials"][0];
    assert_eq!(denied["allow_rule"], "Bash(touch 'it is' made)");
    assert!(
        denied["reason"].as_str().unwrap().ends_with(&format!("; {flag} would have allowed it")),
        "{denied}"
    );
    assert!(!room.work().join("made").exists());
    run(&room, script, &["--allow", denied["allow_rule"].as_str().unwrap()]);
    assert!(room.work().join("made").exists());
}
