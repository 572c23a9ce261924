//! Follows the host of a team from another process, and sends answers to it.

/// The protocol of the control socket that this version speaks.
pub use pitcrew_runtime::control_socket::PROTOCOL;

/// The connection to a host that sends its events.
#[derive(Debug)]
pub struct Following {}

/// What a host sends.
#[derive(Debug)]
pub enum FromHost {
    /// The state of the host. It replaces everything that was known before. It is the first thing
    /// that a host sends, unless the follower knows the events already. It also comes if the
    /// follower was too slow, so that the host no longer has the events between.
    Snapshot(Box<HostState>),
    /// The next event.
    Event(Box<HostEvent>),
    /// The connection has ended. After [`What::Ended`], this is how a host ends. Otherwise the
    /// process of the host ended or the connection broke; the error says why, if it is known.
    Gone(Option<io::Error>),
}

/// The place in the events of a host from which a follower goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The id of the host's run ([`Following::run`]).
    pub run: String,
    /// The number of the first event that the follower does not have ([`Following::next_seq`]).
    pub seq: u64,
}

/// Follows the host of a team. Without `since`, or if the host no longer has the events since then,
/// the first thing from the host is a snapshot.
///
/// Returns `None` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses, does not answer, or speaks another protocol.
pub async fn follow(team: &Team, since: Option<Since>) -> Result<Option<Following>, LeadError>;

impl Following {
    /// Waits for the next thing from the host. It is cancel-safe. After [`FromHost::Gone`], it
    /// returns `Gone` again.
    pub async fn next(&mut self) -> FromHost;

    /// Returns the id of the host's run.
    pub fn run(&self) -> &str;

    /// Returns the version of pitcrew in the host.
    pub fn version(&self) -> &str;

    /// Returns the number of the first event that was not received yet.
    pub fn next_seq(&self) -> u64;

    /// Returns the place from which to follow again after the connection has ended.
    pub fn since(&self) -> Since;

    /// Returns how many events were skipped because only a newer version knows them.
    pub fn unknown(&self) -> u64;
}

/// Answers a permission request that is open in the team's host.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses the answer or does not answer.
pub async fn answer(team: &Team, chosen: &Chosen) -> Result<bool, LeadError>;

/// Interrupts the current turn of the lead, or of a member that runs in the lead's process.
///
/// Returns `false` if no pitcrew process runs the team.
///
/// # Errors
/// When the host refuses, or does not answer.
pub async fn interrupt(team: &Team, member: Option<&AgentName>) -> Result<bool, LeadError>;
