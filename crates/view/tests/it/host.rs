//! A host of a real run, followed by user interfaces in this process and over the control socket.

use std::cell::Cell;
use std::time::Duration;

use pitcrew_protocol::{AgentName, ErrorCode, Status};
use pitcrew_runtime::control_socket;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{Choice, Keep, Offer};
use pitcrew_runtime::run::RunEnd;
use pitcrew_team::Team;
use pitcrew_view::asking::Chosen;
use pitcrew_view::client::{Following, FromHost, answer, follow, interrupt};
use pitcrew_view::host::{Closed, HostEvent, HostState, OpenQuestion, What};
use pitcrew_view::lead::LeadError;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;

use crate::host_env::{Hosted, PAUSE, in_time, next, opened, snapshot, until};
use crate::script::{
    answered, answers, asks, call, calls, changes, compacts, joins, name, spending, started,
    tool_ends,
};

/// The script of a lead that asks permission for one command.
const ASKS: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch made}}]
    - text: Done.
";

/// The script of a lead that is busy for ten minutes.
const BUSY: &str = "agents: {team-lead: [{delay_ms: 600000, text: Late.}]}";

fn refused(answered: Result<bool, LeadError>) -> pitcrew_protocol::ApiError {
    match answered {
        Err(LeadError::Refused { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

fn is_closed(what: &What) -> bool {
    matches!(what, What::QuestionClosed { .. })
}

fn is_ended(what: &What) -> bool {
    matches!(what, What::Ended(_))
}

#[tokio::test]
async fn a_question_opens_at_all_followers_and_closes_at_all_when_one_answers() {
    let mut hosted = Hosted::start(ASKS).await;
    let (mut first, mut second) = (hosted.follow(None).await, hosted.follow(None).await);
    let question = opened(&mut first).await;
    assert_eq!(opened(&mut second).await, question);
    assert_eq!((question.id.as_str(), question.question.tool.as_str()), ("q1", "Bash"));
    assert_eq!(question.input, json!({"command": "touch made"}));
    let chosen = Chosen { question, choice: Choice::Once };
    assert!(answer(&hosted.team_elsewhere().await, &chosen).await.unwrap());
    let closed =
        What::QuestionClosed { id: "q1".to_owned(), closed: Closed::Answered(Choice::Once) };
    for follower in [&mut first, &mut second] {
        assert_eq!(until(follower, is_closed).await.what, closed);
    }
    let here = hosted.until(is_closed).await;
    assert_eq!(here.last().unwrap().what, closed, "the user interface here sees it too");
    let late = hosted.host.answer(&chosen).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::InvalidStatus);
    for follower in [&mut first, &mut second] {
        let What::Ended(outcome) = until(follower, is_ended).await.what else { unreachable!() };
        assert_eq!(outcome.end, RunEnd::Success { text: "Done.".to_owned() });
        assert!(matches!(next(follower).await, FromHost::Gone(None)), "Ended is the last event");
        assert!(matches!(next(follower).await, FromHost::Gone(None)));
    }
    assert!(hosted.base().join("project/made").exists());
    hosted.until(is_ended).await;
    assert!(hosted.host.next().await.is_none());
    assert!(matches!(hosted.host.outcome().await.end, RunEnd::Success { .. }));
}

#[tokio::test]
async fn an_answer_with_a_stale_digest_an_unknown_id_or_no_offered_rule_is_refused() {
    let hosted = Hosted::start(ASKS).await;
    let team = hosted.team_elsewhere().await;
    let mut following = hosted.follow(None).await;
    let question = opened(&mut following).await;
    let right = Chosen { question: question.clone(), choice: Choice::Once };

    let mut stale = right.clone();
    let mut shown = serde_json::to_value(&question).unwrap();
    shown["question"]["digest"] = json!("0".repeat(64));
    stale.question = serde_json::from_value(shown).unwrap();
    let error = refused(answer(&team, &stale).await);
    assert_eq!(
        (error.code, &error.details["open_questions"]),
        (ErrorCode::InvalidStatus, &json!(["q1"]))
    );
    assert!(error.message.contains("is about another call"), "{error}");

    let mut unknown = right.clone();
    unknown.question.id = "q7".to_owned();
    let error = refused(answer(&team, &unknown).await);
    assert_eq!(
        (error.code, &error.details["open_questions"]),
        (ErrorCode::InvalidStatus, &json!(["q1"]))
    );
    assert!(error.message.contains("'q7' is not open"), "{error}");

    let mut wider = right.clone();
    wider.choice = Choice::Always { offer: Offer::Rule("Bash".to_owned()), keep: Keep::Saved };
    let error = refused(answer(&team, &wider).await);
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert_eq!(error.details["offers"], json!(question.question.offers));

    assert!(!hosted.base().join("project/made").exists(), "nothing was allowed");
    assert!(answer(&team, &right).await.unwrap());
    until(&mut following, is_ended).await;
    assert!(hosted.base().join("project/made").exists());
    hosted.host.outcome().await;
    let error = follow(&team, None).await;
    assert!(matches!(error, Ok(None)), "nobody runs the team any more: {error:?}");
}

/// The script of a lead that writes so much that the log of its host is full several times. Then
/// the lead is busy for ten minutes.
fn writes_much(turns: usize) -> String {
    let text = "x".repeat(100_000);
    let turn = json!({"text": text, "tools": [{"name": "TaskList"}]});
    let last = json!({"delay_ms": 600_000, "text": "Late."});
    let turns: Vec<Value> = std::iter::repeat_n(turn, turns).chain([last]).collect();
    json!({"agents": {"team-lead": turns}}).to_string()
}

#[tokio::test]
async fn a_follower_that_stops_reading_delays_nobody_and_gets_a_snapshot() {
    let mut hosted = Hosted::start(&writes_much(60)).await;
    let mut stopped = hosted.follow(None).await;
    let (mut seen, ended) = (snapshot(&mut stopped).await.next_seq, Cell::new(0));
    let is_last = |what: &What| {
        ended.set(ended.get() + usize::from(matches!(what, What::Run(RunEvent::ToolEnded(_)))));
        ended.get() == 60
    };
    let events = hosted.until(is_last).await;
    let bytes_of = |event: &HostEvent| serde_json::to_vec(event).unwrap().len();
    let bytes: usize = events.iter().map(|event| bytes_of(event)).sum();
    assert!(bytes > 8 * 1024 * 1024, "the log was full: {bytes}");
    let (mut read, mut state) = (0, None);
    while seen <= events.last().unwrap().seq {
        match next(&mut stopped).await {
            FromHost::Event(event) => {
                assert_eq!(event.seq, seen, "no event is left out without a snapshot");
                (read, seen) = (read + bytes_of(&event), event.seq + 1);
            }
            FromHost::Snapshot(later) => {
                assert!(later.next_seq > seen, "{} {seen}", later.next_seq);
                seen = later.next_seq;
                state = Some(later);
            }
            FromHost::Gone(error) => panic!("{error:?}"),
        }
    }
    let state = state.expect("it was too slow for the log");
    assert_eq!(state.team.agent(&AgentName::lead()).unwrap().turns, 60);
    assert!(read < bytes / 2, "{read} of {bytes}");
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

/// Returns an event as a follower receives it. Durations lose the part below a millisecond.
fn as_sent(event: &HostEvent) -> Value {
    serde_json::to_value(event).unwrap()
}

/// Follows a host and answers its permission requests. Leaves after every third event, and comes
/// back. Returns the number of the first event, and all events.
async fn leaves_after_every_third(team: &Team, mut following: Following) -> (u64, Vec<HostEvent>) {
    let allow = async |question: &OpenQuestion| {
        let chosen = Chosen { question: question.clone(), choice: Choice::Once };
        answer(team, &chosen).await.unwrap();
    };
    let HostState { next_seq: first, questions, .. } = snapshot(&mut following).await;
    // The question may have been opened before the follower came.
    for question in &questions {
        allow(question).await;
    }
    let mut seen: Vec<HostEvent> = Vec::new();
    loop {
        match next(&mut following).await {
            FromHost::Event(event) => {
                if let What::QuestionOpened(question) = &event.what {
                    allow(question).await;
                }
                seen.push(*event);
            }
            FromHost::Gone(None) => return (first, seen),
            other => panic!("{other:?}"),
        }
        if !seen.len().is_multiple_of(3) {
            continue;
        }
        let since = following.since();
        assert_eq!(since.seq, first + seen.len() as u64);
        drop(following);
        following = match follow(team, Some(since)).await {
            Ok(Some(following)) => following,
            // The host has ended in the meantime.
            Ok(None) | Err(_) => return (first, seen),
        };
    }
}

#[tokio::test]
async fn a_follower_that_comes_back_gets_each_event_once() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: d, prompt: Work.}}]
    - tools: [{name: Bash, input: {command: touch made}}]
    - wait_for: {contains: I am bob, from: message}
    - text: Done.
  bob:
    - tools: [{name: TaskCreate, input: {subject: s, description: d}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I am bob, summary: s}}]
    - {wait_for: {contains: shutdown_request}, text: I wait.}
    - capture:
        request: {from: message, regex: '\"requestId\":\"(shutdown-[^\"]+)\"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
";
    let mut hosted = Hosted::start(script).await;
    let team = hosted.team_elsewhere().await;
    let following = hosted.follow(None).await;
    let (here, (first, seen)) =
        tokio::join!(hosted.until(is_ended), leaves_after_every_third(&team, following));
    let of_face: Vec<Value> = here.iter().map(|event| as_sent(event)).collect();
    let numbers: Vec<u64> = here.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (0..here.len() as u64).collect::<Vec<_>>());
    let seen: Vec<Value> = seen.iter().map(as_sent).collect();
    let skipped = usize::try_from(first).unwrap();
    assert_eq!(seen, of_face[skipped..skipped + seen.len()]);
    assert!(seen.len() > 10, "{seen:#?}");
    let tasks =
        here.iter().any(|event| matches!(&event.what, What::Tasks(tasks) if !tasks.is_empty()));
    let config = here.iter().any(|event| matches!(&event.what, What::Config(_)));
    assert!(tasks && config, "the files are read while somebody follows");
    hosted.host.outcome().await;
}

