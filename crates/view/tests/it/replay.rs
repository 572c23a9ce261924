//! Tests replays: after each event, the fields that the events told are those of the fold.

use pitcrew_team::TeamRecords;
use pitcrew_view::TeamState;
use pitcrew_view::client_stream::ClientStream;
use pitcrew_view::host::What;
use pitcrew_view::recorded::Recorded;
use pitcrew_view::replay::{Clock, Replay, StreamReplay};
use serde_json::{Map, Value, json};

use crate::host_env::{Hosted, PAUSE, in_time, opened};
use crate::script::name;

const GUIDE: &str = include_str!("recordings/stream-guide.ndjson");
const LIFECYCLE: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson");
const ERRORS: &str =
    include_str!("../../../../fixtures/claude-2.1.39/stream-json/errors-and-duplicates.ndjson");

/// A lead with a teammate: a task, a message, tool calls and an answer of each.
const TEAM: &str = r#"
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Write the notes, description: All of them.}}]
    - tools: [{name: Task, input: {description: write, prompt: Write the notes., name: bob, subagent_type: general-purpose}}]
    - wait_for: {contains: All is written, from: message}
    - text: The notes are written.
  bob:
    - tools: [{name: TaskUpdate, input: {taskId: "1", status: in_progress, owner: bob}}]
    - tools: [{name: TaskUpdate, input: {taskId: "1", status: completed}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: All is written., summary: done}}]
    - text: Done.
"#;

/// What a user interface makes of the events: it puts the fields in their places.
#[derive(Default)]
struct Face {
    team: Map<String, Value>,
    agents: Vec<Map<String, Value>>,
    tasks: Vec<Value>,
    entries: Vec<Value>,
    parts: Vec<(Value, Value)>,
}

impl Face {
    fn after(events: &[Value]) -> Self {
        let mut face = Self::default();
        events.iter().for_each(|event| face.add(&event["what"]));
        face
    }

    fn add(&mut self, what: &Value) {
        let (kind, told) = what.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "changed" => self.change(told),
            "happened" => self.entries.push(told.clone()),
            "part" => self.parts.push((told["agent"].clone(), told["part"].clone())),
            "call" => {
                let of_agent = self.parts.iter_mut().filter(|(agent, _)| *agent == told["agent"]);
                let n = told["n"].as_u64().unwrap().try_into().unwrap();
                let (_, part) = of_agent.into_iter().nth(n).unwrap();
                part.as_object_mut().unwrap().extend(told["fields"].as_object().unwrap().clone());
            }
            other => panic!("{other}"),
        }
    }

    fn change(&mut self, told: &Value) {
        let list = |name: &str| told[name].as_array().cloned().unwrap_or_default();
        self.team.extend(told["team"].as_object().cloned().unwrap_or_default());
        for fields in list("agents") {
            let known = self.agents.iter_mut().find(|agent| agent["name"] == fields["name"]);
            match known {
                Some(agent) => agent.extend(fields.as_object().unwrap().clone()),
                None => self.agents.push(fields.as_object().unwrap().clone()),
            }
        }
        if let Some(order) = told["order"].as_array() {
            let of =
                |name: &Value| self.agents.iter().find(|agent| agent["name"] == *name).unwrap();
            self.agents = order.iter().map(of).cloned().collect();
        }
        self.tasks.retain(|task| !list("tasks_gone").contains(&task["id"]));
        for task in list("tasks") {
            self.tasks.retain(|known| known["id"] != task["id"]);
            self.tasks.push(task);
        }
        let number = |task: &Value| task["id"].as_str().unwrap().parse::<u64>().unwrap();
        self.tasks.sort_by_key(number);
    }

    #[track_caller]
    fn is(&self, state: &TeamState) {
        let state = json!(state);
        assert_eq!(json!(self.agents), state["agents"]);
        assert_eq!(json!(self.tasks), state["tasks"]);
        for field in ["team", "lead", "cleanup", "session"] {
            let told = self.team.get(field).unwrap_or(&Value::Null);
            assert!(*told == state[field] || state[field] == "", "{field}: {told}");
        }
        assert_eq!(json!(self.entries), state["timeline"]["entries"]);
    }
}

fn events_of(replay: &Replay) -> Vec<Value> {
    replay.events.iter().map(|event| json!(event)).collect()
}

