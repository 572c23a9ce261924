//! Tests deny, ask and allow rules, and tool calls that try to avoid these rules.

use std::fs;
use std::os::unix::fs::symlink;

use pitcrew_permission::gate::Gate;
use pitcrew_permission::settings::{Layer, Settings, Source};
use pitcrew_protocol::PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk};
use serde_json::json;

use crate::gate_modes::Place;

#[test]
fn deny_wins_over_allow_in_every_mode() {
    let place = Place::new(json!({
        "allow": ["Bash", "Edit(src/**)", "Bash(rm:*)"],
        "deny": ["Bash(rm:*)", "Edit(src/main.rs)", "SendMessage"],
    }));
    for mode in [Default, AcceptEdits, DontAsk, BypassPermissions] {
        assert_eq!(place.bash(mode, "rm x"), "deny");
        assert_eq!(place.file(mode, "Edit", "src/main.rs"), "deny");
        assert_eq!(place.file(mode, "Write", "src/main.rs"), "deny");
        assert_eq!(place.word(mode, "SendMessage", &json!({})), "deny");
        assert_eq!(place.bash(mode, "echo x >> src/main.rs"), "deny");
        assert_eq!(place.file(mode, "Edit", "src/other.rs"), "allow");
    }
}

#[test]
fn a_denied_command_is_found_wherever_it_hides() {
    let place = Place::new(json!({"allow": ["Bash"], "deny": ["Bash(rm:*)"]}));
    for command in [
        "rm",
        "rm -rf x",
        "ls && rm x",
        "ls; rm x",
        "ls | rm x",
        "ls & rm x",
        "ls\nrm x",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "for i in a; do rm $i; done",
        "echo $(rm x)",
        "echo \"`rm x`\"",
        "cat <(rm x)",
        "r\\m x",
        "r''m x",
        "'rm' x",
        "/bin/rm x",
        "  rm   x",
        "A=1 rm x",
        "LD_PRELOAD=x rm x",
        "time rm x",
        "time ! rm x",
        "time A=1 rm x",
        "timeout 5 rm x",
        "timeout -k 1 5 rm x",
        "env A=1 rm x",
        "env -i rm x",
        "nohup rm x",
        "nice -n 5 rm x",
        "sudo -u root rm x",
        "xargs rm",
        "xargs -I{} rm {}",
        "exec rm x",
        "command rm x",
        "builtin rm x",
        "eval 'rm x'",
        "eval rm x",
        "sh -c 'rm x'",
        "bash -c \"ls; rm x\"",
        "sh -c \"sh -c 'rm x'\"",
        "bash -lc 'rm x'",
        "find . -exec rm {} +",
        "f() { rm x; }; f",
        "coproc rm x",
        "case a in a) rm x;; esac",
        "cat <<EOF\n$(rm x)\nEOF",
        "ls 'unfinished; rm x",
        "> out rm x",
        "! rm x",
    ] {
        assert_eq!(place.bash(Default, command), "deny", "{command}");
        assert_eq!(place.bash(BypassPermissions, command), "deny", "{command}");
    }
    for command in ["ls", "rmdir x", "echo 'rm x'", "git rm x", "grep rm x"] {
        assert_eq!(place.bash(Default, command), "allow", "{command}");
    }
}

