//! Starts a program in a new pane: first a program that only waits, then tag and options, and then
//! the requested program.

use super::Tmux;
use crate::tmux::client::{CallError, MARK, Words, answers, message_bytes, words};
use crate::tmux::listing;
use crate::tmux::place::{self, Place};
use crate::{NewPane, PaneError, PaneId};

/// The size of a session while no terminal is attached to it. A terminal that attaches changes this
/// size.
pub(super) const SIZE: [&str; 4] = ["-x", "200", "-y", "50"];

/// Maximum size of one tmux call in bytes. It must stay below 16 KiB, because a tmux message,
/// including its headers, cannot be longer.
const CALL_BYTES: usize = 12 * 1024;

/// Number of attempts to find a place for a pane. An attempt fails if another process changes the
/// layout at the same time.
const TRIES: usize = 4;

impl Tmux {
    /// Creates a pane in which, for now, a program runs that only waits. Chooses a place with
    /// enough room for the pane.
    pub(super) async fn hold(&self, pane: &NewPane) -> Result<Held, PaneError> {
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
    /// the pane. Returns the process id of the program.
    pub(super) async fn dress(
        &self,
        held: &Held,
        pane: &NewPane,
    ) -> Result<Option<u32>, PaneError> {
        let respawn = |argv: &[String]| {
            let mut start = words(["respawn-pane", "-k", "-t", &held.pane.0, "--"]);
            start.extend(argv.iter().cloned());
            start
        };
        let commands = self.dressing(held, pane, respawn(&pane.argv));
        // A command without variables can go through tmux itself. Variables may be secret: all users
        // see the arguments of the tmux client, and its server repeats them. A single word would go
        // to a shell, and a call may be too long.
        if pane.env.is_empty() && pane.argv.len() > 1 && message_bytes(&commands) <= CALL_BYTES {
            return self.start_in(&commands).await;
        }
        let offer = self.launcher.offer(pane)?;
        let pid = self.start_in(&self.dressing(held, pane, respawn(offer.argv()))).await?;
        let Some(pid) = pid else {
            return Err(PaneError::NotStarted {
                reason: "tmux did not tell the process of the pane".to_owned(),
            });
        };
        offer.give(Some(pid)).await.map(Some)
    }

    /// Carries out the commands that start a program, and returns the process id of the pane.
    async fn start_in(&self, commands: &[Words]) -> Result<Option<u32>, PaneError> {
        let output = self.client.call(commands, None).await?;
        Ok(answers(&output).last().and_then(|fields| fields.first()?.parse().ok()))
    }
}

/// A new pane in which only a waiting program runs. The requested program is not started yet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pane: PaneId,
    window: String,
    pub(super) window_name: String,
    pub(super) session: String,
    /// The layout of the existing window that was split for the new pane. `None` if the pane has a
    /// new window.
    pub(super) layout: Option<place::Layout>,
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
pub(super) fn kept(session: &str) -> Words {
    words(["set-option", "-t", &format!("={session}:"), "destroy-unattached", "off"])
}

/// Returns the commands that make a window show the titles of its panes. They are used only for a
/// window that pitcrew created.
pub(super) fn titled(pane: &str) -> [Words; 2] {
    let option = |name: &str, value: &str| words(["set-option", "-w", "-t", pane, name, value]);
    [option("pane-border-status", "top"), option("pane-border-format", " #{q/e:@pitcrew-title} ")]
}

/// Returns true if the error means that another process has used or closed the chosen place after
/// pitcrew had read the layout.
fn is_raced(error: &CallError) -> bool {
    let texts = ["duplicate session", "no space for new pane", "can't find", "create pane failed"];
    matches!(error, CallError::NoServer) || texts.iter().any(|text| error.says(text))
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
