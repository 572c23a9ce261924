//! `pitcrew serve`: the HTTP API of teams that really run.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agent_screen::followed::has_form;
use crate::detached::Detached;
use crate::for_the_lead::planners;
use crate::patience::until;
use crate::running::Running;
use crate::test_env::TestEnv;

mod browser;
mod elsewhere;
mod without_host;

use browser::{Browser, EventStream};

/// The script of a lead whose first act needs a permission, and of a teammate that waits for mail.
const ASKS: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait.}}]
    - tools: [{name: Write, input: {file_path: it, content: "written\n"}}]
    - tools: [{name: Bash, input: {command: sleep 600}}]
  bob:
    - text: I wait.
    - wait_for: {contains: begin}
    - text: I began.
  eve:
    - text: I wait.
    - wait_for: {contains: never}
"#;

/// The script of a lead whose teammate writes one message and leaves.
const SHORT: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Write, prompt: Write.}}]
    - wait_for: {contains: hello}
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob, content: Done.}}]
    - wait_for: {matches: 'bob[^\n]*(has shut down|terminated)'}
    - text: Done.
  bob:
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: hello, summary: done}}]
    - text: Done.
    - wait_for: {contains: '"type":"shutdown_request"'}
    - capture:
        request: {from: message, regex: '"requestId":"(shutdown-[^"]+)"'}
      tools: [{name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}]
"#;

/// A server of a test environment.
pub(crate) struct Serving {
    process: Running,
    pub(crate) browser: Browser,
    pub(crate) said: Value,
}

pub(crate) fn serve(room: &TestEnv) -> Serving {
    let mut process = Running::answering(&mut room.command(&["serve", "--port", "0", "--json"]));
    let said: Value = serde_json::from_str(&process.line()).unwrap();
    let token = fs::read_to_string(said["token_file"].as_str().unwrap()).unwrap();
    let browser = Browser::new(said["url"].as_str().unwrap(), &token);
    Serving { process, browser, said }
}

