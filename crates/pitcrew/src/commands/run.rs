//! `pitcrew run`: a whole team on the repository you stand in.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap_complete::engine::ArgValueCompleter;
use pitcrew_runtime::run::{Ask, Asks, Begin, RunLimits, RunOutcome};
use pitcrew_team::RunBounds;
use pitcrew_view::TeamState;
use pitcrew_view::asking::Questions;
use pitcrew_view::outcome;
use pitcrew_view::result::result_event;
use pitcrew_view::stream::Stream;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::send::content;
use crate::archive;
use crate::bounds::{self, Bounded};
use crate::completing;
use crate::context::Context;
use crate::failure::Failure;
use crate::hosting::HostingArgs;
use crate::live::signals::Signals;
use crate::live::stream;
use crate::live::watch::{Face, Watched, watch};
use crate::output::{self, Form, printable};
use crate::report;
use crate::run_options::{self, Plan, StartedRun};
use crate::selection::repository_name;
use crate::trusting;

/// The name of a team whose folder has none.
const NAMELESS_TEAM: &str = "crew";

/// Run a team on the repository you stand in
///
/// The lead works towards GOAL: it plans tasks, spawns teammates, answers them and shuts them down. The first Ctrl-C
/// stops everyone where they are, the second kills what we own; either way the teammates stay in the team, and
/// `pitcrew run --resume TEAM` goes on from there. `pitcrew shutdown` ends the team itself.
///
/// A run that goes on keeps what bounded the run before: --deny and the deny and ask rules of its --settings, --sandbox,
/// --max-turns, --max-cost-usd, --max-teammates, --teammate-model, --teammate-mode, --teammate-program, and a --permission-mode
/// that allows less than the settings' own. A new option replaces the earlier one of its kind. What freed it (--allow, --yes,
/// --trust, a freer mode) holds again only when it is given again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew run \"make the tests pass\" --model opus --permission-mode acceptEdits
  pitcrew run \"port it to the new API\" --teammate-model haiku --allow 'Bash(cargo test:*)'
  pitcrew run \"review the diff\" --model sonnet --max-cost-usd 5
  pitcrew run \"review the diff\" --model openai/qwen3 --output-format stream-json
  pitcrew run \"mend it\" --teammate-mode tmux --permission-mode acceptEdits
  pitcrew run - < goal.md
  pitcrew run --resume backend")]
pub(crate) struct Run {
    /// What the team is to do, - reads it from stdin; with --resume a new instruction for the lead
    #[arg(required_unless_present = "resume")]
    goal: Option<String>,
    /// The team's name; a taken one gets a number [default: the repository's folder]
    #[arg(long, short = 't', value_name = "TEAM", conflicts_with = "resume")]
    team: Option<String>,
    /// Go on with a team that a crash or a stop left behind, or with the newest of that name in the archive; an archive's id
    /// names that very one
    #[arg(long, value_name = "TEAM", add = ArgValueCompleter::new(completing::resumable_teams))]
    resume: Option<String>,
    #[command(flatten)]
    how: RunArgs,
}

/// How a team is run, whether it is new or goes on.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// How to answer on stdout [default: text; json with --json]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// Add our own team events to stream-json
    #[arg(long)]
    include_team_events: bool,
    /// A settings file that counts as given on the command line
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// More instructions for the lead
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    #[command(flatten)]
    models: Models,
    #[command(flatten)]
    hosting: HostingArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Which models the agents run on.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Models")]
pub(crate) struct Models {
    /// The lead's: anthropic/NAME, openai/NAME, ollama/NAME, script:FILE, or opus, sonnet, haiku
    /// [default: the settings', else what the environment offers]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
    /// The teammates', when they name none [default: the lead's]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    pub(crate) teammate_model: Option<String>,
}

