//! Tests of a run that is stopped and resumed, with a teammate in the reference client. The tests
//! check that the teammate keeps its conversation and that it gets each message exactly once.

use std::fs;

use serde_json::json;

use super::script::{Script, calls, says};
use super::sockets::{go, is_at, send, spawn, waits_for};
use super::stage::{Client, Pane, Stage, TEAM};

/// A text that the teammate said before the stop. It is in the teammate's conversation.
const BEFORE: &str = "the-first-word-it-said";

/// The messages that the client had read before its process ended, in the order of sending.
const TAKEN: [&str; 3] = ["one-word.", "the-task.", "two-word."];

/// The commands that the run allows without a permission request.
#[derive(Clone, Copy)]
enum Allowed {
    /// The run allows every command. The test stops the run while a command of the teammate runs.
    Bash,
    /// The run allows only `echo`. The client asks permission for every other command. The test
    /// stops the run while such a request waits for an answer.
    Echo,
}

/// Starts a run and waits until its teammate is in the middle of a turn. Sends messages to the
/// teammate and waits until the client has read them. Then stops the run, calls `between`, which
/// may change files, and resumes the run. Returns the environment, the pane of the resumed run, and
/// the number of the teammate's model requests before the stop.
fn stopped_and_resumed(
    client: Client,
    allowed: Allowed,
    between: impl FnOnce(&Stage),
) -> Option<(Stage, Pane, usize)> {
    let echo = calls("Bash", json!({"command": format!("echo {BEFORE}"), "description": "say it"}));
    let script = Script::default()
        .role("lead", std::iter::once(spawn()).chain((0..20).map(|_| says("I wait"))))
        .role(
            "worker",
            [echo, waits_for("first")]
                .into_iter()
                .chain((0..20).map(|nth| says(&format!("turn {nth}")))),
        );
    let stage = Stage::set(client, &script)?;
    let rule = match allowed {
        Allowed::Bash => "Bash",
        Allowed::Echo => "Bash(echo *)",
    };
    let run = |first: &str| {
        let run = format!(
            "pitcrew run {first} --model anthropic/claude-sonnet-4-5-20250929 --teammate-mode tmux \
             --teammate-program claude --allow '{rule}'; echo \"ended with $?\"; read _"
        );
        stage.pane(&["sh", "-c", &run])
    };
    let first = run("'ROLE:lead begin' --team probe");
    match allowed {
        Allowed::Bash => is_at(&stage, "first"),
        Allowed::Echo => stage.shown(&first, "touch at-first"),
    }
    send(&stage, "worker", TAKEN[0]);
    for task in [
        &["create", "--team", TEAM, TAKEN[1], "to be done"][..],
        &["update", "--team", TEAM, "1", "--owner", "worker"],
    ] {
        let done = stage.pitcrew(&[&["task"], task].concat());
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    send(&stage, "worker", TAKEN[2]);
    let is_taken = || stage.inbox("worker").iter().all(|entry| entry["read"] == true);
    stage.until("all mail taken", || is_taken().then_some(()));
    let before = stage.requests("worker").len();
    stage.press(&first, "C-c");
    stage.shown(&first, "ended with 130");
    // The stop of the run kills the client in the middle of its turn. The client gets no shutdown
    // request, because its model would have to answer the request. After the resume, the client
    // therefore continues in the middle of that turn.
    let asked = fs::read_to_string(stage.root().join("teams/probe/pitcrew/requests.json"))
        .unwrap_or_default();
    assert!(!asked.contains("shutdown-"), "{asked}");
    between(&stage);
    go(&stage, "first");
    let second = run("--resume probe");
    Some((stage, second, before))
}

/// Returns the messages of [`TAKEN`] that the teammate's conversation contains, in the order of the
/// conversation. A message that the conversation contains twice is listed twice.
fn in_conversation(stage: &Stage) -> Vec<&'static str> {
    let Some(last) = stage.requests("worker").pop() else { return Vec::new() };
    let conversation = last.conversation();
    let found = TAKEN.into_iter().flat_map(|word| {
        conversation.match_indices(word).map(move |(at, _)| (at, word)).collect::<Vec<_>>()
    });
    let mut found: Vec<(usize, &str)> = found.collect();
    found.sort_unstable();
    found.into_iter().map(|(_, word)| word).collect()
}

fn goes_on(client: Client, allowed: Allowed) {
    let Some((stage, second, before)) = stopped_and_resumed(client, allowed, |_| ()) else {
        return;
    };
    stage.until("a request after the resume", || {
        (stage.requests("worker").len() > before).then_some(())
    });
    let resumed = stage.requests("worker")[before].clone();
    assert!(resumed.remembers(BEFORE), "it has lost its conversation");
    assert_eq!(resumed.counts("ROLE:worker go"), 1, "it was given its prompt again");
    stage.until("what it had taken in its conversation", || {
        (in_conversation(&stage).len() >= TAKEN.len()).then_some(())
    });
    // This message starts another turn. If pitcrew delivered a message twice, the second copy would
    // be in the conversation by then.
    send(&stage, "worker", "and-then");
    stage.told("worker", "and-then");
    assert_eq!(in_conversation(&stage), TAKEN);
    stage.shown(&second, "3 messages are delivered again");
}

#[test]
fn a_client_goes_on_with_its_conversation_at_a_resume_and_gets_what_it_had_taken_once() {
    goes_on(Client::Recorded, Allowed::Bash);
}

#[test]
fn todays_client_goes_on_with_its_conversation_at_a_resume_and_gets_what_it_had_taken_once() {
    goes_on(Client::Today, Allowed::Bash);
}

#[test]
fn a_client_with_an_open_question_gets_what_it_had_taken_once_at_a_resume() {
    goes_on(Client::Recorded, Allowed::Echo);
}

#[test]
fn todays_client_with_an_open_question_gets_what_it_had_taken_once_at_a_resume() {
    goes_on(Client::Today, Allowed::Echo);
}

#[test]
fn todays_client_whose_conversation_is_gone_begins_a_new_one_with_its_prompt_and_what_it_had_taken()
{
    let without = |stage: &Stage| fs::remove_dir_all(stage.root().join("projects")).unwrap();
    let Some((stage, second, before)) = stopped_and_resumed(Client::Today, Allowed::Bash, without)
    else {
        return;
    };
    stage.until("a request after the resume", || {
        (stage.requests("worker").len() > before).then_some(())
    });
    assert!(!stage.requests("worker")[before].remembers(BEFORE));
    stage.shown(&second, "worker begins a new conversation with its prompt");
    stage.until("what it had taken in its conversation", || {
        (in_conversation(&stage).len() >= TAKEN.len()).then_some(())
    });
    assert_eq!(in_conversation(&stage), TAKEN);
    assert_eq!(stage.requests("worker").last().unwrap().counts("(Delivered again:"), 2);
}
