//! Checks the values of settings fields. A newer client may write values that pitcrew does not
//! know. Such a value is ignored, or the settings are refused if ignoring it is not safe.

use pitcrew_protocol::{ContextWindows, Limits, PermissionMode, Program, prices_from};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SettingsError;
use super::layers::{Layer, Source};
use super::notify::TERMINAL_SIGNALS;
use super::views::patience;

/// Allowed range for `pitcrew.compactAtPercent`, in percent of the context. Below this range, a
/// conversation would be compacted all the time. Above this range, there would be no room for an
/// answer.
const COMPACT_AT_PERCENT: std::ops::RangeInclusive<u64> = 10..=95;

/// Maximum length of a value in a message, in characters. Longer values are cut.
const SHOWN_CHARS: usize = 60;

/// A settings field with its allowed values.
struct Field {
    path: &'static [&'static str],
    expected: &'static str,
    is_known: fn(&Value) -> bool,
    otherwise: Otherwise,
    items: Option<Items>,
}

/// A check of single items of a list or object. It is used for fields whose valid items are usable
/// even if other items are not valid.
#[derive(Clone, Copy)]
struct Items {
    /// Description of a valid item.
    expected: &'static str,
    /// Returns true if an item is valid. In an object, the first argument is the item's name.
    is_known: fn(&str, &Value) -> bool,
}

/// What happens if a field has an unknown value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// The value is ignored and reported. The field gets the value of a lower layer, or its default
    /// if no lower layer sets the field.
    LeftOut,
    /// The settings are refused, because without the value agents could do more than intended.
    Refused,
}

/// The fields whose values are checked. A section comes before the fields that it contains.
const FIELDS: &[Field] = &[
    bound(&["permissions"], "an object", Value::is_object),
    bound(&["permissions", "deny"], "a list of strings", is_string_list),
    bound(&["permissions", "ask"], "a list of strings", is_string_list),
    free(&["permissions", "allow"], "a list of strings", is_string_list)
        .with_items("a string", is_string),
    free(&["permissions", "additionalDirectories"], "a list of strings", is_string_list)
        .with_items("a string", is_string),
    free(
        &["permissions", "defaultMode"],
        "one of default, acceptEdits, plan, delegate, dontAsk and bypassPermissions",
        |mode| PermissionMode::deserialize(mode).is_ok(),
    ),
    free(&["env"], "an object", is_environment)
        .with_items("a text, number or truth value that an environment can hold", is_variable),
    // Hooks guard what agents do, so hooks that cannot be read are an error.
    bound(&["hooks"], "an object", Value::is_object),
    bound(&["disableAllHooks"], TRUTH, Value::is_boolean),
    bound(&["allowManagedHooksOnly"], TRUTH, Value::is_boolean),
    free(&["model"], "a string", Value::is_string),
    free(&["teammateMode"], "a string", Value::is_string),
    free(&["sandbox"], "an object", Value::is_object),
    free(&["sandbox", "allowUnsandboxedCommands"], TRUTH, Value::is_boolean),
    free(&["sandbox", "allowOtherClients"], TRUTH, Value::is_boolean),
    free(&["sandbox", "autoAllow"], TRUTH, Value::is_boolean),
    free(&["sandbox", "read"], "a list of strings", is_string_list)
        .with_items("a string", is_string),
    free(&["sandbox", "write"], "a list of strings", is_string_list)
        .with_items("a string", is_string),
    // In the reference client's settings, this field is an object that lists hosts. Accept the
    // object too.
    free(&["sandbox", "network"], TRUTH, |network| network.is_boolean() || network.is_object()),
    bound(&["sandbox", "withheldVariables"], "a list of strings", is_string_list),
    free(&["sandbox", "passedVariables"], "a list of strings", is_string_list)
        .with_items("a string", is_string),
    free(&["pitcrew"], "an object", Value::is_object),
    free(&["pitcrew", "teams"], TRUTH, Value::is_boolean),
    free(&["pitcrew", "clientSockets"], TRUTH, Value::is_boolean),
    free(&["pitcrew", "removeIgnoredFiles"], TRUTH, Value::is_boolean),
    free(
        &["pitcrew", "contextWindow"],
        "a number of tokens, or one number for each model",
        |setting| ContextWindows::from_setting(setting).is_ok(),
    )
    .with_items("a number of tokens", |model, tokens| {
        ContextWindows::from_setting(&json!({ model: tokens })).is_ok()
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
    free(&["pitcrew", "limits"], "an object of limits", |setting| {
        Limits::deserialize(setting).is_ok()
    })
    .with_items("a number, or for a rate a count and seconds", |limit, value| {
        Limits::deserialize(json!({ limit: value })).is_ok()
    }),
    free(&["pitcrew", "prices"], "an object of prices for each model", |setting| {
        prices_from(setting).is_ok()
    })
    .with_items("a price", |model, price| prices_from(&json!({ model: price })).is_ok()),
    free(&["pitcrew", "model"], "a string", Value::is_string),
    free(&["pitcrew", "notify"], "an object", Value::is_object),
    free(&["pitcrew", "notify", "terminal"], "a list of bell, osc9 and osc777", |setting| {
        setting.as_array().is_some_and(|signals| signals.iter().all(is_terminal_signal))
    })
    .with_items("bell, osc9 or osc777", |_, signal| is_terminal_signal(signal)),
    free(&["pitcrew", "notify", "desktop"], TRUTH, Value::is_boolean),
    free(
        &["pitcrew", "notify", "command"],
        "a program and its arguments, as a list of strings",
        |setting| is_string_list(setting) && setting.as_array().is_some_and(|it| !it.is_empty()),
    ),
    free(&["pitcrew", "claude"], "a string", Value::is_string),
    free(&["pitcrew", "teammateMode"], "a string", Value::is_string),
    free(&["pitcrew", "teammateProgram"], "\"pitcrew\" or \"claude\"", |setting| {
        setting.as_str().is_some_and(|name| Program::named(name).is_some())
    }),
    free(&["pitcrew", "mouse"], TRUTH, Value::is_boolean),
    free(&["pitcrew", "theme"], "\"dark\", \"light\", \"colorBlind\" or \"none\"", |setting| {
        matches!(setting.as_str(), Some("dark" | "light" | "colorBlind" | "none"))
    }),
];

const TRUTH: &str = "true or false";
const SECONDS: &str = "a number of seconds";

const fn free(
    path: &'static [&'static str],
    expected: &'static str,
    is_known: fn(&Value) -> bool,
) -> Field {
    Field { path, expected, is_known, otherwise: Otherwise::LeftOut, items: None }
}

const fn bound(
    path: &'static [&'static str],
    expected: &'static str,
    is_known: fn(&Value) -> bool,
) -> Field {
    Field { path, expected, is_known, otherwise: Otherwise::Refused, items: None }
}

