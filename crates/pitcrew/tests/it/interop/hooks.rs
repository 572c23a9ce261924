//! Holds the table of hook events and fields (`pitcrew_runtime::hooks::KNOWN`) against today's
//! client, and plays hooks in both programs. The same settings must have the same effect, but for
//! the differences that `docs/hooks.md` names.

use std::collections::BTreeSet;
use std::fs;

use pitcrew_runtime::hooks::{CLIENT_VERSION, Place, names};
use serde_json::{Value, json};

use super::script::{Script, calls, says};
use super::stage::{Client, Stage};

/// The client takes its model from here. Any will do, because a script answers.
const MODEL: &str = "claude-sonnet-5-5";

fn stage(script: &Script) -> Option<Stage> {
    Stage::set(Client::Today, script)
}

/// Returns the names that follow `intro` in a text, up to the end of the line.
fn listed(text: &str, intro: &str) -> BTreeSet<String> {
    let rest = text.split_once(intro).unwrap_or_else(|| panic!("no {intro:?} in {text}")).1;
    let line = rest.lines().next().unwrap_or_default();
    line.split(',').map(|name| name.trim().to_owned()).collect()
}

#[test]
fn the_table_has_the_events_the_types_and_the_fields_of_the_client() {
    let script = Script::default().role("lead", [says("over")]);
    let Some(stage) = stage(&script) else { return };
    let version = stage.shell("claude --version");
    assert!(version.starts_with(CLIENT_VERSION), "{version}");
    // A value of a wrong type is named by the client exactly if it knows the field.
    let wrong = json!({"nothing": "is of this type"});
    let fields = || names(Place::Hook).filter(|name| !["type", "command"].contains(name));
    let entries: Vec<Value> = fields()
        .chain(["later"])
        .map(|name| json!({"hooks": [{"type": "command", "command": "true", name: wrong}]}))
        .chain([json!({"hooks": [{"type": "nonsense"}]}), json!({"matcher": 3, "hooks": []})])
        .collect();
    let settings = json!({
        "disableAllHooks": "no truth value",
        "hooks": {"NoSuchEvent": [], "PreToolUse": entries},
    });
    fs::write(stage.root().join("settings.json"), settings.to_string()).unwrap();
    let told = stage.shell("claude doctor 2>&1");
    let all = |place| names(place).map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(listed(&told, "was ignored. Valid events: "), all(Place::Event));
    assert_eq!(listed(&told, "Valid types: "), all(Place::Type));
    for name in fields() {
        assert!(told.contains(&format!("Invalid command hook ({name}: ")), "{name}: {told}");
    }
    assert!(!told.contains("(later: "), "{told}");
    assert!(told.contains("Invalid hook matcher (matcher: "), "{told}");
    assert!(told.contains("disableAllHooks: Expected boolean"), "{told}");
}

/// A hook that answers with these fields of `hookSpecificOutput`.
fn answers(fields: Value) -> Value {
    let mut specific = json!({"hookEventName": "PreToolUse"});
    specific.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let answer = json!({ "hookSpecificOutput": specific });
    json!({"type": "command", "command": format!("cat >/dev/null; echo '{answer}'")})
}

fn with(mut hook: Value, name: &str, value: Value) -> Value {
    hook[name] = value;
    hook
}

fn guards(hooks: &[Value]) -> Value {
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}})
}

/// The effect of hooks on one command. `None` if the command did not run.
type Effect = Option<&'static str>;

