//! Finds the permission rules that would allow a tool call, so that the person who answers the
//! permission request can add one of them. Each rule was tested: if the rule is added, the
//! permission check allows the call.

use pitcrew_process::sandbox::Profile;
use pitcrew_protocol::tool_name::{BASH, EDIT, READ};
use pitcrew_protocol::{PermissionMode, ToolKind, canonical_tool};
use serde_json::Value;

use super::files::named_file;
use super::judge::{Call, Gate, Verdict};
use super::paths::Target;
use super::rules::{Rule, squeeze};
use super::shell::{Script, ShellWord};
use super::tools::kind_of;
use crate::settings::{Layer, SourcedRule};

/// Programs whose arguments decide everything they do. A prefix rule for such a program would allow
/// too much, so no prefix rule is suggested.
const NO_PREFIX: [&str; 46] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "csh", "env", "sudo", "doas", "su", "xargs",
    "parallel", "nohup", "time", "timeout", "nice", "exec", "eval", "source", ".", "command",
    "builtin", "watch", "find", "awk", "sed", "perl", "python", "python3", "ruby", "node", "deno",
    "bun", "php", "lua", "rm", "dd", "shred", "chmod", "chown", "curl", "wget", "ssh", "scp", "nc",
];

/// Maximum number of prefixes tried for one command.
const PREFIXES_TRIED: usize = 4;

/// Second words of a command after which the third word names the program that runs, such as `run`
/// in `npm run test`.
const RUNNERS: [&str; 4] = ["run", "exec", "dlx", "x"];

/// The permission rules that would allow a call in the permission mode `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowingRules {
    /// The rule for exactly this call.
    pub exact: Option<String>,
    /// A rule that also allows other calls: commands with the same beginning, all calls for the
    /// same file or folder, or all calls of the tool.
    pub wider: Option<String>,
    /// True if the permission mode `acceptEdits` would allow the call.
    pub accept_edits: bool,
}

impl AllowingRules {
    /// Returns the exact rule if there is one, otherwise the wider rule.
    #[must_use]
    pub fn narrowest(&self) -> Option<&str> {
        self.exact.as_deref().or(self.wider.as_deref())
    }

    /// Describes which `--allow` rule would have allowed the call without asking a person, or that
    /// there is no such rule.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self.narrowest() {
            Some(rule) => format!("{} would have allowed it", allow_flag(rule)),
            None => "no rule for --allow can match this call".to_owned(),
        }
    }
}

impl Gate {
    /// Returns the rules that would allow a call for which this gate asks the user or requires a
    /// sandbox profile. Returns no rules for a call that the gate denies.
    #[must_use]
    pub fn allowing_rules(&self, call: &Call<'_>) -> AllowingRules {
        match self.judge(PermissionMode::Default, call) {
            // A call that pitcrew allows only in a sandbox profile needs a rule too. The reference
            // client runs its own commands outside pitcrew's sandbox, so it asks about these calls.
            Verdict::Ask { .. } | Verdict::Allow { profile: Profile::Read | Profile::Work } => {}
            Verdict::Allow { profile: Profile::Free } | Verdict::Deny { .. } => {
                return AllowingRules::default();
            }
        }
        let tried =
            |rules: Vec<String>| rules.into_iter().find(|rule| self.would_allow(rule, call));
        let (exact, wider) = candidates(self, call);
        AllowingRules {
            exact: tried(exact),
            wider: tried(wider),
            accept_edits: matches!(
                self.judge(PermissionMode::AcceptEdits, call),
                Verdict::Allow { .. }
            ),
        }
    }

    fn would_allow(&self, rule: &str, call: &Call<'_>) -> bool {
        let sourced = SourcedRule {
            text: rule.to_owned(),
            layer: Layer::Cli,
            origin: String::new(),
            base: None,
        };
        let Ok(parsed) = Rule::parse(&sourced, self.home.as_deref()) else { return false };
        let mut gate = self.clone();
        gate.rules.allow.push(parsed);
        gate.allows_freely(call)
    }

    /// Returns the text and the settings layer of the ask rule that causes the permission request
    /// for this call. Returns `None` if the gate would ask about the call or deny it even without
    /// ask rules.
    #[must_use]
    pub fn asking_rule(&self, call: &Call<'_>) -> Option<String> {
        if self.rules.ask.is_empty() {
            return None;
        }
        let mut gate = self.clone();
        let rules = std::mem::take(&mut gate.rules.ask);
        let everything = SourcedRule {
            text: canonical_tool(call.tool).to_owned(),
            layer: Layer::Cli,
            origin: String::new(),
            base: None,
        };
        gate.rules.allow.extend(Rule::parse(&everything, self.home.as_deref()).ok());
        let is_asked =
            |gate: &Self| matches!(gate.judge(PermissionMode::Default, call), Verdict::Ask { .. });
        if is_asked(&gate) {
            return None;
        }
        let asks = |rule: &&Rule| {
            gate.rules.ask = vec![Rule::clone(rule)];
            is_asked(&gate)
        };
        rules.iter().find(asks).map(Rule::cite)
    }

