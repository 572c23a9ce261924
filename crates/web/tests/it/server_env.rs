//! A server with a root of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_protocol::{Limits, TeamCreateInput};
use pitcrew_team::store::{Durability, FileBackend, FileOptions};
use pitcrew_team::{CreateTeam, JoinMember, MadeBy, OnTaken, SystemClock, Team, Teams};
use pitcrew_view::changes::Worktrees;
use pitcrew_web::{Devices, NewTeams, Options, Reach, Server, Token, Viewed};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Client;

/// A running server. Dropping it ends the server.
pub(crate) struct ServerEnv {
    dir: TempDir,
    pub(crate) teams: Teams,
    pub(crate) worktrees: Worktrees,
    pub(crate) client: Client,
    /// The link that opens the page.
    pub(crate) link: String,
    reach: Reach,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
}

impl ServerEnv {
    pub(crate) async fn new() -> Self {
        // Tests make more calls in a minute than a person.
        let limits = Limits {
            call_rate: pitcrew_protocol::Rate { count: 1_000_000, seconds: 60 },
            ..Limits::default()
        };
        Self::with(limits).await
    }

    /// A server that is reached otherwise than from loopback.
    pub(crate) async fn reached(reach: Reach) -> Self {
        Self::of(Limits::default(), reach).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::of(limits, Reach::Loopback { port: 0 }).await
    }

    async fn of(limits: Limits, reach: Reach) -> Self {
        let dir = TempDir::new().unwrap();
        let (root, work) = (dir.path().join("root"), dir.path().join("work"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&work).unwrap();
        let teams = teams_in(&root, limits);
        let worktrees = Worktrees::new(&work, Worktrees::folder_below(&root));
        let again = reach.clone();
        let Started { client, link, stop, served } =
            started(&root, &teams, &worktrees, again).await;
        let (stop, served) = (Some(stop), Some(served));
        Self { dir, teams, worktrees, client, link, reach, stop, served }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The devices below the root, as the command line changes them.
    pub(crate) fn devices(&self) -> Devices {
        let files = FileBackend::open(&self.root(), FileOptions::new(Durability::Process));
        Devices::new(files, Arc::new(SystemClock))
    }

    /// The folder in which the agents work.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Starts another server that shows one view. It ends with the second value.
    pub(crate) async fn view(&self, viewed: Viewed) -> (Client, oneshot::Sender<()>) {
        let (server, token) =
            bound(&self.root(), &self.teams, &self.worktrees, self.reach.clone()).await;
        let client = Client::new(server.address(), &token);
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.serve_view(viewed, async { drop(stopped.await) }));
        (client, stop)
    }

    /// Ends the server, and starts another one with the same root and the same token.
    pub(crate) async fn restart(&mut self) {
        self.end().await;
        let Started { client, link, stop, served } =
            started(&self.root(), &self.teams, &self.worktrees, self.reach.clone()).await;
        (self.client, self.link) = (client, link);
        (self.stop, self.served) = (Some(stop), Some(served));
    }

    /// Ends the server and waits for its end.
    pub(crate) async fn end(&mut self) {
        drop(self.stop.take());
        if let Some(served) = self.served.take() {
            served.await.unwrap();
        }
    }

    /// Makes a team with these members beside the lead.
    pub(crate) async fn team(&self, name: &str, members: &[&str]) -> Team {
        let create = CreateTeam {
            input: TeamCreateInput {
                team_name: name.to_owned(),
                description: Some("a test".to_owned()),
                agent_type: None,
            },
            cwd: self.work().display().to_string(),
            model: "scripted".to_owned(),
            session_id: uuid::Uuid::new_v4().to_string(),
            on_taken: OnTaken::Refuse,
            made_by: MadeBy::Run,
            first_run: None,
        };
        let (team, _) = self.teams.create(create).await.unwrap();
        for member in members {
            let joins = JoinMember {
                name: (*member).to_owned(),
                agent_type: "general-purpose".to_owned(),
                model: "scripted".to_owned(),
                cwd: self.work().display().to_string(),
                color: None,
                pane_id: None,
                backend_type: None,
            };
            team.join(joins).await.unwrap();
        }
        team
    }
}

impl Drop for ServerEnv {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

fn teams_in(root: &Path, limits: Limits) -> Teams {
    let files = FileBackend::open(root, FileOptions::new(Durability::Process));
    Teams::new(Arc::new(files), limits, Arc::new(SystemClock))
}

struct Started {
    client: Client,
    link: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Binds a free port. Returns the server and its token.
async fn bound(
    root: &Path,
    teams: &Teams,
    worktrees: &Worktrees,
    reach: Reach,
) -> (Server, String) {
    let files = FileBackend::open(root, FileOptions::new(Durability::Process));
    let reading = FileBackend::open(root, FileOptions::new(Durability::Process));
    let reading = Arc::new(reading.putting_back_when_asked());
    let token = files.web_token().await.unwrap().text;
    let options = Options {
        teams: teams.clone(),
        reads: Teams::new(reading, teams.limits().clone(), Arc::new(SystemClock)),
        root: root.to_owned(),
        new_teams: NewTeams::In(root.to_owned()),
        worktrees: worktrees.clone(),
        token: Token::new(token.clone()).unwrap(),
        devices: Devices::new(files, Arc::new(SystemClock)),
        reach,
    };
    (Server::bind(options).await.unwrap(), token)
}

async fn started(root: &Path, teams: &Teams, worktrees: &Worktrees, reach: Reach) -> Started {
    let (server, token) = bound(root, teams, worktrees, reach).await;
    let client = Client::new(server.address(), &token);
    let link = server.link();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(server.serve(async { drop(stopped.await) }));
    Started { client, link, stop, served }
}
