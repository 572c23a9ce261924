//! Files that a run wrote are damaged or have a later format version. Unreadable entries are
//! skipped and reported. A file with a later format version is refused, and the error names the
//! file.

use std::fs;

use crate::running::Running;
use crate::test_env::{Ran, TestEnv};

/// The script of a lead that continues after a crash and then ends. Bob has nothing to do.
const GOES_ON: &str = "agents: {team-lead: [{text: So}, {text: That is all.}, {text: Indeed.}, {text: Well.}], \
                       bob: [{text: Here.}, {text: Here.}]}";

/// Damages a file of a killed run, and resumes the run. Returns the test environment and the result
/// of the resumed run.
fn resumed(file: &str, damage: impl Fn(&str) -> String) -> (TestEnv, Ran) {
    let room = TestEnv::new();
    room.killed_run();
    let path = room.root().join("teams/work/pitcrew").join(file);
    let was = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, damage(&was)).unwrap();
    fs::write(room.work().join("on.yaml"), GOES_ON).unwrap();
    let ran = room.run(&["run", "--resume", "work", "--model", "script:on.yaml"]);
    (room, ran)
}

#[test]
fn a_transcript_with_lines_that_cannot_be_read_is_gone_on_with_and_mended() {
    for line in ["", "   ", "{\"seq\":", "hello", "17", "{\"seq\":99,\"kind\":\"sang\"}"] {
        let (room, ran) = resumed("transcripts/bob.ndjson", |was| format!("{line}\n{was}"));
        assert_eq!(ran.code, 0, "{line:?}: {ran:?}");
        assert!(!ran.stderr.contains("cannot go on"), "{line:?}: {ran:?}");
        let is_said = ran.stderr.matches("goes on without 1 line of").count();
        assert_eq!(is_said, usize::from(!line.trim().is_empty()), "{line:?}: {ran:?}");
        let path = room.find("teams/work/pitcrew/transcripts/bob.ndjson");
        assert!(
            fs::read_to_string(&path).unwrap().starts_with(&format!("{line}\n")),
            "what is not known stays: {line:?}"
        );
    }
}

