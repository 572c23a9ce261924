//! `pitcrew demo`: runs a whole team on a small crate. The models are scripted, everything else is
//! real.

mod served;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_runtime::question::Choice;
use pitcrew_runtime::run::{Ask, Asks, Begin, RunEnd, RunLimits, RunOutcome};
use pitcrew_team::RunBounds;
use pitcrew_view::Counts;
use pitcrew_view::asking::QUESTIONS_WAITING;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::context::Context;
use crate::dead_demos;
use crate::demo_repo::{Showcase, Tests};
use crate::failure::{Failure, FailureKind};
use crate::hosting::HostingArgs;
use crate::live::signals::{EndSignal, Signals};
use crate::live::watch::{Face, Watched, watch};
use crate::notifier::Notifier;
use crate::output::{FAINT, shell_word};
use crate::report;
use crate::run_options::{self, Plan, StartedRun};
use crate::telemetry::Telemetry;

use served::Served;

const TEAM: &str = "demo";

/// Tells a user who stopped a demo that its temporary folder is gone.
const GONE: &str = "its temporary folder is removed; with `pitcrew demo --dir DIR` a demo can go on after it was stopped";

/// The goal that the demo gives its lead.
const GOAL: &str = "Three modules of this crate are wrong. Make all tests pass.";

/// Watch a team mend a small crate: the models are scripted, everything else is real
///
/// A lead plans tasks with dependencies and spawns three teammates: one works in a git worktree,
/// one needs approval for its plan, one asks for a permission. They edit, test, commit, write to
/// each other and are shut down. The demo needs no API key and no network, only git and cargo, and
/// takes less than a minute.
///
/// With --serve, you lead the team from a browser: the demo prints a link to its page, and waits for
/// you. wanda's plan waits for your approval, cleo asks you for a permission, and bob works on until
/// you comment on a line of his change. The page stays open after the end, until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew demo
  pitcrew demo --serve                prints a link, and you lead the team from a browser
  pitcrew demo --teammate-mode tmux   shows every teammate in a pane of its own
  pitcrew demo --sandbox              the team works alone, each command in a sandbox
  pitcrew demo --dir /tmp/demo        keeps everything there, to look at or to kill
  pitcrew demo --resume /tmp/demo     goes on after it was killed")]
pub(crate) struct Demo {
    /// The folder to unpack the demo into, kept afterwards [default: a temporary folder]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    dir: Option<PathBuf>,
    /// Resume a demo that was stopped or killed in this folder
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Keep the temporary folder of the demo
    #[arg(long)]
    keep: bool,
    /// Run the team's commands in a sandbox without asking; no rule allows any command
    #[arg(long)]
    sandbox: bool,
    /// Serve the page of the demo on this machine, and let you answer there instead of a script
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    hosting: HostingArgs,
}

/// The result that `pitcrew demo` prints.
#[derive(Debug, Serialize)]
struct Shown {
    success: bool,
    /// States that the models of the demo are scripted. Always true, because the demo calls no
    /// language model.
    scripted: bool,
    tests_before: Tests,
    tests_after: Tests,
    commits: Vec<String>,
    /// The duration of the run, in milliseconds.
    duration_ms: u64,
    #[serde(flatten)]
    counts: Counts,
    folder: PathBuf,
    kept: bool,
    #[serde(skip)]
    table: String,
}

