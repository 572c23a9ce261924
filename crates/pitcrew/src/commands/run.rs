//! `pitcrew run`: runs a team in the repository of the working folder.

mod shown;

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::ValueEnum;
use clap_complete::engine::ArgValueCompleter;
use pitcrew_model::ModelError;
use pitcrew_permission::settings::NotifySettings;
use pitcrew_runtime::run::{Ask, Asks, Begin, RunLimits};
use pitcrew_team::RunBounds;
use pitcrew_view::asking;
use pitcrew_view::stream::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::demo::Demo;
use super::send::content;
use crate::archive;
use crate::bounds::{self, Bounded};
use crate::completing;
use crate::context::Context;
use crate::detached::host_process::HostFace;
use crate::detached::starter;
use crate::failure::Failure;
use crate::first_start::{self, FirstStart};
use crate::hosting::HostingArgs;
use crate::live::signals::Signals;
use crate::live::stream;
use crate::live::watch::{Face, watch};
use crate::notifier::Notifier;
use crate::output::Form;
use crate::report::{self, Work};
use crate::run_options::{self, Plan, StartedRun};
use crate::selection::repository_name;
use crate::telemetry::Telemetry;
use crate::trusting;

pub(crate) use shown::shown;

/// The default team name if no name can be derived from the working folder.
const NAMELESS_TEAM: &str = "crew";

/// Run a team on the repository you stand in
///
/// The lead works towards GOAL: it plans tasks, spawns teammates, answers them and shuts them down.
/// The first Ctrl-C stops all agents where they are, the second kills the processes that pitcrew
/// started. Either way the teammates stay in the team, and `pitcrew run --resume TEAM` goes on from
/// there. `pitcrew shutdown` ends the team itself.
///
/// A resumed run keeps the restrictions of the earlier run: --deny and the deny and ask rules of
/// its --settings, --sandbox, --max-turns, --max-cost-usd, --max-teammates, --teammate-model,
/// --teammate-mode, --teammate-program, and a --permission-mode that allows less than the mode in
/// the settings. A new option replaces the earlier one of its kind. Options that allow more
/// (--allow, --yes, --trust, a mode that allows more) count only if they are given again.
///
/// With --detach, the team runs in a process that no terminal owns. The command prints the team's
/// name and returns as soon as the team runs; an error before that is reported as usual. Questions
/// wait until a person answers them in `pitcrew attach`. What the run prints goes to
/// `teams/TEAM/pitcrew/host.log` below the root.
///
/// If OTEL_EXPORTER_OTLP_ENDPOINT names a collector of OpenTelemetry, a released binary sends the
/// traces and metrics of the run there (docs/operators.md).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pitcrew run \"make the tests pass\" --model opus --permission-mode acceptEdits
  pitcrew run \"port it to the new API\" --teammate-model haiku --allow 'Bash(cargo test:*)'
  pitcrew run \"review the diff\" --model sonnet --max-cost-usd 5
  pitcrew run \"review the diff\" --model openai/qwen3 --output-format stream-json
  pitcrew run \"mend it\" --teammate-mode tmux --permission-mode acceptEdits
  pitcrew run - < goal.md
  pitcrew run --detach \"make the tests pass\"
  pitcrew run --resume backend")]
pub(crate) struct Run {
    /// The team's goal, - reads it from stdin; with --resume a new instruction for the lead
    #[arg(required_unless_present = "resume")]
    goal: Option<String>,
    /// The team's name; if it is taken, a number is appended [default: the name of the repository's
    /// folder]
    #[arg(long, short = 't', value_name = "TEAM", conflicts_with = "resume")]
    team: Option<String>,
    /// Resume a team that crashed or was stopped, or the newest archived team of that name; the id
    /// of an archive selects exactly that archive
    #[arg(long, value_name = "TEAM", add = ArgValueCompleter::new(completing::resumable_teams))]
    resume: Option<String>,
    /// Run the team in the background, and print its name as soon as it runs
    #[arg(long, conflicts_with_all = ["output_format", "include_team_events"])]
    detach: bool,
    #[command(flatten)]
    how: RunArgs,
}

