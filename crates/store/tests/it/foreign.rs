//! Tests with teams that were created by versions of the reference client. The files of these teams
//! keep the form in which that client wrote them.

use std::fs;
use std::sync::Arc;

use pitcrew_protocol::{AgentName, MessageId};
use pitcrew_store::{
    Appended, LeaseHolder, LeaseName, LeaseStore, LogName, MailStore, Past, RecordStore, TaskStore,
    TeamStore, UnreadLimit,
};

use crate::scene::{Scene, age, message, task, worker};

#[tokio::test]
async fn a_send_into_a_recorded_team_keeps_every_byte_that_was_there() {
    for (recording, team) in
        [("claude-2.1.39/in-process", "probe"), ("claude-2.1.329/session-team", "session-6132882e")]
    {
        let scene = Scene::recorded(recording, team);
        let before = fs::read_to_string(scene.inbox_path()).unwrap();
        let count = scene.backend.inbox(&scene.team, &worker()).await.unwrap().len();
        scene.send("m1").await;
        let after = fs::read_to_string(scene.inbox_path()).unwrap();
        let kept = before.trim_end().strip_suffix(']').unwrap().trim_end();
        assert!(after.starts_with(kept), "{after}");
        assert_eq!(scene.backend.inbox(&scene.team, &worker()).await.unwrap().len(), count + 1);
    }
}

#[tokio::test]
async fn a_session_gets_its_own_fields_in_its_own_order() {
    let scene = Scene::recorded("claude-2.1.329/session-team", "session-6132882e");
    scene.send("m1").await;
    let text = fs::read_to_string(scene.inbox_path()).unwrap();
    let ours = text.rsplit_once("  {").unwrap().1;
    let keys: Vec<&str> = ours
        .lines()
        .filter_map(|l| l.strip_prefix("    \"")?.split_once('"'))
        .map(|(k, _)| k)
        .collect();
    assert_eq!(keys, ["from", "text", "timestamp", "msgV", "msg_id", "type", "read", "metadata"]);
    assert_eq!(scene.ids().await.last().unwrap(), "m1");
}

#[tokio::test]
async fn marking_a_recorded_message_as_read_changes_its_mark_only() {
    let scene = Scene::recorded("claude-2.1.39/in-process", "probe");
    let unread = scene.read("teams/probe/inboxes/worker.json").replacen(
        "\"read\": true",
        "\"read\": false",
        2,
    );
    fs::write(scene.inbox_path(), &unread).unwrap();
    let first = scene.backend.inbox(&scene.team, &worker()).await.unwrap().remove(0).id;
    scene.backend.acknowledge(&scene.team, &worker(), &[first]).await.unwrap();
    let expected = unread.replacen("\"read\": false", "\"read\": true", 1);
    assert_eq!(scene.read("teams/probe/inboxes/worker.json"), expected);
}

#[tokio::test]
async fn half_a_surrogate_pair_is_read_and_kept() {
    let scene = Scene::new().await;
    let half = "[\n  {\"from\":\"x\",\"text\":\"cut \\ud83d\",\"timestamp\":\"t\"}\n]";
    fs::write(scene.inbox_path(), half).unwrap();
    scene.send("m1").await;
    let inbox = scene.backend.inbox(&scene.team, &worker()).await.unwrap();
    assert_eq!(inbox[0].message.text, "cut \u{FFFD}");
    scene.backend.acknowledge(&scene.team, &worker(), &[inbox[0].id.clone()]).await.unwrap();
    assert!(scene.read("teams/probe/inboxes/worker.json").contains("cut \\ud83d"));
}

#[tokio::test]
async fn an_edit_of_a_recorded_config_adds_what_it_adds() {
    let scene = Scene::recorded("claude-2.1.329/session-team", "session-6132882e");
    let path = "teams/session-6132882e/config.json";
    let before: serde_json::Value = serde_json::from_str(&scene.read(path)).unwrap();
    let edit = |c: &mut pitcrew_protocol::TeamConfig| {
        c.description = Some("ours".into());
        Ok(())
    };
    scene.backend.edit_team(&scene.team, Arc::new(edit)).await.unwrap();
    let mut after: serde_json::Value = serde_json::from_str(&scene.read(path)).unwrap();
    assert_eq!(after["description"], "ours");
    match before.get("description") {
        Some(description) => after["description"] = description.clone(),
        None => _ = after.as_object_mut().unwrap().shift_remove("description"),
    }
    assert_eq!(
        serde_json::to_string(&after).unwrap(),
        serde_json::to_string(&before).unwrap(),
        "order included"
    );
}

#[tokio::test]
async fn what_is_ours_is_made_in_a_team_that_has_none_of_it() {
    let scene = Scene::recorded("claude-2.1.39/in-process", "probe");
    let log = LogName::Transcript(AgentName::lead());
    scene.backend.append_log(&scene.team, &log, &["{}".to_owned()]).await.unwrap();
    let holder =
        LeaseHolder { pid: 1, start_ticks: 2, since_ms: 3, verify_key: None, prepares: false };
    assert!(scene.backend.take_lease(&scene.team, &LeaseName::Run, &holder).await.unwrap().is_ok());
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap().len(), 3);
    let other = AgentName::foreign("new one").inbox_file();
    fs::remove_dir_all(scene.path("teams/probe/inboxes")).unwrap();
    assert_eq!(
        scene.backend.append(&scene.team, &other, message("m1"), UnreadLimit::None).await.unwrap(),
        Appended::New
    );
    assert!(scene.path("teams/probe/inboxes/new-one.json").is_file());
}

