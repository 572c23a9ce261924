//! `pitcrew pane check`: tests whether a pane program follows the pane protocol.

use pitcrew_panes::conformance::{Checked, Verdict, check_all};
use serde::Serialize;

use crate::commands::pane_probe;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, Form, printable};

/// Check a program that speaks the pane protocol, with real panes
///
/// Every check starts programs in panes of that terminal and closes them again. The exit code is 1
/// when a check failed. The protocol is described in docs/pane-protocol.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew pane check pitcrew pane serve tmux
  pitcrew pane check ./my-terminal.py --socket /tmp/s")]
pub(crate) struct Check {
    /// The pane program to check
    program: String,
    /// The arguments of the pane program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    checks: Vec<Checked>,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Check {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut argv = vec![self.program];
        argv.extend(self.args);
        let mut checks = Vec::new();
        let mut shown = Ok(());
        let probe = pane_probe::command()?;
        check_all(&argv, &probe, |checked| {
            if context.output.form() == Form::Text && shown.is_ok() {
                shown = output::line(&told(&checked));
            }
            checks.push(checked);
        })
        .await;
        shown?;
        let count = |verdict| checks.iter().filter(|checked| checked.result == verdict).count();
        let [passed, failed, skipped] =
            [Verdict::Passed, Verdict::Failed, Verdict::Skipped].map(count);
        let report = Report { checks, passed, failed, skipped };
        context.output.answer(&report, |it| {
            format!("{} passed, {} failed, {} skipped", it.passed, it.failed, it.skipped)
        })?;
        if failed == 0 { Ok(()) } else { Err(Failure::told(FailureKind::Failed)) }
    }
}

fn told(checked: &Checked) -> String {
    let verdict = match checked.result {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::Skipped => "skipped",
    };
    let name = checked.name.replace('_', " ");
    let why = checked.why.as_deref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
    format!("{verdict:<8}{name}{why}")
}
