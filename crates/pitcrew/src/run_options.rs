//! Builds the options of a run for the runtime, from the command line, the settings and the
//! environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::{
    Endpoints, Model, ModelError, ModelSpec, Pace, PriceTable, RetryPolicy, default_spec,
    ollama_models, open,
};
use pitcrew_permission::settings::Settings;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{ApiError, ErrorCode, LEAD_NAME, Member, PermissionMode, TeamDir};
use pitcrew_runtime::run::{
    AgentOptions, Asks, Begin, Entry, OpenModel, RunError, RunHandle, RunLimits, RunOptions,
    Runtime, SoloOptions,
};
use pitcrew_team::{LeadKeys, RunBounds, Team, Teams};
use pitcrew_view::masking::secret_texts;
use serde_json::{Map, Value};

use crate::context::{Context, Loaded, MANAGED_SETTINGS};
use crate::failure::{Explained, Failure, FailureKind};
use crate::hosting::{HostingArgs, Left, hosting};
use crate::openable::openable;
use crate::output::shell_word;
use crate::owners;
use crate::trusting;

/// The time that agents get to end after a request to shut down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

/// The reference client's environment variable that enables or disables its team tools.
const TEAMS_SWITCH: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

/// The run that a command requests. The settings and the environment supply values that the command
/// does not set.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whether the run creates a new team, resumes a team or takes over a team.
    pub(crate) begin: Begin,
    /// The folder in which the lead of a new team works. The lead of a resumed team works in its
    /// earlier folder.
    pub(crate) cwd: PathBuf,
    /// The lead's model.
    pub(crate) model: Option<String>,
    /// The model of teammates for which no model is named.
    pub(crate) teammate_model: Option<String>,
    /// The layer of settings that comes from the command line.
    pub(crate) settings: Map<String, Value>,
    /// The lead's permission mode.
    pub(crate) mode: Option<String>,
    /// Who answers permission requests.
    pub(crate) asks: Asks,
    /// The limits at which the run stops.
    pub(crate) limits: RunLimits,
    /// Additional instructions for the lead.
    pub(crate) append_system_prompt: Option<String>,
    /// Where teammates run.
    pub(crate) hosting: HostingArgs,
    /// The restrictions of the run. They are recorded for the team's next run.
    pub(crate) bounds: RunBounds,
}

/// The request to run a single member. The team's config, the settings and the environment supply
/// values that the command does not set.
#[derive(Debug)]
pub(crate) struct SoloPlan {
    /// The name of the member's team.
    pub(crate) team: String,
    /// The name of the member.
    pub(crate) name: String,
    /// How the member enters the team: either its lead has added the member, or the member joins by
    /// itself.
    pub(crate) entry: Entry,
    /// The member's model.
    pub(crate) model: Option<String>,
    /// The member's agent type. Used only if the config names no agent type.
    pub(crate) agent_type: Option<String>,
    /// The member's color. Used only if the config names no color.
    pub(crate) color: Option<String>,
    /// The session id of the member's lead. `None` if the session id is not known.
    pub(crate) session_id: Option<String>,
    /// The layer of settings that comes from the command line.
    pub(crate) settings: Map<String, Value>,
    /// The member's permission mode. Used only if the config names no mode.
    pub(crate) mode: Option<String>,
    /// Who answers permission requests in addition to the member's lead.
    pub(crate) asks: Asks,
    /// The limits at which the member stops.
    pub(crate) limits: RunLimits,
    /// Additional instructions for the member.
    pub(crate) append_system_prompt: Option<String>,
    /// The key that verifies the lead's signatures.
    pub(crate) lead_key: Option<LeadKeys>,
    /// The lead's process to which `lead_key` belongs.
    pub(crate) lead_process: Option<ProcessIdentity>,
}

