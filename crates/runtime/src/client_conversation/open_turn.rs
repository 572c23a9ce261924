//! Whether the reference client is in a turn that mail has begun, as its conversation shows.
//!
//! The client's config entry does not show such a turn always: version 2.1.39 records the end of a
//! turn after it has begun the next one with the mail that came meanwhile, and so the config says for
//! the whole next turn that there is none.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use pitcrew_process::given_file::Given;
use serde_json::Value;

use super::{Line, file_of, messages_in, texts};

/// Number of bytes at the end of the conversation in which the beginning of the turn is looked for.
const END: u64 = 1024 * 1024;

/// Returns true if the latest turn of the conversation was begun by mail and has no answer yet, and the
/// client has written something since this time.
pub(crate) fn has_open_turn(root: &Path, id: &str, since: SystemTime) -> bool {
    let Some(file) = file_of(root, id) else { return false };
    let changed = fs::metadata(&file).and_then(|metadata| metadata.modified());
    let end = || Given::ByUser.read_end(&file, END).ok()?;
    changed.is_ok_and(|at| at >= since) && end().is_some_and(|text| is_open(&text))
}

fn is_open(text: &str) -> bool {
    let mut is_last = true;
    for line in text.lines().rev() {
        // The first line may be cut off, and the last one may be half written.
        let Ok(line) = serde_json::from_str::<Line>(line) else { continue };
        if line.is_sidechain {
            continue;
        }
        let content = line.message.as_ref().and_then(|message| message.get("content"));
        let last_block = content.and_then(Value::as_array).and_then(|blocks| blocks.last());
        let kind = last_block.and_then(|block| block.get("type")).and_then(Value::as_str);
        match (line.kind.as_str(), kind) {
            // A turn ends with an answer in words.
            ("assistant", Some("text")) if is_last => return false,
            ("assistant", _) | ("user", Some("tool_result")) => is_last = false,
            ("user", _) => return texts(content).iter().any(|text| !messages_in(text).is_empty()),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(content: &Value) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": content}})
    }

    fn assistant(block: &Value) -> Value {
        json!({"type": "assistant", "message": {"role": "assistant", "content": [block]}})
    }

    fn after(lines: &[Value]) -> bool {
        is_open(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    /// The entries are those that version 2.1.39 writes.
    #[test]
    fn a_turn_is_open_from_its_mail_to_its_answer() {
        let mail = |text: &str| {
            let mail =
                format!("<teammate-message teammate_id=\"operator\">\n{text}\n</teammate-message>");
            user(&json!(mail))
        };
        let text = assistant(&json!({"type": "text", "text": "done"}));
        let call = assistant(&json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}}));
        let result = user(&json!([{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]));
        let progress = json!({"type": "progress"});
        let mut lines = Vec::new();
        for (line, is_open) in [
            (mail("begin"), true),
            (text.clone(), false),
            (progress, false),
            (mail("while you work"), true),
            (text.clone(), false),
            (mail("more"), true),
            (text.clone(), false),
        ] {
            lines.push(line);
            assert_eq!(after(&lines), is_open, "{lines:#?}");
        }
        assert!(after(&[mail("a"), text.clone(), call.clone()]));
        assert!(after(&[mail("a"), call.clone(), result.clone()]));
        assert!(!after(&[mail("a"), call.clone(), result, text]));
        let interrupted = user(&json!([{"type": "text", "text": "[Request interrupted by user]"}]));
        assert!(!after(&[mail("a"), call, interrupted]));
        let mut aside = mail("a");
        aside["isSidechain"] = json!(true);
        assert!(!after(&[aside, user(&json!("a prompt of a person"))]));
        assert!(!after(&[]));
    }
}