#[test]
fn after_each_line_of_a_stream_the_replay_is_the_state() {
    for stream in [GUIDE, LIFECYCLE, ERRORS] {
        let (mut reader, mut state) = (ClientStream::with_conversations(), TeamState::default());
        let mut replay = StreamReplay::new("session.ndjson", Clock::Lines);
        let mut face = Face::default();
        let mut seq = 0;
        for line in stream.lines() {
            let line = format!("{line}\n");
            reader.feed(&mut state, line.as_bytes());
            replay.feed(line.as_bytes(), 0);
            replay.since(seq).for_each(|event| face.add(&json!(event)["what"]));
            seq = replay.next_seq();
            face.is(&state);
        }
        let whole = replay.replay();
        assert_eq!(json!(replay), json!(whole), "it is written as a whole replay");
        assert_eq!((whole.left_out, whole.from_ms), (0, 1_000));
        assert_eq!(whole.to_ms, 1_000 * i64::try_from(stream.lines().count()).unwrap());
        for agent in &state.agents {
            let Some((talk, _)) = reader.conversation(&agent.name) else { continue };
            let of_agent = face.parts.iter().filter(|(of, _)| *of == json!(agent.name));
            let parts: Vec<Value> = of_agent.map(|(_, part)| part.clone()).collect();
            assert_eq!(json!(parts), json!(talk.parts), "{}", agent.name);
        }
    }
}

#[test]
fn bytes_in_pieces_lead_to_the_same_events() {
    let whole = |piece: usize| {
        let mut replay = StreamReplay::new("s", Clock::Lines);
        LIFECYCLE.as_bytes().chunks(piece).for_each(|bytes| replay.feed(bytes, 0));
        replay.finish(0);
        events_of(&replay.replay())
    };
    assert_eq!(whole(7), whole(usize::MAX));
}

#[test]
fn a_followed_stream_has_the_times_that_the_caller_gives() {
    let mut replay = StreamReplay::new("-", Clock::Recorded);
    // The clock is set back between the second line and the third.
    for (line, now_ms) in GUIDE.lines().zip([5_000, 9_000, 8_000]) {
        replay.feed(format!("{line}\n").as_bytes(), now_ms);
    }
    let replay = replay.replay();
    let times: Vec<i64> = replay.events.iter().map(|event| event.at_ms).collect();
    assert_eq!((times.first(), times.last()), (Some(&5_000), Some(&9_001)));
    // Lines that come at once keep their order.
    assert!(times.is_sorted() && times.contains(&9_000));
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_long_texts_are_shortened() {
    let text = "x".repeat(100_000);
    let said = json!({"type": "assistant", "message": {"id": "m", "role": "assistant",
        "model": "opus", "content": [{"type": "text", "text": text}]}});
    let mut replay = StreamReplay::new("s", Clock::Lines);
    replay.feed(format!("{said}\nnot json\n{{\"type\":").as_bytes(), 0);
    replay.finish(0);
    let replay = replay.replay();
    assert_eq!(replay.unread, ["3 lines read, 1 of them unreadable, 1 of them incomplete"]);
    let bytes = json!(replay).to_string().len();
    assert!(bytes < 50_000, "{bytes}");
}

#[tokio::test]
async fn the_replay_of_a_team_ends_in_the_state_of_its_records() {
    let mut hosted = Hosted::start(TEAM).await;
    hosted.until(|what| matches!(what, What::Ended(_))).await;
    let records = TeamRecords::Live(hosted.team_elsewhere().await);
    let recorded = Recorded::read(&records).await.unwrap();
    let replay = Replay::of_records(&records).await.unwrap();
    assert_eq!((replay.name.as_str(), replay.clock), ("probe", Clock::Recorded));
    assert_eq!(replay.unread, Vec::<String>::new());
    let events = events_of(&replay);
    let end = Face::after(&events);
    let state = json!(recorded.state);
    assert_eq!(json!(end.agents), state["agents"]);
    assert_eq!(json!(end.tasks), state["tasks"]);
    assert_eq!(json!(end.team["session"]), state["session"]);
    let told = end.entries.iter().filter(|it| it["what"]["kind"] != "state");
    assert!(told.count() > recorded.state.timeline.entries().len() / 2);
    let agents_said = end.parts.iter().filter(|(_, part)| part["part"] == "text");
    let texts: Vec<&Value> = agents_said.map(|(_, part)| &part["text"]).collect();
    for text in ["The notes are written.", "Done."] {
        assert!(texts.contains(&&json!(text)), "{text} in {texts:?}");
    }

    // Before its claim the task was free, and before its spawn bob was not there.
    let changes = |at: usize| Face::after(&events[..at]);
    let faces: Vec<Face> = (0..events.len()).map(changes).collect();
    let states = |face: &Face| face.tasks.first().map(|task| task["status"].clone());
    let mut seen: Vec<Value> = faces.iter().filter_map(states).collect();
    seen.dedup();
    assert_eq!(json!(seen), json!(["pending", "in_progress", "completed"]));
    let of_bob = |face: &&Face| face.agents.iter().any(|agent| agent["name"] == "bob");
    let first = faces.iter().find(of_bob).unwrap();
    let bob = first.agents.iter().find(|agent| agent["name"] == "bob").unwrap();
    assert_eq!((&bob["status"], &bob["turns"]), (&json!("pending"), &json!(0)));
    assert!(recorded.state.agent(&name("bob")).unwrap().turns >= 4);
}

#[tokio::test]
async fn a_replay_has_the_mode_in_which_a_member_began_and_each_later_one() {
    const PLANS: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: ann, description: Wait, prompt: Wait., mode: default}}
        - {name: Task, input: {name: ben, description: Plan, prompt: Plan it., mode: plan}}
    - wait_for: {contains: plan_approval_request, from: message}
    - capture:
        request: {regex: '"requestId":\s*"(plan_approval[^"]+)"', from: message}
      tools:
        - {name: SendMessage, input: {type: plan_approval_response, request_id: '${request}', recipient: ben, approve: true}}
    - wait_for: {contains: My part is done, from: message}
    - text: All is done.
  ann:
    - text: I wait.
  ben:
    - tools: [{name: ExitPlanMode, input: {plan: I look and tell.}}]
    - wait_for: {contains: plan_approval_response}
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: My part is done., summary: done}}]
    - text: Done.
