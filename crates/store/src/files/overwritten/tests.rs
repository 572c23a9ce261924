//! Tests that pitcrew restores changes that a writer without a lock has overwritten.

use crate::NewTeam;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use pitcrew_protocol::AgentName;

use super::*;
use crate::{FileOptions, MailStore as _, TeamStore as _};

struct Inbox {
    team: TeamDir,
    name: InboxFile,
    path: PathBuf,
}

impl Inbox {
    /// Sends a message. Calls `between` when the message is in the inbox but not yet in the log.
    fn send(&self, files: &Files, id: &str, between: impl FnOnce()) {
        let message = Message::new("ann", "hello".into(), "2026-11-20T11:48:29.735Z".into());
        let message = message.with_id(&MessageId(id.into()));
        let plan = |text: Option<&str>| {
            let text = array::appended(text.unwrap_or("[]"), &[&message]).map_err(Fault::Torn)?;
            Ok(Plan::Write(text.into_bytes(), ()))
        };
        let lines = |_: &()| {
            between();
            sent(&message).into_iter().collect()
        };
        files.update_mail(&self.team, &self.name, plan, lines).unwrap();
    }
}

#[tokio::test]
async fn a_message_is_missed_that_was_overwritten_before_it_was_noted() {
    let root = tempfile::tempdir().unwrap();
    let open = || FileBackend::open(root.path(), FileOptions::default());
    let (ann, bob, reader) = (open(), open(), open());
    let config =
        r#"{"name": "probe", "members": [{"name": "team-lead", "tmuxPaneId": "", "pitcrew": {}}]}"#;
    ann.create_team(&serde_json::from_str(config).unwrap(), &NewTeam::default()).await.unwrap();
    let (team, name) = (TeamDir::of("probe"), AgentName::foreign("team-lead").inbox_file());
    let path = ann.files().paths.inbox(&team, &name);
    let inbox = Inbox { team, name, path };
    inbox.send(ann.files(), "first", || ());
    let older = fs::read(&inbox.path).unwrap();
    let (is_sent, wait_sent) = mpsc::channel();
    let (go_on, wait_to_go_on) = mpsc::channel();
    thread::scope(|scope| {
        let (inbox, ann) = (&inbox, ann.files());
        let ann = scope.spawn(move || {
            inbox.send(ann, "ann's", || {
                is_sent.send(()).unwrap();
                wait_to_go_on.recv().unwrap();
            });
        });
        wait_sent.recv().unwrap();
        fs::write(&inbox.path, older).unwrap();
        inbox.send(bob.files(), "bob's", || {
            go_on.send(()).unwrap();
            ann.join().unwrap();
        });
    });
    let there = reader.inbox(&inbox.team, &inbox.name).await.unwrap();
    let ids: Vec<&str> = there.iter().map(|stored| stored.id.0.as_str()).collect();
    assert_eq!(ids, ["first", "ann's", "bob's"]);
}