/// What the agents may do.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct PermissionArgs {
    /// default, acceptEdits, plan, delegate, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE", add = ArgValueCompleter::new(completing::modes))]
    pub(crate) permission_mode: Option<String>,
    /// Allow calls by a rule such as 'Bash(cargo test:*)'; may be given several times
    #[arg(long, alias = "allowedTools", value_name = "RULE")]
    allow: Vec<String>,
    /// Forbid calls by a rule; wins over --allow
    #[arg(long, alias = "disallowedTools", value_name = "RULE")]
    deny: Vec<String>,
    /// Answer what would be asked with yes, instead of asking you or, without a terminal, refusing
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Run commands unasked in a sandbox: they can write below the working folder only, and have no network but their own. What
    /// needs more fails, or asks
    #[arg(long)]
    sandbox: bool,
    /// Trust what the project's files would do, for this run only; else you are asked, or without a terminal it is left out
    #[arg(long)]
    pub(crate) trust: bool,
}

/// Where the run stops by itself; its teammates stay in the team.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Model calls of any one agent
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// Cost of the whole team; refused where nobody knows what a model costs, unless the turns are limited too
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost_usd: Option<f64>,
    /// Teammates at one time; the lead is told when it wants more
    #[arg(long, value_name = "N")]
    pub(crate) max_teammates: Option<u32>,
}

/// How a run answers on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The lead's last words
    Text,
    /// One JSON document: the result event, with the team, its members and tasks, and how the run ended
    Json,
    /// Every event as a JSON line, as Claude Code writes them
    StreamJson,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        let goal = self.goal.map(goal).transpose()?;
        let begin = match (self.resume, goal) {
            (Some(team), goal) => Begin::Resume { team, goal },
            (None, goal) => Begin::New {
                team: self.team.unwrap_or_else(|| team_name(context)),
                goal: goal.unwrap_or_default(),
            },
        };
        self.how.run(context, begin)
    }
}

impl RunArgs {
    /// Runs a team to its end.
    ///
    /// # Errors
    /// When it cannot be started, and when its end is no success.
    pub(crate) fn run(&self, context: &Context, begin: Begin) -> Result<(), Failure> {
        let mut begin = begin;
        let is_restored = context.briefly(archive::bring_back(context, &mut begin))?;
        let team = OnceCell::new();
        let ended = self.run_there(context, begin.clone(), &team);
        if is_restored && team.get().is_none() {
            context.briefly(async {
                archive::put_back(context, &begin).await;
                Ok(())
            })?;
        }
        ended
    }

    /// Runs a team that is where it belongs; `started` is set as soon as it runs.
    fn run_there(
        &self,
        context: &Context,
        begin: Begin,
        started: &OnceCell<String>,
    ) -> Result<(), Failure> {
        let format = OutputFormat::chosen(self.output_format, context);
        let folder =
            context.briefly(run_options::run_folder(context, &begin, context.cwd.clone()))?;
        let mut layer = self.permissions.settings(self.settings.as_deref())?;
        let (how, bounds) = self.bounded(context, &begin, &folder, &mut layer)?;
        how.permissions.settle_trust(context, &folder, format, &mut layer)?;
        context.with_agents(|team| {
            let plan = |asks| how.plan(context, begin, layer, bounds, asks);
            let ended = how.run_agents(context, format, plan, team);
            team.get().into_iter().for_each(|team| _ = started.set(team.clone()));
            ended
        })
    }

    /// The same with what the run before leaves of its bounds, and the bounds that hold then.
    fn bounded(
        &self,
        context: &Context,
        begin: &Begin,
        folder: &Path,
        layer: &mut Map<String, Value>,
    ) -> Result<(Self, RunBounds), Failure> {
        let settings = context.settings_with(folder, Some(Value::Object(layer.clone())))?;
        let default_mode = settings.permissions().default_mode.unwrap_or_default();
        let mut how = self.clone();
        let now = Bounded {
            models: &mut how.models,
            hosting: &mut how.hosting,
            permissions: &mut how.permissions,
            limits: &mut how.limits,
            layer,
        };
        let bounds = context.briefly(bounds::taken_over(context, begin, default_mode, now))?;
        Ok((how, bounds))
    }

