//! A person is asked about the plans of teammates, at the same time as the lead.

use pitcrew_protocol::{PermissionMode, SendMessageInput};
use pitcrew_runtime::question::Choice;
use pitcrew_runtime::run::{Ask, Asks, RunHandle, Runtime, Shortfall};
use pitcrew_team::Actor;
use tokio::sync::mpsc;

use crate::patience::in_time;
use crate::team_env::{Overheard, TestRun, finish};

/// The script of bob, who plans twice if the first plan is sent back.
const BOB: &str = r#"
  bob:
    - tools: [{name: ExitPlanMode, input: {plan: "1. Rename it."}}]
    - wait_for: {contains: plan_approval_response, from: message}
    - choose:
        - when: {contains: leave the name}
          turns:
            - tools: [{name: ExitPlanMode, input: {plan: "1. Leave the name."}}]
            - wait_for: {contains: '"approved":true', from: message}
    - wait_for: {contains: shutdown_request}
      text: I carry it out.
    - capture:
        request: {regex: '"requestId":\s*"(shutdown[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: shutdown_response, request_id: '${request}', approve: true}}
"#;

/// Starts a run whose lead spawns bob in plan mode, and then plays these steps.
async fn planning(
    setting: &TestRun,
    lead: &str,
) -> (RunHandle, mpsc::Receiver<Ask>, std::sync::Arc<Overheard>) {
    let spawn = "{name: Task, input: {name: bob, description: d, prompt: p, mode: plan}}";
    let script = format!("agents:\n  team-lead:\n    - tools: [{spawn}]\n{lead}{BOB}");
    let (person, asks) = mpsc::channel(4);
    let (mut options, overheard) = setting.overheard(&script);
    (options.agent_options.asks, options.agent_options.mode) =
        (Asks::Person(person), PermissionMode::Default);
    (Runtime::start(options).await.unwrap(), asks, overheard)
}

async fn next(asks: &mut mpsc::Receiver<Ask>) -> Ask {
    in_time("the person is asked", asks.recv()).await.expect("the run has ended")
}

fn text_of(ask: &Ask) -> String {
    let lines = ask.question.notes().into_iter().chain(ask.question.lines.clone());
    lines.map(|line| line.text).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_person_sends_a_plan_back_and_approves_the_next_one() {
    let setting = TestRun::in_files();
    let lead = "    - wait_for: {contains: The user has approved the plan of bob, from: message}\n    - text: Good.\n";
    let (handle, mut asks, overheard) = planning(&setting, lead).await;
    let answering = async {
        let first = next(&mut asks).await;
        let work = setting.cwd.display().to_string();
        let plans = setting.root.join("plans").display().to_string();
        let shown = text_of(&first).replace(&work, "[work]").replace(&plans, "[plans]");
        insta::assert_snapshot!(format!("{}\n{shown}", first.question.heading()), @r"
        bob asks you to approve its plan
        in [work]
        because it may change nothing before the answer; the lead can answer too
        planFilePath: [plans]/probe-bob.md
        1. Rename it.
        ");
        assert_eq!(first.question.offers, [], "each plan is approved on its own");
        first.reply(Choice::No { reason: Some("leave the name".to_owned()) });
        let second = next(&mut asks).await;
        assert!(text_of(&second).ends_with("1. Leave the name."), "{}", text_of(&second));
        second.reply(Choice::Once);
        assert!(asks.recv().await.is_none(), "nobody is asked about an answered plan");
    };
    let (ran, ()) = tokio::join!(finish(handle), answering);
    ran.success();
    let told = overheard.told_to("team-lead").join("\n");
    assert!(told.contains("do not answer it. The user told bob: leave the name"), "{told}");
    assert!(!told.contains("waits for an answer"), "the run waits for the person: {told}");
}

#[tokio::test]
async fn the_answer_of_the_lead_withdraws_the_question_from_the_person() {
    let setting = TestRun::in_files();
    let lead = r#"    - wait_for: {contains: answer it now, from: message}
    - capture:
        request: {from: message, regex: '"requestId":"(plan_approval-[^"]+)"'}
      tools:
        - {name: SendMessage, input: {type: plan_approval_response, recipient: bob, request_id: '${request}', approve: true}}
    - text: Good.
"#;
    let (handle, mut asks, overheard) = planning(&setting, lead).await;
    let answering = async {
        let mut ask = next(&mut asks).await;
        let (recipient, content) = ("team-lead".to_owned(), "answer it now".to_owned());
        let message = SendMessageInput::Message { recipient, content, summary: None };
        let team = setting.team_elsewhere().await;
        team.send(&Actor::User, message, None).await.unwrap();
        in_time("the question is withdrawn", ask.answer.closed()).await;
    };
    let (ran, ()) = tokio::join!(finish(handle), answering);
    ran.success();
    let told = overheard.told_to("bob").join("\n");
    assert!(told.contains(r#""approved":true"#), "{told}");
}

#[tokio::test]
async fn a_person_who_does_not_answer_leaves_the_plan_to_the_lead() {
    let setting = TestRun::in_files();
    let lead = "    - wait_for: {contains: never said}\n";
    let (handle, mut asks, overheard) = planning(&setting, lead).await;
    let answering = async { drop(next(&mut asks).await) };
    let (ran, ()) = tokio::join!(finish(handle), answering);
    ran.unfinished(Shortfall::Stalled);
    let told = overheard.told_to("team-lead").join("\n");
    assert!(told.contains("the plan of bob waits for an answer"), "{told}");
}