/// The options of a run, both for a new team and for a resumed one.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
pub(crate) struct RunArgs {
    /// The format of the answer on stdout [default: text; json with --json]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<OutputFormat>,
    /// Add pitcrew's own team events to stream-json
    #[arg(long)]
    include_team_events: bool,
    /// A settings file with the same precedence as the command line
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

/// The options that choose the agents' models.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Models")]
pub(crate) struct Models {
    /// The lead's model: anthropic/NAME, openai/NAME, ollama/NAME, script:FILE, or opus, sonnet,
    /// haiku [default: the model from the settings, else one that the environment offers]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    model: Option<String>,
    /// The model of teammates that name none [default: the lead's model]
    #[arg(long, value_name = "MODEL", add = ArgValueCompleter::new(completing::models))]
    pub(crate) teammate_model: Option<String>,
}

/// The options that control the agents' permissions.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct PermissionArgs {
    /// The permission mode: default, acceptEdits, plan, delegate, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE", add = ArgValueCompleter::new(completing::modes))]
    pub(crate) permission_mode: Option<String>,
    /// Allow tool calls by a rule such as 'Bash(cargo test:*)'; may be given several times
    #[arg(long, alias = "allowedTools", value_name = "RULE")]
    allow: Vec<String>,
    /// Deny tool calls by a rule; wins over --allow
    #[arg(long, alias = "disallowedTools", value_name = "RULE")]
    deny: Vec<String>,
    /// Answer every permission question with yes. Without this option you are asked; if there is no
    /// terminal, the call is refused
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Run commands in a sandbox without asking: they can write only below the working folder, and
    /// have no network but their own loopback. A command that needs more fails, or asks
    #[arg(long)]
    sandbox: bool,
    /// Trust the project's settings, hooks and agents for this run only; otherwise you are asked,
    /// or without a terminal they are ignored
    #[arg(long)]
    pub(crate) trust: bool,
}

/// The limits at which the run stops by itself. Its teammates stay in the team.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// The maximum number of model calls of each agent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// The most that the whole team may cost; refused if the price of a model is not known, unless
    /// --max-turns is given too
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost_usd: Option<f64>,
    /// The maximum number of teammates at one time; the lead gets an error when it wants more
    #[arg(long, value_name = "N")]
    pub(crate) max_teammates: Option<u32>,
}

/// The format in which a run answers on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum OutputFormat {
    /// The last message of the agent; in a run, of the lead
    Text,
    /// One JSON document: the result event, with the team, its members and tasks, and how the run
    /// ended
    Json,
    /// One JSON line per event, in the format of Claude Code
    StreamJson,
}

/// Where the output of a run goes.
#[derive(Debug)]
enum RunPlace {
    /// To the terminal, the pipe or the file that the user chose.
    Here,
    /// To the team's log, because this is the process of a detached run. The value is set when the
    /// starter has learned that the team runs.
    Detached(Rc<Cell<bool>>),
}

impl Run {
    pub(crate) fn run(mut self, context: &Context) -> Result<(), Failure> {
        let goal = self.goal.take().map(goal).transpose()?;
        if self.resume.is_none() {
            match self.how.first_start(context)? {
                Some(FirstStart::Demo) => return Demo::plain().run(context),
                Some(FirstStart::Leave) => return Err(Failure::unusable(ModelError::NoModel)),
                Some(FirstStart::Model(_)) | None => {}
            }
        }
        let begin = match (self.resume, goal) {
            (Some(team), goal) => Begin::Resume { team, goal },
            (None, goal) => Begin::New {
                team: self.team.unwrap_or_else(|| team_name(context)),
                goal: goal.unwrap_or_default(),
            },
        };
        match self.detach {
            true => self.how.detach(context, begin),
            false => self.how.run(context, begin),
        }
    }
}

impl RunArgs {
    /// Lets the user of a terminal choose a model, if there is no other way to know one. Returns
    /// the decision, or `None` if there is nothing to decide. A chosen model is used in this run.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be read.
    pub(crate) fn first_start(&mut self, context: &Context) -> Result<Option<FirstStart>, Failure> {
        let format = OutputFormat::chosen(self.output_format, context);
        let is_asked = PermissionArgs::person_here(context, format) == Person::There;
        if self.models.model.is_some() || !is_asked {
            return Ok(None);
        }
        let layer = self.permissions.settings(self.settings.as_deref())?;
        let settings = context.settings_with(&context.cwd, Some(Value::Object(layer)))?;
        if !first_start::is_due(context, &settings) {
            return Ok(None);
        }
        let decided = first_start::ask(context, &settings)?;
        if let FirstStart::Model(model) = &decided {
            self.models.model = Some(model.clone());
        }
        Ok(Some(decided))
    }

    /// Runs a team until the run ends.
    ///
    /// # Errors
    /// Returns an error if the run cannot be started, or if it does not end with success.
    pub(crate) fn run(&self, context: &Context, begin: Begin) -> Result<(), Failure> {
        restored(context, begin, |begin, team| self.run_there(context, begin, RunPlace::Here, team))
    }

