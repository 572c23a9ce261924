//! Tests plan mode in a real repository. An agent must change nothing before its plan is approved.
//! After the approval, the agent must be able to make every kind of change.

use pitcrew_protocol::PermissionMode;
use std::process::Command;

use crate::git::apart;
use crate::team_env::TestRun;

/// Steps of a script that try every kind of change.
const VANDAL: &str = r#"
    - tools: [{name: Write, input: {file_path: a.txt, content: x}}]
    - tools: [{name: Edit, input: {file_path: kept.txt, old_string: kept, new_string: lost}}]
    - tools: [{name: Bash, input: {command: touch b.txt}}]
    - tools: [{name: Bash, input: {command: echo x > c.txt}}]
    - tools: [{name: Bash, input: {command: git commit -qam vandalised}}]
"#;

/// The command that creates the repository. Git runs no background maintenance in it, because that
/// would change files that the test compares.
const MAKE: &str = "git init -q && git config user.name probe && git config user.email probe@example.org \
                    && git config maintenance.auto false && git config commit.gpgsign false && git add . && git commit -qm base";

/// The command that prints the head commit and the hash of every file, including the files in
/// `.git`.
const LOOK: &str = "git rev-parse HEAD; find . -type f -print0 | sort -z | xargs -0 sha256sum";

fn in_repository(setting: &TestRun, command: &str) -> String {
    let output = apart(&mut Command::new("sh"))
        .args(["-c", command])
        .current_dir(&setting.cwd)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn script(plan: &str, lead_looks: &str) -> String {
    format!(
        r#"
agents:
  team-lead:
    - tools: [{{name: Task, input: {{name: planner, description: plan, prompt: Plan., mode: plan}}}}]
    - wait_for: {{contains: plan_approval_request, from: message}}
    - tools: [{{name: Bash, input: {{command: '{lead_looks}'}}}}]
    - capture:
        request: {{regex: '"requestId":\s*"(plan_approval[^"]+)"', from: message}}
      tools:
        - {{name: SendMessage, input: {{type: plan_approval_response, request_id: '${{request}}', recipient: planner, approve: true}}}}
    - text: Go on.
  planner:
    - tools: [{{name: Read, input: {{file_path: kept.txt}}}}]
{VANDAL}
    - tools: [{{name: ExitPlanMode}}]
    - tools: [{{name: Write, input: {{file_path: '{plan}', content: I change things.}}}}]
    - tools: [{{name: ExitPlanMode}}]
    - wait_for: {{contains: plan_approval_response}}
{VANDAL}
    - wait_for: {{contains: shutdown_request}}
    - capture:
        request: {{regex: '"requestId":\s*"(shutdown[^"]+)"'}}
      tools:
        - {{name: SendMessage, input: {{type: shutdown_response, request_id: '${{request}}', approve: true}}}}
"#
    )
}

#[tokio::test]
async fn no_approved_plan_lets_an_agent_do_more_than_the_user_let_the_run() {
    let setting = TestRun::in_files();
    let folder = setting.root.join("agents");
    std::fs::create_dir_all(&folder).unwrap();
    let free = "---\nname: free\ndescription: d\npermissionMode: bypassPermissions\n---\n";
    std::fs::write(folder.join("free.md"), free).unwrap();
    let script = r"
agents:
  team-lead:
    - tools: [{name: Task, input: {name: bob, description: d, prompt: p, subagent_type: free, mode: plan}}]
    - text: Nobody came.
";
    let ran = setting.run(setting.options(script)).await;
    assert_eq!(ran.success(), "Nobody came.", "{:#?}", ran.results());
    let said = &ran.results_of("team-lead", "Task")[0];
    assert!(said.contains("Only the user can let an agent bypass permissions"), "{said}");
}

#[tokio::test]
async fn a_teammate_in_plan_mode_changes_nothing_before_its_plan_is_approved() {
    let setting = TestRun::in_files();
    std::fs::write(setting.cwd.join("kept.txt"), "kept").unwrap();
    in_repository(&setting, MAKE);
    let before = in_repository(&setting, LOOK);
    let plan = setting.root.join("plans/probe-planner.md");
    std::fs::create_dir(setting.cwd.join("../seen")).unwrap();
    let lead_looks = format!("({LOOK}) > ../seen/by-lead");
    let mut options = setting.options(&script(&plan.display().to_string(), &lead_looks));
    options.agent_options.mode = PermissionMode::BypassPermissions;
    let ran = setting.run(options).await;
    ran.success();
    let results = ran.results();

    let seen_by_lead = std::fs::read_to_string(setting.cwd.join("../seen/by-lead")).unwrap();
    assert_eq!(seen_by_lead, before, "{results:#?}");
    let (writes, edits) = (ran.results_of("planner", "Write"), ran.results_of("planner", "Edit"));
    for refused in [&writes[0], &edits[0]] {
        assert_eq!(refused, "in plan mode only the plan file may be written");
    }
    let commands = ran.results_of("planner", "Bash");
    for refused in &commands[..3] {
        assert!(
            refused.starts_with("in plan mode only commands that surely read are run"),
            "{commands:?}"
        );
    }
    assert_eq!(commands.len(), 6, "{results:#?}");

    assert_eq!(
        std::fs::read_to_string(setting.cwd.join("kept.txt")).unwrap(),
        "lost",
        "{results:#?}"
    );
    for file in ["a.txt", "b.txt", "c.txt"] {
        assert!(setting.cwd.join(file).exists(), "{file}: {results:#?}");
    }
    assert_eq!(
        in_repository(&setting, "git log --format=%s"),
        "vandalised\nbase\n",
        "{results:#?}"
    );
    assert_eq!(in_repository(&setting, "git show HEAD:kept.txt"), "lost");
    let answers = ran.results_of("planner", "ExitPlanMode");
    assert!(answers[0].contains("Write your plan to"), "{answers:?}");
    assert!(answers[1].starts_with("Your plan went to the lead for approval"), "{answers:?}");
    assert_eq!(std::fs::read_to_string(plan).unwrap(), "I change things.");
}
