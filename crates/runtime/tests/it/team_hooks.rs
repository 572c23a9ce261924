//! Plays hooks of all kinds against a real gate: settings, a call, and what must happen. The hooks
//! are real commands, and the calls really run.

use std::sync::{Arc, Mutex};

use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::PermissionMode;
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::Choice;
use pitcrew_runtime::run::{Ask, Asks, RunError, Runtime};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::team_env::{Ran, TestRun, finish};

/// The command that the model calls. It asks a person, unless somebody allows it.
const ORIGINAL: &str = "echo original > made";

/// What becomes of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It runs without a question, and the file `made` has this line.
    Runs(&'static str),
    /// A person is asked about this command. It does not run.
    Asks(&'static str),
    /// It is refused with a reason that contains this text.
    Denies(&'static str),
}

use Then::{Asks as AsksFor, Denies, Runs};

/// A line of a table: what is tried, the layers of the settings, the command, what must happen, and
/// a text that a warning must contain.
type Case = (&'static str, Vec<(Layer, Value)>, &'static str, Then, &'static str);

/// Settings with hooks before a call of Bash.
fn guards(hooks: &[Value]) -> Value {
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}})
}

fn of_user(settings: Value) -> Vec<(Layer, Value)> {
    vec![(Layer::User, settings)]
}

fn command(command: &str) -> Value {
    json!({"type": "command", "command": command})
}

fn with(mut hook: Value, name: &str, value: Value) -> Value {
    hook[name] = value;
    hook
}

/// A hook that answers with these fields of `hookSpecificOutput`.
fn answers(fields: Value) -> Value {
    let mut specific = json!({"hookEventName": "PreToolUse"});
    specific.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    command(&format!("echo '{}'", json!({"hookSpecificOutput": specific})))
}

fn allows() -> Value {
    answers(json!({"permissionDecision": "allow"}))
}

fn denies() -> Value {
    answers(json!({"permissionDecision": "deny", "permissionDecisionReason": "the guard says no"}))
}

/// A hook that decides, and replaces the command by one that writes `updated`.
fn updates(decision: &str) -> Value {
    let input = json!({"command": "echo updated > made"});
    answers(json!({"permissionDecision": decision, "updatedInput": input}))
}

fn also(mut settings: Value, name: &str, value: Value) -> Value {
    settings[name] = value;
    settings
}

/// Starts a run in which the lead makes one call. Returns its end, and the inputs about which a
/// person was asked. The person always refuses.
async fn call(
    setting: &TestRun,
    layers: Vec<(Layer, Value)>,
    tool: &str,
    input: Value,
) -> (Ran, Vec<Value>) {
    let turns = json!([{"tools": [{"name": tool, "input": input}]}, {"text": "Done."}]);
    let script = json!({"agents": {"team-lead": turns}}).to_string();
    let mut options = setting.options(&script);
    options.agent_options.settings = Settings::merge(layers).unwrap();
    options.agent_options.mode = PermissionMode::Default;
    let (person, mut questions) = mpsc::channel::<Ask>(1);
    options.agent_options.asks = Asks::Person(person);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let answering = tokio::spawn(async move {
        while let Some(ask) = questions.recv().await {
            let shown = format!("{:?}", ask.question);
            let command = ask.input["command"].as_str().unwrap_or_default().to_owned();
            assert!(shown.contains(&command), "the question shows {shown} and not {command}");
            seen.lock().unwrap().push(ask.input.clone());
            ask.reply(Choice::No { reason: Some("a person says no".to_owned()) });
        }
    });
    let ran = finish(Runtime::start(options).await.unwrap()).await;
    answering.abort();
    let asked = asked.lock().unwrap().clone();
    (ran, asked)
}

