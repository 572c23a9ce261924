//! Runs a whole team for a test, with scripted models, in a temporary folder. The team's data is in
//! memory, or in files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use pitcrew_model::{
    Model, PriceTable, Request, Response, ResponseStream, Script, Scripted, StreamEvent, Usage,
};
use pitcrew_permission::settings::Settings;
use pitcrew_process::sandbox::Machine;
use pitcrew_protocol::{Limits, PermissionMode};
use pitcrew_runtime::definitions::AgentFiles;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::hosting::Hosting;
use pitcrew_runtime::run::{
    AgentOptions, Asks, Begin, RunEnd, RunHandle, RunLimits, RunOptions, RunOutcome, Runtime,
    Shortfall,
};
use pitcrew_team::store::{Backend, FileBackend, FileOptions, MemoryBackend};
use pitcrew_team::{RunBounds, SystemClock, Team, Teams};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use crate::patience::PATIENCE;

/// The script of a teammate that greets the lead and approves every shutdown request.
pub(crate) const WAITER: &str = r#"
  default:
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// The root folder and the working folder for the teams of one test.
pub(crate) struct TestRun {
    _folder: TempDir,
    pub(crate) cwd: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) teams: Teams,
}

/// A scripted model that records its requests.
pub(crate) struct Overheard {
    model: Scripted,
    requests: Mutex<Vec<Request>>,
    /// The token usage that the model reports for each answer. The default value reports no tokens.
    usage: Usage,
}

impl Overheard {
    pub(crate) fn new(script: &str, usage: Usage) -> Arc<Self> {
        let script = Script::parse(Path::new("test.yaml"), script).unwrap();
        Arc::new(Self { model: Scripted::new(script), requests: Mutex::default(), usage })
    }

    /// Returns the system prompt of an agent's last request.
    #[track_caller]
    pub(crate) fn system_of(&self, agent: &str) -> String {
        self.last_request(agent).system.join("\n")
    }

    /// Returns the names of the tools in an agent's last request.
    #[track_caller]
    pub(crate) fn tools_of(&self, agent: &str) -> Vec<String> {
        self.last_request(agent).tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// Returns the schema of one tool in an agent's last request.
    #[track_caller]
    pub(crate) fn schema_of(&self, agent: &str, tool: &str) -> serde_json::Value {
        let tools = self.last_request(agent).tools;
        let found = tools.iter().find(|spec| spec.name == tool);
        found.unwrap_or_else(|| panic!("{agent} has no {tool}")).input_schema.clone()
    }

    #[track_caller]
    fn last_request(&self, agent: &str) -> Request {
        let requests = self.requests.lock().unwrap();
        let last = requests.iter().rev().find(|request| request.agent.name == agent);
        last.unwrap_or_else(|| panic!("{agent} was never asked")).clone()
    }

    /// Returns all texts with the role `user` in an agent's conversation, without tool results.
    #[track_caller]
    pub(crate) fn told_to(&self, agent: &str) -> Vec<String> {
        let messages = self.last_request(agent).messages;
        let users = messages.iter().filter(|message| message.role == pitcrew_model::Role::User);
        users
            .flat_map(|message| &message.blocks)
            .filter_map(|block| block.as_text().map(str::to_owned))
            .collect()
    }
}

impl Model for Overheard {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn context_window(&self) -> Option<u64> {
        self.model.context_window()
    }

    fn respond(&self, request: Request) -> ResponseStream {
        self.requests.lock().unwrap().push(request.clone());
        let usage = self.usage;
        Box::pin(self.model.respond(request).map(move |event| match event {
            Ok(StreamEvent::Finished(response)) => {
                Ok(StreamEvent::Finished(Response { usage, ..response }))
            }
            other => other,
        }))
    }
}

pub(crate) struct Ran {
    pub(crate) outcome: RunOutcome,
    pub(crate) events: Vec<RunEvent>,
}

impl TestRun {
    /// Creates a test run whose team is only in memory.
    pub(crate) fn new() -> Self {
        Self::on(|_root| Arc::new(MemoryBackend::new()))
    }

    /// Creates a test run whose team is in files, as it is for users.
    pub(crate) fn in_files() -> Self {
        Self::on(|root| Arc::new(FileBackend::open(root, FileOptions::default())))
    }

    fn on(backend: impl FnOnce(&Path) -> Arc<dyn Backend>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (cwd, root) = (base.join("project"), base.join("root"));
        std::fs::create_dir_all(&cwd).unwrap();
        std::fs::create_dir_all(&root).unwrap();
        let teams = Teams::new(backend(&root), Limits::default(), Arc::new(SystemClock));
        Self { _folder: folder, cwd, root, teams }
    }

