//! Checks that nothing of a crashed process is left: processes, panes, locks, leases, worktrees,
//! tasks and records. Also checks that the lead was informed of the end of each teammate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::AgentName;
use pitcrew_store::LeaseName;
use serde_json::Value;

use super::agents::Crew;
use crate::processes::{command_line, environments, has, processes_in};
use crate::supervision::block_on;
use crate::terminal::Terminal;
use crate::test_env::TestEnv;

/// A process that crashed. It ran a teammate or the lead.
pub(super) struct Dead {
    /// The teammate's name, or `None` for the lead's process.
    name: Option<String>,
    process: ProcessIdentity,
    at: SystemTime,
}

impl Dead {
    pub(super) fn now(name: Option<String>, process: ProcessIdentity) -> Self {
        Self { name, process, at: SystemTime::now() }
    }
}

/// The result of a check: success, or the reason for the failure.
type Look = Result<(), String>;

fn is_so(holds: bool, why: impl FnOnce() -> String) -> Look {
    if holds { Ok(()) } else { Err(why()) }
}

impl Crew {
    /// Checks that nothing is left of the crashed processes from the number `since` on. Also checks
    /// that the user's own process still runs.
    #[track_caller]
    pub(super) fn check_what_is_left(&mut self, since: usize) {
        self.until("nothing is left of the dead", || self.nothing_is_left_of(&self.dead[since..]));
        assert!(self.foreign(), "a process that is none of ours was killed");
    }

    /// Checks that nothing is left of any crashed process. Also checks that the config, panes,
    /// processes, records, leases and worktrees belong to the same members.
    #[track_caller]
    pub(super) fn check_agreement(&mut self) {
        self.until("all agree", || {
            self.nothing_is_left_of(&self.dead)?;
            self.each_member_is_there_once()?;
            self.worktrees_have_owners_or_work()
        });
    }

    fn nothing_is_left_of(&self, dead: &[Dead]) -> Look {
        let marks =
            dead.iter().map(|Dead { process: ProcessIdentity { pid, start_ticks }, .. }| {
                format!("PITCREW_JOB_OWNER={pid}.{start_ticks}")
            });
        let marks: Vec<String> = marks.collect();
        for (pid, environment) in environments() {
            let mark = marks.iter().find(|mark| has(&environment, mark));
            is_so(mark.is_none(), || format!("process {pid} runs with {mark:?}"))?;
        }
        let locks = locks(&self.terminal.room.root());
        let left = locks.iter().find(|(_, since)| dead.iter().any(|dead| *since < dead.at));
        is_so(left.is_none(), || format!("there is the lock {left:?}"))?;
        dead.iter().try_for_each(|dead| self.is_gone(dead))?;
        self.nobody_dead_owns_a_task()
    }

    fn is_gone(&self, dead: &Dead) -> Look {
        let process = dead.process;
        is_so(!process.is_alive(), || format!("{process} is alive"))?;
        let Some(name) = dead.name.as_deref() else { return Ok(()) };
        let started = self.terminal.started();
        is_so(started[name]["process"]["pid"] != process.pid, || {
            format!("{name} is recorded as started")
        })?;
        let is_member = self.members().contains_key(name);
        is_so(is_member || started[name].is_null(), || format!("{name} has a record"))?;
        is_so(is_member || self.panes_of(name).is_empty(), || format!("{name} has a pane"))?;
        is_so(is_member || self.has_been_told_of(name), || {
            format!("the lead does not know of {name}")
        })?;
        let holder = self.holder_of(&LeaseName::of_member(&AgentName::foreign(name)));
        is_so(holder.is_none_or(|holder| holder != process && holder.is_alive()), || {
            format!("{name} has its lease")
        })
    }

    /// Returns the config entry of each teammate, by name.
    fn members(&self) -> BTreeMap<String, Value> {
        let config = self.terminal.config().unwrap_or_default();
        let members = config["members"].as_array().cloned().unwrap_or_default();
        let named =
            members.into_iter().map(|member| (member["name"].as_str().unwrap().to_owned(), member));
        named.filter(|(name, _)| name != "team-lead").collect()
    }

    fn panes_of(&self, name: &str) -> Vec<String> {
        let tag = format!("/work/{name}");
        self.terminal.panes().into_iter().filter(|pane| pane.ends_with(&tag)).collect()
    }

    /// Whether the lead's conversation says that the teammate `name` has ended or was not started.
    fn has_been_told_of(&self, name: &str) -> bool {
        let transcript = self.terminal.team().join("pitcrew/transcripts/team-lead.ndjson");
        let transcript = fs::read_to_string(transcript).unwrap_or_default();
        ["has failed", "was stopped", "has shut down", "was not started"]
            .iter()
            .any(|end| transcript.contains(&format!("{name} {end}")))
    }

    fn holder_of(&self, lease: &LeaseName) -> Option<ProcessIdentity> {
        let team = self.terminal.room.team("work");
        let holder = block_on(team.backend().lease_holder(team.dir(), lease)).unwrap()?;
        Some(ProcessIdentity { pid: holder.pid, start_ticks: holder.start_ticks })
    }

    fn nobody_dead_owns_a_task(&self) -> Look {
        let members = self.members();
        let tasks = files(&self.terminal.room.root().join("tasks/work"));
        // If a crash interrupts a write, a temporary file stays in the folder of the tasks. Only
        // files with the ending `.json` are tasks.
        for path in
            tasks.iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        {
            let task: Value = serde_json::from_str(&fs::read_to_string(path).unwrap_or_default())
                .unwrap_or_default();
            let Some(owner) = task["owner"].as_str().filter(|_| task["status"] != "completed")
            else {
                continue;
            };
            is_so(members.contains_key(owner), || {
                format!("{owner} is no member and owns task {}", task["id"])
            })?;
        }
        Ok(())
    }