#[tokio::test]
async fn a_place_in_the_events_of_another_run_begins_with_a_snapshot() {
    let hosted = Hosted::start(BUSY).await;
    let mut following = hosted.follow(None).await;
    let mut since = following.since();
    since.seq = snapshot(&mut following).await.next_seq;
    since.run = "the run before".to_owned();
    let mut again = hosted.follow(Some(since)).await;
    snapshot(&mut again).await;
    assert_eq!(again.run(), following.run());
    let mut ahead = following.since();
    ahead.seq += 1_000_000;
    snapshot(&mut hosted.follow(Some(ahead)).await).await;
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

#[tokio::test]
async fn a_follower_too_many_is_refused_with_the_number() {
    let hosted = Hosted::start(BUSY).await;
    let mut followers = Vec::new();
    for _ in 0..64 {
        let mut following = hosted.follow(None).await;
        snapshot(&mut following).await;
        followers.push(following);
    }
    let team = hosted.team_elsewhere().await;
    let error = refused(follow(&team, None).await.map(|it| it.is_some()));
    assert_eq!((error.code, &error.details["followers"]), (ErrorCode::RateLimit, &json!(64)));
    assert!(error.message.contains("64 followers already"), "{error}");
    followers.pop();
    // The host notices the end of a connection although nothing happens in the run.
    let again = async {
        while follow(&team, None).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time("there is room again", again).await;
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

#[tokio::test]
async fn another_process_interrupts_the_lead_and_its_teammates() {
    let script = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: d, prompt: Work.}}]
    - delay_ms: 600000
      text: Late.
  bob:
    - delay_ms: 600000
      text: Late too.
";
    let mut hosted = Hosted::start(script).await;
    let team = hosted.team_elsewhere().await;
    let is_in = |who: &'static str, wanted: Status| {
        move |what: &What| {
            matches!(what, What::Run(RunEvent::AgentChanged { agent, status, .. })
                if agent.as_str() == who && *status == wanted)
        }
    };
    hosted.until(is_in("bob", Status::Active)).await;
    let error = refused(interrupt(&team, Some(&name("zoe"))).await);
    assert_eq!(
        (error.code, &error.details["valid_agents"]),
        (ErrorCode::AgentNotFound, &json!(["team-lead", "bob"]))
    );
    assert!(interrupt(&team, Some(&name("bob"))).await.unwrap());
    hosted.until(is_in("bob", Status::Idle)).await;
    assert!(interrupt(&team, None).await.unwrap());
    hosted.until(is_in("team-lead", Status::Idle)).await;
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

