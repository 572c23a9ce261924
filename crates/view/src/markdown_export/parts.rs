//! Writes the parts of a conversation.

use pitcrew_protocol::counted;
use serde_json::Value;

use super::blocks::{code_block, code_span, quoted};
use super::cell;
use super::{Detail, plain};
use crate::conversation::{Call, CallResult, Part, Permission};
use crate::masking::Masker;
use crate::text::first_line;
use crate::wording::{brief, end_in_words};

/// The maximum number of characters of the first line of a result.
const RESULT_CHARS: usize = 120;

/// Writes a part of a conversation, with an empty line after it.
pub(super) fn part(part: &Part, detail: Detail, masker: &mut Masker) -> String {
    match part {
        Part::Prompt { text } => headed("Prompt", text, masker),
        Part::Mail { from, summary, frame, text } => {
            let about = match (frame, summary) {
                (Some(frame), _) => format!(" ({})", cell(masker, frame)),
                (None, Some(summary)) => format!(": {}", cell(masker, summary)),
                (None, None) => String::new(),
            };
            let heading = format!("Message from {}{about}", cell(masker, from));
            headed(&heading, text, masker)
        }
        Part::Notice { text } => headed("Notice", text, masker),
        Part::Text { text } => format!("{}\n", quoted(&masker.text(text))),
        Part::Thinking { text } => match detail {
            Detail::Brief => String::new(),
            Detail::Whole => headed("Thought", text, masker),
        },
        Part::Call(call) => call_text(call, detail, masker),
        Part::Summary { text, briefing } => {
            let briefing = briefing.as_deref().filter(|_| detail == Detail::Whole);
            let briefing = briefing.map(|it| headed("Briefing", it, masker)).unwrap_or_default();
            briefing + &headed("Summary of what came before", text, masker)
        }
        Part::Event { text } => format!("*{}*\n\n", cell(masker, text)),
        Part::Ended { status, reason } => {
            let reason = reason.as_deref().map(|it| format!(": {}", cell(masker, it)));
            format!("*ended, {}{}*\n\n", end_in_words(*status), reason.unwrap_or_default())
        }
    }
}

fn headed(heading: &str, text: &str, masker: &mut Masker) -> String {
    format!("**{heading}**\n\n{}\n", quoted(&masker.text(text.trim())))
}

fn call_text(call: &Call, detail: Detail, masker: &mut Masker) -> String {
    // The input is masked before it is shortened: half of a key is no key for the masker.
    let input = masker.value(&call.input);
    let tool = masker.text(&call.tool);
    let mut text = format!("- {}", code_span(&brief(&tool, &input)));
    match &call.permission {
        None | Some(Permission::Allowed) => {}
        Some(Permission::Asked) => text.push_str(", waits for permission"),
        Some(Permission::Denied(reason)) => {
            text.push_str(&format!(", no permission: {}", cell(masker, reason)));
        }
    }
    text.push('\n');
    if detail == Detail::Whole {
        text.push('\n');
        text.push_str(&input_blocks(&input, masker));
    }
    text.push_str(&match (&call.result, detail) {
        (None, _) => "  no result\n".to_owned(),
        (Some(result), Detail::Brief) => short_result(result, masker),
        (Some(result), Detail::Whole) => whole_result(result, masker),
    });
    format!("{}\n\n", text.trim_end())
}

fn input_blocks(input: &Value, masker: &mut Masker) -> String {
    let Value::Object(fields) = input else { return code_block(&plain(input)) };
    let block = |(name, value): (&String, &Value)| {
        format!("  {}:\n\n{}\n", cell(masker, name), code_block(&plain(value)))
    };
    fields.iter().map(block).collect()
}

fn short_result(result: &CallResult, masker: &mut Masker) -> String {
    let text = masker.text(result.text.trim());
    let failed = if result.is_error { "failed: " } else { "" };
    if text.is_empty() {
        return if result.is_error { "  failed\n".to_owned() } else { String::new() };
    }
    let rest = text.lines().count().saturating_sub(1);
    let more = if rest > 0 { format!(" ({})", counted(rest, "more line")) } else { String::new() };
    format!("  {failed}{}{more}\n", code_span(&first_line(&text, RESULT_CHARS)))
}

fn whole_result(result: &CallResult, masker: &mut Masker) -> String {
    let name = if result.is_error { "failed" } else { "result" };
    format!("  {name}:\n\n{}", code_block(&masker.text(result.text.trim())))
}