#[test]
fn an_allow_rule_covers_its_command_and_nothing_beside_it() {
    let place = Place::new(
        json!({"allow": ["Bash(npm run test:*)", "Bash(cargo build && cargo test)", "Bash(make *)"]}),
    );
    for (command, expected) in [
        ("npm run test", "allow"),
        ("npm run test --all", "allow"),
        ("npm run tests", "ask"),
        ("npm run test && ls", "allow"),
        ("npm run test && npm publish", "ask"),
        ("npm run test; rm -rf /", "ask"),
        ("npm run test $(rm x)", "ask"),
        ("npm run test | tee log", "ask"),
        ("npm run test > log", "ask"),
        ("npm run test 2>&1 | tail -5", "allow"),
        ("npm run test > /dev/null", "allow"),
        ("timeout 60 npm run test", "allow"),
        ("CI=1 npm run test", "allow"),
        ("NODE_OPTIONS=--require=./x npm run test", "ask"),
        ("PATH=.:$PATH npm run test", "ask"),
        ("sudo npm run test", "ask"),
        ("sh -c 'npm run test'", "allow"),
        ("sh -c 'npm run test; x'", "ask"),
        ("cargo build && cargo test", "allow"),
        ("cargo build", "ask"),
        ("make all", "allow"),
        ("make", "allow"),
        ("'make all'", "ask"),
        ("cat <<EOF\nx\nEOF", "ask"),
    ] {
        assert_eq!(place.bash(Default, command), expected, "{command}");
    }
}

#[test]
fn denied_reads_cannot_be_reached_by_another_way() {
    let place = Place::new(json!({"deny": ["Read(./secrets/**)", "Read(~/.ssh/**)"]}));
    symlink(place.path("project/secrets"), place.path("project/innocent")).unwrap();
    let absolute = place.path("project/secrets/key").display().to_string();
    for path in [
        "secrets/key",
        "./secrets/key",
        "secrets/../secrets/key",
        "src/../secrets/key",
        "innocent/key",
        "../project/secrets/key",
        "secrets/not-there",
        "~/.ssh/id",
        absolute.as_str(),
    ] {
        for mode in [Default, BypassPermissions] {
            assert_eq!(place.file(mode, "Read", path), "deny", "{path}");
            assert_eq!(
                place.word(mode, "Grep", &json!({"pattern": "x", "path": path})),
                "deny",
                "{path}"
            );
            for reader in [
                "cat",
                "head -n 5",
                "tail",
                "sed -n p",
                "grep x",
                "wc",
                "awk 1",
                "git show",
                "jq .",
            ] {
                assert_eq!(
                    place.bash(mode, &format!("{reader} {path}")),
                    "deny",
                    "{reader} {path}"
                );
            }
            assert_eq!(place.bash(mode, &format!("cat < {path}")), "deny", "{path}");
        }
    }
    for command in [
        "cat \"secrets\"/key",
        "grep -f secrets/key x",
        "grep --file=secrets/key x",
        "cp secrets/key x",
        "git show HEAD:secrets/key",
        "cd secrets && cat key",
        "cd src && cat ../secrets/key",
        "cat s*/key",
        "cat */key",
        "cat <<EOF\nEOF\ncat secrets/key",
    ] {
        assert_eq!(place.bash(Default, command), "deny", "{command}");
    }
    assert_eq!(place.word(Default, "Glob", &json!({"pattern": "secrets/*"})), "deny");
    assert_eq!(place.word(Default, "Grep", &json!({"pattern": "x", "path": "secrets"})), "deny");
    for command in ["cat $x", "grep -r x .", "grep -r x", "rg x", "cd $x && cat key"] {
        assert_eq!(place.bash(Default, command), "ask", "{command}");
    }
    for command in ["cat src/main.rs", "grep -r x src", "ls", "cat Secrets/key"] {
        assert_eq!(place.bash(Default, command), "allow", "{command}");
    }
}

#[test]
fn ask_rules_ask_before_allow_rules_allow() {
    let place = Place::new(
        json!({"allow": ["Bash", "Read"], "ask": ["Bash(git push:*)", "Read(secrets/**)", "TeamDelete"]}),
    );
    assert_eq!(place.bash(Default, "ls && git push origin"), "ask");
    assert_eq!(place.bash(DontAsk, "git push"), "deny");
    assert_eq!(place.bash(Default, "git pull"), "allow");
    assert_eq!(place.file(Default, "Read", "secrets/key"), "ask");
    assert_eq!(place.word(Default, "TeamDelete", &json!({})), "ask");
}

