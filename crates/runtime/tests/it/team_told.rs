//! Texts that agents receive in addition to messages: the project's instructions, text that hooks
//! add, and the paths of output files.

use pitcrew_permission::settings::{Layer, Settings};
use pitcrew_protocol::PermissionMode;
use pitcrew_runtime::run::Asks;
use serde_json::json;

use crate::team_env::{TestRun, WAITER};

#[tokio::test]
async fn the_instructions_of_user_and_project_reach_every_agent() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("CLAUDE.md"), "Be brief.").unwrap();
    std::fs::write(setting.cwd.join("AGENTS.md"), "Use tabs.").unwrap();
    std::fs::write(setting.root.join("CLAUDE.md"), "Say please.").unwrap();
    let script = format!(
        "agents:\n  'Explore#1': [{{text: Seen.}}]\n  team-lead:\n    - tools:\n        - {{name: Task, input: {{name: bob, \
         description: w, prompt: w}}}}\n        - {{name: Task, input: {{subagent_type: Explore, description: x, prompt: \
         x}}}}\n{WAITER}"
    );
    let (options, model) = setting.overheard(&script);
    setting.run(options).await.success();
    for agent in ["team-lead", "bob", "Explore#1"] {
        let system = model.system_of(agent);
        for instruction in ["Be brief.", "Use tabs.", "Say please."] {
            assert!(system.contains(instruction), "{agent} was not told {instruction:?}: {system}");
        }
    }
}

#[tokio::test]
async fn what_hooks_add_before_and_after_a_call_is_read_with_its_result() {
    let setting = TestRun::new();
    let adds = |event: &str, text: &str| {
        let answer =
            json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}});
        json!([{"matcher": "Glob", "hooks": [{"type": "command", "command": format!("echo '{answer}'")}]}])
    };
    let hooks = json!({"hooks": {"PreToolUse": adds("PreToolUse", "look twice"), "PostToolUse": adds("PostToolUse", "well seen")}});
    let script =
        "agents: {team-lead: [{tools: [{name: Glob, input: {pattern: '*'}}]}, {text: Seen.}]}";
    let (mut options, model) = setting.overheard(script);
    options.agent_options.settings = Settings::merge(vec![(Layer::Project, hooks)]).unwrap();
    setting.run(options).await.success();
    let told = model.told_to("team-lead");
    let added = |text: &str| format!("<system-reminder>\n{text}\n</system-reminder>");
    let expected = [
        "Do it.".to_owned(),
        added("PreToolUse:Glob hook additional context: look twice"),
        added("PostToolUse:Glob hook additional context: well seen"),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_hook_that_says_stop_keeps_a_call_from_running() {
    let setting = TestRun::new();
    let answer = json!({"continue": false, "stopReason": "not today"});
    let command = format!("echo '{answer}'");
    let hooks =
        json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}});
    let script = "agents: {team-lead: [{tools: [{name: Write, input: {file_path: a, content: b}}]}, {text: Well.}]}";
    let mut options = setting.options(script);
    options.agent_options.settings = Settings::merge(vec![(Layer::Project, hooks)]).unwrap();
    let ran = setting.run(options).await;
    assert_eq!(ran.results_of("team-lead", "Write"), ["not today"]);
    assert!(!setting.cwd.join("a").exists());
}

