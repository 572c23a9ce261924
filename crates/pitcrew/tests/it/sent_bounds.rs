//! Tests of the bounds on what models, other members, other clients and other processes send
//! (`docs/limits.md`), through the binary. Each attack goes far beyond its bound. The command must
//! end in time, within a limit on its memory, and must say which bound was reached.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::patience::within;
use crate::service::{Raw, Reply, Service};
use crate::test_env::{Ran, TestEnv};

/// The time limit of a command in seconds. A slow machine under load needs a part of it.
const SECONDS: &str = "100";

/// The limit on the address space of a command in kilobytes. A command without an attack needs
/// about a third of it, for the stacks of its threads.
const KILOBYTES: &str = "3000000";

/// Runs a command with the limits on time and memory.
#[track_caller]
fn limited(room: &TestEnv, service: Option<&Service>, args: &[&str]) -> Ran {
    let limits = format!("ulimit -v {KILOBYTES}; exec timeout -s KILL {SECONDS} \"$0\" \"$@\"");
    let mut command = room.tool("sh", &["-c", &limits, env!("CARGO_BIN_EXE_pitcrew")]);
    command.args(args).stdin(Stdio::null());
    if let Some(service) = service {
        command.args(["--model", "anthropic/claude-opus-5-5"]);
        command.env("ANTHROPIC_BASE_URL", service.url()).env("ANTHROPIC_API_KEY", "sk-test");
    }
    let ran = Ran::of(command.output().unwrap());
    assert!(!matches!(ran.code, 134 | 137 | -1), "{args:?} hung or was killed: {ran:?}");
    ran
}

/// Formats events of the Messages API for a stream.
fn stream(events: &[Value]) -> String {
    let write = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"]);
    events.iter().map(write).collect()
}

#[test]
fn an_answer_without_an_end_ends_the_run_and_its_bound_is_named() {
    let long = "x".repeat(64 * 1024);
    let grown = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": long}});
    let service = Service::start(move |_, _| {
        let grown = stream(std::slice::from_ref(&grown));
        Reply::Endless(grown.clone(), grown)
    });
    let room = TestEnv::new();
    let ran = limited(&room, Some(&service), &["run", "do it"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let said = "anthropic sent more than 8388608 bytes in one content block, which is the limit";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert_eq!(service.seen().len(), 1, "the call is not repeated");
}

#[test]
fn two_hundred_thousand_tool_calls_end_the_run_and_none_of_them_is_made() {
    let call = |at: usize| json!({"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": format!("t{at}"), "name": "Bash", "input": {"command": "touch made"}}});
    let mut events: Vec<Value> = (0..200_000).map(call).collect();
    events.push(json!({"type": "message_stop"}));
    let body = stream(&events);
    let service = Service::start(move |_, _| {
        let content_type = "text/event-stream";
        Reply::Raw(Raw { status: 200, content_type, body: body.clone(), stays_open: false })
    });
    let room = TestEnv::new();
    let args = ["run", "do it", "--permission-mode", "bypassPermissions"];
    let ran = limited(&room, Some(&service), &args);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let said = "anthropic sent more than 500 tool calls in one answer, which is the limit";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(!room.work().join("made").exists());
}

#[test]
fn as_many_tool_calls_as_one_answer_may_have_are_made() {
    const CALLS: usize = 500;
    let call = |at: usize| json!({"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": format!("t{at}"), "name": "TaskGet", "input": {"taskId": at.to_string()}}});
    let mut events: Vec<Value> = (0..CALLS).map(call).collect();
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    let body = stream(&events);
    let service = Service::start(move |heard, _| match heard.answers {
        0 => {
            let content_type = "text/event-stream";
            Reply::Raw(Raw { status: 200, content_type, body: body.clone(), stays_open: false })
        }
        _ => Reply::Stop("It is done.", "end_turn"),
    });
    let room = TestEnv::new();
    let ran = limited(&room, Some(&service), &["run", "do it"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is done.\n"), "{}", ran.stderr);
    let seen = service.seen().pop().unwrap();
    let results =
        seen["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().len();
    assert_eq!(results, CALLS);
}

/// Returns the front matter of an agent definition in which aliases stand for 10^9 values.
fn alias_bomb() -> String {
    let mut text =
        "---\nname: a\ndescription: d\nl0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let of = vec![format!("*l{}", level - 1); 10].join(", ");
        text.push_str(&format!("l{level}: &l{level} [{of}]\n"));
    }
    text + "---\nbody\n"
}

#[test]
fn definitions_of_an_untrusted_repository_cost_little_whatever_is_in_them() {
    let attacks = [
        ("alias bombs", alias_bomb(), "front matter is not valid yaml"),
        (
            "long",
            format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(640 * 1024)),
            "longer than 524288 bytes",
        ),
        (
            "long front matter",
            format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(400 * 1024)),
            "at most 65536 are read",
        ),
        (
            "deep",
            format!(
                "---\nname: a\ndescription: d\nx: {}{}\n---\n",
                "[".repeat(5000),
                "]".repeat(5000)
            ),
            "front matter is not valid yaml",
        ),
        (
            "many values",
            format!("---\nname: a\ndescription: d\nx: [{}]\n---\n", "1, ".repeat(20_000)),
            "front matter is not valid yaml",
        ),
    ];
    for (attack, text, words) in attacks {
        let room = TestEnv::new();
        let agents = room.work().join(".claude/agents");
        fs::create_dir_all(&agents).unwrap();
        fs::create_dir(room.work().join(".git")).unwrap();
        for at in 0..500 {
            fs::write(agents.join(format!("a{at}.md")), &text).unwrap();
        }
        let model = room.script("agents:\n  team-lead:\n    - text: Done.\n");
        let started = Instant::now();
        let ran = limited(&room, None, &["run", "go", "--model", &model]);
        assert_eq!(ran.code, 0, "{attack}: {ran:?}");
        assert!(ran.stderr.contains(words), "{attack}: {}", ran.stderr);
        assert!(started.elapsed() < Duration::from_secs(60), "{attack}: {:?}", started.elapsed());
    }
}

