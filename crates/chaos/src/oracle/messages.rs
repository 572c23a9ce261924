//! Checks the delivery of every message. A message must be in the conversation of its receiver
//! exactly once. If it could not be delivered, it is dead, and its sender must have been informed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::{Finding, Scene};
use crate::brain::{IS_DEAD, tokens_in};
use crate::journal::entries;
use crate::stage::{Stage, files};
use crate::writers::{Writer, Written};

/// A message that was sent, according to the command or agent that sent it.
struct Sent {
    token: String,
    from: String,
    to: String,
    id: Option<String>,
    /// True if a program that takes no lock may have removed the message before anybody read it.
    may_vanish: bool,
}

pub(super) fn judge(scene: &Scene<'_>) -> Vec<Finding> {
    let post = MessageTraces::read(scene.stage);
    let mut findings = doubles(&scene.seen.most, "in a request");
    findings.extend(doubles(&post.transcripts, "in its transcript"));
    for sent in sent(scene) {
        if let Some(why) = fate(scene, &post, &sent) {
            findings.push(Finding::new(
                "a message is lost",
                format!("{} {}: {why}", sent.token, sent.id.unwrap_or_default()),
            ));
        }
    }
    findings
}

/// Returns a finding for each message that `pitcrew send` has sent and that is in no inbox.
pub(super) fn missing(stage: &Stage, acknowledged: &[Written]) -> Vec<Finding> {
    let post = MessageTraces::read(stage);
    let sent = acknowledged.iter().filter(|written| written.writer == Writer::Cli);
    let lost = sent.filter(|written| !post.known.contains(&written.token));
    lost.map(|written| Finding::new("an acknowledged message is gone", format!("{written:?}")))
        .collect()
}

/// Returns a finding for each message that an agent has more than once in `place` (its request or
/// its transcript).
fn doubles(counts: &BTreeMap<(String, String), usize>, place: &str) -> Vec<Finding> {
    let twice = counts.iter().filter(|(_, count)| **count > 1);
    let text = |((agent, token), count): (&(String, String), &usize)| {
        format!("{agent} has {token} {count} times {place}")
    };
    twice.map(text).map(|text| Finding::new("a message is doubled", text)).collect()
}

fn sent(scene: &Scene<'_>) -> Vec<Sent> {
    let tried = scene.seen.tried.iter().filter_map(|tried| {
        let (text, is_error) = scene.seen.results.get(&tried.call)?.clone()?;
        // Skip this message. If the call failed, it may have sent nothing. If the receiver had
        // ended, the answer of the call has already informed the sender.
        if is_error || text.contains(IS_DEAD) {
            return None;
        }
        let (token, from, to) = (tried.token.clone(), tried.from.clone(), tried.to.clone()?);
        Some(Sent { token, from, to, id: None, may_vanish: false })
    });
    let written = scene
        .written
        .iter()
        .filter(|written| matches!(written.writer, Writer::Honouring | Writer::Cli))
        .map(|written| Sent {
            token: written.token.clone(),
            from: "outside".to_owned(),
            to: written.to.clone(),
            id: written.id.clone(),
            may_vanish: written.writer == Writer::Honouring && scene.plan.writers.ignoring,
        });
    tried.chain(written).collect()
}

/// Describes what went wrong with the delivery of a message. Returns `None` if the message was
/// delivered, or if its sender was informed that it is dead.
fn fate(scene: &Scene<'_>, post: &MessageTraces, sent: &Sent) -> Option<String> {
    let key = (sent.to.clone(), sent.token.clone());
    if scene.seen.most.contains_key(&key) {
        return None;
    }
    // For a member that was killed, it is enough that its transcript contains the message. A member
    // that left by itself must also have sent the message to its model.
    if post.transcripts.contains_key(&key) && !post.left.contains(&sent.to) {
        return None;
    }
    let is_in_inbox = post.known.contains(&sent.token);
    let Some(id) = sent.id.as_ref().or_else(|| post.ids.get(&sent.token)) else {
        // A message that another client wrote has no id in the file. So the journal can only show
        // that some message to this receiver is dead.
        let may_be_dead = is_in_inbox && post.dead_of.contains(&sent.to);
        let may_be_unread = post.unread.contains(&sent.token) && sent.to == "team-lead";
        // The member had just left when another client wrote to it. The message is not lost,
        // because `pitcrew doctor` reports it.
        let is_late = post.unread.contains(&sent.token) && post.left.contains(&sent.to);
        let is_lost = !(sent.may_vanish || may_be_dead || may_be_unread || is_late);
        return is_lost
            .then(|| format!("not in a conversation; it is in the inbox: {is_in_inbox}"));
    };
    if let Some(DeadMessage { reason, gone }) = post.dead.get(id) {
        let is_told = sent.from == "outside"
            || gone.contains(&sent.from)
            || !scene.seen.latest.contains_key(&sent.from)
            || scene
                .seen
                .latest
                .get(&sent.from)
                .is_some_and(|heard| heard.told.contains(id.as_str()))
            || post
                .texts
                .iter()
                .any(|text| text.contains(id.as_str()) && text.contains("was not delivered"));
        return (!is_told).then(|| format!("dead ({reason}), and {} is not told", sent.from));
    }
    // An unread message to the lead came after the lead had finished. It is not lost, because the
    // next run of the team would read it.
    if sent.to == "team-lead" && post.unread.contains(&sent.token) {
        return None;
    }
    if sent.may_vanish {
        return None;
    }
    let steps: Vec<String> = post.steps.get(id).cloned().unwrap_or_default();
    Some(format!(
        "not in a conversation; the journal has {steps:?}, unread: {}",
        post.unread.contains(&sent.token)
    ))
}

