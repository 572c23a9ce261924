//! What all agents of a run have in common: the settings and everything read from them, once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_model::{Model, PriceTable};
use pitcrew_protocol::{AgentName, LEAD_NAME};
use pitcrew_team::Team;
use tokio::sync::mpsc;

use crate::agent::Role;
use crate::definitions::{AgentDefinition, Definitions, InstructionSources, Instructions};
use crate::driver::{Report, Sink};
use crate::gate::{Gate, PermissionMode};
use crate::hooks::Hooks;
use crate::prompts::Prompt;
use crate::run::{Asks, OpenModel, RunError, RunOptions};
use crate::settings::Settings;
use crate::tools::PathLocks;

/// What all agents of a run have in common.
pub(super) struct Quarters {
    pub(super) team: Team,
    pub(super) cwd: PathBuf,
    pub(super) root: PathBuf,
    home: Option<PathBuf>,
    pub(super) session_id: String,
    open_model: OpenModel,
    models: HashMap<String, Arc<dyn Model>>,
    pub(super) model_name: String,
    pub(super) teammate_model: String,
    append_system_prompt: Option<Arc<str>>,
    pub(super) prices: Arc<PriceTable>,
    pub(super) has_team_tools: bool,
    pub(super) env: Vec<(String, String)>,
    pub(super) mode: PermissionMode,
    pub(super) gate: Arc<Gate>,
    pub(super) hooks: Arc<Hooks>,
    pub(super) definitions: Definitions,
    pub(super) asks: Asks,
    pub(super) locks: PathLocks,
    pub(super) sink: Sink,
    pub(super) reports: mpsc::Sender<Report>,
    instructions: HashMap<PathBuf, Arc<str>>,
}

impl Quarters {
    /// Reads what the settings and the project say.
    ///
    /// # Errors
    /// When a rule of the settings is malformed.
    pub(super) fn new(
        team: Team,
        options: RunOptions,
        sink: Sink,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, RunError> {
        let settings: Settings = options.settings;
        let gate = Gate::from_settings(&settings, options.home.as_deref())
            .map_err(|error| RunError::Settings { source: Box::new(error) })?;
        Ok(Self {
            team,
            definitions: Definitions::load(Some(&options.cwd), Some(&options.root)),
            cwd: options.cwd,
            root: options.root,
            home: options.home,
            session_id: options.session_id,
            open_model: options.open_model,
            models: HashMap::new(),
            teammate_model: options.teammate_model.unwrap_or_else(|| options.model.clone()),
            append_system_prompt: options.append_system_prompt.map(Arc::from),
            model_name: options.model,
            prices: Arc::new(options.prices),
            has_team_tools: settings.teams_enabled(),
            env: settings.env().into_iter().collect(),
            mode: options.mode,
            gate: Arc::new(gate),
            hooks: Arc::new(Hooks::from_settings(&settings)),
            asks: options.asks,
            locks: PathLocks::new(),
            sink,
            reports,
            instructions: HashMap::new(),
        })
    }

    /// What is wrong with the definitions and hooks, for the face.
    pub(super) fn warnings(&self) -> Vec<String> {
        let definitions = self.definitions.warnings().iter().map(|error| crate::driver::chain(error));
        definitions.chain(self.hooks.warnings().iter().cloned()).collect()
    }

    /// Opens a model, or finds it open: its connections are shared.
    ///
    /// # Errors
    /// When there is no such model, or no key for it.
    pub(super) fn model(&mut self, name: &str) -> Result<Arc<dyn Model>, pitcrew_model::ModelError> {
        if let Some(model) = self.models.get(name) {
            return Ok(model.clone());
        }
        let model = (self.open_model)(name)?;
        self.models.insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// The one file an agent in plan mode may write.
    pub(super) fn plan_file(&self, name: &AgentName) -> PathBuf {
        self.root.join("plans").join(format!("{}-{}.md", self.team.dir(), name.inbox_file()))
    }

    /// Where the output of an agent's background commands goes.
    pub(super) fn shells_folder(&self, name: &AgentName) -> PathBuf {
        self.root.join("pitcrew").join("shells").join(self.team.dir().as_str()).join(name.inbox_file().as_str())
    }

    /// The system prompt of an agent, in parts that agents share where they can.
    pub(super) fn system(
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
            Role::Teammate => Prompt::Teammate.render(&[("name", name.as_str()), ("team", team), ("lead", LEAD_NAME)]),
            Role::Subagent => Prompt::Subagent.render(&[]),
        };
        let mut parts: Vec<Arc<str>> = Vec::new();
        match prompt {
            Ok(text) => parts.push(text.into()),
            Err(error) => tracing::error!(%error, "a prompt does not fit its values"),
        }
        parts.extend(definition.filter(|definition| !definition.prompt.is_empty()).map(|d| d.prompt.as_str().into()));
        parts.push(format!("Your working folder is {}.", cwd.display()).into());
        let instructions = self.instructions(cwd);
        if !instructions.is_empty() {
            parts.push(instructions);
        }
        if role == Role::Lead {
            parts.extend(self.append_system_prompt.clone());
        }
        parts
    }

    /// The instructions for a folder, read once.
    fn instructions(&mut self, cwd: &Path) -> Arc<str> {
        let (home, root) = (self.home.as_deref(), self.root.as_path());
        let read = || -> Arc<str> {
            let found = Instructions::load(&InstructionSources { cwd, home, root: Some(root) });
            for warning in &found.warnings {
                tracing::warn!(folder = %cwd.display(), "{warning}");
            }
            let texts = found.files.iter().map(|file| format!("# From {}\n\n{}", file.path.display(), file.text));
            texts.collect::<Vec<_>>().join("\n\n").into()
        };
        self.instructions.entry(cwd.to_path_buf()).or_insert_with(read).clone()
    }
}
