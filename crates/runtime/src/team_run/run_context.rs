//! Data that all agents of a run share: the settings, and all other data that is read only once at
//! the start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_agent::{ContextBound, Role};
use pitcrew_model::{Model, PriceTable, UNKNOWN_WINDOW, known_window, window_of};
use pitcrew_permission::gate::{Gate, Spawns};
use pitcrew_permission::settings::Settings;
use pitcrew_process::sandbox::{self, Machine, Sandbox, Support};
use pitcrew_process::worktree::IgnoredFiles;
use pitcrew_protocol::{AgentName, ContextWindows, LEAD_NAME, PermissionMode, Status};
use pitcrew_team::store::{Event as Noted, LogName, Turn};
use pitcrew_team::{SecretText, Team, Trust};
use pitcrew_tools::PathLocks;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::answers::Asking;
use crate::client_socket::ClientSockets;
use crate::definitions::{AgentDefinition, Definitions, InstructionSources, Instructions};
use crate::driver::{Report, Sink};
use crate::events::Spending;
use crate::hooks::{BackgroundHooks, Hooks};
use crate::hosting::rules_digest;
use crate::prompts::Prompt;
use crate::run::{AgentOptions, OpenModel, RunError, RunOptions};

/// Data that all agents of a run share. It is read once at the start.
pub(crate) struct RunContext {
    pub(crate) team: Team,
    /// The keys that verify the lead's signatures. `None` if this process is the lead.
    pub(crate) trust: Option<watch::Receiver<Trust>>,
    pub(crate) cwd: PathBuf,
    pub(crate) root: PathBuf,
    home: Option<PathBuf>,
    pub(crate) session_id: String,
    open_model: OpenModel,
    models: HashMap<String, Arc<dyn Model>>,
    /// The names of the models that can be opened, as one text for the descriptions of tools.
    pub(super) openable: Arc<str>,
    pub(crate) model_name: String,
    pub(crate) teammate_model: String,
    append_system_prompt: Option<(Role, Arc<str>)>,
    /// The secret values in the environment, for the record of another team.
    pub(crate) secret_texts: Vec<SecretText>,
    pub(crate) prices: Arc<PriceTable>,
    windows: ContextWindows,
    compact_at_percent: u64,
    pub(crate) has_team_tools: bool,
    pub(crate) env: Vec<(String, String)>,
    /// How files that git ignores are handled in a teammate's git worktree.
    pub(crate) ignored_files: IgnoredFiles,
    pub(crate) mode: PermissionMode,
    pub(crate) gate: Arc<Gate>,
    pub(crate) sandbox: Sandbox,
    pub(crate) may_unconfine: bool,
    /// Whether another client is allowed to run a teammate. Such a client executes its own commands
    /// outside pitcrew's sandbox.
    pub(crate) allows_clients: bool,
    /// The message sockets of other clients. `None` if the settings disable them.
    pub(crate) sockets: Option<ClientSockets>,
    pub(crate) hooks: Arc<Hooks>,
    /// The hooks of the lead and of the run itself that nothing waits for.
    pub(crate) lead_background_hooks: Arc<BackgroundHooks>,
    pub(crate) definitions: Definitions,
    pub(crate) asking: Asking,
    pub(crate) locks: PathLocks,
    pub(crate) sink: Sink,
    pub(crate) reports: mpsc::Sender<Report>,
    /// Digest of the rules that apply to all members.
    pub(crate) rules_digest: String,
    /// The settings that have no effect in this run, as warnings for the user.
    unheeded: Vec<String>,
    instructions: HashMap<PathBuf, Arc<str>>,
    /// Problems in the instruction files of the working folder.
    not_instructed: Vec<String>,
}

/// Returns an error if the settings demand a sandbox for commands but no sandbox is available.
fn must_hold(sandbox: &Sandbox, settings: &Settings, cwd: &Path) -> Result<(), RunError> {
    if settings.runs_sandboxed_commands()
        && let Support::Missing { reason } = sandbox.support_in(sandbox::Profile::Work, cwd)
    {
        return Err(RunError::Unbounded { reason });
    }
    Ok(())
}

/// Checks everything that can prevent a run from starting and that can be checked before the team
/// exists.
///
/// # Errors
/// When a model cannot be opened, or a required sandbox is not available.
pub(super) fn can_start(options: &RunOptions) -> Result<(), RunError> {
    let agent_options = &options.agent_options;
    for name in std::iter::once(&options.model).chain(&options.teammate_model) {
        let opened = (agent_options.open_model)(name);
        opened.map_err(|source| RunError::Model { name: name.clone(), source })?;
    }
    let sandbox = agent_options.settings.sandbox(agent_options.home.as_deref());
    must_hold(
        &Sandbox::with_options(agent_options.machine.clone(), sandbox),
        &agent_options.settings,
        &agent_options.cwd,
    )
}

/// Returns a copy of the permission gate that also allows agents to read the output files of the
/// team's members.
fn showing_outputs(gate: Gate, team: &Team) -> Gate {
    let output = team.log_file(&LogName::Output(AgentName::lead()));
    match output.parent() {
        Some(outputs) => gate.showing(outputs),
        None => gate,
    }
}

