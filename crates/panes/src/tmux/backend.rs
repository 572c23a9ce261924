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

use super::client::{CallError, Client, MARK, Words, answers, message_bytes, words};
use super::listing::{self, Listed};
use super::place::{self, Place};
use super::stranded;
use crate::launch::Launch;
use crate::{NewPane, PaneError, PaneId, PaneState, PaneTag, PaneView, Panes, StartedPane};

/// The command that waits in a new session, for 60 seconds. If pitcrew ends in the meantime, the
/// session closes when this command ends. The command must have at least two words, because tmux
/// would pass a single word to a shell.
const HOLDING: [&str; 2] = ["sleep", "60"];

/// The name of the session that contains hidden panes.
const HIDDEN: &str = "pitcrew-hidden";

/// The size of a session while no terminal is attached to it. A terminal that attaches changes this
/// size.
const SIZE: [&str; 4] = ["-x", "200", "-y", "50"];

/// Maximum size of one tmux call in bytes. It must stay below 16 KiB, because a tmux message,
/// including its headers, cannot be longer.
const CALL_BYTES: usize = 12 * 1024;

/// Number of attempts to find a place for a pane. An attempt fails if another process changes the
/// layout at the same time.
const TRIES: usize = 4;

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
    /// The command `pitcrew pane-exec`, which starts the program that a launch file describes. The
    /// path of the launch file is appended to the command. The result must have at least two words,
    /// because tmux would pass a single word to a shell.
    pub launcher: Vec<String>,
    /// The folder in which launch files are created.
    pub temporary: PathBuf,
}

/// The pane backend for a tmux server.
#[derive(Debug)]
pub struct Tmux {
    client: Client,
    beside: Option<PaneId>,
    session: String,
    launcher: Vec<String>,
    temporary: PathBuf,
    /// Allows only one operation at a time to change a layout. An operation first reads the layout
    /// and then chooses a place in it, so the layout must not change in between.
    turn: Semaphore,
}

