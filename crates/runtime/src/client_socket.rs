//! The message socket of the reference client (2.1.224 and later). Through this socket, mail
//! reaches the client during a turn.
//!
//! A session writes a record with the path of its socket to `<root>/sessions/<pid>.json`. A
//! teammate writes only a key file to that folder, and it listens at `cc-socks/<pid>.sock`. The
//! protocol is not public, so a socket is used only if three checks pass. The record or key file
//! must have the start time of the receiver's process. The protocol version in a session's record
//! must be 1. The peer of the connection must be the receiver's process. Each message is written to
//! the receiver's inbox first. Pitcrew marks the message as read in the inbox (`Team::claim_mail`)
//! before it sends the message through the socket. The client therefore does not read the message
//! twice.
//!
//! The client starts a new turn with the socket's messages before it reads the messages that it
//! took from its inbox. Socket messages could therefore overtake inbox mail again and again, and
//! the model would never read the inbox mail. Two rules prevent that. A message uses the socket
//! only if all older mail of its receiver went through the socket too or is in the conversation.
//! And at most eight socket messages wait inside a client at a time. A client without a socket gets
//! its mail only through the inbox. Source: `docs/interop.md`, "The message socket".

use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_process::given_file::Given;
use pitcrew_process::identity::ProcessIdentity;
use pitcrew_protocol::{
    AgentName, ApiError, LEAD_NAME, MessageId, Program, TeamConfig, attribute, chain,
};
use pitcrew_team::{
    ClientConversation as Known, DeliveryState, Mail, Receipt, SpawnRecord, Team, lead_reads_inbox,
    sent_at_ms,
};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::client_conversation::{ClientConversation, enters_conversations};

/// The only version of the socket protocol that this module supports.
const PROTOCOL: u64 = 1;

/// Time limit for the socket to accept a connection or a message. The client normally answers
/// within milliseconds.
const SOCKET_TIME: Duration = Duration::from_secs(2);

/// Maximum number of bytes read from a session's record. Real records are smaller than 2 KiB.
const RECORD_MOST: u64 = 64 * 1024;

/// The status that a session writes while it is between turns. The session reads its inbox at that
/// time.
const IDLE: &str = "idle";

/// Maximum number of key files that are checked. Each client that was killed leaves its key file
/// behind.
const KEYS_MOST: usize = 10_000;

/// Maximum number of messages that wait inside a client at a time. The client takes them at its
/// next pause between two tool calls.
const BROUGHT_MOST: usize = 8;

/// The file in which the kernel lists the listening sockets. The next constant is the maximum
/// number of bytes read from this file.
const LISTENING: &str = "/proc/net/unix";
const LISTENING_MOST: u64 = 8 * 1024 * 1024;

/// Finds the message sockets of the reference clients that use one root folder (`~/.claude` by
/// default).
#[derive(Clone, Debug)]
pub struct ClientSockets {
    root: PathBuf,
    sessions: PathBuf,
}

/// The fields used from the record that a client writes for its session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionRecord {
    pid: u32,
    proc_start: Option<String>,
    peer_protocol: Option<u64>,
    messaging_socket_path: Option<PathBuf>,
    status: Option<String>,
}

/// The key file that a client writes beside the session record. A teammate writes only this file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyRecord {
    proc_start: Option<String>,
}

/// The path where a client's socket should be, and whether the client's record says that the client
/// is between two turns.
struct Offer {
    path: PathBuf,
    is_idle: bool,
}

/// An agent that runs the reference client and receives mail.
struct Receiver {
    process: ProcessIdentity,
    /// Whether the team's config says that the receiver is between two turns.
    is_idle: bool,
    /// Whether the receiver reads its inbox between turns.
    reads_inbox: bool,
    /// The receiver's conversation, if it is known.
    conversation: Option<Known>,
}