/// What the team's files say about messages.
#[derive(Default)]
struct MessageTraces {
    /// The id of each message, by the token in its text.
    ids: BTreeMap<String, String>,
    /// The tokens of all messages in inboxes.
    known: BTreeSet<String>,
    /// How often a token is in the delivered messages of an agent's transcript, by agent and token.
    transcripts: BTreeMap<(String, String), usize>,
    /// The members that left the team by themselves.
    left: BTreeSet<String>,
    /// The receivers of messages that could not be delivered.
    dead_of: BTreeSet<String>,
    /// The tokens of unread messages.
    unread: BTreeSet<String>,
    /// The texts of all messages in inboxes.
    texts: Vec<String>,
    /// The messages that could not be delivered, by message id.
    dead: BTreeMap<String, DeadMessage>,
    /// The journal events of each message, by message id.
    steps: BTreeMap<String, Vec<String>>,
}

/// A message that could not be delivered.
struct DeadMessage {
    reason: String,
    /// The members that had left the team before. None of them can be told.
    gone: BTreeSet<String>,
}

impl MessageTraces {
    fn read(stage: &Stage) -> Self {
        let mut post = Self::default();
        let folder = stage.team_or_archive();
        for path in files(&folder.join("pitcrew/transcripts")) {
            let agent = path
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            post.add_transcript(&agent, &fs::read_to_string(&path).unwrap_or_default());
        }
        for path in files(&folder.join("inboxes")) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let messages: Value = serde_json::from_str(&text).unwrap_or_default();
            for message in messages.as_array().into_iter().flatten() {
                post.add(message);
            }
        }
        // This folder contains messages that were read long ago. Pitcrew has moved them out of the
        // inbox.
        for path in files(&folder.join("pitcrew/read")) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            for message in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok())
            {
                post.add(&message);
            }
        }
        let mut gone = BTreeSet::new();
        for entry in entries(stage) {
            if entry["event"] == "member_changed" {
                let member = entry["member"].as_str().map(str::to_owned);
                if entry["state"] == "completed" {
                    post.left.extend(member.clone());
                }
                if entry["state"] == "completed" || entry["state"] == "removed" {
                    gone.extend(member);
                }
            }
            let Some(id) = entry["id"].as_str() else { continue };
            let event = entry["event"].as_str().unwrap_or_default().to_owned();
            if event == "message_dead" {
                let reason = entry["reason"].as_str().unwrap_or_default().to_owned();
                post.dead.insert(id.to_owned(), DeadMessage { reason, gone: gone.clone() });
                post.dead_of.extend(entry["to"].as_str().map(str::to_owned));
            }
            post.steps.entry(id.to_owned()).or_default().push(event);
        }
        post
    }

    fn add_transcript(&mut self, agent: &str, text: &str) {
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for entry in entries.filter(|entry| entry["kind"] == "mail") {
            for token in tokens_in(entry["text"].as_str().unwrap_or_default()) {
                *self.transcripts.entry((agent.to_owned(), token.to_owned())).or_default() += 1;
            }
        }
    }

    fn add(&mut self, message: &Value) {
        let text = message["text"].as_str().unwrap_or_default();
        let id = message["metadata"]["pitcrew"]["id"].as_str();
        for token in tokens_in(text) {
            self.known.insert(token.to_owned());
            if let Some(id) = id {
                self.ids.insert(token.to_owned(), id.to_owned());
            }
            if message["read"] == false {
                self.unread.insert(token.to_owned());
            }
        }
        self.texts.push(text.to_owned());
    }
}
