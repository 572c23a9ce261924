//! The known names of settings. They are used to report names that seem misspelled and therefore
//! have no effect.

use pitcrew_protocol::nearest;
use serde_json::Value;

use super::layers::{Layer, Settings, Source};
use crate::trust::TRUSTED_ITEMS;

/// The sections whose names are checked, with the known names in each section. In pitcrew's own
/// section, every unknown name is reported. In the other sections, newer clients may add names.
/// There, an unknown name is reported only if it is similar to a known name.
const SECTIONS: [Section; 6] = [
    Section { path: "", is_ours: false, names: TOP },
    Section {
        path: "permissions",
        is_ours: false,
        names: &[
            "additionalDirectories",
            "allow",
            "ask",
            "defaultMode",
            "deny",
            "disableAutoMode",
            "disableBypassPermissionsMode",
        ],
    },
    Section {
        path: "sandbox",
        is_ours: false,
        names: &[
            "allowOtherClients",
            "allowUnsandboxedCommands",
            "autoAllow",
            "autoAllowBashIfSandboxed",
            "enableWeakerNestedSandbox",
            "enabled",
            "excludedCommands",
            "filesystem",
            "ignoreViolations",
            "network",
            "passedVariables",
            "read",
            "ripgrep",
            "withheldVariables",
            "write",
        ],
    },
    Section {
        path: "pitcrew",
        is_ours: true,
        names: &[
            "claude",
            "compactAtPercent",
            "clientSockets",
            "contextWindow",
            "durability",
            "limits",
            "model",
            "modelPatience",
            "modelSilence",
            "mouse",
            "notify",
            "prices",
            "promptDeadlineSeconds",
            "removeIgnoredFiles",
            "teammateMode",
            "teammateProgram",
            "teams",
            "theme",
        ],
    },
    Section { path: "pitcrew.notify", is_ours: true, names: &["command", "desktop", "terminal"] },
    Section {
        path: "pitcrew.limits",
        is_ours: true,
        names: &[
            "agents",
            "broadcastRate",
            "callRate",
            "contentChars",
            "descriptionChars",
            "spawnRate",
            "subjectChars",
            "summaryChars",
            "taskRate",
            "tasks",
            "teamRate",
            "teams",
            "unreadMessages",
        ],
    },
];

const TOP: &[&str] = &[
    "$schema",
    "allowManagedHooksOnly",
    "allowManagedPermissionRulesOnly",
    "allowedMcpServers",
    "alwaysThinkingEnabled",
    "apiKeyHelper",
    "attribution",
    "autoUpdatesChannel",
    "availableModels",
    "awsAuthRefresh",
    "awsCredentialExport",
    "cleanupPeriodDays",
    "companyAnnouncements",
    "deniedMcpServers",
    "disableAllHooks",
    "disabledMcpjsonServers",
    "enableAllProjectMcpServers",
    "enabledMcpjsonServers",
    "enabledPlugins",
    "env",
    "extraKnownMarketplaces",
    "fileSuggestion",
    "forceLoginMethod",
    "forceLoginOrgUUID",
    "hooks",
    "includeCoAuthoredBy",
    "language",
    "model",
    "otelHeadersHelper",
    "outputStyle",
    "permissions",
    "pitcrew",
    "plansDirectory",
    "prefersReducedMotion",
    "respectGitignore",
    "sandbox",
    "showTurnDuration",
    "skipDangerousModePermissionPrompt",
    "spinnerTipsEnabled",
    "spinnerVerbs",
    "statusLine",
    "strictKnownMarketplaces",
    "teammateMode",
    "terminalProgressBarEnabled",
    "theme",
    "verbose",
];

struct Section {
    path: &'static str,
    is_ours: bool,
    names: &'static [&'static str],
}

impl Settings {
    /// Returns descriptions of the names that seem misspelled, each with its settings layer.
    pub(super) fn misspelt(&self) -> Vec<String> {
        self.sources()
            .iter()
            .flat_map(|source| SECTIONS.iter().flat_map(|section| section.misspelt(source)))
            .collect()
    }
}

impl Section {
    fn misspelt(&self, source: &Source) -> Vec<String> {
        let section = if self.path.is_empty() {
            Some(&source.value)
        } else {
            source.field(&self.path.split('.').collect::<Vec<_>>())
        };
        let Some(Value::Object(fields)) = section else { return Vec::new() };
        let unknown = fields.keys().filter(|name| !self.names.contains(&name.as_str()));
        // The name `trustedItems` is known only in the command line's layer, where `--trust` puts
        // the list of items trusted for one run.
        let is_of_run =
            |name: &str| self.is_ours && source.layer == Layer::Cli && name == TRUSTED_ITEMS;
        unknown.filter(|name| !is_of_run(name)).filter_map(|name| self.tell(name, source)).collect()
    }

    fn tell(&self, name: &str, source: &Source) -> Option<String> {
        let dotted = |name: &str| {
            if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
        };
        let near = nearest(name, self.names.iter().copied());
        if near.is_none() && !self.is_ours {
            return None;
        }
        let hint =
            near.map(|near| format!("; did you mean `{}`?", dotted(&near))).unwrap_or_default();
        Some(format!("nothing heeds `{}` in the {}{hint}", dotted(name), source.origin()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Layer, Settings};

    #[test]
    fn a_misspelt_name_is_told_with_the_one_that_was_meant() {
        let value = json!({
            "permisions": {"deny": ["Bash"]},
            "permissions": {"denny": ["Bash"], "allow": [], "somethingNew": 1},
            "sandbox": {"allowUnsandboxedComands": true, "enabled": true},
            "pitcrew": {"compactAtPercents": 10, "colour": "red", "teams": true, "limits": {"agentz": 7, "agents": 8}},
            "somethingElse": 1,
            "env": {"permisions": "1"},
        });
        let settings = Settings::merge(vec![(Layer::User, value)]).unwrap();
        insta::assert_snapshot!(settings.misspelt().join("\n"), @"
        nothing heeds `permisions` in the user settings; did you mean `permissions`?
        nothing heeds `permissions.denny` in the user settings; did you mean `permissions.deny`?
        nothing heeds `sandbox.allowUnsandboxedComands` in the user settings; did you mean `sandbox.allowUnsandboxedCommands`?
        nothing heeds `pitcrew.compactAtPercents` in the user settings; did you mean `pitcrew.compactAtPercent`?
        nothing heeds `pitcrew.colour` in the user settings
        nothing heeds `pitcrew.limits.agentz` in the user settings; did you mean `pitcrew.limits.agents`?
        ");
    }

    #[test]
    fn all_limits_are_known_by_name() {
        let limits = serde_json::to_value(pitcrew_protocol::Limits::default()).unwrap();
        let settings =
            Settings::merge(vec![(Layer::User, json!({"pitcrew": {"limits": limits}}))]).unwrap();
        assert_eq!(settings.unheeded(), [""; 0]);
    }
}
