//! The tmux backend: panes of a tmux server.
//!
//! A new pane first runs a program that only waits. Next, the pane gets its options and its tag,
//! which names the team and the agent of the pane. Then tmux replaces the waiting program by the
//! requested program (`respawn-pane`). So the requested program never runs in a pane without tag
//! and options. If pitcrew crashes in between, only a pane with the waiting program is left. That
//! program ends by itself, and its pane closes.

use std::path::PathBuf;

use async_trait::async_trait;
use pitcrew_protocol::PaneHost;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::client::{CallError, Client, MARK, Words, answers, words};
use super::listing::{self, Listed};
use super::place::{self, Place};
use super::stranded;
use crate::launch::{Launcher, with_screen};
use crate::{NewPane, PaneError, PaneId, PaneState, PaneTag, PaneView, Panes, StartedPane};

mod start;

use start::{SIZE, kept, titled};

/// The command that waits in a new session, for 60 seconds. If pitcrew ends in the meantime, the
/// session closes when this command ends. The command must have at least two words, because tmux
/// would pass a single word to a shell.
const HOLDING: [&str; 2] = ["sleep", "60"];

/// The name of the session that contains hidden panes.
const HIDDEN: &str = "pitcrew-hidden";

/// A command that makes tmux check for ended child processes. tmux can miss the end of a child
/// process (seen with 3.3a, once in fifty times). It then reports the exit status only when another
/// child ends. So this command starts a child that ends immediately.
const NUDGE: [&str; 2] = ["run-shell", "true"];

/// Maximum number of times that pitcrew sends the command `NUDGE`. One time may not be enough if
/// the process of the pane is just ending.
const NUDGES: usize = 3;

/// The options of the tmux backend.
#[derive(Clone, Debug)]
pub struct TmuxOptions {
    /// The program `tmux`.
    pub program: PathBuf,
    /// The socket of the tmux server. If `None`, pitcrew uses the user's default server, even if
    /// this process runs inside another one.
    pub socket: Option<PathBuf>,
    /// The configuration file that a newly started server reads instead of the user's own.
    pub config: Option<PathBuf>,
    /// The pane in which the lead runs (`$TMUX_PANE`), if this process runs inside tmux.
    pub beside: Option<PaneId>,
    /// The name of pitcrew's own session, which is used if this process does not run inside tmux.
    /// It is created with the first pane, and no terminal is attached to it.
    pub session: String,
    /// How the process of a pane gets its launch.
    pub launcher: Launcher,
}

/// The pane backend for a tmux server.
#[derive(Debug)]
pub struct Tmux {
    client: Client,
    beside: Option<PaneId>,
    session: String,
    launcher: Launcher,
    /// Allows only one operation at a time to change a layout. An operation first reads the layout
    /// and then chooses a place in it, so the layout must not change in between.
    turn: Semaphore,
}

impl Tmux {
    /// Creates the backend. This function starts no process.
    #[must_use]
    pub fn new(options: TmuxOptions) -> Self {
        let TmuxOptions { program, socket, config, beside, session, launcher } = options;
        // Keep only these characters and replace all others. Some of the others, such as `:` and
        // `.`, have a special meaning when tmux looks up a session.
        let keep =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let client = Client::new(program, socket, config);
        let session = session.chars().map(keep).collect();
        Self { client, beside, session, launcher, turn: Semaphore::new(1) }
    }

