//! Shared parts of the engine benchmarks: a team whose files are in a temporary folder and whose
//! models follow a script.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::{Model, PriceTable, Script, Scripted};
use pitcrew_permission::settings::Settings;
use pitcrew_process::sandbox::Machine;
use pitcrew_protocol::{Limits, PermissionMode, Rate};
use pitcrew_runtime::definitions::AgentFiles;
use pitcrew_runtime::hosting::Hosting;
use pitcrew_runtime::run::{AgentOptions, Asks, Begin, OpenModel, RunLimits, RunOptions};
use pitcrew_team::store::{Backend, FileBackend, FileOptions};
use pitcrew_team::{RunBounds, SystemClock, Teams};
use tempfile::TempDir;

/// A temporary folder with pitcrew's root folder inside, and the teams in this root folder.
pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) teams: Teams,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        let backend: Arc<dyn Backend> = Arc::new(FileBackend::open(&root, FileOptions::default()));
        let free = Rate { count: 1_000_000, seconds: 1 };
        let limits =
            Limits { agents: 2000, call_rate: free, spawn_rate: free, ..Limits::default() };
        Self { teams: Teams::new(backend, limits, Arc::new(SystemClock)), folder }
    }

    /// Returns the options of a run whose models follow a script.
    pub(crate) fn options(&self, script: &str) -> RunOptions {
        let script = Script::parse(Path::new("bench.yaml"), script).expect("a script");
        let model: Arc<dyn Model> = Arc::new(Scripted::new(script));
        self.options_with(Arc::new(move |_name| Ok(model.clone())))
    }

    /// Returns the options of a run that opens its models with `open_model`.
    pub(crate) fn options_with(&self, open_model: OpenModel) -> RunOptions {
        RunOptions {
            teams: self.teams.clone(),
            begin: Begin::New { team: "bench".to_owned(), goal: "Go.".to_owned() },
            model: "script:bench.yaml".to_owned(),
            teammate_model: None,
            hosting: Hosting::in_process(),
            bounds: RunBounds::default(),
            agent_options: AgentOptions {
                cwd: self.path("."),
                root: self.path("root"),
                machine: Machine::with_root(&self.path("root"), Path::new("/tmp")),
                home: None,
                session_id: "806a459e-20e5-4ee3-bf49-40e5333a7d9e".to_owned(),
                open_model,
                models: Vec::new(),
                append_system_prompt: None,
                prices: PriceTable::default(),
                settings: Settings::default(),
                project_agents: AgentFiles::default(),
                secret_texts: Vec::new(),
                mode: PermissionMode::BypassPermissions,
                asks: Asks::Deny,
                limits: RunLimits::default(),
                shutdown_grace: Duration::from_secs(5),
            },
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns a percentile of `values`, which must be sorted: `percent` percent of the values are less
/// than or equal to the result.
pub(crate) fn percentile(values: &[Duration], percent: usize) -> Duration {
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or_default()
}