impl Tmux {
    /// Creates the backend. This function starts no process.
    #[must_use]
    pub fn new(options: TmuxOptions) -> Self {
        let TmuxOptions { program, socket, config, beside, session, launcher, temporary } = options;
        // Keep only these characters and replace all others. Some of the others, such as `:` and
        // `.`, have a special meaning when tmux looks up a session.
        let keep =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let client = Client::new(program, socket, config);
        let session = session.chars().map(keep).collect();
        Self { client, beside, session, launcher, temporary, turn: Semaphore::new(1) }
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

    /// Creates a pane in which, for now, a program runs that only waits. Chooses a place with
    /// enough room for the pane.
    async fn hold(&self, pane: &NewPane) -> Result<Held, PaneError> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let panes = self.panes().await?;
            let place = place::next(&panes, self.beside.as_ref(), &self.session);
            match self.client.call(&self.holding(&place, pane), Some(&pane.cwd)).await {
                Ok(output) => return Held::read(&output, &place),
                // Another process changed the layout in the meantime. The next attempt reads the
                // new layout.
                Err(error) if tries > 0 && is_raced(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn holding(&self, place: &Place, pane: &NewPane) -> Vec<Words> {
        let answer =
            format!("{MARK}\t#{{pane_id}}\t#{{window_id}}\t#{{session_name}}\t#{{window_name}}");
        let name = pane.tag.team.as_str();
        let mut make = match place {
            Place::Split { pane, layout: place::Layout::MainVertical } => {
                words(["split-window", "-h", "-t", &pane.0])
            }
            Place::Split { pane, layout: place::Layout::Tiled } => {
                words(["split-window", "-v", "-t", &pane.0])
            }
            Place::Window { session } => {
                words(["new-window", "-n", name, "-t", &format!("{session}:")])
            }
            Place::Session => {
                let mut make = words(["new-session", "-s", &self.session, "-n", name]);
                make.extend(words(SIZE));
                make
            }
        };
        make.extend(words(["-d", "-P", "-F", &answer, "--"]));
        make.extend(listing::holding(&pane.tag));
        let mut commands = vec![make];
        if matches!(place, Place::Session) {
            commands.push(kept(&self.session));
        }
        commands
    }

    /// Returns the commands that give a new pane its tag and its options, and then start the
    /// requested program in the pane.
    fn dressing(&self, held: &Held, pane: &NewPane, start: Words) -> Vec<Words> {
        let id = held.pane.0.as_str();
        let option = |name: &str, value: &str| words(["set-option", "-p", "-t", id, name, value]);
        let mut commands = vec![
            option("@pitcrew", &pane.tag.to_string()),
            option("@pitcrew-title", &pane.title),
            // Keep the pane open after its program has ended, so that the exit status and the last
            // screen can be read.
            option("remain-on-exit", "on"),
            // tmux inserts the title but does not expand the inserted text again. So a title that
            // contains tmux format characters does no harm.
            words(["select-pane", "-t", id, "-T", "#{@pitcrew-title}"]),
        ];
        if let Some(color) = pane.color.as_deref().and_then(tmux_color) {
            let style = format!("fg={color}");
            commands.push(option("pane-border-style", &style));
            commands.push(option("pane-active-border-style", &style));
        }
        if held.is_window_ours {
            commands.extend(titled(id));
        }
        if let Some(layout) = held.layout {
            commands.push(words(["select-layout", "-t", &held.window, layout.as_str()]));
        }
        commands.push(start);
        commands.push(words([
            "display-message",
            "-p",
            "-t",
            id,
            &format!("{MARK}\t#{{pane_pid}}"),
        ]));
        commands
    }

    /// Starts the requested program in a new pane. The program replaces the one that only waits in
    /// the pane.
    #[expect(
        clippy::disallowed_methods,
        reason = "the launch file of a pane that did not start is removed"
    )]
    async fn dress(&self, held: &Held, pane: &NewPane) -> Result<Option<u32>, PaneError> {
        let respawn = |argv: &[String], env: &[(String, String)]| {
            let mut start = words(["respawn-pane", "-k", "-t", &held.pane.0]);
            start.extend(
                env.iter().flat_map(|(name, value)| ["-e".to_owned(), format!("{name}={value}")]),
            );
            start.push("--".to_owned());
            start.extend(argv.iter().cloned());
            start
        };
        let mut commands = self.dressing(held, pane, respawn(&pane.argv, &pane.env));
        let mut file = None;
        // A launch file is used in three cases. First, if the command has only one word, because
        // tmux would pass this word to a shell. Second, if a variable seems to be secret, because
        // every user of the machine can read the arguments of the tmux client. Third, if the call
        // would be too long.
        let is_open = pane.argv.len() > 1 && !pane.env.iter().any(|(name, _)| is_secret(name));
        if !is_open || message_bytes(&commands) > CALL_BYTES {
            let (argv, path) = self.by_file(pane)?;
            file = Some(path);
            commands = self.dressing(held, pane, respawn(&argv, &[]));
        }
        let answered = self.client.call(&commands, None).await;
        if let (Err(_), Some(path)) = (&answered, &file) {
            // The call failed, so delete the launch file. An error is ignored, because the program
            // may have read and deleted the file already.
            let _ = std::fs::remove_file(path);
        }
        let output = answered?;
        Ok(answers(&output).last().and_then(|fields| fields.first()?.parse().ok()))
    }

    /// Writes the launch data of a pane to a file. Returns the command that starts the program from
    /// this file, and the path of the file.
    fn by_file(&self, pane: &NewPane) -> Result<(Vec<String>, PathBuf), PaneError> {
        let path = Launch::of(pane).write(&self.temporary).map_err(|source| PaneError::Io {
            action: "write a launch file in",
            what: self.temporary.display().to_string(),
            source,
        })?;
        let mut argv = self.launcher.clone();
        argv.push(path.to_string_lossy().into_owned());
        Ok((argv, path))
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
                // Close the new pane, because the requested program was not started. An error is
                // ignored: the program that waits in the pane ends by itself, and the pane then
                // closes.
                let _ = self.client.call(&[words(["kill-pane", "-t", &held.pane.0])], None).await;
                Err(error)
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

/// A new pane in which only a waiting program runs. The requested program is not started yet.
#[derive(Debug)]
struct Held {
    pane: PaneId,
    window: String,
    window_name: String,
    session: String,
    /// The layout of the existing window that was split for the new pane. `None` if the pane has a
    /// new window.
    layout: Option<place::Layout>,
    is_window_ours: bool,
}

impl Held {
    fn read(output: &str, place: &Place) -> Result<Self, PaneError> {
        let answer = answers(output).next().and_then(|fields| <[&str; 4]>::try_from(fields).ok());
        let Some([pane, window, session, window_name]) = answer else {
            return Err(PaneError::Broken {
                program: "tmux".to_owned(),
                what: "did not tell the pane it made".to_owned(),
                stderr: String::new(),
            });
        };
        let (layout, is_window_ours) = match place {
            Place::Split { layout, .. } => (Some(*layout), *layout == place::Layout::Tiled),
            Place::Window { .. } | Place::Session => (None, true),
        };
        let [window, session, window_name] = [window, session, window_name].map(str::to_owned);
        Ok(Self {
            pane: PaneId(pane.to_owned()),
            window,
            window_name,
            session,
            layout,
            is_window_ours,
        })
    }
}

/// Returns the command that keeps a session open while no terminal is attached to it. This
/// overrides the user's configuration.
fn kept(session: &str) -> Words {
    words(["set-option", "-t", &format!("={session}:"), "destroy-unattached", "off"])
}

/// Returns the commands that make a window show the titles of its panes. They are used only for a
/// window that pitcrew created.
fn titled(pane: &str) -> [Words; 2] {
    let option = |name: &str, value: &str| words(["set-option", "-w", "-t", pane, name, value]);
    [option("pane-border-status", "top"), option("pane-border-format", " #{q/e:@pitcrew-title} ")]
}

/// Returns true if a variable with this name usually contains a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "HEADER"]
        .iter()
        .any(|word| name.contains(word))
}

/// Returns true if the error means that another process has used or closed the chosen place after
/// pitcrew had read the layout.
fn is_raced(error: &CallError) -> bool {
    let texts = ["duplicate session", "no space for new pane", "can't find", "create pane failed"];
    matches!(error, CallError::NoServer) || texts.iter().any(|text| error.says(text))
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// Returns tmux's name for a color of the team protocol.
fn tmux_color(color: &str) -> Option<&'static str> {
    Some(match color {
        "blue" => "blue",
        "green" => "green",
        "yellow" => "yellow",
        "purple" => "magenta",
        "orange" => "colour208",
        "pink" => "colour205",
        "cyan" => "cyan",
        "red" => "red",
        _ => return None,
    })
}
