//! Tests the removal of members from a session, and the deletion of a session's team.

use insta::assert_snapshot;
use serde_json::Value;

use super::{PaneTeammate, Session, TEAM};

#[test]
fn a_client_that_may_run_is_taken_out_of_its_leads_team_only_by_force_and_nothing_false_is_said_of_it()
 {
    let session = Session::led();
    let worker = PaneTeammate::start();
    let room = &session.room;
    let named = |text: String| {
        text.replace(&worker.0.id().to_string(), "[worker]")
            .replace(&session.lead.id().to_string(), "[lead]")
    };
    let sent = room.json(&["send", "--team", TEAM, "worker", "look here"]);
    let before = room.tree();
    let refused = named(room.transcript(&[&["member", "remove", "worker", "--team", TEAM]]));
    assert_snapshot!(refused, @r"
    $ pitcrew member remove worker --team session-6132882e
    error: worker is a teammate of another client, and runs as process [worker]
    hint: its lead can have it leave; `pitcrew send --team session-6132882e team-lead` can ask for that
    hint: --force takes it out of the team's files only: it is not ended, and its lead does not learn of it
    [exit 4]
    ");
    assert!(room.tree() == before, "what was refused changed something");
    let forced =
        named(room.transcript(&[&["member", "remove", "worker", "--force", "--team", TEAM]]));
    assert_snapshot!(forced, @r"
    $ pitcrew member remove worker --force --team session-6132882e
    worker is no longer a member of session-6132882e
    it is a teammate of another client, and runs as process [worker]: nothing ended it
    unread messages that will not be delivered: 1; their senders in the team are informed
    ");
    let told = room.ok(&["message", sent["receipts"][0]["id"].as_str().unwrap()]).stdout;
    assert!(
        told.contains("worker is no longer in the team") && !told.contains("shut down"),
        "{told}"
    );
}

#[test]
fn the_team_of_a_dead_session_is_not_deleted_while_a_teammate_of_it_lives() {
    let mut session = Session::led();
    let mut worker = PaneTeammate::start();
    session.lead.kill().unwrap();
    session.lead.wait().unwrap();
    let room = &session.room;
    let before = room.tree();
    let refused = room.transcript(&[&["team", "delete", TEAM, "--force"]]);
    assert_snapshot!(refused.replace(&worker.0.id().to_string(), "[worker]"), @r"
    $ pitcrew team delete session-6132882e --force
    error: teammates of team session-6132882e still run, which pitcrew did not start: worker (process [worker])
    hint: end them where they are, or by `kill [worker]`; then delete the team
    [exit 4]
    ");
    assert!(room.tree() == before, "what was refused changed something");
    worker.ends();
    room.ok(&["team", "delete", TEAM, "--force"]);
    assert!(!session.config().exists());
}

#[test]
fn one_that_is_gone_is_taken_out_without_force() {
    let session = Session::led();
    let removed = session.room.ok(&["member", "remove", "worker", "--team", TEAM]).stdout;
    assert!(!removed.contains("nothing ended it"), "{removed}");
}

#[test]
fn where_it_is_not_known_whether_a_client_runs_that_is_what_is_said() {
    let session = Session::led();
    session.claim(&Value::Null);
    let seen = session.room.transcript(&[
        &["send", "--team", TEAM, "worker", "hello"],
        &["member", "remove", "worker", "--team", TEAM],
        &["shutdown", TEAM],
        &["shutdown", TEAM, "--force"],
        &["team", "delete", TEAM],
    ]);
    assert_snapshot!(seen, @r"
    $ pitcrew send --team session-6132882e worker hello
    worker: persisted as [uuid]
    $ pitcrew member remove worker --team session-6132882e
    error: worker is a teammate of another client, and whether it runs is not known
    hint: its lead can have it leave; `pitcrew send --team session-6132882e team-lead` can ask for that
    hint: --force takes it out of the team's files only: it is not ended, and its lead does not learn of it
    [exit 4]
    $ pitcrew shutdown session-6132882e
    error: team 'session-6132882e' is led by another client, which does not say whether it runs; no run of pitcrew started any of it
    hint: the client that leads it can end it
    [exit 4]
    $ pitcrew shutdown session-6132882e --force
    error: team 'session-6132882e' is led by another client, which does not say whether it runs; no run of pitcrew started any of it
    hint: the client that leads it can end it
    [exit 4]
    $ pitcrew team delete session-6132882e
    error: Cannot cleanup team with 1 active member(s): worker. They have to shut down, or be removed, first.
    hint: `pitcrew member remove NAME --team session-6132882e` removes a dead member
    hint: `pitcrew team delete session-6132882e --force` deletes it after a crash
    [exit 4]
    ");
}
