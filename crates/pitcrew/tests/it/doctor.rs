//! The command `pitcrew doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::detached::Detached;
use crate::patience::until;
use crate::running::Running;
use crate::test_env::TestEnv;

fn age(path: &Path) {
    fs::File::open(path)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(120))
        .unwrap();
}

#[test]
fn a_sound_root_is_well() {
    assert_snapshot!(TestEnv::with_crew().transcript(&[&["doctor"]]), @r#"
    $ pitcrew doctor
    all is well
    "#);
}

#[test]
fn what_crashes_left_behind_is_found_and_mended() {
    let room = TestEnv::with_crew();
    room.ok(&["send", "bob", "the first"]);
    room.ok(&["send", "bob", "the second"]);
    let inboxes = room.root().join("teams/crew/inboxes");
    for lock in ["ann.json.lock", "team-lead.json.lock"] {
        fs::create_dir(inboxes.join(lock)).unwrap();
        age(&inboxes.join(lock));
    }
    fs::write(inboxes.join(".pitcrew-0123456789abcdef0123456789abcdef.tmp"), "half a fi").unwrap();
    age(&inboxes.join(".pitcrew-0123456789abcdef0123456789abcdef.tmp"));
    let whole = fs::read_to_string(inboxes.join("bob.json")).unwrap();
    fs::write(inboxes.join("bob.json"), &whole[..whole.len() - 40]).unwrap();
    fs::write(room.root().join("tasks/crew/1.json"), "{\"id\":").unwrap();
    let before = room.tree();
    let found = room.transcript(&[&["doctor"]]);
    assert!(room.tree() == before, "looking changed something");
    assert_snapshot!(found, @r#"
    $ pitcrew doctor
    stale lock [root]/teams/crew/inboxes/ann.json.lock: its holder gives no sign any more (--repair: taken away)
    stale lock [root]/teams/crew/inboxes/team-lead.json.lock: its holder gives no sign any more (--repair: taken away)
    unfinished [root]/teams/crew/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp: left by a write that never ended (--repair: taken away)
    torn [root]/tasks/crew/1.json: EOF while parsing a value at line 1 column 6 (--repair: taken away)
    torn [root]/teams/crew/inboxes/bob.json: EOF while parsing a string at line 20 column 32 (--repair: taken away)
    5 found, 5 left
    [exit 1]
    "#);
    assert_snapshot!(room.transcript(&[&["doctor", "--repair"], &["doctor"]]), @r#"
    $ pitcrew doctor --repair
    stale lock [root]/teams/crew/inboxes/ann.json.lock: its holder gives no sign any more -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/ann.json.lock
    stale lock [root]/teams/crew/inboxes/team-lead.json.lock: its holder gives no sign any more -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/team-lead.json.lock
    unfinished [root]/teams/crew/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp: left by a write that never ended -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/.pitcrew-0123456789abcdef0123456789abcdef.tmp
    torn [root]/tasks/crew/1.json: EOF while parsing a value at line 1 column 6 -> kept as [root]/pitcrew/archive/[keep]/tasks/crew/1.json
    torn [root]/teams/crew/inboxes/bob.json: EOF while parsing a string at line 20 column 32 -> kept as [root]/pitcrew/archive/[keep]/teams/crew/inboxes/bob.json
    kept for a week in [root]/pitcrew/archive/[keep]
    5 found, 0 left
    $ pitcrew doctor
    all is well
    "#);
    assert_eq!(room.json(&["inbox", "bob"])["total"], 1);
}

#[test]
fn a_team_that_was_stopped_is_no_fault_and_a_repair_leaves_it_to_the_next_run() {
    let room = TestEnv::new();
    room.killed_run();
    room.ok(&["send", "bob", "are you there?"]);
    for args in [&["doctor"][..], &["doctor", "--repair"]] {
        let found = room.json(args);
        assert_eq!(
            (&found["total"], &found["notes"][0]["kind"]),
            (&0.into(), &"stopped".into()),
            "{found:#}"
        );
        assert!(
            found["notes"][0]["detail"].as_str().unwrap().contains("run --resume"),
            "{found:#}"
        );
    }
    assert_snapshot!(room.transcript(&[&["doctor"]]), @r"
    $ pitcrew doctor
    note: stopped in team work: nobody runs it; `pitcrew run --resume work` goes on with bob, `pitcrew team delete work --force` ends it
    no faults, 1 note
    ");
    assert_eq!(room.json(&["member", "list"])["total"], 2);
    assert_eq!(room.json(&["inbox", "bob", "--unread"])["total"], 1);
}

#[test]
fn own_files_that_are_gone_are_faults_for_a_person() {
    let room = TestEnv::new();
    let model = room.script(
        "agents: {team-lead: [{tools: [{name: TaskCreate, input: {subject: s, description: d}}]}, {text: a}, {text: b}]}",
    );
    assert_eq!(room.run(&["run", "go", "--team", "work", "--model", &model]).code, 8);
    room.ok(&["doctor"]);
    let ours = room.root().join("teams/work/pitcrew");
    fs::remove_file(ours.join("transcripts/team-lead.ndjson")).unwrap();
    fs::remove_file(room.root().join("tasks/work/1.json")).unwrap();
    assert_snapshot!(room.transcript(&[&["doctor", "--repair"]]), @r"
    $ pitcrew doctor --repair
    missing transcript in team work [root]/teams/work/pitcrew/transcripts/team-lead.ndjson: this file of pitcrew is gone; the conversation of team-lead, 3 model calls, is lost with it; the next run starts it without what it knew (left to you)
    missing task in team work [root]/tasks/work/1.json: this file of pitcrew is gone; task #1 is open; `pitcrew task update 1 --status deleted --team work` gives it up (left to you)
    note: stopped in team work: nobody runs it; `pitcrew run --resume work` goes on with its lead, `pitcrew team delete work --force` ends it
    2 found, 2 left
    [exit 1]
    ");
    room.ok(&["task", "update", "1", "--status", "deleted", "--team", "work"]);
    assert_eq!(kinds(&room.json(&["doctor"])), ["missing_transcript"]);
    fs::remove_file(ours.join("journal.ndjson")).unwrap();
    assert_eq!(kinds(&room.json(&["doctor"])), ["missing_journal"]);
}

#[test]
fn a_suspended_host_is_a_fault_until_it_goes_on() {
    let script = "agents: {team-lead: [{tools: [{name: Bash, input: {command: sleep 60}}]}]}";
    let (detached, host) = Detached::start(script, &[]);
    detached.room.ok(&["doctor"]);
    let host = Pid::from_raw(host.cast_signed()).unwrap();
    kill_process(host, Signal::STOP).unwrap();
    let scene = || format!("{:#}", detached.room.json(&["doctor"]));
    let is_suspended = || kinds(&detached.room.json(&["doctor"])) == ["suspended"];
    until("the host is suspended", || is_suspended().then_some(()), scene);
    kill_process(host, Signal::CONT).unwrap();
    until("the host goes on", || (!is_suspended()).then_some(()), scene);
}

#[test]
fn damage_to_the_files_of_the_server_and_in_an_archive_is_told() {
    let room = TestEnv::with_crew();
    let web = room.root().join("pitcrew/web");
    fs::create_dir_all(web.join("token")).unwrap();
    fs::write(web.join("devices.json"), "{").unwrap();
    fs::set_permissions(web.join("devices.json"), fs::Permissions::from_mode(0o600)).unwrap();
    room.ok(&["task", "create", "Do it"]);
    room.ok(&["team", "delete", "crew", "--force"]);
    let mut archives = fs::read_dir(room.root().join("pitcrew/archive")).unwrap();
    let archive = archives.find_map(|entry| Some(entry.ok()?.path().join("team"))).unwrap();
    let journal = archive.join("pitcrew/journal.ndjson");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{whole}{{\"no\n")).unwrap();
    let found = room.json(&["doctor", "--repair"]);
    assert_eq!(kinds(&found), ["bad_devices", "bad_token"]);
    assert_eq!(found["notes"][0]["kind"], "bad_archive", "{found:#}");
}

#[test]
fn an_own_file_that_a_repair_removed_is_a_note() {
    let room = TestEnv::with_crew();
    let journal = room.root().join("teams/crew/pitcrew/journal.ndjson");
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    assert_eq!(room.json(&["doctor", "--repair"])["left"], 0);
    let found = room.json(&["doctor"]);
    let note = &found["notes"][0];
    assert_eq!((&found["total"], &note["kind"]), (&0.into(), &"missing_journal".into()));
    let kept = note["detail"].as_str().unwrap().split_once("keeps it as ").unwrap().1;
    let kept = kept.split_once(';').unwrap().0;
    assert!(Path::new(kept).is_dir(), "{found:#}");
}

#[test]
fn a_team_of_another_client_has_no_dead_members() {
    let room = TestEnv::new();
    let recorded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.39/in-process");
    crate::test_env::copy(&recorded, &room.root());
    room.ok(&["doctor"]);
}

#[test]
fn a_torn_config_is_left_to_a_person_unless_a_client_may_be_writing_it() {
    let room = TestEnv::with_crew();
    let config = room.root().join("teams/crew/config.json");
    fs::write(&config, "{").unwrap();
    let report = room.json(&["doctor", "--repair"]);
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "unchecked", "{report:#}");
    assert!(
        finding["detail"].as_str().unwrap().ends_with("a client may be writing it: look again"),
        "{report:#}"
    );
    age(&config);
    let report = room.json(&["doctor", "--repair"]);
    assert_eq!(report["findings"][0]["kind"], "bad_config");
    assert_eq!(report["left"], 1);
    assert_eq!(room.run(&["doctor", "--repair"]).code, 1);
}

/// A test environment in which a run was killed. The run's team has a member bob with a worktree.
/// The repository of the worktree is beside the working folder of the test environment.
fn with_a_worktree() -> TestEnv {
    let room = TestEnv::new();
    let repository = room.work().join("../repository");
    fs::create_dir(&repository).unwrap();
    let git = |args: &[&str]| {
        let name = ["-c", "user.name=Tess", "-c", "user.email=tess@example.org"];
        let done = room.tool("git", &name).args(args).current_dir(&repository).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let model = room.script(
        "agents: {team-lead: [{tools: [{name: Task, input: {name: bob, description: w, prompt: w, isolation: worktree}}]}, \
         {wait_for: {contains: what never comes}}], bob: [{text: Here.}]}",
    );
    let args = ["run", "go", "--team", "work", "--model", &model];
    let mut running = Running::of(room.command(&args).current_dir(&repository));
    running.until("bob is idle");
    running.kill();
    assert!(bobs_worktree(&room).is_dir());
    room
}

fn bobs_worktree(room: &TestEnv) -> std::path::PathBuf {
    room.root().join("pitcrew/worktrees/work/bob")
}

fn kinds(report: &serde_json::Value) -> Vec<&str> {
    report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["kind"].as_str())
        .collect()
}

#[test]
fn a_worktree_of_a_member_that_is_gone_is_found_from_another_folder() {
    for team_is_gone in [false, true] {
        let room = with_a_worktree();
        match team_is_gone {
            true => fs::rename(room.root().join("teams/work"), room.work().join("aside")).unwrap(),
            false => {
                let mut config = room.json_file("teams/work/config.json");
                config["members"].as_array_mut().unwrap().truncate(1);
                fs::remove_dir_all(room.root().join("teams/work/pitcrew/writes")).unwrap();
                fs::write(room.root().join("teams/work/config.json"), config.to_string()).unwrap();
            }
        }
        let found = room.json(&["doctor"]);
        assert!(kinds(&found).contains(&"orphaned_worktree"), "{found:#}");
        let mended = room.json(&["doctor", "--repair"]);
        assert!(kinds(&mended).contains(&"orphaned_worktree") && mended["left"] == 0, "{mended:#}");
        assert!(!bobs_worktree(&room).exists());
    }
}

#[test]
fn a_member_that_a_repair_puts_back_keeps_its_worktree() {
    let room = with_a_worktree();
    let mut config = room.json_file("teams/work/config.json");
    config["members"].as_array_mut().unwrap().truncate(1);
    fs::write(room.root().join("teams/work/config.json"), config.to_string()).unwrap();
    let mended = room.json(&["doctor", "--repair"]);
    assert!(kinds(&mended).contains(&"overwritten"), "{mended:#}");
    assert_eq!(room.json(&["member", "list", "--team", "work"])["total"], 2);
    assert!(bobs_worktree(&room).is_dir(), "{mended:#}");
}

#[test]
fn a_pane_program_that_only_a_record_names_is_never_run_and_keeps_nothing_from_its_end() {
    for args in [&["shutdown", "work", "--force"][..], &["team", "delete", "work", "--force"]] {
        let room = TestEnv::new();
        room.killed_run();
        let (program, ran_at) = (room.work().join("program"), room.work().join("ran"));
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran_at.display())).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let host = serde_json::json!({"backend": "pane", "command": [program]});
        let pane = serde_json::json!({"backend": "pane", "command": [program], "id": "1"});
        let nobody = serde_json::json!({"pid": 1, "start_ticks": 1});
        let record =
            serde_json::json!({"pane": pane, "program": "pitcrew", "owner": nobody, "at_ms": 1});
        let write = |name: &str, document: serde_json::Value| {
            fs::write(room.root().join("teams/work/pitcrew").join(name), document.to_string())
                .unwrap();
        };
        write("started.json", serde_json::json!({"version": 1, "started": {"bob": record}}));
        write("panes.json", serde_json::json!({"version": 1, "hosts": [host]}));
        let on = [
            &["run", "--resume", "work"][..],
            &["team", "lead", "work", "--take-over"],
            &["member", "hide", "bob"],
        ];
        for goes_on in on {
            let refused = room.run(goes_on);
            assert_eq!(refused.code, 5, "{refused:?}");
            let flag = format!("--teammate-mode 'pane:{}' runs it", program.display());
            assert!(
                refused.stderr.contains("is not run") && refused.stderr.contains(&flag),
                "{refused:?}"
            );
        }
        let ran = room.ok(args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("only a record names the program"), "{ran:?}");
        assert!(!ran_at.exists(), "{ran:?}");
    }
}

#[test]
fn a_pane_program_that_the_settings_name_and_that_fails_is_reported_and_keeps_nothing_from_its_end()
{
    let room = TestEnv::new();
    room.killed_run();
    let settings = serde_json::json!({"pitcrew": {"teammateMode": "pane:false"}});
    fs::write(room.root().join("settings.json"), settings.to_string()).unwrap();
    let record = serde_json::json!({
        "pane": {"backend": "pane", "command": ["false"], "id": "1"}, "program": "pitcrew",
        "owner": {"pid": 1, "start_ticks": 1}, "at_ms": 1,
    });
    let started = serde_json::json!({"version": 1, "started": {"bob": record}});
    fs::write(room.root().join("teams/work/pitcrew/started.json"), started.to_string()).unwrap();
    let ran = room.ok(&["shutdown", "work", "--force"]);
    assert!(ran.stdout.contains("whether its pane is closed is not known"), "{ran:?}");
    room.ok(&["team", "delete", "work", "--force"]);
}

/// The script of a lead whose command writes settings files of other programs and then keeps
/// running.
const PLANTING: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: 'echo {} > .mcp.json; mkdir .vscode; chmod 555 .; touch .vscode/made; sleep 1000'}}]
    - text: done
