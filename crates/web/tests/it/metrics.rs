//! The metrics for operators.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use pitcrew_protocol::{AgentName, Limits, Rate};
use pitcrew_team::Team;
use pitcrew_team::store::{Event, JournalEntry, Turn};
use serde_json::json;

use crate::client::Request;
use crate::prometheus::Scrape;
use crate::server_env::ServerEnv;

/// A model name with all characters that need an escape, and one that controls a terminal.
const ODD_MODEL: &str = "a\"b\\c\nd\u{1b}";

async fn text(env: &ServerEnv) -> String {
    let answer = env.client.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(answer.header("Cache-Control"), Some("no-store"));
    answer.text()
}

async fn scrape(env: &ServerEnv) -> Scrape {
    Scrape::read(&text(env).await)
}

/// Scrapes until the teams have this form. A scrape can be a second old.
async fn until(env: &ServerEnv, is_so: impl Fn(&Scrape) -> bool) -> Scrape {
    let waiting = async {
        loop {
            let scrape = scrape(env).await;
            if is_so(&scrape) {
                return scrape;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap()
}

async fn record(team: &Team, event: Event) {
    let entry = JournalEntry { at_ms: team.teams().now_ms(), event };
    team.backend().record(team.dir(), &[entry]).await.unwrap();
}

fn turn(model: &str) -> Event {
    let turn = Turn::new(AgentName::new("bob").unwrap(), model);
    Event::TurnEnded(Turn {
        input_tokens: 100,
        cache_read_tokens: 30,
        cache_creation_tokens: 20,
        output_tokens: 7,
        tool_calls: 2,
        cost_usd: Some(0.25),
        ..turn
    })
}

#[tokio::test]
async fn a_scrape_has_tasks_mail_and_usage_of_each_team() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    for subject in ["parse", "test"] {
        let task = json!({"subject": subject, "description": "do it"});
        env.client.post("/api/teams/work/tasks", &task).await.of(201);
    }
    let path = "/api/teams/work/tasks/1";
    env.client.patch(path, &json!({"status": "completed"})).await.of(200);
    let message = json!({"to": "bob", "content": "hello"});
    env.client.post("/api/teams/work/messages", &message).await.of(201);
    for model in [ODD_MODEL, ODD_MODEL, "unpriced"] {
        record(&team, turn(model)).await;
    }
    let scrape = scrape(&env).await;
    let work = ("team", "work");
    assert_eq!(scrape.value("pitcrew_teams", &[("state", "stopped")]), 1.0);
    assert_eq!(scrape.value("pitcrew_teams", &[("state", "running")]), 0.0);
    assert_eq!(scrape.value("pitcrew_tasks", &[work, ("state", "completed")]), 1.0);
    assert_eq!(scrape.value("pitcrew_tasks", &[work, ("state", "pending")]), 1.0);
    assert_eq!(scrape.value("pitcrew_tasks", &[work, ("state", "in_progress")]), 0.0);
    assert_eq!(scrape.value("pitcrew_messages_total", &[work, ("state", "persisted")]), 1.0);
    assert_eq!(scrape.value("pitcrew_messages_total", &[work, ("state", "delivered")]), 0.0);
    assert_eq!(scrape.value("pitcrew_unread_messages", &[work]), 1.0);
    assert!(scrape.value("pitcrew_oldest_unread_message_seconds", &[work]) < 60.0);
    assert_eq!(scrape.value("pitcrew_open_questions", &[work]), 0.0);
    let model = ("model", "a\"b\\c\nd\u{fffd}");
    for (kind, count) in
        [("input", 100.0), ("cache_read", 60.0), ("cache_creation", 40.0), ("output", 14.0)]
    {
        assert_eq!(scrape.value("pitcrew_tokens_total", &[work, model, ("type", kind)]), count);
    }
    assert_eq!(scrape.value("pitcrew_cost_usd_total", &[work, model]), 0.5);
    assert_eq!(scrape.value("pitcrew_turns_total", &[work, model]), 2.0);
    assert_eq!(scrape.value("pitcrew_tool_calls_total", &[work, ("model", "unpriced")]), 2.0);
    // The states of agents are those of running teams.
    assert!(scrape.series("pitcrew_agents").is_empty());
}

#[tokio::test]
async fn the_greatest_numbers_of_a_journal_are_added_up_to_a_limit() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    for model in ["one", "other"] {
        let turn = Turn::new(AgentName::new("bob").unwrap(), model);
        let most = Turn { input_tokens: u64::MAX, output_tokens: u64::MAX, ..turn };
        record(&team, Event::TurnEnded(most)).await;
    }
    let bob = env.client.get("/api/teams/work/members/bob").await.of(200);
    assert_eq!(bob["usage"]["input_tokens"], json!(u64::MAX), "{bob}");
    let scrape = scrape(&env).await;
    let labels = [("team", "work"), ("model", "one"), ("type", "output")];
    assert_eq!(scrape.value("pitcrew_tokens_total", &labels), u64::MAX as f64);
}

#[tokio::test]
async fn a_journal_is_counted_once_and_its_new_entries_too() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &[]).await;
    let send = async |content: &str| {
        let message = json!({"to": "team-lead", "content": content});
        env.client.post("/api/teams/work/messages", &message).await.of(201);
    };
    let persisted = |scrape: &Scrape| {
        let labels = [("team", "work"), ("state", "persisted")];
        scrape.value("pitcrew_messages_total", &labels)
    };
    send("one").await;
    assert_eq!(persisted(&scrape(&env).await), 1.0);
    send("two").await;
    let two = until(&env, |scrape| persisted(scrape) != 1.0).await;
    assert_eq!(persisted(&two), 2.0);
    // Another team of the same name begins at 0.
    team.archive().await.unwrap().unwrap();
    env.team("work", &[]).await;
    let other = until(&env, |scrape| persisted(scrape) != 2.0).await;
    assert_eq!(persisted(&other), 0.0);
    assert_eq!(other.value("pitcrew_teams", &[("state", "archived")]), 1.0);
}

