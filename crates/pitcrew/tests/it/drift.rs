//! `pitcrew doctor --reference` compares recorded files of the reference client (`fixtures/`) with
//! what pitcrew knows about the client. It must report no difference in these recordings, and must
//! find every difference that a test adds to them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::test_env::{TestEnv, copy};

const RECORDINGS: [&str; 7] = [
    "claude-2.1.39/in-process",
    "claude-2.1.39/tmux-permissions",
    "claude-2.1.39/refusals",
    "claude-2.1.39/plan-approval",
    "claude-2.1.329/session-team",
    "claude-2.1.330/session-team",
    "claude-2.1.332/session-team",
];

const CONFIG: &str = "teams/probe/config.json";
const INBOX: &str = "teams/probe/inboxes/team-lead.json";
const SECOND_NOTICE: &str =
    r#"idle_notification\",\"from\":\"worker\",\"timestamp\":\"2026-11-20T11:48:29.770Z"#;
const TASK: &str = "tasks/probe/1.json";

/// A test environment that contains a recording. The `PATH` contains no reference client, except
/// one that the test installs.
struct Recorded {
    room: TestEnv,
    path: PathBuf,
}

impl Recorded {
    fn of(recording: &str) -> Self {
        let room = TestEnv::new();
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(recording),
            &room.root(),
        );
        let path = room.work().join("bin");
        fs::create_dir(&path).unwrap();
        Self { room, path }
    }

    /// Replaces `text` by `instead` in a file. The file must contain `text`.
    fn plant(self, file: &str, text: &str, instead: &str) -> Self {
        let path = self.room.root().join(file);
        let before = fs::read_to_string(&path).unwrap();
        assert!(before.contains(text), "{file} has no {text}");
        fs::write(path, before.replacen(text, instead, 1)).unwrap();
        self
    }

    /// Installs a fake client. It prints `says` when it is asked for its version, and fails
    /// otherwise.
    fn with_client(self, says: &str) -> Self {
        let client = self.path.join("claude");
        fs::write(&client, format!("#!/bin/sh\n[ \"$*\" = --version ] && echo '{says}'\n"))
            .unwrap();
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn told(&self) -> (i32, String) {
        let output =
            self.room.command(&["doctor", "--reference"]).env("PATH", &self.path).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (
            output.status.code().unwrap(),
            self.room.redacted(&String::from_utf8(output.stdout).unwrap()),
        )
    }
}

#[test]
fn no_recording_holds_anything_new() {
    for recording in RECORDINGS {
        let (code, told) = Recorded::of(recording).told();
        assert_eq!(code, 0, "{recording}: {told}");
        assert!(told.starts_with("no claude on the PATH\nnothing new in 1 config, "), "{told}");
    }
}

#[test]
fn the_recorded_messages_that_were_taken_out_since_hold_nothing_new() {
    let recorded = Recorded::of("claude-2.1.329/session-team");
    let taken = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/claude-2.1.329/inboxes-before-consumption");
    copy(&taken, &recorded.room.root().join("teams/session-6132882e/inboxes"));
    let (code, told) = recorded.told();
    assert_eq!(
        (code, told.lines().last().unwrap()),
        (0, "nothing new in 1 config, 3 inboxes and 1 task"),
        "{told}"
    );
}

#[test]
fn messages_that_a_member_of_ours_has_taken_are_compared_too() {
    let recorded = Recorded::of("claude-2.1.332/session-team");
    let taken = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/claude-2.1.332/inboxes-before-consumption/joiner.json");
    let taken: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(taken).unwrap()).unwrap();
    let teams = fs::read_dir(recorded.room.root().join("teams")).unwrap();
    let kept = teams.map(|team| team.unwrap().path()).next().unwrap().join("pitcrew/read");
    fs::create_dir_all(&kept).unwrap();
    let line = taken[0].to_string();
    fs::write(kept.join("joiner.ndjson"), format!("{line}\n")).unwrap();
    assert_eq!(recorded.told().0, 0, "{}", recorded.told().1);
    fs::write(
        kept.join("joiner.ndjson"),
        format!("{}\n{{torn", line.replacen("\\\"subtype", "\\\"mood\\\":1,\\\"subtype", 1)),
    )
    .unwrap();
    let (code, told) = recorded.told();
    assert_eq!(code, 1);
    assert!(told.contains("new field permission_response.mood: "), "{told}");
}

