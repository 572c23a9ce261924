//! Write: creates a file or replaces its whole content.

use async_trait::async_trait;
use pitcrew_protocol::{counted, tool_name};
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{change, in_background, look_in_background, refusal, resolve};
use super::input::parse;
use super::patch::hunks;
use super::{Tool, ToolContext, ToolOutcome};

/// The tool that creates a file or replaces its whole content, in one step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Write;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    file_path: String,
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn name(&self) -> &str {
        tool_name::WRITE
    }

    fn description(&self) -> &str {
        "Creates a file with the given content, or replaces the whole content of one; missing folders are \
         created. A file that exists must have been read with Read before, and must not have changed since \
         (another agent may work on it): then read it again. To change a part of a file use Edit."
    }

    async fn refusal(&self, input: &Value, context: &ToolContext) -> Option<ToolOutcome> {
        match parse::<Input>(self, input.clone()) {
            Ok(input) => look_in_background(context, move |context| check(&input, context)).await,
            Err(outcome) => Some(outcome),
        }
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        match parse::<Input>(self, input) {
            Ok(input) => in_background(context, move |context| write(input, context)).await,
            Err(outcome) => outcome,
        }
    }
}

/// Returns an error with the reason if a write to the file in its current state would fail.
fn check(input: &Input, context: &ToolContext) -> Result<(), ToolOutcome> {
    refusal(&resolve(&context.cwd, &input.file_path)?, context, |_| Ok(()))
}

fn write(input: Input, context: &ToolContext) -> Result<ToolOutcome, ToolOutcome> {
    let path = resolve(&context.cwd, &input.file_path)?;
    let content = input.content.as_bytes().to_vec();
    let done = change(&path, context, |_| Ok(content))?;
    let (kind, verb) = match &done.before {
        None => ("create", "Created"),
        Some(_) => ("update", "Replaced the content of"),
    };
    let patch = match &done.before {
        None => json!([]),
        Some(before) => hunks(&String::from_utf8_lossy(before), &input.content),
    };
    let data = json!({
        "type": kind,
        "filePath": path,
        "content": input.content,
        "structuredPatch": patch,
    });
    let text = format!("{verb} {} ({}).", path.display(), counted(done.after.len(), "byte"));
    Ok(ToolOutcome::done(text, data))
}
