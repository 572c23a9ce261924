//! The event loop of the display of one agent. It handles events of the agent, keys, signals,
//! questions and changes of the team.

use std::sync::Arc;
use std::time::Instant;

use crossterm::event::Event as Key;
use futures_util::StreamExt as _;
use pitcrew_protocol::{AgentName, SendMessageInput};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::Section;
use pitcrew_runtime::run::{Ask, RunHandle};
use pitcrew_team::store::{Change, Watch};
use pitcrew_team::{Actor, MessageView, Team};
use pitcrew_tui::Keys;
use pitcrew_view::asking::{Questions, ShownPages};
use pitcrew_view::host::{Host, HostEvent, OpenQuestion, What};
use tokio::sync::mpsc;

use super::super::signals::{EndSignal, Signals};
use super::super::warnings::Remarks;
use super::super::watch::Watched;
use super::agent_view::AgentView;
use super::entry::{Entry, Typed};
use super::terminal::Terminal;
use crate::failure::Failure;
use crate::output::{self, FAINT, printable};

/// An input for which the event loop waits.
enum Wake {
    Event(Arc<HostEvent>),
    Over,
    Signal(EndSignal),
    Key(Key),
    Changed(Change),
    Remark(String),
}

/// The state of the event loop: the agent, what the terminal shows, the user's input and the open
/// questions.
struct AgentScreen {
    team: Team,
    agent: AgentName,
    agent_view: AgentView,
    entry: Entry,
    terminal: Terminal,
    questions: Questions,
    /// The layout of the permission request on the screen: its pages, and whether its permission
    /// rules are visible.
    seen: ShownPages,
    /// The number of unread messages in the agent's inbox.
    unread: usize,
    signal: Option<EndSignal>,
}

/// Displays one agent until the agent ends. `asked` receives the agent's permission requests, if
/// the person at this terminal is asked. A line that the user types answers the shown question.
/// If no question is shown, the line is a message to the agent. Esc interrupts the agent's turn.
/// The first Ctrl-C ends the agent cleanly, and the second ends it at once.
///
/// # Errors
/// Returns an error if single-key input is not available, or if the terminal is gone.
pub(crate) async fn watch(
    handle: RunHandle,
    team: Team,
    agent: AgentName,
    mut signals: Signals,
    asked: Option<mpsc::Receiver<Ask>>,
) -> Result<Watched, Failure> {
    let mut changes = team.watch().await.map_err(Failure::internal)?;
    let agent_view = AgentView::new(agent.clone(), team.name().to_string());
    let mut host = Host::open(handle, team.clone(), asked);
    let terminal = Terminal::enter().map_err(Failure::internal)?;
    let mut keys = Keys::open().map_err(Failure::internal)?;
    let mut remarks = Remarks::open();
    let began = Instant::now();
    let entry = Entry::default();
    let mut agent_screen = AgentScreen {
        team,
        agent,
        agent_view,
        entry,
        terminal,
        questions: Questions::default(),
        seen: ShownPages::default(),
        unread: 0,
        signal: None,
    };
    agent_screen.look().await;
    agent_screen.draw(&[])?;
    loop {
        let wake = tokio::select! {
            event = host.next() => event.map_or(Wake::Over, Wake::Event),
            signal = signals.next() => Wake::Signal(signal),
            key = keys.next() => Wake::Key(key),
            change = next(&mut changes) => Wake::Changed(change),
            remark = remarks.next() => Wake::Remark(remark),
        };
        let lines = match wake {
            Wake::Over => break,
            Wake::Event(event) => agent_screen.happened(&event).await,
            Wake::Signal(signal) => agent_screen.end(&host, signal),
            Wake::Key(key) => agent_screen.pressed(&host, key).await,
            Wake::Remark(text) => {
                printable(&text).lines().map(|line| format!("{FAINT}- {line}{FAINT:#}")).collect()
            }
            Wake::Changed(change) => {
                if agent_screen.shows(&change) {
                    agent_screen.look().await;
                }
                Vec::new()
            }
        };
        agent_screen.draw(&lines)?;
    }
    let AgentScreen { agent_view, terminal, signal, .. } = agent_screen;
    drop(terminal);
    remarks.left().iter().for_each(|remark| output::remark(remark));
    let (state, outcome) = (agent_view.into_state(), host.outcome().await);
    Ok(Watched { outcome, signal, state, watched: began.elapsed(), unwritten: None })
}

/// Waits for the next change of the team. If the team no longer exists, this function waits
/// forever.
async fn next(changes: &mut Watch) -> Change {
    match changes.next().await {
        Some(change) => change,
        None => std::future::pending().await,
    }
}