impl Field {
    /// Adds a check of single items to this field. The check is for a list or object whose valid
    /// items are usable even if other items are invalid.
    const fn with_items(self, expected: &'static str, is_known: fn(&str, &Value) -> bool) -> Self {
        Self { items: Some(Items { expected, is_known }), ..self }
    }
}

/// The unknown values found in a layer.
#[derive(Debug, Default)]
pub(super) struct NotKnown {
    /// Descriptions of the values that are ignored.
    pub(super) unheeded: Vec<String>,
    /// Errors for the values that must not be ignored if agents run. These values are from the
    /// command line, or are in a field that limits agents.
    pub(super) refused: Vec<SettingsError>,
}

/// Removes unknown values from a layer, so that typed access to the fields cannot fail. Null is
/// treated as a missing value. If a field has a check of single items, only the invalid items are
/// removed.
pub(super) fn heed(source: &mut Source) -> NotKnown {
    let mut not_known = NotKnown::default();
    for field in FIELDS {
        let Some(value) = source.field(field.path) else { continue };
        if (field.is_known)(value) {
            continue;
        }
        let (is_nothing, name, origin) = (value.is_null(), field.path.join("."), source.origin());
        let says = |name: &str, value: &Value, expected: &str| {
            format!("`{name}` in the {origin} is not heeded: {} is not {expected}", shown(value))
        };
        if !is_nothing && (source.layer == Layer::Cli || field.otherwise == Otherwise::Refused) {
            not_known.refused.push(SettingsError::Field {
                origin,
                field: name,
                expected: field.expected,
            });
        } else if let Some(items) = field.items.filter(|_| value.is_array() || value.is_object()) {
            let (known, others) = items.sorted(value.clone());
            let others = others
                .iter()
                .map(|(item, value)| says(&format!("{name}{item}"), value, items.expected));
            not_known.unheeded.extend(others);
            if let Some(place) = source.field_mut(field.path) {
                *place = known;
            }
            // After its invalid items were removed, the field may be valid.
            if source.field(field.path).is_some_and(field.is_known) {
                continue;
            }
        } else if !is_nothing {
            not_known.unheeded.push(says(&name, value, field.expected));
        }
        leave_out(&mut source.value, field.path);
    }
    not_known
}

impl Items {
    /// Splits a list or object into two parts: the value without its invalid items, and the invalid
    /// items. Each invalid item has its position in the list or its name in the object.
    fn sorted(self, value: Value) -> (Value, Vec<(String, Value)>) {
        match value {
            Value::Array(items) => {
                let (known, others): (Vec<_>, Vec<_>) =
                    items.into_iter().enumerate().partition(|(_, item)| (self.is_known)("", item));
                let known = known.into_iter().map(|(_, item)| item).collect();
                (known, others.into_iter().map(|(at, item)| (format!("[{at}]"), item)).collect())
            }
            Value::Object(items) => {
                let (known, others): (Vec<_>, Vec<_>) =
                    items.into_iter().partition(|(name, item)| (self.is_known)(name, item));
                (
                    Value::Object(known.into_iter().collect()),
                    others.into_iter().map(|(name, item)| (format!(".{name}"), item)).collect(),
                )
            }
            other => (other, Vec::new()),
        }
    }
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

fn is_terminal_signal(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TERMINAL_SIGNALS.contains(&name))
}

fn is_string(_name: &str, value: &Value) -> bool {
    value.is_string()
}

