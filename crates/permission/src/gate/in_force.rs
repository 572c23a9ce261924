//! Lists the rules of a gate, for a person who wants to know why a call is allowed or refused.

use serde::{Deserialize, Serialize};

use super::judge::Gate;
use super::rules::Rule;

/// The list that contains a rule. The gate checks the lists in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleList {
    /// Calls that the rule matches are refused.
    Deny,
    /// A person is asked about calls that the rule matches.
    Ask,
    /// Calls that the rule matches are allowed.
    Allow,
}

/// A rule that a gate applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleInForce {
    /// The list that contains the rule.
    pub list: RuleList,
    /// The rule as written, such as `Bash(npm test:*)`.
    pub rule: String,
    /// The settings layer of the rule and its file.
    pub origin: String,
}

impl Gate {
    /// Returns the rules that this gate applies, in the order in which it checks them. A rule that
    /// is malformed and therefore ignored is not among them.
    #[must_use]
    pub fn rules_in_force(&self) -> Vec<RuleInForce> {
        let of = |list: RuleList, rules: &[Rule]| -> Vec<RuleInForce> {
            let named = |rule: &Rule| RuleInForce {
                list,
                rule: rule.text().to_owned(),
                origin: rule.origin().to_owned(),
            };
            rules.iter().map(named).collect()
        };
        let mut all = of(RuleList::Deny, &self.rules.deny);
        all.extend(of(RuleList::Ask, &self.rules.ask));
        all.extend(of(RuleList::Allow, &self.rules.allow));
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::{Layer, Settings};

    #[test]
    fn each_rule_in_force_names_its_layer_and_a_malformed_one_is_left_out() {
        let settings = Settings::merge(vec![
            (Layer::User, json!({"permissions": {"allow": ["Bash(ls:*)", "Bash("]}})),
            (Layer::Project, json!({"permissions": {"deny": ["Read(.env)"]}})),
            (Layer::Cli, json!({"permissions": {"ask": ["Bash(git push:*)"]}})),
        ])
        .unwrap();
        let rules = Gate::from_settings(&settings, None).unwrap().rules_in_force();
        let rules: Vec<String> = rules
            .iter()
            .map(|rule| format!("{:?} {} ({})", rule.list, rule.rule, rule.origin))
            .collect();
        assert_eq!(
            rules,
            [
                "Deny Read(.env) (project settings)",
                "Ask Bash(git push:*) (command-line settings)",
                "Allow Bash(ls:*) (user settings)"
            ]
        );
    }
}
