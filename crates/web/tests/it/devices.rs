//! Devices: how they are paired, what each scope opens, and how they are removed.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use pitcrew_web::{DeviceError, Scope};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, Client, Request};
use crate::server_env::ServerEnv;

/// The operations that a device may call although they are changes.
const ANSWERS: [&str; 4] = [
    "/api/teams/{team}/messages",
    "/api/teams/{team}/permissions/{request}",
    "/api/teams/{team}/plans/{request}",
    "/api/teams/{team}/questions/{id}/answer",
];

async fn try_code(env: &ServerEnv, code: &str) -> Answer {
    env.client.send(Request::new("POST", "/pair").json(&json!({"code": code})).bare()).await
}

/// Pairs a program.
async fn paired(env: &ServerEnv, name: &str, scope: Scope) -> Client {
    let invitation = env.devices().invite(Some(name.to_owned()), scope).await.unwrap();
    let answer = try_code(env, &invitation.code).await.of(201);
    assert_eq!((&answer["name"], &answer["scope"]), (&json!(name), &json!(scope.as_str())));
    Client::new(env.client.address, answer["token"].as_str().unwrap())
}

fn scope_of(operation: &Value) -> Scope {
    let name = operation["x-scope"].as_str().unwrap();
    Scope::ALL.into_iter().find(|scope| scope.as_str() == name).unwrap()
}

#[tokio::test]
async fn each_operation_has_one_scope_and_a_narrower_device_is_refused() {
    let env = ServerEnv::new().await;
    let mut devices = Vec::new();
    for scope in Scope::ALL {
        devices.push((scope, paired(&env, scope.as_str(), scope).await));
    }
    let document = env.client.get("/api/openapi.json").await.of(200);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let needed = scope_of(operation);
            let expected = match (method.as_str(), ANSWERS.contains(&path.as_str())) {
                ("get", _) => Scope::Watch,
                ("post", true) => Scope::Answer,
                _ => Scope::Everything,
            };
            assert_eq!(needed, expected, "{method} {path}");
            // No team has this name, so that nothing happens where the scope suffices.
            let real = path.replace(['{', '}'], "");
            for (scope, client) in &devices {
                let request = Request::new(&method.to_uppercase(), &real).json(&json!({}));
                let answer = client.send(request).await;
                assert_eq!(answer.status == 403, *scope < needed, "{scope:?}: {method} {path}");
                if answer.status == 403 {
                    let refused = answer.error(403, "forbidden");
                    assert_eq!(refused["details"]["needed_scope"], needed.as_str());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_device_that_watches_cannot_write_and_one_that_answers_can() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let body = json!({"to": "bob", "content": "hello"});
    let (path, task) = ("/api/teams/work/messages", "/api/teams/work/tasks");
    let watches = paired(&env, "tablet", Scope::Watch).await;
    watches.get("/api/teams/work").await.of(200);
    watches.post(path, &body).await.error(403, "forbidden");
    let answers = paired(&env, "phone", Scope::Answer).await;
    answers.post(path, &body).await.of(201);
    let new = json!({"subject": "parse", "description": "do it"});
    answers.post(task, &new).await.error(403, "forbidden");
    let saves = json!({"digest": "0", "choice": {"always": {"offer": {"rule": "Bash(ls:*)"}, "keep": "saved"}}});
    let refused = answers.post("/api/teams/work/questions/q1/answer", &saves).await;
    assert_eq!(refused.error(403, "forbidden")["details"]["needed_scope"], "everything");
    paired(&env, "desk", Scope::Everything).await.post(task, &new).await.of(201);
}

/// Opens an event stream, and returns it after the head of the answer.
async fn stream(client: &Client, path: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(client.address).await.unwrap();
    stream.write_all(&Request::new("GET", path).bytes(client)).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    (head.lines().next().unwrap().to_owned(), stream)
}

#[tokio::test]
async fn a_device_follows_a_team_eight_times_at_once() {
    let env = ServerEnv::new().await;
    env.team("work", &["bob"]).await;
    let path = "/api/teams/work/events";
    let phone = paired(&env, "phone", Scope::Watch).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        let (status, stream) = stream(&phone, path).await;
        assert_eq!(status, "HTTP/1.1 200 OK");
        open.push(stream);
    }
    let refused = phone.get(path).await;
    assert_eq!(refused.error(429, "rate_limit")["details"]["limit"], 8);
    assert!(refused.header("Retry-After").is_some());
    // The others have their own room.
    let tablet = paired(&env, "tablet", Scope::Watch).await;
    assert_eq!(stream(&tablet, path).await.0, "HTTP/1.1 200 OK");
    drop(open.pop());
    // The server learns of the end of a stream with a delay.
    while stream(&phone, path).await.0 != "HTTP/1.1 200 OK" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_code_works_once_and_ends_after_five_wrong_ones() {
    let env = ServerEnv::new().await;
    let devices = env.devices();
    let first = devices.invite(None, Scope::Watch).await.unwrap();
    assert_eq!(first.name, "device-1");
    let typed = first.code.replace('-', "").to_lowercase();
    try_code(&env, &typed).await.of(201);
    try_code(&env, &first.code).await.error(403, "forbidden");
    let second = devices.invite(None, Scope::Watch).await.unwrap();
    for _ in 0..5 {
        try_code(&env, "2222-2222").await.error(403, "forbidden");
    }
    try_code(&env, &second.code).await.error(403, "forbidden");
    // These were eight tries, and ten a minute are allowed.
    try_code(&env, "2222-2222").await.error(403, "forbidden");
    try_code(&env, "2222-2222").await.error(403, "forbidden");
    let refused = try_code(&env, &second.code).await;
    refused.error(429, "rate_limit");
    assert!(refused.header("Retry-After").unwrap().parse::<u64>().unwrap() <= 60);
}

#[tokio::test]
async fn a_removed_device_is_refused_and_others_are_not() {
    let mut env = ServerEnv::new().await;
    let phone = paired(&env, "phone", Scope::Watch).await;
    let other = paired(&env, "other", Scope::Watch).await;
    env.restart().await;
    let [phone, other] = [phone, other].map(|old| Client::new(env.client.address, &old.token));
    phone.get("/api/teams").await.of(200);
    let taken = env.devices().invite(Some("phone".to_owned()), Scope::Watch).await;
    assert!(matches!(taken, Err(DeviceError::Taken { .. })), "{taken:?}");
    env.devices().remove("phone").await.unwrap();
    phone.get("/api/teams").await.error(401, "unauthorized");
    other.get("/api/teams").await.of(200);
    let missing = env.devices().remove("phone").await;
    assert!(matches!(missing, Err(DeviceError::Unknown { names, .. }) if names == ["other"]));
}

#[tokio::test]
async fn the_file_of_devices_has_no_token_and_no_code() {
    let env = ServerEnv::new().await;
    let phone = paired(&env, "phone", Scope::Answer).await;
    let waits = env.devices().invite(None, Scope::Watch).await.unwrap();
    let file = env.devices().file();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("phone"), "{text}");
    for secret in [&phone.token, &waits.code, &waits.code.replace('-', "")] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&file, "{").unwrap();
    phone.get("/api/teams").await.error(500, "internal_error");
    env.client.get("/api/teams").await.of(200);
}