/// The settings of a row, what they do in the client, and what they do in pitcrew.
fn rows() -> Vec<(&'static str, Value, Effect, Effect)> {
    let allow = || answers(json!({"permissionDecision": "allow"}));
    let deny = || answers(json!({"permissionDecision": "deny"}));
    let updated = || json!({"command": "echo updated > made.txt", "description": "x"});
    let updates = || answers(json!({"permissionDecision": "allow", "updatedInput": updated()}));
    let rule =
        |hooks: Value, list: &str, rule: &str| with(hooks, "permissions", json!({ list: [rule] }));
    let fails = |mut hook: Value| {
        let command = format!("{}; exit 1", hook["command"].as_str().unwrap());
        hook["command"] = command.into();
        hook
    };
    let (original, new) = (Some("original"), Some("updated"));
    let exec = |answer: &str| json!({"type": "command", "command": "/bin/sh", "args": ["-c", answer, "x", "$HOME"]});
    let denies_without_shell = "[ \"$1\" = '$HOME' ] && echo no >&2 && exit 2";
    vec![
        ("nothing", json!({}), None, None),
        ("allow", guards(&[allow()]), original, original),
        ("updatedInput", guards(&[updates()]), new, new),
        (
            "updatedInput and a deny rule",
            rule(guards(&[updates()]), "deny", "Bash(echo updated *)"),
            None,
            None,
        ),
        (
            "updatedInput and an ask rule",
            rule(guards(&[updates()]), "ask", "Bash(echo updated *)"),
            None,
            None,
        ),
        ("allow and an ask rule", rule(guards(&[allow()]), "ask", "Bash"), None, None),
        (
            "if of another command allows",
            guards(&[with(allow(), "if", json!("Bash(git *)"))]),
            None,
            None,
        ),
        (
            "if of all commands allows",
            guards(&[with(allow(), "if", json!("Bash"))]),
            original,
            original,
        ),
        (
            "if of another command denies",
            guards(&[allow(), with(deny(), "if", json!("Bash(git *)"))]),
            original,
            original,
        ),
        (
            "if of this command denies",
            guards(&[allow(), with(deny(), "if", json!("Bash(echo *)"))]),
            None,
            None,
        ),
        ("args", guards(&[allow(), exec(denies_without_shell)]), None, None),
        ("async", guards(&[allow(), with(deny(), "async", json!(true))]), original, original),
        ("once", guards(&[allow(), with(deny(), "once", json!(true))]), None, None),
        ("a failed hook denies", guards(&[allow(), fails(deny())]), None, None),
        ("disableAllHooks", with(guards(&[allow()]), "disableAllHooks", json!(true)), None, None),
        // The differences on purpose.
        (
            "if of this command, which does not name its redirection",
            guards(&[with(allow(), "if", json!("Bash(echo *)"))]),
            original,
            None,
        ),
        ("a failed hook allows", guards(&[fails(allow())]), original, None),
        (
            "unknown field in the settings",
            guards(&[with(allow(), "later", json!(1))]),
            original,
            None,
        ),
        (
            "unknown field in the answer",
            guards(&[answers(json!({"permissionDecision": "allow", "later": 1}))]),
            original,
            None,
        ),
        (
            "if that cannot be read",
            guards(&[allow(), with(deny(), "if", json!("Bash("))]),
            original,
            None,
        ),
        (
            "a type that is not run",
            guards(&[allow(), json!({"type": "prompt", "prompt": "x"})]),
            original,
            None,
        ),
    ]
}

#[test]
fn hooks_have_the_same_effect_in_both_programs_but_for_the_documented_differences() {
    let command = json!({"command": "echo original > made.txt", "description": "make a file"});
    // Each run takes one turn with the call, and one turn that ends.
    let turns = rows().into_iter().flat_map(|_| {
        let call = || [calls("Bash", command.clone()), says("over")];
        [call(), call()].into_iter().flatten()
    });
    let script = Script::default().role("lead", turns.collect::<Vec<_>>());
    let Some(stage) = stage(&script) else { return };
    let made = stage.work().join("made.txt");
    let effect = |line: &str| {
        let told = stage.shell(line);
        let found = fs::read_to_string(&made).ok();
        let _absent = fs::remove_file(&made);
        (found.map(|text| text.trim().to_owned()), told)
    };
    for (what, settings, client, ours) in rows() {
        fs::write(stage.root().join("settings.json"), settings.to_string()).unwrap();
        let (found, told) = effect(&format!(
            "claude -p 'ROLE:lead go' --permission-mode default --model {MODEL} 2>&1"
        ));
        assert_eq!(found.as_deref(), client, "the client with {what}: {told}");
        let (found, told) = effect(&format!(
            "pitcrew run 'ROLE:lead go' --permission-mode default --model anthropic/{MODEL} --team {} 2>&1",
            folder_name(what)
        ));
        assert_eq!(found.as_deref(), ours, "pitcrew with {what}: {told}");
    }
}

fn folder_name(what: &str) -> String {
    what.to_lowercase().replace([' ', ','], "-")
}

#[test]
fn a_hook_in_the_background_is_not_waited_for_by_either() {
    let command = json!({"command": "echo original > made.txt", "description": "make a file"});
    let call = || [calls("Bash", command.clone()), says("over")];
    let script =
        Script::default().role("lead", [call(), call()].into_iter().flatten().collect::<Vec<_>>());
    let Some(stage) = stage(&script) else { return };
    // The hook can end only after the call has run. A program that waited for it would never run
    // the call.
    let hook = "until [ -e made.txt ]; do sleep 0.05; done";
    let waits = json!({"type": "command", "command": hook, "async": true});
    let allow = answers(json!({"permissionDecision": "allow"}));
    let settings = guards(&[waits, allow]).to_string();
    fs::write(stage.root().join("settings.json"), settings).unwrap();
    let made = stage.work().join("made.txt");
    for line in [
        format!("claude -p 'ROLE:lead go' --permission-mode default --model {MODEL} 2>&1"),
        format!(
            "pitcrew run 'ROLE:lead go' --permission-mode default --model anthropic/{MODEL} 2>&1"
        ),
    ] {
        let told = stage.shell(&line);
        assert!(made.exists(), "{line}: {told}");
        fs::remove_file(&made).unwrap();
    }
}
