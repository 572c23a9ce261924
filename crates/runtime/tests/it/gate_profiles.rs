//! Tests which sandbox profile a command gets if it runs without a permission request.

use std::path::Path;

use pitcrew_permission::gate::{Call, Gate, Verdict};
use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_process::sandbox::{Machine, Profile, Sandbox};
use pitcrew_protocol::PermissionMode::{
    self, AcceptEdits, BypassPermissions, Default, DontAsk, Plan,
};
use serde_json::{Value, json};

fn gate() -> Gate {
    let rules = json!({"permissions": {"allow": ["Bash(npm test:*)", "Read(//etc/**)"]}});
    let settings = Settings::merge(vec![(Layer::User, rules)]).unwrap();
    Gate::from_settings(&settings, None).unwrap()
}

fn judge(gate: &Gate, mode: PermissionMode, input: &Value) -> Verdict {
    gate.judge(mode, &Call { tool: "Bash", input, cwd: Path::new("/project"), plan_file: None })
}

fn profile(gate: &Gate, mode: PermissionMode, command: &str) -> Option<Profile> {
    match judge(gate, mode, &json!({ "command": command })) {
        Verdict::Allow { profile } => Some(profile),
        Verdict::Ask { .. } | Verdict::Deny { .. } => None,
    }
}

#[test]
fn a_command_that_nobody_is_asked_about_is_held_to_its_mode() {
    let gate = gate();
    for (mode, command, expected) in [
        (Default, "cat README", Some(Profile::Read)),
        (Plan, "cat README", Some(Profile::Read)),
        (DontAsk, "git log | head -3", Some(Profile::Read)),
        (AcceptEdits, "cat README", Some(Profile::Work)),
        (AcceptEdits, "mkdir a", Some(Profile::Work)),
        (Default, "mkdir a", None),
        (Default, "npm test", Some(Profile::Free)),
        (Default, "npm test && cat README", Some(Profile::Free)),
        (Default, "cat /etc/hosts", Some(Profile::Free)),
        (BypassPermissions, "cat README", Some(Profile::Free)),
        (Default, "cat --unknown README", Some(Profile::Read)),
        (Default, "cat --unknown /etc/hosts", None),
        (Default, "npm test && cat --unknown README", None),
        (Default, "diff -r a /etc", None),
        (AcceptEdits, "cat --unknown README", Some(Profile::Read)),
        (AcceptEdits, "cat --unknown README > b", None),
    ] {
        assert_eq!(profile(&gate, mode, command), expected, "{mode} {command}");
    }
}

/// Checks that an allow rule does not remove the sandbox's restrictions in plan mode if the gate
/// does not know all options of a command. Such a command must get the sandbox profile `read`,
/// which prevents changes.
#[test]
fn in_plan_mode_no_rule_frees_a_reader_with_options_that_are_not_known() {
    let rules = json!({"permissions": {"allow": ["Bash(sort:*)"]}});
    let all = json!({"permissions": {"allow": ["Bash"]}});
    for rules in [rules, all] {
        let settings = Settings::merge(vec![(Layer::User, rules)]).unwrap();
        let gate = Gate::from_settings(&settings, None).unwrap();
        assert_eq!(profile(&gate, Plan, "sort -u a"), Some(Profile::Free));
        assert_eq!(profile(&gate, Plan, "sort --unknown=b a"), Some(Profile::Read));
        assert_eq!(profile(&gate, Plan, "sort -o b a"), None);
        assert_eq!(profile(&gate, Default, "sort --unknown=b a"), Some(Profile::Free));
        let gate = gate.held_by(Sandbox::by_nothing(Machine::with_root(
            Path::new("/nowhere"),
            Path::new("/tmp"),
        )));
        let verdict = judge(&gate, Plan, &json!({"command": "sort --unknown=b a"}));
        assert!(matches!(verdict, Verdict::Deny { .. }), "{verdict:?}");
    }
}

#[test]
fn where_nothing_holds_a_command_only_plain_builtins_run_unasked() {
    let machine = Machine::with_root(Path::new("/nowhere"), Path::new("/tmp"));
    let gate = gate().held_by(Sandbox::by_nothing(machine));
    for (command, expected) in [
        ("pwd", Some(Profile::Free)),
        ("echo a && true", Some(Profile::Free)),
        ("echo $HOME", None),
        ("echo *", None),
        ("echo $(id)", None),
        ("echo a > b", None),
        ("A=b echo a", None),
        ("cat README", None),
        ("ls", None),
        ("npm test", Some(Profile::Free)),
    ] {
        assert_eq!(profile(&gate, Default, command), expected, "{command}");
    }
    assert_eq!(profile(&gate, AcceptEdits, "mkdir a"), None);
}

#[test]
fn to_leave_the_sandbox_is_asked_for_and_refused_in_plan_mode() {
    let gate = gate();
    let input = json!({"command": "cat README", "dangerouslyDisableSandbox": true});
    for mode in [Default, AcceptEdits] {
        let verdict = judge(&gate, mode, &input);
        assert!(
            matches!(&verdict, Verdict::Ask { description, .. } if description.contains("outside")),
            "{verdict:?}"
        );
    }
    for mode in [Plan, DontAsk] {
        assert!(matches!(judge(&gate, mode, &input), Verdict::Deny { .. }), "{mode}");
    }
    let by_rule = json!({"command": "npm test", "dangerouslyDisableSandbox": true});
    assert!(matches!(judge(&gate, Default, &by_rule), Verdict::Ask { .. }));
}