#[test]
fn edits_that_would_loosen_the_rules_are_asked_about() {
    let place = Place::new(json!({}));
    for path in [
        ".claude/settings.json",
        "src/../.claude/settings.local.json",
        ".git/hooks/pre-commit",
        "sub/.git/config",
    ] {
        assert_eq!(place.file(AcceptEdits, "Write", path), "ask", "{path}");
        assert_eq!(place.bash(AcceptEdits, &format!("cp src/main.rs {path}")), "ask", "{path}");
    }
    fs::create_dir_all(place.path("project/.git")).unwrap();
    symlink(place.path("project/.git"), place.path("project/g")).unwrap();
    assert_eq!(place.file(AcceptEdits, "Write", "g/config"), "ask");
}

#[test]
fn accepted_edits_stay_inside_through_links_and_folders() {
    let place = Place::new(json!({}));
    symlink(place.path("outside"), place.path("project/exit")).unwrap();
    symlink(place.path("outside/not-yet"), place.path("project/dangling")).unwrap();
    for path in ["exit/file", "dangling", "../outside/file", "src/../../outside/x"] {
        assert_eq!(place.file(AcceptEdits, "Write", path), "ask", "{path}");
        assert_eq!(place.bash(AcceptEdits, &format!("touch {path}")), "ask", "{path}");
        assert_eq!(place.bash(AcceptEdits, &format!("echo x > {path}")), "ask", "{path}");
    }
    assert_eq!(place.bash(AcceptEdits, "cd .. && touch x"), "ask");
    assert_eq!(place.bash(AcceptEdits, "cd src && touch x"), "allow");
    assert_eq!(place.bash(AcceptEdits, "echo x > src/x"), "allow");
    assert_eq!(place.bash(AcceptEdits, "rm src/x"), "ask");
}

#[test]
fn a_reason_names_the_rule_and_a_bad_rule_its_layer() {
    let source = |text: &str| Source {
        layer: Layer::Managed,
        file: Some("/etc/policy.json".into()),
        base: Some("/etc".into()),
        value: json!({"permissions": {"deny": [text]}}),
    };
    let settings = Settings::from_sources(vec![source("Read(!x)")]).unwrap();
    let error = Gate::from_settings(&settings, None).unwrap_err();
    insta::assert_snapshot!(error, @"invalid permission rule `Read(!x)` in the managed settings (/etc/policy.json)");
    let place = Place::new(json!({"deny": ["Bash(curl *)"]}));
    let verdict = place.judge(Default, "Bash", &json!({"command": "curl x"}));
    insta::assert_debug_snapshot!(verdict, @r#"
    Deny {
        reason: "denied by rule `Bash(curl *)` of the project settings",
    }
    "#);
}

#[test]
fn a_call_that_names_nothing_is_denied_and_not_a_panic() {
    let place = Place::new(json!({"allow": ["Bash", "Read", "Write"]}));
    for tool in ["Bash", "Read", "Write", "Edit", "NotebookEdit"] {
        for input in [json!(null), json!([]), json!({}), json!({"command": 1, "file_path": {}})] {
            assert_eq!(place.word(Default, tool, &input), "deny", "{tool} {input}");
        }
    }
}

#[test]
fn tools_that_walk_a_tree_can_ask_file_by_file() {
    let place = Place::new(json!({"deny": ["Read(*.pem)"]}));
    let settings =
        Settings::merge(vec![(Layer::User, json!({"permissions": {"deny": ["Read(*.pem)"]}}))])
            .unwrap();
    let gate = Gate::from_settings(&settings, None).unwrap();
    let project = place.path("project");
    let is_denied =
        |name: &str| gate.is_read_denied(&project, &project.join(name), project.join(name));
    assert!(is_denied("deep/key.pem"));
    assert!(!is_denied("deep/key.pub"));
}
