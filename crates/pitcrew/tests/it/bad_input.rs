//! Tests that each wrong command ends with its own error and exit code, with text output and with
//! JSON output. A wrong command must change nothing on disk.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::running::Running;
use crate::test_env::TestEnv;

/// Runs the command twice, with text output and with JSON output. Checks the exit code and the
/// error, and that no file changed.
fn check(room: &TestEnv, args: &[&str], code: i32, error: &str) -> Value {
    let before = room.tree();
    let text = room.run(args);
    assert_eq!(text.code, code, "{args:?}: {text:?}");
    assert!(text.stderr.contains("error: "), "{args:?}: {text:?}");
    assert_eq!(text.stdout, "", "{args:?}");
    let mut with_json = vec!["--json"];
    with_json.extend(args);
    let json = room.run(&with_json);
    assert_eq!(json.code, code, "{args:?}: {json:?}");
    assert_eq!(json.stderr, "", "{args:?}");
    let envelope: Value =
        serde_json::from_str(&json.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {json:?}"));
    assert_eq!(envelope["success"], false, "{args:?}");
    assert_eq!(envelope["error"], error, "{args:?}: {envelope}");
    assert!(
        envelope["message"].as_str().is_some_and(|message| !message.is_empty()),
        "{args:?}: {envelope}"
    );
    assert!(room.tree() == before, "{args:?} changed something on disk");
    envelope
}

#[test]
fn an_unknown_team_is_told_with_those_there_are() {
    let room = TestEnv::with_crew();
    for args in [
        &["team", "show", "crwe"][..],
        &["team", "delete", "crwe"],
        &["send", "--team", "crwe", "bob", "hi"],
        &["broadcast", "--team", "crwe", "hi"],
        &["inbox", "--team", "crwe"],
        &["task", "list", "--team", "crwe"],
        &["member", "list", "--team", "crwe"],
        &["shutdown", "crwe"],
    ] {
        let envelope = check(&room, args, 3, "team_not_found");
        assert_eq!(envelope["details"]["available_teams"][0], "crew", "{args:?}");
        assert_eq!(envelope["details"]["did_you_mean"], "crew", "{args:?}");
    }
}

#[test]
fn without_any_team_a_command_says_how_to_make_one() {
    check(&TestEnv::new(), &["team", "show"], 3, "team_not_found");
}

#[test]
fn an_unknown_agent_is_told_with_the_members_and_makes_no_inbox() {
    let room = TestEnv::with_crew();
    room.ok(&["task", "create", "Fix it"]);
    for args in [
        &["send", "bop", "hi"][..],
        &["inbox", "bop"],
        &["member", "remove", "bop"],
        &["member", "mode", "bop", "plan"],
        &["task", "update", "1", "--owner", "bop"],
        &["task", "claim", "1", "--as", "bop"],
    ] {
        let envelope = check(&room, args, 3, "agent_not_found");
        assert_eq!(envelope["details"]["did_you_mean"], "bob", "{args:?}");
    }
}

#[test]
fn an_unknown_task_is_refused() {
    let room = TestEnv::with_crew();
    room.ok(&["task", "create", "Fix it"]);
    for args in [
        &["task", "get", "99"][..],
        &["task", "get", "../1"],
        &["task", "update", "99", "--status", "completed"],
        &["task", "update", "1", "--blocked-by", "99"],
        &["task", "claim", "99", "--as", "bob"],
    ] {
        check(&room, args, 3, "task_not_found");
    }
}

#[test]
fn names_that_no_path_can_carry_are_refused() {
    let room = TestEnv::with_crew();
    let long = "x".repeat(300);
    for name in ["..", "", long.as_str(), "a\nb", "a\u{7f}b", "😀"] {
        check(&room, &["team", "create", name], 2, "invalid_request");
        check(&room, &["send", "bob", "hi", "--from", name], 2, "invalid_request");
    }
}

#[test]
fn emoji_that_fall_on_one_folder_are_refused() {
    let room = TestEnv::new();
    room.ok(&["team", "create", "crew😀"]);
    check(&room, &["team", "create", "crew🚀"], 4, "team_already_exists");
    check(&room, &["team", "create", "crew--"], 4, "team_already_exists");
    check(&room, &["team", "show", "crew🚀"], 3, "team_not_found");
}

#[test]
fn texts_over_their_limits_are_refused() {
    let room = TestEnv::with_crew();
    let text = |chars: usize| "ä".repeat(chars);
    check(&room, &["send", "bob", &text(10_001)], 2, "invalid_request");
    check(&room, &["send", "bob", ""], 2, "invalid_request");
    check(&room, &["broadcast", &text(10_001)], 2, "invalid_request");
    check(&room, &["send", "bob", "hi", "--summary", &text(101)], 2, "invalid_request");
    check(&room, &["task", "create", &text(201)], 2, "invalid_request");
    check(&room, &["task", "create", "Fix it", &text(5_001)], 2, "invalid_request");
    room.ok(&["send", "bob", &text(10_000), "--summary", &text(100)]);
}

#[test]
fn circles_of_tasks_are_refused() {
    let room = TestEnv::with_crew();
    for subject in ["one", "two", "three"] {
        room.ok(&["task", "create", subject]);
    }
    room.ok(&["task", "update", "2", "--blocked-by", "1"]);
    room.ok(&["task", "update", "3", "--blocked-by", "2"]);
    check(&room, &["task", "update", "1", "--blocked-by", "3"], 4, "circular_dependency");
    check(&room, &["task", "update", "1", "--blocked-by", "1"], 4, "circular_dependency");
    check(&room, &["task", "update", "3", "--blocks", "1"], 4, "circular_dependency");
}

#[test]
fn a_second_broadcast_comes_too_soon() {
    let room = TestEnv::with_crew();
    room.one_broadcast_an_hour();
    room.ok(&["broadcast", "first"]);
    check(&room, &["broadcast", "second"], 6, "rate_limit");
}

#[test]
fn a_config_that_is_not_json_is_told_and_left_alone() {
    let room = TestEnv::with_crew();
    for text in [
        "",
        "not json",
        "{\"name\": \"crew\", \"members\": [",
        "[]",
        "{\"name\": 5, \"members\": []}",
    ] {
        fs::write(room.root().join("teams/crew/config.json"), text).unwrap();
        for args in [
            &["team", "show", "crew"][..],
            &["send", "bob", "hi"],
            &["member", "mode", "bob", "plan"],
        ] {
            check(&room, args, 70, "internal_error");
        }
    }
}

#[test]
fn half_a_megabyte_of_inbox_cut_in_the_middle_is_told_and_left_alone() {
    let room = TestEnv::with_crew();
    let inbox = room.root().join("teams/crew/inboxes/bob.json");
    room.ok(&["send", "bob", "the first of many"]);
    let one: Vec<Value> = serde_json::from_slice(&fs::read(&inbox).unwrap()).unwrap();
    let many = serde_json::to_string_pretty(&vec![one[0].clone(); 4_000]).unwrap();
    assert!(many.len() > 600_000);
    fs::write(&inbox, &many[..512 * 1024]).unwrap();
    let envelope = check(&room, &["send", "bob", "hi"], 70, "internal_error");
    assert!(envelope["message"].as_str().unwrap().contains("bob.json"), "{envelope}");
    check(&room, &["inbox", "bob"], 70, "internal_error");
}

#[test]
fn settings_that_cannot_be_used_keep_agents_from_running_and_no_other_command() {
    let room = TestEnv::with_crew();
    let model = room.script("agents: {team-lead: [{text: done}]}");
    let file = room.root().join("settings.json");
    for (text, told) in [
        ("{", "is not valid json"),
        ("[1]", "must be a json object"),
        ("{\"permissions\": {\"deny\": 7}}", "`permissions.deny` in the user settings"),
        (
            "{\"sandbox\": {\"withheldVariables\": \"KEY\"}}",
            "`sandbox.withheldVariables` in the user settings",
        ),
    ] {
        fs::write(&file, text).unwrap();
        for args in [
            &["team", "list"][..],
            &["team", "show"],
            &["task", "list"],
            &["send", "bob", "hi"],
            &["inbox", "bob"],
            &["member", "list"],
        ] {
            let ran = room.ok(args);
            assert_eq!(ran.stderr.matches("warning: the settings").count(), 1, "{args:?}: {ran:?}");
            assert!(
                ran.stderr.contains(told) && ran.stderr.contains("settings.json"),
                "{args:?}: {ran:?}"
            );
        }
        check(&room, &["run", "go", "--model", &model], 2, "invalid_request");
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "the file is the user's");
    }
    room.ok(&["team", "delete", "crew", "--force"]);
}

