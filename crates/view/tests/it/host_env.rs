//! Runs a team with scripted models in a temporary folder, with a host that other processes can
//! follow.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pitcrew_model::{Model, PriceTable, Script, Scripted};
use pitcrew_permission::settings::Settings;
use pitcrew_process::sandbox::Machine;
use pitcrew_protocol::{Limits, PermissionMode};
use pitcrew_runtime::definitions::AgentFiles;
use pitcrew_runtime::hosting::Hosting;
use pitcrew_runtime::run::{AgentOptions, Asks, Begin, RunLimits, RunOptions, Runtime};
use pitcrew_team::store::{FileBackend, FileOptions};
use pitcrew_team::{RunBounds, SystemClock, Team, Teams};
use pitcrew_view::asking;
use pitcrew_view::client::{Following, FromHost, Since, follow};
use pitcrew_view::host::{Host, HostEvent, HostState, OpenQuestion, What};
use tempfile::TempDir;

/// Time limit of every wait in a test. A wait reaches this limit only if something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time between two checks of a condition, if no notification announces a change.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Waits for a future that must complete within the time limit.
pub(crate) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

/// A running team and its host.
pub(crate) struct Hosted {
    folder: TempDir,
    pub(crate) host: Host,
}

impl Hosted {
    /// Starts the team `probe` with a script. A person is asked for permissions.
    pub(crate) async fn start(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["project", "root"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        let (asks, asked) = asking::channel();
        let options = options(&base, script, Asks::Person(asks));
        let teams = options.teams.clone();
        let handle = Runtime::start(options).await.unwrap();
        let team = teams.open("probe").await.unwrap();
        let hosted = Self { folder, host: Host::open(handle, team, Some(asked)) };
        let socket = hosted.own_folder().join("door");
        let listens = async {
            while !socket.exists() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        in_time("the control socket is open", listens).await;
        hosted
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The folder of the control socket.
    pub(crate) fn own_folder(&self) -> PathBuf {
        self.base().join("root/teams/probe/pitcrew")
    }

    /// Opens the team as another process would, with a second store on the same files.
    pub(crate) async fn team_elsewhere(&self) -> Team {
        teams_in(&self.base()).open("probe").await.unwrap()
    }

    /// Follows the host, as another process would.
    pub(crate) async fn follow(&self, since: Option<Since>) -> Following {
        follow(&self.team_elsewhere().await, since).await.unwrap().unwrap()
    }

    /// Reads the events of the host until an event matches. Returns all events.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&What) -> bool) -> Vec<Arc<HostEvent>> {
        let mut events = Vec::new();
        let reading = async {
            while let Some(event) = self.host.next().await {
                let is_it = wanted(&event.what);
                events.push(event);
                if is_it {
                    return true;
                }
            }
            false
        };
        assert!(in_time("the event happens", reading).await, "{events:#?}");
        events
    }
}

pub(crate) fn teams_in(base: &Path) -> Teams {
    let backend = Arc::new(FileBackend::open(&base.join("root"), FileOptions::default()));
    Teams::new(backend, Limits::default(), Arc::new(SystemClock))
}

fn options(base: &Path, script: &str, asks: Asks) -> RunOptions {
    let (cwd, root) = (base.join("project"), base.join("root"));
    let script = Script::parse(Path::new("test.yaml"), script).unwrap();
    let model: Arc<dyn Model> = Arc::new(Scripted::new(script));
    RunOptions {
        teams: teams_in(base),
        begin: Begin::New { team: "probe".to_owned(), goal: "Do it.".to_owned() },
        model: "script:test.yaml".to_owned(),
        hosting: Hosting::in_process(),
        bounds: RunBounds::default(),
        teammate_model: None,
        agent_options: AgentOptions {
            cwd,
            machine: Machine::with_root(&root, &tempfile::env::temp_dir()),
            root,
            home: None,
            session_id: "806a459e-20e5-4ee3-bf49-40e5333a7d9e".to_owned(),
            open_model: Arc::new(move |_name| Ok(model.clone())),
            prices: PriceTable::default(),
            settings: Settings::default(),
            project_agents: AgentFiles::default(),
            secret_texts: Vec::new(),
            mode: PermissionMode::Default,
            asks,
            limits: RunLimits::default(),
            models: Vec::new(),
            append_system_prompt: None,
            shutdown_grace: Duration::from_secs(5),
        },
    }
}

/// Waits for the next event or snapshot from a host.
pub(crate) async fn next(following: &mut Following) -> FromHost {
    in_time("the host sends something", following.next()).await
}

/// Waits for the snapshot that the host sends first.
pub(crate) async fn snapshot(following: &mut Following) -> HostState {
    match next(following).await {
        FromHost::Snapshot(state) => *state,
        other => panic!("{other:?}"),
    }
}

/// Reads events from a host until one matches, and returns this event.
pub(crate) async fn until(following: &mut Following, wanted: impl Fn(&What) -> bool) -> HostEvent {
    loop {
        match next(following).await {
            FromHost::Event(event) if wanted(&event.what) => return *event,
            FromHost::Event(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until a permission request is open, whether the snapshot or an event tells of it.
pub(crate) async fn opened(following: &mut Following) -> OpenQuestion {
    if let Some(question) = snapshot(following).await.questions.pop() {
        return question;
    }
    match until(following, |what| matches!(what, What::QuestionOpened(_))).await.what {
        What::QuestionOpened(question) => *question,
        other => panic!("{other:?}"),
    }
}