fn warnings(ran: &Ran) -> String {
    let text = |event: &RunEvent| match event {
        RunEvent::Warning { text } => Some(text.clone()),
        _ => None,
    };
    ran.events.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

async fn check(cases: Vec<Case>) {
    for (what, layers, command, then, warned) in cases {
        let setting = TestRun::new();
        let (ran, asked) = call(&setting, layers, "Bash", json!({ "command": command })).await;
        let made = std::fs::read_to_string(setting.cwd.join("made")).ok();
        let result = ran.results_of("team-lead", "Bash").join("\n");
        let found = (made.as_deref().map(str::trim), asked.as_slice());
        match then {
            Runs(line) => assert_eq!(found, (Some(line), &[][..]), "{what}: {result}"),
            AsksFor(command) => {
                assert_eq!(found.0, None, "{what}");
                let commands: Vec<&str> =
                    asked.iter().filter_map(|input| input["command"].as_str()).collect();
                assert_eq!(commands, [command], "{what}: {result}");
            }
            Denies(reason) => {
                assert_eq!(found, (None, &[][..]), "{what}: {result}");
                assert!(result.contains(reason), "{what}: {result}");
            }
        }
        let warnings = warnings(&ran);
        assert!(warnings.contains(warned), "{what}: {warnings}");
        assert!(!warned.is_empty() || warnings.is_empty(), "{what}: {warnings}");
    }
}

#[tokio::test]
async fn a_hook_replaces_the_input_before_it_is_judged_asked_about_and_run() {
    let rules = |list: &str| json!({ list: ["Bash(echo updated *)"] });
    let second = answers(json!({
        "permissionDecision": "allow",
        "updatedInput": {"command": "echo second > made"}
    }));
    check(vec![
        ("allowed", of_user(guards(&[updates("allow")])), ORIGINAL, Runs("updated"), ""),
        ("asked", of_user(guards(&[updates("ask")])), ORIGINAL, AsksFor("echo updated > made"), ""),
        (
            "a rule denies the new input",
            of_user(also(guards(&[updates("allow")]), "permissions", rules("deny"))),
            ORIGINAL,
            Denies("echo updated"),
            "",
        ),
        (
            "a rule asks about the new input",
            of_user(also(guards(&[updates("allow")]), "permissions", rules("ask"))),
            ORIGINAL,
            AsksFor("echo updated > made"),
            "",
        ),
        (
            "a rule allows the new input",
            of_user(also(
                guards(&[answers(json!({"updatedInput": {"command": "touch made"}}))]),
                "permissions",
                json!({"allow": ["Bash(touch *)"]}),
            )),
            ORIGINAL,
            Runs(""),
            "",
        ),
        (
            "a rule allows the old input only",
            of_user(also(
                guards(&[answers(json!({"updatedInput": {"command": "echo other > made"}}))]),
                "permissions",
                json!({"allow": ["Bash(echo original *)"]}),
            )),
            ORIGINAL,
            AsksFor("echo other > made"),
            "",
        ),
        (
            "the last of two",
            of_user(guards(&[updates("allow"), second])),
            ORIGINAL,
            Runs("second"),
            "another hook replaced the input that it allowed",
        ),
        (
            "one allows what it saw, another replaces it",
            of_user(guards(&[
                allows(),
                answers(json!({"updatedInput": {"command": "echo other > made"}})),
            ])),
            ORIGINAL,
            AsksFor("echo other > made"),
            "another hook replaced the input that it allowed",
        ),
        (
            "denied all the same",
            of_user(guards(&[updates("allow"), denies()])),
            ORIGINAL,
            Denies("the guard says no"),
            "",
        ),
        (
            "no object",
            of_user(guards(&[answers(
                json!({"permissionDecision": "allow", "updatedInput": "echo updated > made"}),
            )])),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "`updatedInput` that is not an object",
        ),
        (
            "an ask rule holds for the old input too",
            of_user(also(guards(&[allows()]), "permissions", json!({"ask": ["Bash"]}))),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_if_bounds_what_a_hook_sees_and_what_it_allows() {
    let if_git = |hook: Value| with(hook, "if", json!("Bash(git *)"));
    let git = "git --version > made";
    check(vec![
        (
            "allows what it matches",
            of_user(guards(&[with(allows(), "if", json!("Bash(touch *)"))])),
            "touch made",
            Runs(""),
            "",
        ),
        (
            "allows no redirection, which the rule does not name",
            of_user(guards(&[with(allows(), "if", json!("Bash(echo *)"))])),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "does not match the whole call",
        ),
        (
            "allows nothing else",
            of_user(guards(&[if_git(allows())])),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "",
        ),
        (
            "denies nothing else",
            of_user(guards(&[if_git(denies()), allows()])),
            ORIGINAL,
            Runs("original"),
            "",
        ),
        (
            "denies what it matches",
            of_user(guards(&[if_git(denies()), allows()])),
            git,
            Denies("the guard says no"),
            "",
        ),
        (
            "denies a part",
            of_user(guards(&[if_git(denies()), allows()])),
            "echo original > made; A=1 timeout 9 git --version",
            Denies("the guard says no"),
            "",
        ),
        (
            "allows no whole for a part",
            of_user(guards(&[if_git(allows())])),
            "git --version; echo original > made",
            AsksFor("git --version; echo original > made"),
            "its `if` Bash(git *) does not match the whole call",
        ),
        (
            "cannot be read, and would allow",
            of_user(guards(&[with(allows(), "if", json!("Bash("))])),
            ORIGINAL,
            Denies("has an `if` that cannot be read"),
            "what it would match is refused",
        ),
        (
            "is no text",
            of_user(guards(&[with(denies(), "if", json!(3))])),
            ORIGINAL,
            Denies("of the user settings has an `if` that is no text"),
            "what it would match is refused",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_hook_with_arguments_runs_without_a_shell() {
    let setting = TestRun::new();
    let guard = json!({
        "type": "command",
        "command": "/bin/sh",
        "args": ["-c", "printf '%s|' \"$@\" > args; exit 2", "guard", "$HOME", "a b", "${CLAUDE_PROJECT_DIR}"],
    });
    let layers = of_user(guards(&[guard]));
    let (ran, asked) = call(&setting, layers, "Bash", json!({ "command": ORIGINAL })).await;
    let args = std::fs::read_to_string(setting.cwd.join("args")).unwrap();
    assert_eq!(args, format!("$HOME|a b|{}|", setting.cwd.display()));
    assert!(asked.is_empty() && !setting.cwd.join("made").exists(), "{:?}", ran.results());
    let missing = json!({"type": "command", "command": "no such program", "args": []});
    check(vec![(
        "a program with blanks in its name that is not there decides nothing",
        of_user(guards(&[missing, allows()])),
        ORIGINAL,
        Runs("original"),
        "cannot be run",
    )])
    .await;
}

#[tokio::test]
async fn what_is_unknown_about_a_hook_keeps_it_from_allowing_and_a_guard_that_cannot_be_read_denies()
 {
    let one = |hook: Value| of_user(guards(&[hook]));
    let answer = |answer: Value| command(&format!("echo '{answer}'"));
    let group = |group: Value| of_user(json!({"hooks": {"PreToolUse": group}}));
    check(vec![
        (
            "unknown field in the settings",
            one(with(allows(), "later", json!(1))),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "can allow nothing: it has the field `later`",
        ),
        (
            "unknown field beside the matcher",
            group(json!([{"matcher": "Bash", "unless": "x", "hooks": [allows()]}])),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "can allow nothing: it has the field `unless`",
        ),
        (
            "it denies all the same",
            one(with(denies(), "later", json!(1))),
            ORIGINAL,
            Denies("the guard says no"),
            "it has the field `later`",
        ),
        (
            "unknown field in the answer",
            one(answer(json!({"decision": "approve", "later": 1}))),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "answered with the unknown field `later`",
        ),
        (
            "unknown field in the answer for the event",
            one(answers(json!({"permissionDecision": "allow", "later": 1}))),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "answered with the unknown field `later`",
        ),
        (
            "it failed",
            one(command("echo '{\"decision\": \"approve\"}'; exit 1")),
            ORIGINAL,
            AsksFor(ORIGINAL),
            "allows nothing: it failed",
        ),
        (
            "it failed and denies",
            one(command("echo '{\"decision\": \"block\", \"reason\": \"no\"}'; exit 1")),
            ORIGINAL,
            Denies("no"),
            "failed with code 1",
        ),
        (
            "known fields allow",
            one(answer(json!({"decision": "approve"}))),
            ORIGINAL,
            Runs("original"),
            "",
        ),
        (
            "prompt",
            one(json!({"type": "prompt", "prompt": "may it?"})),
            ORIGINAL,
            Denies(
                "of the type `prompt` of the user settings is of a type that pitcrew does not run",
            ),
            "what it would match is refused",
        ),
        (
            "no list of hooks",
            group(json!([{"matcher": "Bash", "hooks": 3}])),
            ORIGINAL,
            Denies("has no list of hooks"),
            "what it would match is refused",
        ),
        (
            "another tool's",
            group(json!([{"matcher": "Read", "hooks": 3}, {"hooks": [allows()]}])),
            ORIGINAL,
            Runs("original"),
            "what it would match is refused",
        ),
        (
            "a matcher that cannot be read",
            group(json!([{"matcher": "(", "hooks": [allows()]}])),
            ORIGINAL,
            Denies("has a matcher that cannot be read"),
            "what it would match is refused",
        ),
        (
            "no list at all",
            group(json!({"hooks": [allows()]})),
            ORIGINAL,
            Denies("is no list of hooks"),
            "what it would match is refused",
        ),
        (
            "events that are not raised",
            of_user(json!({"hooks": {
                "PermissionRequest": [{"hooks": [denies()]}],
                "PreToolUse": [{"hooks": [allows()]}],
            }})),
            ORIGINAL,
            Runs("original"),
            "hooks for the event `PermissionRequest` in the user settings are not run",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_project_silences_its_own_hooks_and_nobody_else_s() {
    let off = || json!({"disableAllHooks": true});
    check(vec![
        (
            "a project and the user's guard",
            vec![(Layer::User, guards(&[denies()])), (Layer::Project, off())],
            ORIGINAL,
            Denies("the guard says no"),
            "",
        ),
        (
            "a project and its own",
            vec![(Layer::Project, also(guards(&[allows()]), "disableAllHooks", json!(true)))],
            ORIGINAL,
            AsksFor(ORIGINAL),
            "",
        ),
        (
            "the user and the project's",
            vec![(Layer::User, off()), (Layer::Project, guards(&[allows()]))],
            ORIGINAL,
            AsksFor(ORIGINAL),
            "",
        ),
        (
            "the user and the policy's guard",
            vec![(Layer::User, off()), (Layer::Managed, guards(&[denies()]))],
            ORIGINAL,
            Denies("the guard says no"),
            "",
        ),
    ])
    .await;
}

#[tokio::test]
async fn nothing_waits_for_a_hook_in_the_background_and_its_text_comes_later() {
    let setting = TestRun::new();
    // The hook ends only after the first call has run. If the call waited for it, the test would
    // hang.
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "additionalContext": "came late"
    }});
    let hook =
        format!("until [ -e made ]; do sleep 0.01; done; echo '{answer}'; exec >&-; touch ended");
    let hook = with(command(&hook), "async", json!(true));
    let first = json!({"command": "echo made > made"});
    let second = json!({"command": "until [ -e ended ]; do sleep 0.01; done"});
    // The hook ends right after it has made the file. One of the next calls sees that it has.
    let more = (0..20).map(|n| json!({"command": format!("true {n}")}));
    let calls = [first, second].into_iter().chain(more);
    let mut turns: Vec<Value> =
        calls.map(|input| json!({"tools": [{"name": "Bash", "input": input}]})).collect();
    turns.push(json!({"text": "Done."}));
    let script = json!({"agents": {"team-lead": turns}}).to_string();
    let (mut options, model) = setting.overheard(&script);
    let once = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        with(hook, "if", json!("Bash(echo made *)")),
    ]}]}});
    options.agent_options.settings = Settings::merge(of_user(once)).unwrap();
    options.agent_options.asks = Asks::Allow;
    setting.run(options).await.success();
    let told = model.told_to("team-lead").join("\n");
    assert!(told.contains("came late"), "{told}");
}

#[tokio::test]
async fn a_goal_is_refused_by_a_hook_that_cannot_be_read() {
    let setting = TestRun::new();
    let mut options = setting.options("agents: {team-lead: [{text: Done.}]}");
    let hooks = json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "agent"}]}]}});
    options.agent_options.settings = Settings::merge(of_user(hooks)).unwrap();
    let Err(RunError::Refused { reason }) = Runtime::start(options).await.map(|_| ()) else {
        panic!("the run began");
    };
    assert!(reason.contains("of the type `agent` of the user settings"), "{reason}");
}

#[tokio::test]
async fn a_hook_that_always_refuses_the_end_of_a_turn_is_cut_after_eight_times() {
    let setting = TestRun::new();
    let hook = command("cat >> stops; echo 'never' >&2; exit 2");
    let turns: Vec<Value> = (0..40).map(|_| json!({"text": "Again."})).collect();
    let script = json!({"agents": {"team-lead": turns}}).to_string();
    let mut options = setting.options(&script);
    let hooks = json!({"hooks": {"Stop": [{"hooks": [hook]}]}});
    options.agent_options.settings = Settings::merge(of_user(hooks)).unwrap();
    let ran = setting.run(options).await;
    ran.success();
    let stops = std::fs::read_to_string(setting.cwd.join("stops")).unwrap();
    let active: Vec<bool> = stops
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["stop_hook_active"] == true)
        .collect();
    assert_eq!(active, [&[false][..], &[true; 8]].concat());
    let told = "the Stop hook `cat >> stops; echo 'never' >&2; exit 2` of the user settings refuses each time";
    assert!(warnings(&ran).contains(told), "{}", warnings(&ran));
}