impl ClientSockets {
    /// Creates a finder for the sockets of clients that use this root folder.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), sessions: root.join("sessions") }
    }

    /// Delivers new messages through the sockets of receivers that are in the middle of a turn. A
    /// message that cannot be delivered this way stays in the inbox.
    pub async fn push(&self, team: &Team, receipts: &mut [Receipt]) {
        // Ignore errors, because the messages are in the inboxes already and arrive that way.
        let Ok(config) = team.config().await else { return };
        for receipt in receipts {
            let Some(receiver) = receiver(team, &config, &receipt.to).await else { continue };
            let Some(socket) = self.open(&receiver).await else { continue };
            match self.keeps_order(team, &receiver, receipt).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(to = %receipt.to, error = %chain(&error), "its socket is not used");
                    continue;
                }
            }
            match hand_over(team, &receiver, receipt, socket).await {
                Ok(Some(handed_over)) => *receipt = handed_over,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(to = %receipt.to, error = %chain(&error), "its socket is not used")
                }
            }
        }
    }

    /// Connects to the client's socket. Returns `None` if the client offers no socket, or if it is
    /// between two turns and reads its inbox anyway.
    async fn open(&self, receiver: &Receiver) -> Option<UnixStream> {
        let process = receiver.process;
        let offer = self.of_session(process).or_else(|| self.of_teammate(process))?;
        if !process.is_alive() || (receiver.reads_inbox && (offer.is_idle || receiver.is_idle)) {
            return None;
        }
        let socket = timeout(SOCKET_TIME, UnixStream::connect(offer.path)).await.ok()?.ok()?;
        // Any process of the same user can write a session record, or listen at the path in the
        // record. Check that the peer is the receiver's process.
        let peer = socket.peer_cred().ok()?.pid()?;
        (u32::try_from(peer) == Ok(process.pid)).then_some(socket)
    }

    /// Returns true if a message sent through the socket now overtakes no older message. This needs
    /// two things: no older message waits in the inbox, and the messages that the client took from
    /// the inbox are in its conversation.
    async fn keeps_order(
        &self,
        team: &Team,
        receiver: &Receiver,
        receipt: &Receipt,
    ) -> Result<bool, ApiError> {
        if !receiver.reads_inbox {
            // The receiver does not read its inbox. A message that is sent through the socket
            // therefore cannot overtake a message of the inbox.
            return Ok(true);
        }
        let known = team.known_mail(&receipt.to).await?;
        let Some(Known { id, since_ms, brought, .. }) = receiver.conversation.clone() else {
            return Ok(false);
        };
        let older = known.iter().take_while(|mail| mail.id != receipt.id);
        // Mail that was sent before this conversation began is not in the conversation and does not
        // count.
        let older: Vec<&Mail> = older.filter(|mail| sent_at_ms(mail) >= since_ms).collect();
        if older.iter().any(|mail| !mail.message.is_read()) {
            return Ok(false);
        }
        let root = self.root.clone();
        // The conversation file can have several megabytes, so read it on a blocking thread.
        let read =
            tokio::task::spawn_blocking(move || ClientConversation::read_latest(&root, &id)).await;
        let Ok(Some(conversation)) = read else { return Ok(false) };
        let (waiting, last) = not_in(&conversation, &brought, &older);
        let arrived: Vec<MessageId> =
            brought.iter().filter(|id| !waiting.contains(id)).cloned().collect();
        team.arrived(&receipt.to, &arrived).await?;
        Ok(waiting.len() < BROUGHT_MOST && last)
    }

    /// Reads the socket's path from the record that a session writes.
    fn of_session(&self, process: ProcessIdentity) -> Option<Offer> {
        let text = Given::ByUser
            .read_text(&self.sessions.join(format!("{}.json", process.pid)), RECORD_MOST)
            .ok()??;
        let record: SessionRecord = serde_json::from_str(&text).ok()?;
        let is_it = record.pid == process.pid && is_start_of(record.proc_start.as_deref(), process);
        let path = record.messaging_socket_path.filter(|path| path.is_absolute())?;
        let is_idle = record.status.as_deref() == Some(IDLE);
        (is_it && record.peer_protocol == Some(PROTOCOL)).then_some(Offer { path, is_idle })
    }

    /// Finds the path of a teammate's socket. A key file of the teammate's process shows that the
    /// teammate has a socket. The path is found in the kernel's list of sockets.
    fn of_teammate(&self, process: ProcessIdentity) -> Option<Offer> {
        let (keys, _more) = Given::ByUser.list(&self.sessions, "key", KEYS_MOST).ok()?;
        let begins = format!("{}.", process.pid);
        let is_its = |path: &&PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with(&begins))
        };
        keys.iter().filter(is_its).find(|path| {
            let text = Given::ByUser.read_text(path, RECORD_MOST).ok().flatten();
            let key = text.and_then(|text| serde_json::from_str::<KeyRecord>(&text).ok());
            key.is_some_and(|key| is_start_of(key.proc_start.as_deref(), process))
        })?;
        let listening = Given::ByUser.read_text(Path::new(LISTENING), LISTENING_MOST).ok()??;
        let end = format!("/cc-socks/{}.sock", process.pid);
        let path =
            listening.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let path = path.filter(|path| path.ends_with(&end)).map(PathBuf::from).next()?;
        Some(Offer { path, is_idle: false })
    }
}

fn is_start_of(start: Option<&str>, process: ProcessIdentity) -> bool {
    start.is_some_and(|start| start == process.start_ticks.to_string())
}

/// Finds the receiver if it runs the reference client: the lead of a session, or a teammate that
/// pitcrew started.
async fn receiver(team: &Team, config: &TeamConfig, to: &AgentName) -> Option<Receiver> {
    if to.as_str() == LEAD_NAME {
        let lead = config.lead_process.as_ref()?;
        let process = ProcessIdentity::of(lead.pid)?;
        return is_start_of(lead.proc_start.as_deref(), process).then_some(Receiver {
            process,
            is_idle: false,
            reads_inbox: lead_reads_inbox(config),
            conversation: conversation_of_lead(team, config).await,
        });
    }
    let member = config.member(to.as_str())?;
    // Check the spawn record first. Reading pitcrew's own records would create pitcrew's folder in
    // a team without pitcrew members.
    SpawnRecord::of(member).filter(|record| record.program == Program::Claude)?;
    let process = team.started().await.ok()?.remove(to)?.process?;
    let conversation = team.client_conversation(to).await.ok()?;
    Some(Receiver {
        process: ProcessIdentity::from(process),
        is_idle: member.is_active != Some(true),
        reads_inbox: true,
        conversation,
    })
}

