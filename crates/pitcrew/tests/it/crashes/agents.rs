//! The team whose processes crash: its script, the choice of the next crash, and the end of the
//! team.

use std::cell::Cell;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use pitcrew_process::identity::ProcessIdentity;
use rustix::process::Signal;

use super::Chance;
use super::remains::Dead;
use crate::patience;
use crate::processes::processes_in;
use crate::terminal::{Terminal, kill};
use crate::test_env::Ran;

/// The number of journal entries that the team writes before the next crash is random, and less
/// than this number.
const ENTRIES_MOST: usize = 25;

/// The members' scripts, by the first part of their names. Members whose names begin with `keeper`
/// or `writer` have a worktree, unless they run in the lead's process. A writer leaves a file in
/// its worktree.
const MEMBERS: &str = r#"
  talker-*:
    - repeat:
        at_most: 100000
        turns:
          - delay_ms: 120
            tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: still here, summary: here}}]
  asker-*:
    - repeat:
        at_most: 100000
        turns: [{delay_ms: 60, tools: [{name: Bash, input: {command: 'touch "asked-${agent}"'}}]}]
  tasker-*:
    - repeat:
        at_most: 100000
        turns:
          - tools: [{name: TaskCreate, input: {subject: A part, description: Do it}}]
          - capture: {task: {from: tool_result, tool: TaskCreate, regex: 'Task #(\d+)'}}
            tools: [{name: TaskUpdate, input: {taskId: '${task}', status: in_progress}}]
          - delay_ms: 150
            tools: [{name: TaskUpdate, input: {taskId: '${task}', status: completed}}]
  keeper-*: &keeper
    - tools: [{name: TaskCreate, input: {subject: A part, description: Keep it}}]
    - capture: {task: {from: tool_result, tool: TaskCreate, regex: 'Task #(\d+)'}}
      tools: [{name: TaskUpdate, input: {taskId: '${task}', status: in_progress}}]
    - tools: [{name: Bash, input: {command: 'setsid sleep 4242 & (sleep 4243 &) ; trap "" TERM; sleep 4244', timeout: 600000}}]
  writer-*:
    - tools: [{name: Write, input: {file_path: draft.txt, content: half of it}}]
    - tools: [{name: Bash, input: {command: 'setsid sleep 4245', run_in_background: true}}]
    - repeat:
        at_most: 100000
        turns: [{delay_ms: 120, tools: [{name: Read, input: {file_path: draft.txt}}]}]
"#;

/// A running team, and a list of its processes that have crashed.
pub(super) struct Crew {
    pub(super) terminal: Terminal,
    lead: Child,
    /// A process of the user. It does not belong to pitcrew, so pitcrew must not touch it.
    foreign: Child,
    chance: Chance,
    pub(super) dead: Vec<Dead>,
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in [&mut self.lead, &mut self.foreign] {
            // Each of the two processes may have ended already, so the result is ignored. If the
            // test failed, this function also kills the tmux server and all other processes of the
            // test.
            let _gone = child.kill();
            let _reaped = child.wait();
        }
        let _gone = self.terminal.tmux_command(&["kill-server"]).output();
        for left in processes_in(&self.terminal.room) {
            let _gone = left.signal(Signal::KILL);
        }
    }
}