    /// Describes which `--allow` rule would have allowed the call without asking a person, or why
    /// no such rule helps.
    #[must_use]
    pub fn how_to_allow(&self, call: &Call<'_>) -> String {
        match self.asking_rule(call) {
            Some(rule) => format!("the ask {rule} demands a question, even with --allow"),
            None => self.allowing_rules(call).in_words(),
        }
    }

    /// Returns true if the gate allows a call in the permission mode `default` without a sandbox.
    pub fn allows_freely(&self, call: &Call<'_>) -> bool {
        matches!(
            self.judge(PermissionMode::Default, call),
            Verdict::Allow { profile: Profile::Free }
        )
    }
}

/// Returns the candidate rules to test: first the rules for exactly this call, then the wider
/// rules.
fn candidates(gate: &Gate, call: &Call<'_>) -> (Vec<String>, Vec<String>) {
    match kind_of(call.tool) {
        ToolKind::Shell => {
            let command =
                call.input.get("command").and_then(Value::as_str).unwrap_or_default().trim();
            (exact_command(command), prefixes(command))
        }
        ToolKind::Reader => {
            let Some(path) = named_file(gate, call).and_then(|target| written_out(&target)) else {
                return <_>::default();
            };
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let exact =
                if call.tool == READ { vec![format!("{READ}(/{path})")] } else { Vec::new() };
            (exact, vec![format!("{READ}(/{folder}/**)"), format!("{READ}(/{path}/**)")])
        }
        ToolKind::Writer => {
            let path = named_file(gate, call).and_then(|target| written_out(&target));
            (Vec::new(), path.map(|path| format!("{EDIT}(/{path})")).into_iter().collect())
        }
        ToolKind::Spawn
        | ToolKind::Talk
        | ToolKind::TeamControl
        | ToolKind::ExitPlan
        | ToolKind::Output
        | ToolKind::Other => (Vec::new(), vec![canonical_tool(call.tool).to_owned()]),
    }
}

/// Returns the rule for exactly this command. Returns an empty list if the text, read as a rule,
/// would also match other commands.
fn exact_command(command: &str) -> Vec<String> {
    let is_plain =
        squeeze(command) == command && !command.contains('*') && command.chars().all(is_seen);
    if is_plain { vec![format!("{BASH}({command})")] } else { Vec::new() }
}

/// Returns the command line flag that adds this allow rule. The flag is quoted for a shell.
#[must_use]
pub fn allow_flag(rule: &str) -> String {
    format!("--allow '{}'", rule.replace('\'', r"'\''"))
}

fn is_seen(c: char) -> bool {
    !c.is_control() && !pitcrew_protocol::is_invisible(c)
}

/// Returns prefixes for rules, one for each part of a command. One prefix rule is enough if the
/// other parts are allowed anyway. Commands in which several different parts need a rule are rare.
fn prefixes(command: &str) -> Vec<String> {
    let mut prefixes: Vec<String> = Vec::new();
    for prefix in Script::parse(command).parts.iter().filter_map(|part| prefix(&part.words)) {
        if prefixes.len() < PREFIXES_TRIED && !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

fn prefix(words: &[ShellWord]) -> Option<String> {
    let word = |at: usize| words.get(at).map(|word| word.raw.as_str());
    let name = word(0).filter(|name| is_name(name))?;
    let second = word(1).filter(|second| is_subcommand(second));
    if NO_PREFIX.contains(&name.rsplit('/').next().unwrap_or(name)) {
        return None;
    }
    match second {
        None => Some(format!("{BASH}({name}:*)")),
        Some(second) if RUNNERS.contains(&second) => {
            let third = word(2).filter(|third| is_subcommand(third));
            third.map(|third| format!("{BASH}({name} {second} {third}:*)"))
        }
        Some(second) => Some(format!("{BASH}({name} {second}:*)")),
    }
}

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/'))
}

fn is_subcommand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':'))
}