";

/// The script of a lead whose command writes a project's settings with a hook, and files that other
/// programs read. The test then kills the lead. If a resume runs the command again, the command
/// writes nothing more.
const PLANTING_SETTINGS: &str = r#"
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: 'test -e made && exit; mkdir .claude; printf "%s" "{\"hooks\": {\"SessionStart\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"touch $PWD/hooked\"}]}]}, \"permissions\": {\"allow\": [\"Bash(touch ruled)\"]}}" > .claude/settings.json; echo {bad > .mcp.json; touch made; sleep 1000'}}]
    - text: done
"#;

#[test]
fn what_a_killed_run_s_command_planted_is_put_aside_before_it_is_read() {
    let room = TestEnv::new();
    let held = room.json(&["doctor"])["sandbox"]["work"].to_string();
    if !held.contains("held by") {
        eprintln!("\n!!! SKIPPED: {held} !!!\n");
        return;
    }
    let work = room.work();
    let plant = |team: &str| {
        let model = room.script(PLANTING_SETTINGS);
        let _not_made_yet = fs::remove_file(work.join("made"));
        let run =
            Running::start(&room, &["run", "go", "--team", team, "--model", &model, "--sandbox"]);
        until(
            "the command has made them",
            || work.join("made").exists().then_some(()),
            String::new,
        );
        assert!(work.join(".claude/settings.json").exists());
        run.kill();
    };
    let model = room.script(
        "agents: {team-lead: [{tools: [{name: Bash, input: {command: 'touch ruled'}}]}, {text: done}, {text: done}]}",
    );
    let folder = work.display().to_string();
    for (nth, next) in [
        vec!["run", "go", "--team", "next", "--model", &model, "--trust"],
        vec!["run", "--resume", "killed-1", "--model", &model, "--trust"],
        vec!["trust", "add", &folder],
        vec!["team", "list"],
        vec!["doctor", "--repair"],
    ]
    .iter()
    .enumerate()
    {
        plant(&format!("killed-{nth}"));
        let said = room.run(next);
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(said.contains("put aside"), "{next:?}: {said}");
        assert!(
            !said.contains("is not read") && !said.contains("mcp.json cannot"),
            "{next:?}: {said}"
        );
        for name in [".claude", ".mcp.json", "hooked", "ruled"] {
            assert!(!work.join(name).exists(), "{next:?}: {name}: {said}");
        }
    }
}