impl Demo {
    /// Returns the demo without options.
    pub(crate) fn plain() -> Self {
        Self {
            dir: None,
            resume: None,
            keep: false,
            sandbox: false,
            serve: false,
            hosting: HostingArgs::default(),
        }
    }

    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        run_options::teams_must_be_on(context)?;
        let place = self.place(context)?;
        let root = context.given_root.clone().unwrap_or_else(|| Showcase::root(place.path()));
        let context = context.at_root(root);
        let (shown, ended) =
            context.with_agents(|_| context.at_length(self.play(&context, &place)))?;
        context.output.last_answer(&shown, Shown::text, ended)
    }

    /// Returns the permissions of the demo's agents as settings, as if the user had given them on
    /// the command line. With `--sandbox`, no permission rule allows a command. With `--serve`, bob
    /// may wait between his tests.
    fn settings(&self) -> Result<Map<String, Value>, Failure> {
        let file = include_str!("../../demo/settings.json");
        let mut settings: Map<String, Value> =
            serde_json::from_str(file).map_err(Failure::internal)?;
        let rules = settings
            .get_mut("permissions")
            .and_then(|it| it.get_mut("allow"))
            .and_then(Value::as_array_mut);
        if let Some(rules) = rules {
            if self.serve {
                rules.extend(served::RULES.map(Value::from));
            }
            if self.sandbox {
                let is_bash = |rule: &str| rule.starts_with(pitcrew_protocol::tool_name::BASH);
                rules.retain(|rule| !rule.as_str().is_some_and(is_bash));
            }
        }
        if self.sandbox {
            settings.insert("sandbox".to_owned(), json!({"autoAllow": true}));
        }
        Ok(settings)
    }

    /// Returns the goal of the lead. With `--serve`, the script learns from it that a person leads.
    fn goal(&self) -> String {
        match self.serve {
            true => format!("{GOAL} {}", served::GOAL),
            false => GOAL.to_owned(),
        }
    }

    fn place(&self, context: &Context) -> Result<Place, Failure> {
        match (&self.dir, &self.resume) {
            (Some(dir), _) => {
                let dir = context.cwd.join(dir);
                if std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
                    let said = format!("{} is not empty", dir.display());
                    return Err(Failure::new(FailureKind::Conflict, said)
                        .hint("--resume goes on with a demo that was killed"));
                }
                Ok(Place::Named(dir))
            }
            (None, Some(dir)) => {
                let dir = context.cwd.join(dir);
                // The folder of a resumed demo belongs to the user. Remove the mark file from the
                // folder, because a later demo deletes each folder that contains a mark file.
                dead_demos::unmark(&dir).map_err(Failure::internal)?;
                Ok(Place::Named(dir))
            }
            (None, None) => {
                let temporary = tempfile::env::temp_dir();
                context.briefly(dead_demos::remove(context, &temporary, TEAM))?;
                let mut builder = tempfile::Builder::new();
                let builder = builder.prefix(dead_demos::PREFIX).disable_cleanup(self.keep);
                let dir = builder.tempdir_in(temporary).map_err(Failure::internal)?;
                // Write a mark file, so that a later demo can remove the folder if this demo is
                // killed. A folder that the user wants to keep does not get the mark file.
                if !self.keep {
                    dead_demos::mark(dir.path()).map_err(Failure::internal)?;
                }
                Ok(Place::Temporary(dir))
            }
        }
    }

    /// Runs the demo. With `--serve`, it ends with a signal.
    async fn play(
        &self,
        context: &Context,
        place: &Place,
    ) -> Result<(Shown, Result<(), Failure>), Failure> {
        let signals = Signals::listen()?;
        let showcase = match self.resume {
            Some(_) => Showcase::find(place.path()).await?,
            None => Showcase::unpack(place.path()).await?,
        };
        // Without cargo the demo ends here, before a link is printed.
        let tests_before = showcase.test().await?;
        if !self.serve {
            let Played { shown, ended, .. } =
                self.run_team(context, place, (&showcase, tests_before), signals).await?;
            return Ok((shown, ended));
        }
        let served = Served::open(context).await?;
        let played = self.run_team(context, place, (&showcase, tests_before), signals).await;
        if played.as_ref().is_ok_and(|played| played.signal.is_none()) {
            served.until_signal().await?;
        }
        served.close().await?;
        played.map(|Played { shown, ended, .. }| (shown, ended))
    }

    async fn run_team(
        &self,
        context: &Context,
        place: &Place,
        (showcase, tests_before): (&Showcase, Tests),
        signals: Signals,
    ) -> Result<Played, Failure> {
        let begin = begin(context, self.goal()).await?;
        if matches!(begin, Begin::New { .. }) && tests_before.failed == 0 {
            let shown = self.shown(place, showcase, (tests_before, tests_before), None).await?;
            return Ok(Played { shown, ended: Ok(()), signal: None });
        }
        if matches!(begin, Begin::New { .. }) && self.resume.is_some() {
            must_be_new(context, place.path())?;
        }
        let (asks, asked) = mpsc::channel(QUESTIONS_WAITING);
        let (asked, stand_in) = match self.serve {
            true => (Some(asked), None),
            false => (None, Some(tokio::spawn(answer_for_the_user(asked)))),
        };
        let plan = plan(begin, showcase, asks, self.hosting.clone(), self.settings()?);
        let StartedRun { handle, team, .. } = run_options::start(context, plan).await?;
        let face = if context.has_terminal() { Face::Terminal } else { Face::Log };
        let observers = (Notifier::silent(), Telemetry::of(context, &team));
        let Watched { outcome, signal, state, watched, unwritten: _ } =
            watch(handle, team, face, signals, asked, observers).await?;
        if let Some(stand_in) = stand_in {
            stand_in.await.map_err(Failure::internal)?;
        }
        let questions = state.counts.permissions_asked;
        let tests_after = showcase.test().await?;
        let is_good = matches!(outcome.end, RunEnd::Success { .. })
            && tests_after.failed == 0
            && outcome.team_deleted;
        // In the sandbox no command needs a permission. If an agent asked for one, the sandbox did
        // not work as intended.
        let is_good = is_good && (questions == 0 || !self.sandbox);
        let resume = self.resume_command(context, place, &outcome);
        let ended =
            report::ended(&outcome, signal, resume.as_deref()).and_then(|()| match is_good {
                true => Ok(()),
                false => Err(Failure::new(FailureKind::Failed, "the demo did not come to its end")),
            });
        let ended = ended.map_err(|failure| match &resume {
            None if !outcome.team_deleted => failure.hint(GONE),
            Some(_) | None => failure,
        });
        let left = resume.map(|resume| format!("\nit goes on with: {resume}")).unwrap_or_default();
        let run = Some((watched, state.counts, report::table(&outcome) + &left));
        let mut shown = self.shown(place, showcase, (tests_before, tests_after), run).await?;
        shown.success = ended.is_ok();
        Ok(Played { shown, ended, signal })
    }

    /// Returns the command that resumes the demo. Returns `None` if the demo's folder is not kept
    /// or its team was deleted.
    fn resume_command(
        &self,
        context: &Context,
        place: &Place,
        outcome: &RunOutcome,
    ) -> Option<String> {
        let is_kept = self.keep || matches!(place, Place::Named(_));
        let root = context
            .given_root
            .as_ref()
            .map(|root| format!(" --root {}", shell_word(&root.to_string_lossy())));
        let folder = place.path().to_string_lossy();
        let command =
            || format!("pitcrew{} demo --resume {}", root.unwrap_or_default(), shell_word(&folder));
        (is_kept && !outcome.team_deleted).then(command)
    }

    /// Builds the result that the demo prints. `run` is `None` when nothing was left to do.
    async fn shown(
        &self,
        place: &Place,
        showcase: &Showcase,
        (tests_before, tests_after): (Tests, Tests),
        run: Option<(Duration, Counts, String)>,
    ) -> Result<Shown, Failure> {
        let (watched, counts, table) = run.unwrap_or_else(|| {
            (Duration::ZERO, Counts::default(), "nothing was left to do".to_owned())
        });
        Ok(Shown {
            success: true,
            scripted: true,
            tests_before,
            tests_after,
            commits: showcase.commits().await?,
            duration_ms: u64::try_from(watched.as_millis()).unwrap_or(u64::MAX),
            counts,
            folder: place.path().to_owned(),
            kept: self.keep || matches!(place, Place::Named(_)),
            table,
        })
    }
}

