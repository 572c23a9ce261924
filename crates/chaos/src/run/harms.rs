//! Does harm to a run, and checks how each process of the lead ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::{Driver, Waited};
use crate::error::Error;
use crate::harm::{EndSignal, Harm, ModelFault};
use crate::lead::Begin;
use crate::oracle::{Finding, LifeEnd, judge_end};
use crate::plan::{Crash, Victim};
use crate::stage::Disk;

/// After a signal, the lead's process must end within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// If a process of the lead ends within this time after the disk was full, the full disk is still a
/// possible cause.
const DISK_EXCUSES: Duration = Duration::from_secs(15);

/// What was done to the current process of the lead, and what the harness remembers of earlier
/// processes.
#[derive(Debug, Default)]
pub(super) struct Harmed {
    /// The signals that were sent to the current process.
    signals: Vec<EndSignal>,
    /// The agents that got a bad answer from their model, and the kind of the answer. After a
    /// resume with a new prompt, the list starts empty again.
    met: Vec<(String, ModelFault)>,
    /// True if a member was killed since the last resume with a new prompt, or since the start if
    /// there was none.
    member_killed: bool,
    /// When the disk was last full. `None` if it never was.
    disk_full_at: Option<Instant>,
    /// The JSON document that the previous process of the lead printed.
    document: Option<Value>,
    /// How often each kind of harm happened.
    pub(super) kinds: BTreeMap<String, usize>,
    /// How often each kind of end of the lead's process happened.
    pub(super) ends: BTreeMap<String, usize>,
}

