//! Panes of a tmux server.
//!
//! A pane is made with a program that only waits, is given its tag and options, and is then respawned with its real
//! argv: so nothing of that program's is missed, and a crash in between leaves a pane that ends by itself.

use pitcrew_protocol::PaneHost;
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::client::{CallError, Client, MARK, Words, answers, message_bytes, words};
use super::listing::{self, Listed};
use super::place::{self, Place};
use super::stranded;
use crate::launch::Launch;
use crate::{NewPane, PaneError, PaneId, PaneState, PaneTag, PaneView, Panes, StartedPane};

/// What waits in a session that has nothing to show yet, and how long: if we die meanwhile, it goes with it. Two words, so
/// that tmux asks no shell.
const HOLDING: [&str; 2] = ["sleep", "60"];

/// The session hidden panes are in.
const HIDDEN: &str = "pitcrew-hidden";

/// The size of a session nobody looks at yet; the first who attaches brings another.
const SIZE: [&str; 4] = ["-x", "200", "-y", "50"];

/// The most bytes of a call; tmux's message holds 16 KiB, headers and all.
const CALL_BYTES: usize = 12 * 1024;

/// How often a place is chosen anew when another process changed it under us.
const TRIES: usize = 4;

/// What makes tmux look after its children. It can miss the end of one (seen with 3.3a, one time in fifty), and tells its
/// status only when the next one ends; so one is made.
const NUDGE: [&str; 2] = ["run-shell", "true"];

/// How often that is tried: a process that is still on its way out takes a moment.
const NUDGES: usize = 3;

/// Which tmux, and where in it.
#[derive(Clone, Debug)]
pub struct TmuxOptions {
    /// The tmux program.
    pub program: PathBuf,
    /// The server's socket; none is the server we are in, else the user's default one.
    pub socket: Option<PathBuf>,
    /// What a server that is started reads instead of the user's configuration.
    pub config: Option<PathBuf>,
    /// The lead's own pane (`$TMUX_PANE`), when we are inside tmux.
    pub beside: Option<PaneId>,
    /// The session of our own when we are not inside tmux; it is made, detached, when it is first needed.
    pub session: String,
    /// The command that takes a launch file (`pitcrew pane-exec`), at least two words with the file.
    pub launcher: Vec<String>,
    /// The folder launch files are written in.
    pub temporary: PathBuf,
}

/// Panes of a tmux server.
#[derive(Debug)]
pub struct Tmux {
    client: Client,
    beside: Option<PaneId>,
    session: String,
    launcher: Vec<String>,
    temporary: PathBuf,
    /// What changes a layout takes turns, for each chooses its place by what it saw.
    turn: Semaphore,
}

impl Tmux {
    /// Panes by these options; nothing is started yet.
    #[must_use]
    pub fn new(options: TmuxOptions) -> Self {
        let TmuxOptions { program, socket, config, beside, session, launcher, temporary } = options;
        let keep =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let client = Client::new(program, socket, config);
        let session = session.chars().map(keep).collect();
        Self { client, beside, session, launcher, temporary, turn: Semaphore::new(1) }
    }

    /// The version of tmux.
    ///
    /// # Errors
    /// [`PaneError::Missing`] or [`PaneError::TooOld`].
    pub async fn version(&self) -> Result<&str, PaneError> {
        self.client.version().await
    }

    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
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

