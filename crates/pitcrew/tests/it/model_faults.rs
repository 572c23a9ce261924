//! `pitcrew run` with faulty models: rate limits, long waits, and conversations that are longer
//! than a model's context window.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::models_over_http::{Heard, Say, approval, heard};
use crate::patience::until;
use crate::service::{Reply, Service};
use crate::test_env::{Ran, TestEnv};

fn limited(retry_after: &'static str) -> Reply {
    let body =
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
    Reply::Refuse(429, Some(("retry-after", retry_after)), body)
}

fn say(text: &'static str) -> Reply {
    Reply::Say(vec![Say::Text(text)])
}

fn call(name: &'static str, input: Value) -> Reply {
    Reply::Say(vec![Say::Call(name, input)])
}

fn settings(room: &TestEnv, ours: &Value) {
    fs::write(room.root().join("settings.json"), json!({"pitcrew": ours}).to_string()).unwrap();
}

#[test]
fn a_server_that_refuses_connections_is_named_with_its_address() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let room = TestEnv::new();
    settings(&room, &json!({"modelPatience": 0.1}));
    let mut run = room.command(&["run", "do it", "--model", "openai/local"]);
    run.env("OPENAI_BASE_URL", format!("http://user:secret@127.0.0.1:{port}/v1"));
    let ran = Ran::of(run.output().unwrap());
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(
        ran.stderr.contains(&format!("openai cannot be reached at http://127.0.0.1:{port}: ")),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("secret"), "{ran:?}");
}

#[test]
fn a_server_that_stays_silent_is_given_up_after_the_time_in_the_settings() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let room = TestEnv::new();
    settings(&room, &json!({"modelPatience": 0.1, "modelSilence": 0.3}));
    let mut run = room.command(&["run", "do it", "--model", "openai/local"]);
    run.env("OPENAI_BASE_URL", format!("http://{}/v1", silent.local_addr().unwrap()));
    let ran = Ran::of(run.output().unwrap());
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("openai sent nothing for 0."), "{ran:?}");
}

