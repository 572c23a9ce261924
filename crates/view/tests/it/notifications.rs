//! The host of a real run notifies the user once, whoever follows it.

use pitcrew_runtime::question::Choice;
use pitcrew_view::asking::Chosen;
use pitcrew_view::client::{Following, answer, follow_on_terminal, stop_run};
use pitcrew_view::host::What;
use pitcrew_view::notification::{Notification, Reason};

use crate::host_env::{Hosted, PAUSE, in_time, snapshot, until};

/// The script of a lead that asks permission for a command three times.
const ASKS: &str = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: touch one}}]
    - tools: [{name: Bash, input: {command: touch two}}]
    - tools: [{name: Bash, input: {command: touch three}}]
    - text: Done.
";

fn is_notification(what: &What) -> bool {
    matches!(what, What::Notify(_))
}

async fn notified(follower: &mut Following) -> Notification {
    match until(follower, is_notification).await.what {
        What::Notify(notification) => *notification,
        other => panic!("{other:?}"),
    }
}

async fn on_terminal(hosted: &Hosted) -> Following {
    let team = hosted.team_elsewhere().await;
    follow_on_terminal(&team, None).await.unwrap().unwrap()
}

/// Answers the question with this id as often as needed until the host has it.
async fn allow(hosted: &mut Hosted, follower: &mut Following, id: &str) {
    let question = match snapshot(follower).await.questions.pop() {
        Some(question) => question,
        None => match until(follower, |what| matches!(what, What::QuestionOpened(_))).await.what {
            What::QuestionOpened(question) => *question,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(question.id, id);
    let chosen = Chosen { question, choice: Choice::Once };
    assert!(answer(&hosted.team_elsewhere().await, &chosen).await.unwrap());
}

#[tokio::test]
async fn one_follower_with_a_terminal_shows_a_notification_and_the_others_do_not() {
    let mut hosted = Hosted::start(ASKS).await;
    let first = hosted.until(is_notification).await;
    let Some(What::Notify(first)) = first.last().map(|event| event.what.clone()) else {
        unreachable!()
    };
    let reason = Reason::InputNeeded {
        question: "q1".to_owned(),
        agent: "team-lead".to_owned(),
        tool: "Bash".to_owned(),
    };
    assert_eq!((&first.reason, first.follower), (&reason, None), "nobody follows yet");
    assert_eq!(first.title, "pitcrew: probe");

    let mut plain = hosted.follow(None).await;
    let (mut one, mut two) = (on_terminal(&hosted).await, on_terminal(&hosted).await);
    allow(&mut hosted, &mut plain, "q1").await;
    for follower in [&mut one, &mut two] {
        snapshot(follower).await;
    }
    let second = notified(&mut plain).await;
    assert_eq!(notified(&mut one).await, second);
    assert_eq!(notified(&mut two).await, second);
    let who = [&plain, &one, &two].map(|follower| follower.shows(&second));
    assert_eq!(who, [false, false, true], "the one that came last");

    drop(two);
    let mut asking = hosted.follow(None).await;
    // The host notices the end of a connection before it is asked the next time.
    tokio::time::sleep(PAUSE * 20).await;
    allow(&mut hosted, &mut asking, "q2").await;
    let third = notified(&mut one).await;
    assert!(one.shows(&third), "{third:?}");
    drop(one);
    let mut asking = hosted.follow(None).await;
    tokio::time::sleep(PAUSE * 20).await;
    allow(&mut hosted, &mut asking, "q3").await;

    assert_eq!(notified(&mut plain).await, third);
    let end = notified(&mut plain).await;
    assert_eq!(end.follower, None);
    assert_eq!(end.reason, Reason::Ended { end: "completed".to_owned() });
    let last = until(&mut plain, |what| matches!(what, What::Ended(_))).await;
    assert!(matches!(last.what, What::Ended(_)), "the notification comes before the end");
    hosted.host.outcome().await;
}

#[tokio::test]
async fn a_run_that_the_user_stops_notifies_nobody() {
    let busy = "agents: {team-lead: [{delay_ms: 600000, text: Late.}]}";
    let hosted = Hosted::start(busy).await;
    let mut follower = on_terminal(&hosted).await;
    snapshot(&mut follower).await;
    assert!(stop_run(&hosted.team_elsewhere().await).await.unwrap());
    let ends = |what: &What| is_notification(what) || matches!(what, What::Ended(_));
    let last = in_time("the run ends", until(&mut follower, ends)).await;
    assert!(matches!(last.what, What::Ended(_)), "{last:?}");
    hosted.host.outcome().await;
}