#[tokio::test]
async fn stale_locks_of_other_programs_are_broken() {
    let scene = Scene::new().await;
    scene.send("m1").await;
    let lock = scene.path("teams/probe/inboxes/worker.json.lock");
    fs::create_dir(&lock).unwrap();
    age(&lock, 11);
    scene.send("m2").await;
    fs::write(&lock, "4711").unwrap();
    age(&lock, 11);
    scene.send("m3").await;
    let list = scene.path("tasks/probe/.lock.lock");
    fs::create_dir(&list).unwrap();
    age(&list, 11);
    scene.add_tasks(1).await;
    assert_eq!(scene.ids().await, ["m1", "m2", "m3"]);
    assert!(!lock.exists() && !list.exists());
}

#[tokio::test]
async fn a_file_among_the_tasks_that_is_no_task_keeps_its_id() {
    let scene = Scene::new().await;
    fs::write(scene.path("tasks/probe/7.json"), r#"{"id": "7", "status": "of a later version"}"#)
        .unwrap();
    scene.add_tasks(1).await;
    let ids: Vec<String> =
        scene.backend.tasks(&scene.team).await.unwrap().iter().map(|t| t.id.to_string()).collect();
    assert_eq!(ids, ["8"]);
}

#[tokio::test]
async fn a_changed_task_file_is_seen_at_once() {
    let scene = Scene::new().await;
    scene.add_tasks(2).await;
    for round in 0..20 {
        let subject = format!("round {round}");
        let changed = pitcrew_protocol::Task { subject: subject.clone(), ..task(2) };
        fs::write(scene.path("tasks/probe/2.json"), serde_json::to_vec(&changed).unwrap()).unwrap();
        assert_eq!(scene.backend.tasks(&scene.team).await.unwrap()[1].subject, subject);
    }
    fs::remove_file(scene.path("tasks/probe/1.json")).unwrap();
    assert_eq!(scene.backend.tasks(&scene.team).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_that_was_moved_to_the_archive_is_not_sent_again() {
    let scene = Scene::new().await;
    for n in 0..4 {
        scene.send(&format!("m{n}")).await;
    }
    let all: Vec<MessageId> = scene.ids().await.into_iter().map(MessageId).collect();
    scene.backend.acknowledge(&scene.team, &worker(), &all).await.unwrap();
    assert_eq!(scene.backend.trim_inbox(&scene.team, &worker(), 1).await.unwrap(), 3);
    assert_eq!(scene.read("teams/probe/pitcrew/read/worker.ndjson").lines().count(), 3);
    let again = scene
        .backend
        .append(&scene.team, &worker(), message("m0"), UnreadLimit::None)
        .await
        .unwrap();
    assert_eq!(again, Appended::AlreadyThere);
}

#[tokio::test]
async fn what_another_client_puts_into_a_full_inbox_stays_and_counts() {
    let scene = Scene::new().await;
    let path = scene.path("teams/probe/inboxes/worker.json");
    let theirs: Vec<String> =
        (0..5).map(|n| format!(r#"{{"from":"them","text":"t{n}","read":false}}"#)).collect();
    fs::write(&path, format!("[{}]", theirs.join(","))).unwrap();
    let send = |id: &'static str, limit| {
        let backend = scene.backend.clone();
        let team = scene.team.clone();
        async move { backend.append(&team, &worker(), message(id), limit).await }
    };
    assert_eq!(
        send("m0", UnreadLimit::OfAll(3)).await.unwrap(),
        Appended::Full { unread: 5, most: 3 }
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("[{}]", theirs.join(",")));
    assert_eq!(send("m1", UnreadLimit::None).await.unwrap(), Appended::New);
    let inbox = scene.backend.inbox(&scene.team, &worker()).await.unwrap();
    let texts: Vec<&str> = inbox.iter().map(|stored| stored.message.text.as_str()).collect();
    assert_eq!(texts, ["t0", "t1", "t2", "t3", "t4", "this is m1"]);
}

#[tokio::test]
async fn what_was_sent_to_a_client_that_we_started_is_known_after_the_client_took_it_out() {
    let scene = Scene::new().await;
    let add = |program: &'static str| {
        move |config: &mut pitcrew_protocol::TeamConfig| {
            let entry = serde_json::json!({"agentId": "worker@probe", "name": "worker", "pitcrew": {"program": program}});
            config.members.retain(|member| member.name.as_str() != "worker");
            config.members.push(serde_json::from_value(entry).unwrap());
            Ok(())
        }
    };
    scene.backend.edit_team(&scene.team, Arc::new(add("claude"))).await.unwrap();
    scene.send("m1").await;
    scene.send("m2").await;
    fs::write(scene.inbox_path(), "[]").unwrap();
    scene.send("m3").await;
    assert_eq!(scene.ids().await, ["m3"], "what the client took was put back");
    let past = scene.backend.past_mail(&scene.team, &worker(), Past::Lately).await.unwrap();
    let past: Vec<String> = past.into_iter().map(|past| past.id.0).collect();
    assert_eq!(past, ["m1", "m2", "m3"]);
}