#[tokio::test]
async fn a_damaged_file_of_devices_is_told_without_its_path() {
    let env = ServerEnv::new().await;
    let phone = paired(&env, "phone", Scope::Watch).await;
    std::fs::write(env.devices().file(), "{\"dev").unwrap();
    let stranger = Client::new(env.client.address, "no token");
    for answer in
        [phone.get("/api/teams").await, stranger.get("/api/teams").await, try_code(&env, "A").await]
    {
        let told = answer.of(500).to_string();
        assert!(told.contains("internal_error") && !told.contains("devices.json"), "{told}");
    }
    env.client.get("/api/teams").await.of(200);
}

#[tokio::test]
async fn a_browser_is_paired_by_a_link_and_its_cookie_opens_no_change_of_another_site() {
    let mut env = ServerEnv::new().await;
    let invitation = env.devices().invite(None, Scope::Everything).await.unwrap();
    let path = format!("/pair/{}", invitation.code);
    let foreign = Request::new("GET", &path).bare().header("Host", "evil.example");
    env.client.send(foreign).await.error(403, "forbidden");
    let answer = env.client.send(Request::new("GET", &path).bare()).await;
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/")));
    let whole = answer.header("Set-Cookie").unwrap().to_owned();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(whole.contains(attribute), "{whole}");
    }
    let token = whole.split(';').next().unwrap().split_once('=').unwrap().1;
    // The device outlives the server, and its cookie has the port.
    env.restart().await;
    let port = env.client.address.port();
    let cookie = format!("pitcrew-device-{port}={token}");
    let with_cookie =
        |method: &str| Request::new(method, "/api/teams").bare().header("Cookie", &cookie);
    env.client.send(with_cookie("GET")).await.of(200);
    let change = with_cookie("POST").json(&json!({"team_name": "x"}));
    env.client.send(change.clone()).await.error(403, "forbidden");
    let own = change.header("Origin", &format!("http://127.0.0.1:{port}"));
    env.client.send(own).await.of(201);
}

#[tokio::test]
async fn each_caller_learns_what_it_may_do() {
    let env = ServerEnv::new().await;
    let session = env.client.get("/api/session").await.of(200);
    assert_eq!(session, json!({"caller": "token", "scope": "everything"}));
    for scope in Scope::ALL {
        let device = paired(&env, scope.as_str(), scope).await;
        let expected = json!({"caller": "device", "name": scope.as_str(), "scope": scope.as_str()});
        assert_eq!(device.get("/api/session").await.of(200), expected);
    }
}