#[test]
fn a_run_is_ended_by_shutdown_although_its_settings_cannot_be_used_any_more() {
    let room = TestEnv::new();
    let model = room.script(
        "agents: {team-lead: [{repeat: {at_most: 100000, turns: [{delay_ms: 50, tools: [{name: TaskList}]}]}}]}",
    );
    let mut run = Running::start(&room, &["run", "go", "--team", "work", "--model", &model]);
    run.until("TaskList");
    fs::write(room.root().join("settings.json"), "{").unwrap();
    let ran = room.ok(&["shutdown", "--team", "work"]);
    assert!(ran.stderr.contains("is not valid json"), "{ran:?}");
    run.ended();
}

#[test]
fn a_project_with_settings_that_cannot_be_used_keeps_no_team_from_being_seen() {
    let room = TestEnv::with_crew();
    let claude = room.work().join(".claude");
    fs::create_dir_all(&claude).unwrap();
    fs::write(claude.join("settings.json"), "{").unwrap();
    let ran = room.ok(&["team", "show"]);
    assert_eq!(ran.stderr.matches("is not valid json").count(), 1, "{ran:?}");
}

/// A separate file system that is mounted at a folder. Dropping this value unmounts the file
/// system.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// Mounts a small tmpfs. If mounting is not allowed here, prints a message and returns `None`.
    fn small(at: &'a Path, bytes: usize) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(at)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(at));
        }
        eprintln!(
            "SKIPPED: this user may not mount a file system, so a full disk and a read-only root are not tested"
        );
        None
    }

    fn make_read_only(&self) {
        assert!(
            Command::new("mount")
                .args(["-o", "remount,ro"])
                .arg(self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0).status().unwrap();
    }
}

