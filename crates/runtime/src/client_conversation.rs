//! Reads a conversation file of the reference client. The file shows which mail the model has
//! received, and whether a later process can resume the conversation.
//!
//! For each entry of the conversation, the client appends one JSON line to
//! `<root>/projects/<folder>/<id>.jsonl`. The option `--session-id` sets the id, and a later
//! process resumes the conversation with `--resume`. The format is not public. This module accepts
//! only the forms recorded with the client's versions 2.1.39 and 2.1.330. A file in any other form
//! counts as no conversation.
//!
//! Mail appears as a `user` entry. A message that came through the message socket during a turn
//! appears as a `queued_command` attachment. The client writes that attachment only after the model
//! request that contained the message. If that request is the client's last one, for example
//! because the client agreed to shut down, the attachment is missing. In this case, a
//! `queue-operation` entry says that the message was part of a model request (the message was
//! "absorbed"). Source: `docs/interop.md`, "Conversations".

mod open_turn;

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::Given;
use pitcrew_protocol::{Frame, attribute};
use pitcrew_team::Mail;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use open_turn::has_open_turn;

/// Maximum number of bytes read from the end of a conversation file. One day of work makes about
/// ten megabytes.
const READ_MOST: u64 = 256 * 1024 * 1024;

/// Maximum number of bytes read from the end of a conversation file before each message to the
/// client's socket. It is smaller than `READ_MOST`, because this read happens for every message.
const LATEST_MOST: u64 = 16 * 1024 * 1024;

/// The client wraps mail in tags: the first tag is for mail from an inbox file, the second for mail
/// from a socket. Each tag is listed with the attribute that names the sender.
const TAGS: [(&str, &str); 2] =
    [("teammate-message", "teammate_id=\""), ("cross-session-message", "from=\"")];

/// The reason that the client records when a turn takes a queued message into a model request.
const ABSORBED: &str = "absorbed_mid_turn";

/// The mail found in one conversation of the reference client.
#[derive(Debug, Default)]
pub(crate) struct ClientConversation {
    mail: Vec<Told>,
    /// Messages that were part of a model request but are not in the conversation. A process that
    /// resumes the conversation does not see these messages.
    absorbed: Vec<Told>,
}

/// One message found in a conversation.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    from: String,
    text: String,
}

/// One line of the conversation file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    is_sidechain: bool,
    session_id: Option<String>,
    uuid: Option<String>,
    message: Option<Value>,
    attachment: Option<Value>,
    /// Why a message left the queue. The message's text is in `content`.
    reason: Option<String>,
    content: Option<Value>,
}

impl ClientConversation {
    /// Reads a whole conversation. Returns `None` if no conversation exists that a process could
    /// resume.
    pub(crate) fn read(root: &Path, id: &str) -> Option<Self> {
        Self::read_end(root, id, READ_MOST)
    }

    /// Reads only the end of a conversation (`LATEST_MOST` bytes), for use before each message.
    pub(crate) fn read_latest(root: &Path, id: &str) -> Option<Self> {
        Self::read_end(root, id, LATEST_MOST)
    }

    fn read_end(root: &Path, id: &str, most: u64) -> Option<Self> {
        let text = Given::ByUser.read_end(&file_of(root, id)?, most).ok()??;
        Self::of(&text, id)
    }

    fn of(text: &str, id: &str) -> Option<Self> {
        let (mut mail, mut absorbed) = (Vec::new(), Vec::new());
        let mut has_begun = false;
        for line in text.lines() {
            // Search the raw text of the line first, because parsing every line of a large file
            // would be slow.
            let is_of_interest = has_mail(line) || (!has_begun && line.contains("\"message\""));
            // The first line may be cut off, and the last line may be incomplete. Such lines do not
            // parse and are skipped.
            let Some(line) =
                is_of_interest.then(|| serde_json::from_str::<Line>(line).ok()).flatten()
            else {
                continue;
            };
            // Subagents' entries are not part of the main conversation.
            if line.is_sidechain {
                continue;
            }
            has_begun |= line.begins(id);
            for told in line.told().iter().flat_map(|text| messages_in(text)) {
                // The message is now in the conversation. Remove it from `absorbed`, which lists
                // only messages that are not in the conversation.
                if let Some(at) = absorbed.iter().position(|it| *it == told) {
                    absorbed.remove(at);
                }
                mail.push(told);
            }
            absorbed.extend(line.absorbed().iter().flat_map(|text| messages_in(text)));
        }
        has_begun.then_some(Self { mail, absorbed })
    }

