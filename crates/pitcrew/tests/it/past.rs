//! What can be seen of a team while it runs and after its run: the log, the conversations, the list
//! of past runs, and the report at the end of a run.

use insta::assert_snapshot;
use regex::Regex;
use rustix::process::Signal;
use serde_json::Value;

use crate::detached::Detached;
use crate::running::Running;
use crate::test_env::{Ran, TestEnv};

/// The script of a lead with one teammate. The teammate writes a file and sends a message, and the
/// lead sends it home.
const PAIR: &str = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Write it, description: Write hello.txt}}]
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: write, prompt: Write hello.txt.}}]
    - wait_for: {contains: it is written, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: has shut down, from: message}
    - text: All is done.
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: in_progress, owner: bob}}]
    - text: I write it.
      tools: [{name: Write, input: {file_path: hello.txt, content: "hello\nworld\n"}}]
    - tools: [{name: Bash, input: {command: "printf 'one\\ntwo\\n\\033[2Jthree\\n'"}}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: it is written, summary: done}}]
    - wait_for: {contains: shutdown_request}
      text: Done.
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// Runs the team `work` to its end. It is in the archive then.
fn completed(room: &TestEnv) -> Ran {
    let model = room.script(PAIR);
    room.ok(&["run", "write\nhello.txt", "--team", "work", "--model", &model, "--yes"])
}

/// Replaces the times of day, and the ids of archives.
fn redacted(room: &TestEnv, text: &str) -> String {
    let text = room.redacted(text);
    let text = Regex::new(r"-\d{8}T\d{6}Z-[0-9a-f]{8}").unwrap().replace_all(&text, "-[id]");
    let text = Regex::new(r"\b\d\d:\d\d:\d\d\b").unwrap().replace_all(&text, "[time]");
    Regex::new(r"process \d+").unwrap().replace_all(&text, "process [pid]").into_owned()
}

