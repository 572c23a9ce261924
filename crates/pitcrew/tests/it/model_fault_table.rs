//! A test of runs with a faulty model service. The test runs the binary with every fault, once with
//! the Messages API and once with the chat completions API. It makes a table of the exit codes and
//! the messages of the runs.
//!
//! The table is in `docs/model-faults.md`. If `PITCREW_WRITE_DOCS=1` is set, the test writes the
//! table into this file. Otherwise the test compares the table with the file, except for the times.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::models_over_http::Heard;
use crate::service::{Raw, Reply, Service};
use crate::test_env::TestEnv;

/// The number of runs at the same time. A run spends most of its time waiting, so several runs at
/// the same time need less time.
const AT_ONCE: usize = 4;

/// The name of the fault for which the run tolerates only a short silence of the model.
const SILENT: &str = "a silent stream";

/// The maximum length of a message in the table, in characters.
const WORDS: usize = 160;

/// The model's answer without any fault.
const DONE: &str = "It is done.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Messages,
    Chat,
}

const FORMS: [Form; 2] = [Form::Messages, Form::Chat];

impl Form {
    fn title(self) -> &'static str {
        match self {
            Self::Messages => "Messages API",
            Self::Chat => "chat completions",
        }
    }

    /// Builds the body of an answer in this wire format: a text or tool calls, the reason why the
    /// model stopped, and token usage if `has_usage`.
    fn answer(
        self,
        text: &str,
        calls: &[(&str, Value)],
        stop: [&str; 2],
        has_usage: bool,
    ) -> String {
        let mut events = Vec::new();
        match self {
            Self::Messages => {
                let usage = if has_usage {
                    json!({"input_tokens": 10, "output_tokens": 1})
                } else {
                    Value::Null
                };
                let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "x", "content": []});
                let mut start = json!({"type": "message_start", "message": message});
                if has_usage {
                    start["message"]["usage"] = usage;
                }
                events.push(start);
                let text = (!text.is_empty()).then(|| {
                    (
                        json!({"type": "text", "text": ""}),
                        json!({"type": "text_delta", "text": text}),
                    )
                });
                let calls = calls.iter().enumerate().map(|(nth, (name, input))| {
                    let block = json!({"type": "tool_use", "id": format!("toolu_{nth}"), "name": name, "input": {}});
                    (block, json!({"type": "input_json_delta", "partial_json": input.to_string()}))
                });
                for (index, (block, delta)) in text.into_iter().chain(calls).enumerate() {
                    events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
                    events.push(
                        json!({"type": "content_block_delta", "index": index, "delta": delta}),
                    );
                    events.push(json!({"type": "content_block_stop", "index": index}));
                }
                let mut end = json!({"type": "message_delta", "delta": {"stop_reason": stop[0]}});
                if has_usage {
                    end["usage"] = json!({"output_tokens": 5});
                }
                events.push(end);
                events.push(json!({"type": "message_stop"}));
                let line = |event: &Value| {
                    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
                };
                events.iter().map(line).collect()
            }
            Self::Chat => {
                let chunk = |delta: Value, reason: Option<&str>| json!({"id": "c", "model": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
                events.push(chunk(json!({"role": "assistant", "content": text}), None));
                for (index, (name, input)) in calls.iter().enumerate() {
                    let function = json!({"name": name, "arguments": input.to_string()});
                    let call = json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function});
                    events.push(chunk(json!({"tool_calls": [call]}), None));
                }
                events.push(chunk(json!({}), Some(stop[1])));
                if has_usage {
                    events.push(
                        json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
                    );
                }
                let lines: String =
                    events.iter().map(|event| format!("data: {event}\n\n")).collect();
                lines + "data: [DONE]\n\n"
            }
        }
    }

    fn done(self) -> Reply {
        streamed(self.answer(DONE, &[], ["end_turn", "stop"], true))
    }

    fn refusal(
        self,
        status: u16,
        kind: &str,
        message: &str,
        retry_after: Option<&'static str>,
    ) -> Reply {
        let error = json!({"type": kind, "message": message});
        let body = match self {
            Self::Messages => json!({"type": "error", "error": error}),
            Self::Chat => json!({"error": error}),
        };
        Reply::Refuse(status, retry_after.map(|seconds| ("retry-after", seconds)), body)
    }

    /// Returns the reply of a model that makes these tool calls in its first answer, and says the
    /// text [`DONE`] in its second answer.
    fn calling(self, heard: &Heard, calls: &[(&str, Value)]) -> Reply {
        match heard.answers {
            0 => streamed(self.answer("", calls, ["tool_use", "tool_calls"], true)),
            _ => self.done(),
        }
    }
}

