//! Other processes of the user follow a run that a person sees on a terminal, and answer its
//! permission requests through the control socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use pitcrew_view::host::{HostEvent, OpenQuestion};

use super::questions::{is_asked, leading};
use super::*;

/// A connection to the control socket of the team `work`.
struct Caller(BufReader<UnixStream>);

impl Caller {
    /// Sends a request.
    fn asking(seat: &TerminalSession, request: &Value) -> Self {
        let socket = seat.room.root().join("teams/work/pitcrew/door");
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(patience::PATIENCE)).unwrap();
        writeln!(stream, "{request}").unwrap();
        Self(BufReader::new(stream))
    }

    /// Follows the run. Returns the connection and the snapshot.
    fn following(seat: &TerminalSession) -> (Self, Value) {
        let mut caller = Self::asking(seat, &json!({"op": "follow"}));
        assert_eq!(caller.line()["success"], true);
        let snapshot = caller.line()["snapshot"].take();
        (caller, snapshot)
    }

    /// Reads the next line. Returns null if the connection is closed.
    #[track_caller]
    fn line(&mut self) -> Value {
        let mut line = String::new();
        match self.0.read_line(&mut line).unwrap() {
            0 => Value::Null,
            _ => serde_json::from_str(&line).unwrap(),
        }
    }

    /// Reads events until one has this field, and returns the content of the field.
    #[track_caller]
    fn until(&mut self, what: &str) -> Value {
        loop {
            let mut line = self.line();
            assert!(!line.is_null(), "the connection is closed before {what}");
            if let Some(found) = line["what"].get_mut(what) {
                return found.take();
            }
        }
    }
}

fn answer(seat: &TerminalSession, question: &Value, choice: &Value) -> Value {
    let (id, digest) = (&question["id"], &question["question"]["digest"]);
    let request = json!({"op": "answer", "question": id, "digest": digest, "choice": choice});
    Caller::asking(seat, &request).line()
}

#[test]
fn two_processes_follow_a_run_on_a_terminal_and_any_of_the_three_answers() {
    let Some(seat) = leading(
        "  team-lead:
    - tools: [{name: Bash, input: {command: touch one}}]
    - tools: [{name: Bash, input: {command: touch two}}]
    - text: All is done.",
    ) else {
        return;
    };
    is_asked(&seat, "│ touch one");
    let (mut first, snapshot) = Caller::following(&seat);
    let (mut second, same) = Caller::following(&seat);
    let question = &snapshot["questions"][0];
    assert_eq!(
        (question, &question["input"]["command"]),
        (&same["questions"][0], &json!("touch one"))
    );
    let answered = answer(&seat, question, &json!("once"));
    assert_eq!((&answered["success"], &answered["is_written"]), (&json!(true), &json!(true)));
    let closed = json!({"id": question["id"], "closed": {"answered": "once"}});
    assert_eq!(
        [first.until("question_closed"), second.until("question_closed")],
        [closed.clone(), closed]
    );
    assert_eq!(answer(&seat, question, &json!("once"))["error"], "invalid_status");

    let question = first.until("question_opened");
    assert_eq!(
        (&second.until("question_opened"), &question["input"]["command"]),
        (&question, &json!("touch two"))
    );
    is_asked(&seat, "│ touch two");
    assert!(seat.room.work().join("one").exists());
    seat.types("n not two");
    let closed =
        json!({"id": question["id"], "closed": {"answered": {"no": {"reason": "not two"}}}});
    for follower in [&mut first, &mut second] {
        assert_eq!(follower.until("question_closed"), closed);
        assert_eq!(
            follower.until("ended")["end"],
            json!({"kind": "success", "text": "All is done."})
        );
        assert_eq!(follower.line(), Value::Null, "the end is the last event");
    }
    assert_eq!(seat.is_ordinary_again(), "0");
    assert!(!seat.room.work().join("two").exists());
}

/// The script of a team in which every example of the page on the protocol can be played.
const PAGE: &str = "  team-lead:
    - tools: [{name: Task, input: {name: bob, subagent_type: general-purpose, description: d, prompt: Wait.}}]
    - tools: [{name: Bash, input: {command: touch one}}]
    - repeat:
        at_most: 100000
        turns: [{delay_ms: 100, tools: [{name: TaskList}]}]
  eve:
    - text: I wait.";

/// Whether a line of the host has the form that the page shows. A text `...` stands for anything,
/// also for further fields. Numbers other than the protocol and the number of an event may differ.
pub(crate) fn has_form(shown: &Value, said: &Value) -> bool {
    let anything = json!("...");
    match (shown, said) {
        _ if *shown == anything => true,
        (Value::Array(shown), Value::Array(_)) if shown == std::slice::from_ref(&anything) => true,
        (Value::Array(shown), Value::Array(said)) => {
            shown.len() == said.len() && shown.iter().zip(said).all(|(a, b)| has_form(a, b))
        }
        (Value::Object(shown), Value::Object(said)) => {
            let is_open = shown.contains_key("...");
            let named = shown.iter().filter(|(name, _)| *name != "...");
            (is_open || shown.len() == said.len())
                && named.into_iter().all(|(name, shown)| {
                    let is_exact =
                        ["protocol", "seq"].contains(&name.as_str()) || !shown.is_number();
                    said.get(name).is_some_and(|said| match is_exact {
                        true => has_form(shown, said),
                        false => said.is_number(),
                    })
                })
        }
        _ => shown == said,
    }
}

#[test]
fn the_examples_of_the_page_on_the_protocol_are_played() {
    let Some(seat) = leading(PAGE) else { return };
    is_asked(&seat, "│ touch one");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control-protocol.md");
    let page = fs::read_to_string(page).unwrap();
    let (mut run, mut since, mut digest) = (String::new(), String::new(), String::new());
    let mut caller = None;
    let mut played = 0;
    let blocks = page.split("```control\n").skip(1).map(|block| block.split("```").next().unwrap());
    for line in blocks.flat_map(str::lines) {
        let (mark, shown) = line.split_once(' ').unwrap();
        let shown = shown.replace("RUN", &run).replace("SINCE", &since).replace("DIGEST", &digest);
        let shown: Value =
            serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {line}"));
        if mark == ">" {
            caller = Some(Caller::asking(&seat, &shown));
            continue;
        }
        let said = caller.as_mut().unwrap().line();
        assert!(has_form(&shown, &said), "the page: {line}\nthe host: {said}");
        if let Some(id) = said["run"].as_str() {
            run = id.to_owned();
        }
        if let Some(known) = said["snapshot"]["questions"][0]["question"]["digest"].as_str() {
            digest = known.to_owned();
            since = said["snapshot"]["next_seq"].to_string();
        }
        played += 1;
    }
    assert!(played > 15, "{played}");
    for block in page.split("```json\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let value: Value =
            serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"));
        let is_read = match value.get("what") {
            Some(_) => serde_json::from_value::<HostEvent>(value.clone()).map(drop),
            None => serde_json::from_value::<OpenQuestion>(value.clone()).map(drop),
        };
        assert!(is_read.is_ok(), "{is_read:?}: {block}");
    }
}