#[test]
fn a_disk_without_room_is_found_by_the_doctor() {
    let room = TestEnv::new();
    let root = room.root();
    fs::create_dir_all(&root).unwrap();
    let Some(_mounted) = Mounted::small(&root, 4 << 20) else { return };
    room.ok(&["doctor"]);
    // The rest has less than the twentieth part.
    fs::write(root.join("large"), vec![1; (4 << 20) - (100 << 10)]).unwrap();
    let ran = room.run(&["doctor"]);
    assert!(ran.code == 1 && ran.stdout.starts_with("full disk "), "{ran:?}");
}

#[test]
fn a_read_only_root_is_told() {
    let room = TestEnv::with_crew();
    let root = room.root();
    let copied = room.tree();
    let Some(mounted) = Mounted::small(&root, 4 << 20) else { return };
    for (path, content) in copied {
        match content {
            None => fs::create_dir_all(root.join(path)).unwrap(),
            Some(content) => {
                fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
                fs::write(root.join(path), content).unwrap();
            }
        }
    }
    let token = root.join("pitcrew/web/token");
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(&token, "0a".repeat(32)).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    mounted.make_read_only();
    let server = crate::serve::serve(&room);
    assert_eq!(server.said["is_read_only"], true);
    assert_eq!(server.browser.get("/api/teams/crew").0, 200);
    assert_eq!(server.browser.get("/api/teams/crew/log").0, 200);
    let message = serde_json::json!({"to": "bob", "content": "hi"});
    assert_eq!(server.browser.post("/api/teams/crew/messages", &message).0, 500);
    drop(server);
    room.ok(&["team", "show"]);
    room.ok(&["inbox", "bob"]);
    check(&room, &["send", "bob", "hi"], 70, "internal_error");
    check(&room, &["team", "create", "other"], 70, "internal_error");
    check(&room, &["task", "create", "Fix it"], 70, "internal_error");
    check(&room, &["team", "delete", "crew"], 70, "internal_error");
}

/// Writes to a new file at `path` until the disk of this file is full.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for size in [4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let room = TestEnv::new();
    let root = room.root();
    let Some(_mounted) = Mounted::small(&root, 256 * 1024) else { return };
    room.ok(&["team", "create", "crew"]);
    let text = "x".repeat(9_000);
    let mut sent = 0;
    while room.run(&["send", "team-lead", &text]).code == 0 {
        sent += 1;
        assert!(sent < 100, "the disk never fills");
    }
    assert!(sent > 2, "nothing fits on the disk");
    fill(&root.join("filler"));
    for args in [&["send", "team-lead", &text][..], &["team", "create", "other"]] {
        let envelope = check(&room, args, 70, "internal_error");
        let hint = envelope["hints"][0].as_str().unwrap();
        assert!(hint.starts_with("the disk is full; `df -h`"), "{envelope}");
    }
    let inbox = room.json(&["inbox"]);
    assert_eq!(inbox["total"], sent);
}

