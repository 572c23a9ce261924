//! Tests of the telemetry of runs. Real runs send it to a real collector, or to one that is gone,
//! silent or lies.

mod collector;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use futures_util::stream;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;

use self::collector::{Collector, Received, text, whole};
use crate::detached::Detached;
use crate::models_over_http::model_server;
use crate::patience::{PATIENCE, until};
use crate::test_env::{Ran, TestEnv, journal_in};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A secret in the goal of a run.
const SECRET: &str = "sk-ant-api03-aB3dE5fG7hJ9kL1mN2pQ4rS6";

/// The script of a lead that calls a tool and says its last text.
const SHORT: &str = "
agents:
  team-lead:
    - tools: [{name: TaskCreate, input: {subject: Do it, description: All of it}}]
    - tools: [{name: TaskUpdate, input: {taskId: '1', status: completed}}]
    - text: It is done.
";

/// Runs the short script with these variables. Returns the result and the time that it took.
fn short_run(variables: &[(&str, &str)]) -> (Ran, Duration) {
    let room = TestEnv::new();
    let model = room.script(SHORT);
    let mut run = room.command(&["run", "do it", "--model", &model]);
    run.envs(variables.iter().copied());
    let began = Instant::now();
    let ran = Ran::of(run.output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is done.\n"), "{ran:?}");
    (ran, began.elapsed())
}

/// Runs `run` while the servers of the test answer.
async fn run_beside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_of_the_demo_is_a_span_with_a_parent() {
    let collector = Collector::open().await;
    let url = collector.url.clone();
    let (shown, journal) = run_beside(move || {
        let room = TestEnv::new();
        let mut demo = room.command(&["demo", "--dir", "demo", "--json"]);
        demo.env(ENDPOINT, &url).env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b");
        demo.env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a%20test");
        let ran = Ran::of(demo.output().unwrap());
        assert!(ran.code == 0 && !ran.stderr.contains("telemetry"), "{ran:?}");
        let archive = room.work().join("demo/root/pitcrew/archive");
        let archived = std::fs::read_dir(archive).unwrap().next().unwrap().unwrap().path();
        let journal = journal_in(&archived.join("team/pitcrew/journal.ndjson"));
        (serde_json::from_str::<Value>(&ran.stdout).unwrap(), journal)
    })
    .await;
    let received = collector.close();
    received.check_parents();
    assert!(received.all_have("x-team", "a b"));
    check_resource(&received);
    check_agents(&received);
    check_messages(&received, &shown, &journal);
    let turns = journal.iter().filter(|entry| entry["event"] == "turn_ended").count();
    assert_eq!(received.operation("chat").len(), turns);
    let completed = received.number("pitcrew.tasks", Some(("pitcrew.task.status", "completed")));
    assert_eq!(completed, shown["tasks_completed"].as_i64());
    assert!(!received.has_bytes("/demo/"), "a path was sent");
}

fn check_resource(received: &Received) {
    for resource in &received.resources {
        let of = |name| text(&resource.attributes, name).unwrap_or_default();
        assert_eq!(of("service.name"), "pitcrew");
        assert_eq!(of("service.version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(of("deployment.environment.name"), "a test");
    }
}

fn check_agents(received: &Received) {
    let [workflow] = received.operation("invoke_workflow")[..] else { panic!() };
    assert_eq!(workflow.name, "invoke_workflow demo");
    assert_eq!(text(&workflow.attributes, "pitcrew.run.end"), Some("success"));
    let agents = received.operation("invoke_agent");
    let mut names: Vec<&str> = agents.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    let expected = ["bob", "cleo", "team-lead", "wanda"].map(|name| format!("invoke_agent {name}"));
    assert_eq!(names, expected);
    for span in received.operation("execute_tool") {
        let of = |name| text(&span.attributes, name).unwrap();
        assert_eq!(span.name, format!("execute_tool {}", of("gen_ai.tool.name")));
        let agent = agents.iter().find(|agent| agent.span_id == span.parent_span_id).unwrap();
        assert_eq!(agent.name, format!("invoke_agent {}", of("gen_ai.agent.name")));
    }
    assert!(received.operation("execute_tool").len() > 20, "{:#?}", received.spans);
}

/// Checks that each message has a span from its sending, with its delivery, and one from there.
fn check_messages(received: &Received, shown: &Value, journal: &[Value]) {
    let of_kind = |kind: &str| journal.iter().filter(|entry| entry["event"] == kind).count();
    let (sent, processed) = (received.operation("send"), received.operation("process"));
    assert_eq!(sent.len(), of_kind("message_persisted"));
    assert_eq!(processed.len(), of_kind("message_injected"));
    assert!(processed.len() > 10, "{}", processed.len());
    for span in processed {
        let id = text(&span.attributes, "messaging.message.id").unwrap();
        let id_of = |it: &Span| text(&it.attributes, "messaging.message.id").map(str::to_owned);
        let sending = sent.iter().find(|it| id_of(it).as_deref() == Some(id)).unwrap();
        assert_eq!(span.links.len(), 1, "{span:#?}");
        assert_eq!(span.links[0].span_id, sending.span_id);
        let events: Vec<&str> = sending.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(events, ["persisted", "delivered"]);
        assert_eq!(sending.end_time_unix_nano, span.start_time_unix_nano);
    }
    let counted = |name| received.number(name, None).unwrap();
    assert_eq!(counted("pitcrew.messages.sent"), sent.len() as i64);
    assert_eq!(Some(counted("pitcrew.messages.delivered")), shown["messages"].as_i64());
}

/// Runs a lead and two teammates on a model over HTTP, with a secret in the goal. Returns the
/// result of the run and what the collector received.
async fn run_over_http(capture: &'static str) -> (Value, Received) {
    let collector = Collector::open().await;
    let (model, server) = model_server(&Arc::default()).await;
    let url = collector.url.clone();
    let ran = run_beside(move || {
        let room = TestEnv::new();
        for args in
            [&["init", "-q"][..], &["config", "user.name", "t"], &["config", "user.email", "t@t"]]
        {
            assert!(room.tool("git", args).status().unwrap().success());
        }
        let goal = format!("ROLE:lead have two files written with the key {SECRET}");
        let mut run =
            room.command(&["run", &goal, "--model", "anthropic/claude-opus-5-5", "--json"]);
        run.args(["--permission-mode", "acceptEdits", "--allow", "Bash(git add:*)"]);
        run.args(["--allow", "Bash(git commit:*)"]);
        run.env("ANTHROPIC_BASE_URL", &model).env("ANTHROPIC_API_KEY", "sk-test");
        run.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{url}/v1/traces"));
        run.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("{url}/v1/metrics"));
        run.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", capture);
        Ran::of(run.output().unwrap())
    });
    let ran = ran.await;
    server.abort();
    assert_eq!(ran.code, 0, "{ran:?}");
    (serde_json::from_str(&ran.stdout).unwrap(), collector.close())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_all_spans_are_the_usage_of_the_run_and_no_text_is_sent() {
    let (result, received) = run_over_http("false").await;
    received.check_parents();
    let chats = received.operation("chat");
    let sum = |name| chats.iter().map(|span| whole(&span.attributes, name).unwrap()).sum::<i64>();
    let (input, output) = (sum("gen_ai.usage.input_tokens"), sum("gen_ai.usage.output_tokens"));
    assert_eq!(Some(input), result["usage"]["input_tokens"].as_i64(), "{result:#}");
    assert_eq!(Some(output), result["usage"]["output_tokens"].as_i64(), "{result:#}");
    let tokens =
        |kind| received.histogram("gen_ai.client.token.usage", Some(("gen_ai.token.type", kind)));
    assert_eq!(tokens("input"), (chats.len() as u64, input as f64));
    assert_eq!(tokens("output"), (chats.len() as u64, output as f64));
    let (calls, seconds) = received.histogram("gen_ai.client.operation.duration", None);
    assert!(calls == chats.len() as u64 && seconds > 0.0, "{calls} {seconds}");
    for span in chats {
        let of = |name| text(&span.attributes, name).unwrap();
        assert_eq!(of("gen_ai.provider.name"), "anthropic");
        assert_eq!(of("gen_ai.request.model"), "claude-opus-5-5");
        assert_eq!(of("gen_ai.response.model"), "claude-opus-5-5");
    }
    for text in [SECRET, "Two files", "ann is done", "git commit", "ann.txt", "ROLE:"] {
        assert!(!received.has_bytes(text), "{text} was sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_sent_without_secrets_if_the_user_wants_them() {
    let (_, received) = run_over_http("true").await;
    assert!(!received.has_bytes(SECRET));
    for text in ["Two files, two teammates.", "ann is done", "git commit"] {
        assert!(received.has_bytes(text), "{text} was not sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_value_of_the_environment_is_in_no_text_that_is_sent() {
    const TOKEN: &str = "correct-horse-7battery-staple";
    let collector = Collector::open().await;
    let url = collector.url.clone();
    let ran = run_beside(move || {
        let room = TestEnv::new();
        let script = format!("agents: {{team-lead: [{{text: 'it is {TOKEN}.'}}]}}\n");
        let model = room.script(&script);
        let mut run = room.command(&["run", "do it", "--yes", "--model", &model]);
        run.env(ENDPOINT, url).env("DEPLOY_TOKEN", TOKEN);
        run.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
        Ran::of(run.output().unwrap())
    });
    let ran = ran.await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let received = collector.close();
    assert!(received.has_bytes("it is [masked: value of DEPLOY_TOKEN]."));
    assert!(!received.has_bytes(TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_variables_no_connection_is_opened() {
    let collector = Collector::open().await;
    let url = collector.url.clone();
    run_beside(move || {
        short_run(&[("OTEL_SERVICE_NAME", "x")]);
        short_run(&[(ENDPOINT, &url), ("OTEL_SDK_DISABLED", "true")]);
        let none = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
        short_run(&[(ENDPOINT, &url), none[0], none[1]]);
        let (ran, _) = short_run(&[(ENDPOINT, &url), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        let warning =
            "warning: telemetry is off: OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\"; use http/protobuf";
        assert!(ran.stderr.contains(warning), "{ran:?}");
        // Neither the user's settings nor those of a trusted repository name a collector.
        let room = TestEnv::new();
        let settings = serde_json::json!({"env": {ENDPOINT: url, "OTEL_TRACES_EXPORTER": "otlp"}});
        std::fs::create_dir(room.work().join(".claude")).unwrap();
        for file in [room.work().join(".claude/settings.json"), room.root().join("settings.json")] {
            std::fs::write(file, settings.to_string()).unwrap();
        }
        let model = room.script(SHORT);
        room.ok(&["run", "do it", "--model", &model, "--trust"]);
    })
    .await;
    assert_eq!(collector.close().requests(), 0);
}

#[test]
fn commands_of_agents_do_not_get_the_headers_for_the_collector() {
    let room = TestEnv::new();
    let script = "
agents:
  team-lead:
    - tools: [{name: Bash, input: {command: env > seen.txt}}]
    - text: It is done.
";
    let mut run = room.command(&["run", "do it", "--yes", "--model", &room.script(script)]);
    run.env("OTEL_SDK_DISABLED", "true").env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hidden");
    run.env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=hidden");
    let ran = Ran::of(run.output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let seen = std::fs::read_to_string(room.work().join("seen.txt")).unwrap();
    assert!(seen.contains("OTEL_SDK_DISABLED=true") && !seen.contains("hidden"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_or_silent_delays_no_run() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone_url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    run_beside(move || {
        // Without a limit of our own, each request would take longer than this test waits.
        let timeout = (PATIENCE * 2).as_millis().to_string();
        for (url, reason) in [(gone_url, "network error"), (silent_url, "did not answer in time")] {
            let (ran, took) = short_run(&[
                (ENDPOINT, &url),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", &timeout),
                ("OTEL_BSP_SCHEDULE_DELAY", "10"),
                ("OTEL_METRIC_EXPORT_INTERVAL", "10"),
            ]);
            assert!(took < PATIENCE, "{took:?}");
            for lost in ["spans did not reach", "the last metrics did not reach"] {
                assert!(ran.stderr.contains(lost) && ran.stderr.contains(&url), "{ran:?}");
            }
            assert!(ran.stderr.contains(reason), "{ran:?}");
        }
    })
    .await;
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_a_collector_refused_are_sent_again() {
    let collector = Collector::refusing(2).await;
    let url = collector.url.clone();
    run_beside(move || {
        let room = TestEnv::new();
        // The pauses leave time to send again before the run ends.
        let script = SHORT.replace("    - t", "    - delay_ms: 300\n      t");
        let mut run = room.command(&["run", "do it", "--model", &room.script(&script)]);
        run.env(ENDPOINT, &url).env("OTEL_BSP_SCHEDULE_DELAY", "10");
        let ran = Ran::of(run.output().unwrap());
        assert!(ran.code == 0 && !ran.stderr.contains("telemetry"), "{ran:?}");
    })
    .await;
    let received = collector.close();
    received.check_parents();
    assert_eq!(received.operation("chat").len(), 3);
    assert_eq!(received.operation("execute_tool").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_run_sends_its_telemetry_too() {
    let collector = Collector::open().await;
    let url = collector.url.clone();
    let room = run_beside(move || {
        let detached = Detached { room: TestEnv::new() };
        let model = detached.room.script(SHORT);
        let mut run = detached.room.command(&["run", "do it", "--detach", "--model", &model]);
        let ran = Ran::of(run.env(ENDPOINT, &url).output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        detached
    });
    let _killed_at_the_end = room.await;
    until("the span of the run", || collector.has("invoke_workflow").then_some(()), String::new);
    until("the metrics", || collector.has("pitcrew.tasks").then_some(()), String::new);
    collector.close().check_parents();
}

/// Starts a server that gives each request this answer. Returns its address and the number of
/// requests so far.
async fn liar(
    answer: impl Fn() -> Response<Body> + Clone + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let router = Router::new().fallback(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        let answer = answer();
        async move { answer }
    });
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, requests)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_lies_does_no_harm() {
    let endless = || {
        let piece = || Ok::<_, std::convert::Infallible>(vec![0xff_u8; 64 * 1024]);
        Response::new(Body::from_stream(stream::repeat_with(piece)))
    };
    let (endless, _) = liar(endless).await;
    let (garbage, _) = liar(|| Response::new(Body::from(vec![0xff; 100]))).await;
    let (refuses, _) = liar(|| {
        let body = Body::from("\u{1b}[2J your token is wrong");
        Response::builder().status(StatusCode::UNAUTHORIZED).body(body).unwrap()
    })
    .await;
    let (other_host, followed) = liar(|| Response::new(Body::empty())).await;
    let (redirects, _) = liar(move || {
        let to = format!("{other_host}/v1/traces");
        let builder = Response::builder().status(StatusCode::TEMPORARY_REDIRECT);
        builder.header("location", to).body(Body::empty()).unwrap()
    })
    .await;
    run_beside(move || {
        let (ran, _) = short_run(&[(ENDPOINT, &garbage)]);
        assert!(!ran.stderr.contains("telemetry"), "{ran:?}");
        for (url, reason) in [(&endless, "4 MiB"), (&refuses, "401"), (&redirects, "307")] {
            let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret");
            let (ran, _) = short_run(&[(ENDPOINT, url), headers]);
            assert!(ran.stderr.contains("spans did not reach"), "{ran:?}");
            assert!(ran.stderr.contains(reason) && !ran.stderr.contains("[2J"), "{ran:?}");
        }
    })
    .await;
    assert_eq!(followed.load(Ordering::SeqCst), 0, "the headers went to another host");
}
