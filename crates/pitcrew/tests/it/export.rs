//! `pitcrew export`: documents of runs and conversations, and the secrets that are not in them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use insta::assert_snapshot;
use regex::Regex;
use serde_json::json;

use crate::test_env::TestEnv;

mod known_values;

/// Keys that no document may contain.
pub(crate) const TOKEN: &str = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA1";
pub(crate) const PASSWORD: &str = "hunter2hunter2";

/// A text of an agent that tries to be HTML.
pub(crate) const MARKUP: &str =
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)>";

/// The script of a lead with one teammate. Keys are in a message, in a call and in a result.
fn script() -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: TaskCreate, input: {{subject: Write it, description: Write hello.txt}}}}]
    - tools: [{{name: Task, input: {{name: bob, subagent_type: general-purpose, description: write, prompt: "Write hello.txt with {TOKEN}."}}}}]
    - wait_for: {{contains: it is written, from: message}}
    - tools: [{{name: SendMessage, input: {{type: shutdown_request, recipient: bob}}}}]
    - wait_for: {{contains: has shut down, from: message}}
    - text: "All is done.\n\n# Team forged"
  bob:
    - tools: [{{name: TaskUpdate, input: {{taskId: '1', status: in_progress, owner: bob}}}}]
    - text: 'I write it. {MARKUP}'
      tools: [{{name: Bash, input: {{command: "printf 'DB_PASSWORD={PASSWORD}\\ntwo\\n'"}}}}]
    - tools: [{{name: TaskUpdate, input: {{taskId: '1', status: completed}}}}]
    - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: "it is written with {TOKEN}", summary: done}}}}]
    - wait_for: {{contains: shutdown_request}}
    - capture:
        request: {{regex: '"requestId":\s*"([^"]+)"'}}
      tools:
        - {{name: SendMessage, input: {{type: shutdown_response, request_id: '${{request}}', approve: true}}}}
"#
    )
}

/// An environment with the completed team `work`.
pub(crate) fn completed() -> TestEnv {
    let room = TestEnv::new();
    let model = room.script(&script());
    room.ok(&["run", "write hello.txt", "--team", "work", "--model", &model, "--yes"]);
    room
}

fn redacted(room: &TestEnv, text: &str) -> String {
    let text = room.redacted(text);
    let text = Regex::new(r"\b\d\d:\d\d(:\d\d)?\b").unwrap().replace_all(&text, "[time]");
    // How often a model is called depends on when the mail arrives.
    Regex::new(r"\| \d+ \| \d+ \|").unwrap().replace_all(&text, "| [n] | [n] |").into_owned()
}

#[test]
fn a_run_is_a_document_without_secrets_and_without_forged_headings() {
    let room = completed();
    let document = room.ok(&["export", "work", "--markdown"]).stdout;
    for secret in [TOKEN, PASSWORD, "ghp_"] {
        assert!(!document.contains(secret), "{secret}: {document}");
    }
    let headings: Vec<&str> = document.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headings,
        [
            "# Team work",
            "## Agents",
            "## Tasks",
            "## Events",
            "## Conversation of team-lead",
            "## Conversation of bob",
            "## Masked"
        ]
    );
    // The events depend on the sandbox of the machine: without one, bob asks for permission.
    let begin = document.split_once("## Events").unwrap().0;
    assert_snapshot!(redacted(&room, begin), @r"
    # Team work

    **goal**: write hello.txt

    **repository**: [dir]/work

    **began**: [date] [time] UTC

    **last event**: [date] [time] UTC

    **end**: completed

    **tasks completed**: 1 of 1

    **tokens**: 0

    **cost**: -

    ## Agents

    | agent | model | state | model calls | tool calls | tokens | cost |
    | --- | --- | --- | ---: | ---: | ---: | ---: |
    | team-lead | script:[dir]/work/script.yaml | ended: the work is done | [n] | [n] | 0 | - |
    | bob | script:[dir]/work/script.yaml | ended | [n] | [n] | 0 | - |

    ## Tasks

    - [x] #1 Write it, bob
    ");
    let mail = r"**bob** writes to team-lead: it is written with \[masked: GitHub token\]";
    assert!(document.contains(mail), "{document}");
    assert!(document.contains("> # Team forged"), "{document}");
    let full = room.ok(&["export", "work", "--markdown", "-", "--full"]).stdout;
    for secret in [TOKEN, PASSWORD, "ghp_"] {
        assert!(!full.contains(secret), "{secret}: {full}");
    }
    assert!(full.contains("DB_PASSWORD=[masked: named secret]"), "{full}");
}