/// Returns the folders in which commands search for programs. Commands run with the environment
/// variables from the settings, so `PATH` in the settings has priority.
fn search_path(settings: &Settings, machine: &Machine) -> Vec<PathBuf> {
    let own = settings.env().get("PATH").map(|path| std::env::split_paths(path).collect());
    own.unwrap_or_else(|| machine.path.clone())
}

/// Returns the permission modes for spawned agents. An agent gets the mode from its definition. If
/// its definition has no mode, the agent gets the run's mode.
fn spawns(mode: PermissionMode, definitions: &Definitions) -> Spawns {
    let defined = definitions
        .iter()
        .filter_map(|agent| Some((agent.name.clone(), agent.permission_mode?)))
        .collect();
    Spawns { handed_down: mode.handed_down(), defined }
}

impl RunContext {
    /// Creates the context from the settings and the project's files. Agents with the role `role`
    /// get the user's addition to the system prompt. A teammate that names no model uses
    /// `teammate_model`, or `model` if `teammate_model` is `None`.
    pub(crate) fn new(
        team: Team,
        role: Role,
        agent_options: AgentOptions,
        model: String,
        teammate_model: Option<String>,
        sink: Sink,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, RunError> {
        let settings = agent_options.settings;
        let hooks = Arc::new(Hooks::from_settings(&settings, agent_options.home.as_deref()));
        let gate = Gate::from_settings(&settings, agent_options.home.as_deref())
            .map_err(|error| RunError::Settings { source: Box::new(error) })?;
        let search_path = search_path(&settings, &agent_options.machine);
        let sandbox = Sandbox::with_options(
            agent_options.machine,
            settings.sandbox(agent_options.home.as_deref()),
        );
        must_hold(&sandbox, &settings, &agent_options.cwd)?;
        let screen = sink.clone();
        sandbox.alarm_by(move |text| screen.tell_soon(crate::events::RunEvent::Warning { text }));
        let rules_digest =
            rules_digest(&settings, &agent_options.root, &agent_options.project_agents);
        let definitions =
            Definitions::load(Some(&agent_options.root), agent_options.project_agents);
        let spawns = spawns(agent_options.mode, &definitions);
        let gate = gate
            .guarding(&agent_options.root)
            .held_by(sandbox.clone())
            .searching(search_path)
            .spawning(spawns);
        let gate = Arc::new(showing_outputs(gate, &team));
        let asking =
            Asking::new(agent_options.asks, gate.clone(), &agent_options.root, sink.clone());
        let mut run_context = Self {
            team,
            trust: None,
            definitions,
            home: agent_options.home,
            session_id: agent_options.session_id,
            openable: agent_options.models.join(", ").into(),
            open_model: agent_options.open_model,
            models: HashMap::new(),
            teammate_model: teammate_model.unwrap_or_else(|| model.clone()),
            secret_texts: agent_options.secret_texts,
            append_system_prompt: agent_options
                .append_system_prompt
                .map(|text| (role, text.into())),
            model_name: model,
            prices: Arc::new(agent_options.prices),
            windows: settings.context_windows(),
            compact_at_percent: settings
                .compact_at_percent()
                .unwrap_or(ContextBound::SHARE_PERCENT),
            has_team_tools: settings.teams_enabled(),
            env: settings.env().into_iter().collect(),
            mode: agent_options.mode,
            gate,
            sandbox,
            rules_digest,
            unheeded: settings.unheeded(),
            may_unconfine: settings.allows_unsandboxed_commands(),
            allows_clients: !settings.runs_sandboxed_commands()
                || settings.allows_unsandboxed_clients(),
            ignored_files: settings.ignored_files(),
            sockets: settings
                .uses_client_sockets()
                .then(|| ClientSockets::new(&agent_options.root)),
            hooks,
            lead_background_hooks: Arc::default(),
            asking,
            locks: PathLocks::new(),
            sink,
            reports,
            instructions: HashMap::new(),
            not_instructed: Vec::new(),
            cwd: agent_options.cwd,
            root: agent_options.root,
        };
        run_context.not_instructed = run_context.read_instructions(&run_context.cwd.clone());
        Ok(run_context)
    }

    /// Returns warnings for the user interface about problems in the definitions, settings, hooks
    /// and instructions.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let definitions =
            self.definitions.warnings().iter().map(|error| pitcrew_protocol::chain(error));
        definitions
            .chain(self.unheeded.iter().cloned())
            .chain(self.gate.unheeded().iter().cloned())
            .chain(self.hooks.warnings().iter().cloned())
            .chain(self.not_instructed.iter().cloned())
            .collect()
    }

    /// Checks what the sandbox cannot do on this machine. Returns a task whose result is a list of
    /// warnings for the user interface. Agents start without waiting for this task.
    pub(crate) fn look_at_machine(&self) -> JoinHandle<Vec<String>> {
        let (sandbox, cwd) = (self.sandbox.clone(), self.cwd.clone());
        tokio::task::spawn_blocking(move || sandbox.warnings(&cwd))
    }

