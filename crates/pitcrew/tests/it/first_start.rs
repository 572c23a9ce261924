//! The first start at a real terminal: nothing names a model, and pitcrew asks. A small server
//! takes the place of Ollama.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, Uri};
use futures_util::stream;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::models_over_http::{Say, as_chunks};
use crate::patience;
use crate::test_env::{Ran, TestEnv};

/// A server that answers as Ollama does, with two models.
struct Ollama {
    url: String,
    _runtime: tokio::runtime::Runtime,
}

async fn answer(uri: Uri, body: Bytes) -> Response<Body> {
    if uri.path() == "/api/tags" {
        let models = json!({"models": [{"name": "tiny:1b"}, {"name": "other:2b"}]});
        return Response::new(Body::from(models.to_string()));
    }
    let request: Value = serde_json::from_slice(&body).unwrap();
    let text = match request["model"].as_str() {
        Some("other:2b") => "I am the other model.",
        Some(_) | None => "I am not the chosen model.",
    };
    let pieces = as_chunks(&[Say::Text(text)], 1).into_iter().map(Ok::<_, Infallible>);
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(stream::iter(pieces)))
        .unwrap()
}

impl Ollama {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer);
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, _runtime: runtime }
    }
}

/// A terminal of a private tmux server in which `pitcrew run` starts.
struct Seat {
    room: TestEnv,
    socket: PathBuf,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _either = self.tmux_command(&["kill-server"]).output();
    }
}

impl Seat {
    /// Starts a run with these variables in the environment. If tmux is not installed, prints a
    /// message and returns `None`.
    fn starting(variables: &[(&str, &str)]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let room = TestEnv::new();
        let seat = Self { socket: room.temporary().join("tmux"), room };
        let own = env!("CARGO_BIN_EXE_pitcrew");
        let shell = format!("{own} run 'Say who you are.' > out; echo $? > code; exec sleep 1000");
        let size = ["new-session", "-d", "-s", "main", "-x", "120", "-y", "40", "sh", "-c"];
        let mut command = seat.tmux_command(&size);
        command.arg(&shell).envs(variables.iter().copied());
        assert!(command.status().unwrap().success());
        Some(seat)
    }

    fn tmux_command(&self, args: &[&str]) -> Command {
        let mut command = self.room.tool("tmux", &["-u", "-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(args).env("SHELL", "/bin/sh");
        command
    }

    fn screen(&self) -> String {
        let output =
            self.tmux_command(&["capture-pane", "-p", "-J", "-t", "main"]).output().unwrap();
        let screen = String::from_utf8(output.stdout).unwrap();
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    #[track_caller]
    fn asks(&self) -> String {
        self.shows("number, name, d or q>")
    }

    #[track_caller]
    fn shows(&self, text: &str) -> String {
        let look = || Some(self.screen()).filter(|screen| screen.contains(text));
        patience::until(text, look, || self.screen())
    }

    fn types(&self, line: &str) {
        for words in [["-l", line].as_slice(), ["Enter"].as_slice()] {
            let mut args = vec!["send-keys", "-t", "main"];
            args.extend(words);
            assert!(self.tmux_command(&args).status().unwrap().success());
        }
    }

    /// Waits for the end of the run, and returns its exit code and its answer.
    #[track_caller]
    fn ended(&self) -> (String, String) {
        let read = |file: &str| fs::read_to_string(self.room.work().join(file)).unwrap_or_default();
        let ended = || Some(read("code")).filter(|code| code.ends_with('\n'));
        let code = patience::until("the run has ended", ended, || self.screen());
        (code.trim().to_owned(), read("out").trim().to_owned())
    }

    fn settings(&self) -> Option<Value> {
        let text = fs::read_to_string(self.room.root().join("settings.json")).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }
}

#[test]
fn the_user_chooses_a_local_model_once_and_it_is_kept() {
    let ollama = Ollama::start();
    let variables = [("OLLAMA_HOST", ollama.url.as_str()), ("GEMINI_API_KEY", "not-shown-1234")];
    let Some(seat) = Seat::starting(&variables) else { return };
    let screen = seat.asks().replace(&ollama.url, "[url]");
    let shown: String = screen
        .lines()
        .filter(|line| !line.starts_with("  Claude Code"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_snapshot!(shown, @r"
    pitcrew needs a language model, and none is chosen yet. This is what it found:
      API keys     none of ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY is set
      Ollama       runs at [url], and has 2 models
    Which model shall the agents use?
      1  ollama/tiny:1b
      2  ollama/other:2b
      or type the name of a model, such as ollama/qwen3 or anthropic/NAME
      d  watch a demo, which needs no model
      q  leave
    number, name, d or q>
    ");
    seat.types("7");
    seat.shows("there is no such number");
    seat.types("opus");
    seat.shows("set ANTHROPIC_API_KEY in your shell");
    assert_eq!(seat.settings(), None, "nothing is kept before the choice");
    seat.types("2");
    assert_eq!(seat.ended(), ("0".to_owned(), "I am the other model.".to_owned()));
    assert_eq!(seat.settings(), Some(json!({"pitcrew": {"model": "ollama/other:2b"}})));

    // The next run asks nobody, also without a terminal.
    let mut again = seat.room.command(&["run", "Say it again."]);
    let ran = Ran::of(again.env("OLLAMA_HOST", &ollama.url).output().unwrap());
    assert_eq!((ran.code, ran.stdout.trim()), (0, "I am the other model."), "{ran:?}");
    assert!(!ran.stderr.contains("needs a language model"), "{ran:?}");
}

#[test]
fn a_user_who_leaves_gets_the_error_that_a_program_gets() {
    let nobody = [("OLLAMA_HOST", "http://127.0.0.1:1")];
    let Some(seat) = Seat::starting(&nobody) else { return };
    assert!(seat.asks().contains("does not run at http://127.0.0.1:1"));
    seat.types("sk-ant-secret");
    let screen = seat.shows("that names no model");
    assert_eq!(screen.matches("secret").count(), 1, "only the terminal itself shows it: {screen}");
    seat.types("q");
    let (code, _) = seat.ended();
    let screen = seat.shows("no model to use");
    assert_eq!(seat.settings(), None);

    let mut without_terminal = seat.room.command(&["run", "Say who you are."]);
    let ran = Ran::of(without_terminal.envs(nobody).output().unwrap());
    assert_eq!(ran.code.to_string(), code, "{ran:?}");
    let error = ran.stderr.lines().next().unwrap();
    assert!(screen.replace('\n', "").contains(error), "{error}\n{screen}");
}

#[test]
fn a_key_in_the_environment_needs_no_question() {
    let keys = [("ANTHROPIC_API_KEY", "sk-hidden"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")];
    let Some(seat) = Seat::starting(&keys) else { return };
    seat.shows("starts on anthropic/");
    let screen = seat.screen();
    assert!(
        !screen.contains("needs a language model") && !screen.contains("sk-hidden"),
        "{screen}"
    );
}

#[test]
fn the_demo_is_one_of_the_choices() {
    let nobody = [("OLLAMA_HOST", "http://127.0.0.1:1")];
    let Some(seat) = Seat::starting(&nobody) else { return };
    seat.asks();
    seat.types("d");
    let (code, shown) = seat.ended();
    assert_eq!(code, "0", "{shown}");
    assert!(shown.contains("scripted"), "{shown}");
    assert_eq!(seat.settings(), None);
}
