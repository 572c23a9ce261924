//! Lists the effects of a project's files. Each effect has a digest, so that pitcrew later
//! recognizes an effect about which the user has decided.

use std::path::{Path, PathBuf};

use pitcrew_process::sandbox::git_folder::{Claim, Claimed};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::agent_files::AgentDefinition;

/// One effect of a project's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The kind of effect.
    pub kind: ItemKind,
    /// The file that causes the effect, relative to the project's folder.
    pub file: PathBuf,
    /// A description of the effect, with text from the file. The text may contain terminal control
    /// characters.
    pub does: String,
    /// Digest of the effect. If an effect has the same digest in a later run, pitcrew treats it as
    /// the effect about which the user has decided.
    pub digest: String,
}

/// The kinds of effects, in the order in which they are listed. Commands that run automatically
/// come last, so that the user sees them directly before the question whether to trust the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A setting such as the model.
    Setting,
    /// An agent definition.
    Agent,
    /// An additional folder that is treated as a working folder.
    Folder,
    /// A git folder or object store outside the checkout that git uses for the checkout.
    GitFolder,
    /// An environment variable for every command.
    Variable,
    /// The permission mode in which a session starts.
    Mode,
    /// A rule that allows calls without asking the user.
    Rule,
    /// An MCP server. Pitcrew starts no MCP servers, but a teammate that runs the reference client
    /// may start them.
    McpServer,
    /// A command that runs automatically (a hook).
    Hook,
}

impl ItemKind {
    /// Returns the name of the kind. The name is used in the message that an effect of this kind is
    /// ignored.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Setting => "settings",
            Self::Agent => "agent",
            Self::Folder => "additionalDirectories",
            Self::GitFolder => "gitFolders",
            Self::Variable => "env",
            Self::Mode => "defaultMode",
            Self::Rule => "allow",
            Self::McpServer => "mcpServers",
            Self::Hook => "hooks",
        }
    }
}

impl Item {
    /// Returns the name of the effect. The name is used in the message that this effect is ignored.
    /// For an effect that sets a setting, the name is the key of the setting. For every other
    /// effect, it is the name of the kind.
    pub(super) fn left_out_name(&self) -> String {
        let setting = self.does.strip_prefix("sets ").and_then(|rest| rest.split_once(" to "));
        match (self.kind, setting) {
            (ItemKind::Setting, Some((key, _))) => key.to_owned(),
            (kind, _) => kind.name().to_owned(),
        }
    }

    /// Returns true if pitcrew itself applies the effect, and false if only another client does.
    #[must_use]
    pub fn acts(&self) -> bool {
        match self.kind {
            ItemKind::McpServer => false,
            ItemKind::Setting
            | ItemKind::Agent
            | ItemKind::Folder
            | ItemKind::GitFolder
            | ItemKind::Variable
            | ItemKind::Mode
            | ItemKind::Rule
            | ItemKind::Hook => true,
        }
    }
}

/// Collects the effects of one project's files.
pub(super) struct Lister<'a> {
    /// The project's folder, relative to the top of its checkout. The folder is part of the digest,
    /// because the same text can have another effect in another folder.
    pub(super) below: &'a Path,
    pub(super) items: Vec<Item>,
}