impl Crew {
    /// Starts a team with four members in panes and two members in the lead's process. Each member
    /// that dies gets a successor. If tmux is not installed, returns `None`.
    pub(super) fn start(chance: Chance, crashes: usize) -> Option<Self> {
        let terminal = Terminal::new()?;
        let (room, plenty) = (&terminal.room, r#"{"count": 100000, "seconds": 60}"#);
        let rates = format!(r#""callRate": {plenty}, "spawnRate": {plenty}, "taskRate": {plenty}"#);
        // The run's limits for tasks and calls are high. On a slow machine, the team makes many
        // tasks before all crashes have happened, and must not reach a limit.
        let limits = format!(r#"{{"tasks": 100000, {rates}}}"#);
        fs::write(
            room.root().join("settings.json"),
            format!(r#"{{"pitcrew": {{"limits": {limits}}}}}"#),
        )
        .unwrap();
        for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "Begin"]] {
            let git = ["-c", "user.name=dev", "-c", "user.email=dev@example.com"];
            let made = room.tool("git", &git).args(args).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        let model = room.script(&script(crashes));
        let foreign = Command::new("sleep")
            .arg("1000")
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let args =
            ["run", "go", "--team", "work", "--model", &model, "--teammate-mode", "tmux", "--yes"];
        let lead = lead(&terminal, &args, 0);
        let crew = Self { terminal, lead, foreign, chance, dead: Vec::new() };
        crew.until("all are there", || match crew.terminal.teammates().len() {
            4 => Ok(()),
            count => Err(format!("{count} are there")),
        });
        Some(crew)
    }

    pub(super) fn crashes(&self) -> usize {
        self.dead.len()
    }

    pub(super) fn lead(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.lead.id()).unwrap()
    }

    pub(super) fn foreign(&mut self) -> bool {
        self.foreign.try_wait().unwrap().is_none()
    }

    /// Waits for a random moment, and kills one or two processes. Mostly this is one teammate.
    /// Sometimes it is two teammates, the lead, or the lead and a teammate.
    pub(super) fn crash(&mut self) {
        let (now, entries) = (self.terminal.journal().len(), self.chance.below(ENTRIES_MOST));
        self.until("the team goes on", || match self.terminal.journal().len() - now {
            more if more >= entries => Ok(()),
            more => Err(format!("{more} of {entries} more entries")),
        });
        let (mates, is_lead) = match self.chance.below(10) {
            0 => (0, true),
            1 => (1, true),
            2 => (2, false),
            _ => (1, false),
        };
        for _ in 0..mates {
            self.kill_a_teammate();
        }
        if is_lead {
            self.kill_lead();
        }
    }

    fn kill_a_teammate(&mut self) {
        let mut there = self.until("somebody is there", || match self.terminal.named_teammates() {
            there if there.is_empty() => Err("nobody".to_owned()),
            there => Ok(there),
        });
        there.sort();
        let (name, process) = there.swap_remove(self.chance.below(there.len()));
        eprintln!("{}. {name} dies ({process})", self.crashes() + 1);
        let signalled = process.signal(Signal::KILL).unwrap();
        eprintln!("   {signalled:?}");
        self.dead.push(Dead::now(Some(name), process));
    }

    /// Kills the lead, and starts another lead that resumes the team.
    fn kill_lead(&mut self) {
        let process = self.lead();
        eprintln!("{}. the lead dies ({process})", self.crashes() + 1);
        self.lead.kill().unwrap();
        self.lead.wait().unwrap();
        self.dead.push(Dead::now(None, process));
        self.lead = lead(
            &self.terminal,
            &["run", "--resume", "work", "--teammate-mode", "tmux", "--yes"],
            self.crashes(),
        );
    }

    /// Ends the run in one of three ways, and deletes the team. Checks that afterwards nothing of
    /// the team still runs.
    pub(super) fn end(mut self) {
        let pid = self.lead.id();
        match self.chance.below(3) {
            0 => [Signal::INT, Signal::TERM].into_iter().for_each(|signal| kill(pid, signal)),
            1 => {
                let ended = Ran::of(
                    self.terminal.command(&["shutdown", "work", "--force"]).output().unwrap(),
                );
                assert_eq!(ended.code, 0, "{ended:?}");
            }
            _ => self.lead.kill().unwrap(),
        }
        self.lead.wait().unwrap();
        let deleted = Ran::of(
            self.terminal.command(&["team", "delete", "work", "--force"]).output().unwrap(),
        );
        assert_eq!(deleted.code, 0, "{deleted:?}");
        self.until("all are gone", || self.nobody_is_left());
        assert!(self.foreign(), "a process that is none of ours was killed");
    }

    /// Waits until `look` succeeds. If this takes too long, the test fails and prints the last
    /// error of `look`.
    #[track_caller]
    pub(super) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
        let why = Cell::new(String::new());
        let look = || look().map_err(|reason| why.set(reason)).ok();
        patience::until(what, look, || format!("{}\n{}", why.take(), self.last_words()))
    }

    /// Returns the last lines of each lead's log, and the last lines of the journal.
    fn last_words(&self) -> String {
        let room = &self.terminal.room;
        let logs = fs::read_dir(room.temporary()).unwrap().flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        let logs = logs.map(|path| {
            format!("{}:\n{}", path.display(), tail(&fs::read_to_string(&path).unwrap_or_default()))
        });
        let journal = fs::read_to_string(self.terminal.team().join("pitcrew/journal.ndjson"))
            .unwrap_or_default();
        logs.chain([tail(&journal)]).collect::<Vec<_>>().join("\n")
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// Starts a process that leads the team. The output of the process goes to a file, because the test
/// does not read this output while the process runs.
fn lead(terminal: &Terminal, args: &[&str], number: usize) -> Child {
    let log =
        fs::File::create(terminal.room.temporary().join(format!("lead-{number}.log"))).unwrap();
    let mut command = terminal.command(args);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// The script of a lead that has a team and gives each dead teammate a successor.
fn script(crashes: usize) -> String {
    const SUCCESSORS: [&str; 5] = ["talker", "keeper", "asker", "writer", "tasker"];
    let first = ["keeper-0l", "tasker-1l", "talker-2", "asker-3", "tasker-4", "keeper-5"]
        .map(str::to_owned);
    let mut lead = format!("    - tools:\n{}", first.map(|name| spawn(&name)).concat());
    // One crash may kill two teammates, so there must be two successors for each crash.
    for (lost, role) in (1..=2 * crashes).zip(SUCCESSORS.iter().cycle()) {
        let next = spawn(&format!("{role}-{}", lost + 5));
        lead += &format!(
            "    - wait_for: {{matches: teammate_terminated|was not started, times: {lost}}}\n"
        );
        lead += &format!("    - tools:\n{next}");
    }
    format!("agents:\n  team-lead:\n{lead}{MEMBERS}")
}

/// The tool call that spawns a member. A member whose name ends with `l` runs in the lead's
/// process.
fn spawn(name: &str) -> String {
    let place = if name.ends_with('l') { "backend: in-process, " } else { "" };
    let has_worktree =
        place.is_empty() && (name.starts_with("keeper") || name.starts_with("writer"));
    let isolation = if has_worktree { "isolation: worktree, " } else { "" };
    format!(
        "        - {{name: Task, input: {{name: {name}, {place}{isolation}description: A part, prompt: Do your part.}}}}\n"
    )
}