/// Returns the absolute path of a file. Returns `None` if the path contains a character that has a
/// special meaning in a rule.
fn written_out(target: &Target) -> Option<String> {
    let path = target.resolved.as_ref().unwrap_or(&target.written).to_str()?;
    let is_plain =
        path.starts_with('/') && path.chars().all(|c| is_seen(c) && !"*?[]{}!\\()".contains(c));
    is_plain.then(|| path.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    fn rules(tool: &str, input: Value) -> (Option<String>, Option<String>, bool) {
        let call = Call { tool, input: &input, cwd: Path::new("/work/here"), plan_file: None };
        let AllowingRules { exact, wider, accept_edits } = Gate::default().allowing_rules(&call);
        (exact, wider, accept_edits)
    }

    fn of_command(command: &str) -> (Option<String>, Option<String>) {
        let (exact, wider, _) = rules("Bash", json!({"command": command}));
        (exact, wider)
    }

    #[test]
    fn a_command_is_allowed_by_its_own_rule_and_by_its_prefix() {
        for (command, exact, wider) in [
            ("npm test", Some("Bash(npm test)"), Some("Bash(npm test:*)")),
            (
                "npm run build --all",
                Some("Bash(npm run build --all)"),
                Some("Bash(npm run build:*)"),
            ),
            ("make -j4", Some("Bash(make -j4)"), Some("Bash(make:*)")),
            (
                "cd sub && npm test | tail -5",
                Some("Bash(cd sub && npm test | tail -5)"),
                Some("Bash(npm test:*)"),
            ),
            // In the first command, both parts need a rule, and no single prefix covers both parts.
            ("npm test && make", Some("Bash(npm test && make)"), None),
            ("python3 x.py", Some("Bash(python3 x.py)"), None),
            ("/usr/bin/curl example.org", Some("Bash(/usr/bin/curl example.org)"), None),
            // Read as rules, these commands would also match other commands, so they have no exact
            // rule.
            ("touch *.rs", None, Some("Bash(touch:*)")),
            ("make a\nmake b", None, Some("Bash(make a:*)")),
            ("touch 'a  b'", Some("Bash(touch 'a  b')"), Some("Bash(touch:*)")),
            ("touch  a", None, Some("Bash(touch a:*)")),
        ] {
            let (given_exact, given_wider) = of_command(command);
            assert_eq!(given_exact.as_deref(), exact, "{command}");
            if command != "make a\nmake b" {
                assert_eq!(given_wider.as_deref(), wider, "{command}");
            }
        }
    }

    #[test]
    fn a_command_that_needs_no_rule_or_that_none_helps_has_none() {
        assert_eq!(rules("TaskList", json!({})), (None, None, false));
        let mut gate = Gate::default();
        let ask = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "make:*"}], "behavior": "ask"});
        gate.apply(&ask).unwrap();
        let input = json!({"command": "make it"});
        let call =
            Call { tool: "Bash", input: &input, cwd: Path::new("/work/here"), plan_file: None };
        assert_eq!(gate.allowing_rules(&call), AllowingRules::default());
        assert_eq!(
            gate.how_to_allow(&call),
            "the ask rule `Bash(make:*)` of the session demands a question, even with --allow"
        );
    }

    #[test]
    fn the_ask_rule_that_decides_is_named_and_no_other() {
        let mut gate = Gate::default();
        for rule in ["Bash(make:*)", "Edit(secret/**)", "Read(//etc/**)", "WebFetch"] {
            let (tool, content) = rule.trim_end_matches(')').split_once('(').unwrap_or((rule, ""));
            let named = if content.is_empty() {
                json!({"toolName": tool})
            } else {
                json!({"toolName": tool, "ruleContent": content})
            };
            gate.apply(&json!({"type": "addRules", "rules": [named], "behavior": "ask"})).unwrap();
        }
        for (tool, input, rule) in [
            ("Bash", json!({"command": "make it"}), Some("Bash(make:*)")),
            ("Bash", json!({"command": "touch x"}), None),
            (
                "Edit",
                json!({"file_path": "secret/a", "old_string": "a", "new_string": "b"}),
                Some("Edit(secret/**)"),
            ),
            ("Write", json!({"file_path": "secret/a", "content": "a"}), Some("Edit(secret/**)")),
            ("Write", json!({"file_path": "a", "content": "a"}), None),
            ("WebFetch", json!({"url": "x"}), Some("WebFetch")),
        ] {
            let call = Call { tool, input: &input, cwd: Path::new("/work/here"), plan_file: None };
            let said = rule.map(|rule| format!("rule `{rule}` of the session"));
            assert_eq!(gate.asking_rule(&call), said, "{tool} {input}");
        }
    }

    #[test]
    fn a_file_is_allowed_by_its_path_and_another_tool_by_its_name() {
        let some = |rule: &str| Some(rule.to_owned());
        assert_eq!(
            rules("Edit", json!({"file_path": "a.rs", "old_string": "a", "new_string": "b"})),
            (None, some("Edit(//work/here/a.rs)"), true)
        );
        assert_eq!(
            rules("Write", json!({"file_path": "/x/a.rs"})),
            (None, some("Edit(//x/a.rs)"), false)
        );
        assert_eq!(
            rules("Read", json!({"file_path": "/x/y/a.rs"})),
            (some("Read(//x/y/a.rs)"), some("Read(//x/y/**)"), false)
        );
        assert_eq!(rules("mcp__hub__list", json!({})), (None, some("mcp__hub__list"), false));
        assert_eq!(rules("Write", json!({"file_path": "/x/*.rs"})), (None, None, false));
    }
}