impl Lister<'_> {
    /// Adds the effects of a settings layer. Only the fields that are listed here are used from a
    /// trusted layer (see [`counting`]).
    pub(super) fn settings(&mut self, file: &Path, layer: &Value) {
        let Value::Object(fields) = layer else { return };
        for (key, value) in fields {
            match key.as_str() {
                "permissions" => self.permissions(file, value),
                "env" => self.each(file, value, ItemKind::Variable, |name, value| {
                    format!("sets {name}={}", plain(value))
                }),
                "hooks" => self.hooks(file, value),
                "pitcrew" => self.each(file, value, ItemKind::Setting, |name, value| {
                    format!("sets pitcrew.{name} to {value}")
                }),
                "model" | "teammateMode" | "disableAllHooks" => self.add(
                    ItemKind::Setting,
                    file,
                    value,
                    format!("sets {key} to {}", plain(value)),
                ),
                _ => {}
            }
        }
    }

    /// Adds an agent definition. The definition's prompt is not part of the digest, because the
    /// prompt is an instruction like `CLAUDE.md`.
    pub(super) fn agent(&mut self, file: &Path, agent: &AgentDefinition) {
        let tools =
            agent.tools.as_ref().map_or_else(|| "every tool".to_owned(), |tools| tools.join(", "));
        let mode = agent
            .permission_mode
            .map(|mode| format!(", in mode {}", mode.as_str()))
            .unwrap_or_default();
        let model =
            agent.model.as_ref().map(|model| format!(", on model {model}")).unwrap_or_default();
        let does = format!("defines the agent {} with {tools}{mode}{model}", agent.name);
        self.add(ItemKind::Agent, file, &Value::String(does.clone()), does);
    }

    /// Adds the MCP servers that a `.mcp.json` file names.
    pub(super) fn mcp_servers(&mut self, file: &Path, document: &Value) {
        let Some(servers) = document.get("mcpServers") else { return };
        self.each(file, servers, ItemKind::McpServer, |name, server| {
            let words = |field: &str| server.get(field).and_then(Value::as_str).map(str::to_owned);
            let arguments =
                server.get("args").and_then(Value::as_array).into_iter().flatten().map(plain);
            let command = words("command")
                .map(|it| [it].into_iter().chain(arguments).collect::<Vec<_>>().join(" "));
            let does = command
                .map(|it| format!("runs {it}"))
                .or_else(|| words("url").map(|url| format!("connects to {url}")));
            format!(
                "starts the MCP server {name}, which {}",
                does.unwrap_or_else(|| format!("is {server}"))
            )
        });
    }

    /// Adds a folder outside the checkout. Git uses the folder because a file in the checkout names
    /// it.
    pub(super) fn git_folder(&mut self, claim: &Claim) {
        let folder = claim.folder.display();
        let does = match claim.what() {
            Claimed::Objects => format!(
                "borrows git objects of {folder}: commands can read all that this repository holds"
            ),
            Claimed::GitFolder => format!(
                "has its git folder in {folder}: commands can read it and, in the sandbox, commit there"
            ),
            Claimed::Part => format!(
                "has a part of its git folder in {folder}: commands can read it, and git writes there"
            ),
        };
        let content = Value::String(claim.folder.to_string_lossy().into_owned());
        self.add(ItemKind::GitFolder, Path::new(&claim.file), &content, does);
    }

    fn permissions(&mut self, file: &Path, section: &Value) {
        let list = |name: &str| section.get(name).and_then(Value::as_array).into_iter().flatten();
        for rule in list("allow") {
            self.add(
                ItemKind::Rule,
                file,
                rule,
                format!("allows without a question: {}", plain(rule)),
            );
        }
        for folder in list("additionalDirectories") {
            self.add(
                ItemKind::Folder,
                file,
                folder,
                format!("counts as the working folder: {}", plain(folder)),
            );
        }
        if let Some(mode) = section.get("defaultMode") {
            self.add(ItemKind::Mode, file, mode, format!("starts in mode {}", plain(mode)));
        }
    }

    /// Adds the hooks of a `hooks` section. What is not of the usual form is added too, as it is
    /// written: a hook that cannot be read refuses calls.
    fn hooks(&mut self, file: &Path, section: &Value) {
        let Value::Object(events) = section else { return };
        for (event, groups) in events {
            let Value::Array(groups) = groups else {
                self.hook(file, event, &serde_json::json!([event, groups]), &groups.to_string());
                continue;
            };
            for group in groups {
                let Some(Value::Array(entries)) = group.get("hooks") else {
                    self.hook(file, event, &serde_json::json!([event, group]), &group.to_string());
                    continue;
                };
                // Everything beside the hooks says when they run.
                let others = without(group, &["hooks", "matcher"]);
                let matcher = group.get("matcher").filter(|it| *it != "");
                let matches = match matcher {
                    Some(matcher) => format!("{event} ({})", plain(matcher)),
                    None => event.clone(),
                };
                for entry in entries {
                    // The fields that each hook has are the content since the first version. It must
                    // not change, because earlier decisions of the user name its digest.
                    let content = match &others {
                        Value::Object(fields) if fields.is_empty() => {
                            serde_json::json!([event, matcher, entry])
                        }
                        others => serde_json::json!([event, matcher, entry, others]),
                    };
                    self.hook(file, &matches, &content, &hook_in_words(entry));
                }
            }
        }
    }

    fn hook(&mut self, file: &Path, matches: &str, content: &Value, does: &str) {
        self.add(ItemKind::Hook, file, content, format!("runs on {matches}: {does}"));
    }

    fn each(
        &mut self,
        file: &Path,
        section: &Value,
        kind: ItemKind,
        does: impl Fn(&str, &Value) -> String,
    ) {
        let Value::Object(fields) = section else { return };
        for (name, value) in fields {
            self.add(kind, file, &serde_json::json!([name, value]), does(name, value));
        }
    }

    fn add(&mut self, kind: ItemKind, file: &Path, content: &Value, does: String) {
        let digest = digest(kind, self.below, file, content);
        // List an effect only once, even if a file repeats it.
        if !self.items.iter().any(|item| item.digest == digest) {
            self.items.push(Item { kind, file: file.to_path_buf(), does, digest });
        }
    }
}

