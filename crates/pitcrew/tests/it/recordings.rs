//! Teams that the reference client left, in both forms of its files: the named dialect of older
//! versions and the session dialect of newer versions. pitcrew lists, shows, reads and writes these
//! teams, and preserves every foreign field.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::test_env::{TestEnv, copy};

fn recorded(path: &str) -> TestEnv {
    let room = TestEnv::new();
    copy(&fixtures().join(path), &room.root());
    room
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Sends a message into a recorded team. Checks that all earlier messages keep their content and
/// the order of their fields, and that no other file has changed.
fn check_send(path: &str, dir: &str, agent: &str) {
    let room = recorded(path);
    let before = room.tree();
    let inbox = PathBuf::from(format!("teams/{dir}/inboxes/{agent}.json"));
    let there: Vec<Value> = serde_json::from_slice(before[&inbox].as_deref().unwrap()).unwrap();
    room.ok(&["send", "--team", dir, agent, "a word from outside", "--summary", "a word"]);
    let mut now: Vec<Value> =
        serde_json::from_value(room.json_file(inbox.to_str().unwrap())).unwrap();
    let ours = now.pop().unwrap();
    assert_eq!(ours["text"], "a word from outside");
    // The messages are compared as text, so that the order of their fields is compared too.
    let text = |messages: &[Value]| serde_json::to_string(messages).unwrap();
    assert_eq!(text(&now), text(&there), "{path}");
    let mut after = room.tree();
    for (file, content) in &before {
        if *file != inbox {
            assert_eq!(after.remove(file).as_ref(), Some(content), "{}", file.display());
        }
    }
}

#[test]
fn a_team_of_the_named_dialect_is_listed_shown_and_read() {
    let room = recorded("claude-2.1.39/in-process");
    insta::assert_snapshot!(room.transcript(&[
        &["team", "list"],
        &["team", "show"],
        &["task", "get", "1"],
        &["inbox", "worker"],
    ]), @r#"
    $ pitcrew team list
    TEAM   MEMBERS  RUN BY   MADE        TOKENS  COST  ABOUT
    probe  2        unknown  [date]  -       -     probe team
    $ pitcrew team show
    probe  led by another client, which does not say whether it runs, [root]/teams/probe/config.json
    probe team

    MEMBER     TYPE             MODEL                       MODE  RUNS IN     STATE    WORKTREE
    team-lead  architect        claude-sonnet-4-5-20250929  -     -           unknown  -
    worker     general-purpose  claude-opus-4-6             -     in-process  unknown  -

    TASK  STATUS     OWNER   SUBJECT  WAITS FOR
    #1    completed  worker  Do A
    #2    pending    -       Do B
    $ pitcrew task get 1
    #1 Do A
    status      completed
    owner       worker
    holds up    #2
    p           1

    desc A
    $ pitcrew inbox worker
    worker  [time] read [uuid]
      [task_assignment]
      {"type":"task_assignment","taskId":"1","subject":"Do A","description":"desc A","assignedBy":"worker","timestamp":"[time]"}

    team-lead: greeting the worker  [time] read [uuid]
      hello worker

    team-lead: greeting everyone  [time] read [uuid]
      hello all
    "#);
}

#[test]
fn a_team_of_the_session_dialect_is_listed_shown_and_read() {
    let room = recorded("claude-2.1.329/session-team");
    // The test makes it appear that the session was recorded on another machine. pitcrew then
    // cannot know whether the session's lead is alive.
    let config = room.root().join("teams/session-6132882e/config.json");
    let elsewhere =
        std::fs::read_to_string(&config).unwrap().replace("vm#pid:[4026531836]", "vm#pid:[1]");
    std::fs::write(config, elsewhere).unwrap();
    insta::assert_snapshot!(room.transcript(&[
        &["team", "list"],
        &["team", "show"],
        &["task", "get", "1"],
        &["inbox", "worker"],
    ]), @r#"
    $ pitcrew team list
    TEAM              MEMBERS  RUN BY     MADE        TOKENS  COST  ABOUT
    session-6132882e  2        elsewhere  [date]  -       -
    $ pitcrew team show
    session-6132882e  led by process 9522 elsewhere (vm#pid:[1]), [root]/teams/session-6132882e/config.json

    MEMBER     TYPE             MODEL            MODE  RUNS IN     STATE                 WORKTREE
    team-lead  team-lead        -                -     in-process  unknown, claude 9522  -
    worker     general-purpose  claude-opus-5-5  -     tmux %1     unknown               -

    TASK  STATUS   OWNER  SUBJECT  WAITS FOR
    #1    pending  -      Do A
    $ pitcrew task get 1
    #1 Do A
    status      pending
    owner       nobody

    d
    $ pitcrew inbox worker
    nothing for worker
    "#);
}

#[test]
fn a_send_into_a_recorded_team_keeps_every_foreign_field() {
    check_send("claude-2.1.39/in-process", "probe", "team-lead");
    check_send("claude-2.1.39/tmux-permissions", "probe", "planner");
    check_send("claude-2.1.39/plan-approval", "probe", "planner");
    check_send("claude-2.1.329/session-team", "session-6132882e", "team-lead");
}