    fn run_agents(
        &self,
        context: &Context,
        format: OutputFormat,
        plan: impl FnOnce(Asks) -> Plan,
        team: &OnceCell<String>,
    ) -> Result<(), Failure> {
        context.at_length(async {
            let signals = Signals::listen()?;
            let (asks, questions) = self.permissions.asks(context, format, Questions::open);
            let face = face(context, format, self.include_team_events);
            let StartedRun { handle, team: of_run, is_kept } =
                run_options::start(context, plan(asks)).await?;
            if is_kept {
                team.get_or_init(|| handle.team.clone());
            }
            let mut watched = watch(handle, of_run, face, signals, questions).await?;
            // Nothing of it is left that could go on, or into the archive.
            watched.outcome.team_deleted |= !is_kept;
            let archive = archive::put_away(context, &watched.outcome).await;
            let (summary, resume) = (
                report::summary(&watched.outcome, archive.as_deref()),
                report::resume(&watched.outcome),
            );
            shown(watched, format, &summary, resume.as_deref())
        })
    }

    fn plan(
        &self,
        context: &Context,
        begin: Begin,
        settings: Map<String, Value>,
        bounds: RunBounds,
        asks: Asks,
    ) -> Plan {
        let limits = RunLimits {
            max_turns: self.limits.max_turns,
            max_cost_usd: self.limits.max_cost_usd,
            max_teammates: self.limits.max_teammates,
        };
        Plan {
            begin,
            cwd: context.cwd.clone(),
            model: self.models.model.clone(),
            teammate_model: self.models.teammate_model.clone(),
            settings,
            mode: self.permissions.mode(),
            asks,
            limits,
            append_system_prompt: self.append_system_prompt.clone(),
            hosting: self.hosting.clone(),
            bounds,
        }
    }
}

impl OutputFormat {
    /// What was asked for, else what `--json` means.
    pub(crate) fn chosen(asked: Option<Self>, context: &Context) -> Self {
        asked.unwrap_or(match context.output.form() {
            Form::Text => Self::Text,
            Form::Json => Self::Json,
        })
    }
}

/// How a run is shown while it goes on.
pub(crate) fn face(context: &Context, format: OutputFormat, has_team_events: bool) -> Face {
    match format {
        OutputFormat::StreamJson => Face::Stream(Stream::new(has_team_events, stream::new_id)),
        OutputFormat::Text | OutputFormat::Json if context.has_terminal() => Face::Terminal,
        OutputFormat::Text | OutputFormat::Json => Face::Log,
    }
}

impl PermissionArgs {
    /// The mode that was asked for.
    pub(crate) fn mode(&self) -> Option<String> {
        self.permission_mode.clone()
    }

    /// Who answers: always yes, the person at the terminal through `questions`, or nobody.
    pub(crate) fn asks(
        &self,
        context: &Context,
        format: OutputFormat,
        questions: fn() -> (mpsc::Sender<Ask>, Questions),
    ) -> (Asks, Option<Questions>) {
        if self.yes {
            return (Asks::Allow, None);
        }
        if context.has_terminal() && format != OutputFormat::StreamJson {
            let (asks, questions) = questions();
            return (Asks::Person(asks), Some(questions));
        }
        (Asks::Deny, None)
    }

