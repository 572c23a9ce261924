//! Matches calls with a rule that is not one of the gate's own: the `if` of a hook.

use std::path::Path;

use pitcrew_protocol::ToolKind;
use serde_json::Value;

use super::files::named_file;
use super::judge::{Call, Gate};
use super::rules::{Access, Rule, RuleError, RuleSet};
use super::tools::kind_of;
use super::{bash, files};
use crate::settings::SourcedRule;

/// A condition on calls, in the syntax of permission rules.
#[derive(Clone, Debug)]
pub struct CallCondition(Rule);

impl CallCondition {
    /// Parses a condition.
    ///
    /// # Errors
    /// If the text is no permission rule, or if it is one that can match no call.
    pub fn parse(rule: &SourcedRule, home: Option<&Path>) -> Result<Self, RuleError> {
        Rule::parse(rule, home).map(Self)
    }
}

impl Gate {
    /// Returns true if the condition may match the call or a part of it, as a deny rule with this
    /// text would. This is the question for whatever restricts calls.
    #[must_use]
    pub fn may_meet(&self, condition: &CallCondition, call: &Call<'_>) -> bool {
        self.is_met_by(&condition.0, call)
    }

    /// Returns true if the condition certainly matches the whole call, as an allow rule with this
    /// text would. This is the question for whatever allows calls.
    #[must_use]
    pub fn surely_meets(&self, condition: &CallCondition, call: &Call<'_>) -> bool {
        let rules = RuleSet { allow: vec![condition.0.clone()], ..RuleSet::default() };
        let gate = Self { rules, ..self.clone() };
        self.may_meet(condition, call) && gate.allows_freely(call)
    }

    /// Returns true if an ask rule demands a question about this call.
    #[must_use]
    pub fn has_ask_rule_for(&self, call: &Call<'_>) -> bool {
        self.rules.ask.iter().any(|rule| self.is_met_by(rule, call))
    }

    fn is_met_by(&self, rule: &Rule, call: &Call<'_>) -> bool {
        match kind_of(call.tool) {
            ToolKind::Shell => bash::is_met_by(self, rule, call),
            kind @ (ToolKind::Reader | ToolKind::Writer) => {
                let access = if kind == ToolKind::Writer { Access::Write } else { Access::Read };
                named_file(self, call)
                    .is_none_or(|target| files::is_met_by(rule, call, access, &target))
            }
            ToolKind::Spawn
            | ToolKind::Talk
            | ToolKind::TeamControl
            | ToolKind::ExitPlan
            | ToolKind::Output
            | ToolKind::Other => restricts(rule, call),
        }
    }
}

/// Returns true if a deny or ask rule is about a call of a tool that neither runs commands nor
/// works on a named file. A rule with an argument that the gate cannot check counts too.
pub(super) fn restricts(rule: &Rule, call: &Call<'_>) -> bool {
    let word = call.input.get("subagent_type").and_then(Value::as_str);
    rule.names_tool(call.tool) || rule.names_word(call.tool, word) || rule.is_opaque_for(call.tool)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::{Layer, Settings};

    /// Returns whether the condition may match a call, and whether it surely matches all of it.
    fn met(condition: &str, tool: &str, input: Value) -> (bool, bool) {
        let folder = tempfile::tempdir().unwrap();
        let rule = SourcedRule {
            text: condition.to_owned(),
            layer: Layer::Project,
            origin: "project settings".to_owned(),
            base: Some(folder.path().to_path_buf()),
        };
        let condition = CallCondition::parse(&rule, None).unwrap();
        let gate = Gate::from_settings(&Settings::default(), None).unwrap();
        let call = Call { tool, input: &input, cwd: folder.path(), plan_file: None };
        (gate.may_meet(&condition, &call), gate.surely_meets(&condition, &call))
    }

    #[test]
    fn a_condition_restricts_what_it_may_match_and_allows_what_it_matches_as_a_whole() {
        let bash = |command: &str| json!({ "command": command });
        let path = |path: &str| json!({ "file_path": path });
        for (condition, tool, input, expected) in [
            ("Bash(git *)", "Bash", bash("git push"), (true, true)),
            ("Bash(git *)", "Bash", bash("echo x > y"), (false, false)),
            ("Bash(git *)", "Bash", bash("git push; rm -rf x"), (true, false)),
            ("Bash(git *)", "Bash", bash("rm -rf x && git push"), (true, false)),
            ("Bash(git *)", "Bash", bash("echo $(git push)"), (true, true)),
            ("Bash(git *)", "Bash", bash("git push > log"), (true, false)),
            ("Bash", "Bash", bash("rm x"), (true, true)),
            ("Bash(git *)", "Write", path("git"), (false, false)),
            ("Write", "Write", path("a.txt"), (true, true)),
            ("Edit(src/**)", "Write", path("src/a.txt"), (true, true)),
            ("Edit(src/**)", "Write", path("b.txt"), (false, false)),
            ("Read(./secrets/**)", "Read", path("secrets/k"), (true, true)),
            ("Read(./secrets/**)", "Bash", bash("cat secrets/k"), (true, false)),
            ("Agent(Explore)", "Task", json!({"subagent_type": "Explore"}), (true, true)),
            ("Agent(Explore)", "Task", json!({"subagent_type": "Plan"}), (false, false)),
            ("WebFetch(domain:a.b)", "WebFetch", json!({"url": "https://c.d"}), (true, false)),
        ] {
            assert_eq!(
                met(condition, tool, input.clone()),
                expected,
                "{condition} on {tool} {input}"
            );
        }
    }

    #[test]
    fn a_condition_finds_a_command_behind_others() {
        for command in ["A=1 timeout 5 git push", "sh -c 'git push'", "ls | xargs git push"] {
            assert!(met("Bash(git *)", "Bash", json!({ "command": command })).0, "{command}");
        }
    }

    #[test]
    fn a_condition_that_is_no_rule_or_can_match_nothing_is_an_error() {
        for text in ["Bash(", "", "bash(git *)", "Bash()", "Grep(x)"] {
            let rule = SourcedRule {
                text: text.to_owned(),
                layer: Layer::User,
                origin: String::new(),
                base: None,
            };
            assert!(CallCondition::parse(&rule, None).is_err(), "{text:?}");
        }
    }
}
