//! Reads model calls from a conversation file of the reference client. For each call, the reader
//! returns the model, the tokens and the number of tool calls.
//!
//! Each content block of an answer is its own `assistant` entry, with the id, model and usage of
//! the whole answer. Each subagent has its own conversation file beside the main one,
//! `<id>/subagents/agent-<subagent>.jsonl`. The client's version 2.1.330 writes an entry when the
//! answer is complete. Version 2.1.39 writes the entry earlier, with the usage known at the start
//! of the answer. For that version, the output tokens are estimated from the length of the text.
//! Some calls of the client, such as the calls that create titles, are in no conversation and are
//! not counted. Source: `docs/interop.md`, "Model calls of a client".

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pitcrew_model::Usage;
use pitcrew_process::given_file::Given;
use serde::Deserialize;
use serde_json::Value;

use crate::client_conversation::file_of;

/// Maximum number of bytes read from a file in one step.
const READ_MOST: u64 = 16 * 1024 * 1024;

/// Maximum number of subagent files that are read.
const MOST_SUBAGENTS: usize = 1000;

/// The model name in entries that the client writes itself, without a model call.
const NO_MODEL: &str = "<synthetic>";

/// The fields of a content block that contain text written by the model.
const WRITTEN: [&str; 3] = ["text", "thinking", "input"];

/// Number of characters counted as one token if the client has not recorded the token count.
const CHARS_PER_TOKEN: usize = 4;

/// Reads the model calls of one conversation and of its subagents. Returns each call once.
#[derive(Debug)]
pub(crate) struct UsageReader {
    file: PathBuf,
    subagents: PathBuf,
    places: BTreeMap<PathBuf, Place>,
}

/// How far a file has been read.
#[derive(Clone, Debug, Default)]
struct Place {
    offset: u64,
    calls: u32,
    latest: String,
}

/// One model call of a reference client (Claude Code).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCall {
    /// The id of the subagent that made the call. `None` if the client itself made it.
    pub(crate) subagent: Option<String>,
    /// The number of the call within its conversation, counted from 1.
    pub(crate) nth: u32,
    /// The model that was called.
    pub(crate) model: String,
    /// The tokens that the call used.
    pub(crate) usage: Usage,
    /// Number of tool calls that the model made.
    pub(crate) tool_calls: u32,
}

/// One line of the conversation file.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type", default)]
    kind: String,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    id: String,
    model: String,
    #[serde(default)]
    content: Vec<Value>,
    stop_reason: Option<String>,
    usage: Option<Counts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
}

impl UsageReader {
    /// Creates a reader for a conversation. Returns `None` while its file does not exist.
    pub(crate) fn of(root: &Path, id: &str) -> Option<Self> {
        let file = file_of(root, id)?;
        let subagents = file.with_extension("").join("subagents");
        Some(Self { file, subagents, places: BTreeMap::new() })
    }

    /// Returns the calls that were added since the last read. The calls of one file keep their
    /// order in that file.
    pub(crate) fn read_on(&mut self) -> Vec<ClientCall> {
        let mut calls = self.read_file(&self.file.clone(), None);
        let (files, _) =
            Given::ByUser.list(&self.subagents, "jsonl", MOST_SUBAGENTS).unwrap_or_default();
        for file in files {
            let name = file
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            let id = name.strip_prefix("agent-").unwrap_or(&name).to_owned();
            calls.extend(self.read_file(&file, Some(&id)));
        }
        calls
    }

    fn read_file(&mut self, file: &Path, subagent: Option<&str>) -> Vec<ClientCall> {
        let place = self.places.entry(file.to_owned()).or_default();
        let mut messages = Vec::new();
        while let Ok(Some(bytes)) = Given::ByUser.read_from(file, place.offset, READ_MOST) {
            // Leave an incomplete last line for the next read, because the client may still be
            // writing it.
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let is_full = bytes.len() as u64 == READ_MOST;
            // Skip a line that is longer than one whole read. Such a line cannot be a model's
            // answer.
            let read = if whole == 0 && is_full { bytes.len() } else { whole };
            place.offset = place.offset.saturating_add(read as u64);
            let lines = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
            messages.extend(lines.lines().filter_map(message_of));
            if !is_full {
                break;
            }
        }
        place.count(messages, subagent)
    }
}

