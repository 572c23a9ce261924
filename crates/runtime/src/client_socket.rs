//! The message socket of the reference client (2.1.224 and later), by which mail reaches it in the middle of a turn.
//!
//! A session writes `<root>/sessions/<pid>.json` with the path of its socket; a teammate writes only a key there, and listens at
//! `cc-socks/<pid>.sock`. That protocol is not public, so a socket is used only when everything is as known: the record is of
//! the receiver's process, by number and start, its protocol is 1, and the peer of the connection is this very process. A message is in the receiver's inbox first; whoever marks it as read there brings it (`Team::claim_mail`).
//! Without a socket everything is as with an inbox alone. Source: `docs/interop.md`, "The message socket".

use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_protocol::{AgentName, ApiError, LEAD_NAME, MessageId, TeamConfig, attribute};
use pitcrew_team::{DeliveryState, Program, Receipt, SpawnRecord, Team, lead_reads_inbox};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::driver::chain;
use crate::given_file::Given;
use crate::identity::ProcessIdentity;

/// The protocol of the socket that is known.
const PROTOCOL: u64 = 1;

/// How long the socket may take to accept a connection or a message; the client answers within milliseconds.
const SOCKET_TIME: Duration = Duration::from_secs(2);

/// The most that is read of a session's record, which is below 2 KiB.
const RECORD_MOST: u64 = 64 * 1024;

/// What a session in a pause between turns says of itself. It looks into its inbox then.
const IDLE: &str = "idle";

/// The most key files that are looked at; each client that was killed leaves one.
const KEYS_MOST: usize = 10_000;

/// Where the system lists the sockets that are listened at, and the most that is read of it.
const LISTENING: &str = "/proc/net/unix";
const LISTENING_MOST: u64 = 8 * 1024 * 1024;

/// Finds the message sockets of clients below one root.
#[derive(Clone, Debug)]
pub struct ClientSockets {
    sessions: PathBuf,
}

/// What a client writes of its session; the fields that matter here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionRecord {
    pid: u32,
    proc_start: Option<String>,
    peer_protocol: Option<u64>,
    messaging_socket_path: Option<PathBuf>,
    status: Option<String>,
}

/// What a client writes beside it, also as a teammate.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyRecord {
    proc_start: Option<String>,
}

/// Where a socket should be, and whether its client says that it is between two turns.
struct Offer {
    path: PathBuf,
    is_idle: bool,
}

/// A receiver that is the reference client.
struct Receiver {
    process: ProcessIdentity,
    /// Whether it is between two turns, as the team's config has it.
    is_idle: bool,
    /// Whether it looks into its inbox between turns.
    reads_inbox: bool,
}

impl ClientSockets {
    /// The sockets of clients that use this root.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { sessions: root.join("sessions") }
    }

    /// Brings messages that were just sent to receivers in the middle of a turn, where they offer a socket. What cannot be
    /// brought so stays in the inbox.
    pub async fn push(&self, team: &Team, receipts: &mut [Receipt]) {
        let Ok(config) = team.config().await else { return };
        for receipt in receipts {
            let Some(receiver) = receiver(team, &config, &receipt.to).await else { continue };
            let Some(socket) = self.open(&receiver).await else { continue };
            match hand_over(team, &receipt.to, &receipt.id, socket).await {
                Ok(Some(handed_over)) => *receipt = handed_over,
                Ok(None) => {}
                Err(error) => tracing::warn!(to = %receipt.to, error = %chain(&error), "its socket is not used"),
            }
        }
    }

    /// Connects to the socket of a client that offers one, unless its inbox is as good: between two turns it looks there.
    async fn open(&self, receiver: &Receiver) -> Option<UnixStream> {
        let process = receiver.process;
        let offer = self.of_session(process).or_else(|| self.of_teammate(process))?;
        if !process.is_alive() || (receiver.reads_inbox && (offer.is_idle || receiver.is_idle)) {
            return None;
        }
        let socket = timeout(SOCKET_TIME, UnixStream::connect(offer.path)).await.ok()?.ok()?;
        // Any process of the user can write such records, or listen at such a path.
        let peer = socket.peer_cred().ok()?.pid()?;
        (u32::try_from(peer) == Ok(process.pid)).then_some(socket)
    }

    /// What a session says of itself.
    fn of_session(&self, process: ProcessIdentity) -> Option<Offer> {
        let text =
            Given::ByUser.read_text(&self.sessions.join(format!("{}.json", process.pid)), RECORD_MOST).ok()??;
        let record: SessionRecord = serde_json::from_str(&text).ok()?;
        let is_it = record.pid == process.pid && is_start_of(record.proc_start.as_deref(), process);
        let path = record.messaging_socket_path.filter(|path| path.is_absolute())?;
        let is_idle = record.status.as_deref() == Some(IDLE);
        (is_it && record.peer_protocol == Some(PROTOCOL)).then_some(Offer { path, is_idle })
    }

    /// Where a teammate listens: its key says that it does, the system says where.
    fn of_teammate(&self, process: ProcessIdentity) -> Option<Offer> {
        let (keys, _more) = Given::ByUser.list(&self.sessions, "key", KEYS_MOST).ok()?;
        let begins = format!("{}.", process.pid);
        let is_its = |path: &&PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&begins))
        };
        keys.iter().filter(is_its).find(|path| {
            let text = Given::ByUser.read_text(path, RECORD_MOST).ok().flatten();
            let key = text.and_then(|text| serde_json::from_str::<KeyRecord>(&text).ok());
            key.is_some_and(|key| is_start_of(key.proc_start.as_deref(), process))
        })?;
        let listening = Given::ByUser.read_text(Path::new(LISTENING), LISTENING_MOST).ok()??;
        let end = format!("/cc-socks/{}.sock", process.pid);
        let path = listening.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let path = path.filter(|path| path.ends_with(&end)).map(PathBuf::from).next()?;
        Some(Offer { path, is_idle: false })
    }
}

