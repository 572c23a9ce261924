//! Where a command runs: the root, the working folder, the environment, and the async runtime it needs.
//!
//! The only place that reads argv, the environment and the home folder.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_protocol::Limits;
use pitcrew_runtime::definitions::AgentFiles;
use pitcrew_runtime::identity::Stopped;
use pitcrew_runtime::sandbox::{
    Machine, TOOLCHAIN_VARIABLES, Unfinished, Variable, put_aside_unfinished,
};
use pitcrew_runtime::settings::{Paths, Settings};
use pitcrew_runtime::supervision::{Stray, adopt_strays, end_strays, forget_ended};
use pitcrew_runtime::trust::{LeftOut, Project, Trust};
use pitcrew_store::{
    Backend, Durability, FileBackend, FileOptions, LockWait, LongRead, MemoryBackend, OnLongRead,
    OnPassedOver, OnUnrecorded, OnWait, PassedOver, StoreError,
};
use pitcrew_team::{SystemClock, Teams};
use serde::Deserialize as _;
use serde_json::Value;

use crate::cli::Shared;
use crate::commands::sandbox_exec;
use crate::failure::{Explained, Failure, chain, hint_of};
use crate::limits;
use crate::output::{self, Output, shell_word};

/// The environment's name for the root.
const ROOT_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// The environment's name for what is logged.
const LOG_VARIABLE: &str = "PITCREW_LOG";

/// The machine's policy (API reference, "Claude Code Settings").
pub(crate) const MANAGED_SETTINGS: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

/// How long a process that a command moved out of sight may take to end, before it is killed.
const STRAY_GRACE: Duration = Duration::from_secs(1);

/// What the process was started with.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// The command line, the program's name first.
    pub(crate) args: Vec<OsString>,
    /// The environment; variables that are not UTF-8 are left out.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Surroundings {
    /// Reads them, once.
    pub(crate) fn read() -> Self {
        let utf8 = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            args: std::env::args_os().collect(),
            environment: std::env::vars_os().filter_map(utf8).collect(),
        }
    }

    /// Writes what the rooms log to stderr, as far as `PITCREW_LOG` asks for it (`debug`, `pitcrew_store=trace`, ...). Without
    /// it nothing is set up, for a short command has no time for it.
    pub(crate) fn listen(&self) {
        if let Some(filter) = self.non_empty(LOG_VARIABLE) {
            let filter = tracing_subscriber::EnvFilter::new(filter);
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
        }
    }

    fn non_empty(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The settings in force, and what goes with them.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The settings.
    pub(crate) settings: Settings,
    /// The project's agent definitions, as far as they count.
    pub(crate) project_agents: AgentFiles,
    /// The folder that trust is about.
    pub(crate) top: Option<PathBuf>,
    /// What of the project's files was left out.
    pub(crate) left_out: Vec<LeftOut>,
    /// What of them could not be read.
    pub(crate) warnings: Vec<String>,
}

/// Where a command runs.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The folder teams live below, absolute.
    pub(crate) root: PathBuf,
    /// The same, when the command line names it.
    pub(crate) given_root: Option<PathBuf>,
    /// Whether a command without `--root` means the same root.
    is_default_root: bool,
    /// The working folder.
    pub(crate) cwd: PathBuf,
    /// The user's home folder, when it is known.
    pub(crate) home: Option<PathBuf>,
    /// Our own executable, for processes that are started as we were.
    pub(crate) exe: PathBuf,
    /// The environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// Where answers go.
    pub(crate) output: Output,
    /// Whether it was told which settings cannot be used.
    has_told: Rc<Cell<bool>>,
}

