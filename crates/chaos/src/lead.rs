//! The process of a lead: a child of the harness, or a host process that `pitcrew run --detach`
//! started.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::brain::GO_ON;
use crate::error::Error;
use crate::plan::{Fault, Plan};
use crate::processes::kill;
use crate::stage::{Stage, TEAM};
use crate::terminal::Terminal;

/// How a process of the lead starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The process creates a new team.
    New,
    /// The process resumes the existing team, without a new prompt.
    Resume,
    /// The process resumes the existing team, with a new prompt from the user.
    GoOn,
}

impl Begin {
    /// Returns the arguments of the command that starts the process.
    fn args(self) -> &'static [&'static str] {
        match self {
            Self::New => &["run", "Have it done.", "--team", TEAM],
            Self::Resume => &["run", "--resume", TEAM],
            Self::GoOn => &["run", "--resume", TEAM, GO_ON],
        }
    }
}

/// A running process of the lead.
#[derive(Debug)]
pub struct Lead {
    process: LeadProcess,
    /// The lead's terminal, if it has one.
    pub terminal: Option<Terminal>,
    /// The time when the process was started.
    pub started: Instant,
}

#[derive(Debug)]
enum LeadProcess {
    Child(Child),
    /// The host process of a detached run. It is no child of the harness.
    Host(u32),
}

impl Lead {
    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        match &self.process {
            LeadProcess::Child(child) => child.id(),
            LeadProcess::Host(pid) => *pid,
        }
    }

    /// Returns how the process ended, or `None` if it still runs. The status of a detached host is
    /// known to no process, so it counts as a success: the faces learn how the run ended.
    ///
    /// # Errors
    /// An error if the operating system does not tell.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        match &mut self.process {
            LeadProcess::Child(child) => {
                child.try_wait().map_err(Error::io("wait for", Path::new("the lead")))
            }
            LeadProcess::Host(pid) if is_host(*pid) => Ok(None),
            LeadProcess::Host(_) => Ok(Some(ExitStatus::default())),
        }
    }

    /// Kills the process, and waits until it has ended.
    ///
    /// # Errors
    /// An error if the operating system refuses it.
    pub fn kill(&mut self) -> Result<(), Error> {
        match &mut self.process {
            LeadProcess::Child(child) => child
                .kill()
                .and_then(|()| child.wait())
                .map(drop)
                .map_err(Error::io("kill", Path::new("the lead"))),
            LeadProcess::Host(pid) => {
                kill(*pid);
                while is_host(*pid) {
                    thread::park_timeout(Duration::from_millis(1));
                }
                Ok(())
            }
        }
    }
}

/// Returns true if a host process with this id runs. A process that has ended has no command line,
/// even if nobody has collected its status yet.
fn is_host(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == b"run-host")
}

fn host_log(stage: &Stage) -> PathBuf {
    stage.team_or_archive().join("pitcrew/host.log")
}

impl Stage {
    /// Starts a process of the lead.
    ///
    /// # Errors
    /// An error if the process cannot be started.
    pub fn lead(&self, life: usize, plan: &Plan, begin: Begin) -> Result<Lead, Error> {
        if plan.faces.is_some() {
            return self.host(begin);
        }
        let limit = match plan.fault {
            Some(Fault::FileSize { life: at, kib }) if at == life => {
                Some(format!("ulimit -f {kib}"))
            }
            Some(Fault::Descriptors { life: at, count }) if at == life => {
                Some(format!("ulimit -n {count}"))
            }
            Some(_) | None => None,
        };
        let has_terminal = plan.ends.is_some_and(|ends| ends.has_terminal);
        let mut command = match limit {
            Some(limit) => {
                let mut command = self.tool("bash");
                command.arg("-c").arg(format!("{limit}; exec \"$0\" \"$@\"")).arg(self.binary());
                command
            }
            // `setsid` makes the terminal on its standard input its controlling terminal, and then
            // executes the lead's program.
            None if has_terminal => {
                let mut command = self.tool("setsid");
                command.arg("--ctty").arg(self.binary());
                command
            }
            None => self.pitcrew(&[]),
        };
        self.add_options(&mut command, begin);
        command.args(["--yes", "--json"]);
        let path = |ending: &str| self.temporary().join(format!("lead-{life}.{ending}"));
        let log =
            |ending: &str| File::create(path(ending)).map_err(Error::io("make", &path(ending)));
        command.stdout(log("json")?);
        let terminal = if has_terminal { Some(Terminal::open(&path("log"))?) } else { None };
        match &terminal {
            Some(terminal) => terminal.attach(&mut command)?,
            None => {
                command.process_group(0).stderr(log("log")?);
            }
        }
        let child = command.spawn().map_err(Error::io("start", self.binary()))?;
        Ok(Lead { process: LeadProcess::Child(child), terminal, started: Instant::now() })
    }

    /// Starts a detached host, and waits until the team runs. Nothing but a face answers its
    /// permission requests.
    fn host(&self, begin: Begin) -> Result<Lead, Error> {
        let mut command = self.pitcrew(&[]);
        self.add_options(&mut command, begin);
        command.args(["--detach", "--json"]);
        let output = command.output().map_err(Error::io("start", self.binary()))?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let pid = answer["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| Error::Program {
            program: "pitcrew run --detach".to_owned(),
            output: format!("{answer} {}", String::from_utf8_lossy(&output.stderr).trim()),
        })?;
        Ok(Lead { process: LeadProcess::Host(pid), terminal: None, started: Instant::now() })
    }

    fn add_options(&self, command: &mut Command, begin: Begin) {
        let mode = if self.has_terminal() { "tmux" } else { "in-process" };
        let options = ["--model", "anthropic/claude-opus-5-5", "--teammate-mode", mode];
        command.args(begin.args()).args(options);
    }

    /// Returns the last lines that a process of the lead printed for people.
    #[must_use]
    pub fn last_words(&self, life: usize, plan: &Plan) -> String {
        let path = match plan.faces {
            Some(_) => host_log(self),
            None => self.temporary().join(format!("lead-{life}.log")),
        };
        let log = fs::read(path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(6)..).unwrap_or_default().join(" | ")
    }
}