/// Returns the lead's conversation: the session id from the config, and the messages that went
/// through the lead's socket.
async fn conversation_of_lead(team: &Team, config: &TeamConfig) -> Option<Known> {
    let id = config.lead_session_id.clone()?;
    let known = team.client_conversation(&AgentName::lead()).await.ok()?;
    Some(known.filter(|known| known.id == id).unwrap_or(Known { id, ..Known::default() }))
}

/// Delivers one message through the socket, unless the receiver has already taken the message from
/// its inbox. If the socket does not accept the message, the message is put back into the inbox.
async fn hand_over(
    team: &Team,
    receiver: &Receiver,
    receipt: &Receipt,
    mut socket: UnixStream,
) -> Result<Option<Receipt>, ApiError> {
    let Receipt { to, id, .. } = receipt;
    // Claim the message first, so that the client cannot also read it from its inbox.
    let Some(mail) = team.claim_mail(to, id).await? else { return Ok(None) };
    if let Some(conversation) = &receiver.conversation {
        // Record the delivery before writing to the socket. If pitcrew crashes in between, the
        // check that runs after the client has ended finds that the message is missing.
        team.bring_by_socket(to, &conversation.id, id).await?;
    }
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
        Ok(Err(_)) | Err(_) => {
            // The client did not receive the message, so return it to the inbox.
            team.forget_brought(to, std::slice::from_ref(id)).await?;
            team.put_back(to, mail).await.map(Some)
        }
    }
}

/// Returns the socket messages that are not in the conversation, and whether the latest inbox
/// message of `older` is in the conversation. The client reads its inbox in order, so the presence
/// of the latest inbox message shows that all earlier ones are present too.
fn not_in(
    conversation: &ClientConversation,
    brought: &[MessageId],
    older: &[&Mail],
) -> (Vec<MessageId>, bool) {
    let lacking: Vec<&MessageId> =
        conversation.lacks(older).into_iter().map(|mail| &mail.id).collect();
    let waiting = brought.iter().filter(|id| lacking.contains(id)).cloned().collect();
    let is_of_inbox = |mail: &&&Mail| enters_conversations(mail) && !brought.contains(&mail.id);
    let last = older.iter().rev().find(is_of_inbox);
    (waiting, last.is_none_or(|mail| !lacking.contains(&&mail.id)))
}

/// Formats a message for the socket as one JSON line. The text is put between the client's tags,
/// and the opening tag names the sender. This function does not escape `text`, because the text was
/// already escaped when it was written to the receiver's inbox.
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

    fn mail(text: &str) -> Mail {
        let message = pitcrew_protocol::Message::new(
            "ann",
            text.to_owned(),
            "2026-11-23T00:29:38.000Z".to_owned(),
        );
        Mail {
            id: MessageId(text.to_owned()),
            frame: pitcrew_protocol::Frame::detect(text),
            message,
        }
    }

    #[test]
    fn the_latest_message_of_the_inbox_decides_and_what_went_through_the_socket_waits_behind_it() {
        let id = "3bacbbef-0790-4d04-a603-4427723f5762";
        let conversation = |texts: &[&str]| {
            let tagged = |text: &&str| {
                format!("<teammate-message teammate_id=\"ann\">\n{text}\n</teammate-message>")
            };
            let content: Vec<String> = texts.iter().map(tagged).collect();
            let line = json!({"type": "user", "sessionId": id, "uuid": "u", "message": {"content": content.join("\n\n")}});
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(root.path().join("projects/p")).unwrap();
            std::fs::write(root.path().join(format!("projects/p/{id}.jsonl")), line.to_string())
                .unwrap();
            ClientConversation::read_latest(root.path(), id).unwrap()
        };
        let answer = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success","response":{}}"#;
        let mails = ["go", "by-socket", answer].map(mail);
        let older: Vec<&Mail> = mails.iter().collect();
        let brought = [MessageId("by-socket".to_owned())];
        assert_eq!(not_in(&conversation(&["go"]), &brought, &older), (brought.to_vec(), true));
        assert_eq!(
            not_in(&conversation(&["go", "by-socket"]), &brought, &older),
            (Vec::new(), true)
        );
        // The client has taken the message out of its inbox, but still holds the message only in
        // memory.
        assert_eq!(not_in(&conversation(&["by-socket"]), &brought, &older), (Vec::new(), false));
        assert_eq!(not_in(&conversation(&["go"]), &[], &older), (Vec::new(), false));
    }

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