#[test]
fn what_is_new_is_told_with_the_file_and_the_field() {
    let recorded = Recorded::of("claude-2.1.39/in-process")
        .with_client("2.9.0 (Claude Code)")
        .plant(CONFIG, r#""name": "probe""#, r#""schema": 3, "name": "probe""#)
        .plant(CONFIG, r#""color": "blue""#, r#""color": "blue", "mood": "good""#)
        .plant(INBOX, r#""read": false"#, r#""read": false, "priority": 1"#)
        .plant(INBOX, SECOND_NOTICE, &SECOND_NOTICE.replace("idle", "nap"))
        .plant(
            INBOX,
            r#"\"idleReason\":\"available\""#,
            r#"\"idleReason\":\"available\",\"next\":\"tea\""#,
        )
        .plant(TASK, r#""subject": "Do A""#, r#""due": "today", "subject": "Do A""#)
        .plant(
            "tasks/probe/2.json",
            r#""subject": "Do B""#,
            r#""due": "today", "subject": "Do B""#,
        );
    let (code, told) = recorded.told();
    assert_eq!(code, 1);
    assert_snapshot!(told, @r#"
    claude 2.9.0; recorded were 2.1.39, 2.1.329, 2.1.330, 2.1.332
    new frame nap_notification: [root]/teams/probe/inboxes/team-lead.json
    new field config.schema: [root]/teams/probe/config.json
    new field idle_notification.next: [root]/teams/probe/inboxes/team-lead.json
    new field member.mood: [root]/teams/probe/config.json
    new field message.priority: [root]/teams/probe/inboxes/team-lead.json
    new field task.due: [root]/tasks/probe/1.json and 1 more
    6 new in 1 config, 2 inboxes and 3 tasks
    "#);
    let json = recorded.room.json(&["doctor", "--reference"]);
    assert_eq!(json["total"], 6);
    assert_eq!(json["findings"][0]["kind"], "new_frame");
    assert_eq!(json["looked_at"], serde_json::json!({"configs": 1, "inboxes": 2, "tasks": 3}));
}

#[test]
fn what_is_missing_or_stands_elsewhere_is_told() {
    let recorded = Recorded::of("claude-2.1.39/in-process")
        .with_client("2.1.39 (Claude Code)")
        .plant(CONFIG, r#""leadAgentId": "team-lead@probe","#, "")
        .plant(CONFIG, r#""subscriptions": []"#, r#""subscribed": []"#)
        .plant(INBOX, r#""from": "worker","#, "")
        .plant(
            INBOX,
            r#"\"from\":\"worker\",\"timestamp\":\"2026-11-20T11:48:29.756Z\""#,
            r#"\"timestamp\":\"t\",\"from\":\"worker\""#,
        )
        .plant(
            TASK,
            "\"id\": \"1\",\n  \"subject\": \"Do A\"",
            "\"subject\": \"Do A\",\n  \"id\": \"1\"",
        );
    let (code, told) = recorded.told();
    assert_eq!(code, 1);
    assert_snapshot!(told, @r#"
    claude 2.1.39, which was recorded
    new field member.subscribed: [root]/teams/probe/config.json
    missing field config.leadAgentId: [root]/teams/probe/config.json
    missing field member.subscriptions: [root]/teams/probe/config.json
    missing field message.from: [root]/teams/probe/inboxes/team-lead.json
    in another place idle_notification.from: [root]/teams/probe/inboxes/team-lead.json
    in another place task.id: [root]/tasks/probe/1.json
    6 new in 1 config, 2 inboxes and 3 tasks
    "#);
}

#[test]
fn a_torn_file_holds_nothing_new_and_a_client_that_fails_has_no_version() {
    let recorded = Recorded::of("claude-2.1.39/in-process")
        .plant(TASK, "\"subject\"", "\"subject")
        .with_client("x");
    fs::write(recorded.path.join("claude"), "#!/bin/sh\nexit 1\n").unwrap();
    let (code, told) = recorded.told();
    assert_eq!((code, told.lines().next().unwrap()), (0, "no claude on the PATH"), "{told}");
}
