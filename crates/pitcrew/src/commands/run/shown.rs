//! Prints the result of a run.

use pitcrew_runtime::run::RunOutcome;
use pitcrew_view::TeamState;
use pitcrew_view::outcome;
use pitcrew_view::result::result_event;
use serde_json::Value;

use super::OutputFormat;
use crate::failure::Failure;
use crate::live::stream;
use crate::live::watch::Watched;
use crate::output::{self, printable};
use crate::report::{self, Work};

/// Prints the result of the run to stdout in the chosen format. Returns an error if the run did not
/// succeed; the error determines the exit code. If writing to stdout fails, the summary, the result
/// and the resume command are printed to stderr. `work` is added to the result in JSON.
pub(crate) fn shown(
    watched: Watched,
    format: OutputFormat,
    (summary, work): (&str, &Work),
    resume: Option<&str>,
) -> Result<(), Failure> {
    let Watched { outcome, signal, state, unwritten, watched: _ } = watched;
    let ended = report::ended(&outcome, signal, resume);
    // The summary is printed to stderr, so that stdout contains only the lead's last message.
    if format == OutputFormat::Text {
        output::remark(summary);
        if let Some(refused) = report::refused(state.would_allow.iter().map(String::as_str)) {
            output::remark(&refused);
        }
    }
    let written = match (unwritten, format) {
        (Some(failure), _) => Err(failure),
        (None, OutputFormat::Text) => {
            outcome::last_words(&outcome).map_or(Ok(()), |text| output::line(&printable(text)))
        }
        (None, OutputFormat::Json) => json_result(&outcome, (&state, work), resume, &ended),
        (None, OutputFormat::StreamJson) => {
            stream::print(&result_event(&state, &outcome, stream::new_id()).into())
        }
    };
    match (written, format) {
        (Ok(()), OutputFormat::Json) => ended.map_err(Failure::into_told),
        (Ok(()), OutputFormat::Text | OutputFormat::StreamJson) => ended,
        (Err(failure), _) => {
            if format != OutputFormat::Text {
                output::remark(summary);
            }
            Err(match ended {
                Ok(()) => failure
                    .hint("the run itself is completed; only its answer could not be written"),
                Err(ended) => {
                    let failure =
                        failure.hint(format!("the end of the run itself: {}", ended.chain()));
                    ended.hints().into_iter().fold(failure, Failure::hint)
                }
            })
        }
    }
}

/// Writes the result of a run as one JSON document.
fn json_result(
    outcome: &RunOutcome,
    (state, work): (&TeamState, &Work),
    resume: Option<&str>,
    ended: &Result<(), Failure>,
) -> Result<(), Failure> {
    let mut result = serde_json::to_value(result_event(state, outcome, stream::new_id()))
        .map_err(Failure::internal)?;
    if let Value::Object(result) = &mut result {
        result.extend(outcome::document(outcome, resume));
        if let Value::Object(work) = serde_json::to_value(work).map_err(Failure::internal)? {
            result.extend(work);
        }
        result.extend(ended.as_ref().err().map(Failure::document).unwrap_or_default());
    }
    output::document(&result)
}
