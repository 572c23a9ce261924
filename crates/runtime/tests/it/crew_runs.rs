//! Whole runs: a lead and its teammates, from the goal to the outcome.

use pitcrew_runtime::agent::Status;
use pitcrew_runtime::run::Asks;

use crate::crew_setting::Setting;

/// A lead with two teammates: one makes a file, tells the other, who checks it with a command that needs a permission.
const TWO_TEAMMATES: &str = r#"
agents:
  team-lead:
    - tools:
        - {name: TeamCreate, input: {team_name: probe, description: greet}}
    - tools:
        - {name: TaskCreate, input: {subject: Greet, description: Write hello.txt}}
        - {name: TaskCreate, input: {subject: Check, description: Check hello.txt}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', addBlockedBy: ['1']}}
    - tools:
        - {name: Task, input: {name: writer, team_name: probe, subagent_type: general-purpose, description: Greet, prompt: Do task 1.}}
        - {name: Task, input: {name: checker, team_name: probe, subagent_type: general-purpose, description: Check, prompt: Do task 2.}}
    - wait_for: {contains: the file is right, from: message}
    - text: Done; good night.
      tools:
        - {name: SendMessage, input: {type: shutdown_request, recipient: writer}}
        - {name: SendMessage, input: {type: shutdown_request, recipient: checker}}
    - wait_for: {contains: teammate_terminated, from: message, times: 2}
    - tools:
        - {name: TeamDelete}
    - text: hello.txt is written and checked.
  writer:
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: in_progress}}
    - tools:
        - {name: Write, input: {file_path: hello.txt, content: "hello\n"}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '1', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: checker, content: hello.txt is there, summary: The file is there}}
    - text: I wrote it.
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  checker:
    - wait_for: {contains: hello.txt is there}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', status: in_progress}}
    - tools:
        - {name: Bash, input: {command: "grep -c hello hello.txt > count.txt && cat count.txt"}}
    - tools:
        - {name: TaskUpdate, input: {taskId: '2', status: completed}}
        - {name: SendMessage, input: {type: message, recipient: team-lead, content: the file is right, summary: All well}}
    - text: I checked it.
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

#[tokio::test]
async fn a_lead_and_two_teammates_do_a_job_and_shut_down() {
    let setting = Setting::new();
    let mut options = setting.options(TWO_TEAMMATES);
    options.asks = Asks::Allow;
    let ran = setting.run(options).await;
    assert_eq!(ran.success(), "hello.txt is written and checked.", "{:#?}", ran.results());
    assert!(ran.outcome.team_deleted);
    let states: Vec<_> = ran.outcome.agents.iter().map(|agent| (agent.name.to_string(), agent.state)).collect();
    let done = |name: &str| (name.to_owned(), Status::Completed);
    assert_eq!(states, [done("team-lead"), done("writer"), done("checker")]);
    assert_eq!(std::fs::read_to_string(setting.cwd.join("count.txt")).unwrap(), "1\n");
    assert!(setting.teams.list().await.unwrap().is_empty());
}