#[tokio::test]
async fn the_environment_of_the_settings_is_there_for_commands_and_hooks() {
    let setting = TestRun::new();
    let script = format!(
        "agents:\n  bob:\n    - tools: [{{name: Bash, input: {{command: 'echo $PROBE > bob.txt'}}}}]\n    - text: \
         Done.\n    - wait_for: {{contains: shutdown_request}}\n    - capture: {{request: {{regex: \
         '\"requestId\":\\s*\"([^\"]+)\"'}}}}\n      tools: [{{name: SendMessage, input: {{type: shutdown_response, \
         request_id: '${{request}}', approve: true}}}}]\n  team-lead:\n    - tools: [{{name: Task, input: {{name: bob, \
         description: w, prompt: w}}}}]\n{WAITER}"
    );
    let mut options = setting.options(&script);
    let hooks = json!({"SessionStart": [{"hooks": [{"type": "command", "command": "echo $PROBE > hook.txt"}]}]});
    let settings = json!({"env": {"PROBE": "seen"}, "hooks": hooks});
    (options.agent_options.asks, options.agent_options.settings) =
        (Asks::Allow, Settings::merge(vec![(Layer::User, settings)]).unwrap());
    setting.run(options).await.success();
    for file in ["bob.txt", "hook.txt"] {
        assert_eq!(std::fs::read_to_string(setting.cwd.join(file)).unwrap(), "seen\n", "{file}");
    }
}

#[tokio::test]
async fn the_lead_is_told_where_the_output_of_a_teammate_is_kept() {
    let setting = TestRun::in_files();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: count, prompt: Count.}}]
    - wait_for: {contains: idle_notification, from: message}
    - text: Thank you.
  bob:
    - tools: [{name: Glob, input: {pattern: '*'}}]
    - wait_for: {contains: shutdown_request}
      text: I counted 42.
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let (options, model) = setting.overheard(script);
    setting.run(options).await.success();
    let told = model.told_to("team-lead").join("\n");
    let notice = told
        .split("<output_file>")
        .nth(1)
        .and_then(|rest| rest.split_once("</output_file>"))
        .unwrap();
    let output = std::fs::read_to_string(notice.0).unwrap();
    assert!(output.contains("> Glob: ") && output.contains("I counted 42."), "{output}");
    assert!(
        told.contains("<task_id>bob</task_id>") && told.contains("<status>idle</status>"),
        "{told}"
    );
    assert!(
        told.contains("I counted 42."),
        "its last words did not travel with the notice: {told}"
    );
}

#[tokio::test]
async fn a_lead_that_delegates_has_team_and_task_tools_only() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("a.txt"), "a").unwrap();
    let script = format!(
        r#"
agents:
  team-lead:
    - tools:
        - {{name: Bash, input: {{command: touch by-lead}}}}
        - {{name: Read, input: {{file_path: a.txt}}}}
        - {{name: TaskCreate, input: {{subject: Touch, description: Touch it}}}}
        - {{name: Task, input: {{description: touch, prompt: Touch., subagent_type: hand}}}}
    - tools: [{{name: TaskUpdate, input: {{taskId: '1', status: completed}}}}]
    - text: Seen.
  'hand#1':
    - tools: [{{name: Bash, input: {{command: touch by-hand}}}}]
    - text: Touched.
{WAITER}"#
    );
    std::fs::create_dir_all(setting.root.join("agents")).unwrap();
    let definition = "---\nname: hand\ndescription: touches\ntools: Bash\n---\nTouch.\n";
    std::fs::write(setting.root.join("agents/hand.md"), definition).unwrap();
    let (mut options, model) = setting.overheard(&script);
    (options.agent_options.mode, options.agent_options.asks) =
        (PermissionMode::Delegate, Asks::Allow);
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "Seen.");
    let mut tools = model.tools_of("team-lead");
    tools.sort();
    let expected = [
        "SendMessage",
        "Task",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskStop",
        "TaskUpdate",
        "TeamCreate",
        "TeamDelete",
    ];
    assert_eq!(tools, expected);
    assert!(model.system_of("team-lead").contains("# Delegate mode"));
    for tool in ["Bash", "Read"] {
        let answers = ran.results_of("team-lead", tool);
        assert_eq!(
            answers,
            [format!("{tool} is not available in delegate mode: only team and task tools are")]
        );
    }
    assert!(
        !setting.cwd.join("by-lead").exists() && setting.cwd.join("by-hand").exists(),
        "{:#?}",
        ran.results()
    );
    assert_eq!(model.tools_of("hand#1"), ["Bash"]);
    assert!(model.system_of("hand#1").contains("Touch."));
}