#[test]
fn a_full_disk_stops_an_export_and_leaves_no_part_of_it() {
    let room = TestEnv::with_crew();
    let at = room.work().join("full");
    fs::create_dir(&at).unwrap();
    let Some(_mounted) = Mounted::small(&at, 64 * 1024) else { return };
    fs::write(at.join("old.html"), "mine").unwrap();
    fill(&at.join("filler"));
    for args in [
        &["export", "crew", "--html", "full/new.html"][..],
        &["export", "crew", "--html", "full/old.html", "--force"],
        &["export", "crew", "--markdown", "full/new.md"],
    ] {
        let envelope = check(&room, args, 70, "internal_error");
        let message = envelope["message"].as_str().unwrap();
        assert!(message.contains("cannot be written: No space left"), "{envelope}");
        let hint = envelope["hints"][0].as_str().unwrap();
        assert!(hint.starts_with("the disk is full; `df -h`"), "{envelope}");
    }
    let mut names: Vec<_> = fs::read_dir(&at).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["filler", "old.html"]);
    assert_eq!(fs::read_to_string(at.join("old.html")).unwrap(), "mine");
}

#[test]
fn a_disk_that_fills_up_under_a_run_ends_it_with_its_cause_and_the_run_goes_on_later() {
    let room = TestEnv::new();
    let root = room.root();
    let Some(_mounted) = Mounted::small(&root, 512 * 1024) else { return };
    let words = "x".repeat(2_000);
    let script = format!(
        "agents:\n  default:\n    - repeat:\n        at_most: 1000\n        turns:\n          - text: {words}\n            tools: [{{name: TaskList}}]\n"
    );
    let model = room.script(&script);
    for args in [&["run", "go", "--team", "work"][..], &["run", "--resume", "work"]] {
        let with_model = [args, &["--model", &model]].concat();
        let ran = room.run(&with_model);
        assert_eq!(ran.code, 70, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("No space left on device"), "{args:?}: {ran:?}");
    }
    let hint = "hint: when that is solved: pitcrew run --resume work";
    fs::remove_dir_all(root.join("teams")).unwrap();
    let ran = room.run(&["run", "go", "--team", "work", "--model", &model]);
    assert!(ran.code == 70 && ran.stderr.contains(hint), "{ran:?}");
}

#[test]
fn a_lock_of_ours_that_another_program_holds_is_told_with_its_holder() {
    let room = TestEnv::with_crew();
    room.ok(&["send", "bob", "one"]);
    for file in ["pitcrew/rates/calls", "teams/crew/pitcrew/journal.ndjson"] {
        let held = fs::File::open(room.root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        held.lock().unwrap();
        let told = room.run(&["send", "bob", "two"]);
        assert!(
            told.stderr.contains(file)
                && told.stderr.contains(&format!("process {} ", std::process::id())),
            "{told:?}"
        );
        drop(held);
        room.ok(&["send", "bob", "three"]);
    }
}

#[test]
fn a_forged_count_of_tasks_makes_none_overwrite_another() {
    let room = TestEnv::with_crew();
    room.ok(&["task", "create", "one"]);
    for mark in ["18446744073709551615", "18446744073709551614", "9007199254740991"] {
        fs::write(room.root().join("tasks/crew/.highwatermark"), mark).unwrap();
        let before = room.tree().len();
        room.ok(&["task", "create", "two"]);
        room.ok(&["task", "create", "three"]);
        assert!(room.tree().len() >= before + 2, "{mark}");
    }
    let far = room.root().join("tasks/crew/18446744073709551615.json");
    let task = fs::read_to_string(room.root().join("tasks/crew/1.json")).unwrap();
    fs::write(&far, task.replace("\"id\": \"1\"", "\"id\": \"18446744073709551615\"")).unwrap();
    room.ok(&["task", "create", "four"]);
    room.ok(&["task", "create", "five"]);
    let listed = room.ok(&["task", "list"]).stdout;
    for name in ["one", "two", "three", "four", "five"] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    room.ok(&["task", "get", "9"]);
}
