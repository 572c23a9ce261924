//! `pitcrew start`: opens the terminal interface for a new team.

use pitcrew_model::ModelError;

use crate::context::Context;
use crate::failure::Failure;
use crate::first_start::FirstStart;
use crate::live::attached::{AttachFace, Left};
use crate::live::face::{self, Closed, NewRun};
use crate::run_options;

use super::attach::end;
use super::demo::Demo;
use super::resume;
use super::run::RunArgs;

/// The name of the command.
pub(crate) const NAME: &str = "start";

/// Open the terminal interface: a conversation with the lead of a new team
///
/// Without GOAL, the interface asks for it. `pitcrew` alone and `pitcrew "GOAL"` open it too. The
/// team runs in the background, as with `pitcrew run --detach`. So it goes on if the terminal is
/// lost, and `pitcrew attach` shows it again. Leaving the interface asks whether the team goes on.
/// /help shows the keys and commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew
  pitcrew \"make the tests pass\"
  pitcrew start --model opus --permission-mode acceptEdits")]
pub(crate) struct Start {
    /// The team's goal
    goal: Option<String>,
    /// The team's name; if it is taken, a number is appended [default: the name of the repository's
    /// folder]
    #[arg(long, short = 't', value_name = "TEAM")]
    team: Option<String>,
    #[command(flatten)]
    how: RunArgs,
}

impl Start {
    pub(crate) fn run(mut self, context: &Context) -> Result<(), Failure> {
        if !face::is_possible(context) {
            return Err(Failure::usage("the terminal interface needs a terminal")
                .hint("`pitcrew run \"GOAL\"` runs a team without one"));
        }
        if self.how.chooses_output() {
            return Err(Failure::usage("the terminal interface has no output format")
                .hint("`pitcrew run \"GOAL\" --output-format FORMAT` has one"));
        }
        run_options::teams_must_be_on(context)?;
        match self.how.first_start(context)? {
            Some(FirstStart::Demo) => return Demo::plain().run(context),
            Some(FirstStart::Leave) => return Err(Failure::unusable(ModelError::NoModel)),
            Some(FirstStart::Model(_)) | None => {}
        }
        self.how.settle(context, &context.cwd)?;
        let goal = self.goal.filter(|goal| !goal.trim().is_empty());
        open(context, NewRun { goal, team: self.team, continued: None, how: self.how })
    }
}

/// Opens the terminal interface for a run, and reports why it was closed.
///
/// # Errors
/// Returns an error if the terminal cannot be used, or if the run did not succeed.
pub(crate) fn open(context: &Context, new: NewRun) -> Result<(), Failure> {
    let closed = context.briefly(face::begin(context, new))?;
    report(context, closed)
}

/// Opens the terminal interface for a run that was just started, and reports why it was closed. A
/// message after the end of the run continues the team.
///
/// # Errors
/// The errors of [`open`].
pub(crate) fn open_started(context: &Context, team: &str, how: RunArgs) -> Result<(), Failure> {
    let closed = context.briefly(face::follow_started(context, team, how))?;
    report(context, closed)
}

fn report(context: &Context, closed: Closed) -> Result<(), Failure> {
    match (closed.team, closed.left) {
        (Some(team), left) => context.briefly(end(context, &team, AttachFace::Terminal, left)),
        (None, Left::Signal(signal)) => {
            Err(Failure::new(signal.failure(), "stopped before a team ran"))
        }
        (None, Left::Onward(onward)) => Err(resume::go_on_with(context, &onward)),
        (None, _nothing_ran) => Ok(()),
    }
}
