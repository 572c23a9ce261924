//! The lasting connection of a user interface to the host of a team. It is opened again after the
//! host was gone: a change of the team's files says when to look for the host.

use std::time::Duration;

use futures_util::StreamExt as _;
use pitcrew_runtime::control_socket::{KnockError, Notifies};
use pitcrew_team::store::{Change, StoreError, Watch};
use pitcrew_team::{Team, TeamRecords};
use tokio::time::{Instant, sleep_until};

use super::{Following, FromHost, Since};
use crate::ViewError;
use crate::host::{HostEvent, HostState, What};
use crate::lead::LeadError;
use crate::notification::Notification;
use crate::recorded::of_files;

/// The first pause before this process knocks again at a host that does not open its socket yet.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause before this process knocks again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The connection to the host of a team, or the search for a host.
pub struct HostLink {
    team: Team,
    notifies: Notifies,
    /// The changes of the team. `None` while there is a connection, because then the host tells of
    /// changes.
    changes: Option<Watch>,
    connection: Connection,
    /// The place in the host's events from which to go on after a connection has ended.
    since: Option<Since>,
    /// The pause before the next connection, if the present one ends before it says anything. With a
    /// host that breaks every connection, this process must not connect without end.
    pause: Duration,
    /// Whether the caller does not know the end of the host, or knows no state at all.
    is_behind: bool,
    /// The news that is next, before which the caller may need the state from the team's files.
    ending: Option<Ending>,
}

/// The news that there is no host.
#[derive(Clone, Copy)]
enum Ending {
    Nobody,
    TeamGone,
}

enum Connection {
    Open(Box<Following>),
    /// There is no connection. `knock` is the time of the next attempt. It is `None` if nobody runs
    /// the team, so that only a change of the team is a reason for an attempt.
    Closed {
        knock: Option<Knock>,
    },
}

/// The next attempt to connect.
#[derive(Clone, Copy)]
struct Knock {
    at: Instant,
    /// The pause after this attempt, if the host exists and does not open.
    pause: Duration,
}

/// What the connection says.
#[derive(Debug)]
pub enum News {
    /// The connection is open. The value is the version of pitcrew in the host.
    Open(String),
    /// The whole state of the host. It replaces everything that was known.
    Snapshot(Box<HostState>),
    /// The next event.
    Event(Box<HostEvent>),
    /// The state of the team as its files have it. It replaces everything that was known. It comes
    /// if the host is gone before the caller has its last event.
    Recorded(Box<HostState>),
    /// No pitcrew process runs the team. From now on, this connection waits for one.
    Nobody,
    /// The team is no longer in its place: it was archived or deleted.
    TeamGone,
    /// The kernel reports no changes of the team, for the reason that the value gives.
    Unwatched(String),
}

impl HostLink {
    /// Prepares a connection. The first call of [`Self::next`] opens it.
    #[must_use]
    pub fn new(team: Team) -> Self {
        let connection = Connection::Closed { knock: Some(Knock::now()) };
        let notifies = Notifies::No;
        Self {
            team,
            notifies,
            changes: None,
            connection,
            since: None,
            pause: FIRST_PAUSE,
            is_behind: false,
            ending: None,
        }
    }

    /// Says that the caller knows no state, or an old one. Without a host, it then gets the state
    /// from the team's files first.
    #[must_use]
    pub fn behind(self) -> Self {
        Self { is_behind: true, ..self }
    }

    /// Goes on at this place in the host's events, without a snapshot if the host still has them.
    #[must_use]
    pub fn going_on(self, since: Option<Since>) -> Self {
        Self { since, ..self }
    }

    /// Returns the id of the host's run. It is `None` before the first connection.
    #[must_use]
    pub fn run(&self) -> Option<&str> {
        match &self.connection {
            Connection::Open(following) => Some(following.run()),
            Connection::Closed { .. } => self.since.as_ref().map(|since| since.run.as_str()),
        }
    }

    /// Offers the terminal of this process for notifications.
    #[must_use]
    pub fn notifying(self, notifies: Notifies) -> Self {
        Self { notifies, ..self }
    }

    /// Returns true if this process must show a notification of the host on its terminal.
    #[must_use]
    pub fn shows(&self, notification: &Notification) -> bool {
        match &self.connection {
            Connection::Open(following) => following.shows(notification),
            Connection::Closed { .. } => false,
        }
    }