#[test]
fn of_many_definitions_the_first_are_read_and_the_others_are_named() {
    let short = String::new();
    let attacks = [
        (5000, short, "it has more than 500 definitions, and the others are ignored"),
        (500, "x".repeat(60 * 1024), "its definitions are longer than 4194304 bytes together"),
    ];
    for (count, prompt, words) in attacks {
        let room = TestEnv::new();
        let agents = room.work().join(".claude/agents");
        fs::create_dir_all(&agents).unwrap();
        fs::create_dir(room.work().join(".git")).unwrap();
        for at in 0..count {
            let text = format!("---\nname: a{at}\ndescription: d\n---\n{prompt}");
            fs::write(agents.join(format!("a{at:04}.md")), text).unwrap();
        }
        let model = room.script("agents:\n  team-lead:\n    - text: Done.\n");
        let ran = limited(&room, None, &["run", "go", "--trust", "--model", &model]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

/// Files of a team: the file, its bound in bytes, and a command that needs the file. A journal that
/// cannot be read is a warning for a command that only writes to it.
const FILES: [(&str, u64, &[&str]); 6] = [
    ("teams/crew/inboxes/bob.json", 128 << 20, &["inbox", "bob", "--team", "crew"]),
    ("teams/crew/inboxes/bob.json", 128 << 20, &["send", "bob", "hello", "--team", "crew"]),
    ("teams/crew/config.json", 128 << 20, &["member", "list", "--team", "crew"]),
    ("teams/crew/pitcrew/journal.ndjson", 512 << 20, &["team", "show", "crew"]),
    ("teams/crew/pitcrew/journal.ndjson", 512 << 20, &["send", "bob", "hello", "--team", "crew"]),
    ("teams/crew/pitcrew/transcripts/bob.ndjson", 512 << 20, &["doctor"]),
];

#[test]
fn files_of_a_team_of_ten_times_their_length_are_refused_with_the_reason() {
    for (file, bound, args) in FILES {
        let room = TestEnv::with_crew();
        room.ok(&["send", "--team", "crew", "bob", "hello"]);
        let path = room.root().join(file);
        // The file is sparse and uses no space on the disk.
        let opened = File::options().create(true).append(true).open(path).unwrap();
        opened.set_len(10 * bound).unwrap();
        let ran = limited(&room, None, args);
        let said = format!("it is {} bytes long; at most {bound} are read", 10 * bound);
        assert!(
            ran.stderr.contains(&said) || ran.stdout.contains(&said),
            "{file} {args:?}: {ran:?}"
        );
    }
}

#[test]
fn a_text_without_an_end_on_stdin_is_refused() {
    let room = TestEnv::with_crew();
    let limits =
        format!("ulimit -v {KILOBYTES}; exec timeout -s KILL {SECONDS} \"$0\" \"$@\" < /dev/zero");
    let mut command = room.tool("sh", &["-c", &limits, env!("CARGO_BIN_EXE_pitcrew")]);
    let ran = Ran::of(command.args(["send", "--team", "crew", "bob", "-"]).output().unwrap());
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("the text on stdin is longer than 4194304 bytes"), "{ran:?}");
}

/// Writes an inbox with this many messages.
fn flood(inbox: &Path, count: usize) {
    let mut file = std::io::BufWriter::new(File::create(inbox).unwrap());
    file.write_all(b"[").unwrap();
    for at in 0..count {
        let comma = if at == 0 { "" } else { "," };
        write!(file, r#"{comma}{{"from":"ann","text":"m{at}","timestamp":"2026-11-20T12:00:00Z","read":false}}"#).unwrap();
    }
    file.write_all(b"]").unwrap();
}

#[test]
fn an_inbox_with_a_million_messages_is_refused_with_its_reason_and_a_repair_keeps_the_newest() {
    let room = TestEnv::with_crew();
    room.ok(&["send", "--team", "crew", "bob", "hello"]);
    let inbox = room.root().join("teams/crew/inboxes/bob.json");
    flood(&inbox, 1_500_000);
    let said = "it has more than 150000 messages, which is the limit";
    for args in
        [vec!["inbox", "bob", "--team", "crew"], vec!["send", "--team", "crew", "bob", "more"]]
    {
        let ran = limited(&room, None, &args);
        assert_eq!(ran.code, 70, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("doctor --repair"), "{args:?}: {}", ran.stderr);
    }
    for args in [
        vec!["team", "show", "crew"],
        vec!["member", "list", "--team", "crew"],
        vec!["send", "--team", "crew", "ann", "hi"],
    ] {
        let ran = limited(&room, None, &args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    }
    let found = limited(&room, None, &["doctor"]);
    assert!(found.stdout.contains(said) || found.stderr.contains(said), "{found:?}");
    let before = fs::metadata(&inbox).unwrap().len();
    assert_eq!(limited(&room, None, &["doctor", "--repair"]).code, 0);
    let kept = fs::read(&inbox).unwrap();
    let kept: Vec<Value> = serde_json::from_slice(&kept).unwrap();
    assert_eq!((kept.len(), kept.last().unwrap()["text"].as_str()), (75_000, Some("m1499999")));
    let keeps = fs::read_dir(room.root().join("pitcrew/archive")).unwrap();
    let kept_inbox = |keep: fs::DirEntry| keep.path().join("teams/crew/inboxes/bob.json");
    let copies = keeps.filter_map(|keep| fs::metadata(kept_inbox(keep.unwrap())).ok());
    let lengths: Vec<u64> = copies.map(|copy| copy.len()).collect();
    assert_eq!(lengths, [before], "the whole inbox is kept");
    room.ok(&["send", "--team", "crew", "bob", "more"]);
    // A message that would make the inbox unreadable is refused, and the inbox stays readable.
    flood(&inbox, 150_000);
    let full = limited(&room, None, &["send", "--team", "crew", "bob", "one more"]);
    assert_eq!(full.code, 70, "{}", full.stderr);
    assert!(
        full.stderr.contains("it has no room for more than 150000 messages"),
        "{}",
        full.stderr
    );
    room.ok(&["inbox", "bob", "--team", "crew", "--json"]);
    assert_eq!(limited(&room, None, &["doctor", "--repair"]).code, 0);
    room.ok(&["send", "--team", "crew", "bob", "one more"]);
}

#[test]
fn a_config_and_a_task_list_beyond_their_bounds_are_refused_with_the_reason() {
    let room = TestEnv::with_crew();
    let config = room.root().join("teams/crew/config.json");
    let whole = fs::read(&config).unwrap();
    let mut read: Value = serde_json::from_slice(&whole).unwrap();
    let bob = read["members"][2].clone();
    let members = read["members"].as_array_mut().unwrap();
    for at in 0..10_000 {
        let mut more = bob.clone();
        more["name"] = json!(format!("m{at}"));
        more["agentId"] = json!(format!("m{at}@crew"));
        members.push(more);
    }
    let many = read.to_string();
    let long =
        format!("{{\"name\": \"crew\", \"members\": [], \"x\": \"{}\"}}", "x".repeat(120 << 20));
    for (text, words) in [
        (many, "it has 10003 members; at most 10000 are read"),
        (long, "bytes long; at most 16777216 are read"),
    ] {
        fs::write(&config, text).unwrap();
        for args in [
            ["team", "show", "crew"].as_slice(),
            &["member", "list", "--team", "crew"],
            &["doctor"],
        ] {
            let ran = limited(&room, None, args);
            assert!(ran.stderr.contains(words) || ran.stdout.contains(words), "{args:?}: {ran:?}");
        }
    }
    fs::write(&config, whole).unwrap();
    let tasks = room.root().join("tasks/crew");
    for at in 1..=50_100 {
        File::create(tasks.join(format!("{at}.json"))).unwrap();
    }
    let ran = limited(&room, None, &["task", "list", "--team", "crew"]);
    assert_eq!(ran.code, 70, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("it has more than 50000 task files, which is the limit"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("move task files"), "{}", ran.stderr);
}

/// Locks the file until the result is dropped. The test's process is the holder.
fn held(path: &Path) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::options().create(true).append(true).open(path).unwrap();
    file.lock().unwrap();
    file
}

/// A repository with settings that have an effect, in a root with the team `crew`.
fn place() -> TestEnv {
    let room = TestEnv::with_crew();
    fs::create_dir_all(room.work().join(".git")).unwrap();
    fs::create_dir_all(room.work().join(".claude")).unwrap();
    let settings = r#"{"permissions": {"allow": ["Bash(make:*)"]}}"#;
    fs::write(room.work().join(".claude/settings.json"), settings).unwrap();
    room
}

/// The locks that commands wait for: the file, the command, and whether the command fails in the
/// end. Where it does not fail, it is done without the lock, and says so.
const LOCKS: [(&str, &[&str], bool); 5] = [
    ("pitcrew/lifecycle.lock", &["team", "create", "other"], true),
    ("pitcrew/lifecycle.lock", &["team", "delete", "crew", "--force"], true),
    ("pitcrew/lifecycle.lock", &["run", "go", "--team", "other", "--model", "SCRIPT"], true),
    ("teams/crew/pitcrew/journal.ndjson", &["send", "--team", "crew", "bob", "hello"], false),
    ("pitcrew/trust.lock", &["trust", "add", "--yes"], true),
];

#[test]
fn a_wait_for_a_lock_says_who_holds_it_and_has_an_end() {
    let ours = format!("process {} (", std::process::id());
    for (lock, args, fails) in LOCKS {
        let room = place();
        let (path, args) = (room.root().join(lock), with_script(&room, args));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let holder = held(&path);
        let started = Instant::now();
        let ran = limited(&room, None, &args);
        let said = format!("waiting for the lock {}: {ours}", path.display());
        assert!(ran.stderr.contains(&said), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.code != 0, fails, "{args:?}: {ran:?}");
        if fails {
            let error = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
            assert!(error.contains(&ours) && error.contains(lock), "{args:?}: {error}");
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{args:?}: {:?}", started.elapsed());
        drop(holder);
    }
}

fn with_script(room: &TestEnv, args: &[&str]) -> Vec<String> {
    let model = room.script("agents:\n  team-lead:\n    - text: Done.\n");
    args.iter()
        .map(|arg| if *arg == "SCRIPT" { model.clone() } else { (*arg).to_owned() })
        .collect()
}

#[test]
fn a_signal_ends_a_wait_for_a_lock_at_once() {
    for signal in [Signal::INT, Signal::TERM] {
        for (lock, args, _) in LOCKS {
            let room = place();
            let args = with_script(&room, args);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let holder = held(&room.root().join(lock));
            let file = room.temporary().join("told");
            let stderr = File::create(&file).unwrap();
            let mut waiting =
                room.command(&args).stdin(Stdio::null()).stderr(stderr).spawn().unwrap();
            let waits = || {
                fs::read_to_string(&file).unwrap().contains("waiting for the lock").then_some(())
            };
            within(Duration::from_secs(60), waits).expect("it says that it waits");
            let signalled = Instant::now();
            kill_process(Pid::from_child(&waiting), signal).unwrap();
            waiting.wait().unwrap();
            // Without the signal, the wait would last several seconds more.
            let took = signalled.elapsed();
            assert!(took < Duration::from_secs(3), "{signal:?} {args:?}: {took:?}");
            drop(holder);
        }
    }
}
