//! `pitcrew export --html`: replays in one file, and the secrets that are not in them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::export::{MARKUP, PASSWORD, TOKEN, completed};

/// Returns the replay in a document.
fn replay_in(document: &str) -> Value {
    let (_, rest) = document.split_once("id=\"replay\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_replay_is_one_file_without_secrets() {
    let room = completed();
    let answer = room.json(&["export", "work", "--html", "run.html"]);
    let file = room.work().join("run.html");
    assert_eq!(answer["file"], file.display().to_string());
    let bytes = fs::read(&file).unwrap();
    assert_eq!(answer["bytes"], bytes.len());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // The keys are in a prompt, in a message, in a call and in its result.
    for secret in [TOKEN, PASSWORD, "ghp_", "hunter2"] {
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{secret}");
    }
    let document = String::from_utf8(bytes).unwrap();
    let replay = replay_in(&document);
    assert_eq!(answer["events"], replay["events"].as_array().unwrap().len());
    assert_eq!((&answer["left_out"], &answer["unread"]), (&json!(0), &json!([])));
    let kinds = |masked: &Value| {
        let masked = masked.as_array().unwrap().iter();
        masked.map(|it| it["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&answer["masked"]), ["GitHub token", "named secret"]);
    let told = replay["masked"].as_str().unwrap();
    assert!(told.contains("GitHub token") && told.contains("named secret"), "{told}");
    let events = replay["events"].to_string();
    for text in ["it is written with [masked: GitHub token]", "DB_PASSWORD=[masked: named secret]"]
    {
        assert!(events.contains(text), "{text}");
    }
}

#[test]
fn a_text_that_tries_to_be_html_stays_a_text() {
    let room = completed();
    room.ok(&["export", "work", "--html", "run.html"]);
    let document = fs::read_to_string(room.work().join("run.html")).unwrap();
    assert!(!document.contains(MARKUP), "the text is a part of the HTML");
    assert_eq!(document.matches("<script").count(), 2);
    let replay = replay_in(&document);
    let said = |event: &&Value| {
        event["what"]["part"]["part"]["text"].as_str().is_some_and(|text| text.contains(MARKUP))
    };
    assert_eq!(replay["events"].as_array().unwrap().iter().filter(said).count(), 1);
}

#[test]
fn a_replay_is_never_in_place_of_another_file_unless_it_is_forced() {
    let room = completed();
    fs::write(room.work().join("run.html"), "mine").unwrap();
    fs::create_dir(room.work().join("folder.html")).unwrap();
    let said = room.transcript(&[
        &["export", "work", "--html", "run.html"],
        &["export", "work", "--html", "folder.html", "--force"],
        &["export", "work", "--html", "-"],
        &["export", "work", "--html"],
        &["export", "work", "--html", "a.html", "--markdown"],
        &["export", "work", "--html", "a.html", "--agent", "bob"],
        &["export", "work", "--html", "a.html", "--full"],
    ]);
    assert_snapshot!(said, @r"
    $ pitcrew export work --html run.html
    error: [dir]/work/run.html exists, and is not overwritten
    hint: name another file
    hint: --force replaces it
    [exit 4]
    $ pitcrew export work --html folder.html --force
    error: [dir]/work/folder.html is no ordinary file, and is not replaced
    hint: name another file
    [exit 4]
    $ pitcrew export work --html -
    error: a replay is written into a file, and not printed
    hint: name the file: --html run.html
    [exit 2]
    $ pitcrew export work --html
    error: a value is required for '--html <FILE>' but none was supplied

    For more information, try '--help'.
    [exit 2]
    $ pitcrew export work --html a.html --markdown
    error: the argument '--html <FILE>' cannot be used with '--markdown [<FILE>]'

    Usage: pitcrew export <--markdown [<FILE>]|--html <FILE>> <TEAM>

    For more information, try '--help'.
    [exit 2]
    $ pitcrew export work --html a.html --agent bob
    error: the argument '--html <FILE>' cannot be used with '--agent <AGENT>'

    Usage: pitcrew export <--markdown [<FILE>]|--html <FILE>> <TEAM>

    For more information, try '--help'.
    [exit 2]
    $ pitcrew export work --html a.html --full
    error: the argument '--html <FILE>' cannot be used with '--full'

    Usage: pitcrew export <--markdown [<FILE>]|--html <FILE>> <TEAM>

    For more information, try '--help'.
    [exit 2]
    ");
    assert_eq!(fs::read_to_string(room.work().join("run.html")).unwrap(), "mine");
    let written = room.ok(&["export", "work", "--html", "run.html", "--force"]).stdout;
    assert!(written.contains("run.html; masked: "), "{written}");
    assert!(written.contains(" KB, ") && written.contains(" events"), "{written}");
    let document = fs::read_to_string(room.work().join("run.html")).unwrap();
    assert_eq!(replay_in(&document)["name"], "work");
    let left = fs::read_dir(room.work()).unwrap().map(|it| it.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(".pitcrew")).collect();
    assert!(left.is_empty(), "{left:?}");
}