    /// Makes a pane that waits, where there is room for it.
    async fn hold(&self, pane: &NewPane) -> Result<Held, PaneError> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let panes = self.panes().await?;
            let place = place::next(&panes, self.beside.as_ref(), &self.session);
            match self.client.call(&self.holding(&place, pane), Some(&pane.cwd)).await {
                Ok(output) => return Held::read(&output, &place),
                // Another process was faster; what it made is seen at the next look.
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

    /// The commands that turn a waiting pane into the one asked for.
    fn dressing(&self, held: &Held, pane: &NewPane, start: Words) -> Vec<Words> {
        let id = held.pane.0.as_str();
        let option = |name: &str, value: &str| words(["set-option", "-p", "-t", id, name, value]);
        let mut commands = vec![
            option("@pitcrew", &pane.tag.to_string()),
            option("@pitcrew-title", &pane.title),
            option("remain-on-exit", "on"),
            // What a format inserts is not expanded again.
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

    /// Starts the program in a waiting pane.
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
        // tmux gives a single word to a shell, and every user of the machine can read the arguments of its client.
        let is_open = pane.argv.len() > 1 && !pane.env.iter().any(|(name, _)| is_secret(name));
        if !is_open || message_bytes(&commands) > CALL_BYTES {
            let (argv, path) = self.by_file(pane)?;
            file = Some(path);
            commands = self.dressing(held, pane, respawn(&argv, &[]));
        }
        let answered = self.client.call(&commands, None).await;
        if let (Err(_), Some(path)) = (&answered, &file) {
            // Nobody is going to take it; when it was taken nevertheless, there is nothing to delete.
            let _ = std::fs::remove_file(path);
        }
        let output = answered?;
        Ok(answers(&output).last().and_then(|fields| fields.first()?.parse().ok()))
    }

    /// Writes the launch to a file, and returns the argv that takes it with the file's path.
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

    /// The command that lays out a window anew when `without` has left it; none when it is not ours to lay out.
    fn laid_out(&self, panes: &[Listed], without: &Listed) -> Option<Words> {
        let mut inside = place::inside(panes, &without.session, &without.window);
        inside.retain(|it| it.pane != without.pane);
        let layout = place::layout(&inside, self.beside.as_ref())?;
        (inside.len() > 1).then(|| words(["select-layout", "-t", &without.window, layout.as_str()]))
    }

    /// Finds a pane that may be moved.
    async fn movable(&self, pane: &PaneId) -> Result<(Listed, Vec<Listed>), PaneError> {
        let panes = self.panes().await?;
        let Some(found) = panes.iter().find(|it| it.pane == *pane).cloned() else {
            return Err(PaneError::Gone { pane: pane.clone() });
        };
        if found.tag.is_none() {
            return Err(PaneError::Foreign { pane: pane.clone(), tag: "of pitcrew".to_owned() });
        }
        Ok((found, panes))
    }

    /// Moves a pane into a window of its own in the session of that name, which is made when it is not there.
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
                // Made a moment ago and never used; were it to stay, it would end by itself.
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
        // One that closed its terminal may go on without it.
        let lasting = found.ending.filter(|pid| is_there(*pid));
        Ok(lasting.map_or(found.state, |pid| PaneState::Running { pid: Some(pid) }))
    }

    async fn screen(&self, pane: &PaneId) -> Result<Option<String>, PaneError> {
        let Some(found) = self.pane(pane).await? else { return Ok(None) };
        let mut capture = words(["capture-pane", "-p", "-t", &pane.0]);
        if matches!(found.state, PaneState::Ended { .. }) {
            // Its last line says that it is dead; for that it was scrolled by one.
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
        // A server started meanwhile numbers its panes from 0: the tag is looked at once more, by tmux itself.
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

/// A pane that waits to become the one asked for.
#[derive(Debug)]
struct Held {
    pane: PaneId,
    window: String,
    window_name: String,
    session: String,
    /// How the window is laid out that it was split into; none in a new window.
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

/// The command that keeps a session that nobody is attached to, whatever the user's configuration says.
fn kept(session: &str) -> Words {
    words(["set-option", "-t", &format!("={session}:"), "destroy-unattached", "off"])
}

/// The commands that show who is who in a window of our own.
fn titled(pane: &str) -> [Words; 2] {
    let option = |name: &str, value: &str| words(["set-option", "-w", "-t", pane, name, value]);
    [option("pane-border-status", "top"), option("pane-border-format", " #{q/e:@pitcrew-title} ")]
}

/// Whether a variable of that name usually holds what nobody else may read.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "HEADER"]
        .iter()
        .any(|word| name.contains(word))
}

/// Whether a place was taken, filled or closed between our look and our step.
fn is_raced(error: &CallError) -> bool {
    let texts = ["duplicate session", "no space for new pane", "can't find", "create pane failed"];
    matches!(error, CallError::NoServer) || texts.iter().any(|text| error.says(text))
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// tmux's name for a colour of the wire.
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
