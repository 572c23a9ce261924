//! The reason for a teammate's failure reaches the user in full, at every place that shows the
//! reason.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::patience::until;
use crate::test_env::TestEnv;

/// The script of a lead that waits for the failure of its teammate `cat`. `cat` fails because the
/// test makes the log file of `cat` unwritable.
const SCRIPT: &str = "
agents:
  team-lead:
    - tools: [{name: Task, input: {name: cat, description: read, prompt: Read.}}]
    - wait_for: {contains: failed, from: message}
    - text: Cat is no more.
  cat:
    - tools: [{name: Bash, input: {command: 'until [ -e go ]; do sleep 0.05; done'}}]
    - text: Done.
";

/// Runs the team until the teammate `cat` has failed. Returns stderr, stdout, and the reason that
/// pitcrew must show.
fn run_of_a_failing_teammate(args: &[&str]) -> (String, String, String) {
    let room = TestEnv::new();
    fs::write(room.work().join("s.yaml"), SCRIPT).unwrap();
    let log = room.temporary().join("log");
    let mut run = room.command(&["run", "go", "--model", "script:s.yaml", "--yes"]);
    run.args(args)
        .stderr(fs::File::create(&log).unwrap())
        .stdout(Stdio::piped())
        .stdin(Stdio::null());
    let run = run.spawn().unwrap();
    let team = room.root().join("teams/work/pitcrew");
    let output = team.join("output/cat.log");
    let noted = || fs::read_to_string(team.join("transcripts/cat.ndjson")).unwrap_or_default();
    until("cat works", || noted().contains(r#""kind":"began""#).then_some(()), noted);
    // If there is a folder at the path of the log, no user is able to write the log, not even root.
    let _not_there_yet = fs::remove_file(&output);
    fs::create_dir_all(&output).unwrap();
    fs::write(room.work().join("go"), "").unwrap();
    let ended = run.wait_with_output().unwrap();
    let why = "is not readable: it is a link, a folder or a device, but must be a regular file";
    let reason = format!("the log of cat cannot be used: {} {why}", output.display());
    (fs::read_to_string(&log).unwrap(), String::from_utf8(ended.stdout).unwrap(), reason)
}

#[test]
fn the_lines_and_the_report_tell_the_whole_reason() {
    let (screen, stdout, reason) = run_of_a_failing_teammate(&[]);
    assert!(screen.contains(&format!("cat has failed: {reason}\n")), "{reason}\n{screen}");
    assert!(screen.contains(&format!("\ncat failed: {reason}\n")), "{reason}\n{screen}");
    assert_eq!(stdout, "Cat is no more.\n");
}

#[test]
fn json_tells_the_whole_reason() {
    let (_, stdout, reason) = run_of_a_failing_teammate(&["--json"]);
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&result["members"][1]["name"], &result["members"][1]["state"]),
        (&"cat".into(), &"failed".into())
    );
    assert_eq!(result["members"][1]["reason"], reason, "{result:#}");
    let (_, stdout, reason) =
        run_of_a_failing_teammate(&["--output-format", "stream-json", "--include-team-events"]);
    let mut lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(lines.any(|line| line.to_string().contains(&reason)), "{reason}\n{stdout}");
}
