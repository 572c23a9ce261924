//! Who may call the server, and how a browser gets in.

use serde_json::json;

use crate::client::{Answer, Request};
use crate::server_env::ServerEnv;

#[tokio::test]
async fn only_the_token_opens_the_api() {
    let env = ServerEnv::new().await;
    let client = &env.client;
    client.get("/api/teams").await.of(200);
    for path in ["/api/teams", "/api/openapi.json", "/api/teams/x/events", "/api/no/such/path"] {
        client.send(Request::new("GET", path).bare()).await.error(401, "unauthorized");
        let wrong = format!("Bearer {}", "0".repeat(64));
        let request = Request::new("GET", path).header("Authorization", &wrong);
        client.send(request).await.error(401, "unauthorized");
        // The token counts in the header only.
        let in_url = format!("{path}?token={}&access_token={0}", client.token);
        client.send(Request::new("GET", &in_url).bare()).await.error(401, "unauthorized");
    }
    // The name of the scheme has no case (RFC 9110).
    let lower = format!("bearer {}", client.token);
    client.send(Request::new("GET", "/api/teams").header("Authorization", &lower)).await.of(200);
    let basic = format!("Basic {}", client.token);
    let request = Request::new("GET", "/api/teams").header("Authorization", &basic);
    client.send(request).await.error(401, "unauthorized");
    let body = json!({"team_name": "x"});
    let request = Request::new("POST", "/api/teams").json(&body).bare();
    client.send(request).await.error(401, "unauthorized");
    assert!(env.teams.list().await.unwrap().is_empty());
    let health = client.send(Request::new("GET", "/api/health").bare()).await.of(200);
    assert_eq!(health["status"], "ok");
}

#[tokio::test]
async fn another_host_or_origin_is_refused() {
    let env = ServerEnv::new().await;
    let client = &env.client;
    let port = client.address.port();
    for host in
        ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example"]
    {
        for path in ["/api/teams", "/", "/api/health", "/open/x"] {
            let request = Request::new("GET", path).header("Host", host);
            client.send(request).await.error(403, "forbidden");
        }
    }
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let request = Request::new("GET", "/api/teams").header("Host", &format!("{host}:{port}"));
        client.send(request).await.of(200);
    }
    let request = Request::new("GET", "http://evil.example/api/teams");
    client.send(request).await.error(403, "forbidden");
    let request = Request::new("GET", &format!("http://127.0.0.1:{port}/api/teams"));
    client.send(request).await.of(200);
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"] {
        let request = Request::new("GET", "/api/teams").header("Origin", origin);
        client.send(request).await.error(403, "forbidden");
    }
    let own = format!("http://127.0.0.1:{port}");
    client.send(Request::new("GET", "/api/teams").header("Origin", &own)).await.of(200);
}