/// Starts one member of a team in this process, without the other members. Returns the handle of
/// the run, and the team for the display.
///
/// # Errors
/// Returns an error if the settings, the model, the team or the member cannot be used, or if
/// another process runs the member.
pub(crate) async fn start_alone(
    context: &Context,
    plan: SoloPlan,
) -> Result<(RunHandle, Team), Failure> {
    let config = context.teams()?.open(&plan.team).await?.config().await?;
    let member = config.member(&plan.name);
    let cwd = folder_of(context, member);
    let loaded = context.load(&cwd, Some(Value::Object(cli_layer(context, plan.settings))))?;
    // The warnings concern ignored parts of the project's files, and folders of the team that
    // belong to another user. If the lead added the member, the lead has already printed these
    // warnings. Only a member that joins by itself prints them.
    if plan.entry == Entry::Joins {
        trusting::texts(&loaded).iter().for_each(|text| crate::output::remark(text));
        owners::say(&context.root, &plan.team);
    }
    let settings = &loaded.settings;
    let endpoints = endpoints(context, settings);
    let has_model =
        member.and_then(|member| member.model.as_deref()).is_some_and(|model| !model.is_empty());
    let model = match plan.model.as_deref() {
        // No model is chosen here in two cases. In the first case, the config already names a model
        // for the member. In the second case, a lead should have added the member, but the config
        // has no entry for it. The runtime reports that error later.
        None if has_model || (plan.entry == Entry::Placed && member.is_none()) => None,
        named => Some(model_name(named, settings, &endpoints).await?),
    };
    let recorded = member.and_then(|member| member.model.as_deref());
    let prices = prices(settings)?;
    cost_is_known(plan.limits, &prices, model.as_deref().or(recorded).into_iter())?;
    let models =
        openable(model.as_deref().or(recorded).unwrap_or_default(), &endpoints, &prices).await;
    let teams = context.teams_with(settings)?;
    let options = SoloOptions {
        teams: teams.clone(),
        team: plan.team,
        name: plan.name,
        entry: plan.entry,
        agent_options: AgentOptions {
            session_id: plan.session_id.unwrap_or_else(new_session_id),
            asks: plan.asks,
            limits: plan.limits,
            append_system_prompt: plan.append_system_prompt,
            models,
            ..agent_options(context, cwd, endpoints, loaded, plan.mode.as_deref())?
        },
        model,
        agent_type: plan.agent_type,
        color: plan.color,
        lead_key: plan.lead_key,
        lead_process: plan.lead_process,
    };
    let joined = options.team.clone();
    let handle =
        Runtime::join(options).await.map_err(|error| not_started(context, &joined, error))?;
    let team = teams.open(&handle.team).await?;
    Ok((handle, team))
}

/// A run that was started.
pub(crate) struct StartedRun {
    /// The handle of the run.
    pub(crate) handle: RunHandle,
    /// The team of the run, used by the display.
    pub(crate) team: Team,
    /// Whether the team is stored on disk. If teams are disabled, a new team exists only in memory.
    pub(crate) is_kept: bool,
}

/// Starts the run of a team.
///
/// # Errors
/// Returns an error if the settings, the model or the team cannot be used, or if another process
/// runs the team.
pub(crate) async fn start(context: &Context, plan: Plan) -> Result<StartedRun, Failure> {
    context.told(started(context, plan).await)
}