/// A demo whose run has ended.
struct Played {
    shown: Shown,
    /// Whether the demo succeeded.
    ended: Result<(), Failure>,
    /// The signal that ended the run, if a signal ended it.
    signal: Option<EndSignal>,
}

/// The folder of the demo.
enum Place {
    /// A temporary folder, removed at the end.
    Temporary(tempfile::TempDir),
    /// A folder that the user named.
    Named(PathBuf),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Named(dir) => dir,
        }
    }
}

/// Returns the plan to start the demo's team, or to resume the team if a killed demo left one.
async fn begin(context: &Context, goal: String) -> Result<Begin, Failure> {
    let teams = context.teams()?.list().await?;
    if teams.iter().any(|team| team.name == TEAM) {
        return Ok(Begin::Resume { team: TEAM.to_owned(), goal: None });
    }
    Ok(Begin::New { team: TEAM.to_owned(), goal })
}

/// Returns an error if the demo's team was deleted, so that the demo does not create the team
/// again. There is no error if an earlier demo was killed before it had created a team.
fn must_be_new(context: &Context, folder: &Path) -> Result<(), Failure> {
    let archive = context.root.join("pitcrew/archive");
    if std::fs::read_dir(archive).is_ok_and(|mut kept| kept.next().is_some()) {
        let said = format!(
            "the team of the demo in {} was deleted before the tests passed",
            folder.display()
        );
        return Err(Failure::new(FailureKind::Conflict, said).hint("`pitcrew demo` starts anew"));
    }
    Ok(())
}