    /// Checks that every member with its own process has exactly one process, one pane and one
    /// record. There must be no other processes, panes and records.
    fn each_member_is_there_once(&self) -> Look {
        let (members, processes, started) =
            (self.members(), self.terminal.named_teammates(), self.terminal.started());
        let elsewhere: Vec<&String> = members
            .iter()
            .filter(|(_, member)| member["backendType"] == "tmux")
            .map(|(name, _)| name)
            .collect();
        let mut found: Vec<&String> = processes.iter().map(|(name, _)| name).collect();
        found.sort();
        is_so(found == elsewhere, || format!("members {elsewhere:?}, processes {found:?}"))?;
        let recorded: Vec<&String> = started.as_object().unwrap().keys().collect();
        is_so(recorded == elsewhere, || format!("members {elsewhere:?}, records {recorded:?}"))?;
        let panes = self.terminal.panes();
        is_so(panes.len() == elsewhere.len() + 1, || {
            format!("members {elsewhere:?}, panes {panes:?}")
        })?;
        is_so(panes.contains(&self.terminal.theirs), || {
            format!("the user's pane is gone: {panes:?}")
        })?;
        let lead = self.lead();
        let leads = self.holder_of(&LeaseName::Run);
        is_so(leads == Some(lead), || format!("{lead} leads, and the lease is {leads:?}'s"))?;
        for (name, process) in &processes {
            let panes = self.panes_of(name);
            let pane = members[name]["tmuxPaneId"].as_str().unwrap_or_default();
            is_so(panes.len() == 1 && panes[0].starts_with(&format!("{pane} ")), || {
                format!("{name} has {panes:?}")
            })?;
            let record = &started[name];
            let is_told_right =
                record["process"]["pid"] == process.pid && record["owner"]["pid"] == lead.pid;
            is_so(is_told_right, || format!("{name} is {process}, and its record says {record}"))?;
            let holder = self.holder_of(&LeaseName::of_member(&AgentName::foreign(name)));
            is_so(holder == Some(*process), || {
                format!("{name} is {process}, and its lease is {holder:?}'s")
            })?;
        }
        Ok(())
    }

    /// Checks every worktree and branch that pitcrew made. Each must belong to a member, or contain
    /// work that a removal would lose.
    fn worktrees_have_owners_or_work(&self) -> Look {
        let room = &self.terminal.room;
        let owned: BTreeSet<PathBuf> = self
            .members()
            .values()
            .filter_map(|member| Some(member["worktreePath"].as_str()?.into()))
            .collect();
        let (mut branches, mut folders) = (BTreeSet::new(), BTreeSet::new());
        for block in
            git(room, &room.work(), &["worktree", "list", "--porcelain"]).split("\n\n").skip(1)
        {
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned))
            };
            let Some(path) = field("worktree ").map(PathBuf::from) else { continue };
            let holds = path.is_dir() && !git(room, &path, &["status", "--porcelain"]).is_empty();
            is_so(holds || owned.contains(&path), || {
                format!("nobody has the worktree {}", path.display())
            })?;
            branches.extend(field("branch refs/heads/"));
            folders.insert(path);
        }
        let made: BTreeSet<String> = git(
            room,
            &room.work(),
            &["for-each-ref", "--format=%(refname:short)", "refs/heads/pitcrew/"],
        )
        .lines()
        .map(str::to_owned)
        .collect();
        is_so(made == branches, || format!("worktrees have {branches:?}, and there are {made:?}"))?;
        let there: BTreeSet<PathBuf> = files(&room.root().join("pitcrew/worktrees"))
            .iter()
            .flat_map(|team| files(team))
            .collect();
        is_so(there.is_subset(&folders), || {
            format!("there are {there:?}, and git knows {folders:?}")
        })
    }

    /// Checks the state after the end: the tmux server has only the user's pane, no other process
    /// runs in the test environment, and no lock is left.
    pub(super) fn nobody_is_left(&self) -> Look {
        let panes = self.terminal.panes();
        is_so(panes == [self.terminal.theirs.clone()], || format!("panes {panes:?}"))?;
        let is_ours = |process: &ProcessIdentity| {
            let line = command_line(process.pid);
            !line.starts_with("tmux ") && line != "sleep 1000"
        };
        let left: Vec<ProcessIdentity> =
            processes_in(&self.terminal.room).into_iter().filter(is_ours).collect();
        is_so(left.is_empty(), || format!("{left:?} run"))?;
        let locks = locks(&self.terminal.room.root());
        is_so(locks.is_empty(), || format!("locks {locks:?}"))
    }
}

impl Terminal {
    /// Returns the processes of teammates, each with the teammate's name.
    pub(super) fn named_teammates(&self) -> Vec<(String, ProcessIdentity)> {
        let named = |pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut words = line.split('\0').skip_while(|word| *word != "--agent-name");
            Some((words.nth(1)?.to_owned(), ProcessIdentity::of(pid)?))
        };
        self.teammates().into_iter().filter_map(named).collect()
    }
}

/// Returns the locks below a folder, each with the time at which the lock was taken.
fn locks(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let mut found = Vec::new();
    for path in files(folder) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if !meta.is_dir() {
            continue;
        }
        if path.to_string_lossy().ends_with(".lock") {
            found.extend(meta.modified().ok().map(|since| (path, since)));
        } else {
            found.extend(locks(&path));
        }
    }
    found
}

/// Returns the paths in a folder. If the folder does not exist, the list is empty.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn git(room: &TestEnv, at: &Path, args: &[&str]) -> String {
    let output = room.tool("git", args).current_dir(at).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
