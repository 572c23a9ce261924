//! Typed access to the merged settings fields that this crate uses. The values of the fields were
//! checked when the settings were merged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pitcrew_process::sandbox;
use pitcrew_process::worktree::IgnoredFiles;
use pitcrew_protocol::{ContextWindows, PermissionMode};
use serde::Deserialize;
use serde_json::Value;

use super::layers::{Layer, Settings, Source};
use crate::gate::expand_home;

/// The reference client's environment variable that turns its team tools on or off.
const TEAMS_SWITCH: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

/// A permission rule as written, with the layer that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedRule {
    /// The rule, such as `Bash(npm run test:*)`.
    pub text: String,
    /// The settings layer that contains the rule.
    pub layer: Layer,
    /// The name of the layer and its file, for error messages.
    pub origin: String,
    /// The folder to which `/path` in the rule is relative, if the layer has such a folder.
    pub base: Option<PathBuf>,
}

/// The `permissions` sections of all layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Rules for calls that are allowed without asking a person.
    pub allow: Vec<SourcedRule>,
    /// Rules for calls that are denied.
    pub deny: Vec<SourcedRule>,
    /// Rules for calls about which a person is always asked.
    pub ask: Vec<SourcedRule>,
    /// Additional folders that are treated as working folders.
    pub additional_directories: Vec<PathBuf>,
    /// The permission mode in which a session starts.
    pub default_mode: Option<PermissionMode>,
}