/// Returns the part of a trusted layer that is used: the fields that [`Lister::settings`] lists,
/// and the fields that need no trust. Other keys are removed, because the user would trust them
/// without seeing them.
pub(super) fn counting(layer: &Value) -> Value {
    only(
        layer,
        &["permissions", "env", "hooks", "disableAllHooks", "pitcrew", "model", "teammateMode"],
        |permissions| {
            only(
                permissions,
                &["allow", "deny", "ask", "additionalDirectories", "defaultMode"],
                Value::clone,
            )
        },
    )
}

/// Returns the part of a layer that is used even if the user does not trust the project.
pub(super) fn without_trust(layer: &Value) -> Value {
    only(layer, &["permissions"], |permissions| only(permissions, &["deny", "ask"], Value::clone))
}

/// Returns an object with only these keys. A value that is not an object is returned unchanged, so
/// that its error is reported later.
fn only(value: &Value, keys: &[&str], permissions: impl Fn(&Value) -> Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let kept = fields.iter().filter(|(key, _)| keys.contains(&key.as_str()));
    let kept = kept.map(|(key, value)| {
        let value = if key == "permissions" { permissions(value) } else { value.clone() };
        (key.clone(), value)
    });
    Value::Object(kept.collect::<Map<_, _>>())
}

/// Returns the text for one hook: its command, and everything else that says what it does. Only a
/// time limit and a message for the screen are left out.
fn hook_in_words(entry: &Value) -> String {
    let command = entry.get("command").and_then(Value::as_str);
    let is_command = entry.get("type").and_then(Value::as_str) == Some("command");
    let Some(command) = command.filter(|_| is_command) else { return entry.to_string() };
    match without(entry, &["type", "command", "timeout", "statusMessage"]) {
        Value::Object(fields) if fields.is_empty() => command.to_owned(),
        others => format!("{command}, with {others}"),
    }
}

