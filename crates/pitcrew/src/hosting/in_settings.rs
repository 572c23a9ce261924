//! Reads from the settings where teammates run, and which program runs them.

use std::time::Duration;

use pitcrew_permission::settings::Settings;
use pitcrew_protocol::Program;
use pitcrew_runtime::hosting::PROMPT_DEADLINE;
use serde_json::Value;

use super::TeammateMode;

/// Returns the name or path of the reference client's program, from the settings.
pub(super) fn client_of(settings: &Settings) -> &str {
    settings.pitcrew("claude").and_then(Value::as_str).unwrap_or("claude")
}

/// Returns the teammate mode in the settings. If the mode is invalid, the error says why the mode
/// is ignored.
pub(super) fn mode_of(settings: &Settings) -> Result<Option<TeammateMode>, String> {
    let (name, value) =
        match (settings.pitcrew("teammateMode"), settings.merged().get("teammateMode")) {
            (Some(value), _) => ("pitcrew.teammateMode", value),
            (None, Some(value)) => ("teammateMode", value),
            (None, None) => return Ok(None),
        };
    let mode = value.as_str().ok_or_else(|| "a text".to_owned()).and_then(str::parse);
    mode.map(Some)
        .map_err(|known| format!("`{name}` in the settings is not heeded: {value} is not {known}"))
}

pub(super) fn program_of(settings: &Settings) -> Program {
    settings
        .pitcrew("teammateProgram")
        .and_then(Value::as_str)
        .and_then(Program::named)
        .unwrap_or_default()
}

pub(super) fn deadline_of(settings: &Settings) -> Duration {
    let seconds = settings.pitcrew("promptDeadlineSeconds").and_then(Value::as_u64);
    seconds.filter(|seconds| *seconds > 0).map_or(PROMPT_DEADLINE, Duration::from_secs)
}