    /// Returns the options of a run whose models follow a script. Each test changes some of these
    /// options.
    pub(crate) fn options(&self, script: &str) -> RunOptions {
        let script = Script::parse(Path::new("test.yaml"), script).unwrap();
        let model: Arc<dyn Model> = Arc::new(Scripted::new(script));
        RunOptions {
            teams: self.teams.clone(),
            begin: Begin::New { team: "probe".to_owned(), goal: "Do it.".to_owned() },
            model: "script:test.yaml".to_owned(),
            hosting: Hosting::in_process(),
            bounds: RunBounds::default(),
            teammate_model: None,
            agent_options: AgentOptions {
                cwd: self.cwd.clone(),
                root: self.root.clone(),
                machine: Machine::with_root(&self.root, &tempfile::env::temp_dir()),
                home: None,
                session_id: "806a459e-20e5-4ee3-bf49-40e5333a7d9e".to_owned(),
                open_model: Arc::new(move |_name| Ok(model.clone())),
                prices: PriceTable::default(),
                settings: Settings::default(),
                project_agents: AgentFiles::default(),
                secret_texts: Vec::new(),
                mode: PermissionMode::AcceptEdits,
                asks: Asks::Deny,
                limits: RunLimits::default(),
                models: Vec::new(),
                append_system_prompt: None,
                shutdown_grace: Duration::from_secs(5),
            },
        }
    }

    /// Returns the options of a run whose model follows a script, and the model itself, which
    /// records all requests.
    pub(crate) fn overheard(&self, script: &str) -> (RunOptions, Arc<Overheard>) {
        self.with_usage(script, Usage::default())
    }

    /// Returns the options of a run whose model follows a script and reports `usage` for each
    /// answer. Also returns the model.
    pub(crate) fn with_usage(&self, script: &str, usage: Usage) -> (RunOptions, Arc<Overheard>) {
        let overheard = Overheard::new(script, usage);
        let model: Arc<dyn Model> = overheard.clone();
        let mut options = self.options(script);
        options.agent_options.open_model = Arc::new(move |_name| Ok(model.clone()));
        (options, overheard)
    }

    pub(crate) async fn run(&self, options: RunOptions) -> Ran {
        finish(Runtime::start(options).await.unwrap()).await
    }

    /// Opens the team as another process would, with a second store on the same files.
    pub(crate) async fn team_elsewhere(&self) -> Team {
        let backend = Arc::new(FileBackend::open(&self.root, FileOptions::default()));
        Teams::new(backend, Limits::default(), Arc::new(SystemClock)).open("probe").await.unwrap()
    }

    pub(crate) async fn team(&self) -> Team {
        self.teams.open("probe").await.unwrap()
    }
}

/// Reads the events of a run until the run ends.
/// A file that cannot be written until this is dropped: a folder has taken its place. Then every
/// write fails as on a full disk, also for root. The file comes back with its content.
pub(crate) struct Blocked {
    file: PathBuf,
    aside: PathBuf,
}

impl Blocked {
    pub(crate) fn file(file: &Path) -> Self {
        let aside = file.with_extension("aside");
        std::fs::create_dir(&aside).unwrap();
        let blocked = Self { file: file.to_owned(), aside };
        blocked.exchange();
        blocked
    }

    /// The exchange is one step, because a writer must not find the place empty.
    fn exchange(&self) {
        renameat_with(CWD, &self.file, CWD, &self.aside, RenameFlags::EXCHANGE).unwrap();
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.exchange();
        std::fs::remove_dir(&self.aside).unwrap();
    }
}

pub(crate) async fn finish(mut handle: RunHandle) -> Ran {
    let mut events = Vec::new();
    let reading = async {
        while let Some(event) = handle.events.recv().await {
            events.push(event);
        }
    };
    if tokio::time::timeout(PATIENCE, reading).await.is_err() {
        panic!("the run hangs after {:#?}", events.iter().rev().take(12).rev().collect::<Vec<_>>());
    }
    Ran { outcome: handle.outcome().await, events }
}

/// Reads the events of a run until an event matches.
pub(crate) async fn until(
    handle: &mut RunHandle,
    mut wanted: impl FnMut(&RunEvent) -> bool,
) -> Vec<RunEvent> {
    let mut events = Vec::new();
    let reading = async {
        while let Some(event) = handle.events.recv().await {
            let is_it = wanted(&event);
            events.push(event);
            if is_it {
                return true;
            }
        }
        false
    };
    let happened = tokio::time::timeout(PATIENCE, reading).await;
    assert_eq!(happened, Ok(true), "what was waited for did not happen in {events:#?}");
    events
}

impl Ran {
    #[track_caller]
    pub(crate) fn success(&self) -> &str {
        match &self.outcome.end {
            RunEnd::Success { text } => text,
            other => panic!("the run ended in {other:?} after {:#?}", self.results()),
        }
    }

    /// Returns the last text of a run that ended with incomplete work. Fails if the run ended for
    /// another reason than `reason`.
    #[track_caller]
    pub(crate) fn unfinished(&self, reason: Shortfall) -> &str {
        match &self.outcome.end {
            RunEnd::Unfinished { shortfall, text, .. } if *shortfall == reason => {
                text.as_deref().unwrap_or_default()
            }
            other => panic!("the run ended in {other:?} after {:#?}", self.results()),
        }
    }

    /// Returns the results of all tool calls, one line for each call.
    pub(crate) fn results(&self) -> Vec<String> {
        let line = |event: &RunEvent| match event {
            RunEvent::ToolEnded(ended) => {
                Some(format!("{} {}: {}", ended.agent, ended.tool, ended.text))
            }
            RunEvent::Warning { text } => Some(format!("warning: {text}")),
            _ => None,
        };
        self.events.iter().filter_map(line).collect()
    }

    /// Returns the results of an agent's calls to one tool.
    pub(crate) fn results_of(&self, agent: &str, tool: &str) -> Vec<String> {
        let prefix = format!("{agent} {tool}: ");
        self.results()
            .iter()
            .filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }
}