    /// Returns the version of tmux.
    ///
    /// # Errors
    /// [`PaneError::Missing`] if tmux is not installed, [`PaneError::TooOld`] if its version is not
    /// supported.
    pub async fn version(&self) -> Result<&str, PaneError> {
        self.client.version().await
    }

    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed, so `acquire` cannot fail.
        self.turn.acquire().await.ok()
    }

    async fn panes(&self) -> Result<Vec<Listed>, PaneError> {
        match self.client.call(&[listing::command()], None).await {
            Ok(output) => Ok(listing::parse(&output)),
            Err(CallError::NoServer) => Ok(Vec::new()),
            Err(CallError::Failed(error)) => Err(error),
        }
    }

    async fn pane(&self, pane: &PaneId) -> Result<Option<Listed>, PaneError> {
        Ok(self.panes().await?.into_iter().find(|it| it.pane == *pane))
    }

    /// Returns the command that rearranges a window after the pane `without` has left it. Returns
    /// `None` if pitcrew must not rearrange this window, or if fewer than two panes are left.
    fn laid_out(&self, panes: &[Listed], without: &Listed) -> Option<Words> {
        let mut inside = place::inside(panes, &without.session, &without.window);
        inside.retain(|it| it.pane != without.pane);
        let layout = place::layout(&inside, self.beside.as_ref())?;
        (inside.len() > 1).then(|| words(["select-layout", "-t", &without.window, layout.as_str()]))
    }

    /// Finds a pane and checks that pitcrew is allowed to move it. Returns the pane and the list of
    /// all panes.
    async fn movable(&self, pane: &PaneId) -> Result<(Listed, Vec<Listed>), PaneError> {
        let panes = self.panes().await?;
        let Some(found) = panes.iter().find(|it| it.pane == *pane).cloned() else {
            return Err(PaneError::Gone { pane: pane.clone() });
        };
        // A pane without a tag belongs to the user and must not be moved.
        if found.tag.is_none() {
            return Err(PaneError::Foreign { pane: pane.clone(), tag: "of pitcrew".to_owned() });
        }
        Ok((found, panes))
    }

    /// Moves a pane into its own window in the session `session`. Creates the session if it does
    /// not exist.
    async fn move_out(
        &self,
        pane: &Listed,
        session: &str,
        panes: &[Listed],
    ) -> Result<(), PaneError> {
        let name = pane.tag.as_ref().map_or(MARK, |tag| tag.team.as_str());
        let target = format!("={session}:");
        let mut commands = Vec::new();
        let placeholder = if panes.iter().any(|it| it.session_name == session) {
            None
        } else {
            let mut make = words([
                "new-session",
                "-d",
                "-s",
                session,
                "-P",
                "-F",
                &format!("{MARK}\t#{{window_id}}"),
            ]);
            make.extend(words(SIZE));
            make.push("--".to_owned());
            make.extend(words(HOLDING));
            let output = self.client.call(&[make, kept(session)], None).await?;
            answers(&output).next().and_then(|fields| fields.first().map(ToString::to_string))
        };
        commands.push(words(["break-pane", "-d", "-n", name, "-s", &pane.pane.0, "-t", &target]));
        commands.extend(titled(&pane.pane.0));
        // A tmux session cannot exist without a window, so the new session has a first window, in
        // which `HOLDING` runs. Close this window now that the moved pane has its own window.
        commands.extend(placeholder.map(|window| words(["kill-window", "-t", &window])));
        commands.extend(self.laid_out(panes, pane));
        self.client.call(&commands, None).await?;
        Ok(())
    }
}