impl Place {
    /// Groups the entries in `messages` into calls. Leaves out the call that an earlier read has
    /// already counted.
    fn count(&mut self, messages: Vec<Message>, subagent: Option<&str>) -> Vec<ClientCall> {
        let mut calls: Vec<ClientCall> = Vec::new();
        for message in messages {
            let is_same = message.id == self.latest;
            let tool_calls = message.tool_calls();
            match calls.last_mut() {
                Some(call) if is_same => {
                    call.usage.output_tokens = message.written_with(call.usage.output_tokens);
                    call.tool_calls = call.tool_calls.saturating_add(tool_calls);
                }
                // This entry is a later part of an answer that an earlier read has already counted.
                None if is_same => {}
                Some(_) | None => {
                    self.calls = self.calls.saturating_add(1);
                    let (usage, subagent) = (message.tokens(), subagent.map(str::to_owned));
                    self.latest = message.id;
                    calls.push(ClientCall {
                        subagent,
                        nth: self.calls,
                        model: message.model,
                        usage,
                        tool_calls,
                    });
                }
            }
        }
        calls
    }
}

impl Message {
    fn tokens(&self) -> Usage {
        let counts = self.usage.as_ref();
        let of = |count: fn(&Counts) -> u64| counts.map_or(0, count);
        Usage {
            input_tokens: of(|counts| counts.input_tokens),
            output_tokens: self.written_with(0),
            cache_read_input_tokens: of(|counts| counts.cache_read_input_tokens),
            cache_creation_input_tokens: of(|counts| counts.cache_creation_input_tokens),
        }
    }

    /// Returns the number of output tokens of the answer up to this entry. `before` is the number
    /// up to the previous entry of the answer.
    fn written_with(&self, before: u64) -> u64 {
        let recorded = self.usage.as_ref().map_or(0, |counts| counts.output_tokens).max(before);
        // An entry without a stop reason holds only the usage known at the start of the answer, so
        // its token count must be estimated.
        if self.stop_reason.is_some() {
            recorded
        } else {
            recorded.max(before.saturating_add(self.estimated()))
        }
    }

    fn estimated(&self) -> u64 {
        let blocks = self
            .content
            .iter()
            .flat_map(|block| WRITTEN.iter().filter_map(|field| block.get(field)));
        let chars: usize = blocks.map(|written| written.to_string().len()).sum();
        u64::try_from(chars / CHARS_PER_TOKEN).unwrap_or(u64::MAX)
    }

    fn tool_calls(&self) -> u32 {
        let calls = self
            .content
            .iter()
            .filter(|block| block.get("type").is_some_and(|kind| kind == "tool_use"));
        u32::try_from(calls.count()).unwrap_or(u32::MAX)
    }
}

