//! Tests permission requests. The lead's user sees a request, and the request may be answered by
//! somebody else or may change before the user answers.

use pitcrew_protocol::{AgentName, ErrorCode, Frame, PermissionMode};
use pitcrew_runtime::events::RunEvent;
use pitcrew_runtime::question::{Choice, Digest, Keep, Offer};
use pitcrew_runtime::run::{Answer, Ask, Asks, RunHandle, Runtime, Taken};
use pitcrew_team::{Actor, JoinMember, PermissionAsk, Team};
use serde_json::json;
use tokio::sync::mpsc;

use crate::patience::in_time;
use crate::team_env::{TestRun, finish, until};

/// The script of a lead that is busy for ten minutes.
const LEAD: &str =
    "agents: {team-lead: [{tools: [{name: TaskList}]}, {delay_ms: 600000, text: Late.}]}";

fn guest() -> AgentName {
    AgentName::new("guest").unwrap()
}

/// Starts a run, adds a guest (a member that joins the running team), and lets the guest ask for a
/// permission. Returns the run, the team, the permission request as the user sees it, and the id of
/// the request.
async fn asked(setting: &TestRun) -> (RunHandle, Team, Ask, String) {
    let (person, mut asks) = mpsc::channel(1);
    let mut options = setting.options(LEAD);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let mut handle = Runtime::start(options).await.unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::ToolEnded(_))).await;
    let team = setting.team().await;
    let join = JoinMember {
        name: "guest".to_owned(),
        agent_type: "general-purpose".to_owned(),
        model: "script:test.yaml".to_owned(),
        cwd: setting.cwd.to_string_lossy().into_owned(),
        ..JoinMember::default()
    };
    team.join(join).await.unwrap();
    let ask = PermissionAsk {
        tool_name: "Bash".to_owned(),
        tool_use_id: "toolu_1".to_owned(),
        description: "curl".to_owned(),
        input: json!({"command": "curl example.org"}),
        suggestions: Vec::new(),
        digest: None,
    };
    let request = team.request_permission(&guest(), ask).await.unwrap().request_id;
    let ask = asks.recv().await.unwrap();
    assert_eq!((ask.question.asker.as_str(), ask.question.tool.as_str()), ("guest", "Bash"));
    (handle, team, ask, request)
}

async fn check_it_is_taken_back(setting: &TestRun, approved: bool) {
    let (mut handle, team, mut ask, request) = asked(setting).await;
    team.settle_permission(&guest(), &request, approved).await.unwrap();
    ask.answer.closed().await;
    let told =
        until(&mut handle, |event| matches!(event, RunEvent::PermissionAnswered { .. })).await;
    let Some(RunEvent::PermissionAnswered { agent, call, refused, .. }) = told.last() else {
        panic!("{told:?}")
    };
    assert_eq!((agent.as_str(), call.as_str(), refused.is_none()), ("guest", "toolu_1", approved));
    let unread = team.unread(&AgentName::lead()).await.unwrap();
    assert!(
        unread.iter().all(|mail| !matches!(mail.frame, Some(Frame::PermissionRequest(_)))),
        "{unread:?}"
    );
    let answer = team.requests().await.unwrap()[&request].answer.clone().unwrap();
    assert_eq!(answer.approved, approved);
    handle.stopper().stop();
    finish(handle).await;
    assert!(team.unread(&guest()).await.unwrap().is_empty(), "the lead has answered as well");
}

#[tokio::test]
async fn a_question_that_was_answered_beside_the_member_is_taken_back_from_the_leads_person() {
    check_it_is_taken_back(&TestRun::new(), true).await;
    check_it_is_taken_back(&TestRun::in_files(), true).await;
}

#[tokio::test]
async fn a_question_that_was_denied_beside_the_member_is_taken_back_from_the_leads_person() {
    check_it_is_taken_back(&TestRun::in_files(), false).await;
}