#[tokio::test]
async fn requests_are_counted_by_route_and_refused_ones_too() {
    let env = ServerEnv::new().await;
    env.team("work", &[]).await;
    for _ in 0..2 {
        env.client.get("/api/teams/work").await.of(200);
    }
    env.client.get("/api/teams/nobody").await.of(404);
    env.client.get("/api/teams/work/tasks").await.of(200);
    env.client.get("/api/a/path/of/the/callers/choice").await.of(404);
    env.client.send(Request::new("GET", "/metrics").bare()).await.error(401, "unauthorized");
    let wrong_host = Request::new("GET", "/api/health").header("Host", "evil.example");
    env.client.send(wrong_host).await.error(403, "forbidden");
    env.client.send(Request::new("BREW", "/api/teams")).await.of(405);
    let scrape = scrape(&env).await;
    for (path, method, status, count) in [
        ("/api/teams/{team}", "GET", "200", 2.0),
        ("/api/teams/{team}", "GET", "404", 1.0),
        ("/api/teams/{team}/tasks", "GET", "200", 1.0),
        ("none", "GET", "404", 1.0),
        ("/metrics", "GET", "401", 1.0),
        ("/api/health", "GET", "403", 1.0),
        ("/api/teams", "other", "405", 1.0),
    ] {
        let labels = [("path", path), ("method", method), ("status", status)];
        assert_eq!(scrape.value("pitcrew_http_requests_total", &labels), count, "{path}");
    }
    let labels = [("path", "/api/teams/{team}"), ("method", "GET")];
    assert_eq!(scrape.value("pitcrew_http_request_duration_seconds_count", &labels), 3.0);
}

#[tokio::test]
async fn the_number_of_series_is_bounded() {
    // Teams of other clients are not limited, so there can be more than the usual limit.
    let call_rate = Rate { count: 1_000_000, seconds: 60 };
    let env = ServerEnv::with(Limits { teams: 200, call_rate, ..Limits::default() }).await;
    for number in 0..105 {
        env.team(&format!("team-{number:03}"), &[]).await;
    }
    let broken = env.root().join("teams/team-000/config.json");
    std::fs::write(broken, "no json").unwrap();
    let scrape = scrape(&env).await;
    assert_eq!(scrape.value("pitcrew_teams", &[("state", "stopped")]), 104.0);
    assert_eq!(scrape.value("pitcrew_teams_unreadable", &[]), 1.0);
    assert_eq!(scrape.value("pitcrew_teams_left_out", &[]), 4.0);
    assert_eq!(scrape.series("pitcrew_unread_messages").len(), 100);
}

#[tokio::test]
async fn the_page_for_operators_lists_each_metric() {
    let env = ServerEnv::new().await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operators.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `pitcrew_"));
    let listed = rows.map(|row| format!("pitcrew_{}", row.split('`').next().unwrap())).collect();
    assert_eq!(scrape(&env).await.names(), listed);
}

#[tokio::test]
async fn promtool_accepts_a_scrape() {
    let env = ServerEnv::new().await;
    let team = env.team("work", &["bob"]).await;
    record(&team, turn(ODD_MODEL)).await;
    let text = text(&env).await;
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let Ok(mut child) = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        eprintln!("skipped: promtool is not installed");
        return;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = child.wait_with_output().unwrap();
    assert!(checked.status.success(), "{checked:?}\n{text}");
}
