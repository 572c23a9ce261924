//! Tests mail that a client took but its model never read, and the conversation to which the mail
//! belongs.

use pitcrew_protocol::{MessageId, Program};
use pitcrew_team::{Actor, DeliveryState, Mail, SpawnMember};

use crate::team_env::{Crew, as_member, member, message, name};

/// Creates a team with a teammate that another client runs, and a message from `worker` that this
/// client has taken.
async fn taken(text: &str) -> (Crew, Mail) {
    let crew = Crew::new().await;
    crew.team.spawn(SpawnMember { program: Program::Claude, ..member("client") }).await.unwrap();
    crew.send(&as_member("worker"), message("client", text)).await;
    let mail = crew.unread("client").await.remove(0);
    crew.team.acknowledge(&name("client"), std::slice::from_ref(&mail.id)).await.unwrap();
    (crew, mail)
}

async fn state(crew: &Crew, id: &MessageId) -> DeliveryState {
    crew.teams.message(id).await.unwrap().state
}

#[tokio::test]
async fn what_is_delivered_again_is_delivered_once_and_the_first_sending_is_dead() {
    let (crew, mail) = taken("look at it").await;
    let client = name("client");
    let again = crew.team.deliver_again(&client, &mail, Some("(again)")).await.unwrap().unwrap();
    assert!(crew.team.deliver_again(&client, &mail, Some("(again)")).await.unwrap().is_none());
    let unread = crew.unread("client").await;
    let told: Vec<_> = unread
        .iter()
        .map(|it| (&it.id, it.message.from.as_str(), it.message.text.as_str()))
        .collect();
    assert_eq!(told, [(&again.id, "worker", "(again)\nlook at it")]);
    assert_eq!(state(&crew, &mail.id).await, DeliveryState::Dead);
    let dead = crew.teams.message(&mail.id).await.unwrap().dead.unwrap();
    assert_eq!(dead.reason, format!("sent again as {}", again.id));
    // The client also takes the message that was sent again, and the model does not read that
    // message either. Sending it once more creates a third message.
    crew.team.acknowledge(&client, std::slice::from_ref(&again.id)).await.unwrap();
    assert!(crew.team.deliver_again(&client, &unread[0], None).await.unwrap().is_some());
}

#[tokio::test]
async fn mail_that_nobody_has_taken_yet_goes_behind_what_is_delivered_again() {
    let (crew, mail) = taken("first").await;
    crew.send(&Actor::Lead, message("client", "second")).await;
    let waiting = crew.unread("client").await.remove(0);
    for mail in [&mail, &waiting] {
        crew.team.deliver_again(&name("client"), mail, None).await.unwrap();
    }
    let texts: Vec<String> =
        crew.unread("client").await.into_iter().map(|it| it.message.text).collect();
    assert_eq!(texts, ["first", "second"]);
}

#[tokio::test]
async fn the_sender_of_what_was_never_read_is_told_once() {
    let (crew, mail) = taken("look at it").await;
    for _ in 0..2 {
        crew.team.never_read(&name("client"), &mail).await.unwrap();
    }
    assert_eq!(state(&crew, &mail.id).await, DeliveryState::Dead);
    let told: Vec<String> =
        crew.unread("worker").await.into_iter().map(|it| it.message.text).collect();
    assert_eq!(
        told,
        [format!(
            "Your message {} to client was not delivered: client ended before it read it.",
            mail.id
        )]
    );
}

#[tokio::test]
async fn a_conversation_is_for_what_nobody_had_taken_when_it_began_and_knows_what_was_brought() {
    let (crew, mail) = taken("for the one before").await;
    let client = name("client");
    crew.wait_ms(10);
    crew.send(&Actor::Lead, message("client", "waits")).await;
    let waits_since = pitcrew_team::sent_at_ms(&crew.unread("client").await[0]);
    crew.wait_ms(10);
    let id = crew.team.begin_client_conversation(&client).await.unwrap();
    crew.team.bring_by_socket(&client, &id, &mail.id).await.unwrap();
    let known = crew.team.client_conversation(&client).await.unwrap().unwrap();
    assert_eq!((known.since_ms, &known.brought), (waits_since, &vec![mail.id.clone()]));
    crew.team.arrived(&client, std::slice::from_ref(&mail.id)).await.unwrap();
    assert!(crew.team.client_conversation(&client).await.unwrap().unwrap().brought.is_empty());
    let second = crew.team.begin_client_conversation(&client).await.unwrap();
    assert_ne!(id, second);
    // If a session of another client leads the team, the lead's client chooses the conversation and
    // its id. pitcrew must therefore record the given id `session`, although it did not start this
    // conversation.
    crew.team.bring_by_socket(&name("team-lead"), "session", &mail.id).await.unwrap();
    assert_eq!(
        crew.team.client_conversation(&name("team-lead")).await.unwrap().unwrap().id,
        "session"
    );
}

#[tokio::test]
async fn what_a_client_had_taken_is_told_as_taken_after_its_end_and_in_the_archive() {
    let crew = Crew::new().await;
    crew.team.spawn(SpawnMember { program: Program::Claude, ..member("client") }).await.unwrap();
    let mut ids = Vec::new();
    for text in ["never read", "lost", "read", "waits"] {
        crew.send(&as_member("worker"), message("client", text)).await;
        ids.push(crew.unread("client").await.last().unwrap().id.clone());
    }
    // The client marks the messages that it takes as read, but does not inform pitcrew.
    let client = name("client");
    crew.team
        .backend()
        .acknowledge(crew.team.dir(), &client.inbox_file(), &ids[..3])
        .await
        .unwrap();
    let taken = crew.team.known_mail(&client).await.unwrap();
    assert!(crew.team.never_read(&client, &taken[0]).await.unwrap());
    assert!(!crew.team.never_read(&client, &taken[0]).await.unwrap(), "it is no news");
    let again = crew.team.deliver_again(&client, &taken[1], None).await.unwrap().unwrap().id;
    assert!(!crew.team.never_read(&client, &taken[1]).await.unwrap(), "it was sent again");
    crew.team
        .backend()
        .acknowledge(crew.team.dir(), &client.inbox_file(), std::slice::from_ref(&again))
        .await
        .unwrap();
    crew.team.remove_member(&Actor::Lead, &client).await.unwrap();
    ids.push(again);
    let expected = [
        DeliveryState::Dead,
        DeliveryState::Dead,
        DeliveryState::Acknowledged,
        DeliveryState::Dead,
        DeliveryState::Acknowledged,
    ];
    for is_archived in [false, true] {
        if is_archived {
            for other in crew
                .team
                .config()
                .await
                .unwrap()
                .teammates()
                .map(|it| it.name.clone())
                .collect::<Vec<_>>()
            {
                crew.team.remove_member(&Actor::Lead, &other).await.unwrap();
            }
            crew.team.archive().await.unwrap().unwrap();
        }
        for (id, expected) in ids.iter().zip(expected) {
            assert_eq!(state(&crew, id).await, expected, "{id}, in the archive: {is_archived}");
        }
    }
}