/// Opens the link of a server. Returns the answer and the cookie in it.
async fn opened(env: &ServerEnv) -> (Answer, Option<String>) {
    let path = env.link.split_once("/open/").unwrap().1;
    let answer = env.client.send(Request::new("GET", &format!("/open/{path}")).bare()).await;
    let cookie =
        answer.header("Set-Cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned());
    (answer, cookie)
}

#[tokio::test]
async fn a_link_opens_the_page_once() {
    let env = ServerEnv::new().await;
    let (answer, cookie) = opened(&env).await;
    assert_eq!((answer.status, answer.header("Location")), (303, Some("/")));
    let whole = answer.header("Set-Cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(whole.contains(attribute), "{whole}");
    }
    assert!(!whole.contains(&env.client.token));
    let (again, _) = opened(&env).await;
    again.error(403, "forbidden");
    let with_cookie = |method: &str, path: &str| {
        Request::new(method, path)
            .bare()
            .header("Cookie", &format!("a=b; {}", cookie.clone().unwrap()))
    };
    let client = &env.client;
    client.send(with_cookie("GET", "/api/teams")).await.of(200);
    // A form or a script of another site sends the cookie at most, and no origin of ours.
    let body = json!({"team_name": "x"});
    let change = with_cookie("POST", "/api/teams").json(&body);
    client.send(change.clone()).await.error(403, "forbidden");
    let foreign = change.clone().header("Origin", "http://evil.example");
    client.send(foreign).await.error(403, "forbidden");
    assert!(env.teams.list().await.unwrap().is_empty());
    let own = format!("http://127.0.0.1:{}", client.address.port());
    client.send(change.header("Origin", &own)).await.of(201);
}

#[tokio::test]
async fn a_browser_gets_a_page_for_a_link_that_opens_nothing() {
    let env = ServerEnv::new().await;
    let (_, cookie) = opened(&env).await;
    let browser = |path: &str| {
        Request::new("GET", path).bare().header("Accept", "text/html,application/xhtml+xml")
    };
    let nonce = env.link.split_once("/open/").unwrap().1;
    let used = format!("/open/{nonce}");
    for (path, words) in [(used.as_str(), "was opened before"), ("/pair/AAAA", "devices add")] {
        let page = env.client.send(browser(path)).await;
        assert_eq!(page.status, 403);
        assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"));
        assert!(page.header("Content-Security-Policy").unwrap().contains("default-src 'none'"));
        let text = page.text();
        assert!(text.contains(words) && text.ends_with("</html>\n"), "{text}");
        // A program gets the envelope as before.
        env.client.send(Request::new("GET", path).bare()).await.error(403, "forbidden");
        // A browser that has a valid cookie is sent on, and one with another cookie is not.
        let known = browser(path).header("Cookie", cookie.as_deref().unwrap());
        let sent_on = env.client.send(known).await;
        assert_eq!((sent_on.status, sent_on.header("Location")), (303, Some("/")));
        assert_eq!(sent_on.header("Set-Cookie"), None);
        let port = env.client.address.port();
        let unknown = browser(path).header("Cookie", &format!("pitcrew-device-{port}=wrong"));
        assert_eq!(env.client.send(unknown).await.status, 403);
    }
    // Errors of the API stay JSON.
    env.client.send(browser("/api/teams")).await.error(401, "unauthorized");
    env.client.send(browser("/nowhere")).await.error(404, "not_found");
}

#[tokio::test]
async fn a_head_request_opens_no_link() {
    let env = ServerEnv::new().await;
    let nonce = env.link.split_once("/open/").unwrap().1;
    let head = Request::new("HEAD", &format!("/open/{nonce}")).bare();
    assert_eq!(env.client.send(head).await.status, 405);
    let (answer, _) = opened(&env).await;
    assert_eq!(answer.status, 303);
}

#[tokio::test]
async fn a_header_that_decides_comes_once() {
    let env = ServerEnv::new().await;
    let client = &env.client;
    let port = client.address.port();
    for (name, one, other) in [
        ("Host", format!("127.0.0.1:{port}"), "evil.example".to_owned()),
        ("Origin", format!("http://127.0.0.1:{port}"), "http://evil.example".to_owned()),
        ("Authorization", format!("Bearer {}", client.token), "Bearer x".to_owned()),
        ("Idempotency-Key", "a".to_owned(), "b".to_owned()),
    ] {
        let request = Request::new("GET", "/api/teams").header(name, &one).header(name, &other);
        client.send(request).await.error(400, "invalid_request");
        client.send(Request::new("GET", "/api/teams").header(name, &one)).await.of(200);
    }
}

#[tokio::test]
async fn a_session_ends_with_its_server() {
    let mut env = ServerEnv::new().await;
    let (_, cookie) = opened(&env).await;
    let value = cookie.unwrap().split_once('=').unwrap().1.to_owned();
    env.restart().await;
    let cookie = format!("pitcrew-{}={value}", env.client.address.port());
    let request = Request::new("GET", "/api/teams").bare().header("Cookie", &cookie);
    env.client.send(request).await.error(401, "unauthorized");
}

#[tokio::test]
async fn every_answer_tells_the_browser_what_it_may_load() {
    let env = ServerEnv::new().await;
    for path in ["/", "/api/teams", "/api/teams/nobody", "/no/such/path", "/assets/nothing"] {
        let answer = env.client.get(path).await;
        let policy = answer.header("Content-Security-Policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}: {policy}");
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("Referrer-Policy"), Some("no-referrer"), "{path}");
        assert!(answer.header("Cache-Control").is_some(), "{path}");
        assert!(answer.header("Access-Control-Allow-Origin").is_none(), "{path}");
    }
}

#[tokio::test]
async fn the_page_needs_no_key_and_has_an_etag() {
    let env = ServerEnv::new().await;
    let page = env.client.send(Request::new("GET", "/").bare()).await;
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
    let tag = page.header("ETag").unwrap();
    let again = Request::new("GET", "/assets/index.html").header("If-None-Match", tag);
    let again = env.client.send(again).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}