/// Returns an object without these keys.
fn without(value: &Value, keys: &[&str]) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let kept = fields.filter(|(key, _)| !keys.contains(&key.as_str()));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the digest of an effect. The digest covers the kind and the content of the effect, the
/// file that causes it, and the project's folder. The keys of JSON objects are sorted first, so
/// reformatting a file does not change the digest.
fn digest(kind: ItemKind, below: &Path, file: &Path, content: &Value) -> String {
    let parts =
        serde_json::json!([kind, below.to_string_lossy(), file.to_string_lossy(), sorted(content)]);
    Sha256::digest(parts.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> =
                fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(layer: &Value) -> Vec<Item> {
        let mut lister = Lister { below: Path::new(""), items: Vec::new() };
        lister.settings(Path::new(".claude/settings.json"), layer);
        lister.items
    }

    #[test]
    fn everything_that_needs_trust_is_listed() {
        let layer = json!({
            "$schema": "s",
            "model": "opus",
            "env": {"CI": "1"},
            "permissions": {"allow": ["Bash"], "deny": ["Read(x)"], "ask": ["Edit"], "additionalDirectories": ["/"],
                "defaultMode": "acceptEdits"},
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./a.sh", "timeout": 1}]}]},
            "pitcrew": {"limits": {"agents": 7}},
            "statusLine": {"type": "command", "command": "x"}
        });
        let does: Vec<String> = listed(&layer).into_iter().map(|item| item.does).collect();
        insta::assert_snapshot!(does.join("\n"), @r#"
        sets model to opus
        sets CI=1
        allows without a question: Bash
        counts as the working folder: /
        starts in mode acceptEdits
        runs on PreToolUse (Bash): ./a.sh
        sets pitcrew.limits to {"agents":7}
        "#);
    }

    #[test]
    fn what_counts_of_a_trusted_layer_is_what_is_listed_and_the_rules_that_restrict() {
        let layer = json!({"permissions": {"deny": ["A"], "ask": ["B"], "allow": ["C"], "later": 1}, "later": {"a": 1}, "env": {}});
        assert_eq!(
            counting(&layer),
            json!({"permissions": {"deny": ["A"], "ask": ["B"], "allow": ["C"]}, "env": {}})
        );
        assert_eq!(without_trust(&layer), json!({"permissions": {"deny": ["A"], "ask": ["B"]}}));
        assert_eq!(without_trust(&json!({"permissions": 1})), json!({"permissions": 1}));
    }

    #[test]
    fn every_field_of_a_hook_is_part_of_what_is_trusted() {
        let listed_as = |groups: Value| {
            let mut items = listed(&json!({"hooks": {"PreToolUse": groups}}));
            let item = items.pop().unwrap();
            (item.does, item.digest)
        };
        let hook = |hook: Value| listed_as(json!([{"matcher": "Bash", "hooks": [hook]}]));
        let plain = json!({"type": "command", "command": "./a.sh"});
        let (_, digest) = hook(plain.clone());
        let with = |name: &str, value: Value| {
            let mut changed = plain.clone();
            changed[name] = value;
            hook(changed)
        };
        let mut seen = vec![digest];
        for (name, value, does) in [
            ("args", json!(["-x"]), r#"runs on PreToolUse (Bash): ./a.sh, with {"args":["-x"]}"#),
            ("args", json!([]), r#"runs on PreToolUse (Bash): ./a.sh, with {"args":[]}"#),
            (
                "if",
                json!("Bash(git *)"),
                r#"runs on PreToolUse (Bash): ./a.sh, with {"if":"Bash(git *)"}"#,
            ),
            ("async", json!(true), r#"runs on PreToolUse (Bash): ./a.sh, with {"async":true}"#),
            ("shell", json!("bash"), r#"runs on PreToolUse (Bash): ./a.sh, with {"shell":"bash"}"#),
            ("later", json!(1), r#"runs on PreToolUse (Bash): ./a.sh, with {"later":1}"#),
            ("timeout", json!(9), "runs on PreToolUse (Bash): ./a.sh"),
            (
                "type",
                json!("prompt"),
                r#"runs on PreToolUse (Bash): {"type":"prompt","command":"./a.sh"}"#,
            ),
        ] {
            let (listed, digest) = with(name, value);
            assert_eq!(listed, does);
            assert!(!seen.contains(&digest), "{name}");
            seen.push(digest);
        }
        for (groups, does) in [
            (json!({"hooks": []}), r#"runs on PreToolUse: {"hooks":[]}"#),
            (json!([7]), "runs on PreToolUse: 7"),
            (
                json!([{"matcher": "Bash", "hooks": 3}]),
                r#"runs on PreToolUse: {"matcher":"Bash","hooks":3}"#,
            ),
            (json!([{"matcher": 3, "hooks": [plain]}]), "runs on PreToolUse (3): ./a.sh"),
            (
                json!([{"matcher": "Bash", "later": 1, "hooks": [plain]}]),
                "runs on PreToolUse (Bash): ./a.sh",
            ),
            (
                json!([{"hooks": [{"type": "http", "url": "https://a.b"}]}]),
                r#"runs on PreToolUse: {"type":"http","url":"https://a.b"}"#,
            ),
        ] {
            let (listed, digest) = listed_as(groups);
            assert_eq!(listed, does);
            assert!(!seen.contains(&digest), "{does}");
            seen.push(digest);
        }
    }

    #[test]
    fn a_thing_is_known_again_in_another_order_and_not_in_another_place() {
        let hook = |entry: Value| json!({"hooks": {"Stop": [{"hooks": [entry]}]}});
        let digest = |layer: Value| listed(&layer).pop().unwrap().digest;
        let one = digest(hook(json!({"type": "command", "command": "a"})));
        assert_eq!(one, digest(hook(json!({"command": "a", "type": "command"}))));
        assert_ne!(one, digest(hook(json!({"command": "a ", "type": "command"}))));
        let mut lister = Lister { below: Path::new("sub"), items: Vec::new() };
        lister.settings(
            Path::new(".claude/settings.json"),
            &hook(json!({"type": "command", "command": "a"})),
        );
        assert_ne!(lister.items.pop().unwrap().digest, one);
    }
}
