//! A host whose run waits for a slow disk. To delay a write of the run, the test holds a lock.

use std::fs;
use std::path::Path;

use pitcrew_protocol::{AgentName, PermissionMode};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::Choice;
use pitcrew_view::asking::Chosen;
use pitcrew_view::client::{answer, follow, set_mode};
use pitcrew_view::host::What;

use crate::host_env::{Hosted, PAUSE, in_time, opened, until};

/// The script of a lead that asks permission for one command, while bob works.
const ASKS: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: w, prompt: w}}]
    - tools: [{name: Bash, input: {command: touch made}}]
    - delay_ms: 600000
      text: Late.
  bob:
    - repeat: {at_most: 100000, turns: [{delay_ms: 20, tools: [{name: TaskList}]}]}
";

/// Whether a new content of the config waits for the lock, in a temporary file beside it.
fn is_written(team: &Path) -> bool {
    let mut names = fs::read_dir(team).unwrap().map(|entry| entry.unwrap().path());
    names.any(|path| path.extension().is_some_and(|ending| ending == "tmp"))
}

fn is_bobs(what: &What) -> bool {
    matches!(what, What::Run(RunEvent::ToolEnded(ended)) if ended.agent.as_str() == "bob")
}

#[tokio::test]
async fn events_and_answers_go_on_while_the_run_waits_for_a_file() {
    let mut hosted = Hosted::start(ASKS).await;
    let team = hosted.team_elsewhere().await;
    let folder = hosted.base().join("root/teams/probe");
    let lock = folder.join("config.json.lock");
    let mut first = hosted.follow(None).await;
    let question = opened(&mut first).await;
    fs::create_dir(&lock).unwrap();
    let changing = async {
        let changed = set_mode(&team, &AgentName::lead(), PermissionMode::Plan).await;
        (changed, lock.exists())
    };
    let meanwhile = async {
        let waits = async {
            while !is_written(&folder) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        in_time("the run writes the config", waits).await;
        until(&mut first, is_bobs).await;
        let mut second = follow(&team, None).await.unwrap().unwrap();
        assert_eq!(opened(&mut second).await, question);
        let chosen = Chosen { question, choice: Choice::Once };
        assert!(answer(&team, &chosen).await.unwrap());
        for follower in [&mut first, &mut second] {
            until(follower, |what| matches!(what, What::QuestionClosed { .. })).await;
        }
        fs::remove_dir(&lock).expect("the lock was not waited for until it was stale");
    };
    let both = async { tokio::join!(changing, meanwhile) };
    // A display that reads nothing would slow the run down.
    let reading = hosted.until(|_| false);
    let ((changed, is_locked), ()) = tokio::select! {
        both = both => both,
        _ = reading => unreachable!("the run does not end"),
    };
    assert!(changed.unwrap() && !is_locked, "the run waited for the lock");
}
