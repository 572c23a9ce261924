//! `pitcrew doctor`: finds problems that crashes and other programs left below the root and in this
//! repository.
//!
//! The checks are independent: if a check itself fails, the failure is reported as a finding, and
//! the other checks still run. Each check is one file in `doctor/`; [`check`] lists them. The store
//! defines the kinds of damage that files can have.

mod archives;
mod check;
mod configs;
mod fault;
mod files;
mod git_locks;
mod kept;
mod machine;
mod mail;
mod members;
mod missing;
mod overwritten;
mod owners;
mod planted;
mod processes;
mod records;
mod reference;
mod report;
mod rooms;
mod sandbox;
mod tasks;
mod worktrees;

use fault::Fault;
use kept::Kept;
use pitcrew_team::store::Keep;
use report::{Finding, Report};
use rooms::Rooms;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output;

/// Look for what crashes left behind: stale locks, torn files, processes, panes, mail for nobody,
/// worktrees
///
/// Changes nothing without --repair. The exit code is 1 while a fault is left. A team that was
/// stopped or killed is not a fault: it is listed with the command that resumes it, and so is a
/// member that joined by itself and whose process has ended. A repair ends no member that runs,
/// even when its lead is dead; `pitcrew shutdown` does. It does stop commands that agents started
/// and that still run although the agent's process is dead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew doctor --repair
  pitcrew doctor --reference      does claude write anything that we do not know?")]
pub(crate) struct Doctor {
    /// Repair faults, but only in files and processes that are provably pitcrew's, and nothing
    /// behind a link. Removed files are kept in the archive for a week
    #[arg(long)]
    repair: bool,
    /// Compare the files that the reference client wrote below the root with the known format
    /// instead: the fields of configs, members, messages, frames and tasks, and their order. The
    /// exit code is 1 when something is new
    #[arg(long, conflicts_with = "repair")]
    reference: bool,
}

impl Doctor {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        if self.reference {
            return context.briefly(reference::run(context));
        }
        let sandbox = sandbox::held(context)?;
        for (profile, words) in &sandbox {
            output::remark(&format!("sandbox {profile}: {words}"));
        }
        if let Some(words) = sandbox::bare_repositories(context) {
            output::remark(&words);
        }
        let report = context.briefly(self.report(context))?.with_sandbox(sandbox);
        context.output.answer(&report, Report::text)?;
        if report.left == 0 {
            return Ok(());
        }
        Err(Failure::told(FailureKind::Failed))
    }

    async fn report(&self, context: &Context) -> Result<Report, Failure> {
        let (rooms, of_settings) = Rooms::open(context)?;
        let mut keep = rooms.files.keep();
        let mut findings: Vec<Finding> =
            of_settings.into_iter().map(|fault| fault.finding).collect();
        findings.extend(self.settled(&rooms, machine::look(&rooms).await, &mut keep).await);
        findings.extend(self.settled(&rooms, planted::look(&context.root), &mut keep).await);
        let locks = git_locks::look(context, &rooms);
        findings.extend(self.settled(&rooms, locks, &mut keep).await);
        // The faults of each step are repaired before the next step starts, because later checks
        // read the repaired files.
        let mut files = check::files(&rooms);
        let of_files = std::mem::take(&mut files.faults);
        findings.extend(self.settled(&rooms, of_files, &mut keep).await);
        let (of_teams, worktrees) = check::teams(&rooms, files).await;
        findings.extend(self.settled(&rooms, of_teams, &mut keep).await);
        let of_worktrees = check::worktrees(&rooms, &worktrees).await;
        findings.extend(self.settled(&rooms, of_worktrees, &mut keep).await);
        let findings = findings.into_iter().map(|finding| finding.at_root(context)).collect();
        Ok(Report::of(findings, Kept::of(&rooms, &keep, self.repair)))
    }

    /// Converts faults into findings. With `--repair`, repairs the faults first.
    async fn settled(&self, rooms: &Rooms, faults: Vec<Fault>, keep: &mut Keep) -> Vec<Finding> {
        let mut findings = Vec::with_capacity(faults.len());
        for fault in faults {
            findings.push(match self.repair {
                true => fault.repaired(rooms, keep).await,
                false => fault.finding,
            });
        }
        findings
    }
}