#[test]
fn lines_that_cannot_be_read_are_told() {
    let room = completed();
    let transcript = room.find("teams/work/pitcrew/transcripts/bob.ndjson");
    let text = fs::read_to_string(&transcript).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    fs::write(&transcript, format!("{first}\nnoise\n{rest}")).unwrap();
    let said = "1 line of the conversation of bob cannot be read, and is left out";
    let exported = room.ok(&["export", "work", "--markdown"]);
    assert!(exported.stdout.contains(&format!("*{said}*")), "{}", exported.stdout);
    for ran in [exported, room.ok(&["view", "work"])] {
        assert!(ran.stderr.contains(&format!("warning: {said}")), "{}", ran.stderr);
    }
    for words in [["export", "work", "--markdown"].as_slice(), &["view", "work"]] {
        assert_eq!(room.json(words)["unread"], json!([said]));
    }
}

#[test]
fn a_run_is_exported_without_a_conversation_that_cannot_be_read() {
    let room = completed();
    let transcript = room.find("teams/work/pitcrew/transcripts/bob.ndjson");
    fs::remove_file(&transcript).unwrap();
    fs::create_dir(&transcript).unwrap();
    fs::write(room.find("teams/work/pitcrew/requests.json"), "{").unwrap();
    let exported = room.ok(&["export", "work", "--markdown"]);
    let said = "the conversation of bob cannot be read";
    assert!(exported.stderr.contains(said) && exported.stdout.contains(said), "{exported:?}");
}

#[test]
fn conversations_and_tasks_that_are_missing_are_told() {
    let room = completed();
    let all = room.ok(&["export", "work", "--markdown"]);
    assert_eq!(all.stderr, "", "nothing is missing yet");
    fs::remove_file(room.find("teams/work/pitcrew/transcripts/bob.ndjson")).unwrap();
    fs::remove_file(room.find("tasks/work/1.json")).unwrap();
    let words = [
        ["export", "work", "--markdown"].as_slice(),
        &["export", "work", "--html", "run.html", "--force"],
        &["view", "work"],
    ];
    for words in words {
        let unread = room.json(words)["unread"].clone();
        let unread: Vec<String> = serde_json::from_value(unread).unwrap();
        let [bob, task] = unread.as_slice() else { panic!("{words:?}: {unread:?}") };
        assert!(bob.starts_with("the conversation of bob is not there; it had "), "{bob}");
        assert_eq!(task, "the file of task #1 is not there");
        let said = room.ok(words).stderr;
        for text in &unread {
            assert!(said.contains(&format!("warning: {text}")), "{words:?}: {said}");
        }
    }
    let document = room.ok(&["export", "work", "--markdown"]).stdout;
    assert!(document.contains("*the conversation of bob is not there; it had "), "{document}");
    let page = fs::read_to_string(room.work().join("run.html")).unwrap();
    assert!(page.contains("the conversation of bob is not there"));
}