fn plan(
    begin: Begin,
    showcase: &Showcase,
    asks: mpsc::Sender<Ask>,
    hosting: HostingArgs,
    settings: Map<String, Value>,
) -> Plan {
    Plan {
        begin,
        cwd: showcase.repository(),
        model: Some(format!("script:{}", showcase.script().display())),
        teammate_model: None,
        settings,
        mode: None,
        asks: Asks::Person(asks),
        limits: RunLimits::default(),
        append_system_prompt: None,
        hosting,
        bounds: RunBounds::default(),
    }
}

/// Answers permission requests in place of the user: allows `cargo fmt --check` and denies every
/// other request. Leaves plans to the lead.
async fn answer_for_the_user(mut asked: mpsc::Receiver<Ask>) {
    while let Some(ask) = asked.recv().await {
        if ask.question.is_plan() {
            continue;
        }
        let command = ask.input.get("command").and_then(Value::as_str);
        let said = match command {
            Some("cargo fmt --check") => Choice::Once,
            Some(_) | None => Choice::No {
                reason: Some("the demo answers for the user, and says no to this".to_owned()),
            },
        };
        ask.reply(said);
    }
}

impl Shown {
    fn text(&self) -> String {
        let Tests { passed, failed } = self.tests_before;
        let mut text = format!(
            "{FAINT}The model turns were scripted: no language model was called. The files, git, cargo, the mail, the tasks \
             and the permissions were real.{FAINT:#}\n\n{}\n\nbefore       {failed} of {} tests failed\n",
            self.table,
            passed + failed,
        );
        let Tests { passed, failed } = self.tests_after;
        let _ = writeln!(text, "after        {passed} of {} tests pass", passed + failed);
        let counts = &self.counts;
        let _ = writeln!(
            text,
            "tasks        {} made, {} completed",
            counts.tasks_made, counts.tasks_completed
        );
        let _ = writeln!(text, "messages     {} delivered", counts.messages);
        let _ = writeln!(text, "plans        {} handed in", counts.plans);
        let _ = writeln!(
            text,
            "permissions  {} asked for, {} refused",
            counts.permissions_asked, counts.permissions_refused
        );
        let _ = writeln!(text, "commits      {}", self.commits.join("\n             "));
        let _ = writeln!(text, "time         {:.1} s", self.duration_ms as f64 / 1000.0);
        if self.kept {
            let _ = writeln!(text, "kept in      {}", self.folder.display());
        }
        text
    }
}