fn streamed(body: String) -> Reply {
    Reply::Raw(Raw { status: 200, content_type: "text/event-stream", body, stays_open: false })
}

/// A function that builds the reply of a faulty service to a request.
type Fault = fn(Form, &Heard) -> Reply;

/// The faults, each with its name.
const FAULTS: [(&str, Fault); 20] = [
    ("no fault", |form, _| form.done()),
    ("401", |form, _| form.refusal(401, "authentication_error", "invalid key", None)),
    ("403", |form, _| form.refusal(403, "permission_error", "not for you", None)),
    ("404", |form, _| form.refusal(404, "not_found_error", "no such model", None)),
    ("429, a second", |form, _| form.refusal(429, "rate_limit_error", "slow down", Some("1"))),
    ("429, an hour", |form, _| form.refusal(429, "rate_limit_error", "slow down", Some("3600"))),
    ("500", |form, _| form.refusal(500, "api_error", "something broke", None)),
    ("502 with a page", |_, _| {
        let body = "<html><body><h1>502 Bad Gateway</h1></body></html>".to_owned();
        Reply::Raw(Raw { status: 502, content_type: "text/html", body, stays_open: false })
    }),
    ("529", |form, _| form.refusal(529, "overloaded_error", "too many people", None)),
    ("a stream that is cut", |form, _| {
        let whole = form.answer("I am about to", &[], ["end_turn", "stop"], true);
        let half = whole.split_inclusive("\n\n").take(match form {
            Form::Messages => 3,
            Form::Chat => 1,
        });
        streamed(half.collect())
    }),
    (SILENT, |_, _| {
        Reply::Raw(Raw {
            status: 200,
            content_type: "text/event-stream",
            body: String::new(),
            stays_open: true,
        })
    }),
    ("refusal", |form, _| {
        streamed(form.answer("I can't", &[], ["refusal", "content_filter"], true))
    }),
    ("max_tokens", |form, _| {
        streamed(form.answer("And then", &[], ["max_tokens", "length"], true))
    }),
    ("an empty answer", |form, _| streamed(form.answer("", &[], ["end_turn", "stop"], true))),
    ("no JSON", |_, _| streamed("data: {no json\n\n".to_owned())),
    ("an unknown tool", |form, heard| form.calling(heard, &[("Frobnicate", json!({"x": 1}))])),
    ("200 calls at once", |form, heard| {
        let calls: Vec<(&str, Value)> = (0..200)
            .map(|nth| ("TaskCreate", json!({"subject": format!("t{nth}"), "description": "x"})))
            .collect();
        form.calling(heard, &calls)
    }),
    ("an input of 5 MB", |form, heard| {
        form.calling(
            heard,
            &[("Write", json!({"file_path": "big.txt", "content": "x".repeat(5_000_000)}))],
        )
    }),
    ("a prompt that is too long", |form, _| match form {
        Form::Messages => form.refusal(
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            None,
        ),
        Form::Chat => {
            let error = json!({"type": "invalid_request_error", "code": "context_length_exceeded", "message": "This model's maximum context length is 128000 tokens"});
            Reply::Refuse(400, None, json!({"error": error}))
        }
    }),
    ("no usage", |form, _| streamed(form.answer(DONE, &[], ["end_turn", "stop"], false))),
];

/// The outcome of one run, as one row of the table.
#[derive(Clone, Debug)]
struct Row {
    code: i32,
    words: String,
    first_word: Duration,
}

