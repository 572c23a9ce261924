//! Teams without a host: the snapshot after a host that was killed, the end of a run from all
//! sources, and teams that another client leads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::browser::{Browser, Event, EventStream};
use super::{ASKS, Serving, question, serve};
use crate::detached::Detached;
use crate::test_env::{TestEnv, copy};

/// The script of a lead that ends its run although a task is open.
const STALLS: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait.}}]
    - wait_for: {contains: idle_notification}
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - text: It is done.
    - text: It is done, as I said.
  bob:
    - text: I wait.
";

/// The status and the reason of each agent by its name.
type Ends = BTreeMap<String, (Value, Value)>;

fn ends<'a>(agents: impl IntoIterator<Item = &'a Value>, status: &str) -> Ends {
    let end = |agent: &Value| {
        let name = agent["name"].as_str().unwrap().to_owned();
        (name, (agent[status].clone(), agent["reason"].clone()))
    };
    agents.into_iter().map(end).collect()
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn after_a_host_that_was_killed_a_stream_has_the_state_of_the_files() {
    let (detached, host) = Detached::start(ASKS, &[]);
    detached.until_log("bob is idle");
    let Serving { browser, process: server, .. } = serve(&detached.room);
    let mut stream = browser.events("work", None);
    question(&mut stream);
    kill(host, Signal::KILL);
    let last = stream.until(|event| event.name != "event");
    assert_eq!((last.name.as_str(), last.id.as_str()), ("snapshot", ""));
    assert_eq!(last.data["team"]["lead"], "team-lead");
    let of_lead = ends(last.data["team"]["agents"].as_array().unwrap(), "status");
    let lost = (json!("killed"), json!("its process ended in a turn; it can be resumed"));
    assert_eq!(of_lead["team-lead"], lost);
    assert_eq!(stream.next().unwrap().name, "gone");
    // A caller that comes later gets the same state.
    let mut later = browser.events("work", None);
    assert_eq!(later.next().unwrap().data, last.data);
    assert_eq!(later.next().unwrap().name, "gone");
    // The streams wait for the next run.
    let model = detached.room.script(ASKS);
    let again = ["run", "--resume", "work", "go on", "--detach", "--model", &model];
    detached.room.ok(&again);
    for waits in [&mut stream, &mut later] {
        let back = waits.next().unwrap();
        assert_eq!(back.name, "snapshot", "{back:?}");
        assert!(!back.id.is_empty());
    }
    drop(server);
}

#[test]
fn an_answer_that_a_suspended_host_did_not_take_has_no_effect_later() {
    let (detached, host) = Detached::start(ASKS, &[]);
    let Serving { browser, process: _server, .. } = serve(&detached.room);
    let mut stream = browser.events("work", None);
    let asked = question(&mut stream);
    let path = format!("/api/teams/work/questions/{}/answer", asked["id"].as_str().unwrap());
    let answer = |choice: Value| {
        let body = json!({"digest": asked["question"]["digest"], "choice": choice});
        browser.post(&path, &body)
    };
    kill(host, Signal::STOP);
    assert_eq!(answer(json!("once")).0, 503);
    kill(host, Signal::CONT);
    let (status, refused) = answer(json!({"no": {"reason": "changed my mind"}}));
    assert_eq!(status, 200, "{refused}");
    let closed = stream.until(|event| event.data["what"].get("question_closed").is_some());
    let closed = &closed.data["what"]["question_closed"]["closed"];
    assert_eq!(closed["answered"]["no"]["reason"], "changed my mind", "{closed}");
}

#[test]
fn a_server_that_was_suspended_while_the_team_ended_tells_the_end() {
    let (detached, host) = Detached::start(ASKS, &[]);
    let Serving { browser, process: server, .. } = serve(&detached.room);
    let mut stream = browser.events("work", None);
    question(&mut stream);
    server.signal(Signal::STOP);
    kill(host, Signal::KILL);
    detached.until_no_host();
    detached.room.ok(&["team", "delete", "work", "--force"]);
    server.signal(Signal::CONT);
    let last = stream.until(|event| event.name != "event");
    assert_eq!((last.name.as_str(), last.id.as_str()), ("snapshot", ""));
    let states = ends(last.data["team"]["agents"].as_array().unwrap(), "status");
    assert!(states.values().all(|(status, _)| status != "running"), "{states:?}");
    let end = stream.until(|event| event.name != "gone");
    assert_eq!((end.name.as_str(), end.id.as_str()), ("end", "end"));
    assert!(stream.next().is_none());
}

#[test]
fn a_stalled_run_has_the_same_end_wherever_it_is_shown() {
    let room = TestEnv::new();
    let model = room.script(STALLS);
    let args =
        ["run", "do it", "--team", "work", "--model", &model, "--yes", "--output-format", "json"];
    let told: Value = serde_json::from_str(&room.run(&args).stdout).unwrap();
    assert_eq!(told["end"], "stalled", "{told}");
    let live = ends(told["members"].as_array().unwrap(), "state");
    assert_eq!(live["bob"].0, "killed", "{told}");
    let Serving { browser, process: _server, .. } = serve(&room);
    let shown = browser.get("/api/teams/work").1;
    assert_eq!(ends(shown["team"]["agents"].as_array().unwrap(), "status"), live);
    assert_eq!(shown["team"]["lead"], "team-lead");
    let replay = browser.get("/api/teams/work/replay").1;
    let events = replay["events"].as_array().unwrap().iter();
    let mut agents: BTreeMap<&str, Value> = BTreeMap::new();
    let mut session = Value::Null;
    for changed in events.map(|event| &event["what"]["changed"]) {
        for agent in changed["agents"].as_array().into_iter().flatten() {
            let known = agents.entry(agent["name"].as_str().unwrap()).or_insert(json!({}));
            known.as_object_mut().unwrap().extend(agent.as_object().unwrap().clone());
        }
        if let Some(told) = changed["team"].get("session") {
            session = told.clone();
        }
    }
    assert_eq!(ends(agents.values(), "status"), live);
    assert_eq!(shown["team"]["session"], session);
    assert_eq!(session["outcome"], "stalled", "{session}");
    assert!(session["duration_ms"].is_u64() && session["models"][0].is_object(), "{session}");
    room.ok(&["export", "work", "--markdown", "run.md"]);
    let markdown = fs::read_to_string(room.work().join("run.md")).unwrap();
    assert!(markdown.contains("stopped: it was stopped, and can be resumed"), "{markdown}");
}

/// Lets a member leave. The client takes it out of the config, and its inbox away.
fn planner_leaves(root: &Path, browser: &Browser, stream: &mut EventStream) {
    let team = root.join("teams/probe");
    // All followers share what was read.
    let mut other = browser.events("probe", None);
    assert_eq!(other.next().unwrap().name, "snapshot");
    let config = team.join("config.json");
    let mut without: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    without["members"].as_array_mut().unwrap().truncate(1);
    fs::write(&config, without.to_string()).unwrap();
    fs::remove_file(team.join("inboxes/planner.json")).unwrap();
    let changed = stream.until(|event| {
        event.data["team"]["agents"]
            .as_array()
            .is_some_and(|it| it.len() == 2 && it[1]["status"] == "completed")
    });
    assert_eq!(changed.data["team"]["agents"][1]["name"], "planner");
    other.until(|event| event.data == changed.data);
    let replay = browser.get("/api/teams/probe/replay").1.to_string();
    assert!(
        replay.contains("awaiting_plan_approval") && replay.contains("make a plan"),
        "{replay}"
    );
    let unread = browser.get("/api/teams/probe/members/planner/conversation").1;
    assert_eq!(unread["message"], "no conversation of 'planner' is recorded");
}

#[test]
fn a_team_that_another_client_leads_is_followed_by_its_files() {
    let room = TestEnv::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    copy(&fixtures.join("claude-2.1.39/plan-approval"), &room.root());
    let Serving { browser, process: _server, .. } = serve(&room);
    let words = "led by another client, which does not say whether it runs";
    let shown = browser.get("/api/teams/probe").1;
    assert_eq!((&shown["state"], &shown["running_in_words"]), (&json!("unknown"), &json!(words)));
    assert_eq!(browser.get("/api/teams").1["teams"][0]["state"], "unknown");
    let metrics = browser.text("/metrics");
    for line in ["pitcrew_teams{state=\"unknown\"} 1", "pitcrew_teams{state=\"stopped\"} 0"] {
        assert!(metrics.lines().any(|it| it == line), "{metrics}");
    }
    let (status, refused) =
        browser.post("/api/teams/probe/members/planner/interrupt", &Value::Null);
    let said =
        format!("team 'probe' is {words}, and only a pitcrew process that runs a team can do this");
    assert_eq!((status, &refused["message"]), (503, &json!(said)), "{refused}");
    let mut stream = browser.events("probe", None);
    let first = stream.next().unwrap();
    assert_eq!((first.name.as_str(), first.id.as_str()), ("snapshot", ""));
    assert_eq!(first.data["running"], json!({"state": "unknown"}));
    assert_eq!(first.data["running_in_words"], words);
    let states = |event: &Value| ends(event["team"]["agents"].as_array().unwrap(), "status");
    assert_eq!(states(&first.data)["planner"].0, "awaiting_plan_approval");
    let inbox = |name: &str| room.root().join(format!("teams/probe/inboxes/{name}.json"));
    // Today's client takes out what it has read, and the server has seen it before.
    fs::write(inbox("team-lead"), "[]").unwrap();
    let plan = "plan_approval-1795175700912@planner@probe";
    let now = browser.get("/api/teams/probe").1;
    assert_eq!(states(&now)["planner"].0, "awaiting_plan_approval");
    let replay = browser.get("/api/teams/probe/replay").1;
    assert!(replay.to_string().contains("awaiting_plan_approval"), "{replay}");
    let log = browser.get("/api/teams/probe/log").1;
    assert!(log.to_string().contains("do it all"), "{log}");
    let (at, lead) = ("2026-11-20T11:55:02.000Z", "team-lead");
    let approval = json!({"type": "plan_approval_response", "requestId": plan, "approved": true, "timestamp": at});
    let mail =
        json!([{"from": lead, "text": approval.to_string(), "timestamp": at, "read": false}]);
    fs::write(inbox("planner"), mail.to_string()).unwrap();
    let changed = stream.until(|event| states(&event.data)["planner"].0 == "idle");
    assert_eq!(changed.name, "snapshot");
    let config = room.root().join("teams/probe/config.json");
    let now_active = |is_active: bool| {
        let text = fs::read_to_string(&config).unwrap();
        let (was, now) = (!is_active, is_active);
        let text = text.replace(&format!("\"isActive\": {was}"), &format!("\"isActive\": {now}"));
        fs::write(config.with_extension("new"), text).unwrap();
        fs::rename(config.with_extension("new"), &config).unwrap();
    };
    let began = Instant::now();
    for is_active in [true, false, true] {
        now_active(is_active);
        let wanted = if is_active { "running" } else { "idle" };
        let changed = stream.until(|event| states(&event.data)["planner"].0 == wanted);
        assert_eq!(changed.name, "snapshot");
    }
    planner_leaves(&room.root(), &browser, &mut stream);
    assert!(began.elapsed() > Duration::from_millis(500), "at most four snapshots a second");
    room.ok(&["team", "delete", "probe", "--force"]);
    // A read in the middle of the deletion finds nobody who leads the team.
    let is_news = |event: &Event| !["snapshot", "gone"].contains(&event.name.as_str());
    assert_eq!(stream.until(is_news).name, "end");
}