    /// Waits for the next news. It is cancel-safe.
    ///
    /// # Errors
    /// Returns an error if the host refuses this process, or if the team cannot be read.
    pub async fn next(&mut self) -> Result<News, LeadError> {
        loop {
            if let Some(ending) = self.ending {
                if self.is_behind
                    && let Some(state) = recorded(&self.team).await
                {
                    self.is_behind = false;
                    return Ok(News::Recorded(Box::new(state)));
                }
                self.ending = None;
                return Ok(match ending {
                    Ending::Nobody => News::Nobody,
                    Ending::TeamGone => News::TeamGone,
                });
            }
            match &mut self.connection {
                Connection::Open(following) => match following.next().await {
                    FromHost::Snapshot(state) => {
                        self.pause = FIRST_PAUSE;
                        return Ok(News::Snapshot(state));
                    }
                    FromHost::Event(event) => {
                        self.pause = FIRST_PAUSE;
                        self.is_behind = !matches!(event.what, What::Ended(_));
                        return Ok(News::Event(event));
                    }
                    FromHost::Gone(_) => {
                        self.since = Some(following.since());
                        // The host may still exist, or may exist again already.
                        let knock = Knock { at: Instant::now() + self.pause, pause: self.pause };
                        self.connection = Connection::Closed { knock: Some(knock) };
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    }
                },
                Connection::Closed { knock } => {
                    let at = knock.map(|knock| knock.at);
                    // The watch begins before the knock. Otherwise a host that appears in between
                    // would not be noticed.
                    let changes = match &mut self.changes {
                        Some(changes) => changes,
                        changes @ None => match self.team.watch().await {
                            Ok(watch) => changes.insert(watch),
                            Err(StoreError::NoTeam { .. }) => {
                                self.ending = Some(Ending::TeamGone);
                                continue;
                            }
                            Err(source) => {
                                let team = self.team.dir().clone();
                                return Err(ViewError::Store { team, source }.into());
                            }
                        },
                    };
                    let news = tokio::select! {
                        change = changes.next() => self.changed(change),
                        () = reached(at) => self.knock().await?,
                    };
                    if let Some(news) = news {
                        return Ok(news);
                    }
                }
            }
        }
    }

    /// Handles a change of a team to which there is no connection.
    fn changed(&mut self, change: Option<Change>) -> Option<News> {
        match change {
            Some(Change::Gone) | None => {
                self.ending = Some(Ending::TeamGone);
                None
            }
            Some(Change::Unwatched { reason }) => Some(News::Unwatched(reason)),
            Some(
                Change::Lease(_)
                | Change::Journal
                | Change::Config
                | Change::Inbox(_)
                | Change::Tasks
                | Change::Unsure,
            ) => {
                self.connection = Connection::Closed { knock: Some(Knock::now()) };
                None
            }
        }
    }

    /// Tries to connect.
    async fn knock(&mut self) -> Result<Option<News>, LeadError> {
        let Connection::Closed { knock: Some(knock) } = self.connection else { return Ok(None) };
        let since = self.since.clone();
        let followed = match self.notifies {
            Notifies::No => super::follow(&self.team, since).await,
            Notifies::OnTerminal => super::follow_on_terminal(&self.team, since).await,
        };
        match followed {
            Ok(Some(following)) => {
                let version = following.version().to_owned();
                self.changes = None;
                self.is_behind = true;
                self.connection = Connection::Open(Box::new(following));
                Ok(Some(News::Open(version)))
            }
            Ok(None) => {
                self.connection = Connection::Closed { knock: None };
                self.ending = Some(Ending::Nobody);
                Ok(None)
            }
            // A host holds the lease of the team, and is just starting, ending or suspended.
            Err(LeadError::Unreachable {
                error: KnockError::Closed { .. } | KnockError::Silent { .. },
                ..
            }) => {
                self.connection = Connection::Closed { knock: Some(knock.later()) };
                Ok(None)
            }
            Err(LeadError::View(ViewError::Store {
                source: StoreError::NoTeam { .. }, ..
            })) => {
                self.ending = Some(Ending::TeamGone);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Knock {
    fn now() -> Self {
        Self { at: Instant::now(), pause: FIRST_PAUSE }
    }

    fn later(self) -> Self {
        let pause = (self.pause * 2).min(LONGEST_PAUSE);
        Self { at: Instant::now() + self.pause, pause }
    }
}

/// Reads the state of a team that has no host, from its place or from the archive. Returns `None` if
/// it cannot be read.
async fn recorded(team: &Team) -> Option<HostState> {
    if let Ok(state) = of_files(&TeamRecords::Live(team.clone())).await {
        return Some(state);
    }
    let teams = team.teams();
    let archived = teams.find_archived(team.dir().as_str()).await.ok()??;
    of_files(&TeamRecords::Archived(teams.clone(), Box::new(archived))).await.ok()
}

/// Waits until a time. Without a time, this function waits forever.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
