//! Tests that every recording below `fixtures/` is read and written back without a change. A file
//! that no test covers makes a test fail.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{
    Frame, Message, StreamEvent, Task, TeamCall, TeamConfig, from_text, message_ids,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::tools::TEAM_TOOLS;

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Returns the lines of a recording, each as text and as a JSON value.
pub(crate) fn lines(path: &Path) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| (line.to_owned(), serde_json::from_str(line).unwrap())).collect()
}

fn recordings() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&fixtures(), &mut found);
    found.sort();
    found
}

fn check_round_trip<T: Serialize + DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    let read: T =
        from_text(&text).unwrap_or_else(|e| panic!("{}: {e}: {}", path.display(), e.source));
    let written = serde_json::to_string_pretty(&read).unwrap();
    assert_eq!(written, text.trim_end(), "{}", path.display());
    read
}

fn check_inbox(path: &Path) {
    let messages = check_round_trip::<Vec<Message>>(path);
    for message in &messages {
        let frame = Frame::detect(&message.text);
        assert_eq!(frame.is_some(), message.text.starts_with('{'), "{}", message.text);
        if let Some(frame) = frame {
            assert_eq!(frame.to_text().unwrap(), message.text);
        }
    }
    let ids: std::collections::BTreeSet<_> = message_ids(&messages).into_iter().collect();
    assert_eq!(ids.len(), messages.len(), "{}", path.display());
}

fn check_stream(path: &Path) {
    for (line, value) in lines(path) {
        let event: StreamEvent =
            from_text(&line).unwrap_or_else(|e| panic!("{e}: {}: {line}", e.source));
        assert!(!matches!(event, StreamEvent::Other(_)), "{line}");
        let written: Value = serde_json::from_str(&event.to_line().unwrap()).unwrap();
        assert_eq!(written.to_string(), value.to_string(), "the fields and their order");
    }
}

fn check_hooks(path: &Path) {
    let calls = lines(path).into_iter().filter(|(_, hook)| hook.get("tool_name").is_some());
    for (line, hook) in calls {
        let name = hook["tool_name"].as_str().unwrap();
        match TeamCall::parse(name, hook["tool_input"].clone()) {
            Some(call) => drop(call.unwrap_or_else(|e| panic!("{e}: {line}"))),
            None => assert!(!TEAM_TOOLS.contains(&name), "{line}"),
        }
    }
}

#[test]
fn every_recording_is_read_and_written_back_to_the_byte() {
    let recordings = recordings();
    assert!(recordings.len() > 30, "only {} recordings were found", recordings.len());
    for path in recordings {
        let shown = path.strip_prefix(fixtures()).unwrap().to_string_lossy().into_owned();
        let name = path.file_name().unwrap().to_str().unwrap();
        match name {
            "config.json" => drop(check_round_trip::<TeamConfig>(&path)),
            _ if shown.contains("/inboxes") => check_inbox(&path),
            ".lock" => assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "{shown}"),
            _ if shown.contains("/tasks/") => {
                let task: Task = check_round_trip(&path);
                assert_eq!(format!("{}.json", task.id), name);
            }
            _ if shown.contains("/stream-json/") => check_stream(&path),
            "hooks.ndjson" => check_hooks(&path),
            "tool-input-schemas.json" => {
                let schemas: Value =
                    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
                assert!(TEAM_TOOLS.iter().all(|tool| schemas.get(tool).is_some()));
            }
            _ => panic!("nobody claims the recording {shown}"),
        }
    }
}

#[test]
fn every_recorded_frame_is_known() {
    let mut kinds = std::collections::BTreeSet::new();
    for path in recordings().iter().filter(|path| path.to_string_lossy().contains("/inboxes")) {
        let messages: Vec<Message> = from_text(&std::fs::read_to_string(path).unwrap()).unwrap();
        kinds.extend(
            messages.iter().filter_map(|message| Some(Frame::detect(&message.text)?.kind())),
        );
    }
    let kinds: Vec<&str> = kinds.into_iter().collect();
    insta::assert_snapshot!(kinds.join(" "), @"idle_notification permission_request permission_response plan_approval_request plan_approval_response shutdown_approved shutdown_rejected shutdown_request task_assignment");
}
