//! The command `pitcrew task`.

use insta::assert_snapshot;

use crate::test_env::TestEnv;

#[test]
fn a_blocked_task_is_started_with_force_and_a_completed_one_opened_again_by_the_user() {
    let room = TestEnv::with_crew();
    let seen = room.transcript(&[
        &["task", "create", "Fix the parser"],
        &["task", "create", "Write it up"],
        &["task", "update", "2", "--blocked-by", "1"],
        &["task", "update", "2", "--status", "in_progress"],
        &["task", "update", "2", "--force"],
        &["task", "update", "2", "--status", "in_progress", "--force"],
        &["task", "update", "2", "--status", "completed"],
        &["task", "update", "2", "--status", "pending"],
    ]);
    assert_snapshot!(seen, @r#"
    $ pitcrew task create "Fix the parser"
    made task #1: Fix the parser
    $ pitcrew task create "Write it up"
    made task #2: Write it up
    $ pitcrew task update 2 --blocked-by 1
    changed blockedBy of task #2
    $ pitcrew task update 2 --status in_progress
    error: Task #2 is blocked by #1
    hint: --force starts it although its blockers are open
    [exit 4]
    $ pitcrew task update 2 --force
    error: the following required arguments were not provided:
      --status <STATUS>

    Usage: pitcrew task update --status <STATUS> --force <ID>

    For more information, try '--help'.
    [exit 2]
    $ pitcrew task update 2 --status in_progress --force
    changed status of task #2
    $ pitcrew task update 2 --status completed
    changed status of task #2
    $ pitcrew task update 2 --status pending
    changed status of task #2
    "#);
}

#[test]
fn tasks_are_made_listed_changed_and_shown() {
    let room = TestEnv::with_crew();
    let seen = room.transcript(&[
        &["task", "list"],
        &[
            "task",
            "create",
            "Fix the parser",
            "Tests in tests/parser.rs fail",
            "--metadata",
            "priority=1",
        ],
        &["task", "create", "Write it up"],
        &["task", "update", "2", "--blocked-by", "1", "--owner", "bob"],
        &["task", "update", "2", "--owner", "bob"],
        &["task", "list"],
        &["task", "get", "#1"],
        &["task", "update", "1", "--status", "completed", "--metadata", "priority=null"],
        &["task", "list", "--status", "pending"],
        &["task", "update", "2", "--status", "deleted"],
        &["task", "list"],
    ]);
    assert_snapshot!(seen, @r#"
    $ pitcrew task list
    no tasks
    $ pitcrew task create "Fix the parser" "Tests in tests/parser.rs fail" --metadata priority=1
    made task #1: Fix the parser
    $ pitcrew task create "Write it up"
    made task #2: Write it up
    $ pitcrew task update 2 --blocked-by 1 --owner bob
    changed owner, blockedBy of task #2
    $ pitcrew task update 2 --owner bob
    task #2 had these values already; nothing was changed
    $ pitcrew task list
    TASK  STATUS   OWNER  SUBJECT         WAITS FOR
    #1    pending  -      Fix the parser
    #2    pending  bob    Write it up     #1
    $ pitcrew task get #1
    #1 Fix the parser
    status      pending
    owner       nobody
    holds up    #2
    made        [time]
    changed     [time]
    priority    1

    Tests in tests/parser.rs fail
    $ pitcrew task update 1 --status completed --metadata priority=null
    changed metadata, status of task #1
    $ pitcrew task list --status pending
    TASK  STATUS   OWNER  SUBJECT      WAITS FOR
    #2    pending  bob    Write it up
    $ pitcrew task update 2 --status deleted
    deleted task #2
    $ pitcrew task list
    TASK  STATUS     OWNER  SUBJECT         WAITS FOR
    #1    completed  -      Fix the parser
    "#);
}

#[test]
fn with_json_a_task_has_the_shape_of_the_api_reference() {
    let room = TestEnv::with_crew();
    let made = room.json(&["task", "create", "Fix it", "All of it", "--active-form", "Fixing it"]);
    assert_snapshot!(room.redacted(&format!("{made:#}")), @r#"
    {
      "taskId": "1",
      "subject": "Fix it",
      "description": "All of it",
      "activeForm": "Fixing it",
      "status": "pending",
      "owner": null,
      "created_at": "[time]",
      "updated_at": "[time]",
      "blockedBy": [],
      "blocks": []
    }
    "#);
    room.ok(&["task", "create", "Then this"]);
    room.ok(&["task", "update", "1", "--blocks", "2"]);
    let listed = room.json(&["task", "list"]);
    assert_snapshot!(format!("{listed:#}"), @r#"
    {
      "tasks": [
        {
          "id": "1",
          "subject": "Fix it",
          "status": "pending",
          "owner": null,
          "blockedBy": [],
          "blocks": [
            "2"
          ]
        },
        {
          "id": "2",
          "subject": "Then this",
          "status": "pending",
          "owner": null,
          "blockedBy": [
            "1"
          ],
          "blocks": []
        }
      ],
      "total": 2
    }
    "#);
    let deleted = room.json(&["task", "update", "1", "--status", "deleted"]);
    assert_snapshot!(format!("{deleted:#}"), @r#"
    {
      "taskId": "1",
      "status": "deleted"
    }
    "#);
}

#[test]
fn a_claim_is_won_by_one_and_the_others_are_told_who_won() {
    let room = TestEnv::with_crew();
    room.ok(&["task", "create", "Fix it"]);
    room.ok(&["task", "create", "Later"]);
    room.ok(&["task", "update", "2", "--blocked-by", "1"]);
    let seen = room.transcript(&[
        &["task", "claim", "--as", "ann"],
        &["task", "claim", "1", "--as", "bob"],
        &["task", "claim", "2", "--as", "bob"],
        &["task", "claim", "--as", "bob"],
    ]);
    assert_snapshot!(seen, @r#"
    $ pitcrew task claim --as ann
    task #1 is ann's: Fix it
    $ pitcrew task claim 1 --as bob
    error: Task #1 is owned by 'ann' (in_progress)
    [exit 4]
    $ pitcrew task claim 2 --as bob
    error: Task #2 is blocked by #1
    [exit 4]
    $ pitcrew task claim --as bob
    error: no task is ready to be claimed
    [exit 4]
    "#);
}

#[test]
fn a_file_that_cannot_be_read_hides_no_other_task_and_is_said_once() {
    for file in ["1.json", "notes.json"] {
        let room = TestEnv::with_crew();
        for subject in ["one", "two"] {
            room.ok(&["task", "create", subject]);
        }
        let path = room.root().join("tasks/crew").join(file);
        std::fs::write(&path, "{\"id\": \"1").unwrap();
        let listed = room.ok(&["task", "list"]);
        assert!(listed.stdout.contains("two"), "{file}: {listed:?}");
        let said = format!("the task file {} is ignored", path.display());
        assert_eq!(listed.stderr.matches(&said).count(), 1, "{file}: {listed:?}");
        assert_eq!(room.ok(&["task", "claim", "2", "--as", "bob"]).code, 0);
        let made = room.json(&["task", "create", "three"]);
        assert_eq!(made["taskId"], "3", "{file}: the number of a torn task is not used again");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"id\": \"1", "{file}");
        let kind = if file == "1.json" { "torn" } else { "no_task" };
        let found = room.json(&["doctor"]);
        assert_eq!(
            (&found["findings"][0]["kind"], &found["total"]),
            (&kind.into(), &1.into()),
            "{found:#}"
        );
    }
}

#[test]
fn json_has_no_character_that_controls_the_terminal_and_keeps_the_text() {
    let room = TestEnv::with_crew();
    let subject = "a\u{9b}31m\u{7f}\u{202e}b";
    room.ok(&["task", "create", subject]);
    let printed = room.ok(&["--json", "task", "list"]).stdout;
    assert!(printed.contains(r#""a\u009b31m\u007f\u202eb""#), "{printed}");
    assert_eq!(room.json(&["task", "list"])["tasks"][0]["subject"], subject);
}