/// Takes the place of a host at its control socket, and answers one request with these lines.
async fn in_place_of_the_host(hosted: &Hosted, lines: Vec<Value>) -> Value {
    let socket = hosted.own_folder().join("door");
    std::fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let (caller, _) = listener.accept().await.unwrap();
    let mut caller = BufReader::new(caller);
    let mut asked = String::new();
    caller.read_line(&mut asked).await.unwrap();
    for line in lines {
        caller.get_mut().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    serde_json::from_str(&asked).unwrap()
}

#[tokio::test]
async fn events_of_a_newer_host_are_skipped_and_counted() {
    let hosted = Hosted::start(BUSY).await;
    let team = hosted.team_elsewhere().await;
    let greeting =
        json!({"success": true, "protocol": 1, "version": "9.9.9", "run": "r", "of_tomorrow": 1});
    let warning = |seq: u64, text: &str| json!({"seq": seq, "at_ms": 5, "what": {"run": {"event": "warning", "text": text, "of_tomorrow": {}}}});
    let lines = [
        greeting,
        json!({"snapshot": {"next_seq": 7, "team": {"team": "probe", "of_tomorrow": []}, "of_tomorrow": 1}}),
        warning(7, "known"),
        json!({"seq": 8, "at_ms": 5, "what": {"run": {"event": "dreamt", "agent": "bob"}}}),
        json!({"seq": 9, "at_ms": 5, "what": {"of_tomorrow": {}}}),
        json!({"pulse": 1}),
        warning(10, "known too"),
        json!({"seq": 11, "at_ms": 5, "what": {"run": {"event": "agent_changed", "agent": "bob", "status": "dreaming"}}}),
    ];
    let reading = async {
        let mut following = follow(&team, None).await.unwrap().unwrap();
        assert_eq!((following.version(), following.run()), ("9.9.9", "r"));
        assert_eq!(snapshot(&mut following).await.team.team, "probe");
        for known in ["known", "known too"] {
            let FromHost::Event(event) = next(&mut following).await else { panic!("no event") };
            let What::Run(RunEvent::Warning { text }) = event.what else { panic!("{event:?}") };
            assert_eq!(text, known);
        }
        assert!(matches!(next(&mut following).await, FromHost::Gone(None)));
        (following.unknown(), following.next_seq())
    };
    let (asked, counted) = tokio::join!(in_place_of_the_host(&hosted, lines.to_vec()), reading);
    assert_eq!(asked, json!({"op": "follow"}));
    assert_eq!(counted, (4, 12));
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

#[tokio::test]
async fn a_host_of_another_protocol_or_an_older_lead_says_what_to_update() {
    let hosted = Hosted::start(BUSY).await;
    let team = hosted.team_elsewhere().await;
    let greeting = json!({"success": true, "protocol": 2, "version": "9.9.9", "run": "r"});
    let (_, followed) =
        tokio::join!(in_place_of_the_host(&hosted, vec![greeting]), follow(&team, None));
    let error = followed.unwrap_err();
    assert!(matches!(error, LeadError::OtherProtocol { protocol: 2, .. }), "{error:?}");
    assert!(error.to_string().contains("pitcrew 9.9.9, which speaks protocol 2"), "{error}");
    let older = json!({"success": false, "error": "invalid_request", "message": "unknown variant `follow`",
        "details": {"lead_version": "0.0.9"}});
    let (_, followed) =
        tokio::join!(in_place_of_the_host(&hosted, vec![older]), follow(&team, None));
    let LeadError::Refused { lead_version, .. } = followed.unwrap_err() else { panic!("refused") };
    assert_eq!(lead_version.as_deref(), Some("0.0.9"));
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

#[tokio::test]
async fn a_line_that_breaks_off_or_is_no_json_ends_the_stream() {
    let hosted = Hosted::start(BUSY).await;
    let team = hosted.team_elsewhere().await;
    let greeting = json!({"success": true, "protocol": 1, "version": "9.9.9", "run": "r"});
    let (_, gone) = tokio::join!(
        in_place_of_the_host(&hosted, vec![greeting, json!("not an object")]),
        async { next(&mut follow(&team, None).await.unwrap().unwrap()).await },
    );
    assert!(matches!(gone, FromHost::Gone(Some(_))), "{gone:?}");
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}

#[tokio::test]
async fn a_dropped_host_kills_its_run() {
    let hosted = Hosted::start(BUSY).await;
    let team = hosted.team_elsewhere().await;
    drop(hosted.host);
    let over = async {
        while !matches!(follow(&team, None).await, Ok(None)) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time("nobody runs the team", over).await;
}

#[test]
fn each_event_is_read_as_it_was_written() {
    let script = [
        started(),
        joins("bob", Some("c0")),
        changes("bob", Status::Idle, Some("done")),
        answers("bob", vec![call("c1", "Bash")], Some(0.25)),
        calls("bob", "Bash", json!({"command": "ls"})),
        tool_ends("bob", "Bash", json!({"stdout": "\u{1b}[2K"}), true),
        asks("bob", "c1", "Bash"),
        answered("bob", "c1", Some("no")),
        compacts("bob", 9),
        RunEvent::TurnEnded { agent: name("bob"), spending: spending(2, None) },
        RunEvent::PlanHandedIn { agent: name("bob") },
        RunEvent::TextDelta { agent: name("bob"), text: "Hi\n".to_owned() },
        RunEvent::ModelWaits {
            agent: name("bob"),
            reason: "429".to_owned(),
            delay: Duration::from_millis(1_500),
        },
        RunEvent::ModelSilent { agent: name("bob"), silent_for: Duration::from_secs(61) },
        RunEvent::ShuttingDown { reason: "done".to_owned() },
    ];
    for (seq, event) in script.into_iter().enumerate() {
        let event = HostEvent { seq: seq as u64, at_ms: 5, what: What::Run(event) };
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<HostEvent>(&line).unwrap(), event, "{line}");
    }
    let waits = json!({"event": "model_waits", "agent": "bob", "reason": "429", "delay_ms": 1500});
    let written = RunEvent::ModelWaits {
        agent: name("bob"),
        reason: "429".to_owned(),
        delay: Duration::from_millis(1_500),
    };
    assert_eq!(serde_json::to_value(written).unwrap(), waits);
}

#[tokio::test]
async fn a_caller_that_sends_more_than_its_request_is_no_follower_any_more() {
    let hosted = Hosted::start(BUSY).await;
    let mut caller =
        tokio::net::UnixStream::connect(hosted.own_folder().join("door")).await.unwrap();
    caller.write_all(b"{\"op\":\"follow\"}\n").await.unwrap();
    let mut lines = BufReader::new(caller);
    let mut line = String::new();
    lines.read_line(&mut line).await.unwrap();
    let greeting: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&greeting["success"], &greeting["protocol"]),
        (&json!(true), &json!(control_socket::PROTOCOL))
    );
    line.clear();
    lines.read_line(&mut line).await.unwrap();
    assert!(line.starts_with("{\"snapshot\":"), "{line}");
    lines.get_mut().write_all(b"{\"op\":\"end_team\"}\n").await.unwrap();
    // The connection ends with an error if the host has not read the second request.
    let rest = async { while matches!(lines.read_line(&mut line).await, Ok(1..)) {} };
    in_time("the connection is closed", rest).await;
    assert!(!line.contains("ended"), "the second request was not carried out: {line}");
    hosted.host.stopper().kill();
    hosted.host.outcome().await;
}