    /// Settles how far the project's files count: they are trusted for this run, or the person at the terminal is asked.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn settle_trust(
        &self,
        context: &Context,
        folder: &Path,
        format: OutputFormat,
        layer: &mut Map<String, Value>,
    ) -> Result<(), Failure> {
        if self.trust {
            return trusting::for_this_run(context, folder, layer);
        }
        if context.has_terminal() && format != OutputFormat::StreamJson {
            return trusting::ask(context, folder);
        }
        Ok(())
    }

    /// The command line's own layer of settings: the file, and the rules on top of it.
    pub(crate) fn settings(&self, file: Option<&Path>) -> Result<Map<String, Value>, Failure> {
        let mut layer = match file {
            Some(file) => run_options::settings_file(file)?,
            None => Map::new(),
        };
        let permissions = layer.entry("permissions").or_insert_with(|| json!({}));
        for (list, rules) in [("allow", &self.allow), ("deny", &self.deny)] {
            let Some(permissions) = permissions.as_object_mut() else { continue };
            if let Some(list) = permissions.entry(list).or_insert_with(|| json!([])).as_array_mut()
            {
                list.extend(rules.iter().map(|rule| json!(rule)));
            }
        }
        if self.sandbox
            && let Some(sandbox) =
                layer.entry("sandbox").or_insert_with(|| json!({})).as_object_mut()
        {
            sandbox.insert("autoAllow".to_owned(), json!(true));
        }
        Ok(layer)
    }
}

/// Shows how the run ended, on stdout in the form asked for, and says with what the process ends. Where stdout cannot be
/// written, stderr has the summary, the end and the command that goes on.
pub(crate) fn shown(
    watched: Watched,
    format: OutputFormat,
    summary: &str,
    resume: Option<&str>,
) -> Result<(), Failure> {
    let Watched { outcome, signal, state, unwritten, watched: _ } = watched;
    let ended = report::ended(&outcome, signal, resume);
    if format == OutputFormat::Text {
        output::remark(summary);
        if let Some(refused) = report::refused(state.would_allow.iter().map(String::as_str)) {
            output::remark(&refused);
        }
    }
    let written = match (unwritten, format) {
        (Some(failure), _) => Err(failure),
        (None, OutputFormat::Text) => {
            outcome::last_words(&outcome).map_or(Ok(()), |text| output::line(&printable(text)))
        }
        (None, OutputFormat::Json) => json_result(&outcome, &state, resume, &ended),
        (None, OutputFormat::StreamJson) => {
            stream::print(&result_event(&state, &outcome, stream::new_id()).into())
        }
    };
    match (written, format) {
        (Ok(()), OutputFormat::Json) => ended.map_err(Failure::into_told),
        (Ok(()), OutputFormat::Text | OutputFormat::StreamJson) => ended,
        (Err(failure), _) => {
            if format != OutputFormat::Text {
                output::remark(summary);
            }
            Err(match ended {
                Ok(()) => failure
                    .hint("the run itself is completed; only its answer could not be written"),
                Err(ended) => {
                    let failure =
                        failure.hint(format!("the end of the run itself: {}", ended.chain()));
                    ended.hints().into_iter().fold(failure, Failure::hint)
                }
            })
        }
    }
}

/// Writes the one document of a run.
fn json_result(
    outcome: &RunOutcome,
    state: &TeamState,
    resume: Option<&str>,
    ended: &Result<(), Failure>,
) -> Result<(), Failure> {
    let mut result = serde_json::to_value(result_event(state, outcome, stream::new_id()))
        .map_err(Failure::internal)?;
    if let Value::Object(result) = &mut result {
        result.extend(outcome::document(outcome, resume));
        result.extend(ended.as_ref().err().map(Failure::document).unwrap_or_default());
    }
    output::line(&serde_json::to_string_pretty(&result).map_err(Failure::internal)?)
}

/// The goal, from the command line or stdin.
fn goal(given: String) -> Result<String, Failure> {
    let goal = content(given)?;
    if goal.trim().is_empty() {
        return Err(Failure::usage("the goal is empty")
            .hint("say what the team is to do; - reads it from stdin"));
    }
    Ok(goal)
}

/// The team's name when none is given: the repository's folder.
fn team_name(context: &Context) -> String {
    repository_name(&context.cwd).unwrap_or_else(|| NAMELESS_TEAM.to_owned())
}

/// Reads an amount of money.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(dollars) if dollars.is_finite() && dollars > 0.0 => Ok(dollars),
        Ok(_) | Err(_) => Err("an amount above 0, such as 2.50".to_owned()),
    }
}
