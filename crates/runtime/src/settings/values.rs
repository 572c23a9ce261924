//! The values that settings can have, and what becomes of others: a later client may write what we do not know.

use pitcrew_model::{ContextWindows, PriceTable};
use pitcrew_protocol::Limits;
use serde::Deserialize;
use serde_json::Value;

use super::SettingsError;
use super::layers::{Layer, Source};
use super::views::patience;
use crate::gate::PermissionMode;
use crate::hosting::Program;

/// How full a conversation may be told to become: with less it is compacted all the time, with more there is no room for an
/// answer.
const COMPACT_AT_PERCENT: std::ops::RangeInclusive<u64> = 10..=95;

/// The longest value that is shown as it is.
const SHOWN_CHARS: usize = 60;

/// A field whose values are known.
struct Field {
    path: &'static [&'static str],
    expected: &'static str,
    is_known: fn(&Value) -> bool,
    otherwise: Otherwise,
}

/// What becomes of a value that is not known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// It is left out, and said: what the field is without it holds.
    LeftOut,
    /// The settings are refused: without it agents could do more than was meant.
    Refused,
}

/// The fields with known values; sections stand before what is in them.
const FIELDS: &[Field] = &[
    bound(&["permissions"], "an object", Value::is_object),
    bound(&["permissions", "deny"], "a list of strings", is_string_list),
    bound(&["permissions", "ask"], "a list of strings", is_string_list),
    free(&["permissions", "allow"], "a list of strings", is_string_list),
    free(&["permissions", "additionalDirectories"], "a list of strings", is_string_list),
    free(
        &["permissions", "defaultMode"],
        "one of default, acceptEdits, plan, delegate, dontAsk and bypassPermissions",
        |mode| PermissionMode::deserialize(mode).is_ok(),
    ),
    free(&["env"], "an object", Value::is_object),
    free(&["hooks"], "an object", Value::is_object),
    free(&["model"], "a string", Value::is_string),
    free(&["teammateMode"], "a string", Value::is_string),
    free(&["sandbox"], "an object", Value::is_object),
    free(&["sandbox", "allowUnsandboxedCommands"], TRUTH, Value::is_boolean),
    free(&["sandbox", "allowOtherClients"], TRUTH, Value::is_boolean),
    free(&["sandbox", "autoAllow"], TRUTH, Value::is_boolean),
    free(&["pitcrew"], "an object", Value::is_object),
    free(&["pitcrew", "teams"], TRUTH, Value::is_boolean),
    free(&["pitcrew", "clientSockets"], TRUTH, Value::is_boolean),
    free(&["pitcrew", "removeIgnoredFiles"], TRUTH, Value::is_boolean),
    free(&["pitcrew", "contextWindow"], "a number of tokens, or such a number for each model", |setting| {
        ContextWindows::from_setting(setting).is_ok()
    }),
    free(&["pitcrew", "compactAtPercent"], "a number from 10 to 95", |setting| {
        setting.as_u64().is_some_and(|percent| COMPACT_AT_PERCENT.contains(&percent))
    }),
    free(&["pitcrew", "modelPatience"], SECONDS, |setting| patience(setting).is_some()),
    free(&["pitcrew", "modelSilence"], SECONDS, |setting| patience(setting).is_some()),
    free(&["pitcrew", "promptDeadlineSeconds"], "a number of seconds above 0", |setting| {
        setting.as_u64().is_some_and(|seconds| seconds > 0)
    }),
    free(&["pitcrew", "durability"], "\"disk\" or \"process\"", |setting| {
        matches!(setting.as_str(), Some("disk" | "process"))
    }),
    free(&["pitcrew", "limits"], "an object of limits, each a number", |setting| Limits::deserialize(setting).is_ok()),
    free(&["pitcrew", "prices"], "an object of prices for each model", |setting| {
        PriceTable::list().override_with(setting).is_ok()
    }),
    free(&["pitcrew", "claude"], "a string", Value::is_string),
    free(&["pitcrew", "teammateMode"], "a string", Value::is_string),
    free(&["pitcrew", "teammateProgram"], "\"pitcrew\" or \"claude\"", |setting| {
        setting.as_str().is_some_and(|name| Program::named(name).is_some())
    }),
];

const TRUTH: &str = "true or false";
const SECONDS: &str = "a number of seconds";

const fn free(path: &'static [&'static str], expected: &'static str, is_known: fn(&Value) -> bool) -> Field {
    Field { path, expected, is_known, otherwise: Otherwise::LeftOut }
}

const fn bound(path: &'static [&'static str], expected: &'static str, is_known: fn(&Value) -> bool) -> Field {
    Field { path, expected, is_known, otherwise: Otherwise::Refused }
}

