//! Converts the input that a model gave to a tool into the tool's own input type. The error texts
//! come from the crate `protocol`.

use pitcrew_protocol::{InputError, InputFault, check_input};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Tool, ToolOutcome};

/// Checks the input of `tool` against the tool's schema, and converts it into the tool's own input
/// type.
pub(super) fn parse<T: DeserializeOwned>(tool: &dyn Tool, input: Value) -> Result<T, ToolOutcome> {
    check_input(tool.name(), &tool.input_schema(), &input)
        .map_err(|error| ToolOutcome::malformed(&error))?;
    serde_json::from_value(input).map_err(|problem| {
        let faults = vec![InputFault::Unreadable { problem: problem.to_string() }];
        ToolOutcome::malformed(&InputError { tool: tool.name().to_owned(), faults })
    })
}

/// Reads a count: a whole number that is not negative. Models sometimes write a count as `10.0`,
/// which is accepted.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    /// All whole numbers up to this number can be represented exactly as a double.
    const MOST: f64 = 9_007_199_254_740_991.0;
    let Some(number) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if number.fract() != 0.0 || !(0.0..=MOST).contains(&number) {
        return Err(D::Error::custom(format_args!(
            "A count is a whole number and not below zero, but `{number}` was provided"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and within range, as just checked"
    )]
    Ok(Some(number as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    struct Counted {
        #[serde(default, deserialize_with = "count")]
        limit: Option<usize>,
    }

    #[test]
    fn a_count_is_whole_and_not_below_zero() {
        let read = |value| serde_json::from_value::<Counted>(json!({"limit": value}));
        assert_eq!(read(json!(10.0)).unwrap().limit, Some(10));
        assert!(read(json!(-1)).is_err());
        assert!(read(json!(1.5)).is_err());
        assert!(read(json!(1e300)).is_err());
    }
}