async fn started(context: &Context, mut plan: Plan) -> Result<StartedRun, Failure> {
    let cwd = run_folder(context, &plan.begin, plan.cwd).await?;
    let layer = cli_layer(context, plan.settings);
    let loaded = context.load(&cwd, Some(Value::Object(layer.clone())))?;
    trusting::texts(&loaded).into_iter().for_each(|text| context.tell_when_started(text));
    let (Begin::New { team, .. } | Begin::Resume { team, .. } | Begin::TakeOver { team, .. }) =
        &plan.begin;
    owners::say(&context.root, team);
    let settings = &loaded.settings;
    let endpoints = endpoints(context, settings);
    // An existing team stays on disk even if teams are disabled.
    let is_kept = settings.teams_enabled() || !matches!(plan.begin, Begin::New { .. });
    let teams =
        if is_kept { context.teams_with(settings)? } else { in_memory(settings, &mut plan.begin)? };
    let left = match &plan.begin {
        Begin::Resume { team, .. } | Begin::TakeOver { team, .. } => {
            Left::by(&teams.open(team).await?).await?
        }
        Begin::New { .. } => None,
    };
    let hosting = hosting(context, settings, &plan.hosting, left, layer)?;
    let policy = |field: &[&str], flag: &str, named: Option<String>| {
        unless_policy(context, settings, field, flag, named)
    };
    let mode = policy(&["permissions", "defaultMode"], "--permission-mode", plan.mode);
    let model = policy(&["model"], "--model", plan.model);
    let teammate_model = policy(&["model"], "--teammate-model", plan.teammate_model);
    // A resumed team keeps its lead's model, unless the command line names another model.
    let named = match (model, &plan.begin) {
        (None, Begin::Resume { team, .. } | Begin::TakeOver { team, .. }) => {
            lead_model(&teams, team).await?
        }
        (named, _) => named,
    };
    let model = model_name(named.as_deref(), settings, &endpoints).await?;
    let models = [Some(model.as_str()), teammate_model.as_deref()];
    let prices = prices(settings)?;
    cost_is_known(plan.limits, &prices, models.into_iter().flatten())?;
    let models = openable(&model, &endpoints, &prices).await;
    let options = RunOptions {
        teams: teams.clone(),
        begin: plan.begin,
        agent_options: AgentOptions {
            asks: plan.asks,
            limits: plan.limits,
            append_system_prompt: plan.append_system_prompt,
            models,
            ..agent_options(context, cwd, endpoints, loaded, mode.as_deref())?
        },
        model,
        teammate_model,
        hosting,
        bounds: plan.bounds,
    };
    let handle = Runtime::start(options).await.map_err(|error| not_started(context, "", error))?;
    let team = teams.at(&TeamDir::of(&handle.team))?;
    Ok(StartedRun { handle, team, is_kept })
}

/// Creates the store of a run when teams are disabled. The store has one agent and vanishes when
/// the process ends. The agent has other files below the root, which are named after the team. The
/// team's name gets a unique suffix, so that different runs do not share these files.
fn in_memory(settings: &Settings, begin: &mut Begin) -> Result<Teams, Failure> {
    if let Begin::New { team, .. } = begin {
        let session = new_session_id();
        *team = format!("{team}-{}", session.split('-').next().unwrap_or_default());
    }
    Context::teams_in_memory(settings)
}

/// Returns an error if teams are disabled, so that no team is created.
///
/// # Errors
/// Returns an error if teams are disabled, or if the settings cannot be read.
pub(crate) fn teams_must_be_on(context: &Context) -> Result<(), Failure> {
    let layer = cli_layer(context, Map::new());
    if context.settings_with(&context.cwd, Some(Value::Object(layer)))?.teams_enabled() {
        return Ok(());
    }
    let error =
        ApiError::new(ErrorCode::PermissionDenied, "teams are switched off, so no team is made");
    Err(Failure::from(error).hint(format!(
        "{TEAMS_SWITCH} is 0 or false, or the settings say `\"pitcrew\": {{\"teams\": false}}`"
    )))
}

/// Returns the value from the command line, unless the machine's policy sets this field. The policy
/// cannot be overridden. If the command line has a different value, that value is ignored with a
/// warning.
fn unless_policy(
    context: &Context,
    settings: &Settings,
    field: &[&str],
    flag: &str,
    named: Option<String>,
) -> Option<String> {
    let Some(policy) = settings.policy(field) else { return named };
    if let Some(named) = named.filter(|named| named != policy) {
        let (field, named) = (field.join("."), shell_word(&named));
        context.tell_when_started(format!(
            "warning: {flag} {named} has no effect: the machine's policy sets {field} to {policy:?} ({MANAGED_SETTINGS})"
        ));
    }
    None
}

