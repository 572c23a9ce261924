//! Tests of messages from pitcrew to the reference client in the middle of the client's turn. The
//! tests use a client with a message socket, the same client without use of its socket, and an
//! older client that has no socket.

use std::fs;

use serde_json::{Value, json};

use super::script::{Script, a_second_later, calls, once_told, says};
use super::stage::{Client, Stage, TEAM};

/// The text that is sent while the receiver is in a turn.
const WORD: &str = "look-at-the-parser-first";

/// A turn that runs a command. The command waits until the test creates `file`.
pub(super) fn waits_for(file: &str) -> Value {
    calls(
        "Bash",
        json!({"command": format!("touch at-{file}; until [ -e {file} ]; do sleep 0.05; done"), "description": "wait"}),
    )
}

pub(super) fn spawn() -> Value {
    calls(
        "Task",
        json!({"description": "a teammate", "prompt": "ROLE:worker go", "subagent_type": "general-purpose",
               "name": "worker", "mode": "default"}),
    )
}

/// Waits until the command from `waits_for(file)` runs.
pub(super) fn is_at(stage: &Stage, file: &str) {
    stage.until(&format!("the command that waits for {file}"), || {
        stage.work().join(format!("at-{file}")).exists().then_some(())
    });
}

pub(super) fn go(stage: &Stage, file: &str) {
    fs::write(stage.work().join(file), "").unwrap();
}

