//! Tests in which somebody removes, moves or replaces files or folders of a running team. If the
//! team's folder comes back, the run must continue, and must receive all messages that are sent
//! after the change. One test checks what a command says if the operating system gives no file
//! notifications.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::patience::until;
use crate::run::WAITING;
use crate::running::Running;
use crate::test_env::TestEnv;

/// Waits until bob has read the message `text`.
#[track_caller]
fn is_heard(room: &TestEnv, text: &str) {
    let read = || {
        let shown = room.json(&["inbox", "bob", "--team", "work"]);
        let messages = shown["messages"].as_array()?;
        messages.iter().any(|m| m["text"] == text && m["read"] == true).then_some(())
    };
    until(&format!("bob reads {text:?}"), read, || {
        room.json(&["inbox", "bob", "--team", "work"]).to_string()
    });
}

/// Removes a folder, even while the run writes into it.
fn remove(folder: &Path) {
    until(
        "it is empty for once",
        || fs::remove_dir_all(folder).ok(),
        || folder.display().to_string(),
    );
}

/// Lets `upset` change the files of a running team. Checks that later messages are read, and that a
/// second run of the team is refused.
fn check(upset: impl Fn(&Path)) {
    let room = TestEnv::new();
    let run = room.start_waiting();
    for round in 0..3 {
        upset(&room.root());
        let text = format!("message {round}");
        let sent = room.json(&["send", "bob", &text, "--team", "work"]);
        assert_eq!(sent["receipts"][0]["state"], "persisted", "{sent}");
        is_heard(&room, &text);
    }
    let model = room.script(WAITING);
    // Some tests remove the file of the run's lease. The run then makes the file again within a
    // moment.
    until(
        "the run holds its lease",
        || room.json(&["team", "show", "work"]).to_string().contains("by_pitcrew").then_some(()),
        || room.json(&["team", "show", "work"]).to_string(),
    );
    let second = room.run(&["run", "--resume", "work", "--model", &model]);
    assert_eq!(second.code, 4, "{second:?}");
    run.signal(Signal::TERM);
    let (code, _) = run.ended();
    assert_eq!(code, Some(143));
}

#[test]
fn a_run_hears_again_when_its_inboxes_were_removed() {
    check(|root| remove(&root.join("teams/work/inboxes")));
}

#[test]
fn a_run_hears_again_when_its_own_folder_was_removed() {
    check(|root| remove(&root.join("teams/work/pitcrew")));
}

#[test]
fn a_run_goes_on_when_its_team_was_moved_away_and_back() {
    check(|root| {
        for folder in ["teams/work", "teams", "tasks/work"] {
            fs::rename(root.join(folder), root.join("away")).unwrap();
            fs::rename(root.join("away"), root.join(folder)).unwrap();
        }
    });
}

#[test]
fn a_run_goes_on_when_a_client_replaces_the_config_by_removing_it_first() {
    check(|root| {
        let path = root.join("teams/work/config.json");
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        // A client that replaces the config removes the old file first. With known clients, the
        // config was never missing for longer than this pause.
        std::thread::sleep(Duration::from_millis(600));
        fs::write(&path, text).unwrap();
    });
}

#[test]
fn a_resume_names_the_folder_that_was_moved_and_goes_on_by_a_link_to_it() {
    let room = TestEnv::new();
    let repository = room.work().join("projects/app");
    fs::create_dir_all(repository.join("sub")).unwrap();
    let model = format!("script:{}", room.work().join("script.yaml").display());
    fs::write(room.work().join("script.yaml"), "agents: {default: [{text: done}]}").unwrap();
    let begin = ["run", "do it", "--team", "work", "--model", &model];
    assert!(
        room.command(&begin).current_dir(repository.join("sub")).output().unwrap().status.success()
    );
    room.bring_back("work");
    let refuse = |folder: &Path, said: &str| {
        for args in [&["run", "--resume", "work"][..], &["team", "lead", "work", "--take-over"]] {
            let ran = room.run(args);
            assert_eq!(ran.code, 4, "{ran:?}");
            assert!(ran.stderr.contains(said), "{ran:?}");
            let mend = format!("`ln -s NEW_PLACE {}`", folder.display());
            assert!(ran.stderr.contains(&mend), "{ran:?}");
        }
    };
    let (old, new) = (room.work().join("projects"), room.work().join("moved"));
    fs::rename(&old, &new).unwrap();
    refuse(&old, &format!("sub, and {} is not there any more", old.display()));
    std::os::unix::fs::symlink(&new, &old).unwrap();
    room.ok(&["run", "--resume", "work"]);
    room.bring_back("work");
    fs::remove_dir(new.join("app/sub")).unwrap();
    refuse(&repository.join("sub"), "app/sub, which is not there any more");
    fs::write(new.join("app/sub"), "a file").unwrap();
    refuse(&repository.join("sub"), "app/sub, which is no folder");
}

