//! Tests of commands that the lead carries out for another process. The commands change what only
//! the lead's own process is able to sign, for example the permission mode of a member.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use crate::test_env::TestEnv;

fn bob(room: &TestEnv) -> serde_json::Value {
    let config = room.json_file("teams/work/config.json");
    config["members"]
        .as_array()
        .unwrap()
        .iter()
        .find(|member| member["name"] == "bob")
        .unwrap()
        .clone()
}

#[test]
fn a_running_lead_is_asked_to_change_a_mode_and_to_shut_one_member_down() {
    let room = TestEnv::new();
    let mut running = room.start_waiting();
    assert_eq!(room.run(&["member", "mode", "bop", "plan"]).code, 3);
    assert_eq!(
        room.ok(&["member", "mode", "bob", "acceptEdits"]).stdout,
        "bob is in mode acceptEdits now\n"
    );
    let member = bob(&room);
    assert_eq!(member["mode"], "acceptEdits");
    assert!(member["pitcrew"]["modeSig"]["sig"].is_string(), "{member}");
    let asked = room.json(&["shutdown", "work", "--member", "bob"]);
    assert_eq!((&asked["success"], &asked["target"]), (&true.into(), &"bob".into()), "{asked}");
    running.until("bob has ended");
    running.kill();
}

#[test]
fn without_its_lead_a_signed_team_is_told_what_to_do_and_nothing_is_left_half_done() {
    let room = TestEnv::new();
    room.killed_run();
    let before = bob(&room);
    for args in
        [&["member", "mode", "bob", "acceptEdits"][..], &["shutdown", "work", "--member", "bob"]]
    {
        let refused = room.run(args);
        assert_eq!(refused.code, 5, "{refused:?}");
        assert!(
            refused.stderr.contains("only the process that leads it can give one"),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("pitcrew run --resume work"), "{refused:?}");
    }
    assert_eq!(bob(&room), before);
    room.ok(&["member", "mode", "bob", "plan"]);
}

#[test]
fn a_tool_of_an_agent_is_turned_away_at_the_door() {
    let room = TestEnv::new();
    let pitcrew = env!("CARGO_BIN_EXE_pitcrew");
    let script = format!(
        "
agents:
  team-lead:
    - tools:
        - name: Bash
          input: {{command: '{pitcrew} member mode team-lead acceptEdits > tagged 2>&1'}}
        - name: Bash
          input: {{command: 'env -u PITCREW_JOB {pitcrew} member mode team-lead acceptEdits > bare 2>&1'}}
        - name: Bash
          input: {{command: '{pitcrew} member spawn carl Wait. > spawned 2>&1'}}
        - name: Bash
          input: {{command: '{pitcrew} shutdown work > plain 2>&1'}}
        - name: Bash
          input: {{command: '{pitcrew} shutdown work --force > forced 2>&1'}}
        - name: Bash
          input: {{command: 'env -u PITCREW_JOB {pitcrew} shutdown work --force > bare-forced 2>&1'}}
    - text: I tried.
"
    );
    let model = room.script(&script);
    let ran = room.ok(&["run", "try it", "--team", "work", "--model", &model, "--yes"]);
    for file in ["tagged", "bare", "spawned"] {
        let said = std::fs::read_to_string(room.work().join(file)).unwrap();
        assert!(said.contains("was started by a tool of an agent"), "{file}: {said} {ran:?}");
    }
    for file in ["plain", "forced", "bare-forced"] {
        let said = std::fs::read_to_string(room.work().join(file)).unwrap();
        assert!(
            said.contains("tool of an agent") && !said.contains("--force"),
            "{file}: {said} {ran:?}"
        );
    }
    assert_eq!(room.json_file("teams/work/config.json")["members"][0].get("mode"), None);
}

/// Shell commands that run the script `attack` in a process of a tool, and hide that the process
/// belongs to the tool. The process loses its session, its environment and its parent processes.
/// The argument of `attack` is the name of an output file.
pub(crate) const SHED: [&str; 4] = [
    "setsid -f env -i sh -c 'sleep 0.2; /bin/sh $W/attack OUT'",
    "setsid -f sh -c 'exec env -i setsid -f /bin/sh $W/attack OUT'",
    "tmux -S $W/tmux -f /dev/null new-session -d \"env -i /bin/sh $W/attack OUT\"",
    "python3 -c 'import os,sys; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); \
     os.execve(\"/bin/sh\", [\"sh\", sys.argv[1], \"OUT\"], {})' $W/attack",
];