/// Sends a text to `to`, and returns the delivery state of the message.
pub(super) fn send(stage: &Stage, to: &str, text: &str) -> Value {
    let sent = stage.pitcrew(&["--json", "send", "--team", &stage.team(), to, text]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    serde_json::from_str::<Value>(&sent.stdout).unwrap()["receipts"][0]["state"].clone()
}

/// Starts a run whose teammate runs in the reference client. During a turn in which the teammate
/// runs two commands, the teammate gets the message [`WORD`]. Returns the environment and the
/// delivery state of the message.
fn teammate_in_a_turn(client: Client, settings: Value) -> Option<(Stage, Value)> {
    let script = Script::default()
        .role("lead", [spawn(), once_told("all is over", says("all is done"))])
        .role(
            "worker",
            [
                waits_for("first"),
                waits_for("second"),
                says("all is over"),
                once_told("and-then", says("bye")),
            ],
        );
    let stage = Stage::set(client, &script)?;
    fs::write(stage.root().join("settings.json"), settings.to_string()).unwrap();
    let run = "pitcrew run 'ROLE:lead begin' --team probe --model anthropic/claude-sonnet-4-5-20250929 \
         --teammate-mode tmux --teammate-program claude --allow Bash; read _";
    stage.pane(&["sh", "-c", run]);
    is_at(&stage, "first");
    let state = send(&stage, "worker", WORD);
    go(&stage, "first");
    is_at(&stage, "second");
    go(&stage, "second");
    Some((stage, state))
}

/// Checks that the model received the message exactly once. If `is_within_a_turn` is true, the
/// model must have received it within a turn, otherwise after the turn.
fn was_told_once(stage: &Stage, role: &str, is_within_a_turn: bool) {
    stage.told(role, WORD);
    let asked = stage.requests(role);
    let first = asked.iter().find(|request| request.says(WORD)).unwrap();
    assert_eq!(first.is_within_a_turn(), is_within_a_turn);
    // Send a second message, and wait until the model has received it. If pitcrew delivered the
    // first message again, the second copy would be in the conversation by then.
    send(stage, role_name(role), "and-then");
    stage.told(role, "and-then");
    assert_eq!(stage.requests(role).last().unwrap().counts(WORD), 1);
}

fn role_name(role: &str) -> &str {
    if role == "lead" { "team-lead" } else { role }
}

#[test]
fn mail_reaches_todays_client_in_the_middle_of_a_turn_once_and_stays_in_its_inbox_as_read() {
    let Some((stage, state)) = teammate_in_a_turn(Client::Today, json!({})) else { return };
    assert_eq!(state, "acknowledged");
    was_told_once(&stage, "worker", true);
}

#[test]
fn without_the_socket_mail_reaches_todays_client_after_its_turn_once() {
    let Some((stage, state)) =
        teammate_in_a_turn(Client::Today, json!({"pitcrew": {"clientSockets": false}}))
    else {
        return;
    };
    assert_eq!(state, "persisted");
    was_told_once(&stage, "worker", false);
}

#[test]
fn mail_reaches_a_client_without_a_socket_after_its_turn_once() {
    let Some((stage, state)) = teammate_in_a_turn(Client::Recorded, json!({})) else { return };
    assert_eq!(state, "persisted");
    was_told_once(&stage, "worker", false);
}

/// Finds the texts in `words` in the last request to the model of `role`. Returns them in the order
/// in which the request contains them. A text that the request contains several times is listed
/// several times.
fn order_of(stage: &Stage, role: &str, words: &[String]) -> Vec<String> {
    let conversation = stage.requests(role).last().unwrap().conversation();
    let mut found: Vec<(usize, String)> = words
        .iter()
        .flat_map(|word| {
            conversation
                .match_indices(word.as_str())
                .map(|(at, _)| (at, word.clone()))
                .collect::<Vec<_>>()
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, word)| word).collect()
}

#[test]
fn no_message_through_the_socket_of_todays_client_overtakes_mail_that_lies_in_its_inbox() {
    // Each turn of the teammate takes a second, so that most messages arrive in the middle of a
    // turn.
    let turns = (0..30).map(|nth| a_second_later(says(&format!("turn {nth} is over"))));
    let script = Script::default()
        .role("lead", std::iter::once(spawn()).chain((0..60).map(|_| says("I wait"))))
        .role("worker", std::iter::once(waits_for("first")).chain(turns));
    let Some(stage) = Stage::set(Client::Today, &script) else { return };
    let run = "pitcrew run 'ROLE:lead begin' --team probe --model anthropic/claude-sonnet-4-5-20250929 \
         --teammate-mode tmux --teammate-program claude --allow Bash; read _";
    stage.pane(&["sh", "-c", run]);
    is_at(&stage, "first");
    let mut words: Vec<String> = Vec::new();
    let say = |words: &mut Vec<String>, word: String| {
        words.push(format!("{word}."));
        send(&stage, "worker", &format!("{word}."))
    };
    for nth in 0..3 {
        assert_eq!(say(&mut words, format!("early-{nth}")), "acknowledged");
    }
    // A task assignment goes through the inbox. The client passes the assignment to its model only
    // after the current turn.
    let made = stage.pitcrew(&["task", "create", "--team", TEAM, "the-task.", "to be done"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let given = stage.pitcrew(&["task", "update", "--team", TEAM, "1", "--owner", "worker"]);
    assert_eq!(given.code, 0, "{}", given.stderr);
    words.push("the-task.".to_owned());
    assert_eq!(say(&mut words, "after-that".to_owned()), "persisted");
    go(&stage, "first");
    for nth in 0..12 {
        say(&mut words, format!("late-{nth}"));
    }
    stage.until("everything told", || {
        (order_of(&stage, "worker", &words).len() >= words.len()).then_some(())
    });
    assert_eq!(order_of(&stage, "worker", &words), words);
}

#[test]
fn the_sender_learns_of_what_went_through_the_socket_of_a_client_that_ended_before_it_read_it() {
    let script = Script::default()
        .role(
            "lead",
            [spawn(), says("I wait"), says("I wait on"), says("all is over"), says("all is over")],
        )
        .role("worker", [waits_for("first"), says("over")]);
    let Some(stage) = Stage::set(Client::Today, &script) else { return };
    let run = "pitcrew run 'ROLE:lead begin' --team probe --model anthropic/claude-sonnet-4-5-20250929 \
         --teammate-mode tmux --teammate-program claude --allow Bash; read _";
    let lead = stage.pane(&["sh", "-c", run]);
    is_at(&stage, "first");
    let sent = stage.pitcrew(&["--json", "send", "--team", TEAM, "worker", WORD]);
    let receipt = serde_json::from_str::<Value>(&sent.stdout).unwrap()["receipts"][0].clone();
    assert_eq!(receipt["state"], "acknowledged");
    let worker = stage.panes().into_iter().find(|pane| *pane != lead).unwrap();
    stage.kill(&worker);
    let told = stage.until("what became of the message", || {
        let told = stage.pitcrew(&["--json", "message", receipt["id"].as_str().unwrap()]);
        serde_json::from_str::<Value>(&told.stdout).ok().filter(|told| told["state"] == "dead")
    });
    assert_eq!(told["dead"]["reason"], "worker ended before it read it");
    stage.shown(&lead, "has ended with 1 unread");
}

#[test]
fn mail_reaches_a_session_s_lead_in_the_middle_of_a_turn_once() {
    let script = Script::default()
        .role("lead", [spawn(), waits_for("first"), waits_for("second"), says("over")])
        // The worker's first command never ends, because the worker must not become idle. Otherwise
        // the lead's inbox would contain the worker's idle notice, which is older than the message
        // of the test.
        .role("worker", [waits_for("never"), says("nothing to do")]);
    let Some(stage) = Stage::set(Client::Today, &script) else { return };
    let settings = json!({"permissions": {"allow": ["Bash"]}});
    fs::write(stage.root().join("settings.json"), settings.to_string()).unwrap();
    stage.client_leads();
    is_at(&stage, "first");
    is_at(&stage, "never");
    assert_eq!(send(&stage, "team-lead", WORD), "acknowledged");
    go(&stage, "first");
    is_at(&stage, "second");
    go(&stage, "second");
    was_told_once(&stage, "lead", true);
}

#[test]
fn what_todays_client_gets_in_its_last_request_has_reached_its_model() {
    let agrees =
        json!({"type": "shutdown_response", "request_id": "REQ:shutdown", "approve": true});
    let mut agrees = once_told("shutdown_request", calls("SendMessage", agrees));
    // The model waits ten seconds before it agrees to the shutdown. The test sends its message in
    // this time.
    agrees["pause"] = 10.into();
    let script = Script::default()
        .role("lead", std::iter::once(spawn()).chain((0..20).map(|_| says("It is done."))))
        .role("worker", [says("ready"), agrees]);
    let Some(stage) = Stage::set(Client::Today, &script) else { return };
    let run = "pitcrew run 'ROLE:lead begin' --team probe --model anthropic/claude-sonnet-4-5-20250929 \
               --teammate-mode tmux --teammate-program claude; echo \"ended with $?\"; read _";
    let lead = stage.pane(&["sh", "-c", run]);
    stage.told("worker", "shutdown_request");
    // pitcrew uses the client's socket only if two conditions are true: the client is in a turn,
    // and all earlier messages are in the client's conversation. The test waits for both
    // conditions.
    stage.until("the client at work", || {
        (stage.member("worker")?["isActive"] == true).then_some(())
    });
    stage.until("the request in the conversation", || {
        let folder = fs::read_dir(stage.root().join("projects")).ok()?.flatten().next()?.path();
        let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        files
            .filter_map(|file| fs::read_to_string(file).ok())
            .any(|text| text.contains("shutdown_request"))
            .then_some(())
    });
    let sent = stage.pitcrew(&["--json", "send", "--team", TEAM, "worker", "late-word"]);
    let id = serde_json::from_str::<Value>(&sent.stdout).unwrap()["receipts"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    stage.told("worker", "late-word");
    stage.shown(&lead, "ended with 0");
    let told = stage.pitcrew(&["--json", "message", &id]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["state"], "acknowledged", "{told}");
}