impl Settings {
    /// Returns the `permissions` sections of all layers, each rule with its layer.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        let mut permissions = Permissions {
            allow: self.rules("allow"),
            deny: self.rules("deny"),
            ask: self.rules("ask"),
            ..Permissions::default()
        };
        for source in self.sources() {
            let folders = source.field(&["permissions", "additionalDirectories"]);
            permissions.additional_directories.extend(strings(folders).map(PathBuf::from));
            if let Some(mode) = source.field(&["permissions", "defaultMode"]) {
                permissions.default_mode = PermissionMode::deserialize(mode).ok();
            }
        }
        permissions
    }

    /// Returns a text field of the machine's policy. Nothing overrides the policy, not even the
    /// command line.
    #[must_use]
    pub fn policy(&self, field: &[&str]) -> Option<&str> {
        let managed = self.sources().iter().find(|source| source.layer == Layer::Managed)?;
        managed.field(field)?.as_str()
    }

    /// Returns the environment variables for all processes of agents.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        let Some(Value::Object(fields)) = self.merged().get("env") else { return BTreeMap::new() };
        let variable = |(name, value): (&String, &Value)| Some((name.clone(), scalar(value)?));
        fields.iter().filter_map(variable).collect()
    }

    /// Returns the model of pitcrew: `pitcrew.model`. It comes before `model`, which other clients
    /// read too, unless the machine's policy sets `model`.
    #[must_use]
    pub fn own_model(&self) -> Option<&str> {
        match self.policy(&["model"]) {
            Some(_) => None,
            None => self.pitcrew("model").and_then(Value::as_str),
        }
    }

    /// Returns the model named in the settings for every client: `model`.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.merged().get("model").and_then(Value::as_str)
    }

    /// Returns true if the permission mode `bypassPermissions` is forbidden, because
    /// `permissions.disableBypassPermissionsMode` is `disable`. Any other value except `false` and
    /// null also forbids the mode, because the author of the setting wanted to forbid it.
    #[must_use]
    pub fn disables_bypass(&self) -> bool {
        let field = ["permissions", "disableBypassPermissionsMode"];
        let disables = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        self.sources().iter().any(|source| source.field(&field).is_some_and(disables))
    }

    /// Returns true if the team tools are available. They are available unless `pitcrew.teams` is
    /// false or the reference client's variable in `env` is `0` or `false`.
    #[must_use]
    pub fn teams_enabled(&self) -> bool {
        if self.pitcrew("teams") == Some(&Value::Bool(false)) {
            return false;
        }
        let env = self.env();
        let switch = env.get(TEAMS_SWITCH).map(String::as_str);
        !matches!(switch, Some("0" | "false"))
    }

    /// Returns the models' context sizes from `pitcrew.contextWindow`, in tokens.
    #[must_use]
    pub fn context_windows(&self) -> ContextWindows {
        let setting = self.pitcrew("contextWindow");
        setting.and_then(|setting| ContextWindows::from_setting(setting).ok()).unwrap_or_default()
    }

    /// Returns the percentage of its context that a conversation is allowed to fill before it is
    /// compacted: `pitcrew.compactAtPercent`.
    #[must_use]
    pub fn compact_at_percent(&self) -> Option<u64> {
        self.pitcrew("compactAtPercent").and_then(Value::as_u64)
    }

    /// Returns what happens to a worktree that contains only ignored files: it is kept or removed.
    /// The worktree is kept unless the user sets `pitcrew.removeIgnoredFiles`. Settings files of
    /// the project cannot set this field, because agents can write these files.
    #[must_use]
    pub fn ignored_files(&self) -> IgnoredFiles {
        match self.users_own(&["pitcrew", "removeIgnoredFiles"]) {
            true => IgnoredFiles::Remove,
            false => IgnoredFiles::Keep,
        }
    }

    /// Returns true if messages are also sent through the message sockets of other clients. This is
    /// the case unless `pitcrew.clientSockets` is false.
    #[must_use]
    pub fn uses_client_sockets(&self) -> bool {
        self.pitcrew("clientSockets") != Some(&Value::Bool(false))
    }

    /// Returns the maximum time that a model call waits for the model: `pitcrew.modelPatience`, in
    /// seconds.
    #[must_use]
    pub fn model_patience(&self) -> Option<Duration> {
        self.pitcrew("modelPatience").and_then(patience)
    }

    /// Returns the maximum time without data from a server: `pitcrew.modelSilence`, in seconds.
    /// After this time, a model call fails and is repeated.
    #[must_use]
    pub fn model_silence(&self) -> Option<Duration> {
        self.pitcrew("modelSilence").and_then(patience)
    }

    /// Returns a field of the section `pitcrew` (such as `durability`, `limits` or `prices`) as
    /// written.
    #[must_use]
    pub fn pitcrew(&self, field: &str) -> Option<&Value> {
        self.merged().get("pitcrew")?.get(field)
    }

    /// Returns true if a command is allowed to request to run outside the sandbox
    /// (`dangerouslyDisableSandbox`). The user must set the reference client's
    /// `sandbox.allowUnsandboxedCommands`. Settings files of the project cannot set this field,
    /// because agents can write these files.
    #[must_use]
    pub fn allows_unsandboxed_commands(&self) -> bool {
        self.users_own(&["sandbox", "allowUnsandboxedCommands"])
    }

    /// Returns true if commands run in the sandbox profile *work* without a permission request.
    /// This is the case if the user sets `sandbox.autoAllow` or passes `--sandbox`.
    #[must_use]
    pub fn runs_sandboxed_commands(&self) -> bool {
        self.users_own(&["sandbox", "autoAllow"])
    }

    /// Returns true if other clients are allowed as teammates although pitcrew's sandbox does not
    /// limit their commands: `sandbox.allowOtherClients`.
    #[must_use]
    pub fn allows_unsandboxed_clients(&self) -> bool {
        self.users_own(&["sandbox", "allowOtherClients"])
    }

    /// Returns the user's sandbox options: `sandbox.read`, `sandbox.write`, `sandbox.network`,
    /// `sandbox.withheldVariables` and `sandbox.passedVariables`.
    #[must_use]
    pub fn sandbox(&self, home: Option<&Path>) -> sandbox::Options {
        let is_users =
            |source: &&Source| matches!(source.layer, Layer::User | Layer::Cli | Layer::Managed);
        let all = |list: &str| -> Vec<String> {
            let of_users = self.sources().iter().filter(is_users);
            of_users
                .flat_map(|source| strings(source.field(&["sandbox", list])))
                .map(str::to_owned)
                .collect()
        };
        let folders = |list| {
            all(list)
                .iter()
                .map(|path| expand_home(path, home))
                .filter(|path| path.is_absolute())
                .collect()
        };
        sandbox::Options {
            read: folders("read"),
            write: folders("write"),
            git: self.git_folders().to_vec(),
            network: self.users_own(&["sandbox", "network"]),
            withheld: all("withheldVariables"),
            passed: all("passedVariables"),
        }
    }

    /// Returns the value of a switch from the settings of the user, the command line and the
    /// machine's policy. If several of these layers set the switch, the highest layer decides. If
    /// none sets it, the switch is off. The project's settings are not used.
    fn users_own(&self, field: &[&str]) -> bool {
        let is_users =
            |source: &&Source| matches!(source.layer, Layer::User | Layer::Cli | Layer::Managed);
        let said = |source: &Source| source.field(field).and_then(Value::as_bool);
        // The layers are sorted, so the last value found is from the highest layer.
        self.sources().iter().filter(is_users).filter_map(said).next_back().unwrap_or(false)
    }

    fn rules(&self, list: &str) -> Vec<SourcedRule> {
        let of_source = |source: &Source| {
            let rule = |text: &str| SourcedRule {
                text: text.to_owned(),
                layer: source.layer,
                origin: source.origin(),
                base: source.base().map(PathBuf::from),
            };
            strings(source.field(&["permissions", list])).map(rule).collect::<Vec<_>>()
        };
        self.sources().iter().flat_map(of_source).collect()
    }
}