/// Checks that pitcrew can enforce the limit on the cost.
///
/// # Errors
/// Returns an error if the price of a model is not known and the number of turns has no limit.
fn cost_is_known<'a>(
    limits: RunLimits,
    prices: &PriceTable,
    mut models: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let Some(model) = models.find(|model| limits.needs_price_of(model, prices)) else {
        return Ok(());
    };
    Err(Failure::usage(format!("the price of {model} is not known, so --max-cost-usd cannot be enforced"))
        .hint("set its price: pitcrew.prices in the settings, as `{\"NAME\": {\"input\": 1.0, \"output\": 5.0}}`")
        .hint("or limit the turns as well, with --max-turns; `pitcrew models` lists what is known"))
}

/// Returns the folder in which a run works. A new team works in the current working folder, and a
/// resumed team works in its earlier folder.
///
/// # Errors
/// Returns an error if the team cannot be read, or if its folder no longer exists.
pub(crate) async fn run_folder(
    context: &Context,
    begin: &Begin,
    here: PathBuf,
) -> Result<PathBuf, Failure> {
    match begin {
        Begin::Resume { team, .. } | Begin::TakeOver { team, .. } => {
            Ok(lead_folder(&context.teams()?, team).await?.unwrap_or(here))
        }
        Begin::New { .. } => Ok(here),
    }
}

/// Returns the folder in which a single member works. This is the member's worktree or folder as
/// named in the team's config. If the config names no folder, or the folder does not exist, returns
/// the current working folder.
///
/// # Errors
/// Returns an error if the team cannot be read.
pub(crate) async fn member_folder(
    context: &Context,
    team: &str,
    name: &str,
) -> Result<PathBuf, Failure> {
    let config = context.teams()?.open(team).await?.config().await?;
    Ok(folder_of(context, config.member(name)))
}

fn folder_of(context: &Context, member: Option<&Member>) -> PathBuf {
    let folder =
        member.and_then(|member| member.worktree_path.clone().or_else(|| member.cwd.clone()));
    folder
        .map(PathBuf::from)
        .filter(|folder| folder.is_dir())
        .unwrap_or_else(|| context.cwd.clone())
}

/// Builds the agents' options from the context and the settings. With these options, every
/// permission request is denied, unless the caller changes the field `asks`. `mode` overrides the
/// permission mode of the settings.
fn agent_options(
    context: &Context,
    cwd: PathBuf,
    endpoints: Endpoints,
    loaded: Loaded,
    mode: Option<&str>,
) -> Result<AgentOptions, Failure> {
    let settings = loaded.settings;
    let mode = match mode {
        Some(name) => permission_mode(name)?,
        None => settings.permissions().default_mode.unwrap_or_default(),
    };
    // The settings can forbid the mode `bypassPermissions`, even if the command line requests it.
    if mode == PermissionMode::BypassPermissions && settings.disables_bypass() {
        return Err(Failure::usage(
            "the settings disable bypassPermissions (permissions.disableBypassPermissionsMode)",
        ));
    }
    // `env` of the settings has keys too.
    let of_settings = settings.env();
    let secret_texts = secret_texts(context.environment.iter().chain(&of_settings));
    Ok(AgentOptions {
        cwd,
        root: context.root.clone(),
        machine: context.machine(),
        home: context.home.clone(),
        session_id: new_session_id(),
        open_model: opener(endpoints, settings.model_patience().unwrap_or(RetryPolicy::PATIENCE)),
        models: Vec::new(),
        append_system_prompt: None,
        prices: prices(&settings)?,
        settings,
        project_agents: loaded.project_agents,
        secret_texts,
        mode,
        asks: Asks::Deny,
        limits: RunLimits::default(),
        shutdown_grace: SHUTDOWN_GRACE,
    })
}