/// Returns true if the name and value are valid for an environment variable.
fn is_variable(name: &str, value: &Value) -> bool {
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    let is_value = match value {
        Value::String(text) => !text.contains('\0'),
        Value::Bool(_) | Value::Number(_) => true,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    is_name && is_value
}

fn is_environment(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|variables| variables.iter().all(|(name, value)| is_variable(name, value)))
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
        let settings =
            Settings::merge(vec![(Layer::User, user), (Layer::Project, project)]).unwrap();
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
        `pitcrew.contextWindow` in the project settings is not heeded: 12 is not a number of tokens, or one number for each model
        `pitcrew.compactAtPercent` in the project settings is not heeded: 100 is not a number from 10 to 95
        `pitcrew.modelPatience` in the project settings is not heeded: -1 is not a number of seconds
        `pitcrew.limits.agents` in the project settings is not heeded: "x" is not a number, or for a rate a count and seconds
        "#);
    }

    #[test]
    fn of_a_list_or_an_object_only_the_items_that_are_not_known_are_left_out() {
        let user = json!({
            "permissions": {"allow": ["Read", 7, "Edit"], "additionalDirectories": [null, "/srv"]},
            "env": {"A": "a", "B": {"c": 1}, "C": "x\u{0}y", "D": 7, "E=F": "g", "": "h", "N": null},
            "sandbox": {"read": ["/a", 1], "network": {"allowUnixSockets": []}},
            "pitcrew": {
                "limits": {"agents": 7, "teams": "x", "teamRate": {"count": 1}},
                "contextWindow": {"a": 50_000, "b": "x"},
                "prices": {"a": {"input": 1, "output": 1}, "b": 7},
            },
        });
        let settings = Settings::merge(vec![(Layer::User, user)]).unwrap();
        let kept = json!({
            "permissions": {"allow": ["Read", "Edit"], "additionalDirectories": ["/srv"]},
            "env": {"A": "a", "D": 7},
            "sandbox": {"read": ["/a"], "network": {"allowUnixSockets": []}},
            "pitcrew": {
                "limits": {"agents": 7},
                "contextWindow": {"a": 50_000},
                "prices": {"a": {"input": 1, "output": 1}},
            },
        });
        assert_eq!(Value::Object(settings.merged().clone()), kept);
        insta::assert_snapshot!(settings.unheeded().join("\n"), @r#"
        `permissions.allow[1]` in the user settings is not heeded: 7 is not a string
        `permissions.additionalDirectories[0]` in the user settings is not heeded: null is not a string
        `env.B` in the user settings is not heeded: {"c":1} is not a text, number or truth value that an environment can hold
        `env.C` in the user settings is not heeded: "x\u0000y" is not a text, number or truth value that an environment can hold
        `env.E=F` in the user settings is not heeded: "g" is not a text, number or truth value that an environment can hold
        `env.` in the user settings is not heeded: "h" is not a text, number or truth value that an environment can hold
        `env.N` in the user settings is not heeded: null is not a text, number or truth value that an environment can hold
        `sandbox.read[1]` in the user settings is not heeded: 1 is not a string
        `pitcrew.contextWindow.b` in the user settings is not heeded: "x" is not a number of tokens
        `pitcrew.limits.teams` in the user settings is not heeded: "x" is not a number, or for a rate a count and seconds
        `pitcrew.limits.teamRate` in the user settings is not heeded: {"count":1} is not a number, or for a rate a count and seconds
        `pitcrew.prices.b` in the user settings is not heeded: 7 is not a price
        "#);
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let user = json!({"model": "a", "hooks": {}, "permissions": {"deny": ["Bash"]}});
        let project = json!({"model": null, "env": null, "permissions": {"deny": null, "defaultMode": null}, "pitcrew": null});
        for layer in [Layer::Project, Layer::Cli] {
            let settings =
                Settings::merge(vec![(Layer::User, user.clone()), (layer, project.clone())])
                    .unwrap();
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
            (Layer::User, json!({"permissions": {"deny": ["Bash", 1]}}), "permissions.deny"),
            (
                Layer::User,
                json!({"sandbox": {"withheldVariables": ["KEY", 1]}}),
                "sandbox.withheldVariables",
            ),
            (Layer::Cli, json!({"permissions": {"allow": ["Read", 1]}}), "permissions.allow"),
            (
                Layer::Cli,
                json!({"permissions": {"defaultMode": "yolo"}}),
                "permissions.defaultMode",
            ),
            (Layer::Cli, json!({"model": {}}), "model"),
            (Layer::Cli, json!({"pitcrew": {"teams": "no"}}), "pitcrew.teams"),
        ] {
            let error = Settings::merge(vec![(layer, value)]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{field}` in the {layer} settings must be")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_long_value_is_cut_where_a_character_ends() {
        let settings =
            Settings::merge(vec![(Layer::User, json!({"model": ["ü".repeat(100)]}))]).unwrap();
        let expected = format!(
            "`model` in the user settings is not heeded: [\"{}… is not a string",
            "ü".repeat(58)
        );
        assert_eq!(settings.unheeded(), [expected]);
    }
}