    /// Returns a model by its name. Each model is opened only once, so that all agents share its
    /// connections.
    pub(crate) fn model(
        &mut self,
        name: &str,
    ) -> Result<Arc<dyn Model>, pitcrew_model::ModelError> {
        if let Some(model) = self.models.get(name) {
            return Ok(model.clone());
        }
        let model = (self.open_model)(name)?;
        self.models.insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// Returns the maximum number of tokens in a conversation with this model.
    pub(crate) fn window_of(&mut self, name: &str) -> u64 {
        match self.model(name) {
            Ok(model) => window_of(&self.windows, model.as_ref()),
            // This process cannot open the model, for example because only another client or an
            // earlier run uses it. Take the number from the settings or from the table of known
            // models.
            Err(_) => {
                self.windows.named(name).or_else(|| known_window(name)).unwrap_or(UNKNOWN_WINDOW)
            }
        }
    }

    /// Returns the maximum number of tokens in a conversation with this model, and the size at
    /// which the conversation is compacted.
    pub(super) fn context_of(&self, model: &dyn Model) -> ContextBound {
        ContextBound::of(window_of(&self.windows, model), self.compact_at_percent)
    }

    /// Writes a member's state to the journal.
    pub(crate) async fn note_state(
        &self,
        agent: &AgentName,
        status: Status,
        detail: Option<String>,
    ) {
        let changed = Noted::MemberChanged { member: agent.clone(), state: status.into(), detail };
        self.team.note([changed]).await;
    }

    /// Writes a model call to the journal.
    pub(crate) async fn note_turn(&self, agent: &AgentName, spending: &Spending) {
        let Spending { model, usage, cost_usd, tool_calls, took } = spending;
        let turn = Turn {
            member: agent.clone(),
            model: model.clone(),
            input_tokens: usage.input_tokens
                + usage.cache_creation_input_tokens
                + usage.cache_read_input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: *cost_usd,
            cache_read_tokens: usage.cache_read_input_tokens,
            cache_creation_tokens: usage.cache_creation_input_tokens,
            tool_calls: *tool_calls,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        self.team.note([Noted::TurnEnded(turn)]).await;
    }

    /// Returns the path of the only file that an agent in plan mode is allowed to write.
    pub(crate) fn plan_file(&self, name: &AgentName) -> PathBuf {
        self.root.join("plans").join(format!("{}-{}.md", self.team.dir(), name.inbox_file()))
    }

    /// Returns the folder that contains the output of an agent's background commands.
    pub(crate) fn shells_folder(&self, name: &AgentName) -> PathBuf {
        self.root
            .join("pitcrew")
            .join("shells")
            .join(self.team.dir().as_str())
            .join(name.inbox_file().as_str())
    }

    /// Returns an agent's system prompt, split into parts. Several agents share the same part in
    /// memory where that is possible.
    pub(crate) fn system(
        &mut self,
        name: &AgentName,
        role: Role,
        definition: Option<&AgentDefinition>,
        cwd: &Path,
    ) -> Vec<Arc<str>> {
        let team = self.team.name().as_str();
        let prompt = match role {
            Role::Lead if !self.has_team_tools => Prompt::GeneralPurpose.render(&[]),
            Role::Lead => Prompt::Lead.render(&[("team", team)]),
            Role::Teammate => Prompt::Teammate.render(&[
                ("name", name.as_str()),
                ("team", team),
                ("lead", LEAD_NAME),
            ]),
            Role::Subagent => Prompt::Subagent.render(&[]),
        };
        let mut parts: Vec<Arc<str>> = Vec::new();
        match prompt {
            Ok(text) => parts.push(text.into()),
            Err(error) => tracing::error!(%error, "a prompt does not fit its values"),
        }
        parts.extend(
            definition
                .filter(|definition| !definition.prompt.is_empty())
                .map(|d| d.prompt.as_str().into()),
        );
        parts.push(format!("Your working folder is {}.", cwd.display()).into());
        let instructions = self.instructions(cwd);
        if !instructions.is_empty() {
            parts.push(instructions);
        }
        if let Some((_, text)) = self.append_system_prompt.as_ref().filter(|(to, _)| *to == role) {
            parts.push(text.clone());
        }
        parts
    }

    /// Returns the instructions for a folder. They are read only once for each folder.
    fn instructions(&mut self, cwd: &Path) -> Arc<str> {
        if !self.instructions.contains_key(cwd) {
            for warning in self.read_instructions(cwd) {
                tracing::warn!(folder = %cwd.display(), "{warning}");
            }
        }
        self.instructions.get(cwd).cloned().unwrap_or_default()
    }

    /// Reads the instructions for a folder and returns the problems found in them.
    fn read_instructions(&mut self, cwd: &Path) -> Vec<String> {
        let (home, root) = (self.home.as_deref(), Some(self.root.as_path()));
        let found = Instructions::load(&InstructionSources { cwd, home, root });
        let texts = found
            .files
            .iter()
            .map(|file| format!("# From {}\n\n{}", file.path.display(), file.text));
        let text: Arc<str> = texts.collect::<Vec<_>>().join("\n\n").into();
        self.instructions.insert(cwd.to_path_buf(), text);
        found.warnings
    }
}