impl AgentScreen {
    fn draw(&mut self, lines: &[String]) -> Result<(), Failure> {
        let mut footer = self.agent_view.footer(self.unread, Terminal::room());
        let part = self.questions.current().map_or(Section::Ends, |question| question.part);
        if let Some(part) = footer.seen.kept(&self.seen, part) {
            // After a resize, the page that contains the previously visible text is shown.
            self.questions.show(part);
            self.agent_view.ask(self.questions.current());
            footer = self.agent_view.footer(self.unread, Terminal::room());
        }
        self.terminal.draw(lines, &footer, &self.entry.parts()).map_err(Failure::internal)?;
        self.seen = footer.seen;
        Ok(())
    }

    async fn happened(&mut self, event: &HostEvent) -> Vec<String> {
        match &event.what {
            What::Run(event) => return self.happened_in_run(event).await,
            What::QuestionOpened(question) => self.questions.opened(OpenQuestion::clone(question)),
            What::QuestionClosed { id, .. } => self.questions.closed(id),
            // The screen reads the team's files itself.
            What::Tasks(_) | What::Config(_) | What::Ended(_) => return Vec::new(),
        }
        self.ask()
    }

    async fn happened_in_run(&mut self, event: &RunEvent) -> Vec<String> {
        let mut lines = self.agent_view.apply(event);
        if let RunEvent::MailDelivered { ids, .. } = event {
            // The event contains only the ids of the messages. Their texts are read from the inbox.
            let mail = self.team.mail(&self.agent).await.unwrap_or_default();
            let delivered =
                mail.into_iter().filter(|mail| ids.contains(&mail.id)).map(MessageView::from);
            lines.extend(delivered.flat_map(|message| self.agent_view.mail(&message)));
        }
        lines
    }

    /// Returns whether the display must be updated after this change.
    fn shows(&self, change: &Change) -> bool {
        match change {
            Change::Inbox(inbox) => *inbox == self.agent.inbox_file(),
            Change::Tasks | Change::Unsure => true,
            // These changes do not update the display. `Change::Unwatched` means that the team
            // cannot be watched; the run itself prints a warning about that.
            Change::Config
            | Change::Journal
            | Change::Lease(_)
            | Change::Unwatched { .. }
            | Change::Gone => false,
        }
    }

    /// Reads the number of unread messages and the agent's task from the team's files. After an
    /// error, the old values stay until the next change.
    async fn look(&mut self) {
        if let Ok(unread) = self.team.unread(&self.agent).await {
            self.unread = unread.len();
        }
        if let Ok(tasks) = self.team.tasks().await {
            self.agent_view.tasks(&tasks);
        }
    }

    /// Shows the question that the user must answer next, if there is one.
    fn ask(&mut self) -> Vec<String> {
        let current = self.questions.current();
        let shown = self.agent_view.question();
        if shown.map(|it| &it.question) != current.as_ref().map(|it| &it.question) {
            self.entry.question_changed(shown.is_some(), current.is_some());
        }
        self.agent_view.ask(current);
        Vec::new()
    }

    async fn pressed(&mut self, host: &Host, key: Key) -> Vec<String> {
        match self.entry.take(key) {
            Typed::Editing | Typed::Resized => Vec::new(),
            Typed::Suspend => {
                // Ctrl-Z does nothing here, because a pane has no shell that could resume the
                // process.
                Vec::new()
            }
            Typed::Interrupt => {
                host.interrupt();
                Vec::new()
            }
            Typed::End => self.end(host, EndSignal::Interrupt),
            Typed::Turn(turn) => {
                self.questions.turn(turn, &self.seen);
                self.ask()
            }
            Typed::Line(line) if self.questions.current().is_some() => {
                let chosen = match self.questions.typed(&line, &self.seen) {
                    Ok(chosen) => chosen,
                    Err(said) => {
                        self.entry.put_back(&line);
                        return vec![format!("{FAINT}- {said}{FAINT:#}")];
                    }
                };
                let mut lines = self.ask();
                if let Some(chosen) = chosen
                    && let Err(error) = host.answer(&chosen).await
                {
                    // The lead, for example, has answered first.
                    lines.push(format!("{FAINT}- not answered: {error}{FAINT:#}"));
                }
                lines
            }
            Typed::Line(line) => self.send(line).await,
        }
    }

    /// Sends the user's line to the agent. The line is displayed later, when it enters the
    /// conversation.
    async fn send(&self, content: String) -> Vec<String> {
        let recipient = self.agent.to_string();
        let message =
            SendMessageInput::Message { recipient, content: content.clone(), summary: None };
        match self.team.send(&Actor::User, message, None).await {
            Ok(_receipt) => Vec::new(),
            Err(error) => {
                vec![format!("{FAINT}- not sent ({error}): {}{FAINT:#}", printable(&content))]
            }
        }
    }

    fn end(&mut self, host: &Host, signal: EndSignal) -> Vec<String> {
        if self.signal.replace(signal).is_some() {
            host.stopper().kill();
            return Vec::new();
        }
        host.stopper().stop();
        vec![format!("{FAINT}- ending; once more ends it at once{FAINT:#}")]
    }
}