    /// Runs a team in a process of its own, and returns when the team runs.
    ///
    /// # Errors
    /// Returns an error if the run cannot be started.
    fn detach(self, context: &Context, begin: Begin) -> Result<(), Failure> {
        if matches!(begin, Begin::New { .. }) {
            run_options::teams_must_be_on(context)?;
        }
        restored(context, begin, |begin, team| {
            let folder =
                context.briefly(run_options::run_folder(context, &begin, context.cwd.clone()))?;
            self.settle(context, &folder)?;
            starter::start(context, begin, self, team)
        })
    }

    /// Resumes a team in a process of its own. Returns the team's name when the team runs.
    ///
    /// # Errors
    /// Returns an error if the run cannot be started.
    pub(crate) fn resume_detached(&self, context: &Context, team: &str) -> Result<String, Failure> {
        let begin = Begin::Resume { team: team.to_owned(), goal: None };
        let mut running = String::new();
        restored(context, begin, |begin, team| {
            let folder =
                context.briefly(run_options::run_folder(context, &begin, context.cwd.clone()))?;
            self.settle(context, &folder)?;
            let start = starter::start_unseen(context, begin, self.clone());
            running = context.briefly(start)?;
            team.get_or_init(|| running.clone());
            Ok(())
        })?;
        Ok(running)
    }

    /// Checks the settings of a run that a host process will start, and asks about trust. The host
    /// process has no terminal to ask at. It reads the same files again.
    ///
    /// # Errors
    /// Returns an error if the settings or the options cannot be used.
    pub(crate) fn settle(&self, context: &Context, folder: &Path) -> Result<(), Failure> {
        let mut layer = self.permissions.settings(self.settings.as_deref())?;
        context.settings_with(folder, Some(Value::Object(layer.clone())))?;
        let format = OutputFormat::chosen(None, context);
        self.permissions.settle_trust(context, folder, format, &mut layer)
    }

    /// Whether an option chooses the output of the run.
    pub(crate) fn chooses_output(&self) -> bool {
        self.output_format.is_some() || self.include_team_events
    }