impl Context {
    /// The context of a command with those options.
    ///
    /// # Errors
    /// When there is no working folder, or no root was given and there is no home to have one.
    pub(crate) fn new(
        surroundings: Surroundings,
        shared: &Shared,
        output: Output,
    ) -> Result<Self, Failure> {
        let cwd = std::env::current_dir()
            .map_err(|e| Failure::internal(Explained::new("the working folder cannot be read", e)))
            .map_err(|failure| failure.hint("it may have been removed"))?;
        let home = surroundings.non_empty("HOME").map(PathBuf::from);
        let root = shared
            .root
            .clone()
            .or_else(|| surroundings.non_empty(ROOT_VARIABLE).map(PathBuf::from))
            .or_else(|| home.as_ref().map(|home| home.join(".claude")))
            .ok_or_else(|| {
                Failure::usage("there is no home folder to keep teams in")
                    .hint("give one with --root DIR")
            })?;
        let given_root = shared.root.as_ref().map(|root| cwd.join(root));
        let exe = std::env::current_exe().map_err(|e| {
            Failure::internal(e).hint("our own executable is not found; it may have been replaced")
        })?;
        let environment = surroundings.environment;
        Ok(Self {
            root: cwd.join(root),
            is_default_root: given_root.is_none(),
            given_root,
            cwd,
            home,
            exe,
            environment,
            output,
            has_told: Rc::default(),
        })
    }

    /// The same context with another root.
    pub(crate) fn at_root(&self, root: PathBuf) -> Self {
        Self { root, is_default_root: false, has_told: Rc::default(), ..self.clone() }
    }

    /// What a command that is to be typed needs to mean this root: nothing, or ` --root ROOT`.
    pub(crate) fn root_flag(&self) -> String {
        match self.is_default_root {
            true => String::new(),
            false => format!(" --root {}", shell_word(&self.root.to_string_lossy())),
        }
    }

