//! `pitcrew doctor`: finds what crashes and other programs left behind, below the root and in this repository.
//!
//! Each check stands alone: one that fails becomes a finding of its own, and the others still run. A check is one file
//! beside this one; [`check`] lists them. What is wrong with files is the store's to know.

mod check;
mod configs;
mod fault;
mod files;
mod kept;
mod mail;
mod members;
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

use pitcrew_store::Keep;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output;
use fault::Fault;
use kept::Kept;
use report::{Finding, Report};
use rooms::Rooms;

/// Look for what crashes left behind: stale locks, torn files, processes, panes, mail for nobody, worktrees
///
/// Changes nothing without --repair. Ends with 1 while something is left to do. A team that was stopped or killed is no
/// fault: it is named with the command that goes on with it, and so is a member that joined by itself and whose process is
/// gone. A repair ends no member that runs, even when its lead is dead: `pitcrew shutdown` does. It does end commands that agents
/// have started and that still run although the process of their agent is dead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew doctor --repair
  pitcrew doctor --reference      does claude write anything that we do not know?")]
pub(crate) struct Doctor {
    /// Mend what can be mended: only what is provably ours, and nothing behind a link. What is taken away is kept in the
    /// archive for a week
    #[arg(long)]
    repair: bool,
    /// Compare instead what the reference client wrote below the root with what is known of it: fields of configs, members,
    /// messages, frames and tasks, and their order. Ends with 1 when there is something new
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
        findings.extend(self.settled(&rooms, planted::look(&context.root), &mut keep).await);
        let mut files = check::files(&rooms);
        let of_files = std::mem::take(&mut files.faults);
        findings.extend(self.settled(&rooms, of_files, &mut keep).await);
        let (of_teams, worktrees) = check::teams(&rooms, files).await;
        findings.extend(self.settled(&rooms, of_teams, &mut keep).await);
        let of_worktrees = check::worktrees(&rooms, &worktrees).await;
        findings.extend(self.settled(&rooms, of_worktrees, &mut keep).await);
        Ok(Report::of(findings, Kept::of(&rooms, &keep, self.repair)))
    }

    /// What is shown of faults, mended when that is asked for.
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
