//! The context of a command: the root, the working folder, the environment, and the async runtime.
//!
//! Only this module reads argv, the environment and the home folder.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pitcrew_permission::settings::{Paths, Settings};
use pitcrew_permission::trust::{LeftOut, Project, Trust, trusted_stores};
use pitcrew_process::file_lock::{self, LockWait};
use pitcrew_process::identity::Stopped;
use pitcrew_process::sandbox::{
    Machine, TOOLCHAIN_VARIABLES, Unfinished, Variable, put_aside_unfinished,
};
use pitcrew_process::worktree::Worktrees;
use pitcrew_protocol::Limits;
use pitcrew_runtime::definitions::AgentFiles;
use pitcrew_runtime::supervision::{Stray, adopt_strays, end_strays, forget_ended};
use pitcrew_team::store::{
    Backend, Durability, FileBackend, FileOptions, LongRead, MemoryBackend, OnLongRead,
    OnPassedOver, OnUnrecorded, OnWait, PassedOver, StoreError,
};
use pitcrew_team::{SystemClock, Teams};
use serde::Deserialize as _;
use serde_json::Value;

use crate::cli::Shared;
use crate::commands::sandbox_exec;
use crate::failure::{Explained, Failure, FailureKind, chain, hint_of};
use crate::limits;
use crate::output::{self, Output, shell_word};

/// The environment variable that sets the root.
const ROOT_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// The environment variable that sets the log filter.
const LOG_VARIABLE: &str = "PITCREW_LOG";

/// The file with settings that the machine's administrator enforces. Source: API reference, "Claude
/// Code Settings".
pub(crate) const MANAGED_SETTINGS: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

/// The time between the signals TERM and KILL, when pitcrew stops a process that an agent's command
/// left behind.
const STRAY_GRACE: Duration = Duration::from_secs(1);

/// The command line and the environment that the process was started with.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// The command line, starting with the program's name.
    pub(crate) args: Vec<OsString>,
    /// The environment variables. Variables that are not UTF-8 are omitted.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Surroundings {
    /// Reads the command line and the environment.
    #[expect(clippy::disallowed_methods, reason = "the environment is read here and nowhere else")]
    pub(crate) fn read() -> Self {
        let utf8 = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            args: std::env::args_os().collect(),
            environment: std::env::vars_os().filter_map(utf8).collect(),
        }
    }

    /// Writes logs of all crates to stderr, filtered by `PITCREW_LOG` (`debug`,
    /// `pitcrew_store=trace`, ...). Without that variable no logger is set up, because a logger
    /// would slow down short commands.
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

/// The settings in force, and other data that is read together with the settings.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The settings in force.
    pub(crate) settings: Settings,
    /// The project's agent definitions. Definitions that are not trusted are omitted.
    pub(crate) project_agents: AgentFiles,
    /// The top folder of the repository. The user's answer about trust is stored under this path.
    pub(crate) top: Option<PathBuf>,
    /// The parts of the project's files that were ignored because the user does not trust them.
    pub(crate) left_out: Vec<LeftOut>,
    /// Warnings about project files that could not be read.
    pub(crate) warnings: Vec<String>,
}

/// The environment of a command: root, folders, variables and output.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The folder below which all teams are stored, as an absolute path.
    pub(crate) root: PathBuf,
    /// The root that the command line names. `None` if the command line names no root.
    pub(crate) given_root: Option<PathBuf>,
    /// Whether commands use this root even without `--root`.
    is_default_root: bool,
    /// The working folder of the process.
    pub(crate) cwd: PathBuf,
    /// The user's home folder, when it is known.
    pub(crate) home: Option<PathBuf>,
    /// The path of this executable, used to start further pitcrew processes.
    pub(crate) exe: PathBuf,
    /// The environment variables of the process.
    pub(crate) environment: BTreeMap<String, String>,
    /// Prints the result of the command.
    pub(crate) output: Output,
    /// Whether the warning about unusable settings was already printed.
    has_told: Rc<Cell<bool>>,
    /// Notices about the run that this command starts. They are printed when the run is started, and
    /// never if it is refused.
    notices: Rc<RefCell<Vec<Notice>>>,
    /// The git folders and object stores outside of a checkout that count in this run, by `--trust`
    /// too.
    stores_of_run: Rc<RefCell<Vec<PathBuf>>>,
}