#[test]
fn records_with_entries_that_cannot_be_read_are_gone_on_with_and_keep_them() {
    for (file, text) in [
        ("started.json", r#"{"version":1,"started":{"carl":{"sang":true}}}"#),
        ("requests.json", r#"{"requests":{"perm-1":{"kind":"dance"}},"later":7}"#),
        ("panes.json", r#"{"version":1,"hosts":[7]}"#),
        ("ended.json", r#"{"members":[{"name":"carl"}]}"#),
    ] {
        let (room, ran) = resumed(file, |_| text.to_owned());
        assert_eq!(ran.code, 0, "{file}: {ran:?}");
        assert!(ran.stderr.contains("are ignored") && ran.stderr.contains(file), "{file}: {ran:?}");
        let kept = fs::read_to_string(room.find("teams/work/pitcrew").join(file)).unwrap();
        for word in
            ["sang", "dance", "later", "7", "carl"].iter().filter(|word| text.contains(**word))
        {
            assert!(kept.contains(word), "{file} has lost {word}: {kept}");
        }
    }
}

#[test]
fn a_record_of_a_later_version_is_refused_by_name_and_version() {
    for file in [
        "started.json",
        "requests.json",
        "ended.json",
        "keys.json",
        "panes.json",
        "take-over.json",
        "escaped.json",
    ] {
        let (room, ran) = resumed(file, |_| r#"{"version":2,"sung":[]}"#.to_owned());
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(file) && said.contains("is of version 2"), "{file}: {ran:?}");
        if ran.code == 0 {
            // The run succeeded although it did not read the file with the later version. Its team
            // was therefore archived. The test moves the team back before it runs `doctor`.
            room.bring_back("work");
        }
        let doctor = room.run(&["doctor", "--repair"]);
        assert!(
            doctor.stdout.contains("newer ") && doctor.stdout.contains(file),
            "{file}: {doctor:?}"
        );
        let path = room.root().join("teams/work/pitcrew").join(file);
        assert_eq!(fs::read_to_string(path).unwrap(), r#"{"version":2,"sung":[]}"#);
    }
}

#[test]
fn a_lead_learns_that_a_teammate_cannot_go_on() {
    let later = r#"{"v":2,"seq":1,"kind":"sang"}"#;
    let (room, ran) = resumed("transcripts/bob.ndjson", |was| format!("{was}{later}\n"));
    assert!(
        ran.stderr.contains("bob cannot go on") && ran.stderr.contains("is of version 2"),
        "{ran:?}"
    );
    let lead =
        fs::read_to_string(room.root().join("teams/work/pitcrew/transcripts/team-lead.ndjson"))
            .unwrap();
    assert!(lead.contains("bob cannot go on in this run"), "{lead}");
    assert_eq!(room.json(&["member", "list", "--team", "work"])["total"], 2, "bob stays a member");
    let (_, led) = resumed("transcripts/team-lead.ndjson", |was| format!("{was}{later}\n"));
    assert_eq!(led.code, 70, "{led:?}");
    assert!(led.stderr.contains("team-lead.ndjson") && led.stderr.contains("version 2"), "{led:?}");
}

/// Returns a journal line in pitcrew's own form that records no change of a member.
fn filler(nth: usize) -> String {
    format!(
        r#"{{"at_ms":{nth},"event":"message_injected","id":"01936e4c-0000-7000-8000-{nth:012}","to":"bob"}}"#
    )
}

#[test]
fn a_long_journal_gets_a_checkpoint_and_a_damaged_one_changes_nothing() {
    let (room, ran) = resumed("journal.ndjson", |was| {
        let lines: Vec<String> = (0..12_000).map(filler).collect();
        format!("{}\n{was}", lines.join("\n"))
    });
    assert_eq!(ran.code, 0, "{ran:?}");
    room.bring_back("work");
    let folder = room.root().join("teams/work/pitcrew");
    let (journal, checkpoint) =
        (folder.join("journal.ndjson"), folder.join("journal-checkpoint.json"));
    let covered =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["covered"].clone();
    let whole = fs::read_to_string(&checkpoint).unwrap();
    assert!(covered(&whole)["position"].as_u64().unwrap() > 1024 * 1024, "{whole}");
    assert!(covered(&whole)["summary"]["members"]["bob"]["states"].is_array(), "{whole}");
    assert_eq!(room.run(&["doctor"]).stdout, "all is well\n");
    for damage in
        [&whole[..whole.len() - 9], "", "{}", r#"{"form":2}"#, &whole.replace("idle", "sung")]
    {
        assert_ne!(damage, whole);
        fs::write(&checkpoint, damage).unwrap();
        let ran = room.run(&["run", "--resume", "work", "--model", "script:on.yaml"]);
        assert_eq!((ran.code, ran.stderr.contains("journal")), (0, false), "{damage:?}: {ran:?}");
        room.bring_back("work");
        let mended = fs::read_to_string(&checkpoint).unwrap();
        assert_eq!(covered(&mended)["file"]["ino"], covered(&whole)["file"]["ino"], "{mended}");
        assert!(!mended.contains("sung") && mended.contains("idle"), "{mended}");
    }
    fs::write(&checkpoint, &whole[..whole.len() - 9]).unwrap();
    let doctor = room.run(&["doctor", "--repair"]);
    assert!(
        doctor.stdout.contains("torn ") && doctor.stdout.contains("journal-checkpoint.json"),
        "{doctor:?}"
    );
    // The repair reads the journal afterwards, which may write a new checkpoint.
    if let Ok(anew) = fs::read_to_string(&checkpoint) {
        assert_eq!(covered(&anew)["file"]["ino"], covered(&whole)["file"]["ino"], "{anew}");
    }
    let lines = fs::read_to_string(&journal).unwrap().lines().count();
    assert!(lines > 12_000, "{lines}");
    assert_eq!(room.run(&["run", "--resume", "work", "--model", "script:on.yaml"]).code, 0);
    assert!(room.find("teams/work/pitcrew/journal-checkpoint.json").exists());
}

#[test]
fn a_torn_record_or_inbox_is_refused_by_name_with_the_command_that_mends_it() {
    let records = ["started", "requests", "keys", "ended", "panes", "take-over"];
    let records = records.map(|name| format!("pitcrew/{name}.json"));
    for file in
        records.iter().map(String::as_str).chain(["inboxes/team-lead.json", "inboxes/bob.json"])
    {
        let room = TestEnv::new();
        room.killed_run();
        let path = room.root().join("teams/work").join(file);
        fs::write(&path, "{\"version\":1,\"").unwrap();
        fs::write(room.work().join("on.yaml"), GOES_ON).unwrap();
        let resume = || room.run(&["run", "--resume", "work", "--model", "script:on.yaml"]);
        // The killed lead left its control socket, and a resumed run removes it. The test removes
        // the socket first, so that a refused run changes no file.
        fs::remove_file(room.root().join("teams/work/pitcrew/door")).unwrap();
        let before = room.tree();
        let ran = resume();
        assert_eq!(ran.code, 70, "{file}: {ran:?}");
        assert!(ran.stderr.contains(&path.display().to_string()), "{file}: {ran:?}");
        assert!(ran.stderr.contains("`pitcrew doctor --repair` repairs it"), "{file}: {ran:?}");
        assert!(room.tree() == before, "{file}: the refused run has changed something");
        room.run(&["doctor", "--repair"]);
        let ran = resume();
        assert_eq!(ran.code, 0, "{file}: {ran:?}");
    }
}

#[test]
fn a_record_that_no_run_depends_on_keeps_none_from_going_on() {
    let (_room, ran) = resumed("escaped.json", |_| "{\"version\":1,\"".to_owned());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("escaped.json is not readable"), "{ran:?}");
}

/// The script of a lead with a teammate bob. The test damages a file when bob is idle, and the lead
/// ends after that. Until the damage, the lead stays in a turn, because the run could otherwise end
/// too early.
const DONE_AFTER: &str = "agents: {team-lead: [\
                          {tools: [{name: Task, input: {name: bob, description: w, prompt: w}}]}, \
                          {delay_ms: 4000, tools: [{name: TaskList}]}, \
                          {wait_for: {contains: go on now, from: message}}, {text: Done.}, {text: Done.}, {text: Done.}], \
                          bob: [{text: Here.}, {text: Here.}]}";

/// Runs a team, and damages its files during the run. Returns the exit code and the output.
fn damaged_while_it_runs(damage: impl Fn(&TestEnv)) -> (Option<i32>, String) {
    let room = TestEnv::new();
    let model = room.script(DONE_AFTER);
    let mut running = Running::start(&room, &["run", "go", "--team", "work", "--model", &model]);
    running.until("bob is idle");
    damage(&room);
    running.ended()
}

#[test]
fn a_run_that_cannot_ask_its_teammates_to_leave_does_not_wait_for_them() {
    for text in ["{\"version\":1,\"", "{\"version\":2}"] {
        let (code, said) = damaged_while_it_runs(|room| {
            fs::write(room.root().join("teams/work/pitcrew/requests.json"), text).unwrap();
            room.ok(&["send", "team-lead", "go on now", "--team", "work"]);
        });
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("bob cannot be asked to shut down") && said.contains("requests.json"),
            "{said}"
        );
        assert!(
            said.contains("it could not be asked to shut down") && !said.contains("in time"),
            "{said}"
        );
    }
}

#[test]
fn a_run_whose_files_are_taken_away_says_so_and_fails() {
    let aside = |room: &TestEnv| room.work().join("aside");
    let damages: [&dyn Fn(&TestEnv); 2] =
        [&|room| fs::remove_file(room.root().join("teams/work/config.json")).unwrap(), &|room| {
            fs::rename(room.root().join("teams/work"), aside(room)).unwrap()
        }];
    for damage in damages {
        let (code, said) = damaged_while_it_runs(damage);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the team's files were taken away while it ran"), "{said}");
        assert!(!said.contains("still there") && !said.contains("can be resumed"), "{said}");
    }
}
