//! Tests of the messages that commands print about a team's state and the user's next step. The
//! tests check that a message is true, and that a user can type each suggested command exactly as
//! shown.

use std::process::Command;

use rustix::process::Signal;

use crate::running::Running;
use crate::test_env::TestEnv;

/// The script of a lead whose teammate writes a file in its own worktree and then waits.
const IN_WORKTREE: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait., isolation: worktree}}]
    - tools: [{name: Bash, input: {command: sleep 600}}]
  bob:
    - tools: [{name: Write, input: {file_path: made.txt, content: made}}]
    - text: I wait.
";

fn in_git(room: &TestEnv) {
    for args in [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "x"]] {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        assert!(room.tool("git", &identity).args(args).status().unwrap().success());
    }
}

#[test]
fn the_worktrees_that_a_deletion_keeps_are_named() {
    let room = TestEnv::new();
    in_git(&room);
    let model = room.script(IN_WORKTREE);
    let mut run =
        Running::start(&room, &["run", "wait", "--team", "work", "--model", &model, "--yes"]);
    run.until("bob is idle");
    run.signal(Signal::INT);
    assert_eq!(run.ended().0, Some(130));
    let deleted = room.json(&["team", "delete", "work", "--force"]);
    let kept = &deleted["kept_worktrees"][0];
    assert_eq!(
        (&deleted["success"], &kept["member"]),
        (&true.into(), &"bob".into()),
        "{deleted:#}"
    );
    assert!(
        std::path::Path::new(kept["path"].as_str().unwrap()).join("made.txt").exists(),
        "{deleted:#}"
    );
    assert_eq!(deleted["message"], "Cleaned up directories for team \"work\"");
    assert_eq!(deleted["removed_members"][0]["name"], "bob", "{deleted:#}");
}

#[test]
fn the_removal_of_a_member_says_whether_it_was_running() {
    let room = TestEnv::new();
    in_git(&room);
    let model = room.script(IN_WORKTREE);
    let mut run =
        Running::start(&room, &["run", "wait", "--team", "work", "--model", &model, "--yes"]);
    run.until("bob is idle");
    let removed = room.ok(&["member", "remove", "bob"]);
    assert!(removed.stdout.contains("it was running; its process ends it now"), "{removed:?}");
    run.signal(Signal::INT);
    run.ended();
}

#[test]
fn doctor_names_a_stopped_team_that_has_only_a_lead_and_no_team_that_never_ran() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{tools: [{name: TaskList}]}, {text: Done.}]}");
    let ran = room.run(&["run", "go", "--team", "few", "--model", &model, "--max-turns", "1"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    room.ok(&["team", "create", "made"]);
    let doctor = room.ok(&["doctor"]);
    let said = "nobody runs it; `pitcrew run --resume few` goes on with its lead";
    assert!(doctor.stdout.contains(said) && !doctor.stdout.contains("--resume made"), "{doctor:?}");
}

#[test]
fn a_limit_of_nothing_is_refused_and_no_hidden_command_is_listed() {
    let room = TestEnv::new();
    let ran = room.run(&["run", "go", "--max-cost-usd", "0"]);
    assert!(ran.code == 2 && ran.stderr.contains("an amount above 0"), "{ran:?}");
    let ran = room.run(&["--json"]);
    assert!(
        ran.code == 2 && ran.stdout.contains("shutdown") && !ran.stdout.contains("-exec"),
        "{ran:?}"
    );
}

#[test]
fn a_run_outside_of_tmux_says_how_its_panes_are_seen() {
    if Command::new("tmux").arg("-V").output().is_err() {
        eprintln!("skipped: tmux is not installed");
        return;
    }
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: Done.}]}");
    let ran =
        room.ok(&["run", "go", "--team", "few", "--model", &model, "--teammate-mode", "tmux"]);
    assert_eq!(ran.stderr.matches("`tmux attach -t pitcrew` goes there").count(), 1, "{ran:?}");
}

#[test]
fn the_advice_of_a_stopped_demo_can_be_followed() {
    let room = TestEnv::new();
    let mut demo = Running::start(&room, &["demo"]);
    demo.until("joins as a teammate");
    demo.signal(Signal::INT);
    let (code, said) = demo.ended();
    assert_eq!(code, Some(130), "{said}");
    assert!(
        said.contains("its temporary folder is removed") && !said.contains("--resume"),
        "{said}"
    );
    let mut demo = Running::start(&room, &["demo", "--dir", "kept"]);
    demo.until("joins as a teammate");
    let second = room.run(&["demo", "--resume", "kept"]);
    let root = room.work().join("kept/root");
    let advice = format!("`pitcrew --root {} shutdown demo` ends it", root.display());
    assert!(second.code == 4 && second.stderr.contains(&advice), "{second:?}");
    demo.signal(Signal::INT);
    let (code, said) = demo.ended();
    assert_eq!(code, Some(130), "{said}");
    let advice = format!("pitcrew demo --resume {}", room.work().join("kept").display());
    assert!(said.contains(&advice) && !said.contains("run --resume"), "{said}");
}