#[test]
fn a_member_that_a_stale_config_drops_is_put_back_and_one_that_is_removed_goes() {
    check(|root| {
        let path = root.join("teams/work/config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config["members"].as_array_mut().unwrap().truncate(1);
        put(&path, &serde_json::to_vec_pretty(&config).unwrap());
        let is_back = || {
            let config: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            (config["members"].as_array()?.len() == 2).then_some(())
        };
        until("bob is a member again", is_back, || fs::read_to_string(&path).unwrap_or_default());
    });
    let room = TestEnv::new();
    let _run = room.start_waiting();
    let path = room.root().join("teams/work/config.json");
    let with_bob = fs::read(&path).unwrap();
    room.ok(&["member", "remove", "bob", "--team", "work"]);
    let ended = room.root().join("teams/work/pitcrew/ended.json");
    let is_settled = || {
        fs::read_to_string(&ended)
            .is_ok_and(|text| text.contains("\"settled\": true"))
            .then_some(())
    };
    until("the end of bob is settled", is_settled, || {
        fs::read_to_string(&ended).unwrap_or_default()
    });
    // Write an older copy of the config back. The removed member bob is then in the config again.
    put(&path, &with_bob);
    let is_gone = || (!fs::read_to_string(&path).ok()?.contains("bob@work")).then_some(());
    until("bob is gone", is_gone, || fs::read_to_string(&path).unwrap_or_default());
}

/// Replaces a file by a new file with older content. Neither the time nor the inode of the new file
/// shows that its content is older. Real programs do not replace a config in this way.
fn put(path: &Path, bytes: &[u8]) {
    let temp = path.with_extension("theirs");
    fs::write(&temp, bytes).unwrap();
    fs::rename(&temp, path).unwrap();
}

#[test]
fn a_run_ends_when_its_team_is_gone() {
    let room = TestEnv::new();
    let run = room.start_waiting();
    fs::rename(room.root().join("teams/work"), room.root().join("away")).unwrap();
    let (code, said) = run.ended();
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn a_send_that_no_process_hears_says_so() {
    let room = TestEnv::with_crew();
    let ran = room.ok(&["send", "bob", "hello"]);
    assert_eq!(ran.stderr, "warning: no process runs bob now; the next run of the team reads it\n");
    let sent = room.json(&["broadcast", "hello"]);
    let warnings = serde_json::json!([
        "no process runs team-lead, ann, bob now; the next run of the team reads it"
    ]);
    assert_eq!(sent["warnings"], warnings, "{sent}");
    let room = TestEnv::new();
    let _run = room.start_waiting();
    let sent = room.json(&["send", "bob", "hello", "--team", "work"]);
    assert_eq!(sent["warnings"], Value::Null, "{sent}");
}

#[test]
fn without_notices_of_the_system_a_reader_says_so_and_looks_every_second() {
    let room = TestEnv::with_crew();
    for limit in ["max_inotify_instances", "max_inotify_watches"] {
        // The test sets a limit on file notifications (inotify) to 0 in a separate user namespace.
        // The limit therefore applies to no other process.
        let script = format!(
            "echo 0 > /proc/sys/user/{limit} || exit 90; exec {} inbox bob --follow --team crew",
            env!("CARGO_BIN_EXE_pitcrew")
        );
        let probe = Command::new("unshare").args(["-Ur", "true"]).status();
        if !probe.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no user namespace can be made here");
            return;
        }
        let mut command = room.tool("unshare", &["-Ur", "bash", "-c", &script]);
        let mut follow = Running::of(&mut command);
        let said = follow.line();
        assert!(said.contains("fs.inotify") && said.contains("every second"), "{limit}: {said}");
    }
}
