//! Tells a person the permissions of a run: the rules in force with their origins, what was granted
//! in the run, and the refused calls with the rules that would have allowed them.

use pitcrew_permission::gate::{RuleInForce, RuleList, allow_flag};
use pitcrew_runtime::run::{Answers, Granted, RunPermissions};

use crate::TeamState;
use crate::state::Denial;
use crate::text::in_one_line;

/// The maximum number of refused calls that are told, the latest of them.
const REFUSALS_MOST: usize = 50;

/// A heading and the lines below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// The lines. Each is one line of printable text.
    pub lines: Vec<String>,
}

/// Tells the permissions of a run in sections. `state` has the refused calls.
#[must_use]
pub fn in_sections(permissions: &RunPermissions, state: &TeamState) -> Vec<Section> {
    let mut sections = vec![answers(permissions.answers)];
    for (list, heading) in [
        (RuleList::Deny, "refused by a rule, checked first"),
        (RuleList::Ask, "always asked"),
        (RuleList::Allow, "allowed unasked"),
    ] {
        sections.push(rules(permissions, list, heading));
    }
    let granted = permissions.granted.iter().map(granted_in_words).collect();
    sections.push(Section { heading: "taken in this run".to_owned(), lines: granted });
    sections.push(refused(&state.denials));
    sections.retain(|section| !section.lines.is_empty());
    if permissions.left_out > 0 {
        let heading =
            format!("{} more are not listed, because they are too many", permissions.left_out);
        sections.push(Section { heading, lines: Vec::new() });
    }
    sections
}

fn answers(answers: Answers) -> Section {
    let line = match answers {
        Answers::Person => "a person answers permission requests",
        Answers::Nobody => "nobody is asked: each call that no rule allows is refused",
        Answers::Yes => "nobody is asked: each call that no rule refuses is allowed",
    };
    Section { heading: "permissions of this run".to_owned(), lines: vec![line.to_owned()] }
}

fn rules(permissions: &RunPermissions, list: RuleList, heading: &str) -> Section {
    let of_list = permissions.rules.iter().filter(|rule| rule.list == list);
    let line = |rule: &RuleInForce| {
        format!("{}  ({})", in_one_line(&rule.rule), in_one_line(&rule.origin))
    };
    Section { heading: heading.to_owned(), lines: of_list.map(line).collect() }
}

fn granted_in_words(granted: &Granted) -> String {
    let who = match &granted.agent {
        Some(agent) => in_one_line(agent.as_str()),
        None => "every agent".to_owned(),
    };
    let saved = if granted.is_saved { ", saved in your settings" } else { "" };
    format!("{}  ({who}{saved})", in_one_line(&granted.what))
}

/// Tells the refused calls, each with the option that would have allowed it.
fn refused(denials: &[Denial]) -> Section {
    let left_out = denials.len().saturating_sub(REFUSALS_MOST);
    let earlier = (left_out > 0).then(|| format!("{left_out} earlier ones"));
    let latest = denials.iter().skip(left_out).map(refusal_in_words);
    Section {
        heading: "refused in this run".to_owned(),
        lines: earlier.into_iter().chain(latest).collect(),
    }
}

fn refusal_in_words(denial: &Denial) -> String {
    let tool = in_one_line(&denial.tool);
    match &denial.allow_rule {
        Some(rule) => format!("{tool}: {} would have allowed it", in_one_line(&allow_flag(rule))),
        None => format!("{tool}: {}", in_one_line(&denial.reason)),
    }
}

#[cfg(test)]
mod tests {
    use pitcrew_protocol::AgentName;

    use super::*;

    fn text(permissions: &RunPermissions, state: &TeamState) -> String {
        let sections = in_sections(permissions, state);
        let lines = |section: &Section| {
            let lines = section.lines.iter().map(|line| format!("\n  {line}"));
            format!("{}{}", section.heading, lines.collect::<String>())
        };
        sections.iter().map(lines).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_sections_name_each_rule_with_its_origin_and_each_refusal_with_its_option() {
        let rule = |list, rule: &str, origin: &str| RuleInForce {
            list,
            rule: rule.to_owned(),
            origin: origin.to_owned(),
        };
        let permissions = RunPermissions {
            answers: Answers::Nobody,
            rules: vec![
                rule(RuleList::Deny, "Read(.env)", "project settings /work/.claude/settings.json"),
                rule(RuleList::Allow, "Bash(ls:*)", "user settings"),
            ],
            granted: vec![
                Granted { agent: None, what: "Bash(npm test:*)".to_owned(), is_saved: true },
                Granted {
                    agent: Some(AgentName::new("bob").unwrap()),
                    what: "all edits\u{1b}[2J".to_owned(),
                    is_saved: false,
                },
            ],
            left_out: 3,
        };
        let denial = |tool: &str, reason: &str, allow_rule: Option<&str>| Denial {
            tool: tool.to_owned(),
            call: "c1".to_owned(),
            reason: reason.to_owned(),
            allow_rule: allow_rule.map(str::to_owned),
        };
        let denials = vec![
            denial("Bash", "this run asks nobody", Some("Bash(touch it)")),
            denial("Write", "the user said no:\nnot there", None),
        ];
        let state = TeamState { denials, ..TeamState::default() };
        insta::assert_snapshot!(text(&permissions, &state), @r"
        permissions of this run
          nobody is asked: each call that no rule allows is refused
        refused by a rule, checked first
          Read(.env)  (project settings /work/.claude/settings.json)
        allowed unasked
          Bash(ls:*)  (user settings)
        taken in this run
          Bash(npm test:*)  (every agent, saved in your settings)
          all edits�[2J  (bob)
        refused in this run
          Bash: --allow 'Bash(touch it)' would have allowed it
          Write: the user said no: | not there
        3 more are not listed, because they are too many
        ");
        let none = RunPermissions::default();
        assert_eq!(
            text(&none, &TeamState::default()),
            "permissions of this run\n  a person answers permission requests"
        );
    }

    #[test]
    fn only_the_latest_of_many_refusals_are_told() {
        let denial = |at: usize| Denial {
            tool: format!("Tool{at}"),
            call: String::new(),
            reason: "no".to_owned(),
            allow_rule: None,
        };
        let denials = (0..REFUSALS_MOST + 2).map(denial).collect();
        let state = TeamState { denials, ..TeamState::default() };
        let sections = in_sections(&RunPermissions::default(), &state);
        let lines = &sections.last().unwrap().lines;
        assert_eq!((lines.len(), lines[0].as_str()), (REFUSALS_MOST + 1, "2 earlier ones"));
        assert_eq!(lines[1], "Tool2: no");
    }
}