/// Parses a number of seconds.
pub(super) fn patience(setting: &Value) -> Option<Duration> {
    setting.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the text of a value that is no list and no object.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(value: Value) -> Settings {
        Settings::merge(vec![(Layer::Project, value)]).unwrap()
    }

    #[test]
    fn rules_keep_the_layer_they_stand_in() {
        let settings = Settings::merge(vec![
            (Layer::Managed, json!({"permissions": {"deny": ["Bash(curl *)"]}})),
            (
                Layer::User,
                json!({"permissions": {"deny": ["Read(~/.ssh/**)"], "defaultMode": "plan"}}),
            ),
        ])
        .unwrap();
        let deny: Vec<_> =
            settings.permissions().deny.into_iter().map(|rule| (rule.layer, rule.text)).collect();
        assert_eq!(
            deny,
            [
                (Layer::User, "Read(~/.ssh/**)".to_owned()),
                (Layer::Managed, "Bash(curl *)".to_owned())
            ]
        );
        assert_eq!(settings.permissions().default_mode, Some(PermissionMode::Plan));
    }

    #[test]
    fn teams_are_on_until_the_setting_or_the_switch_says_off() {
        assert!(one(json!({})).teams_enabled());
        assert!(one(json!({"env": {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1"}})).teams_enabled());
        assert!(
            !one(json!({"env": {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "0"}})).teams_enabled()
        );
        assert!(!one(json!({"env": {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": 0}})).teams_enabled());
        assert!(!one(json!({"pitcrew": {"teams": false}})).teams_enabled());
    }

    #[test]
    fn only_the_user_lets_commands_run_unconfined() {
        let says = |allows: bool| json!({"sandbox": {"allowUnsandboxedCommands": allows}});
        let allows = |layers: Vec<(Layer, Value)>| {
            Settings::merge(layers).unwrap().allows_unsandboxed_commands()
        };
        assert!(!allows(vec![]));
        assert!(!allows(vec![(Layer::Project, says(true)), (Layer::Local, says(true))]));
        assert!(allows(vec![(Layer::User, says(true)), (Layer::Project, says(false))]));
        assert!(!allows(vec![(Layer::User, says(true)), (Layer::Managed, says(false))]));
        assert!(!allows(vec![(Layer::User, json!({"sandbox": {"allowUnsandboxedCommands": 1}}))]));
    }

    #[test]
    fn anybody_forbids_the_bypass() {
        let disable = json!({"permissions": {"disableBypassPermissionsMode": "disable"}});
        assert!(one(disable).disables_bypass() && !one(json!({})).disables_bypass());
    }

    #[test]
    fn our_own_section_is_given_as_written() {
        let settings = one(json!({"pitcrew": {"durability": "process", "limits": {"agents": 7}}}));
        assert_eq!(settings.pitcrew("durability"), Some(&json!("process")));
        assert_eq!(settings.pitcrew("limits"), Some(&json!({"agents": 7})));
        assert_eq!(settings.pitcrew("prices"), None);
    }

    #[test]
    fn the_patience_with_models_is_in_seconds() {
        assert_eq!(one(json!({})).model_patience(), None);
        assert_eq!(
            one(json!({"pitcrew": {"modelPatience": 1.5}})).model_patience(),
            Some(Duration::from_millis(1500))
        );
    }
}