#[test]
fn what_a_sandboxed_command_of_a_killed_run_made_is_put_aside_by_a_repair_or_when_the_run_goes_on()
{
    let room = TestEnv::new();
    let held = room.json(&["doctor"])["sandbox"]["work"].to_string();
    if !held.contains("held by") {
        eprintln!("\n!!! SKIPPED: {held} !!!\n");
        return;
    }
    let made = [".mcp.json", ".vscode"].map(|name| room.work().join(name));
    let model = room.script(PLANTING);
    for team in ["mended", "resumed"] {
        let run =
            Running::start(&room, &["run", "go", "--team", team, "--model", &model, "--sandbox"]);
        let has_made = || made[1].join("made").exists().then_some(());
        until("the command has made them", has_made, String::new);
        run.kill();
        let report = room.json(&["doctor"]);
        assert!(
            kinds(&report).contains(&"planted") && made.iter().all(|path| path.exists()),
            "{report:#}"
        );
        match team {
            "mended" => {
                let said = room.run(&["doctor", "--repair"]).stdout;
                assert!(said.contains("put aside"), "{said}");
            }
            _ => {
                let model = room.script("agents: {team-lead: [{text: done}, {text: done}]}");
                let mut run = Running::start(
                    &room,
                    &["run", "--resume", team, "--model", &model, "--sandbox"],
                );
                run.until("put aside");
                // The resumed run may repeat the call that the crash interrupted. That call sleeps
                // for a long time, so the test stops the run.
                run.signal(Signal::INT);
                run.ended();
            }
        }
        assert!(made.iter().all(|path| !path.exists()), "{team}: {made:?}");
        assert!(!kinds(&room.json(&["doctor"])).contains(&"planted"), "{team}");
        fs::set_permissions(room.work(), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