    /// Counts absorbed messages as received, because the model has read them in a request. Use this
    /// for a conversation that no process resumes.
    pub(crate) fn ended(mut self) -> Self {
        self.mail.append(&mut self.absorbed);
        self
    }

    /// Returns the messages of `mail` that are not in the conversation. `mail` is in sending order.
    /// The client handles some structured messages (frames) itself. Such frames never enter a
    /// conversation, so they are left out.
    pub(crate) fn lacks<'a>(&self, mail: &[&'a Mail]) -> Vec<&'a Mail> {
        let mut told: Vec<Option<&Told>> = self.mail.iter().map(Some).collect();
        let mut lacking = Vec::new();
        // Start with the latest message. If a message was sent twice but arrived once, the first
        // copy then counts as missing.
        for mail in mail.iter().rev().filter(|mail| enters_conversations(mail)) {
            // Two messages may have the same text. Each one matches one message in the
            // conversation.
            match told.iter_mut().find(|told| told.is_some_and(|told| told.is(mail))) {
                Some(found) => *found = None,
                None => lacking.push(*mail),
            }
        }
        lacking.reverse();
        lacking
    }
}

impl Line {
    /// Returns true if this line is an entry of the model or of the user in the conversation `id`.
    /// A client can resume a conversation only if its file has such an entry.
    fn begins(&self, id: &str) -> bool {
        let is_entry = matches!(self.kind.as_str(), "user" | "assistant") && self.uuid.is_some();
        is_entry && self.session_id.as_deref() == Some(id)
    }