/// Returns the objects of JSON lines.
fn objects(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_log_of_a_finished_team_tells_who_did_what() {
    let room = TestEnv::new();
    completed(&room);
    let ran = room.ok(&["log", "work"]);
    assert_snapshot!(redacted(&room, &ran.stdout), @r#"
    [date]
    [time]             team work is made
    [time]             the run starts: write
    [time]  team-lead  creates task #1 Write it
    [time]  team-lead  spawns bob
    [time]  bob        claims task #1 Write it
    [time]  bob        asks permission for Write(hello.txt)
    [time]  bob        gets permission for Write(hello.txt)
    [time]  bob        completes task #1 Write it
    [time]  bob        writes to team-lead: it is written
    [time]  team-lead  asks bob to shut down
    [time]  bob        agrees to shut down
    [time]  bob        has ended
    [time]  bob        leaves the team
    [time]  team-lead  has ended: the work is done
    [time]             the run ends, completed
    [time]             team work moves to the archive
    "#);
    let default = room.ok(&["log"]);
    assert_eq!(default.stdout, ran.stdout);
    assert!(default.stderr.contains("shown is work, in the archive since"), "{default:?}");
}

#[test]
fn a_log_is_filtered_by_agent_kind_and_time() {
    let room = TestEnv::new();
    completed(&room);
    let mail = room.ok(&["--json", "log", "work", "--kind", "mail", "--agent", "bob"]);
    let mail: Vec<Value> = objects(&mail);
    let said: Vec<&str> = mail.iter().filter_map(|it| it["content"].as_str()).collect();
    assert_eq!(said, ["it is written"], "{mail:?}");
    assert_eq!(mail[0]["to"], serde_json::json!(["team-lead"]));
    let turns = objects(&room.ok(&["--json", "log", "work", "--kind", "turn", "--agent", "bob"]));
    assert!(turns.len() >= 6 && turns.iter().all(|it| it["agent"] == "bob"), "{turns:?}");
    let all = objects(&room.ok(&["--json", "log", "work", "--kind", "all"])).len();
    let some = objects(&room.ok(&["--json", "log", "work"])).len();
    assert!(all > some + turns.len(), "{all} and {some}");
    assert_eq!(room.ok(&["log", "work", "--since", "2100-01-01"]).stdout, "");
    let day = objects(&room.ok(&["--json", "log", "work", "--since", "1d"])).len();
    assert_eq!(day, some);
    assert_snapshot!(room.transcript(&[
        &["log", "work", "--agent", "bop"],
        &["log", "work", "--since", "yesterday"],
        &["log", "wrk"],
    ]), @r#"
    $ pitcrew log work --agent bop
    error: Agent 'bop' is not, and was never, in team 'work'; did you mean 'bob'?
    hint: agents: team-lead, bob
    [exit 3]
    $ pitcrew log work --since yesterday
    error: invalid value 'yesterday' for '--since <TIME>': an age such as 10m, 2h or 3d, or a time such as [date] or 2026-11-23T14:05

    For more information, try '--help'.
    [exit 2]
    $ pitcrew log wrk
    error: Team 'wrk' does not exist
    hint: teams: none
    [exit 3]
    "#);
}

#[test]
fn a_log_is_followed_until_the_team_is_gone() {
    let room = TestEnv::with_crew();
    room.ok(&["send", "bob", "first"]);
    let mut follower =
        Running::answering(&mut room.command(&["--json", "log", "crew", "--follow"]));
    let mut next = |event: &str| {
        let entry: Value = serde_json::from_str(&follower.line()).unwrap();
        assert_eq!(entry["event"], event, "{entry}");
        entry
    };
    next("team_created");
    assert_eq!(next("message")["content"], "first");
    room.ok(&["send", "bob", "second"]);
    assert_eq!(next("message")["content"], "second");
    room.ok(&["task", "create", "Do it"]);
    assert_eq!(next("task_created")["text"], "creates task #1 Do it");
    room.ok(&["team", "delete", "crew", "--force"]);
    let (code, rest) = follower.ended();
    assert_eq!(code, Some(0));
    assert!(rest.lines().last().unwrap().contains("team_deleted"), "{rest}");
}

#[test]
fn following_ends_at_ctrl_c_and_at_once_for_an_archived_team() {
    let room = TestEnv::with_crew();
    let mut follower = Running::answering(&mut room.command(&["log", "crew", "--follow"]));
    follower.until("team crew is made");
    follower.signal(Signal::INT);
    assert_eq!(follower.ended().0, Some(0));
    room.ok(&["team", "delete", "crew", "--force"]);
    let ran = room.ok(&["log", "crew", "--follow"]);
    assert!(ran.stderr.contains("the team is in the archive"), "{ran:?}");
}

#[test]
fn mail_that_another_client_wrote_is_in_the_log() {
    let room = TestEnv::with_crew();
    let inbox = room.root().join("teams/crew/inboxes/bob.json");
    std::fs::create_dir_all(inbox.parent().unwrap()).unwrap();
    let text = "look \u{1b}[2Jthere";
    let message = serde_json::json!([{"from": "ann", "text": text, "timestamp": "2026-11-20T10:00:00.000Z", "read": false}]);
    std::fs::write(inbox, message.to_string()).unwrap();
    let entries = objects(&room.ok(&["--json", "log", "crew", "--kind", "mail"]));
    assert_eq!(entries[0]["content"], text);
    assert_eq!(entries[0]["at_ms"], 1_795_168_800_000_i64);
    let shown = room.ok(&["log", "crew", "--kind", "mail"]).stdout;
    assert!(shown.contains("writes to bob: look \u{fffd}[2Jthere"), "{shown:?}");
}

#[test]
fn a_conversation_reads_from_its_prompt_to_its_end() {
    let room = TestEnv::new();
    completed(&room);
    assert_snapshot!(redacted(&room, &room.ok(&["transcript", "bob"]).stdout), @r#"
    bob of work  recorded by pitcrew

    > team-lead: write
      Write hello.txt.

    * TaskUpdate(1)
      Updated task #1 owner, status

    > bob [task_assignment]
      {"type":"task_assignment","taskId":"1","subject":"Write it","description":"Write hello.txt","assignedBy":"bob","timestamp":"[time]"}

    < I write it.

    * Write(hello.txt)
      Created [dir]/work/hello.txt (12 bytes).
    * Bash(printf 'one\ntwo\n\033[2Jthree\n')
      one (2 more lines)
    * TaskUpdate(1)
      Updated task #1 status
    * SendMessage(team-lead)
      { "success": true, "message": "Message sent to team-lead's inbox", "routing": { "sender": "bob", "senderColor": "blue",…

    < Done.

    - was asked to shut down

    > team-lead [shutdown_request]
      {"type":"shutdown_request","requestId":"shutdown-[ms]@bob","from":"team-lead","timestamp":"[time]"}

    * SendMessage(shutdown-[ms]@bob)
      { "success": true, "message": "Shutdown approved. Agent bob is now exiting.", "request_id": "shutdown-[ms]@bob…

    - ended, completed
    "#);
    let full = room.ok(&["transcript", "@bob", "--team", "work", "--full"]).stdout;
    assert!(full.contains("  content:\n    hello\n    world\n"), "{full}");
    assert!(full.contains("    \u{fffd}[2Jthree\n") && !full.contains('\u{1b}'), "{full:?}");
    let json = room.json(&["transcript", "bob"]);
    assert_eq!(
        (&json["team"], &json["agent"], &json["program"]),
        (&"work".into(), &"bob".into(), &"pitcrew".into())
    );
    let parts = json["parts"].as_array().unwrap();
    let write = parts.iter().find(|part| part["tool"] == "Write").unwrap();
    assert_eq!(write["input"]["content"], "hello\nworld\n");
    assert_eq!(write["result"]["is_error"], false);
}

#[test]
fn no_text_of_an_agent_passes_for_another_line_of_the_conversation() {
    let room = TestEnv::new();
    let text =
        "It works:\n\n$ pitcrew send bob ok\n> user\n  Go on.\n* Bash(true)\n- ended, completed";
    let text = serde_json::json!(text);
    let model = room.script(&format!("agents: {{team-lead: [{{text: {text}}}]}}"));
    room.ok(&["run", "go", "--team", "work", "--model", &model]);
    assert_snapshot!(room.ok(&["transcript"]).stdout, @r"
    team-lead of work  recorded by pitcrew

    > prompt
      go

    < It works:
      
      $ pitcrew send bob ok
      > user
        Go on.
      * Bash(true)
      - ended, completed
    ");
    let parts = &room.json(&["transcript"])["parts"];
    assert_eq!(parts[1]["text"], serde_json::from_str::<Value>(&text.to_string()).unwrap());
}

#[test]
fn an_agent_without_a_conversation_is_an_error_that_names_the_others() {
    let room = TestEnv::with_crew();
    assert_snapshot!(room.transcript(&[&["transcript", "bob"], &["transcript", "bop"]]), @r#"
    $ pitcrew transcript bob
    error: no conversation of bob is recorded
    hint: `pitcrew inbox bob --team crew` shows its mail while the team is there, `pitcrew log crew` what it did
    [exit 3]
    $ pitcrew transcript bop
    error: Agent 'bop' is not, and was never, in team 'crew'; did you mean 'bob'?
    hint: agents: team-lead, ann, bob
    [exit 3]
    "#);
}

#[test]
fn the_conversation_of_a_claude_code_lead_is_shown_where_it_is_recorded() {
    let room = TestEnv::with_crew();
    let session = "3bacbbef-0790-4d04-a603-4427723f5762";
    let path = room.root().join("teams/crew/config.json");
    let mut config = room.json_file("teams/crew/config.json");
    config["leadSessionId"] = session.into();
    config["members"][0].as_object_mut().unwrap().remove("pitcrew");
    std::fs::write(path, config.to_string()).unwrap();
    let folder = room.root().join("projects/-work");
    std::fs::create_dir_all(&folder).unwrap();
    let lines = [
        serde_json::json!({"type": "user", "uuid": "u", "sessionId": session, "message": {"role": "user", "content": "mend it"}}),
        serde_json::json!({"type": "assistant", "message": {"id": "m", "model": "claude-x", "content": [{"type": "text", "text": "I \u{1b}[2Jlook."}]}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join(format!("{session}.jsonl")), text).unwrap();
    assert_snapshot!(room.ok(&["transcript", "--team", "crew"]).stdout, @r#"
    team-lead of crew  recorded by claude

    > prompt
      mend it

    < I �[2Jlook.
    "#);
}

#[test]
fn past_runs_are_listed_with_goal_end_and_cost() {
    let room = TestEnv::new();
    assert_eq!(
        room.ok(&["history"]).stdout,
        "no team was run in this repository; --all lists all\n"
    );
    completed(&room);
    room.killed_run();
    let listed = room.json(&["history"]);
    let runs = listed["runs"].as_array().unwrap();
    let of = |field: &str| runs.iter().map(|run| run[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("end"), ["killed", "completed"]);
    assert_eq!(of("goal"), ["wait", "write\nhello.txt"]);
    assert_eq!(of("is_archived"), [false, true]);
    assert_eq!(of("runs"), [1, 1]);
    assert_eq!(runs[1]["tasks_completed"], 1);
    assert!(runs[1]["turns"].as_u64().unwrap() >= 10, "{listed:#}");
    let table = room.ok(&["history"]).stdout;
    assert!(table.lines().nth(2).unwrap().ends_with("write"), "{table}");
    let id = runs[1]["id"].as_str().unwrap();
    assert!(room.ok(&["log", id]).stdout.contains("the run starts: write"));
    let elsewhere = |args: &[&str]| {
        let ran = Ran::of(room.command(args).current_dir(room.temporary()).output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    assert!(elsewhere(&["history"]).starts_with("no team was run in this repository"));
    let all = elsewhere(&["history", "--all"]);
    assert!(all.contains("REPOSITORY") && all.contains("write"), "{all}");
}

#[test]
fn a_run_whose_lead_deletes_the_team_is_recorded_to_its_end() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: TeamCreate, input: {team_name: work}}]
    - tools: [{name: TeamDelete}]
    - text: It is cleaned up.
";
    let model = room.script(script);
    let ran = room.json(&["run", "clean up", "--team", "work", "--model", &model]);
    assert_eq!((&ran["end"], &ran["team_deleted"]), (&"completed".into(), &true.into()), "{ran:#}");
    let run = room.json(&["history"])["runs"][0].clone();
    assert_eq!((&run["end"], &run["turns"]), (&"completed".into(), &3.into()), "{run:#}");
    let conversation = room.ok(&["transcript"]).stdout;
    assert!(conversation.contains("It is cleaned up."), "{conversation}");
    let log = room.ok(&["log"]).stdout;
    let end: Vec<&str> = log.lines().rev().take(3).filter_map(|line| line.get(10..)).collect();
    assert_eq!(
        end,
        [
            "           the run ends, completed",
            "team-lead  has ended: the work is done",
            "           team work is deleted"
        ],
        "{log}"
    );
}

#[test]
fn a_damaged_a_missing_and_an_unreadable_journal_are_warned_about_and_the_rest_is_shown() {
    let room = TestEnv::new();
    completed(&room);
    let journal = room.find("teams/work/pitcrew/journal.ndjson");
    let whole = std::fs::read_to_string(&journal).unwrap();
    let warned = |fault: &str| {
        let warning = format!("warning: the journal {}{fault}", journal.display());
        let (log, history) = (room.ok(&["log", "work"]), room.ok(&["history"]));
        for ran in [&log, &history] {
            let lines = ran.stderr.lines().filter(|line| line.starts_with(&warning)).count();
            assert_eq!(lines, 1, "{warning}: {ran:?}");
        }
        assert!(log.stdout.contains("writes to team-lead: it is written"), "{log:?}");
        assert!(history.stdout.contains("work"), "{history:?}");
        let entries = objects(&room.ok(&["--json", "log", "work", "--kind", "task"]));
        assert_eq!(entries[0]["event"], "unread", "{entries:?}");
        let said = format!("warning: {}", entries[0]["text"].as_str().unwrap());
        assert!(said.starts_with(&warning), "{said}");
        let run = room.json(&["history"])["runs"][0].clone();
        let said = format!("warning: {}", run["journal_problem"].as_str().unwrap());
        assert!(said.starts_with(&warning), "{said}");
        run
    };
    std::fs::write(&journal, whole.replacen("{\"at_ms\"", "nonsense", 2)).unwrap();
    assert_eq!(warned(" is damaged: 2 lines cannot be read")["end"], "completed");
    std::fs::remove_file(&journal).unwrap();
    let run = warned(" is missing");
    assert_eq!((&run["end"], &run["runs"]), (&Value::Null, &0.into()), "{run:#}");
    std::fs::create_dir(&journal).unwrap();
    warned(" cannot be read");
    std::fs::remove_dir(&journal).unwrap();
    std::fs::write(&journal, whole).unwrap();
    assert_eq!(room.json(&["history"])["runs"][0]["journal_problem"], Value::Null);
    assert!(!room.ok(&["log", "work"]).stderr.contains("warning"));
}

#[test]
fn a_stopped_run_says_in_the_history_how_it_ended_and_counts_each_resume() {
    let room = TestEnv::new();
    let model = room.script(PAIR);
    let ran =
        room.run(&["run", "go", "--team", "work", "--model", &model, "--yes", "--max-turns", "1"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    let run = room.json(&["history"])["runs"][0].clone();
    assert_eq!(
        (&run["end"], &run["runs"], &run["goal"]),
        (&"max_turns".into(), &1.into(), &"go".into())
    );
    room.run(&["run", "--resume", "work", "more", "--max-turns", "1"]);
    let run = room.json(&["history"])["runs"][0].clone();
    assert_eq!((&run["runs"], &run["goal"]), (&2.into(), &"go".into()));
    assert!(room.ok(&["log"]).stdout.contains("the team goes on: more"));
}

#[test]
fn the_report_of_a_run_names_files_tasks_totals_and_how_to_look_again() {
    let room = TestEnv::new();
    let ran = completed(&room);
    let from = ran.stderr.find("in all:").unwrap_or_else(|| panic!("{ran:?}"));
    let tokens = Regex::new(r"[0-9.]+k? tokens").unwrap();
    assert_snapshot!(tokens.replace(&ran.stderr[from..], "[n] tokens"), @r#"
    in all: 2 agents, [n] tokens
    1 task completed
    bob changed hello.txt
    the team is in the archive: `pitcrew team show work` shows it, `pitcrew run --resume work` goes on with it
    look again: `pitcrew log work`, `pitcrew transcript AGENT --team work`
    "#);
    let other = TestEnv::new();
    let again = other.run(&[
        "--json",
        "run",
        "again",
        "--team",
        "other",
        "--yes",
        "--model",
        &other.script(PAIR),
    ]);
    let result: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(result["files_changed"], serde_json::json!({"bob": ["hello.txt"]}));
    assert_eq!(result["worktree_changes"], serde_json::json!([]));
}

#[test]
fn a_team_is_shown_with_what_its_agents_do_and_used() {
    let room = TestEnv::new();
    let running = room.start_waiting();
    let shown = room.json(&["team", "show", "work"]);
    let agents = shown["agents"].as_array().unwrap();
    let of = |name: &str| agents.iter().find(|agent| agent["name"] == name).unwrap();
    assert_eq!((&of("bob")["state"], &of("bob")["runs"]), (&"idle".into(), &true.into()));
    assert!(of("team-lead")["turns"].as_u64().unwrap() >= 1, "{agents:?}");
    let listed = room.ok(&["team", "list"]).stdout;
    assert!(listed.contains("TEAM  AGENT"), "{listed}");
    running.kill();
    let listed = room.ok(&["team", "list"]).stdout;
    assert!(!listed.contains("AGENT"), "{listed}");
    let shown = room.ok(&["team", "show"]).stdout;
    let table = shown.split_once("AGENT").unwrap().1;
    assert!(table.contains("bob") && table.contains("idle"), "{shown}");
    let done = TestEnv::new();
    completed(&done);
    let shown = done.ok(&["team", "show"]).stdout;
    assert!(shown.contains("bob") && shown.contains("ended"), "{shown}");
}

#[test]
fn a_team_is_shown_with_the_permission_that_its_lead_waits_for() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Write, input: {file_path: it, content: x}}]
    - text: Done.
";
    let (detached, _host) = Detached::start(script, &[]);
    detached.until_log("team-lead asks permission for Write");
    let shown = detached.room.json(&["team", "show", "work"]);
    let asks = Value::from("asks permission for Write");
    assert_eq!((&shown["runs"][0]["waits_for"], &shown["agents"][0]["reason"]), (&asks, &asks));
    let listed = detached.room.json(&["team", "list"]);
    assert_eq!(listed["teams"][0]["runs"][0]["waits_for"], asks, "{listed:#}");
    for args in [&["team", "show", "work"][..], &["team", "list"]] {
        let text = detached.room.ok(args).stdout;
        assert!(text.contains("asks permission for Write"), "{text}");
    }
}

/// The script of a lead whose teammate commits in a worktree, leaves a file uncommitted there, and
/// goes home.
const IN_A_WORKTREE: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, isolation: worktree, description: w, prompt: Commit.}}]
    - wait_for: {contains: it is there, from: message}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: has shut down, from: message}
    - text: All is done.
  bob:
    - tools: [{name: Bash, input: {command: "echo 1 > one && git add one && git -c user.name=t -c user.email=t@t commit -qm 'Add one' && echo 2 > two"}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: it is there, summary: done}}]
    - wait_for: {contains: shutdown_request}
      text: Done.
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

#[test]
fn the_report_of_a_run_names_the_new_commits_of_the_repository() {
    let room = TestEnv::new();
    let git = "git -c user.name=t -c user.email=t@t commit -q --allow-empty -m";
    let first = format!("git init -q -b main && {git} first && git branch old && {git} 'on main'");
    assert!(room.tool("sh", &["-c", &first]).status().unwrap().success());
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Bash, input: {{command: \"{git} 'by bash' && git switch -qc side && {git} aside && git switch -q main\"}}}}]\n    - text: Done.\n    - text: Done again.\n"
    );
    let model = room.script(&script);
    let args = ["run", "go", "--team", "work", "--model", &model, "--yes"];
    let ran = room.ok(&args);
    let line = ran.stderr.lines().find(|line| line.starts_with("new in the repository: "));
    let line = line.unwrap_or_else(|| panic!("{ran:?}"));
    assert!(line.starts_with("new in the repository: 2 commits ("), "{line}");
    assert!(line.contains(" by bash") && line.contains(" aside"), "{line}");
    assert!(!line.contains("first") && !line.contains("on main"), "{line}");
    let again = room.json(&["run", "--resume", "work", "more", "--yes"]);
    assert_eq!(again["commit_count"], 2, "the commits of all runs: {again:#}");
    assert_eq!(again["commits"].as_array().unwrap().len(), 2, "{again:#}");
}

#[test]
fn the_report_of_a_run_names_the_commits_and_files_of_a_worktree_that_is_kept() {
    let room = TestEnv::new();
    let commit = "git init -q -b main && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m first";
    assert!(room.tool("sh", &["-c", commit]).status().unwrap().success());
    let model = room.script(IN_A_WORKTREE);
    let args = ["--json", "run", "go", "--team", "work", "--model", &model, "--yes"];
    let ran = room.run(&args);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let [change] = result["worktree_changes"].as_array().unwrap().as_slice() else {
        panic!("{result:#}")
    };
    assert_eq!((&change["member"], &change["branch"]), (&"bob".into(), &"pitcrew/work/bob".into()));
    assert_eq!(change["commit_count"], 1);
    assert!(change["commits"][0].as_str().unwrap().ends_with(" Add one"), "{change:#}");
    assert_eq!(change["files"], serde_json::json!(["one", "two"]));
}