fn new_session_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Reads a settings file that the command line names.
///
/// # Errors
/// Returns an error if the file cannot be read or is not a JSON object.
#[expect(clippy::disallowed_methods, reason = "the user names the file")]
pub(crate) fn settings_file(path: &Path) -> Result<Map<String, Value>, Failure> {
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| {
        let said = format!("the settings file {} cannot be used", path.display());
        Failure::unusable(Explained::new(said, source))
    };
    let text = std::fs::read_to_string(path).map_err(|e| unusable(e.into()))?;
    serde_json::from_str(&text).map_err(|e| unusable(e.into()))
}

/// Returns the layer of settings that comes from the command line. If the reference client's
/// environment variable disables teams, the layer also disables teams.
fn cli_layer(context: &Context, mut layer: Map<String, Value>) -> Map<String, Value> {
    if matches!(context.environment.get(TEAMS_SWITCH).map(String::as_str), Some("0" | "false")) {
        let ours = layer.entry("pitcrew").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(ours) = ours {
            ours.insert("teams".to_owned(), Value::Bool(false));
        }
    }
    layer
}

/// Returns the addresses and keys of model providers. They come from `env` in the settings,
/// otherwise from the environment.
pub(crate) fn endpoints(context: &Context, settings: &Settings) -> Endpoints {
    let env = settings.env();
    let found = Endpoints::from_lookup(|name| {
        env.get(name).or_else(|| context.environment.get(name)).cloned()
    });
    Endpoints { silence: settings.model_silence(), ..found }
}

/// Returns the folder in which the lead of a team worked before. A resumed team continues in that
/// folder, even if the current working folder is different.
async fn lead_folder(teams: &Teams, team: &str) -> Result<Option<PathBuf>, Failure> {
    let recorded = teams.open(team).await?.member(LEAD_NAME).await?.cwd;
    let Some(folder) = recorded.map(PathBuf::from) else { return Ok(None) };
    if folder.is_dir() {
        return Ok(Some(folder));
    }
    Err(folder_is_gone(team, &folder))
}

/// Builds the error for a team whose folder was moved, removed, or replaced by something else.
fn folder_is_gone(team: &str, folder: &Path) -> Failure {
    let shown = folder.display();
    // Finds the topmost folder in the path of `folder` that no longer exists. The user has probably
    // moved or removed this folder. Often it is the repository or a folder above the repository.
    let missing =
        folder.ancestors().take_while(|path| std::fs::symlink_metadata(path).is_err()).last();
    let said = match missing {
        Some(missing) if missing != folder => {
            format!(
                "team {team} worked in {shown}, and {} is not there any more",
                missing.display()
            )
        }
        Some(_) => format!("team {team} worked in {shown}, which is not there any more"),
        None => format!("team {team} worked in {shown}, which is no folder, or leads to none"),
    };
    let place = missing.unwrap_or(folder).display();
    Failure::new(FailureKind::Conflict, said)
        .hint(format!("move it back; if it is elsewhere now, a link is enough: `ln -s NEW_PLACE {place}`"))
        .hint(format!("`pitcrew team delete {team} --force` gives the team up; its conversations go to the archive"))
}

/// Returns the model that the lead of a team used before. Returns `None` if pitcrew does not know
/// the name of that model.
async fn lead_model(teams: &Teams, team: &str) -> Result<Option<String>, Failure> {
    let recorded = teams.open(team).await?.member(LEAD_NAME).await?.model;
    Ok(recorded.filter(|model| model.parse::<ModelSpec>().is_ok()))
}

