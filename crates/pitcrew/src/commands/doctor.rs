//! `pitcrew doctor`: finds what crashes and other programs left behind, below the root and in this repository.
//!
//! Each check stands alone: one that fails becomes a finding of its own, and the others still run. A check is one file
//! beside this one; [`check`] lists them. What is wrong with files is the store's to know.

mod check;
mod fault;
mod files;
mod mail;
mod members;
mod processes;
mod reference;
mod report;
mod rooms;
mod worktrees;

use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use report::Report;
use rooms::Rooms;

/// Look for what crashes left behind: stale locks, torn files, processes, panes, dead members, their mail and worktrees
///
/// Changes nothing without --repair. Ends with 1 while something is left to do. A team that was killed can be gone on
/// with (`pitcrew run --resume TEAM`); do that first, for a repair lets its dead members go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew doctor --repair
  pitcrew doctor --reference      does the installed claude write anything that pitcrew does not know?")]
pub(crate) struct Doctor {
    /// Mend what can be mended; what is taken out is kept in the archive
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
        let report = context.briefly(self.report(context))?;
        context.output.answer(&report, Report::text)?;
        if report.left == 0 {
            return Ok(());
        }
        Err(Failure::told(FailureKind::Failed))
    }

    async fn report(&self, context: &Context) -> Result<Report, Failure> {
        let rooms = Rooms::open(context)?;
        let mut findings = Vec::new();
        for fault in check::all(&rooms).await {
            findings.push(match self.repair {
                true => fault.mended(&rooms).await,
                false => fault.finding,
            });
        }
        Ok(Report::of(findings))
    }
}