fn run(form: Form, name: &str, fault: Fault) -> Row {
    let service = Service::start(move |heard, _| fault(form, heard));
    let room = TestEnv::new();
    // Only the fault `SILENT` tests that the run gives up after a short silence of the model. For
    // other faults, the run tolerates a long silence, because a busy machine may answer slowly.
    let silence = if name == SILENT { 0.7 } else { 120.0 };
    let settings = json!({"pitcrew": {"modelPatience": 2, "modelSilence": silence}});
    std::fs::write(room.root().join("settings.json"), settings.to_string()).unwrap();
    let model = match form {
        Form::Messages => "anthropic/claude-opus-5-5",
        Form::Chat => "openai/gpt-6.1-sol",
    };
    let mut run =
        room.command(&["run", "do it", "--permission-mode", "acceptEdits", "--model", model]);
    run.env("ANTHROPIC_BASE_URL", service.url()).env("ANTHROPIC_API_KEY", "sk-test");
    run.env("OPENAI_BASE_URL", format!("{}/v1", service.url())).env("OPENAI_API_KEY", "sk-test");
    let started = Instant::now();
    let mut child =
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (mut first_word, mut error) = (None, None);
    for line in lines.map(Result::unwrap) {
        if first_word.is_none() && !line.contains(" starts on ") {
            first_word = Some(started.elapsed());
        }
        error = line.strip_prefix("error: ").map(str::to_owned).or(error);
    }
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let code = child.wait().unwrap().code().unwrap();
    let words = error.unwrap_or_else(|| said.trim().to_owned());
    let words = words.replace(service.url(), "http://127.0.0.1").replace('|', "/");
    // The exact time differs between machines, so the table always shows the same time.
    let words = match words.split_once(" sent nothing for ") {
        Some((said, _)) => format!("{said} sent nothing for 0.7 s"),
        None => words,
    };
    let words = match words.char_indices().nth(WORDS) {
        Some((at, _)) => format!("{}...", &words[..at]),
        None => words,
    };
    Row { code, words, first_word: first_word.unwrap_or_else(|| started.elapsed()) }
}

/// Makes all runs and returns the rows of the table, in the order of the faults. Each fault has two
/// rows, one for each API.
fn rows() -> Vec<[Row; 2]> {
    let jobs: Vec<(usize, Form)> =
        (0..FAULTS.len()).flat_map(|nth| FORMS.map(|form| (nth, form))).collect();
    let (next, done) = (Arc::new(Mutex::new(jobs.into_iter())), Arc::new(Mutex::new(Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((nth, form)) = next.lock().unwrap().next() else { return };
                    let row = run(form, FAULTS[nth].0, FAULTS[nth].1);
                    done.lock().unwrap().push((nth, form, row));
                }
            });
        }
    });
    let done = done.lock().unwrap();
    let row = |nth: usize, form: Form| {
        done.iter().find(|it| (it.0, it.1) == (nth, form)).unwrap().2.clone()
    };
    (0..FAULTS.len()).map(|nth| FORMS.map(|form| row(nth, form))).collect()
}

fn time(of: Duration) -> String {
    if of < Duration::from_secs(1) {
        "at once".to_owned()
    } else {
        format!("{} s", of.as_secs_f32().ceil())
    }
}

fn table(rows: &[[Row; 2]]) -> String {
    let mut table =
        "| fault | form | code | the last word | first word after |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for ((name, _), pair) in FAULTS.iter().zip(rows) {
        for (form, row) in FORMS.iter().zip(pair) {
            let Row { code, words, first_word } = row;
            let _ = writeln!(
                table,
                "| {name} | {} | {code} | {words} | {} |",
                form.title(),
                time(*first_word)
            );
        }
    }
    table
}

/// Returns the lines of a table without the last column, which contains the times.
fn without_times(table: &str) -> Vec<String> {
    let cut = |line: &str| line.rsplitn(3, '|').nth(2).unwrap_or(line).trim_end().to_owned();
    table.lines().map(cut).collect()
}

const HEAD: &str = "\
# What a run says when its model fails

Made by a test (`model_fault_table`), with a model's server that has each fault in each form of the wire, a patience of 2 s
(`pitcrew.modelPatience`) and 0.7 s of silence (`pitcrew.modelSilence`). The codes are those of [exit-codes.md](exit-codes.md). The times are
of one run on a busy machine: until the first line that says more than that the run has started.

";

#[test]
fn every_fault_of_a_model_ends_a_run_as_the_page_says() {
    let page: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model-faults.md");
    let made = table(&rows());
    if std::env::var_os("PITCREW_WRITE_DOCS").is_some() {
        std::fs::write(&page, format!("{HEAD}{made}")).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap();
    let written = written.strip_prefix(HEAD).expect("the page begins as the test writes it");
    assert_eq!(
        without_times(written),
        without_times(&made),
        "PITCREW_WRITE_DOCS=1 writes the page anew"
    );
}