#[tokio::test]
async fn a_question_is_taken_back_when_another_process_of_the_users_answers_it() {
    let setting = TestRun::in_files();
    let (handle, team, mut ask, request) = asked(&setting).await;
    let allow = pitcrew_team::PermissionAnswer::Allow {
        updated_input: json!({}),
        updates: Vec::new(),
        digest: None,
    };
    setting
        .team_elsewhere()
        .await
        .answer_permission(&Actor::Lead, &request, allow, None)
        .await
        .unwrap_err();
    assert!(!ask.answer.is_closed(), "nobody but the lead's process speaks for it");
    team.settle_permission(&guest(), &request, true).await.unwrap();
    ask.answer.closed().await;
    handle.stopper().stop();
    finish(handle).await;
}

#[tokio::test]
async fn an_answer_that_the_disk_refuses_is_written_when_the_disk_takes_it() {
    let setting = TestRun::in_files();
    let (mut handle, team, ask, request) = asked(&setting).await;
    let requests = setting.root.join("teams/probe/pitcrew/requests.json");
    let aside = requests.with_extension("aside");
    // A folder replaces the file `requests.json`. Then every write to this file fails, also for
    // root.
    std::fs::rename(&requests, &aside).unwrap();
    std::fs::create_dir(&requests).unwrap();
    let digest = ask.question.digest().clone();
    let (answer, taken) = Answer::with_receipt(digest, Choice::Once);
    ask.answer.send(answer).unwrap();
    let taken = in_time("the person learns of it", taken).await.unwrap();
    assert!(matches!(taken, Ok(Taken::Unwritten { .. })), "{taken:?}");
    let is_refused = |event: &RunEvent| matches!(event, RunEvent::Warning { text } if text.contains("is not written yet"));
    until(&mut handle, is_refused).await;
    std::fs::remove_dir(&requests).unwrap();
    std::fs::rename(&aside, &requests).unwrap();
    until(&mut handle, |event| matches!(event, RunEvent::PermissionAnswered { refused: None, .. }))
        .await;
    assert!(team.requests().await.unwrap()[&request].answer.as_ref().unwrap().approved);
    handle.stopper().stop();
    finish(handle).await;
}

#[tokio::test]
async fn the_lead_learns_what_a_member_elsewhere_was_allowed_from_now_on_beside_it() {
    let setting = TestRun::in_files();
    let (mut handle, team, _ask, request) = asked(&setting).await;
    let (member, rule) = (guest(), "Bash(curl:*)".to_owned());
    team.note([pitcrew_team::store::Event::AllowedAlways {
        member,
        what: rule.clone(),
        lasts: true,
    }])
    .await;
    team.settle_permission(&guest(), &request, true).await.unwrap();
    let told = until(&mut handle, |event| matches!(event, RunEvent::AllowedAlways { .. })).await;
    let Some(RunEvent::AllowedAlways { agent, what }) = told.last() else { panic!("{told:?}") };
    assert_eq!((agent.as_str(), what), ("guest", &rule));
    handle.stopper().stop();
    finish(handle).await;
}

/// Starts a run. Returns the run and a receiver of the permission requests that the user would see.
async fn asking(setting: &TestRun, script: &str) -> (RunHandle, mpsc::Receiver<Ask>) {
    let (person, asks) = mpsc::channel(4);
    let mut options = setting.options(script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    (Runtime::start(options).await.unwrap(), asks)
}

#[tokio::test]
async fn always_exactly_this_is_asked_once_and_anything_else_again() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch once}}]
    - tools: [{name: Bash, input: {command: rm once && touch twice}}]
    - tools: [{name: Bash, input: {command: touch once}}]
    - text: Done.
"#;
    let (handle, mut asks) = asking(&setting, script).await;
    let answering = async {
        let mut asked = Vec::new();
        while let Some(ask) = asks.recv().await {
            asked.push(ask.input["command"].as_str().unwrap().to_owned());
            let offer = ask.question.offers[0].clone();
            assert!(matches!(offer, Offer::Exactly { .. }), "{offer:?}");
            ask.reply(Choice::Always { offer, keep: Keep::Run });
        }
        asked
    };
    let (ran, asked) = tokio::join!(finish(handle), answering);
    ran.success();
    assert_eq!(asked, ["touch once", "rm once && touch twice"]);
    assert!(setting.cwd.join("once").exists() && setting.cwd.join("twice").exists());
    assert!(!setting.root.join("settings.json").exists(), "nothing was saved");
}

