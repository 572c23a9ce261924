//! A team whose teammates ran in panes is resumed with another `--teammate-mode`. If a teammate's
//! process is alive, the run continues to use that process. The run starts the other teammates in
//! the place that the mode names. At the end, no pane of pitcrew may be left.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::terminal::{Terminal, ended};
use crate::tmux_runs::{crowd, patient};

/// Resumes the team `work` in the teammate mode `mode`, outside tmux.
fn resumed_in(terminal: &Terminal, mode: &str) -> Child {
    let args = ["run", "--resume", "work", "--yes", "--teammate-mode", mode];
    let mut command = terminal.command(&args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn waits(terminal: &Terminal) {
    terminal.until("bob waits", || terminal.room.work().join("waiting").exists().then_some(()));
}

#[test]
fn a_teammate_that_was_stopped_in_its_pane_goes_on_in_the_lead_s_process() {
    for mode in ["in-process", "auto"] {
        let Some(terminal) = Terminal::new() else { return };
        let run = terminal.start(&patient(), &[]);
        waits(&terminal);
        kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
        assert_eq!(ended(run).code, 143);
        fs::write(terminal.room.work().join("word"), "").unwrap();
        let ran = ended(resumed_in(&terminal, mode));
        assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{mode}: {ran:?}");
        terminal.check_nobody_is_left();
    }
}

#[test]
fn a_teammate_that_lives_in_its_pane_is_adopted_whatever_the_mode() {
    let Some(terminal) = Terminal::new() else { return };
    let mut run = terminal.start(&patient(), &[]);
    waits(&terminal);
    let bob = terminal.teammates();
    run.kill().unwrap();
    run.wait().unwrap();
    let run = resumed_in(&terminal, "in-process");
    let lead = u64::from(run.id());
    terminal.until("bob is the new lead's", || {
        (terminal.started()["bob"]["owner"]["pid"] == lead).then_some(())
    });
    assert_eq!(terminal.teammates(), bob);
    fs::write(terminal.room.work().join("word"), "").unwrap();
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "All is done."), "{ran:?}");
    terminal.check_nobody_is_left();
}

#[test]
fn a_lead_that_is_killed_while_its_teammates_leave_comes_back_in_another_mode_and_leaves_no_pane() {
    for (mode, gone) in [("in-process", 1), ("in-process", 3), ("auto", 2)] {
        let Some(terminal) = Terminal::new() else { return };
        let mut run = terminal.start(&crowd(4), &["--permission-mode", "acceptEdits"]);
        let mut left = 0;
        for line in BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok) {
            left += usize::from(line.contains("has ended"));
            if left == gone {
                break;
            }
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let ran = ended(resumed_in(&terminal, mode));
        assert_eq!(
            (ran.code, ran.stdout.trim()),
            (0, "All files are there."),
            "{mode} {gone}: {ran:?}"
        );
        terminal.check_nobody_is_left();
    }
}

/// The script of a teammate whose command ends when the file `go` exists, and of a lead that learns
/// what ended the teammate.
const BROKEN_THERE: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait for the word.}}]
    - wait_for: {contains: It stays in the team with its tasks}
    - text: Then I stop.
  bob:
    - tools: [{name: Bash, input: {command: "touch waiting; until [ -e go ]; do sleep 0.05; done"}}]
    - text: I went on.
"#;

#[test]
fn a_teammate_whose_disk_fails_in_its_pane_stays_for_the_next_run() {
    let Some(terminal) = Terminal::new() else { return };
    let run = terminal.start(BROKEN_THERE, &[]);
    waits(&terminal);
    // A folder in place of the file takes no line, as a full disk does.
    let transcript = terminal.room.root().join("teams/work/pitcrew/transcripts/bob.ndjson");
    let aside = terminal.room.temporary().join("aside");
    fs::rename(&transcript, &aside).unwrap();
    fs::create_dir(&transcript).unwrap();
    fs::write(terminal.room.work().join("go"), "").unwrap();
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Then I stop."), "{ran:?}");
    assert!(
        ran.stderr.contains("it stays in the team, and the next run goes on with it"),
        "{ran:?}"
    );
    let members = terminal.config().unwrap()["members"].as_array().unwrap().len();
    assert_eq!(members, 2, "{ran:?}");
}

/// The script of a teammate that runs one long command, and of a lead that learns who stopped the
/// teammate.
const STOPPED_THERE: &str = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: Wait, prompt: Wait for the word.}}]
    - wait_for: {contains: The user stopped bob at its pane}
    - text: Then I stop too.
  bob:
    - tools: [{name: Bash, input: {command: "touch waiting; sleep 4243"}}]
"#;

#[test]
fn a_teammate_that_is_stopped_at_its_pane_has_not_failed_and_stays_for_the_next_run() {
    let Some(terminal) = Terminal::new() else { return };
    let run = terminal.start(STOPPED_THERE, &[]);
    waits(&terminal);
    let of_bob = |pane: &String| *pane != terminal.theirs && pane.contains("bob");
    let pane = terminal.until("bob's pane", || terminal.panes().into_iter().find(of_bob));
    terminal.tmux(&["send-keys", "-t", pane.split(' ').next().unwrap(), "C-c"]);
    let ran = ended(run);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "Then I stop too."), "{ran:?}");
    assert!(
        terminal.was("bob", "killed") && !terminal.was("bob", "failed"),
        "{:?}",
        terminal.journal()
    );
    assert!(ran.stderr.contains("the user stopped it at its pane"), "{ran:?}");
    assert_eq!(terminal.config().unwrap()["members"].as_array().unwrap().len(), 2, "{ran:?}");
}
