//! Tests in which the binary reaches a limit of the operating system, such as for file descriptors,
//! file sizes, memory, threads or disk space. Each time, the binary must report an error that names
//! the cause, and exit with code 70. It must not panic, and no signal may kill it.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::patience::until;
use crate::test_env::{Ran, TestEnv};

/// Runs the binary from a shell that first runs the command `setting`. Checks that the binary
/// either succeeds or reports an error of the operating system.
fn check(room: &TestEnv, setting: &str, args: &str) -> Ran {
    let script = format!("{setting}; exec {} {args}", env!("CARGO_BIN_EXE_pitcrew"));
    let ran = Ran::of(room.tool("bash", &["-c", &script]).output().unwrap());
    let told = ran.stderr.contains("error: ") || ran.stdout.contains("\"success\": false");
    // With the exit code 127, the loader of the operating system failed before any code of the
    // binary ran.
    let is_ours = ran.code != 127;
    // If `doctor` is not able to run a check, it reports this and continues with the next check.
    let is_reported = args == "doctor" && ran.code == 1 && ran.stdout.contains("unchecked");
    assert!(
        !is_ours || ran.code == 0 || is_reported || (ran.code == 70 && told),
        "{setting}: {args}: {ran:?}"
    );
    assert!(!ran.stderr.contains("panicked"), "{setting}: {args}: {ran:?}");
    ran
}

#[test]
fn without_descriptors_a_command_fails_with_its_cause() {
    let room = TestEnv::with_crew();
    fs::write(room.root().join("settings.json"), "{}").unwrap();
    let mut refused = 0;
    for limit in 4..20 {
        for args in [
            "team list",
            "send bob hi",
            "--json task create Sweep",
            "team show crew",
            "doctor",
            "man",
        ] {
            let ran = check(&room, &format!("ulimit -n {limit}"), args);
            if ran.code == 70 {
                refused += 1;
                let said = format!("{}{}", ran.stdout, ran.stderr);
                assert!(said.contains("Too many open files"), "{limit} {args}: {said}");
            }
        }
    }
    assert!(refused > 0, "no limit was met");
}

#[test]
fn a_limit_is_told_with_the_command_that_shows_it() {
    let room = TestEnv::with_crew();
    let ran = check(&room, "ulimit -n 6", "team list");
    assert_eq!(ran.code, 70);
    assert!(ran.stderr.contains("`ulimit -n`"), "{ran:?}");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_signal() {
    let room = TestEnv::with_crew();
    // stdout and stderr are pipes, so the limit on file sizes does not affect them.
    let ran = check(&room, "ulimit -f 0", "team create other");
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.stderr.contains("File too large"), "{ran:?}");
    assert!(!room.root().join("teams/other").exists());
    let ran = check(&room, "ulimit -f 0", "send bob hi");
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.stderr.contains("`ulimit -f`"), "{ran:?}");
    let ran = check(&room, "ulimit -f 0", "man > page");
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.stderr.contains("`ulimit -f`"), "{ran:?}");
}

#[test]
fn a_run_whose_files_may_not_grow_ends_with_an_error() {
    let room = TestEnv::new();
    fs::write(
        room.work().join("script.json"),
        r#"{"agents": {"team-lead": [{"text": "all is done"}]}}"#,
    )
    .unwrap();
    let ran =
        check(&room, "ulimit -f 0", "run --model script:script.json --teammate-mode in-process go");
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.stderr.contains("File too large"), "{ran:?}");
}

#[test]
fn settings_that_the_system_fails_to_read_are_no_malformed_request() {
    let room = TestEnv::with_crew();
    // Reading from this link fails with EIO, because the first page of a process's memory cannot be
    // read.
    std::os::unix::fs::symlink("/proc/self/mem", room.root().join("settings.json")).unwrap();
    let ran = room.run(&["run", "go"]);
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.stderr.contains("Input/output error"), "{ran:?}");
    // A command that runs no agent only warns if the settings cannot be read.
    assert!(room.ok(&["team", "list"]).stderr.contains("Input/output error"));
    fs::remove_file(room.root().join("settings.json")).unwrap();
    fs::write(room.root().join("settings.json"), "{").unwrap();
    assert_eq!(room.run(&["run", "go"]).code, 2);
}