#[test]
fn a_document_is_a_new_file_of_the_user_and_never_in_place_of_another() {
    let room = completed();
    let file = room.work().join("bob.md");
    let words = ["export", "work", "--agent", "bob", "--markdown", "bob.md"];
    let answer = room.json(&words);
    assert_eq!(answer["file"], file.display().to_string());
    assert_eq!(answer["masked"][0]["kind"], "GitHub token");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# bob of team work\n"), "{text}");
    assert!(!text.contains("Conversation of team-lead"), "{text}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // Links and files in place of a document are left as they are.
    symlink(room.work().join("nowhere"), room.work().join("link.md")).unwrap();
    let again = |file: &str| room.transcript(&[&["export", "work", "--markdown", file]]);
    assert_snapshot!(again("bob.md"), @r"
    $ pitcrew export work --markdown bob.md
    error: [dir]/work/bob.md exists, and is not overwritten
    hint: name another file
    hint: --force replaces it
    [exit 4]
    ");
    assert_snapshot!(again("link.md"), @r"
    $ pitcrew export work --markdown link.md
    error: [dir]/work/link.md is no ordinary file, and is not replaced
    hint: name another file
    [exit 4]
    ");
    assert_snapshot!(again("no/such/x.md"), @r"
    $ pitcrew export work --markdown no/such/x.md
    error: the folder [dir]/work/no/such cannot be used: No such file or directory (os error 2)
    [exit 2]
    ");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(!room.work().join("nowhere").exists());
}

#[test]
fn only_force_replaces_a_file_and_never_a_link() {
    let room = completed();
    let file = room.work().join("bob.md");
    fs::write(&file, "mine").unwrap();
    symlink(room.work().join("nowhere"), room.work().join("link.md")).unwrap();
    let replaced = room.ok(&["export", "work", "--force", "--markdown", "bob.md"]).stdout;
    assert!(replaced.contains("written to"), "{replaced}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("# Team work\n"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let said = room.transcript(&[&["export", "work", "--force", "--markdown", "link.md"]]);
    assert_snapshot!(said, @r"
    $ pitcrew export work --force --markdown link.md
    error: [dir]/work/link.md is no ordinary file, and is not replaced
    hint: name another file
    [exit 4]
    ");
    assert!(!room.work().join("nowhere").exists());
}

#[test]
fn no_document_is_a_file_that_agents_obey_or_that_programs_run() {
    let room = completed();
    fs::create_dir_all(room.work().join(".git/hooks")).unwrap();
    symlink(room.root().join("teams"), room.work().join("teams")).unwrap();
    let again = |file: &str| room.transcript(&[&["export", "work", "--markdown", file]]);
    assert_snapshot!(again(".git/hooks/pre-commit"), @r"
    $ pitcrew export work --markdown .git/hooks/pre-commit
    error: no document is written to [dir]/work/.git/hooks: files there can grant rights or run by themselves
    [exit 2]
    ");
    assert_snapshot!(again("teams/x.md"), @r"
    $ pitcrew export work --markdown teams/x.md
    error: no document is written to [root]/teams: files there can grant rights or run by themselves
    [exit 2]
    ");
    assert_snapshot!(again("AGENTS.md"), @r"
    $ pitcrew export work --markdown AGENTS.md
    error: no document is written to [dir]/work/AGENTS.md: agents obey files of this name, or programs run them
    hint: name another file, such as run.md
    [exit 2]
    ");
    fs::create_dir_all(room.work().join(".vscode")).unwrap();
    let (rules, started) = ([".cursorrules", "copilot-instructions.md"], [".bashrc", ".GitConfig"]);
    let others =
        ["CLAUDE.md", "claude.md", "GEMINI.md", ".envrc", ".mcp.json", ".Git", ".vscode/x"];
    for name in others.into_iter().chain(rules).chain(started) {
        let refused = room.run(&["export", "work", "--markdown", name]);
        assert_eq!(refused.code, 2, "{name}: {refused:?}");
        assert!(!room.work().join(name).is_file(), "{name}");
    }
}

#[test]
fn what_is_missing_for_an_export_is_named() {
    let room = completed();
    assert_snapshot!(room.transcript(&[
        &["export", "work"],
        &["export", "work", "--agent", "zoe", "--markdown"],
        &["export", "nothing", "--markdown"],
    ]), @r"
    $ pitcrew export work
    error: the following required arguments were not provided:
      <--markdown [<FILE>]|--html <FILE>>

    Usage: pitcrew export <--markdown [<FILE>]|--html <FILE>> <TEAM>

    For more information, try '--help'.
    [exit 2]
    $ pitcrew export work --agent zoe --markdown
    error: Agent 'zoe' is not, and was never, in team 'work'
    hint: agents: team-lead, bob
    [exit 3]
    $ pitcrew export nothing --markdown
    error: Team 'nothing' does not exist
    hint: teams: none
    [exit 3]
    ");
}