    /// Runs a team in this process, which is the host process of a detached run. Sets
    /// `is_announced` when the starter has learned that the team runs.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub(crate) fn run_detached(
        &self,
        context: &Context,
        begin: Begin,
        is_announced: Rc<Cell<bool>>,
    ) -> Result<(), Failure> {
        // The starter has already restored the team, and archives it again if the run does not
        // start.
        let place = RunPlace::Detached(is_announced);
        self.run_there(context, begin, place, &OnceCell::new())
    }

    /// Runs a team that is not in the archive. As soon as the team is started, sets `started` to
    /// the team's name. `started` stays empty if the team is not stored on disk.
    fn run_there(
        &self,
        context: &Context,
        begin: Begin,
        place: RunPlace,
        started: &OnceCell<String>,
    ) -> Result<(), Failure> {
        let format = OutputFormat::chosen(self.output_format, context);
        if self.include_team_events && format != OutputFormat::StreamJson {
            return Err(Failure::usage("--include-team-events adds events to stream-json only")
                .hint("add --output-format stream-json"));
        }
        let folder =
            context.briefly(run_options::run_folder(context, &begin, context.cwd.clone()))?;
        let mut layer = self.permissions.settings(self.settings.as_deref())?;
        let (how, bounds) = self.bounded(context, &begin, &folder, &mut layer)?;
        how.permissions.settle_trust(context, &folder, format, &mut layer)?;
        let settings = context.settings_with(&folder, Some(Value::Object(layer.clone())))?;
        context.with_agents(|team| {
            let plan = |asks| how.plan(context, begin, layer, bounds, asks);
            let ended = how.run_agents(context, format, place, plan, settings.notify(), team);
            team.get().into_iter().for_each(|team| _ = started.set(team.clone()));
            ended
        })
    }

    /// Copies the restrictions of the previous run into these options. Returns the options and the
    /// restrictions that hold now.
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
        place: RunPlace,
        plan: impl FnOnce(Asks) -> Plan,
        notify: NotifySettings,
        team: &OnceCell<String>,
    ) -> Result<(), Failure> {
        context.at_length(async {
            let mut signals = Signals::listen()?;
            let person = match place {
                RunPlace::Here => PermissionArgs::person_here(context, format),
                // A person can attach to the run at any time.
                RunPlace::Detached(_) => Person::There,
            };
            let notifier = Notifier::of(context, notify, person);
            let (asks, asked) = self.permissions.asks(person);
            let StartedRun { handle, team: of_run, is_kept } =
                signals.during(run_options::start(context, plan(asks))).await?;
            if is_kept {
                team.get_or_init(|| handle.team.clone());
            }
            let opened = match place {
                RunPlace::Here => Ok(face(context, format, self.include_team_events)),
                RunPlace::Detached(is_announced) => {
                    HostFace::open(&of_run, is_announced).map(Face::Host)
                }
            };
            let face = match opened {
                Ok(face) => face,
                Err(failure) => {
                    handle.stopper().stop();
                    let _stopped = handle.outcome().await;
                    return Err(failure);
                }
            };
            let observers = (notifier, Telemetry::of(context, &of_run));
            let mut watched = watch(handle, of_run, face, signals, asked, observers).await?;
            // A team that was never on disk cannot be resumed or archived: it counts as deleted.
            watched.outcome.team_deleted |= !is_kept;
            let archive = archive::put_away(context, &watched.outcome).await;
            let work = match is_kept {
                true => Work::of(context, &watched.outcome).await,
                false => Work::default(),
            };
            let root = context.root_flag();
            let summary = report::summary(&root, &watched.outcome, &work, archive.as_deref());
            let resume = report::resume(&root, &watched.outcome);
            shown(watched, format, (&summary, &work), resume.as_deref())
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

/// Whether a person can answer the questions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    /// A person can answer.
    There,
    /// Nobody can answer.
    Absent,
}

/// Starts a run. If its team is in the archive, the team is restored first. If the run then does not
/// set the name of its team, the team is moved back into the archive.
fn restored(
    context: &Context,
    mut begin: Begin,
    run: impl FnOnce(Begin, &OnceCell<String>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let is_restored = context.briefly(archive::bring_back(context, &mut begin))?;
    let team = OnceCell::new();
    let ended = run(begin.clone(), &team);
    if is_restored && team.get().is_none() {
        context.briefly(async {
            archive::put_back(context, &begin).await;
            Ok(())
        })?;
    }
    ended
}

impl OutputFormat {
    /// Returns the requested format, otherwise the format that `--json` or its absence implies.
    pub(crate) fn chosen(asked: Option<Self>, context: &Context) -> Self {
        asked.unwrap_or(match context.output.form() {
            Form::Text => Self::Text,
            Form::Json => Self::Json,
        })
    }
}

/// Returns how a run is displayed while the run is in progress.
pub(crate) fn face(context: &Context, format: OutputFormat, has_team_events: bool) -> Face {
    match format {
        OutputFormat::StreamJson => Face::Stream(Stream::new(has_team_events, stream::new_id)),
        OutputFormat::Text | OutputFormat::Json if context.has_terminal() => Face::Terminal,
        OutputFormat::Text | OutputFormat::Json => Face::Log,
    }
}

impl PermissionArgs {
    /// Returns the permission mode that the command line requests.
    pub(crate) fn mode(&self) -> Option<String> {
        self.permission_mode.clone()
    }

    /// Finds out whether a person can answer questions at the terminal of this process.
    pub(crate) fn person_here(context: &Context, format: OutputFormat) -> Person {
        match context.has_terminal() && format != OutputFormat::StreamJson {
            true => Person::There,
            // There is no terminal, or a program reads stream-json.
            false => Person::Absent,
        }
    }

    /// Decides who answers permission requests: `--yes` allows every request, otherwise a person
    /// answers. If there is no person, every request is denied. The second value receives the
    /// requests that a person must answer.
    pub(crate) fn asks(&self, person: Person) -> (Asks, Option<mpsc::Receiver<Ask>>) {
        match person {
            _ if self.yes => (Asks::Allow, None),
            Person::There => {
                let (asks, asked) = asking::channel();
                (Asks::Person(asks), Some(asked))
            }
            Person::Absent => (Asks::Deny, None),
        }
    }

    /// Decides whether the project's files are trusted. With `--trust`, they are trusted for this
    /// run. Otherwise the user is asked, if there is a terminal and the output format is not
    /// stream-json. If the user cannot be asked, only an answer that was stored earlier counts.
    ///
    /// # Errors
    /// Returns an error if the project's files cannot be read.
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

    /// Builds the layer of settings that comes from the command line: the settings file, and the
    /// permission rules that other options set.
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

/// Returns the goal from the command line. If the goal is `-`, reads it from stdin.
fn goal(given: String) -> Result<String, Failure> {
    let goal = content(given)?;
    if goal.trim().is_empty() {
        return Err(Failure::usage("the goal is empty")
            .hint("say what the team is to do; - reads it from stdin"));
    }
    Ok(goal)
}

/// Returns the default name of a team, which is the name of the repository's folder.
pub(crate) fn team_name(context: &Context) -> String {
    repository_name(&context.cwd).unwrap_or_else(|| NAMELESS_TEAM.to_owned())
}

/// Parses an amount of US dollars.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "an amount above 0, such as 2.50".to_owned())
}