#[test]
fn a_full_disk_under_the_answer_is_told() {
    let room = TestEnv::with_crew();
    for args in ["team list", "--json team list", "help", "--version", "completions bash"] {
        let ran = check(&room, "true", &format!("{args} > /dev/full"));
        assert_eq!(ran.code, 70, "{args}: {ran:?}");
        assert!(ran.stderr.contains("No space left on device"), "{args}: {ran:?}");
    }
}

#[test]
fn a_run_whose_answer_cannot_be_written_says_on_stderr_how_it_ended_and_what_goes_on_with_it() {
    let waits = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: 'echo so; sleep 600'}}]
";
    for form in ["text", "json", "stream-json"] {
        let room = TestEnv::new();
        let model = room.script(waits);
        let mut command =
            room.command(&["run", "go", "--team", "work", "--model", &model, "--yes"]);
        command
            .args(["--output-format", form])
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let journal = room.root().join("teams/work/pitcrew/transcripts/team-lead.ndjson");
        // The run cannot write to its output. If it writes while its lead works, it stops by
        // itself. If it writes only at its end, it has not stopped at this point, and the test
        // stops it.
        let is_over = |child: &mut Child| child.try_wait().unwrap().is_some();
        let runs = || fs::read_to_string(&journal).is_ok_and(|text| text.contains("sleep 600"));
        until("it works or is over", || (runs() || is_over(&mut child)).then_some(()), String::new);
        if !is_over(&mut child) {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert!([70, 130].contains(&ran.code), "{form}: {ran:?}");
        assert!(
            ran.stderr.contains("the team is still there: pitcrew run --resume work"),
            "{form}: {ran:?}"
        );
        assert!(ran.stderr.ends_with("hint: pitcrew run --resume work\n"), "{form}: {ran:?}");
        assert!(
            form == "text" || ran.stderr.contains("No space left on device"),
            "{form}: {ran:?}"
        );
        assert!(ran.stderr.contains("the run was stopped"), "{form}: {ran:?}");
    }
}

#[test]
fn a_reader_that_goes_away_and_a_closed_output_are_no_failure() {
    let room = TestEnv::with_crew();
    for args in ["help", "team list", "completions bash", "man"] {
        for rest in ["| head -1 > first", ">&-", "2>&-", "<&- >&- 2>&-"] {
            let script =
                format!("{} {args} {rest}; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_pitcrew"));
            let ran = Ran::of(room.tool("bash", &["-c", &script]).output().unwrap());
            assert_eq!(ran.code, 0, "{args} {rest}: {ran:?}");
        }
    }
}

#[test]
fn a_command_without_a_home_or_a_working_folder_says_so() {
    let room = TestEnv::with_crew();
    let ran = Ran::of(
        room.command(&["team", "list"])
            .env_remove("HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("--root DIR"), "{ran:?}");
    let ran = check(&room, "mkdir gone && cd gone && rmdir ../gone", "--json team list");
    assert_eq!(ran.code, 70);
    let envelope: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(envelope["message"].as_str().unwrap().contains("working folder"), "{envelope}");
}

#[test]
fn too_little_memory_and_too_few_threads_are_errors() {
    let room = TestEnv::with_crew();
    // If the memory limit were lower than the first of these values, the kernel would kill the
    // program before its own code starts.
    for kilobytes in [80_000, 120_000, 160_000, 240_000] {
        let script =
            format!("ulimit -v {kilobytes}; exec {} team list", env!("CARGO_BIN_EXE_pitcrew"));
        let output = room.tool("bash", &["-c", &script]).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
    }
    // The limit on the number of processes does not apply to root. The tests mostly run as root, so
    // this command runs as another user.
    let script = format!(
        "chmod -R a+rwX {}; exec setpriv --reuid 54321 --clear-groups bash -c 'ulimit -u 1; exec {} team list'",
        room.root().parent().unwrap().display(),
        env!("CARGO_BIN_EXE_pitcrew"),
    );
    let output = room.tool("bash", &["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("setpriv") || output.status.code() == Some(126) {
        eprintln!("skipped: no command can be run as another user here: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    assert!(said.contains("`ulimit -u`"), "{said}");
}