"#;
    let mut hosted = Hosted::start(PLANS).await;
    hosted.until(|what| matches!(what, What::Ended(_))).await;
    let records = TeamRecords::Live(hosted.team_elsewhere().await);
    let events = events_of(&Replay::of_records(&records).await.unwrap());
    let faces = || (0..=events.len()).map(|at| Face::after(&events[..at]));
    let modes = |name: &str| {
        let of = |face: Face| face.agents.into_iter().find(|agent| agent["name"] == name);
        let mut seen: Vec<Value> =
            faces().filter_map(of).map(|agent| json!([agent["mode"], agent["status"]])).collect();
        seen.dedup();
        seen
    };
    let of_ben = modes("ben");
    assert!(of_ben.contains(&json!(["plan", "awaiting_plan_approval"])), "{of_ben:?}");
    assert_eq!(of_ben.first().unwrap()[0], "plan", "{of_ben:?}");
    assert_eq!(of_ben.last().unwrap()[0], "default", "{of_ben:?}");
    let of_ann = modes("ann");
    assert!(of_ann.iter().all(|it| it[0] == of_ann[0][0] && it[0].is_string()), "{of_ann:?}");
}

#[tokio::test]
async fn the_replay_of_a_team_that_runs_has_no_end_and_shows_who_asks() {
    const ASKS: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch made}}]
    - text: Done.
";
    let hosted = Hosted::start(ASKS).await;
    let _question = opened(&mut hosted.follow(None).await).await;
    let records = TeamRecords::Live(hosted.team_elsewhere().await);
    let asks = async {
        loop {
            let end = Face::after(&events_of(&Replay::of_records(&records).await.unwrap()));
            let lead = end.agents.iter().find(|agent| agent["name"] == "team-lead");
            let tools =
                lead.and_then(|lead| Some(json!(lead["asks"].as_object()?.values().next()?)));
            if tools == Some(json!("Bash")) {
                return end;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let end = in_time("the replay shows the request", asks).await;
    assert_eq!(end.team.get("session").filter(|session| !session.is_null()), None);
}