#[test]
fn a_server_says_where_it_is_and_ends_with_ctrl_c() {
    let room = TestEnv::new();
    let Serving { process, browser, said } = serve(&room);
    let file = said["token_file"].as_str().unwrap();
    assert_eq!(file, room.root().join("pitcrew/web/token").to_str().unwrap());
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(said["link"].as_str().unwrap().starts_with(said["url"].as_str().unwrap()), "{said}");
    assert_eq!(browser.get("/api/teams"), (200, json!({"teams": []})));
    // An open stream does not keep the server.
    room.ok(&["team", "create", "work"]);
    let mut stream = browser.events("work", None);
    assert_eq!(stream.next().unwrap().name, "snapshot");
    let port = browser.port().to_string();
    let second = room.run(&["serve", "--port", &port]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(
        second.stderr.contains("hint: `pitcrew serve --port 0` takes a free port"),
        "{second:?}"
    );
    process.signal(Signal::INT);
    assert_eq!(process.ended().0, Some(0));
    let found = room.json(&["doctor"]);
    assert_eq!(found["findings"], json!([]), "{found:#}");
}

#[test]
fn the_events_of_a_run_go_on_after_a_dropped_stream_and_none_is_lost_or_doubled() {
    let (detached, _) = Detached::start(ASKS, &[]);
    let serving = serve(&detached.room);
    let browser = &serving.browser;
    let mut whole = browser.events("work", None);
    let first = whole.next().unwrap();
    assert_eq!(first.name, "snapshot");
    let (run, last) = first.id.rsplit_once(':').unwrap();
    let next = first.data["next_seq"].as_i64().unwrap();
    assert_eq!(last.parse::<i64>().unwrap(), next - 1, "{}", first.id);
    // This stream is dropped after each event, and opened again after it.
    let (mut last_id, mut got) = (first.id.clone(), Vec::new());
    let sent = browser.post("/api/teams/work/messages", &json!({"to": "bob", "content": "begin"}));
    assert_eq!(sent.0, 201, "{}", sent.1);
    let is_delivery =
        |event: &browser::Event| event.data["what"]["run"]["event"] == "mail_delivered";
    while got.len() < 12 || !got.iter().any(is_delivery) {
        // Each task is an event, so that there is always another one.
        let task = json!({"subject": format!("task {}", got.len()), "description": "do it"});
        assert_eq!(browser.post("/api/teams/work/tasks", &task).0, 201);
        let mut dropped = browser.events("work", Some(&last_id));
        let event = dropped.next().unwrap();
        assert_eq!(event.name, "event", "{event:?}");
        last_id.clone_from(&event.id);
        got.push(event);
    }
    for (number, event) in (next..).zip(&got) {
        assert_eq!(event.data["seq"], number);
        assert_eq!(event.id, format!("{run}:{number}"));
        let other = whole.next().unwrap();
        assert_eq!((&other.id, &other.data), (&event.id, &event.data));
    }
    // A place of another run means nothing here.
    let mut other = browser.events("work", Some("another-run:3"));
    assert_eq!(other.next().unwrap().name, "snapshot");
}

#[test]
fn a_device_watches_a_run_until_it_is_removed() {
    let (detached, _) = Detached::start(ASKS, &[]);
    let (room, serving) = (&detached.room, serve(&detached.room));
    let add = ["devices", "add", "--name", "phone", "--scope", "watch"];
    // The command finds the server that runs.
    let added = room.json(&add);
    let url = serving.said["url"].as_str().unwrap();
    assert_eq!(added["url"], url);
    let code = added["code"].as_str().unwrap();
    assert_eq!(added["link"], format!("{url}/pair/{code}"));
    assert_eq!(room.run(&add).code, 4, "the name is taken");
    let listed = room.json(&["devices"]);
    assert_eq!((&listed["codes"][0]["name"], &listed["devices"]), (&json!("phone"), &json!([])));
    assert!(room.ok(&["devices"]).stdout.contains("its code waits until"));
    let (status, paired) = serving.browser.post("/pair", &json!({"code": code}));
    assert_eq!(status, 201, "{paired}");
    let phone = Browser::new(url, paired["token"].as_str().unwrap());
    let mut stream = phone.events("work", None);
    assert_eq!(stream.next().unwrap().name, "snapshot");
    let message = json!({"to": "team-lead", "content": "begin"});
    let (status, refused) = phone.post("/api/teams/work/messages", &message);
    assert_eq!((status, &refused["details"]["needed_scope"]), (403, &json!("answer")));
    let listed = room.json(&["devices"]);
    assert_eq!(listed["devices"][0]["name"], "phone", "{listed}");
    assert_eq!(listed["codes"], json!([]), "{listed}");
    assert_eq!(listed["devices"][0]["scope"], "watch", "{listed}");
    room.ok(&["devices", "remove", "phone"]);
    assert_eq!(phone.get("/api/teams").0, 401);
    while stream.next().is_some() {}
    let missing = room.run(&["devices", "remove", "phone"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert_eq!(serving.browser.get("/api/teams").0, 200);
}

#[test]
fn a_stream_says_when_the_host_is_gone_and_goes_on_with_the_next_run() {
    let (detached, _) = Detached::start(ASKS, &[]);
    let serving = serve(&detached.room);
    let mut stream = serving.browser.events("work", None);
    assert_eq!(stream.next().unwrap().name, "snapshot");
    assert_eq!(serving.browser.post("/api/teams/work/stop", &json!({})).0, 200);
    let ended = stream.until(|event| event.data["what"]["ended"].is_object());
    assert_eq!(ended.name, "event");
    assert_eq!(stream.until(|event| event.name != "event").name, "gone");
    detached.until_no_host();
    // A change of the team's files is no reason to say it again.
    for to in ["bob", "team-lead"] {
        let message = json!({"to": to, "content": "begin"});
        assert_eq!(serving.browser.post("/api/teams/work/messages", &message).0, 201);
    }
    detached.room.ok(&["run", "--resume", "work", "--detach"]);
    assert_eq!(stream.next().unwrap().name, "snapshot");
    assert_eq!(serving.browser.post("/api/teams/work/stop", &json!({})).0, 200);
    stream.until(|event| event.name == "gone");
    detached.until_no_host();
}

/// Waits for an event of the stream that opens a question, or finds the question in the snapshot.
fn question(stream: &mut EventStream) -> Value {
    let of = |event: &browser::Event| match event.name.as_str() {
        "snapshot" => event.data["questions"][0].clone(),
        _ => event.data["what"]["question_opened"].clone(),
    };
    let event = stream.until(|event| of(event).is_object());
    of(&event)
}

#[test]
fn a_question_is_answered_once_and_only_as_it_was_shown() {
    let (detached, _) = Detached::start(ASKS, &[]);
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    let mut stream = browser.events("work", None);
    let question = question(&mut stream);
    assert_eq!(question["input"]["content"], "written\n");
    let listed = browser.get("/api/teams/work/questions");
    assert_eq!(listed, (200, json!({"questions": [question]})));
    let row = || browser.get("/api/teams").1["teams"][0].clone();
    assert_eq!(row()["waiting"], 1, "the list of teams says that this one waits");
    let id = question["id"].as_str().unwrap();
    let path = format!("/api/teams/work/questions/{id}/answer");
    let blind = browser.post(&path, &json!({"digest": "0000", "choice": "once"}));
    assert_eq!((blind.0, &blind.1["error"]), (400, &json!("invalid_status")), "{}", blind.1);
    let digest = &question["question"]["digest"];
    let maybe = browser.post(&path, &json!({"digest": digest, "choice": "maybe"}));
    assert_eq!((maybe.0, &maybe.1["error"]), (400, &json!("invalid_request")), "{}", maybe.1);
    assert!(!detached.room.work().join("it").exists());
    let answer = json!({"digest": digest, "choice": "once"});
    assert_eq!(browser.post(&path, &answer).0, 200);
    let closed = stream.until(|event| event.data["what"]["question_closed"].is_object());
    let closed = &closed.data["what"]["question_closed"];
    assert_eq!(closed, &json!({"id": id, "closed": {"answered": "once"}}));
    // The run may have ended meanwhile, and then there is no such number.
    assert_ne!(row()["waiting"], 1);
    let written = || fs::read_to_string(detached.room.work().join("it")).ok();
    until("the file is written", || written().filter(|it| it == "written\n"), String::new);
    let late = browser.post(&path, &answer);
    assert_eq!((late.0, &late.1["error"]), (400, &json!("invalid_status")), "{}", late.1);
}

#[test]
fn the_metrics_have_the_question_and_the_agents_of_a_running_team() {
    let (detached, _) = Detached::start(ASKS, &[]);
    detached.until_log("bob is idle");
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    let metrics = || browser.text("/metrics");
    let until_all = |lines: &[&str]| {
        let is_so = |text: &String| lines.iter().all(|wanted| text.lines().any(|it| it == *wanted));
        until("the metrics", || Some(metrics()).filter(is_so), metrics);
    };
    let mut stream = browser.events("work", None);
    question(&mut stream);
    until_all(&[
        "pitcrew_teams{state=\"running\"} 1",
        "pitcrew_agents{team=\"work\",state=\"running\"} 1",
        "pitcrew_agents{team=\"work\",state=\"idle\"} 1",
        "pitcrew_open_questions{team=\"work\"} 1",
        "pitcrew_open_event_streams 1",
    ]);
    let waits = "pitcrew_oldest_question_seconds{team=\"work\"} ";
    let text = metrics();
    let age = text.lines().find_map(|line| line.strip_prefix(waits)).unwrap();
    assert!(age.parse::<f64>().unwrap() > 0.0, "{age}");
    drop(stream);
    until_all(&["pitcrew_open_event_streams 0"]);
}

#[test]
fn a_suspended_host_is_said_to_be_silent() {
    let (detached, host) = Detached::start(ASKS, &[]);
    detached.until_log("bob is idle");
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    let mut open = browser.events("work", None);
    question(&mut open);
    let metrics = || browser.text("/metrics");
    let is_silent = |text: &String| text.lines().any(|line| line == "pitcrew_hosts_silent 1");
    let host = Pid::from_raw(host.cast_signed()).unwrap();
    kill_process(host, Signal::STOP).unwrap();
    let began = Instant::now();
    let mut opened_now = browser.events("work", None);
    assert!(began.elapsed() < Duration::from_secs(3), "the head of the answer comes at once");
    let text = until("the silence", || Some(metrics()).filter(is_silent), metrics);
    // The files do not know the question that waits.
    assert!(!text.contains("pitcrew_open_questions{"), "{text}");
    assert!(!text.contains("pitcrew_oldest_question_seconds{"), "{text}");
    let (status, answer) = browser.get("/api/teams/work");
    assert_eq!((status, &answer["error"]), (503, &json!("not_running")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("may be suspended"), "{answer}");
    let (_, listed) = browser.get("/api/teams");
    let row = &listed["teams"][0];
    assert_eq!((&row["state"], &row["waiting"]), (&json!("running"), &Value::Null), "{row}");
    let mut streams = [&mut open, &mut opened_now];
    for stream in &mut streams {
        let silent = stream.until(|event| event.name != "event");
        assert_eq!((silent.name.as_str(), &silent.data), ("silent", &answer));
    }
    kill_process(host, Signal::CONT).unwrap();
    for stream in &mut streams {
        // The silence is told once, and the host's state follows.
        let back = stream.next().unwrap();
        assert_eq!(back.name, "snapshot", "{back:?}");
        assert!(back.data["questions"][0].is_object(), "{back:?}");
    }
    let is_back = |text: &String| text.contains("pitcrew_open_questions{team=\"work\"} 1");
    until("the host", || Some(metrics()).filter(is_back), metrics);
    assert_eq!(browser.get("/api/teams/work").0, 200);
}

#[test]
fn reads_of_a_team_answer_while_it_begins_and_while_it_moves_to_the_archive() {
    let room = TestEnv::new();
    let Serving { browser, process: _server, .. } = serve(&room);
    let model = room.script(SHORT);
    let is_over = AtomicBool::new(false);
    let read = &|part: &str| {
        let path = format!("/api/teams/short{part}");
        let mut is_there = false;
        while !is_over.load(Ordering::Relaxed) {
            let (status, answer) = browser.get(&path);
            is_there |= status == 200;
            assert!(status == 200 || !is_there, "{path}: {status} {answer}");
        }
        assert!(is_there, "{path}");
    };
    let ran = thread::scope(|scope| {
        for part in ["", "/log", "/plans", "/messages", "/members"] {
            scope.spawn(move || read(part));
        }
        let ran = room.run(&["run", "try it", "--team", "short", "--model", &model, "--yes"]);
        is_over.store(true, Ordering::Relaxed);
        ran
    });
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_person_controls_the_members_of_a_running_team() {
    let (detached, _) = Detached::start(ASKS, &[]);
    detached.until_log("bob is idle");
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    let of_bob = "/api/teams/work/members/bob";
    let done = |path: &str, body: Value| {
        let (status, answer) = browser.post(path, &body);
        assert_eq!((status, &answer["success"]), (200, &json!(true)), "{path}: {answer}");
    };
    done(&format!("{of_bob}/mode"), json!({"mode": "plan"}));
    done(&format!("{of_bob}/interrupt"), json!({}));
    let refused = browser.post(&format!("{of_bob}/mode"), &json!({"mode": "god"}));
    assert_eq!((refused.0, &refused.1["error"]), (400, &json!("invalid_request")), "{}", refused.1);
    let model = browser.post(&format!("{of_bob}/model"), &json!({"model": "of tomorrow"}));
    assert_eq!(model.0, 400, "{}", model.1);
    let pane = browser.post(&format!("{of_bob}/hide_pane"), &json!({}));
    assert_eq!((pane.0, &pane.1["error"]), (400, &json!("invalid_status")), "{}", pane.1);
    let nobody = browser.post("/api/teams/work/members/zoe/stop", &json!({}));
    assert_eq!((nobody.0, &nobody.1["error"]), (404, &json!("agent_not_found")), "{}", nobody.1);
    let eve = json!({"name": "eve", "subagent_type": "general-purpose", "description": "wait", "prompt": "Wait."});
    let spawned = browser.post("/api/teams/work/members", &eve);
    assert_eq!((spawned.0, &spawned.1["agent_id"]), (201, &json!("eve@work")), "{}", spawned.1);
    let (_, shown) = browser.get("/api/teams/work");
    assert_eq!(
        (&shown["state"], &shown["running"]["state"]),
        (&json!("running"), &json!("by_pitcrew"))
    );
    let (status, permissions) = browser.get("/api/teams/work/permissions");
    assert_eq!((status, &permissions["granted"]), (200, &json!([])), "{permissions}");
    assert_eq!(permissions["answers"], "person", "{permissions}");
    let names: BTreeSet<&str> = shown["team"]["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert!(names.is_superset(&["team-lead", "bob", "eve"].into()), "{names:?}");
    let talk = browser.get(&format!("{of_bob}/conversation"));
    assert!(talk.1["entries"].to_string().contains("I wait."), "{}", talk.1);
    done("/api/teams/work/members/eve/stop", json!({}));
    let deleted = browser.send("DELETE", "/api/teams/work", None, &[]);
    assert_eq!((deleted.0, &deleted.1["error"]), (400, &json!("invalid_status")), "{}", deleted.1);
    done("/api/teams/work/stop", json!({}));
    detached.until_no_host();
    assert_eq!(browser.get("/api/teams/work").1["state"], "stopped");
}

#[test]
fn a_plan_is_sent_back_with_a_remark_and_then_approved() {
    let (detached, _) = Detached::start(&planners(), &["--yes"]);
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    let waiting = || {
        let (_, plans) = browser.get("/api/teams/work/plans");
        let plans = plans["plans"].as_array().unwrap().clone();
        plans.into_iter().find(|plan| plan["state"] == "open")
    };
    let answered = |approve: bool| {
        let plan =
            until("a plan waits", waiting, || browser.get("/api/teams/work/plans").1.to_string());
        let path = format!("/api/teams/work/plans/{}", plan["request_id"].as_str().unwrap());
        let feedback = (!approve).then_some("leave the name");
        let body = json!({"member": "bob", "approve": approve, "feedback": feedback});
        let (status, answer) = browser.post(&path, &body);
        assert_eq!(status, 200, "{answer}");
        plan["plan"].as_str().unwrap().to_owned()
    };
    assert_eq!(answered(false), "1. Rename it.");
    assert_eq!(answered(true), "1. Leave the name.");
    let carried_out = || detached.room.work().join("carried-out").exists().then_some(());
    until("the plan is carried out", carried_out, String::new);
    let (_, plans) = browser.get("/api/teams/work/plans");
    assert_eq!(plans["plans"][0]["feedback"], "leave the name", "{plans}");
}

/// A program that calls the API with the token, as an agent's command can read it.
const CALL: &str = "import json, sys, urllib.error, urllib.request
url, token = sys.argv[1:]
headers = {'Authorization': 'Bearer ' + token, 'Content-Type': 'application/json'}
for method, path in [('GET', '/api/teams'), ('POST', '/api/teams/work/stop')]:
    request = urllib.request.Request(url + path, headers=headers, method=method)
    try:
        print(urllib.request.urlopen(request).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
";

#[test]
fn a_tool_of_an_agent_is_refused_although_it_knows_the_token() {
    let room = TestEnv::new();
    let Serving { said, process: _server, .. } = serve(&room);
    let token = fs::read_to_string(said["token_file"].as_str().unwrap()).unwrap();
    fs::write(room.work().join("call.py"), CALL).unwrap();
    let url = said["url"].as_str().unwrap();
    let call = format!("python3 call.py {url} {token} >said 2>&1");
    let pitcrew = env!("CARGO_BIN_EXE_pitcrew");
    let serves = format!("{pitcrew} --root {} serve --port 0 >served 2>&1", room.root().display());
    let script = format!(
        "agents:\n  team-lead:\n    - tools: [{{name: Bash, input: {{command: '{call}'}}}}]\n    \
         - tools: [{{name: Bash, input: {{command: '{serves}'}}}}]\n    - text: I tried.\n"
    );
    let model = room.script(&script);
    room.ok(&["run", "try it", "--team", "work", "--model", &model, "--yes"]);
    let said = fs::read_to_string(room.work().join("said")).unwrap();
    assert_eq!(said.matches("was started by a tool of an agent").count(), 2, "{said}");
    assert_eq!(said.matches("403 ").count(), 2, "{said}");
    let served = fs::read_to_string(room.work().join("served")).unwrap();
    assert!(served.contains("only the user may serve the teams"), "{served}");
}

#[test]
fn the_examples_of_the_page_on_the_api_are_played() {
    let (detached, _) = Detached::start(ASKS, &[]);
    detached.until_log("bob is idle");
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    question(&mut browser.events("work", None));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```api\n").skip(1).map(|block| block.split("```").next().unwrap());
    let (mut answer, mut played) = (None, 0);
    for line in blocks.flat_map(str::lines) {
        let (mark, rest) = line.split_once(' ').unwrap();
        if mark == ">" {
            let mut words = rest.splitn(3, ' ');
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let body: Option<Value> = words.next().map(|body| serde_json::from_str(body).unwrap());
            answer = Some(browser.send(method, path, body.as_ref(), &[]));
            continue;
        }
        let (status, shown) = rest.split_once(' ').unwrap();
        let (said_status, said) = answer.take().unwrap();
        let shown: Value = serde_json::from_str(shown).unwrap();
        assert_eq!(said_status, status.parse::<u16>().unwrap(), "{line}\n{said}");
        assert!(has_form(&shown, &said), "the page: {line}\nthe server: {said}");
        played += 1;
    }
    assert_eq!(played, 11);
}
