//! Tests of settings with values that pitcrew does not know: from a later version of a client, from
//! another vendor, or mistyped. No command may fail because of such a value, and a run must report
//! the value.

use serde_json::{Value, json};

use crate::test_env::TestEnv;

fn write(room: &TestEnv, settings: &Value) {
    std::fs::write(room.root().join("settings.json"), settings.to_string()).unwrap();
}

#[test]
fn settings_with_values_that_are_not_known_end_no_command_and_are_told_once_by_a_run() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: done}]}");
    for (settings, told) in [
        (
            json!({"permissions": {"defaultMode": "auto"}}),
            "`permissions.defaultMode` in the user settings",
        ),
        (json!({"permissions": {"defaultMode": "manual"}}), "\"manual\" is not one of default"),
        (json!({"permissions": {"allow": "Bash"}}), "`permissions.allow`"),
        (json!({"permissions": {"allow": ["Bash(", "Read"]}}), "invalid permission rule `Bash(`"),
        (json!({"model": ["opus"]}), "`model`"),
        (json!({"env": 7}), "`env`"),
        (
            json!({"hooks": {"PreToolUse": "x"}}),
            "is no list of hooks; what it would match is refused",
        ),
        (json!({"sandbox": true}), "`sandbox`"),
        (json!({"teammateMode": "hologram"}), "\"hologram\" is not one of auto"),
        (json!({"pitcrew": 7}), "`pitcrew`"),
        (json!({"pitcrew": {"durability": "yes"}}), "`pitcrew.durability`"),
        (json!({"pitcrew": {"theme": "pink"}}), "`pitcrew.theme`"),
        (
            json!({"pitcrew": {"limits": {"teams": "many"}}}),
            "`pitcrew.limits.teams` in the user settings",
        ),
        (json!({"pitcrew": {"limits": {"agentz": 7}}}), "`pitcrew.limits.agentz`"),
        (json!({"pitcrew": {"prices": {"m": {"input": -1, "output": 1}}}}), "`pitcrew.prices.m`"),
        (json!({"env": {"A": null}}), "`env.A` in the user settings"),
        (json!({"env": {"A": {"b": 1}}}), "`env.A` in the user settings"),
        (json!({"env": {"A": "x\u{0}y"}}), "`env.A` in the user settings"),
        (json!({"sandbox": {"write": "/srv"}}), "`sandbox.write`"),
        (json!({"sandbox": {"write": ["/srv", 7]}}), "`sandbox.write[1]`"),
        (json!({"sandbox": {"network": "yes"}}), "`sandbox.network`"),
        (json!({"permissions": {"allow": ["Read", 7]}}), "`permissions.allow[1]`"),
        (json!({"permissions": {"allow": ["Bash(", "Bash("]}}), "invalid permission rule `Bash(`"),
        (
            json!({"hooks": {"Stop": [{"hooks": [7, {"type": "command", "command": "true"}]}]}}),
            "is no object; it is not run",
        ),
        (json!({"pitcrew": {"prices": 7}}), "`pitcrew.prices`"),
        (json!({"pitcrew": {"teammateMode": "iterm"}}), "\"iterm\" is not one of auto"),
        (json!({"pitcrew": {"teammateProgram": "codex"}}), "`pitcrew.teammateProgram`"),
        (json!({"pitcrew": {"promptDeadlineSeconds": "x"}}), "`pitcrew.promptDeadlineSeconds`"),
    ] {
        write(&room, &settings);
        room.ok(&["team", "list"]);
        let ran = room.ok(&["run", "go", "--model", &model]);
        assert_eq!(ran.stderr.matches(told).count(), 1, "{settings}: {told}: {ran:?}");
        if !told.contains("invalid permission rule")
            && settings.get("hooks").is_none()
            && !told.contains("one of auto")
        {
            let noted = room.json(&["doctor"])["notes"].to_string();
            assert!(noted.contains("unheeded_setting"), "{settings}: {noted}");
        }
        let file = std::fs::read_to_string(room.root().join("settings.json")).unwrap();
        assert_eq!(file, settings.to_string(), "the file is the user's");
    }
}

#[test]
fn a_run_without_a_model_says_that_the_settings_have_one_that_is_no_name() {
    let room = TestEnv::new();
    write(&room, &json!({"model": 7}));
    let ran = room.run(&["run", "go"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("no model to use"), "{ran:?}");
    assert!(
        ran.stderr.contains("`model` in the user settings")
            && ran.stderr.contains("7 is not a string"),
        "{ran:?}"
    );
}

#[test]
fn null_in_the_settings_is_nothing() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: done}]}");
    write(
        &room,
        &json!({
            "model": null, "env": null, "hooks": null, "sandbox": null, "pitcrew": null, "teammateMode": null,
            "permissions": {"defaultMode": null, "allow": null, "deny": null, "ask": null},
        }),
    );
    let ran = room.ok(&["run", "go", "--model", &model]);
    assert!(!ran.stderr.contains("warning") && !ran.stderr.contains("heeded"), "{ran:?}");
}

#[test]
fn what_bounds_agents_is_never_left_out() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: done}]}");
    for settings in [
        json!({"permissions": {"deny": "Bash"}}),
        json!({"permissions": {"ask": [1]}}),
        json!({"permissions": {"deny": ["Bash("]}}),
        json!({"permissions": {"deny": ["Wriet"]}}),
        json!({"permissions": []}),
        json!({"hooks": []}),
        json!({"disableAllHooks": "no"}),
    ] {
        write(&room, &settings);
        let ran = room.run(&["run", "go", "--model", &model]);
        assert!(ran.code != 0 && ran.stderr.contains("error:"), "{settings}: {ran:?}");
        let looked = room.run(&["doctor", "--json"]);
        assert!(
            looked.code != 0 && looked.stdout.contains("bad_settings"),
            "{settings}: {looked:?}"
        );
    }
}

#[test]
fn a_mode_that_is_not_known_is_refused_where_it_was_typed() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: done}]}");
    let ran = room.run(&["run", "go", "--model", &model, "--permission-mode", "auto"]);
    assert!(ran.code != 0 && ran.stderr.contains("acceptEdits"), "{ran:?}");
}

#[test]
fn a_model_of_another_client_s_making_is_not_heeded_and_the_bypass_can_be_disabled() {
    let room = TestEnv::new();
    let model = room.script("agents: {team-lead: [{text: done}]}");
    write(&room, &json!({"model": "opusplan"}));
    let ran = room.run(&["run", "go"]);
    assert!(ran.stderr.contains("`model` in the settings is not heeded: \"opusplan\""), "{ran:?}");
    assert!(ran.code != 0 && !ran.stderr.contains("error: \"opusplan\""), "{ran:?}");
    write(&room, &json!({"permissions": {"disableBypassPermissionsMode": "disable"}}));
    let ran = room.run(&["run", "go", "--model", &model, "--permission-mode", "bypassPermissions"]);
    assert!(ran.code == 2 && ran.stderr.contains("disableBypassPermissionsMode"), "{ran:?}");
    room.ok(&["run", "go", "--model", &model]);
}