#[async_trait]
impl Panes for Tmux {
    fn backend_type(&self) -> &'static str {
        "tmux"
    }

    fn host(&self) -> PaneHost {
        PaneHost { socket: self.client.socket(), ..PaneHost::of(self.backend_type()) }
    }

    async fn start(&self, pane: &NewPane) -> Result<StartedPane, PaneError> {
        pane.check()?;
        let _turn = self.turn().await;
        let held = self.hold(pane).await?;
        match self.dress(&held, pane).await {
            Ok(pid) => Ok(StartedPane {
                id: held.pane,
                pid,
                session: Some(held.session),
                window: Some(held.window_name),
                is_split: Some(held.layout.is_some()),
            }),
            Err(error) => {
                let screen = self.screen(&held.pane).await.ok().flatten();
                // Close the new pane, because the requested program was not started. An error is
                // ignored: the program that waits in the pane ends by itself, and the pane then
                // closes.
                let _ = self.client.call(&[words(["kill-pane", "-t", &held.pane.0])], None).await;
                Err(with_screen(error, screen.as_deref()))
            }
        }
    }

    async fn state(&self, pane: &PaneId) -> Result<PaneState, PaneError> {
        let mut found = self.pane(pane).await?;
        for _ in 0..NUDGES {
            if found.as_ref().is_some_and(|it| it.ending.is_some()) {
                match self.client.call(&[words(NUDGE)], None).await {
                    Ok(_) | Err(CallError::NoServer) => found = self.pane(pane).await?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let Some(found) = found else { return Ok(PaneState::Gone) };
        // A program may close its terminal and continue to run. So check whether its process still
        // exists.
        let lasting = found.ending.filter(|pid| is_there(*pid));
        Ok(lasting.map_or(found.state, |pid| PaneState::Running { pid: Some(pid) }))
    }

    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError> {
        let Some(found) = self.pane(pane).await? else { return Ok(None) };
        let mut capture = words(["capture-pane", "-p", "-t", &pane.0]);
        if matches!(found.state, PaneState::Ended { .. }) {
            // When a program ends, tmux writes "Pane is dead" and thereby scrolls the screen by one
            // line. So read one more line above the screen.
            capture.extend(words(["-S", "-1"]));
        }
        match self.client.call(&[capture], None).await {
            Ok(text) => Ok(Some(text.trim_end().to_owned())),
            Err(CallError::NoServer) => Ok(None),
            Err(error) if error.says("can't find pane") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn show(&self, pane: &PaneId) -> Result<(), PaneError> {
        let _turn = self.turn().await;
        let (found, mut panes) = self.movable(pane).await?;
        if found.session_name != HIDDEN {
            return Ok(());
        }
        panes.retain(|it| it.session_name != HIDDEN);
        let into = match place::next(&panes, self.beside.as_ref(), &self.session) {
            Place::Split { pane: target, layout } => {
                let join = words(["join-pane", "-d", "-s", &pane.0, "-t", &target.0]);
                vec![join, words(["select-layout", "-t", &pane.0, layout.as_str()])]
            }
            Place::Window { session } => {
                let name = found.tag.as_ref().map_or(MARK, |tag| tag.team.as_str());
                vec![words([
                    "break-pane",
                    "-d",
                    "-n",
                    name,
                    "-s",
                    &pane.0,
                    "-t",
                    &format!("{session}:"),
                ])]
            }
            Place::Session => return self.move_out(&found, &self.session, &panes).await,
        };
        self.client.call(&into, None).await?;
        Ok(())
    }

    async fn in_view_at(&self, pane: &PaneId) -> Result<Option<PaneView>, PaneError> {
        let panes = self.panes().await?;
        let found = panes.into_iter().find(|it| it.pane == *pane && it.session_name != HIDDEN);
        Ok(found.map(|it| {
            let socket =
                self.host().socket.map(|socket| ["-S".to_owned(), socket]).into_iter().flatten();
            let attach = ["attach".to_owned(), "-t".to_owned(), it.session_name.clone()];
            let command = std::iter::once("tmux".to_owned()).chain(socket).chain(attach).collect();
            PaneView {
                place: format!("the tmux session {}", it.session_name),
                command,
                is_shown: it.is_attached,
            }
        }))
    }

    async fn hide(&self, pane: &PaneId) -> Result<(), PaneError> {
        let _turn = self.turn().await;
        let (found, panes) = self.movable(pane).await?;
        if found.session_name == HIDDEN {
            return Ok(());
        }
        self.move_out(&found, HIDDEN, &panes).await
    }

    async fn stop(&self, pane: &PaneId, tag: &PaneTag) -> Result<(), PaneError> {
        let _turn = self.turn().await;
        let panes = self.panes().await?;
        let Some(found) = panes.iter().find(|it| it.pane == *pane) else { return Ok(()) };
        if !found.tag.as_ref().is_some_and(|its| tag.covers(its)) {
            return Err(PaneError::Foreign { pane: pane.clone(), tag: tag.to_string() });
        }
        // After a restart of the tmux server, pane ids start from 0 again, so this id may now name
        // another pane. Let tmux itself check the tag immediately before it closes the pane.
        let kill = format!("kill-pane -t {pane}");
        let mut commands =
            vec![words(["if-shell", "-F", "-t", &pane.0, &listing::is_of(tag), &kill])];
        commands.extend(self.laid_out(&panes, found));
        match self.client.call(&commands, None).await {
            Ok(_) | Err(CallError::NoServer) => Ok(()),
            Err(error) if error.says("can't find") => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn tagged(&self, tag: &PaneTag) -> Result<Vec<(PaneId, PaneTag)>, PaneError> {
        // A pitcrew process that died may have left a tmux client that is still creating a pane
        // with this tag. Wait until such clients have ended.
        stranded::settle(self.client.program(), tag).await;
        let panes = self.panes().await?;
        let ours = panes
            .into_iter()
            .filter_map(|it| Some((it.pane, it.tag.filter(|its| tag.covers(its))?)));
        let mut found: Vec<(PaneId, PaneTag)> = ours.collect();
        found.sort();
        found.dedup();
        Ok(found)
    }
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}