/// Returns the model of the lead: the model `named`, otherwise the model in the settings, otherwise
/// a model that the environment offers. A local Ollama is the last choice.
async fn model_name(
    named: Option<&str>,
    settings: &Settings,
    endpoints: &Endpoints,
) -> Result<String, Failure> {
    if let Some(name) = named {
        let spec: ModelSpec = name.parse().map_err(|e: ModelError| Failure::unusable(e))?;
        return Ok(spec.to_string());
    }
    let of_settings = model_of(settings);
    let unheeded = |field: &str, unknown: &str| {
        crate::output::remark(&format!(
            "warning: `{field}` in the settings is not heeded: {unknown:?} names no model here"
        ));
    };
    match settings.own_model() {
        Some(own) if Some(own) != of_settings => unheeded("pitcrew.model", own),
        Some(_) | None => {}
    }
    if let (None, Some(unknown)) = (of_settings, settings.model()) {
        unheeded("model", unknown);
    }
    match default_spec(of_settings, endpoints, None) {
        Ok(spec) => Ok(spec.to_string()),
        Err(ModelError::NoModel) => {
            // Most machines do not run Ollama. If no Ollama answers, that is not an error.
            let local = ollama_models(endpoints).await.ok();
            let spec = default_spec(None, endpoints, local.as_deref());
            let of_model =
                settings.unheeded().into_iter().filter(|told| told.starts_with("`model`"));
            spec.map(|spec| spec.to_string())
                .map_err(|error| of_model.fold(Failure::unusable(error), Failure::hint))
        }
        Err(error) => Err(Failure::unusable(error)),
    }
}

/// Returns the model in the settings. Returns `None` if pitcrew does not know the name, because
/// other clients use other model names in the same setting.
pub(crate) fn model_of(settings: &Settings) -> Option<&str> {
    let is_known = |name: &&str| name.parse::<ModelSpec>().is_ok();
    settings.own_model().filter(is_known).or_else(|| settings.model().filter(is_known))
}

/// Returns a function that opens models by name. All models of a run share one [`Pace`]: when a
/// vendor asks one agent to slow down, all agents wait.
fn opener(endpoints: Endpoints, patience: Duration) -> OpenModel {
    let (pace, policy) = (Pace::new(), RetryPolicy { patience, ..RetryPolicy::default() });
    Arc::new(move |name: &str| -> Result<Arc<dyn Model>, ModelError> {
        let spec: ModelSpec = name.parse()?;
        open(&spec, &endpoints, &pace, &policy)
    })
}

pub(crate) fn prices(settings: &Settings) -> Result<PriceTable, Failure> {
    let mut prices = PriceTable::list();
    if let Some(ours) = settings.pitcrew("prices") {
        prices.override_with(ours).map_err(Failure::unusable)?;
    }
    Ok(prices)
}

fn permission_mode(name: &str) -> Result<PermissionMode, Failure> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|_| {
        Failure::usage(format!("there is no permission mode {name:?}"))
            .hint("modes: default, acceptEdits, plan, delegate, dontAsk, bypassPermissions")
    })
}

fn not_started(context: &Context, team: &str, error: RunError) -> Failure {
    match error {
        RunError::Team(error) => error.into(),
        RunError::Held { ref team, .. } => {
            let (root, team) = (context.root_flag(), shell_word(team).into_owned());
            Failure::new(FailureKind::Conflict, error).hint(format!(
                "`pitcrew{root} shutdown {team}` ends it; `pitcrew{root} inbox --team {team} --follow` reads along"
            ))
        }
        RunError::MemberHeld { ref agent, .. } => {
            let (root, agent) = (context.root_flag(), shell_word(agent.as_str()).into_owned());
            Failure::new(FailureKind::Conflict, error).hint(format!(
                "a member runs in one process at a time; `pitcrew{root} shutdown {team} --member {agent}` ends it",
                team = shell_word(team),
            ))
        }
        error @ RunError::Spent { .. } => Failure::new(FailureKind::LimitReached, error)
            .hint("a higher --max-cost-usd lets it go on; the limit counts all runs of a team together"),
        error @ RunError::Refused { .. } => Failure::new(FailureKind::Denied, error),
        error @ RunError::Unbounded { .. } => Failure::unusable(error)
            .hint("without --sandbox (or the setting sandbox.autoAllow) what may change something is asked for"),
        error @ (RunError::Model { .. } | RunError::Settings { .. }) => Failure::unusable(error),
        error @ RunError::Store { .. } => Failure::internal(error),
    }
}