/// Parses a line as a model's answer. Returns `None` for other lines.
fn message_of(line: &str) -> Option<Message> {
    if !line.contains("\"assistant\"") {
        return None;
    }
    let line: Line = serde_json::from_str(line).ok()?;
    let is_answer = line.kind == "assistant";
    // Entries that the client writes itself cost nothing and are not calls.
    line.message.filter(|message| is_answer && message.model != NO_MODEL && message.usage.is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    const ID: &str = "3bacbbef-0790-4d04-a603-4427723f5762";

    /// Builds one entry of an answer with the given recorded output tokens.
    fn entry(id: &str, block: &Value, output_tokens: u64, stop_reason: Option<&str>) -> Value {
        json!({"type": "assistant", "sessionId": ID, "uuid": "u", "message": {
            "id": id, "model": "claude-x", "content": [block], "stop_reason": stop_reason,
            "usage": {"input_tokens": 10, "output_tokens": output_tokens, "cache_read_input_tokens": 3, "iterations": []},
        }})
    }

    fn text(words: &str) -> Value {
        json!({"type": "text", "text": words})
    }

    fn call() -> Value {
        json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}})
    }

    fn write(file: &Path, lines: &[Value]) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut file = fs::File::options().create(true).append(true).open(file).unwrap();
        lines.iter().for_each(|line| writeln!(file, "{line}").unwrap());
    }

    /// Returns four facts about each model call: the subagent that made it, its position among the
    /// calls of the same agent, its output tokens, and how many tool calls its answer contains.
    fn said(calls: &[ClientCall]) -> Vec<(Option<&str>, u32, u64, u32)> {
        calls
            .iter()
            .map(|it| (it.subagent.as_deref(), it.nth, it.usage.output_tokens, it.tool_calls))
            .collect()
    }

    #[test]
    fn each_call_of_a_client_and_of_its_subagents_is_read_once() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(format!("projects/-a/{ID}.jsonl"));
        assert!(UsageReader::of(root.path(), ID).is_none());
        let whole = |id, block: &Value| entry(id, block, 77, Some("tool_use"));
        write(
            &file,
            &[
                json!({"type": "user"}),
                whole("m1", &text("a")),
                whole("m1", &call()),
                whole("m1", &call()),
            ],
        );
        let mut reader = UsageReader::of(root.path(), ID).unwrap();
        assert_eq!(said(&reader.read_on()), [(None, 1, 77, 2)]);
        assert_eq!(said(&reader.read_on()), []);
        let synthetic = json!({"type": "assistant", "message": {"id": "x", "model": "<synthetic>", "usage": {}}});
        let shape =
            json!({"type": "api-request-blob", "message": {"role": "assistant", "content": []}});
        write(
            &file,
            &[
                whole("m1", &call()),
                synthetic,
                shape,
                whole("m2", &text("b")),
                whole("m3", &text("c")),
            ],
        );
        write(
            &file.with_extension("").join("subagents/agent-a1.jsonl"),
            &[whole("s1", &text("d"))],
        );
        assert_eq!(
            said(&reader.read_on()),
            [(None, 2, 77, 0), (None, 3, 77, 0), (Some("a1"), 1, 77, 0)]
        );
        let usage = Usage {
            input_tokens: 10,
            output_tokens: 77,
            cache_read_input_tokens: 3,
            ..Usage::default()
        };
        let again = UsageReader::of(root.path(), ID).unwrap().read_on();
        assert_eq!(
            again.first().map(|call| (call.model.as_str(), call.usage)),
            Some(("claude-x", usage))
        );
    }

    #[test]
    fn what_2_1_39_wrote_is_estimated_since_it_records_the_usage_of_an_answers_beginning() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(format!("projects/-a/{ID}.jsonl"));
        let words = "x".repeat(398);
        write(&file, &[entry("m1", &text(&words), 1, None), entry("m1", &text(&words), 1, None)]);
        assert_eq!(said(&UsageReader::of(root.path(), ID).unwrap().read_on()), [(None, 1, 200, 0)]);
    }

    #[test]
    fn a_line_that_is_not_whole_yet_is_read_when_it_is() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(format!("projects/-a/{ID}.jsonl"));
        write(&file, &[json!({"type": "user"})]);
        let mut reader = UsageReader::of(root.path(), ID).unwrap();
        let line = entry("m1", &text("a"), 5, Some("end_turn")).to_string();
        let (first, rest) = line.split_at(60);
        fs::write(&file, format!("{{}}\n{first}")).unwrap();
        assert_eq!(said(&reader.read_on()), []);
        fs::write(&file, format!("{{}}\n{first}{rest}\n")).unwrap();
        assert_eq!(said(&reader.read_on()), [(None, 1, 5, 0)]);
    }
}