/// A notice about a run that is about to start.
#[derive(Debug)]
enum Notice {
    /// A text that is true only for a started run.
    OfRun(String),
    /// A text about the options of the run. It can explain why the run is refused.
    OfOptions(String),
}

impl Context {
    /// Builds the context of a command from these options.
    ///
    /// # Errors
    /// Returns an error if there is no working folder, or if neither a root nor a home folder is
    /// known.
    pub(crate) fn new(
        surroundings: Surroundings,
        shared: &Shared,
        output: Output,
    ) -> Result<Self, Failure> {
        file_lock::report_by(tell_wait);
        let cwd = std::env::current_dir()
            .map_err(|e| Failure::internal(Explained::new("the working folder cannot be read", e)))
            .map_err(|failure| failure.hint("it may have been removed"))?;
        let home = surroundings.non_empty("HOME").map(PathBuf::from);
        let root = shared
            .root
            .clone()
            // The root is found in the same order as in the reference client: the client's
            // environment variable, otherwise `.claude` in the home folder.
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
            notices: Rc::default(),
            stores_of_run: Rc::default(),
        })
    }

    /// Returns the manager of the worktrees in the repository around a folder.
    pub(crate) fn worktrees(&self, folder: impl Into<PathBuf>) -> Worktrees {
        let stores = trusted_stores(&self.root, &self.stores_of_run.borrow());
        Worktrees::new(folder, Worktrees::folder_below(&self.root)).trusting(stores)
    }

    /// Keeps a notice for the moment when the run is started.
    pub(crate) fn tell_when_started(&self, text: String) {
        self.notices.borrow_mut().push(Notice::OfRun(text));
    }

    /// Keeps a notice about the options of the run. If the run is refused because of its options,
    /// the notice becomes a hint.
    pub(crate) fn tell_of_options(&self, text: String) {
        self.notices.borrow_mut().push(Notice::OfOptions(text));
    }

    /// Prints the kept notices if the run was started. Otherwise adds those that can explain the
    /// failure to its hints.
    pub(crate) fn told<T>(&self, started: Result<T, Failure>) -> Result<T, Failure> {
        let notices = std::mem::take(&mut *self.notices.borrow_mut());
        match started {
            Ok(started) => {
                for Notice::OfRun(text) | Notice::OfOptions(text) in &notices {
                    output::remark(text);
                }
                Ok(started)
            }
            // Another process runs the team, whatever the options are.
            Err(failure) if failure.kind == FailureKind::Conflict => Err(failure),
            Err(failure) => {
                Err(notices.into_iter().fold(failure, |failure, notice| match notice {
                    Notice::OfOptions(text) => failure.hint(text),
                    Notice::OfRun(_) => failure,
                }))
            }
        }
    }

    /// Copies this context and uses another root.
    pub(crate) fn at_root(&self, root: PathBuf) -> Self {
        Self { root, is_default_root: false, has_told: Rc::default(), ..self.clone() }
    }

    /// Returns the flag `--root ROOT` with a space before it. When pitcrew suggests a command to
    /// the user, it adds this flag, so that the command uses this root. For the default root, the
    /// text is empty.
    pub(crate) fn root_flag(&self) -> String {
        match self.is_default_root {
            true => String::new(),
            false => format!(" --root {}", shell_word(&self.root.to_string_lossy())),
        }
    }

    /// Adds the flag of [`Context::root_flag`] to the commands in a text. They are in backticks.
    pub(crate) fn with_root_flag(&self, text: &str) -> String {
        with_root(&self.root_flag(), text)
    }

    /// Opens the file store below the root.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used.
    pub(crate) fn files(&self, settings: &Settings) -> Result<FileBackend, Failure> {
        let durability = match settings.pitcrew("durability").and_then(Value::as_str) {
            Some("process") => Durability::Process,
            _ => Durability::Disk,
        };
        let passed_over = |PassedOver { path, reason }: &PassedOver| {
            output::remark(&format!(
                "warning: the task file {} is ignored: {reason}; `pitcrew doctor` says how to repair it",
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
            on_wait: Some(OnWait(Arc::new(tell_wait))),
            on_passed_over: Some(OnPassedOver(Arc::new(passed_over))),
            on_unrecorded: Some(OnUnrecorded(Arc::new(unrecorded))),
            on_long_read: Some(OnLongRead(Arc::new(long_read))),
            ..FileOptions::new(durability)
        };
        Ok(FileBackend::open(&self.root, options))
    }

    /// Opens all teams below the root. The teams' limits come from the usable part of the settings.
    ///
    /// # Errors
    /// Returns an error if the files of teams cannot be opened.
    pub(crate) fn teams(&self) -> Result<Teams, Failure> {
        self.teams_with(&self.usable_settings())
    }

    /// Returns the settings for commands that run no agent. Unusable parts are omitted, and one
    /// warning is printed. Such a command must work with unusable settings too, so that the user
    /// can view or end a team. Because no agent runs, omitting a part gives nobody more
    /// permissions.
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
        // A command can read the settings several times, but the warning is printed only once.
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

    /// Copies this context. The copy prints no warning about unusable settings.
    pub(crate) fn quiet(&self) -> Self {
        Self { has_told: Rc::new(Cell::new(true)), ..self.clone() }
    }

    /// Opens all teams below the root, with the limits from these settings.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used.
    pub(crate) fn teams_with(&self, settings: &Settings) -> Result<Teams, Failure> {
        Self::teams_in(Arc::new(self.files(settings)?), settings)
    }

    /// Creates an empty store in memory. Its teams vanish when the process ends.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used.
    pub(crate) fn teams_in_memory(settings: &Settings) -> Result<Teams, Failure> {
        Self::teams_in(Arc::new(MemoryBackend::new()), settings)
    }

    /// Opens all teams of this store, with the limits from these settings.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used.
    pub(crate) fn teams_in(store: Arc<dyn Backend>, settings: &Settings) -> Result<Teams, Failure> {
        let limits = match settings.pitcrew("limits") {
            Some(limits) => Limits::deserialize(limits).map_err(|e| {
                Failure::usage(format!("`pitcrew.limits` in the settings cannot be used: {e}"))
            })?,
            None => Limits::default(),
        };
        Ok(Teams::new(store, limits, Arc::new(SystemClock)))
    }

    /// Returns the settings for a project's folder. They include the trusted part of the project's
    /// own settings. The settings of the command line have precedence over all other settings.
    ///
    /// # Errors
    /// Returns an error if a settings file cannot be read.
    pub(crate) fn settings_with(
        &self,
        project: &Path,
        cli: Option<Value>,
    ) -> Result<Settings, Failure> {
        Ok(self.load(project, cli)?.settings)
    }

    /// Returns the settings for a project's folder, the project's agent definitions, and a list of
    /// the parts that were ignored.
    ///
    /// # Errors
    /// Returns an error if a settings file cannot be read.
    pub(crate) fn load(&self, project: &Path, cli: Option<Value>) -> Result<Loaded, Failure> {
        let files = self.project(project)?;
        // If the stored answers about trust cannot be read, the project is treated as not trusted.
        // The run then has fewer permissions, never more. The error is returned as a warning.
        let (trust, unread) = match Trust::load(&self.root) {
            Ok(trust) => (trust, None),
            Err(error) => (Trust::default(), Some(Failure::internal(error).chain())),
        };
        // `--trust` adds trust for the current run only. The flag was given to this run, or to the
        // run that started the pane of this process.
        let trust = match &cli {
            Some(layer) => trust.with_run_items(layer),
            None => trust,
        };
        let top = files.top().map(Path::to_path_buf);
        let member_status = trust.state(&files);
        let counted = files.counted(member_status);
        let settings =
            Settings::load(&self.paths(project, cli), counted.layers).map_err(Failure::unusable)?;
        self.stores_of_run.borrow_mut().clone_from(&counted.git_folders);
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

    /// Returns the paths of the settings files.
    fn paths(&self, project: &Path, cli: Option<Value>) -> Paths {
        Paths {
            managed: Some(PathBuf::from(MANAGED_SETTINGS)),
            cli,
            project: Some(project.to_owned()),
            root: Some(self.root.clone()),
        }
    }

    /// Reads the files of a project that take effect only if the project is trusted.
    ///
    /// A sandboxed command may have created such files, and its run may have been killed before it
    /// could remove them. This function first renames these created files, so that they do not take
    /// effect, and prints a warning.
    ///
    /// # Errors
    /// Returns an error if the files cannot be read.
    pub(crate) fn project(&self, folder: &Path) -> Result<Project, Failure> {
        for words in put_aside_unfinished(&self.root) {
            output::remark(&format!("warning: {}", output::visible(&words)));
        }
        Project::read(folder, &self.root).map_err(Failure::unusable)
    }

    /// Returns the settings for a command that only displays data. If a sandboxed command of a
    /// killed run created settings files in a project, the project's settings are ignored. Other
    /// commands rename such files, but a command that only displays data must not change any file.
    ///
    /// # Errors
    /// Returns an error if a settings file cannot be read.
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

    /// Runs a short command on the current thread only, because a runtime with one thread starts
    /// faster.
    pub(crate) fn briefly<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        limits::block_on(&mut tokio::runtime::Builder::new_current_thread(), work)
    }

    /// Runs a long command with many concurrent tasks on a runtime with several threads.
    pub(crate) fn at_length<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        limits::block_on(&mut tokio::runtime::Builder::new_multi_thread(), work)
    }

    /// Runs a command that runs agents. At the end, stops the processes that the agents' commands
    /// left behind. `run` must store the team's name in its argument as soon as the name is known.
    pub(crate) fn with_agents<T>(
        &self,
        run: impl FnOnce(&OnceCell<String>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // If the settings cannot be used, this call ends the command with an error. The code below
        // only prints a warning about such settings, and the user would see that warning before the
        // error.
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
            // `forget_ended` removes the team's records of processes that have ended. An error is
            // ignored here: a deleted team has no records, and for other teams the next run removes
            // the remaining records.
            let _dropped = self.briefly(self.forget_ended(team));
        }
        ended
    }

    async fn forget_ended(&self, team: &str) -> Result<(), Failure> {
        Ok(forget_ended(&self.teams()?.open(team).await?).await?)
    }

    /// Returns the value of an environment variable. Returns `None` if the variable is not set or
    /// is empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns whether a folder of the `PATH` contains a program of this name.
    pub(crate) fn is_on_path(&self, program: &str) -> bool {
        let folders = self.variable("PATH").map(std::env::split_paths).into_iter().flatten();
        folders.map(|folder| folder.join(program)).any(|file| file.is_file())
    }

    /// The folder for temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    }

    /// Returns the facts about the machine and the user that the sandbox needs.
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

    /// Whether a user at a terminal can read questions from pitcrew and answer them.
    pub(crate) fn has_terminal(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}

/// Returns a warning about a process that a command left behind. The warning says whether the
/// process was stopped.
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

/// Tells the user about a long wait for a lock.
fn tell_wait(wait: &LockWait) {
    let (lock, left) = (wait.lock.display(), wait.left.as_secs() + 1);
    let held = match &wait.holder {
        Some(holder) => format!("{holder} has locked it"),
        None => "another program has locked it, or ended without unlocking it".to_owned(),
    };
    output::remark(&format!("waiting for the lock {lock}: {held}; at most {left} s more"));
}

/// Adds the flag `root` to the commands in a text that do not have it.
pub(crate) fn with_root(root: &str, text: &str) -> String {
    let once = format!("`pitcrew{root} ");
    text.replace("`pitcrew ", &once).replace(&format!("`pitcrew{root}{root} "), &once)
}