#[tokio::test]
async fn always_for_a_prefix_answers_what_waits_and_is_saved_in_the_user_s_settings() {
    let setting = TestRun::new();
    let script = r#"
agents:
  team-lead:
    - tools:
        - {name: Task, input: {name: bob, description: work, prompt: Work.}}
        - {name: Task, input: {name: cat, description: work, prompt: Work.}}
    - wait_for: {contains: I am bob, from: message}
    - wait_for: {contains: I am cat, from: message}
    - text: Done.
  bob:
    - tools: [{name: Bash, input: {command: touch made by-bob}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I am bob., summary: bob}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
  cat:
    - tools: [{name: Bash, input: {command: touch made by-cat}}]
    - tools: [{name: SendMessage, input: {type: message, recipient: team-lead, content: I am cat., summary: cat}}]
    - wait_for: {contains: shutdown_request}
    - capture:
        request: {regex: '"requestId":\s*"([^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;
    let (handle, mut asks) = asking(&setting, script).await;
    let answering = async {
        let (first, mut second) = (asks.recv().await.unwrap(), asks.recv().await.unwrap());
        let offer = Offer::Rule("Bash(touch made:*)".to_owned());
        assert!(first.question.offers.contains(&offer), "{:?}", first.question);
        first.reply(Choice::Always { offer, keep: Keep::Saved });
        second.answer.closed().await;
        assert!(asks.recv().await.is_none(), "nothing more is asked");
    };
    let (ran, ()) = tokio::join!(finish(handle), answering);
    ran.success();
    for file in ["made", "by-bob", "by-cat"] {
        assert!(setting.cwd.join(file).exists(), "{file}");
    }
    let saved: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(setting.root.join("settings.json")).unwrap())
            .unwrap();
    assert_eq!(saved, json!({"permissions": {"allow": ["Bash(touch made:*)"]}}));
    assert!(!setting.cwd.join(".claude").exists(), "a project's settings are never written");
}

#[tokio::test]
async fn an_answer_to_a_question_that_has_changed_is_not_taken() {
    let setting = TestRun::new();
    let script = "agents: {team-lead: [{tools: [{name: Write, input: {file_path: it, content: new}}]}, {text: Done.}]}";
    let (handle, mut asks) = asking(&setting, script).await;
    let answering = async {
        let first = asks.recv().await.unwrap();
        let other = Digest::of_call("Write", &json!({}));
        let (answer, taken) = Answer::with_receipt(other, Choice::Once);
        first.answer.send(answer).unwrap();
        assert_eq!(taken.await.unwrap().unwrap_err().code, ErrorCode::InvalidStatus);
        let second = asks.recv().await.unwrap();
        assert_eq!(second.question, first.question, "it is asked again");
        // The user was asked to allow the new file `it`. Before the user answers, another process
        // creates this file. The tool call would now overwrite the file.
        std::fs::write(setting.cwd.join("it"), "somebody else's").unwrap();
        let digest = second.question.digest().clone();
        let (answer, taken) = Answer::with_receipt(digest, Choice::Once);
        second.answer.send(answer).unwrap();
        assert_eq!(taken.await.unwrap().unwrap_err().code, ErrorCode::InvalidStatus);
        let third = asks.recv().await.unwrap();
        assert_ne!(third.question.digest(), first.question.digest());
        let text: Vec<&str> = third.question.lines.iter().map(|line| line.text.as_str()).collect();
        assert!(text.contains(&"somebody else's"), "{text:?}");
        third.reply(Choice::No { reason: Some("it is not yours".to_owned()) });
    };
    let (ran, ()) = tokio::join!(finish(handle), answering);
    let results = ran.results_of("team-lead", "Write");
    assert_eq!(results, ["Permission denied for Write: the user said no: it is not yours"]);
    assert_eq!(std::fs::read_to_string(setting.cwd.join("it")).unwrap(), "somebody else's");
}

#[tokio::test]
async fn nobody_is_asked_about_a_change_that_would_fail_whatever_the_answer() {
    let setting = TestRun::new();
    std::fs::write(setting.cwd.join("a.txt"), "one\n").unwrap();
    std::fs::write(setting.cwd.join("b.txt"), "two\n").unwrap();
    std::fs::create_dir(setting.cwd.join("folder")).unwrap();
    let script = r#"
agents:
  team-lead:
    - tools: [{name: Edit, input: {file_path: a.txt, old_string: one, new_string: 1}}]
    - tools: [{name: Write, input: {file_path: a.txt, content: lost}}]
    - tools: [{name: Read, input: {file_path: a.txt}}, {name: Edit, input: {file_path: a.txt, old_string: other, new_string: 1}}]
    - tools: [{name: Edit, input: {file_path: a.txt, old_string: one, new_string: one}}]
    - tools: [{name: Edit, input: {file_path: missing, old_string: one, new_string: 1}}]
    - tools: [{name: Edit, input: {file_path: folder, old_string: one, new_string: 1}}]
    - tools: [{name: Write, input: {file_path: folder, content: "1"}}]
    - tools: [{name: Edit, input: {file_path: ../outside, old_string: one, new_string: 1}}]
    - tools: [{name: Read, input: {file_path: b.txt}}, {name: Edit, input: {file_path: b.txt, old_string: two, new_string: "2"}}]
    - tools: [{name: Write, input: {file_path: new.txt, content: new}}]
    - text: Done.
"#;
    let script = script.replace("new_string: 1}", "new_string: '1'}");
    let (handle, mut asks) = asking(&setting, &script).await;
    let answering = async {
        let mut asked = Vec::new();
        while let Some(ask) = asks.recv().await {
            asked.push(format!(
                "{} {}",
                ask.question.tool,
                ask.input["file_path"].as_str().unwrap()
            ));
            ask.reply(Choice::Once);
        }
        asked
    };
    let (ran, asked) = tokio::join!(finish(handle), answering);
    ran.success();
    let said = ran.results_of("team-lead", "Edit");
    for (result, expected) in said.iter().zip([
        "has not been read yet",
        "was not found",
        "are the same",
        "does not exist",
        "is a folder",
    ]) {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    // The user is asked about `../outside`, although this edit would fail too. A refusal without a
    // permission request would reveal to the agent something about a file outside the working
    // folder.
    assert_eq!(asked, ["Edit ../outside", "Edit b.txt", "Write new.txt"]);
    let read = |name: &str| std::fs::read_to_string(setting.cwd.join(name)).unwrap();
    assert_eq!(
        (read("a.txt"), read("b.txt"), read("new.txt")),
        ("one\n".into(), "2\n".into(), "new".into())
    );
}

/// Replaces a folder by a symbolic link to `target`.
fn swap(folder: &std::path::Path, target: &std::path::Path) {
    std::fs::rename(folder, folder.with_extension("moved")).unwrap();
    std::os::unix::fs::symlink(target, folder).unwrap();
}

fn text_of(ask: &Ask) -> String {
    ask.question.lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_while_a_change_is_asked_about_is_neither_shown_nor_written() {
    for tool in ["Write", "Edit"] {
        let setting = TestRun::new();
        let (folder, outside) = (setting.cwd.join("d"), setting.root.join("secret"));
        for (place, content) in [(&folder, "inside\n"), (&outside, "CANARY inside\n")] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("file"), content).unwrap();
        }
        let change = match tool {
            "Write" => "content: changed",
            _ => "old_string: inside, new_string: changed",
        };
        let script = format!(
            "agents: {{team-lead: [{{tools: [{{name: Read, input: {{file_path: d/file}}}}]}}, \
             {{tools: [{{name: {tool}, input: {{file_path: d/file, {change}}}}}]}}, {{text: Done.}}]}}"
        );
        let (handle, mut asks) = asking(&setting, &script).await;
        let answering = async {
            let first = asks.recv().await.unwrap();
            assert!(text_of(&first).contains("inside"), "{:?}", first.question);
            swap(&folder, &outside);
            first.reply(Choice::Once);
            while let Some(ask) = asks.recv().await {
                assert!(!text_of(&ask).contains("CANARY"), "{tool}: {:?}", ask.question);
                ask.reply(Choice::Once);
            }
        };
        let (ran, ()) = tokio::join!(finish(handle), answering);
        ran.success();
        let result = ran.results_of("team-lead", tool).join("");
        assert!(result.contains("link"), "{tool}: {result}");
        let read = |place: &std::path::Path| std::fs::read_to_string(place.join("file")).unwrap();
        assert_eq!(
            (read(&outside), read(&folder.with_extension("moved"))),
            ("CANARY inside\n".into(), "inside\n".into())
        );
    }
}

#[tokio::test]
async fn an_answer_for_always_does_not_cover_a_path_that_became_a_link_into_what_it_allows() {
    let setting = TestRun::new();
    let (folder, allowed) = (setting.cwd.join("d"), setting.cwd.join("allowed"));
    for place in [&folder, &allowed] {
        std::fs::create_dir(place).unwrap();
    }
    let writer = |name: &str, file: &str| {
        format!(
            "  {name}:\n    - tools: [{{name: Write, input: {{file_path: {file}, content: new}}}}]\n    \
             - tools: [{{name: SendMessage, input: {{type: message, recipient: team-lead, content: I am {name}., \
             summary: {name}}}}}]\n{}",
            crate::team_env::WAITER.replacen("\n  default:", "", 1)
        )
    };
    let script = &format!(
        "agents:\n  team-lead:\n    - tools:\n        \
         - {{name: Task, input: {{name: bob, description: work, prompt: Work.}}}}\n        \
         - {{name: Task, input: {{name: cat, description: work, prompt: Work.}}}}\n    \
         - wait_for: {{contains: I am bob, from: message}}\n    - wait_for: {{contains: I am cat, from: message}}\n    \
         - text: Done.\n{}\n{}",
        writer("bob", "d/file"),
        writer("cat", "allowed/file")
    );
    let (handle, mut asks) = asking(&setting, script).await;
    let answering = async {
        let (one, other) = (asks.recv().await.unwrap(), asks.recv().await.unwrap());
        let is_first = |ask: &Ask| ask.input["file_path"] == "d/file";
        let (of_link, of_allowed) = if is_first(&one) { (one, other) } else { (other, one) };
        swap(&folder, &allowed);
        let offer = Offer::Rule(format!("Edit(/{}/file)", allowed.display()));
        of_allowed.reply(Choice::Always { offer, keep: Keep::Run });
        // The user's answer allows a tool call, which writes `file`, and adds a rule. The rule
        // takes effect before the tool call runs. So when `file` exists, pitcrew has already
        // withdrawn every other permission request that the rule covers.
        while !allowed.join("file").exists() {
            tokio::task::yield_now().await;
        }
        assert!(!of_link.answer.is_closed(), "a rule about another file has answered");
        of_link.reply(Choice::Once);
        assert!(asks.recv().await.is_none(), "nobody is asked about a link");
    };
    let (ran, ()) = tokio::join!(finish(handle), answering);
    ran.success();
    let results = ran.results_of("bob", "Write");
    let refused =
        results.iter().filter(|result| result.contains("goes through a symbolic link")).count();
    assert_eq!(refused, 1, "{results:?}");
    assert_eq!(std::fs::read_dir(folder.with_extension("moved")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_change_of_a_file_of_the_home_folder_is_shown_against_that_file() {
    let setting = TestRun::new();
    let home = setting.root.join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("notes"), "what the user wrote\n").unwrap();
    let script = r"
agents:
  team-lead:
    - tools: [{name: Read, input: {file_path: ~/notes}}]
    - tools: [{name: Write, input: {file_path: ~/notes, content: gone}}]
    - text: Done.
";
    let (person, mut asks) = mpsc::channel(4);
    let mut options = setting.options(script);
    options.agent_options.home = Some(home.clone());
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    let handle = Runtime::start(options).await.unwrap();
    let answering = async {
        let mut shown = Vec::new();
        while let Some(ask) = asks.recv().await {
            shown.push((ask.question.tool.clone(), text_of(&ask)));
            ask.reply(Choice::Once);
        }
        shown
    };
    let (ran, shown) = tokio::join!(finish(handle), answering);
    ran.success();
    assert_eq!(std::fs::read_to_string(home.join("notes")).unwrap(), "gone");
    let (_, write) = shown.iter().find(|(tool, _)| tool == "Write").unwrap();
    assert!(write.contains("what the user wrote"), "{write}");
}