/// Leaves out of a layer what is not known, and says so in words, so that the views need no errors of their own. Null is as
/// good as nothing.
///
/// # Errors
/// When such a value was typed on the command line, or bounds what agents may do.
pub(super) fn heed(source: &mut Source) -> Result<Vec<String>, SettingsError> {
    let mut unheeded = Vec::new();
    for field in FIELDS {
        let Some(value) = source.field(field.path) else { continue };
        if (field.is_known)(value) {
            continue;
        }
        let is_nothing = value.is_null();
        let name = field.path.join(".");
        if !is_nothing && (source.layer == Layer::Cli || field.otherwise == Otherwise::Refused) {
            return Err(SettingsError::Field { origin: source.origin(), field: name, expected: field.expected });
        }
        if !is_nothing {
            let (value, origin) = (shown(value), source.origin());
            unheeded.push(format!("`{name}` in the {origin} is not heeded: {value} is not {}", field.expected));
        }
        leave_out(&mut source.value, field.path);
    }
    Ok(unheeded)
}

fn leave_out(value: &mut Value, path: &[&str]) {
    let Some((last, section)) = path.split_last() else { return };
    let section = section.iter().try_fold(value, |value, key| value.get_mut(key));
    if let Some(fields) = section.and_then(Value::as_object_mut) {
        fields.remove(*last);
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn is_string_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Settings;
    use super::*;

    #[test]
    fn a_value_that_is_not_known_is_left_out_and_said() {
        let user = json!({
            "model": "a",
            "permissions": {"allow": ["Read"], "defaultMode": "plan"},
            "pitcrew": {"teams": false},
        });
        let project = json!({
            "model": 7,
            "env": 1,
            "permissions": {"allow": "Bash", "defaultMode": "auto", "future": {"a": null}},
            "pitcrew": {"teams": "no", "contextWindow": 12, "compactAtPercent": 100, "modelPatience": -1, "limits": {"agents": "x"}},
            "sandbox": {"autoAllow": "yes"},
        });
        let settings = Settings::merge(vec![(Layer::User, user), (Layer::Project, project)]).unwrap();
        assert_eq!(settings.model(), Some("a"));
        assert_eq!(settings.permissions().default_mode, Some(PermissionMode::Plan));
        assert!(!settings.teams_enabled() && !settings.runs_sandboxed_commands());
        assert_eq!(settings.merged()["permissions"]["future"], json!({"a": null}));
        insta::assert_snapshot!(settings.unheeded().join("\n"), @r#"
        `permissions.allow` in the project settings is not heeded: "Bash" is not a list of strings
        `permissions.defaultMode` in the project settings is not heeded: "auto" is not one of default, acceptEdits, plan, delegate, dontAsk and bypassPermissions
        `env` in the project settings is not heeded: 1 is not an object
        `model` in the project settings is not heeded: 7 is not a string
        `sandbox.autoAllow` in the project settings is not heeded: "yes" is not true or false
        `pitcrew.teams` in the project settings is not heeded: "no" is not true or false
        `pitcrew.contextWindow` in the project settings is not heeded: 12 is not a number of tokens, or such a number for each model
        `pitcrew.compactAtPercent` in the project settings is not heeded: 100 is not a number from 10 to 95
        `pitcrew.modelPatience` in the project settings is not heeded: -1 is not a number of seconds
        `pitcrew.limits` in the project settings is not heeded: {"agents":"x"} is not an object of limits, each a number
        "#);
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let user = json!({"model": "a", "hooks": {}, "permissions": {"deny": ["Bash"]}});
        let project =
            json!({"model": null, "env": null, "permissions": {"deny": null, "defaultMode": null}, "pitcrew": null});
        for layer in [Layer::Project, Layer::Cli] {
            let settings = Settings::merge(vec![(Layer::User, user.clone()), (layer, project.clone())]).unwrap();
            assert_eq!(
                Value::Object(settings.merged().clone()),
                json!({"model": "a", "hooks": {}, "permissions": {"deny": ["Bash"]}})
            );
            assert_eq!(settings.unheeded(), [""; 0]);
        }
    }

    #[test]
    fn what_bounds_agents_or_was_typed_is_refused_by_name() {
        for (layer, value, field) in [
            (Layer::User, json!({"permissions": []}), "permissions"),
            (Layer::Project, json!({"permissions": {"deny": "Bash"}}), "permissions.deny"),
            (Layer::Managed, json!({"permissions": {"ask": [1]}}), "permissions.ask"),
            (Layer::Cli, json!({"permissions": {"defaultMode": "yolo"}}), "permissions.defaultMode"),
            (Layer::Cli, json!({"model": {}}), "model"),
            (Layer::Cli, json!({"pitcrew": {"teams": "no"}}), "pitcrew.teams"),
        ] {
            let error = Settings::merge(vec![(layer, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{field}` in the {layer} settings must be")), "{error}");
        }
    }

    #[test]
    fn a_long_value_is_cut_where_a_character_ends() {
        let settings = Settings::merge(vec![(Layer::User, json!({"model": ["ü".repeat(100)]}))]).unwrap();
        let expected = format!("`model` in the user settings is not heeded: [\"{}… is not a string", "ü".repeat(58));
        assert_eq!(settings.unheeded(), [expected]);
    }
}