#[test]
fn a_service_that_asks_for_no_wait_is_asked_by_our_own_pauses_until_the_patience_is_over() {
    let service = Service::start(|_, _| limited("0"));
    let room = TestEnv::new();
    settings(&room, &json!({"modelPatience": 2}));
    let ran = service.run(&room, &["run", "do it"]);
    assert_eq!(ran.code, 75, "{ran:?}");
    let requests = service.seen().len();
    assert!((2..=7).contains(&requests), "{requests} requests in two seconds");
    assert!(ran.stderr.contains(
        "team-lead waits 1 s for the model: anthropic limits the rate of requests: slow down"
    ));
    assert!(
        ran.stderr.contains("the run is parked: the model was unavailable for 2 s"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("resume it when the model is available again: pitcrew run --resume work"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_wait_beyond_the_patience_parks_the_run_at_once_and_it_can_be_resumed() {
    let service = Service::start(|_, _| limited("3600"));
    let room = TestEnv::new();
    let ran = service.run(&room, &["run", "do it"]);
    assert_eq!(ran.code, 75, "{ran:?}");
    assert_eq!(service.seen().len(), 1);
    let said = "the model asks to wait 3600 s, longer than the patience of 600 s allows";
    assert!(ran.stderr.contains(&format!("error: the run is parked: {said}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: resume it after 20"), "{}", ran.stderr);
    let result =
        Ran::of(service.command(&room, &["run", "--resume", "work", "--json"]).output().unwrap());
    assert_eq!(result.code, 75, "{result:?}");
    let result: Value = serde_json::from_str(&result.stdout).unwrap();
    assert_eq!(result["subtype"], "error_model_unavailable");
    assert_eq!(result["members"][0]["state"], "parked");
    assert!(result["members"][0]["reason"].as_str().unwrap().contains(said), "{result:#}");
    service.behave(|_, _| say("It is done."));
    let ran = service.run(&room, &["run", "--resume", "work"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is done.\n"), "{ran:?}");
    let last = service.seen().pop().unwrap();
    assert_eq!(last["messages"].as_array().unwrap().len(), 1, "{last:#}");
}

/// Answers as the model of a lead that gives bob some work, and then reports the outcome of bob's
/// work.
fn lead_of_bob(heard: &Heard) -> Reply {
    let spawn = json!({"name": "bob", "subagent_type": "general-purpose", "description": "work", "prompt": "ROLE:bob work"});
    match heard.answers {
        0 => call("Task", spawn),
        _ if heard.told.contains("longer than the patience") => say("Bob's model is unavailable."),
        _ => say("I wait for bob."),
    }
}

#[test]
fn the_lead_learns_that_a_teammates_model_is_unavailable_and_the_run_parks_when_nobody_else_has_work()
 {
    let service = Service::start(|heard, _| match heard.first.contains("ROLE:bob") {
        true => limited("3600"),
        false => lead_of_bob(heard),
    });
    let room = TestEnv::new();
    let ran = service.run(&room, &["run", "have bob work"]);
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("team-lead says: Bob's model is unavailable."), "{}", ran.stderr);
    assert!(ran.stderr.contains("pitcrew run --resume work"), "{}", ran.stderr);
    assert_eq!(
        room.json(&["member", "list", "--team", "work"])["total"],
        2,
        "bob stays in the team"
    );
    let said = "bob is idle: the model asks to wait 3600 s, longer than the patience of 600 s allows: \
                anthropic limits the rate of requests: slow down. It is still on the team";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

/// Starts a run, waits until its log contains `said`, and interrupts the run.
fn interrupted_when(mut run: std::process::Command, room: &TestEnv, said: &str) -> Ran {
    let (log, out) = (room.temporary().join("log"), room.temporary().join("out"));
    run.stderr(fs::File::create(&log).unwrap())
        .stdout(fs::File::create(&out).unwrap())
        .stdin(Stdio::null());
    let mut run: Child = run.spawn().unwrap();
    let read = || fs::read_to_string(&log).unwrap();
    until(said, || read().contains(said).then_some(()), read);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let code = run.wait().unwrap().code().unwrap();
    Ran { code, stdout: fs::read_to_string(&out).unwrap(), stderr: read() }
}

#[test]
fn ctrl_c_cuts_the_wait_of_a_lead_and_of_a_teammate_off_at_once() {
    let service = Service::start(|_, _| limited("300"));
    let room = TestEnv::new();
    let run = service.command(&room, &["run", "do it"]);
    let ran = interrupted_when(run, &room, "team-lead waits 300 s for the model");
    assert_eq!(ran.code, 130, "{ran:?}");
    service.behave(|heard, _| match heard.first.contains("ROLE:bob") {
        true => limited("300"),
        false => lead_of_bob(heard),
    });
    let room = TestEnv::new();
    let run = service.command(&room, &["run", "have bob work"]);
    let ran = interrupted_when(run, &room, "bob waits 300 s for the model");
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(!ran.stderr.contains("did not shut down in time"), "{}", ran.stderr);
    service.behave(|heard, _| match heard.told.contains("bob is here") {
        _ if heard.first.contains("ROLE:bob") && heard.answers == 0 => call(
            "SendMessage",
            json!({"type": "message", "recipient": "team-lead", "content": "bob is here", "summary": "here"}),
        ),
        _ if heard.first.contains("ROLE:bob") => approval(heard).map_or(say("I have told it."), Reply::Say),
        true => say("Bob is here."),
        false => say("I wait for bob."),
    });
    let ran = service.run(&room, &["run", "--resume", "work"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Bob is here.\n"), "{ran:?}");
}

/// The context window of the models in `narrow`, in tokens of four characters.
const WINDOW: usize = 20_000;

/// Returns a service that answers as `behaviour` does, but refuses requests that are longer than
/// the context window. The refusal has the form of the Messages API.
fn narrow(
    behaviour: impl Fn(&Heard, &Value) -> Reply + Send + Sync,
) -> impl Fn(&Heard, &Value) -> Reply + Send + Sync {
    move |heard, body| {
        let tokens = body.to_string().len() / 4;
        if tokens > WINDOW {
            let message = format!("prompt is too long: {tokens} tokens > {WINDOW} maximum");
            let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
            return Reply::Refuse(400, None, error);
        }
        behaviour(heard, body)
    }
}

/// Whether a request asks for a summary. Such a request offers no tools.
fn is_for_a_summary(body: &Value) -> bool {
    body.get("tools").is_none_or(|tools| tools.as_array().is_some_and(Vec::is_empty))
}

/// Returns a number for each `n` below `count`: how many times the text `[number n]` is in a
/// request to bob's model. If the requests differ, it is the highest number. Requests for summaries
/// are left out.
fn seen_numbers(service: &Service, count: usize) -> Vec<usize> {
    let asked = service
        .seen()
        .into_iter()
        .filter(|body| heard(body).first.contains("ROLE:bob") && !is_for_a_summary(body));
    let asked: Vec<String> = asked.map(|body| body["messages"].to_string()).collect();
    let in_request = |n: &usize| {
        let number = format!("[number {n}]");
        asked.iter().map(|body| body.matches(&number).count()).max().unwrap_or(0)
    };
    (0..count).map(|n| in_request(&n)).collect()
}

/// Runs a lead that spawns bob. While bob waits for the file `go`, fills bob's inbox. Then lets the
/// run continue to its end.
fn backlog(service: &Service, room: &TestEnv, mail: &Value) -> Ran {
    let log = room.temporary().join("log");
    let mut run = service.command(room, &["run", "have bob read", "--yes"]);
    run.stderr(fs::File::create(&log).unwrap()).stdout(Stdio::piped()).stdin(Stdio::null());
    let run = run.spawn().unwrap();
    let read = || fs::read_to_string(&log).unwrap();
    until("bob works", || read().contains("bob Bash(until").then_some(()), read);
    let staged = room.root().join("staged.json");
    fs::write(&staged, mail.to_string()).unwrap();
    fs::rename(&staged, room.root().join("teams/work/inboxes/bob.json")).unwrap();
    fs::write(room.work().join("go"), "").unwrap();
    let output = run.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: read(),
    }
}

/// Answers as the model of bob. Bob first waits until the file `go` exists. Then bob reads the
/// messages in bob's inbox. When message number `last` has arrived, bob reports to the lead.
fn bob_reads(heard: &Heard, last: usize) -> Reply {
    let report = json!({"type": "message", "recipient": "team-lead", "content": "read to the end", "summary": "read"});
    let was_told_all = heard.told.contains(&format!("[number {last}]"));
    match approval(heard) {
        Some(approval) => Reply::Say(approval),
        None if heard.answers == 0 && !heard.told.contains("[number") => {
            call("Bash", json!({"command": "until [ -e go ]; do sleep 0.05; done"}))
        }
        None if was_told_all && !heard.called.contains("read to the end") => {
            call("SendMessage", report)
        }
        None => say("I have read that."),
    }
}

/// Answers as the model of a lead that makes bob read messages.
fn lead_of_a_reader(heard: &Heard) -> Reply {
    let spawn = json!({"name": "bob", "subagent_type": "general-purpose", "description": "read", "prompt": "ROLE:bob read"});
    match heard.answers {
        0 => call("Task", spawn),
        _ if heard.told.contains("read to the end") => say("Bob has read it all."),
        _ => say("I wait for bob."),
    }
}

#[test]
fn a_backlog_larger_than_the_window_is_read_in_portions_each_message_once() {
    const COUNT: usize = 100;
    let service = Service::start(narrow(|heard, body| match heard.first.contains("ROLE:bob") {
        _ if is_for_a_summary(body) => say("I was told to read what comes, and read some of it."),
        true => bob_reads(heard, COUNT - 1),
        false => lead_of_a_reader(heard),
    }));
    let room = TestEnv::new();
    settings(&room, &json!({"contextWindow": WINDOW}));
    let text = "some words ".repeat(900);
    let letter = |n: usize| json!({"from": "ann", "text": format!("[number {n}] {text}"), "timestamp": "2026-11-20T10:00:00.000Z", "read": false});
    let ran = backlog(&service, &room, &(0..COUNT).map(letter).collect());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Bob has read it all.\n"), "{ran:?}");
    assert_eq!(seen_numbers(&service, COUNT), vec![1; COUNT]);
}

#[test]
fn a_goal_and_a_result_larger_than_the_window_are_shortened_and_the_run_goes_on() {
    let service = Service::start(narrow(|heard, body| match heard.told.contains("xxxx") {
        _ if is_for_a_summary(body) => say("I read a long file: xxxx."),
        false => call("Bash", json!({"command": "head -c 29000 /dev/zero | tr '\\0' 'x'"})),
        true => say("I got through."),
    }));
    let room = TestEnv::new();
    // The settings claim a context window that is four times as large as the model's real context
    // window.
    settings(&room, &json!({"contextWindow": 4 * WINDOW}));
    let goal = "a long goal ".repeat(10_000);
    let ran = service.run(&room, &["run", &goal, "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I got through.\n"), "{ran:?}");
    let was_shortened =
        |body: &Value| body.to_string().contains("the conversation was longer than you can read");
    assert!(service.seen().iter().any(was_shortened));
}

#[test]
fn a_conversation_beyond_the_window_of_a_new_model_goes_on_when_it_is_resumed() {
    let service = Service::start(|heard, _| match heard.answers {
        0..=5 => call("Bash", json!({"command": "head -c 29000 /dev/zero | tr '\\0' 'y'"})),
        _ => limited("3600"),
    });
    let room = TestEnv::new();
    assert_eq!(service.run(&room, &["run", "read much", "--yes"]).code, 75);
    service.behave(narrow(|_, body| match is_for_a_summary(body) {
        true => say("I read much."),
        false => say("I got through."),
    }));
    settings(&room, &json!({"contextWindow": WINDOW}));
    let ran = service.run(&room, &["run", "--resume", "work"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I got through.\n"), "{ran:?}");
}

#[test]
fn a_lead_that_writes_the_same_file_again_and_again_is_told_and_ends_as_looping() {
    let service =
        Service::start(|_, _| call("Write", json!({"file_path": "a.txt", "content": "the same"})));
    let room = TestEnv::new();
    let ran = service.run(&room, &["run", "do it", "--permission-mode", "acceptEdits", "--json"]);
    assert_eq!(ran.code, 8, "{ran:?}");
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(said["end"], "looping", "{said:#}");
    assert_eq!(
        service.seen().len(),
        15,
        "the one that makes the file, ten more, three that need a yes, and the last"
    );
    let last = service.seen().pop().unwrap().to_string();
    assert!(last.contains("each time the result was the same"), "{last}");
}
