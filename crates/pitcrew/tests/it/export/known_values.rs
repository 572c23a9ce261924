//! Tests of the values of secret variables: no document contains one, in any of its forms.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::test_env::TestEnv;

/// The values of the variables. Neither looks like a secret by its form.
const TOKEN: &str = r#"plain wo"rds\of a value/7"#;
const LINES: &str = "first line of it\n  second \"line\" of it";

/// Returns the texts that no document may contain.
fn forbidden() -> Vec<String> {
    let json = |text: &str| serde_json::to_string(text).unwrap().trim_matches('"').to_owned();
    let mut all = vec![json(TOKEN), json(&json(TOKEN)), json(LINES), STANDARD.encode(TOKEN)];
    all.extend(
        [TOKEN, LINES, "first line of it", "second \"line\"", "plain wo"].map(str::to_owned),
    );
    all.extend(
        ["rds\\\\of", "rds\\of a", "value/7", "second \\\"line", "line of it"].map(str::to_owned),
    );
    all
}

/// Returns the script of a lead with a teammate. The values are in the prompt, in a message, and in
/// the file that the teammate reads, there in several forms.
fn script() -> Value {
    let tool = |name: &str, input: Value| json!({"tools": [{"name": name, "input": input}]});
    let prompt = format!("Read forms.txt with {TOKEN}.");
    // As a terminal breaks a long line.
    let (head, tail) = TOKEN.split_at(12);
    let last = format!("All is done with {LINES}\n{head}\n{tail}");
    let shutdown = json!({
        "capture": {"request": {"regex": r#""requestId":\s*"([^"]+)""#}},
        "tools": [{"name": "SendMessage", "input":
            {"type": "shutdown_response", "request_id": "${request}", "approve": true}}],
    });
    json!({"agents": {
        "team-lead": [
            tool("Task", json!({"name": "bob", "subagent_type": "general-purpose",
                "description": "read", "prompt": prompt})),
            {"wait_for": {"contains": "it is read", "from": "message"}},
            tool("SendMessage", json!({"type": "shutdown_request", "recipient": "bob"})),
            {"wait_for": {"contains": "has shut down", "from": "message"}},
            {"text": last},
        ],
        "bob": [
            tool("Read", json!({"file_path": "${p}/forms.txt"})),
            tool("SendMessage", json!({"type": "message", "recipient": "team-lead",
                "content": format!("it is read: {TOKEN}, {LINES}, {head}\n  {tail}"), "summary": "done"})),
            {"wait_for": {"contains": "shutdown_request"}},
            shutdown,
        ],
    }})
}

/// Returns an environment with the completed team `work`, whose run had the values in its
/// environment.
fn completed() -> TestEnv {
    let room = TestEnv::new();
    let nested = json!({"inside": json!({"a": TOKEN, "b": LINES}).to_string()});
    let basic = STANDARD.encode(format!("ann:{TOKEN}"));
    let forms = format!("{TOKEN}\n{nested}\n{basic}\n{LINES}\n");
    fs::write(room.work().join("forms.txt"), forms).unwrap();
    let script = script().to_string().replace("${p}", &room.work().display().to_string());
    let model = room.script(&script);
    let goal = format!("read it with {TOKEN}");
    let ran = room
        .command(&["run", &goal, "--team", "work", "--model", &model, "--yes"])
        .envs([("DEPLOY_TOKEN", TOKEN), ("SIGNING_SECRET", LINES), ("EDITOR", "All is done")])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    room
}

#[test]
fn a_planted_value_is_in_no_document() {
    let room = completed();
    // The planted values were in the conversations: otherwise this test would prove nothing.
    let transcript = room.find("teams/work/pitcrew/transcripts/bob.ndjson");
    let transcript = fs::read_to_string(transcript).unwrap();
    assert!(transcript.contains("inside") && transcript.contains("first line of it"));
    for words in [
        ["export", "work", "--html", "run.html"].as_slice(),
        &["export", "work", "--markdown"],
        &["export", "work", "--full", "--markdown", "full.md"],
        &["export", "work", "--agent", "bob", "--full", "--markdown", "-"],
        &["--json", "export", "work", "--full", "--markdown", "-"],
    ] {
        let ran = room.ok(words);
        let file = room.work().join(words.last().unwrap());
        let document = fs::read_to_string(&file).unwrap_or_else(|_| ran.stdout.clone());
        let _only_one_has_a_file = fs::remove_file(&file);
        for text in [&ran.stdout, &ran.stderr, &document] {
            for planted in forbidden() {
                assert!(!text.contains(&planted), "{words:?}: {planted} in {text}");
            }
        }
        assert!(document.contains("value of DEPLOY_TOKEN"), "{words:?}: {document}");
        assert!(!document.contains("EDITOR"), "{words:?}: {document}");
    }
    let written = room.json(&["export", "work", "--full", "--markdown", "full.md"]);
    let kinds = written["masked"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.filter(|kind| kind.contains("value of")).collect();
    assert_eq!(kinds, ["value of DEPLOY_TOKEN", "value of SIGNING_SECRET"]);
    let document = fs::read_to_string(room.work().join("full.md")).unwrap();
    assert!(document.contains("All is done with [masked: value of SIGNING_SECRET]"), "{document}");
}

#[test]
fn a_planted_value_is_in_no_replay() {
    let room = completed();
    let written = room.json(&["export", "work", "--html", "run.html"]);
    let document = fs::read_to_string(room.work().join("run.html")).unwrap();
    for planted in forbidden() {
        assert!(!document.contains(&planted), "{planted}");
        assert!(!written.to_string().contains(&planted), "{planted}");
    }
    assert!(document.contains("read it with [masked: value of DEPLOY_TOKEN]"));
    assert!(written["masked"].to_string().contains("value of SIGNING_SECRET"), "{written}");
}

#[test]
fn the_record_of_the_values_has_none_and_a_damaged_one_stops_an_export() {
    let room = completed();
    let record = room.find("teams/work/pitcrew/secret-digests.json");
    assert_eq!(fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&record).unwrap();
    assert!(text.contains("DEPLOY_TOKEN") && text.contains("SIGNING_SECRET"), "{text}");
    for planted in forbidden() {
        assert!(!text.contains(&planted), "{planted} in {text}");
    }
    for damaged in ["{", r#"{"version": 99}"#] {
        fs::write(&record, damaged).unwrap();
        let refused = room.run(&["export", "work", "--markdown"]);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.stderr.contains("secret-digests"), "{refused:?}");
        assert_eq!(refused.stdout, "");
    }
}
