//! Notifies the user: by signals to the terminal of a display, by the desktop, and by the user's
//! own command. The host decides what to notify about and which display shows it. Only the process
//! of the host starts programs, so each notification is made once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_permission::settings::{NotifySettings, TerminalSignal};
use pitcrew_runtime::user_program;
use pitcrew_view::notification::{Notification, TerminalPlace};
use tokio::task::JoinSet;

use crate::client_version;
use crate::commands::run::Person;
use crate::context::Context;

/// The program that shows notifications on a desktop of freedesktop.org.
const DESKTOP_PROGRAM: &str = "notify-send";

/// The time limit of a program that notifies the user.
const DEADLINE: Duration = Duration::from_secs(5);

/// Maximum number of programs that notify the user at the same time.
const PROGRAMS_MOST: usize = 8;

/// The signals that a display sends to its terminal.
#[derive(Debug)]
pub(crate) struct Attention {
    signals: Vec<TerminalSignal>,
    place: TerminalPlace,
}

impl Attention {
    /// Returns the signals from the user's settings, otherwise the bell.
    pub(crate) fn of(context: &Context, settings: &NotifySettings) -> Self {
        let place = match context.variable("TMUX") {
            Some(_) => TerminalPlace::InTmux,
            None => TerminalPlace::Plain,
        };
        let signals = settings.terminal.clone().unwrap_or_else(|| vec![TerminalSignal::Bell]);
        Self { signals, place }
    }

    /// Returns true if the terminal gets no signals.
    pub(crate) fn is_silent(&self) -> bool {
        self.signals.is_empty()
    }

    /// Returns the characters that make the terminal show the notification.
    pub(crate) fn to(&self, notification: &Notification) -> String {
        notification.for_terminal(&self.signals, self.place)
    }
}

/// Notifies the user from the process of a host.
#[derive(Debug)]
pub(crate) struct Notifier {
    attention: Attention,
    desktop: Option<PathBuf>,
    command: Option<Vec<String>>,
    /// The working folder of the programs. It is not the project's folder.
    folder: PathBuf,
    /// The programs that run. The result of each is the reason why it failed.
    running: JoinSet<Option<String>>,
}

impl Notifier {
    /// Returns the notifier of a run. Without a person, only what the user's settings name is used.
    pub(crate) fn of(context: &Context, settings: NotifySettings, person: Person) -> Self {
        let uses_desktop = settings.desktop.unwrap_or(person == Person::There);
        let desktop =
            has_session_bus(context).then(|| client_version::find(context, DESKTOP_PROGRAM));
        Self {
            attention: Attention::of(context, &settings),
            desktop: desktop.flatten().filter(|_| uses_desktop),
            command: settings.command,
            folder: context.home.clone().unwrap_or_else(|| PathBuf::from("/")),
            running: JoinSet::new(),
        }
    }

    /// Returns a notifier that starts no programs, for a run that is not the user's own team.
    pub(crate) fn silent() -> Self {
        Self {
            attention: Attention { signals: Vec::new(), place: TerminalPlace::Plain },
            desktop: None,
            command: None,
            folder: PathBuf::from("/"),
            running: JoinSet::new(),
        }
    }

    /// Starts the programs that notify the user. Returns the characters for the terminal of this
    /// process, if this process shows the notification. Returns the reason if programs are left
    /// out.
    ///
    /// # Errors
    /// If too many programs run already.
    pub(crate) fn notify(&mut self, notification: &Notification) -> Result<String, String> {
        let shown = match notification.follower {
            None => self.attention.to(notification),
            Some(_) => String::new(),
        };
        // The result is one line of JSON. Every text in it can be written as JSON.
        let input = serde_json::to_string(notification).unwrap_or_default();
        for argv in self.programs(notification) {
            if self.running.len() >= PROGRAMS_MOST {
                return Err(format!("{PROGRAMS_MOST} programs that notify you still run"));
            }
            let (folder, input) = (self.folder.clone(), input.clone());
            self.running.spawn(async move { told(&argv, &input, &folder).await });
        }
        Ok(shown)
    }

    /// Returns the command lines of the programs. The texts of agents are never part of the user's
    /// command.
    fn programs(&self, notification: &Notification) -> Vec<Vec<String>> {
        let desktop = self.desktop.as_ref().map(|program| {
            let program = program.to_string_lossy().into_owned();
            // The desktop reads marks such as `<b>` in the text.
            let text = notification.text.replace('&', "&amp;").replace('<', "&lt;");
            let words = ["--app-name=pitcrew", "--", notification.title.as_str(), text.as_str()];
            std::iter::once(program).chain(words.map(str::to_owned)).collect()
        });
        desktop.into_iter().chain(self.command.clone()).collect()
    }

    /// Waits until a program has failed, and returns the reason. It is cancel-safe.
    pub(crate) async fn failure(&mut self) -> String {
        loop {
            match self.running.join_next().await {
                Some(Ok(Some(reason))) => return reason,
                Some(Ok(None) | Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until all programs have ended. Returns the reasons of those that failed.
    pub(crate) async fn finish(mut self) -> Vec<String> {
        let mut reasons = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            reasons.extend(ended.ok().flatten());
        }
        reasons
    }
}

/// Runs a program that notifies the user. Returns the reason if it failed.
async fn told(argv: &[String], input: &str, folder: &Path) -> Option<String> {
    let error = user_program::tell(argv, input, folder, DEADLINE).await.err()?;
    let program = argv.first().map_or("", String::as_str);
    Some(format!("warning: {program}, which notifies you, {error}"))
}

/// Returns true if the user has a session bus, which a desktop needs to show notifications.
fn has_session_bus(context: &Context) -> bool {
    let socket = || Some(Path::new(context.variable("XDG_RUNTIME_DIR")?).join("bus"));
    context.variable("DBUS_SESSION_BUS_ADDRESS").is_some()
        || socket().is_some_and(|socket| socket.exists())
}