/// Runs a team whose lead starts the shell script `attack` in each of the ways of [`SHED`]. The
/// script writes its output to the file that its argument names. Returns the outputs.
fn attacked(room: &TestEnv, attack: &str) -> Vec<String> {
    let work = room.work();
    std::fs::write(work.join("attack"), attack).unwrap();
    let mut steps = String::new();
    for (at, shed) in SHED.iter().enumerate() {
        let shed =
            shed.replace("$W", &work.display().to_string()).replace("OUT", &format!("out{at}"));
        let waits = format!(
            "for i in $(seq 200); do test -s out{at} && break; sleep 0.05; done; sleep 0.2"
        );
        let command = format!("{shed}; {waits}").replace('\'', "''");
        steps
            .push_str(&format!("    - tools: [{{name: Bash, input: {{command: '{command}'}}}}]\n"));
    }
    let model = room.script(&format!("agents:\n  team-lead:\n{steps}    - text: I tried.\n"));
    room.ok(&["run", "try it", "--team", "work", "--model", &model, "--yes"]);
    let said = |at| std::fs::read_to_string(work.join(format!("out{at}"))).unwrap_or_default();
    (0..SHED.len()).map(said).collect()
}

#[test]
fn a_tool_that_sheds_its_session_environment_and_parents_is_turned_away_too() {
    let room = TestEnv::new();
    let (work, root, pitcrew) = (room.work(), room.root(), env!("CARGO_BIN_EXE_pitcrew"));
    let (work, root) = (work.display(), root.display());
    let attack =
        format!("exec {pitcrew} --root {root} member mode team-lead acceptEdits >{work}/$1 2>&1\n");
    for (at, said) in attacked(&room, &attack).iter().enumerate() {
        assert!(said.contains("was started by a tool of an agent"), "{at}: {said}");
    }
    assert_eq!(room.json_file("teams/work/config.json")["members"][0].get("mode"), None);
}

/// A program that sends a request to the control socket in a folder, and prints the first answer.
const KNOCK: &str = "import os, socket, sys
os.chdir(sys.argv[1])
door = socket.socket(socket.AF_UNIX)
door.connect('door')
try:
    door.sendall(sys.argv[2].encode() + b'\\n')
except BrokenPipeError:
    pass  # The lead refuses the caller before it reads the request.
print(door.makefile().readline())
";

#[test]
fn a_tool_can_neither_follow_its_own_run_nor_answer_a_question_of_it_nor_change_its_agents() {
    let room = TestEnv::new();
    let (work, door) = (room.work(), room.root().join("teams/work/pitcrew"));
    std::fs::write(work.join("knock"), KNOCK).unwrap();
    let (work, door) = (work.display(), door.display());
    let knock = |request: &str| format!("python3 {work}/knock {door} '{request}'");
    let requests = [
        r#"{"op": "follow"}"#,
        r#"{"op": "answer", "question": "q1", "digest": "0000", "choice": "once"}"#,
        r#"{"op": "model", "member": "team-lead", "model": "opus"}"#,
        r#"{"op": "compact"}"#,
        r#"{"op": "hide_pane", "member": "team-lead"}"#,
        r#"{"op": "show_pane", "member": "team-lead"}"#,
        r#"{"op": "stop_member", "member": "bob"}"#,
        r#"{"op": "stop_run"}"#,
    ];
    let knocks: String = requests.iter().map(|request| knock(request) + "; ").collect();
    let attack = format!("{{ {knocks}}} >{work}/$1.new 2>&1; mv {work}/$1.new {work}/$1\n");
    for (at, said) in attacked(&room, &attack).iter().enumerate() {
        let refusals = said.matches("was started by a tool of an agent").count();
        assert!(refusals == requests.len() && !said.contains("protocol"), "{at}: {said}");
    }
}

#[test]
fn a_lead_passes_over_fields_of_a_later_version_and_names_its_own_for_a_request_that_it_does_not_know()
 {
    let room = TestEnv::new();
    let run = room.start_waiting();
    let ask = |line: &str| -> serde_json::Value {
        let mut lead = UnixStream::connect(room.root().join("teams/work/pitcrew/door")).unwrap();
        writeln!(lead, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(lead).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    let unknown = ask(r#"{"op": "of_tomorrow"}"#);
    assert_eq!(unknown["error"], "invalid_request", "{unknown}");
    assert_eq!(unknown["details"]["lead_version"], env!("CARGO_PKG_VERSION"), "{unknown}");
    let mode = ask(r#"{"op": "mode", "member": "bob", "mode": "plan", "of_tomorrow": 1}"#);
    assert_eq!(mode["success"], true, "{mode}");
    let end = ask(r#"{"op": "end_team", "wait_seconds": 30, "of_tomorrow": {"a": []}}"#);
    assert_eq!(end["success"], true, "{end}");
    let (code, said) = run.ended();
    assert_eq!(code, Some(130), "{said}");
}