    /// The files teams are kept in.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub(crate) fn files(&self, settings: &Settings) -> Result<FileBackend, Failure> {
        let durability = match settings.pitcrew("durability").and_then(Value::as_str) {
            Some("process") => Durability::Process,
            _ => Durability::Disk,
        };
        let tell = |wait: &LockWait| {
            let (lock, left) = (wait.lock.display(), wait.left.as_secs() + 1);
            let held = match &wait.holder {
                Some(holder) => format!("{holder} holds it"),
                None => "another program holds it, or died with it".to_owned(),
            };
            output::remark(&format!("waiting for the lock {lock}: {held}; at most {left} s more"));
        };
        let passed_over = |PassedOver { path, reason }: &PassedOver| {
            output::remark(&format!(
                "warning: {} is left out of the tasks: {reason}; `pitcrew doctor` says what is to be done about it",
                path.display()
            ));
        };
        let unrecorded = |error: &StoreError| {
            output::remark(&format!(
                "warning: this is done, but not in the journal: {}",
                chain(error)
            ));
            if let Some(hint) = hint_of(error) {
                output::remark(&format!("hint: {hint}"));
            }
        };
        let long_read = |LongRead { path, bytes }: &LongRead| {
            output::remark(&format!("reading {}, {} MB", path.display(), bytes / 1_000_000));
        };
        let options = FileOptions {
            on_wait: Some(OnWait(Arc::new(tell))),
            on_passed_over: Some(OnPassedOver(Arc::new(passed_over))),
            on_unrecorded: Some(OnUnrecorded(Arc::new(unrecorded))),
            on_long_read: Some(OnLongRead(Arc::new(long_read))),
            ..FileOptions::new(durability)
        };
        Ok(FileBackend::open(&self.root, options))
    }

    /// All teams below the root, with the limits of the settings, as far as these can be used.
    ///
    /// # Errors
    /// When the files of teams cannot be opened.
    pub(crate) fn teams(&self) -> Result<Teams, Failure> {
        self.teams_with(&self.usable_settings())
    }

    /// The settings for what runs no agent. What of them cannot be used is left out and told, once: it neither frees anybody nor
    /// keeps the user from looking at teams, or from ending one.
    pub(crate) fn usable_settings(&self) -> Settings {
        let (layers, unread) = match self.project(&self.cwd) {
            Ok(files) => {
                let member_status = Trust::load(&self.root).unwrap_or_default().state(&files);
                (files.counted(member_status).layers, None)
            }
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let (settings, refused) = Settings::load_usable(&self.paths(&self.cwd, None), layers);
        let unused: Vec<Failure> =
            unread.into_iter().chain(refused.into_iter().map(Failure::unusable)).collect();
        if !self.has_told.replace(true) {
            for failure in unused {
                let said = failure.chain();
                output::remark(&format!(
                    "warning: the settings count without this: {}",
                    output::visible(&said)
                ));
            }
        }
        settings
    }

    /// The same context, in which nothing is told of settings that cannot be used.
    pub(crate) fn quiet(&self) -> Self {
        Self { has_told: Rc::new(Cell::new(true)), ..self.clone() }
    }

    /// All teams below the root, with the limits of those settings.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub(crate) fn teams_with(&self, settings: &Settings) -> Result<Teams, Failure> {
        Self::teams_in(Arc::new(self.files(settings)?), settings)
    }

    /// No teams, and those that are made end with the process.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub(crate) fn teams_in_memory(settings: &Settings) -> Result<Teams, Failure> {
        Self::teams_in(Arc::new(MemoryBackend::new()), settings)
    }

    /// All teams of that store, with the limits of those settings.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub(crate) fn teams_in(store: Arc<dyn Backend>, settings: &Settings) -> Result<Teams, Failure> {
        let limits = match settings.pitcrew("limits") {
            Some(limits) => Limits::deserialize(limits).map_err(|e| {
                Failure::usage(format!("`pitcrew.limits` in the settings cannot be used: {e}"))
            })?,
            None => Limits::default(),
        };
        Ok(Teams::new(store, limits, Arc::new(SystemClock)))
    }

    /// The settings of a project's folder, with what the command line sets on top; of the project's own what is trusted.
    ///
    /// # Errors
    /// When a file of them cannot be read.
    pub(crate) fn settings_with(
        &self,
        project: &Path,
        cli: Option<Value>,
    ) -> Result<Settings, Failure> {
        Ok(self.load(project, cli)?.settings)
    }

    /// The same, with the project's agent definitions, and what was left out.
    ///
    /// # Errors
    /// When a file of the settings cannot be read.
    pub(crate) fn load(&self, project: &Path, cli: Option<Value>) -> Result<Loaded, Failure> {
        let files = self.project(project)?;
        // Answers that cannot be read are none: less counts then, and what is left out says so.
        let (trust, unread) = match Trust::load(&self.root) {
            Ok(trust) => (trust, None),
            Err(error) => (Trust::default(), Some(Failure::internal(error).chain())),
        };
        let trust = match &cli {
            Some(layer) => trust.with_run_items(layer),
            None => trust,
        };
        let top = files.top().map(Path::to_path_buf);
        let member_status = trust.state(&files);
        let counted = files.counted(member_status);
        let settings =
            Settings::load(&self.paths(project, cli), counted.layers).map_err(Failure::unusable)?;
        let settings = settings.with_git_folders(counted.git_folders);
        let warnings = counted.warnings.into_iter().chain(unread).collect();
        Ok(Loaded {
            settings,
            project_agents: counted.agents,
            top,
            left_out: counted.left_out,
            warnings,
        })
    }

    /// Where the settings are.
    fn paths(&self, project: &Path, cli: Option<Value>) -> Paths {
        Paths {
            managed: Some(PathBuf::from(MANAGED_SETTINGS)),
            cli,
            project: Some(project.to_owned()),
            root: Some(self.root.clone()),
        }
    }

    /// The files of a project that trust is about.
    ///
    /// Every command reads them here. What a sandboxed command of a killed run planted is put aside first, as it would
    /// count otherwise.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn project(&self, folder: &Path) -> Result<Project, Failure> {
        for words in put_aside_unfinished(&self.root) {
            output::remark(&format!("warning: {}", output::visible(&words)));
        }
        Project::read(folder, &self.root).map_err(Failure::unusable)
    }

    /// The settings for a command that only looks, and so puts nothing aside: where a killed run left planted files, the
    /// project's settings are not read.
    ///
    /// # Errors
    /// When a file of them cannot be read.
    pub(crate) fn settings_for_looking(&self) -> Result<Settings, Failure> {
        let is_planted =
            Unfinished::below(&self.root).iter().any(|command| !command.appeared().is_empty());
        if !is_planted {
            return self.settings_with(&self.cwd, None);
        }
        let managed = Some(PathBuf::from(MANAGED_SETTINGS));
        let paths = Paths { managed, cli: None, project: None, root: Some(self.root.clone()) };
        Settings::load(&paths, Vec::new()).map_err(Failure::unusable)
    }

    /// Runs a short command: on this thread alone, so that it starts fast.
    pub(crate) fn briefly<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        limits::block_on(&mut tokio::runtime::Builder::new_current_thread(), work)
    }

    /// Runs a command that lives long and does much at once.
    pub(crate) fn at_length<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        limits::block_on(&mut tokio::runtime::Builder::new_multi_thread(), work)
    }

    /// Runs a command that agents work in, and then ends what their commands moved out of sight. `run` sets the name of the
    /// agents' team, once it is known.
    pub(crate) fn with_agents<T>(
        &self,
        run: impl FnOnce(&OnceCell<String>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Settings that cannot be used end it before anything else is said of them.
        self.settings_with(&self.cwd, None)?;
        let adopts = adopt_strays().unwrap_or_else(|error| {
            output::remark(&format!(
                "warning: what commands move out of sight is not found: {error}"
            ));
            false
        });
        let team = OnceCell::new();
        let ended = run(&team);
        if adopts {
            let strays = self.briefly(async { Ok(end_strays(STRAY_GRACE).await) });
            for stray in strays.unwrap_or_default() {
                output::remark(&in_words(&stray));
            }
        }
        if let Some(team) = team.get() {
            // A team that its lead has deleted is gone with its records, and the next run drops what stays of others.
            let _dropped = self.briefly(self.forget_ended(team));
        }
        ended
    }

    async fn forget_ended(&self, team: &str) -> Result<(), Failure> {
        Ok(forget_ended(&self.teams()?.open(team).await?).await?)
    }

    /// A variable of the environment that says something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether there is a program of that name.
    pub(crate) fn is_on_path(&self, program: &str) -> bool {
        let folders = self.variable("PATH").map(std::env::split_paths).into_iter().flatten();
        folders.map(|folder| folder.join(program)).any(|file| file.is_file())
    }

    /// The folder for temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    }

    /// What the sandbox of commands has to know of the machine and its user.
    pub(crate) fn machine(&self) -> Machine {
        Machine {
            root: self.root.clone(),
            temporary: self.temporary(),
            home: self.home.clone(),
            path: self.variable("PATH").map(std::env::split_paths).into_iter().flatten().collect(),
            toolchains: TOOLCHAIN_VARIABLES
                .iter()
                .filter_map(|name| self.variable(name))
                .map(PathBuf::from)
                .collect(),
            variables: self
                .environment
                .iter()
                .map(|(name, value)| Variable::of(name, value))
                .collect(),
            inner: Some(vec![self.exe.clone().into_os_string(), sandbox_exec::NAME.into()]),
        }
    }

    /// Whether somebody can see, and answer, what is asked.
    pub(crate) fn has_terminal(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}

/// What came of a process that a command moved out of sight.
fn in_words(stray: &Stray) -> String {
    let done = match stray.stopped {
        Stopped::Ended | Stopped::WasGone => "ended",
        Stopped::StillRunning => "could not end",
    };
    format!(
        "warning: {done} {} ({}): a command had moved it out of sight",
        stray.process,
        stray.words.join(" ")
    )
}