    /// Returns the texts of this entry that can contain mail.
    fn told(&self) -> Vec<String> {
        match self.kind.as_str() {
            "user" => self
                .message
                .as_ref()
                .map(|message| texts(message.get("content")))
                .unwrap_or_default(),
            "attachment" => {
                let queued = self
                    .attachment
                    .as_ref()
                    .filter(|it| it.get("type").is_some_and(|kind| kind == "queued_command"));
                queued.map(|queued| texts(queued.get("prompt"))).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

impl Line {
    /// Returns the queued texts that a turn took into a model request.
    fn absorbed(&self) -> Vec<String> {
        let is_absorbed =
            self.kind == "queue-operation" && self.reason.as_deref() == Some(ABSORBED);
        if is_absorbed { texts(self.content.as_ref()) } else { Vec::new() }
    }
}

impl Told {
    fn is(&self, mail: &Mail) -> bool {
        let (told, sent) = (trimmed(&self.text), trimmed(&mail.message.text));
        // The client appends its own text to some structured messages (frames), so compare only the
        // beginning of a frame.
        let is_text = told == sent || (mail.frame.is_some() && told.starts_with(sent));
        is_text && self.from == attribute(&mail.message.from)
    }
}

/// Returns true if the client adds this message to its model's conversation. Returns false for
/// frames that the client handles itself.
pub(crate) fn enters_conversations(mail: &Mail) -> bool {
    match &mail.frame {
        None | Some(Frame::TaskAssignment(_) | Frame::ShutdownRequest(_)) => true,
        Some(
            Frame::IdleNotification(_)
            | Frame::TaskCompleted(_)
            | Frame::ShutdownApproved(_)
            | Frame::ShutdownRejected(_)
            | Frame::ShutdownResponse(_)
            | Frame::PlanApprovalRequest(_)
            | Frame::PlanApprovalResponse(_)
            | Frame::PermissionRequest(_)
            | Frame::PermissionResponse(_)
            | Frame::TeammateTerminated(_),
        ) => false,
    }
}

/// Returns the lines in which the reference client recorded the conversation with this id, to show
/// them to a person. Of a longer conversation, returns the last `most` bytes. Returns `None` if there
/// is no such conversation below the root folder.
#[must_use]
pub fn client_conversation(root: &Path, id: &str, most: u64) -> Option<String> {
    Given::ByUser.read_end(&file_of(root, id)?, most.min(READ_MOST)).ok()?
}

/// Finds the file of a conversation in any project's folder.
pub(crate) fn file_of(root: &Path, id: &str) -> Option<PathBuf> {
    let is_id = id.len() == 36 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let projects =
        if is_id { Given::ByUser.entries(&root.join("projects")).ok()? } else { Vec::new() };
    let files = projects.into_iter().map(|project| project.join(format!("{id}.jsonl")));
    files.into_iter().find(|file| matches!(Given::ByUser.read_end(file, 1), Ok(Some(_))))
}

fn has_mail(line: &str) -> bool {
    TAGS.iter().any(|(tag, _)| line.contains(tag))
}

/// Returns the texts of a `content` value, which is a string or a list of blocks. Tool results are
/// never mail and are left out.
fn texts(content: Option<&Value>) -> Vec<String> {
    match content {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(blocks)) => {
            let text = |block: &Value| Some(block.get("text")?.as_str()?.to_owned());
            blocks
                .iter()
                .filter(|block| block.get("type").is_some_and(|kind| kind == "text"))
                .filter_map(text)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Finds the messages in a text. Each message has the form `<TAG ... ATTRIBUTE="FROM" ...>`, line
/// break, message text, line break, closing tag.
fn messages_in(text: &str) -> Vec<Told> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((tag, attribute, after)) = next_tag(rest) {
        let parts = after.split_once(">\n").and_then(|(head, body)| {
            let (message, after) = body.split_once(&format!("\n</{tag}>"))?;
            let from = head.split_once(attribute)?.1.split_once('"')?.0;
            Some((Told { from: from.to_owned(), text: message.to_owned() }, after))
        });
        rest = match parts {
            Some((told, after)) => {
                found.push(told);
                after
            }
            None => after,
        };
    }
    found
}

/// Finds the next opening tag. Returns the tag's name, the attribute that names the sender, and the
/// text after the tag's name.
fn next_tag(text: &str) -> Option<(&'static str, &'static str, &str)> {
    let found = TAGS.iter().filter_map(|(tag, attribute)| {
        let (before, after) = text.split_once(&format!("<{tag} "))?;
        Some((before.len(), *tag, *attribute, after))
    });
    found.min_by_key(|(at, ..)| *at).map(|(_, tag, attribute, after)| (tag, attribute, after))
}

/// Removes the characters that the client trims from both ends of a text.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::{Message, MessageId};
    use serde_json::json;

    use super::*;

    fn mail(from: &str, text: &str) -> Mail {
        let message = Message::new(from, text.to_owned(), "2026-11-23T00:29:38.000Z".to_owned());
        Mail { id: MessageId(format!("{from}-{text}")), message, frame: Frame::detect(text) }
    }

    /// Returns the texts of the messages that a conversation with these lines does not contain.
    fn lacking(lines: &[Value], mail: &[Mail]) -> Option<Vec<String>> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mail: Vec<&Mail> = mail.iter().collect();
        let lacking = ClientConversation::of(&text, ID)?
            .lacks(&mail)
            .into_iter()
            .map(|mail| mail.message.text.clone())
            .collect();
        Some(lacking)
    }

    const ID: &str = "3bacbbef-0790-4d04-a603-4427723f5762";

    fn user(content: &str) -> Value {
        serde_json::json!({"type": "user", "sessionId": ID, "uuid": "u", "message": {"role": "user", "content": content}})
    }

    #[test]
    fn mail_of_the_file_and_of_the_socket_is_found_as_both_versions_write_it() {
        let queued = serde_json::json!({"type": "attachment", "attachment": {"type": "queued_command",
            "prompt": "<cross-session-message from=\"operator\" from-name=\"operator\" from-mode=\"default\">\nin the turn\n</cross-session-message>"}});
        let frame = r#"{"type":"task_assignment","taskId":"1","subject":"s","description":"d","assignedBy":"team-lead","timestamp":"t"}"#;
        let lines = [
            user("<teammate-message teammate_id=\"team-lead\">\ngo\n</teammate-message>"),
            queued,
            user(
                "Another Claude session sent a message:\n<cross-session-message from=\"ops\" from-name=\"ops\">\nidle\n</cross-session-message>\n\nCaution.",
            ),
            user(&format!(
                "<teammate-message teammate_id=\"operator\" color=\"blue\">\none\n</teammate-message>\n\n<teammate-message teammate_id=\"team-lead\">\n{frame}\n\nSome help.\n</teammate-message>"
            )),
        ];
        let sent = [
            mail("team-lead", "go"),
            mail("operator", "in the turn"),
            mail("ops", "idle"),
            mail("operator", " one\n"),
            mail("team-lead", frame),
        ];
        assert_eq!(lacking(&lines, &sent), Some(Vec::new()));
        assert_eq!(
            lacking(&lines, &[mail("bob", "one"), mail("operator", "on")]),
            Some(vec!["one".into(), "on".into()])
        );
    }

    #[test]
    fn each_of_two_equal_messages_is_one_in_the_conversation() {
        let lines = [user("<teammate-message teammate_id=\"ann\">\nmore\n</teammate-message>")];
        let sent = [("first", mail("ann", "more")), ("again", mail("ann", "more"))];
        let sent = sent.map(|(id, mail)| Mail { id: MessageId(id.to_owned()), ..mail });
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let lacking = ClientConversation::of(&text, ID).unwrap().lacks(&sent.each_ref());
        assert_eq!(
            lacking.iter().map(|mail| mail.id.0.as_str()).collect::<Vec<_>>(),
            ["first"],
            "the latest arrived"
        );
    }

    #[test]
    fn what_only_waits_in_the_client_or_stands_in_a_result_is_not_in_the_conversation() {
        let tagged = "<cross-session-message from=\"ann\">\nlook\n</cross-session-message>";
        let lines = [
            user("go"),
            serde_json::json!({"type": "queue-operation", "operation": "enqueue", "content": tagged}),
            serde_json::json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": tagged}]}}),
            serde_json::json!({"type": "user", "isSidechain": true, "message": {"content": tagged}}),
        ];
        assert_eq!(lacking(&lines, &[mail("ann", "look")]), Some(vec!["look".into()]));
    }

    #[test]
    fn what_a_turn_absorbed_has_reached_the_model_but_is_in_no_conversation_that_goes_on() {
        let tagged = "<cross-session-message from=\"ann\">\nlook\n</cross-session-message>";
        let queue = |operation: &str, reason: Option<&str>| json!({"type": "queue-operation", "operation": operation, "reason": reason, "content": tagged});
        let attached = json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": tagged}});
        let absorbed = queue("remove", Some(ABSORBED));
        let sent = [mail("ann", "look"), mail("ann", "look")];
        for (lines, lacking, lacking_for_good) in [
            (vec![user("go"), queue("enqueue", None), absorbed.clone()], 2, 1),
            (vec![user("go"), absorbed.clone(), attached.clone()], 1, 1),
            (vec![user("go"), absorbed.clone(), attached, absorbed], 1, 0),
            (vec![user("go"), queue("remove", Some("cancelled"))], 2, 2),
        ] {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let lacks = |it: ClientConversation| it.lacks(&sent.each_ref()).len();
            let of = || ClientConversation::of(&text, ID).unwrap();
            assert_eq!((lacks(of()), lacks(of().ended())), (lacking, lacking_for_good), "{text}");
        }
    }

    #[test]
    fn frames_that_the_client_acts_on_by_itself_are_not_looked_for() {
        let answer = r#"{"type":"permission_response","request_id":"perm-1","subtype":"success","response":{}}"#;
        assert_eq!(lacking(&[user("go")], &[mail("team-lead", answer)]), Some(Vec::new()));
    }

    #[test]
    fn a_file_without_a_conversation_is_none() {
        let of = |text: &str| ClientConversation::of(text, ID);
        assert!(of("{\"type\":\"mode\",\"mode\":\"normal\"}\nnot json \"message\"\n").is_none());
        assert!(
            of("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"go\"}}\n")
                .is_none()
        );
        let (root, id) = (tempfile::tempdir().unwrap(), ID);
        assert!(ClientConversation::read(root.path(), id).is_none());
        std::fs::create_dir_all(root.path().join("projects/-a-b")).unwrap();
        std::fs::write(
            root.path().join(format!("projects/-a-b/{id}.jsonl")),
            user("go").to_string(),
        )
        .unwrap();
        assert!(ClientConversation::read(root.path(), id).is_some());
        assert!(ClientConversation::read(root.path(), "../-a-b/3bacbbef").is_none());
    }
}