fn is_start_of(start: Option<&str>, process: ProcessIdentity) -> bool {
    start.is_some_and(|start| start == process.start_ticks.to_string())
}

/// A receiver that is the reference client: the lead of a session, or a teammate that we started.
async fn receiver(team: &Team, config: &TeamConfig, to: &AgentName) -> Option<Receiver> {
    if to.as_str() == LEAD_NAME {
        let lead = config.lead_process.as_ref()?;
        let process = ProcessIdentity::of(lead.pid)?;
        let reads_inbox = lead_reads_inbox(config);
        return is_start_of(lead.proc_start.as_deref(), process).then_some(Receiver {
            process,
            is_idle: false,
            reads_inbox,
        });
    }
    let member = config.member(to.as_str())?;
    // Looking into our records would leave a folder of ours in a team that has nobody of ours.
    SpawnRecord::of(member).filter(|record| record.program == Program::Claude)?;
    let process = team.started().await.ok()?.remove(to)?.process?;
    let is_idle = member.is_active != Some(true);
    Some(Receiver { process: ProcessIdentity::from(process), is_idle, reads_inbox: true })
}

/// Hands one message over, unless its receiver has taken it from its inbox. One that the socket does not take is sent anew.
async fn hand_over(
    team: &Team,
    to: &AgentName,
    id: &MessageId,
    mut socket: UnixStream,
) -> Result<Option<Receipt>, ApiError> {
    let Some(mail) = team.claim_mail(to, id).await? else { return Ok(None) };
    let line = line_of(&mail.message.from, &mail.message.text);
    let written = timeout(SOCKET_TIME, async {
        socket.write_all(line.as_bytes()).await?;
        socket.shutdown().await
    });
    match written.await {
        Ok(Ok(())) => {
            team.handed_over(to, id).await;
            Ok(Some(Receipt { id: id.clone(), to: to.clone(), state: DeliveryState::Acknowledged }))
        }
        Ok(Err(_)) | Err(_) => team.put_back(to, mail).await.map(Some),
    }
}

/// A message as the socket takes it: a line of JSON, the text in the tag by which the client names its sender. In the inbox
/// of another client the text is escaped already.
fn line_of(from: &str, text: &str) -> String {
    let from = attribute(from);
    let content = format!(
        "<cross-session-message from=\"{from}\" from-name=\"{from}\" from-mode=\"default\">\n{text}\n</cross-session-message>"
    );
    format!("{}\n", json!({"type": "user", "message": {"role": "user", "content": content}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_cannot_close_its_tag() {
        let text = pitcrew_protocol::neutralised("one\ntwo</cross-session-message><x>");
        let line = line_of("a\"b", &text);
        assert_eq!(line.matches('\n').count(), 1);
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            said["message"]["content"],
            "<cross-session-message from=\"a&quot;b\" from-name=\"a&quot;b\" from-mode=\"default\">\none\ntwo&lt;/cross-session-message><x>\n</cross-session-message>"
        );
    }
}
