//! Finds out whether a Write or Edit call that a crash interrupted had already changed its file.

use std::path::Path;
use std::sync::Arc;

use pitcrew_agent::transcript::ToolCall;
use pitcrew_agent::{Event, Inspection};
use pitcrew_permission::gate::Gate;
use pitcrew_process::given_file::{contents, open_real};
use pitcrew_protocol::{CallEffect, PermissionMode, ToolTraits};
use pitcrew_tools::ReadLog;
use serde_json::Value;

use super::agent_context::AgentContext;
use super::calls::judged_path;

/// Inspects the file that the interrupted call would change if it ran again. If the permission gate
/// would refuse the call, this function does not read the file.
///
/// Write and Edit replace a whole file by renaming, so the file has either its old or its new
/// content. An Edit was done if the new text is in the file and the old text is not. If the content
/// does not show whether the call was done, the model must check.
pub(super) async fn inspect(
    agent_context: Arc<AgentContext>,
    gate: Arc<Gate>,
    mode: PermissionMode,
    call: ToolCall,
) -> Event {
    let id = call.id.clone();
    let look_at_it = move || match judged_path(&agent_context, &gate, mode, &call, None) {
        Ok(Some(file)) => look(
            &file,
            &agent_context.context.reads,
            agent_context.context.limits.file_bytes,
            &call,
        ),
        Ok(None) => Inspection::Undone,
        Err(_refusal) => Inspection::Unknown,
    };
    let looked = tokio::task::spawn_blocking(look_at_it).await;
    Event::Inspected { call: id, inspection: looked.unwrap_or(Inspection::Unknown) }
}

fn look(file: &Path, reads: &ReadLog, most: u64, call: &ToolCall) -> Inspection {
    let field = |name: &str| call.input.get(name).and_then(Value::as_str);
    let Some(path) = field("file_path") else { return Inspection::Undone };
    let found = open_real(file).and_then(|open| contents(open, most)).ok();
    let found = found.and_then(|bytes| String::from_utf8(bytes).ok());
    let done = |what: &str, found: &str| {
        reads.note_content(file.to_owned(), found.as_bytes());
        let text = format!("The file {path} has been {what}, before a crash interrupted you.");
        Inspection::Done { text, seen: reads.take_news() }
    };
    match ToolTraits::of(&call.tool).effect {
        CallEffect::WritesFile => match (found, field("content")) {
            (Some(found), Some(content)) if found == content => done("written", &found),
            (None, _) => Inspection::Undone,
            (Some(_), _) => Inspection::Unknown,
        },
        CallEffect::EditsFile => {
            let (Some(found), Some(old), Some(new)) =
                (found, field("old_string"), field("new_string"))
            else {
                return Inspection::Undone;
            };
            match (found.contains(old), !new.is_empty() && found.contains(new)) {
                (false, true) => done("edited", &found),
                (true, false) => Inspection::Undone,
                (true, true) | (false, false) => Inspection::Unknown,
            }
        }
        CallEffect::None
        | CallEffect::SubmitsPlan
        | CallEffect::SendsMessage
        | CallEffect::StartsAgent
        | CallEffect::CreatesTask
        | CallEffect::ChangesTask
        | CallEffect::ChecksTasks
        | CallEffect::EndsTeam => Inspection::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pitcrew_tools::PathLocks;

    #[track_caller]
    fn check(file: Option<&str>, tool: &str, input: Value, done: Option<bool>) {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = file {
            std::fs::write(folder.path().join("f"), text).unwrap();
        }
        let call =
            ToolCall { id: "a".to_owned(), tool: tool.to_owned(), input, key: "a".to_owned() };
        let reads = ReadLog::new(PathLocks::new());
        let found = match look(&folder.path().join("f"), &reads, 100, &call) {
            Inspection::Done { .. } => Some(true),
            Inspection::Undone => Some(false),
            Inspection::Unknown => None,
        };
        assert_eq!(found, done);
    }

    #[test]
    fn a_write_is_done_when_the_file_holds_its_content() {
        let input = || json!({"file_path": "f", "content": "new"});
        check(Some("new"), "Write", input(), Some(true));
        check(None, "Write", input(), Some(false));
        check(Some("old"), "Write", input(), None);
    }

    #[test]
    fn an_edit_is_done_when_its_new_text_stands_there_and_its_old_text_is_gone() {
        let input = || json!({"file_path": "f", "old_string": "old", "new_string": "new"});
        check(Some("a new b"), "Edit", input(), Some(true));
        check(Some("a old b"), "Edit", input(), Some(false));
        check(Some("a new old b"), "Edit", input(), None);
        check(Some("a b"), "Edit", input(), None);
    }
}