impl Driver<'_> {
    /// Does one harm of the plan to the run.
    pub(super) fn harm(&mut self, crash: &Crash, entry: Option<&Value>) -> Result<(), Error> {
        *self.harmed.kinds.entry(crash.harm.kind()).or_default() += 1;
        match &crash.harm {
            Harm::Kill(victim) => {
                self.harmed.member_killed |= *victim != Victim::Lead;
                self.strike(crash, *victim, entry)
            }
            Harm::Signal { signal, again } => self.signal(*signal, *again),
            Harm::Model { fault, whose, answers } => {
                self.note(format!("{}", crash.harm));
                self.server.fail(*fault, *whose, *answers);
                Ok(())
            }
            Harm::FullDisk(time) => {
                self.fill_disk(*time);
                Ok(())
            }
            Harm::Resize { columns, rows } => {
                self.note(format!("the terminal has {columns} columns and {rows} rows"));
                if let Some(terminal) = self.lead.as_ref().and_then(|lead| lead.terminal.as_ref()) {
                    terminal.resize(*columns, *rows);
                }
                self.stage.resize_windows(*columns, *rows);
                Ok(())
            }
        }
    }

    /// Sends a signal to the lead, once or twice, and waits until the lead's process has ended.
    fn signal(&mut self, signal: EndSignal, again: Option<Duration>) -> Result<(), Error> {
        let times = if again.is_some() { " twice" } else { "" };
        let Some(lead) = self.lead.as_mut() else { return Ok(()) };
        let log_line = format!("lead {} gets {signal:?}{times}", self.life);
        // Wait until `setsid` has executed the lead. An earlier signal would only kill `setsid`.
        while lead.try_wait()?.is_none() && is_setsid(lead.id()) {
            thread::park_timeout(Duration::from_millis(1));
        }
        for pause in std::iter::once(Duration::ZERO).chain(again) {
            thread::park_timeout(pause);
            if lead.try_wait()?.is_some() {
                break;
            }
            match (signal, &lead.terminal) {
                (EndSignal::Interrupt, Some(terminal)) => terminal.interrupt(),
                // Close the lead's terminal, because in real use SIGHUP is sent when a terminal
                // closes.
                (EndSignal::HangUp, Some(_)) => lead.terminal = None,
                (EndSignal::Interrupt | EndSignal::HangUp | EndSignal::Terminate, _) => {
                    send(lead.id(), signal)
                }
            }
            self.harmed.signals.push(signal);
        }
        let since = Instant::now();
        while lead.try_wait()?.is_none() && since.elapsed() < ENDS_WITHIN {
            thread::park_timeout(Duration::from_millis(2));
        }
        let has_ended = lead.try_wait()?.is_some();
        self.note(format!("{log_line} and takes {:.1} s", since.elapsed().as_secs_f64()));
        if !has_ended {
            self.findings.push(Finding::new("a signal does not end the run", self.states()));
        }
        Ok(())
    }

    /// Fills the file system of pitcrew's root folder for some time.
    fn fill_disk(&mut self, time: Duration) {
        if self.stage.disk() != Disk::Small {
            return;
        }
        self.note(format!("the disk is full for {} ms", time.as_millis()));
        fill(&self.stage.root(), time);
        self.harmed.disk_full_at = Some(Instant::now());
    }

    /// Checks how a process of the lead ended. If the work is not done, resumes the team.
    pub(super) fn look_at_end(&mut self, status: ExitStatus) -> Result<Option<Waited>, Error> {
        let path = self.stage.temporary().join(format!("lead-{}.json", self.life));
        let printed = fs::read_to_string(path).unwrap_or_default();
        self.harmed.met.extend(self.server.take_met());
        let end = LifeEnd {
            stage: self.stage,
            plan: self.plan,
            code: status.code(),
            killed_by: status.signal(),
            printed: &printed,
            last_words: self.last_words(),
            signals: &self.harmed.signals,
            met: &self.harmed.met,
            member_killed: self.harmed.member_killed,
            disk_was_full: self.harmed.disk_full_at.is_some_and(|at| at.elapsed() < DISK_EXCUSES),
            previous: self.harmed.document.as_ref(),
        };
        let (document, findings) = judge_end(&end);
        let is_over = !findings.is_empty() || status.code() == Some(0);
        let disk_was_full = end.disk_was_full;
        let name = document
            .as_ref()
            .and_then(|document| document["end"].as_str())
            .unwrap_or("before a team")
            .to_owned();
        let open = document
            .as_ref()
            .map(|document| format!("{} {}", document["message"], document["open"]));
        self.findings.extend(findings);
        self.note(format!("its end is {name}, {}", open.unwrap_or_default()));
        *self.harmed.ends.entry(name).or_default() += 1;
        if is_over {
            return Ok(Some(Waited::Over));
        }
        if self.life > self.plan.crashes.len() + 20 {
            self.findings.push(Finding::new("a lead cannot be resumed", self.last_words()));
            return Ok(Some(Waited::Over));
        }
        let is_there = self.stage.team().join("config.json").exists();
        // Do not compare later documents with this one in two cases. First, without a team, the
        // next run creates a new team. Second, on a full disk, some usage may be in this document
        // but not in the journal, so later documents may show less.
        self.harmed.document = document.filter(|_| is_there && !disk_was_full);
        if !is_there {
            self.desk.forget();
        }
        let was_stopped = !self.harmed.signals.is_empty();
        self.begins = if was_stopped { Begin::Resume } else { Begin::GoOn };
        Ok(if self.start_again()? { None } else { Some(Waited::Over) })
    }

    /// Ends all harm before the next process of the lead starts.
    pub(super) fn heal(&mut self) {
        self.server.mend();
        self.harmed.signals.clear();
        let met = self.server.take_met();
        if self.begins == Begin::GoOn {
            self.harmed.met.clear();
            self.harmed.member_killed = false;
        } else {
            self.harmed.met.extend(met);
        }
    }
}

/// Returns true if the process `pid` still runs the program `setsid`. `setsid` gives the lead its
/// terminal, and then executes the lead's program in the same process.
fn is_setsid(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"setsid\0"))
}

/// Sends a signal to a process group, as a terminal does.
fn send(pid: u32, signal: EndSignal) {
    let signal = match signal {
        EndSignal::Interrupt => Signal::INT,
        EndSignal::Terminate => Signal::TERM,
        EndSignal::HangUp => Signal::HUP,
    };
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process_group(group, signal);
    }
}

/// Fills the file system that contains the folder `root`, for some time.
pub(super) fn fill(root: &Path, time: Duration) {
    let path = root.join("filler");
    if let Ok(mut file) = File::create(&path) {
        let block = [0_u8; 4096];
        while file.write_all(&block).is_ok() {}
    }
    thread::sleep(time);
    // An error is ignored, because the whole folder is removed later.
    let _gone = fs::remove_file(&path);
}
