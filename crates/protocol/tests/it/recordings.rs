//! Every recording below `fixtures/` is read and written back.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{Frame, Message, Task, TeamConfig, from_text};
use serde::{Serialize, de::DeserializeOwned};

fn recordings() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures"), &mut found);
    found.sort();
    found
}

fn check_round_trip<T: Serialize + DeserializeOwned>(path: &Path, text: &str) -> T {
    let read: T = from_text(text).unwrap_or_else(|e| panic!("{}: {e}: {}", path.display(), e.source));
    let written = serde_json::to_string_pretty(&read).unwrap();
    assert_eq!(written, text.trim_end(), "{}", path.display());
    read
}

#[test]
fn configs_inboxes_and_tasks_are_written_back_to_the_byte() {
    let mut frames = 0;
    for path in recordings().iter().filter(|p| p.extension().is_some_and(|e| e == "json")) {
        let text = std::fs::read_to_string(path).unwrap();
        let shown = path.to_string_lossy();
        if shown.ends_with("config.json") {
            check_round_trip::<TeamConfig>(path, &text);
        } else if shown.contains("/tasks/") {
            check_round_trip::<Task>(path, &text);
        } else if shown.contains("/inboxes") {
            for message in check_round_trip::<Vec<Message>>(path, &text) {
                let frame = Frame::detect(&message.text);
                assert_eq!(frame.is_some(), message.text.starts_with('{'), "{}", message.text);
                if let Some(frame) = frame {
                    assert_eq!(frame.to_text().unwrap(), message.text);
                    frames += 1;
                }
            }
        }
    }
    assert!(frames > 30, "only {frames} frames were seen");
}
