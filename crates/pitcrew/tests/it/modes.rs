//! File modes below the root. Only the user is allowed to access files that pitcrew creates,
//! whatever the umask is.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test_env::{Ran, TestEnv};

/// The script of a lead that creates tasks, spawns a teammate, writes files, and runs commands with
/// long output. The teammate works in a worktree.
const BUSY: &str = "
agents:
  team-lead:
    - tools:
        - {name: TaskCreate, input: {subject: Do it, description: All of it}}
        - name: Task
          input: {name: bob, subagent_type: general-purpose, description: work, prompt: Work., isolation: worktree}
        - {name: Bash, input: {command: seq 1 90000}}
        - {name: Bash, input: {command: echo later, run_in_background: true}}
        - {name: Write, input: {file_path: made.txt, content: of the project}}
    - wait_for: {contains: idle_notification}
    - tools: [{name: SendMessage, input: {type: message, recipient: bob, content: thanks, summary: thanks}}]
    - tools: [{name: SendMessage, input: {type: shutdown_request, recipient: bob}}]
    - wait_for: {contains: teammate_terminated}
    - text: It is done.
  bob:
    - tools: [{name: Bash, input: {command: seq 1 90000}}]
    - wait_for: {contains: shutdown_request}
      text: done
    - capture:
        request: {from: message, regex: '\"requestId\":\"(shutdown-[^\"]+)\"'}
      tools:
        - name: SendMessage
          input: {type: shutdown_response, request_id: '${request}', approve: true}
";

/// Runs the binary with the umask 000, so that the umask removes no permission.
fn openly(room: &TestEnv, args: &[&str]) -> Ran {
    let mut sh = vec!["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_pitcrew")];
    sh.extend(args);
    let ran = Ran::of(room.tool("/bin/sh", &sh).output().unwrap());
    // A run that leaves its task open ends with code 8. The test accepts this code too.
    assert!(matches!(ran.code, 0 | 8), "{args:?}: {ran:?}");
    ran
}

/// Returns all paths below a folder, without following links. The content of worktrees is left out,
/// because it belongs to the project.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_worktree = path.join(".git").exists();
        if path.symlink_metadata().unwrap().is_dir() && !is_worktree {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns the paths below the root that other users are able to access, with their modes.
fn open_to_others(room: &TestEnv) -> Vec<String> {
    let paths = below(&room.root()).into_iter();
    let is_worktree = |path: &Path| path.join(".git").exists();
    let open =
        paths.filter(|path| !path.is_symlink() && !is_worktree(path) && mode(path) & 0o077 != 0);
    open.map(|path| format!("{} {:o}", path.display(), mode(&path))).collect()
}

/// Returns a test environment after a run with the umask 000. The run wrote every kind of file that
/// pitcrew writes.
fn after_a_run() -> TestEnv {
    let room = TestEnv::new();
    for args in [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "x"]] {
        let mut git =
            room.tool("git", &["-c", "user.name=t", "-c", "user.email=t@example.invalid"]);
        assert!(git.args(args).status().unwrap().success(), "git {args:?}");
    }
    fs::create_dir(room.work().join(".claude")).unwrap();
    fs::write(
        room.work().join(".claude/settings.json"),
        r#"{"permissions": {"allow": ["Bash(ls)"]}}"#,
    )
    .unwrap();
    let model = room.script(BUSY);
    openly(&room, &["trust", "add", "--yes"]);
    let ran = openly(
        &room,
        &["run", "do it", "--model", &model, "--permission-mode", "bypassPermissions"],
    );
    assert!(ran.stderr.contains("It is done."), "{ran:?}");
    room
}

#[test]
fn a_whole_run_leaves_nothing_that_others_may_use_even_with_an_open_umask() {
    let room = after_a_run();
    openly(&room, &["team", "create", "other"]);
    openly(&room, &["task", "create", "mend it", "--team", "other"]);
    openly(&room, &["send", "team-lead", "hello", "--team", "other"]);
    openly(&room, &["team", "create", "third"]);
    openly(&room, &["team", "delete", "third"]);
    assert!(below(&room.root()).len() > 40, "{:#?}", below(&room.root()));
    assert_eq!(open_to_others(&room), Vec::<String>::new());
    // Files of the project belong to the user, so the umask decides their mode.
    assert_eq!(mode(&room.work().join("made.txt")), 0o666);
}

#[test]
fn another_user_reads_nothing_of_a_run() {
    let room = after_a_run();
    set_mode(room.root().parent().unwrap(), 0o755);
    set_mode(&room.root(), 0o755);
    let as_another = |command: &str| {
        let mut setpriv = Command::new("setpriv");
        let args = ["--reuid", "54321", "--regid", "54321", "--clear-groups", "sh", "-c", command];
        setpriv.args(args).current_dir("/").output()
    };
    if !as_another("true").is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    let find = format!("find {} -mindepth 2 2> /dev/null", room.root().display());
    assert_eq!(String::from_utf8(as_another(&find).unwrap().stdout).unwrap(), "");
    let cat = format!(
        "cat {}/teams/*/pitcrew/*/* {}/teams/*/*/*",
        room.root().display(),
        room.root().display()
    );
    assert_eq!(String::from_utf8(as_another(&cat).unwrap().stdout).unwrap(), "");
}

