//! The command `pitcrew member`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::test_env::TestEnv;

#[test]
fn a_forced_deletion_names_the_members_that_it_removed() {
    let room = TestEnv::with_crew();
    room.ok(&["send", "bob", "too late"]);
    let deleted = room.json(&["team", "delete", "crew", "--force"]);
    let removed = deleted["removed_members"].as_array().unwrap();
    let names: Vec<&Value> = removed.iter().map(|member| &member["name"]).collect();
    assert_eq!(names, ["ann", "bob"], "{deleted:#}");
    assert_eq!(removed[1]["dead_messages"].as_array().unwrap().len(), 1, "{deleted:#}");
    let room = TestEnv::with_crew();
    let said = room.ok(&["team", "delete", "crew", "--force"]).stdout;
    assert!(said.ends_with("\nmembers removed: ann, bob\n"), "{said}");
}

#[test]
fn members_are_listed_and_changed_and_removed() {
    let room = TestEnv::with_crew();
    room.ok(&["task", "create", "Fix it"]);
    room.ok(&["task", "update", "1", "--owner", "bob", "--status", "in_progress"]);
    let seen = room.transcript(&[
        &["member", "list"],
        &["member", "mode", "ann", "acceptEdits"],
        &["member", "mode", "ann", "whatever"],
        &["member", "remove", "bob"],
        &["member", "remove", "bob"],
        &["member", "list"],
        &["task", "list"],
    ]);
    assert_snapshot!(seen, @r#"
    $ pitcrew member list
    MEMBER     TYPE             MODEL    MODE  RUNS IN     WORKTREE
    team-lead  team-lead        inherit  -     -           -
    ann        general-purpose  haiku    -     in-process  -
    bob        general-purpose  haiku    -     in-process  -
    $ pitcrew member mode ann acceptEdits
    mode acceptEdits is recorded for ann; Claude Code takes its mode only when it is started again, or from the approval of its plan
    $ pitcrew member mode ann whatever
    error: there is no permission mode 'whatever'; there are: default, acceptEdits, plan, delegate, dontAsk, bypassPermissions
    hint: modes: default, acceptEdits, plan, delegate, dontAsk, bypassPermissions
    [exit 2]
    $ pitcrew member remove bob
    bob is no longer a member of crew
    free again: #1
    unread messages that will not be delivered: 1; their senders in the team are informed
    $ pitcrew member remove bob
    error: Agent 'bob' is not in team 'crew'
    hint: agents: team-lead, ann
    [exit 3]
    $ pitcrew member list
    MEMBER     TYPE             MODEL    MODE         RUNS IN     WORKTREE
    team-lead  team-lead        inherit  -            -           -
    ann        general-purpose  haiku    acceptEdits  in-process  -
    $ pitcrew task list
    TASK  STATUS   OWNER  SUBJECT  WAITS FOR
    #1    pending  -      Fix it
    "#);
}