#[test]
fn doctor_names_what_others_may_use_and_a_repair_closes_it_and_nothing_else() {
    let room = TestEnv::with_crew();
    room.ok(&["send", "bob", "hello"]);
    let (ours, outside) = (room.root().join("teams/crew/pitcrew"), room.work().join("outside"));
    fs::write(&outside, "the user's").unwrap();
    set_mode(&outside, 0o644);
    symlink(&outside, ours.join("link")).unwrap();
    symlink(room.work(), ours.join("transcripts/link")).unwrap();
    fs::hard_link(&outside, ours.join("hard")).unwrap();
    set_mode(&room.work(), 0o755);
    let folders = [
        "teams/crew",
        "teams/crew/inboxes",
        "teams/crew/pitcrew",
        "teams/crew/pitcrew/transcripts",
        "tasks/crew",
    ];
    let files = ["teams/crew/pitcrew/journal.ndjson", "pitcrew/rates/calls"];
    folders.iter().for_each(|name| set_mode(&room.root().join(name), 0o755));
    files.iter().for_each(|name| set_mode(&room.root().join(name), 0o644));
    insta::assert_snapshot!(room.transcript(&[&["doctor"]]), @r#"
    $ pitcrew doctor
    too open [root]/pitcrew: other users of this machine may use rates/calls (--repair: closed to others)
    too open in team crew [root]/teams/crew: other users of this machine may use [root]/tasks/crew, the folder itself, inboxes, pitcrew, pitcrew/journal.ndjson and 1 more (--repair: closed to others)
    2 found, 2 left
    [exit 1]
    "#);
    room.ok(&["doctor", "--repair"]);
    assert!(room.transcript(&[&["doctor"]]).contains("all is well"));
    let mode_of = |name: &&str| mode(&room.root().join(name));
    assert_eq!(folders.iter().map(mode_of).collect::<Vec<_>>(), [0o700; 5]);
    assert_eq!(files.iter().map(mode_of).collect::<Vec<_>>(), [0o600; 2]);
    assert_eq!((mode(&outside), mode(&room.work())), (0o644, 0o755));
}

#[test]
fn what_another_client_created_keeps_its_mode() {
    let room = TestEnv::with_crew();
    let team = room.root().join("teams/crew");
    // Make a team as the reference client leaves it: without pitcrew's folder.
    fs::remove_dir_all(team.join("pitcrew")).unwrap();
    fs::write(team.join("inboxes/bob.json"), "[]").unwrap();
    let (folders, files) = (
        [team.clone(), team.join("inboxes")],
        [team.join("config.json"), team.join("inboxes/bob.json")],
    );
    folders.iter().for_each(|path| set_mode(path, 0o755));
    files.iter().for_each(|path| set_mode(path, 0o644));
    room.ok(&["send", "bob", "hello"]);
    room.ok(&["doctor", "--repair"]);
    assert_eq!(folders.map(|path| mode(&path)), [0o755; 2]);
    assert_eq!(files.map(|path| mode(&path)), [0o644; 2]);
    assert_eq!(mode(&team.join("pitcrew")), 0o700);
    assert_eq!(room.json(&["inbox", "bob"])["total"], 1);
}

#[test]
fn a_teams_folder_that_another_user_owns_is_named_by_doctor_and_when_a_run_starts() {
    const OTHER: u32 = 54_321;
    let room = TestEnv::with_crew();
    let (folder, tasks) = (room.root().join("teams/crew"), room.root().join("tasks/crew"));
    if chown(&folder, Some(OTHER), None).is_err() {
        eprintln!("SKIPPED: only root can give a folder to another user");
        return;
    }
    let is_named = |text: &str, path: &Path| {
        text.contains(&format!(
            "{} belongs to the user {OTHER}, who can change this team's mail",
            path.display()
        ))
    };
    let doctor = room.run(&["doctor"]);
    assert!(
        is_named(&doctor.stdout, &folder) && doctor.stdout.contains("foreign owner"),
        "{doctor:?}"
    );
    assert!(!is_named(&doctor.stdout, &tasks), "{doctor:?}");
    chown(&folder, Some(0), None).unwrap();
    assert!(!room.run(&["doctor"]).stdout.contains("belongs to the user"));
    chown(&tasks, Some(OTHER), None).unwrap();
    let model = room.script("agents: {team-lead: [{text: Hello.}]}");
    let run = room.run(&["run", "--resume", "crew", "--model", &model]);
    assert!(is_named(&run.stderr, &tasks) && run.stderr.contains("warning: "), "{run:?}");
    assert!(!is_named(&run.stderr, &folder), "{run:?}");
}

#[test]
fn a_root_that_the_user_may_not_read_is_a_failure_of_the_system_with_one_reason() {
    let room = TestEnv::with_crew();
    set_mode(room.root().parent().unwrap(), 0o755);
    set_mode(&room.root(), 0o700);
    let pitcrew = env!("CARGO_BIN_EXE_pitcrew");
    let root = room.root();
    let mut args = vec!["--reuid", "54321", "--regid", "54321", "--clear-groups", pitcrew];
    let as_another = |args: &[&str]| Command::new("setpriv").args(args).current_dir("/").output();
    let can = [args.as_slice(), &["--version"]].concat();
    if !as_another(&can).is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: only root can be another user, and it must reach the binary");
        return;
    }
    args.extend(["--root", root.to_str().unwrap(), "team", "create", "t"]);
    let ran = Ran::of(as_another(&args).unwrap());
    assert_eq!((ran.code, ran.stderr.matches("Permission denied").count()), (70, 1), "{ran:?}");
}
