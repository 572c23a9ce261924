//! Bash: runs a shell command.
//!
//! Every command starts in the working folder of the tool context, with the context's variables. A
//! `cd` or an `export` has no effect on later commands. The permission gate decides whether a
//! command is allowed to run.

use std::io;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use pitcrew_process::job::{Ending, Job, Stream};
use pitcrew_process::sandbox::{Appeared, Profile, Sandbox};
use pitcrew_protocol::tool_name;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::input::{count, parse};
use super::output::{HeadTail, share};
use super::{Tool, ToolContext, ToolOutcome};

/// The tool that runs a command in a shell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bash;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    command: String,
    #[serde(default, deserialize_with = "count")]
    timeout: Option<usize>,
    #[serde(default)]
    run_in_background: bool,
    #[serde(default, rename = "dangerouslyDisableSandbox")]
    unconfined: bool,
}

impl Input {
    /// Returns the sandbox for the command. If the call asks to run without a sandbox and the user
    /// allows this, the returned sandbox has no limits.
    fn sandbox(&self, context: &ToolContext) -> Sandbox {
        if self.unconfined && context.may_unconfine {
            Sandbox::default()
        } else {
            context.sandbox.clone()
        }
    }
}

#[async_trait]
impl Tool for Bash {
    fn name(&self) -> &str {
        tool_name::BASH
    }

    fn description(&self) -> &str {
        "Runs a command with bash in the working folder and shows what it wrote. Each command starts afresh: \
         a `cd` or `export` does not carry over, so use absolute paths or `cd DIR && ...` in one command. \
         There is no terminal and no input. `timeout` is in milliseconds, 120000 unless given and 600000 at \
         most; when it passes, the command and everything it started is stopped. Long output is cut in the \
         middle. With `run_in_background` the command goes on while you work: its output goes to a file that \
         you can Read, and TaskStop ends it; do not use `&` for that. Prefer Read, Edit, Write, Glob and Grep \
         over cat, sed, echo, find and grep."
    }

    async fn call(&self, input: Value, context: &ToolContext) -> ToolOutcome {
        let input = match parse::<Input>(self, input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        if context.cancel.is_cancelled() {
            return ToolOutcome::interrupted();
        }
        if input.run_in_background {
            return start(&input, context);
        }
        match run(&input, context).await {
            Ok(outcome) => outcome,
            Err(problem) => ToolOutcome::failed(format!("the command could not be run: {problem}")),
        }
    }
}

/// The shell for all commands: bash, otherwise sh. The first use tests which of them is available.
static SHELL: LazyLock<&str> = LazyLock::new(|| {
    let mut command = Command::new("bash");
    let tried = command
        .args(["-c", ":"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if tried.is_ok() { "bash" } else { "sh" }
});

/// Starts a command in the shell.
///
/// # Errors
/// The system's error when the command cannot be started.
pub(super) fn spawn_shell(
    command: &str,
    sandbox: &Sandbox,
    context: &ToolContext,
) -> io::Result<Job> {
    // If the working folder does not exist, the error of the operating system looks as if the shell
    // were missing. Return a clear error instead.
    if !context.cwd.is_dir() {
        let words = format!("the working folder {} does not exist", context.cwd.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, words));
    }
    let grant = match context.profile {
        Profile::Free => context.gate.grant_freely(&context.cwd, command),
        Profile::Read | Profile::Work => context.gate.grant(&context.cwd),
    };
    sandbox.start(context.profile, &grant, *SHELL, |shell| {
        let variables = context.env.iter().map(|(name, value)| (name, value));
        shell.arg("-c").arg(command).envs(variables);
    })
}

fn start(input: &Input, context: &ToolContext) -> ToolOutcome {
    match context.shells.start(&input.command, &input.sandbox(context), context) {
        Ok(shell) => {
            let text = format!(
                "Running in the background with id {}. Its output is being written to {}; \
                 read that file to follow it. Stop it with TaskStop.",
                shell.id,
                shell.output.display()
            );
            let mut data = output_data("", "", false);
            if let Value::Object(fields) = &mut data {
                fields.insert("backgroundTaskId".to_owned(), json!(shell.id.as_str()));
            }
            ToolOutcome::done(text, data)
        }
        Err(problem) => ToolOutcome::failed(problem.to_string()),
    }
}

async fn run(input: &Input, context: &ToolContext) -> io::Result<ToolOutcome> {
    let limits = &context.limits;
    let time = input.timeout.map_or(limits.command_time, |milliseconds| {
        let asked = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX));
        asked.min(limits.command_time_most)
    });
    let sandbox = input.sandbox(context);
    let job = spawn_shell(&input.command, &sandbox, context)?;
    let mut stdout = HeadTail::for_chars(limits.output_chars);
    let mut stderr = HeadTail::for_chars(limits.output_chars);
    let deadline = Some(Instant::now() + time);
    let ended = job
        .run(deadline, limits.stop_grace, &context.cancel, |stream, bytes| match stream {
            Stream::Stdout => stdout.push(bytes),
            Stream::Stderr => stderr.push(bytes),
        })
        .await?;
    let (stdout, stderr) = (stdout.finish(), stderr.finish());
    // stdout and stderr share one limit. A long stdout does not hide a short stderr.
    let (stdout_most, stderr_most) = share(limits.output_chars, &stdout, &stderr);
    let mut written =
        Written { stdout: stdout.shown(stdout_most), stderr: stderr.shown(stderr_most) };
    let left = context.shells.look_after(&input.command, ended.left_behind.as_ref()).await;
    if let Some(group) = ended.left_behind {
        context.shells.adopt(group);
        written.stderr.push_str(
            "\n[processes this command started are still running; they end with this agent]",
        );
    }
    if let Some(left) = left {
        written.stderr.push_str(&format!("\n[{left}]"));
    }
    // The command has possibly created files that grant permissions or run automatically. Move such
    // files aside before the next step of the agent.
    let Appeared { aside, left } = sandbox.take_appeared();
    if !aside.is_empty() {
        let words = format!(
            "[commands cannot make what decides rights or runs by itself; it was put out of the way: {}]",
            aside.join("; ")
        );
        written.stderr = join(&[&written.stderr, &words]);
    }
    if let Some(locks) = sandbox.note_of_locks(context.profile, &context.cwd) {
        written.stderr = join(&[&written.stderr, &locks]);
    }
    let note = |text: &&String| sandbox.note(context.profile, &context.cwd, text);
    let notes = [&written.stderr, &written.stdout].iter().find_map(note);
    if let Some(note) = notes {
        written.stderr = join(&[&written.stderr, &note]);
    }
    let outcome = outcome(&ended.ending, &written, time);
    Ok(if left.is_empty() { outcome } else { with_left(outcome, &left) })
}

/// Turns the outcome into an error that names the files in `left`. The command created these files,
/// and they could not be moved aside. They grant permissions or run automatically.
fn with_left(outcome: ToolOutcome, left: &[String]) -> ToolOutcome {
    let words = format!(
        "The command made what decides rights or runs by itself, and it could not be put aside; nobody may work there until \
         it is removed: {}",
        left.join("; ")
    );
    ToolOutcome { text: join(&[&words, &outcome.text]), is_error: true, ..outcome }
}

/// The output of a command, shortened for the model.
struct Written {
    stdout: String,
    stderr: String,
}

fn outcome(ending: &Ending, written: &Written, time: Duration) -> ToolOutcome {
    let Written { stdout, stderr } = written;
    let stopped = match ending {
        Ending::Exited(status) if status.success() => {
            let text = match join(&[stdout.trim_end(), stderr.trim_end()]) {
                text if text.is_empty() => "The command succeeded without output.".to_owned(),
                text => text,
            };
            return ToolOutcome::done(
                text,
                output_data(stdout.trim_end(), stderr.trim_end(), false),
            );
        }
        Ending::Exited(_) => {
            let code = ending.exit_code().unwrap_or(-1);
            return ToolOutcome::failed(join(&[
                &format!("Exit code {code}"),
                stderr,
                stdout.trim_end(),
            ]));
        }
        Ending::DeadlinePassed => format!(
            "The command was stopped after {} ms, its timeout, with everything it had started.",
            time.as_millis()
        ),
        Ending::Cancelled => {
            "The command was interrupted and stopped with everything it had started.".to_owned()
        }
    };
    ToolOutcome {
        text: join(&[&stopped, stdout.trim_end(), stderr.trim_end()]),
        data: output_data(stdout, stderr, true),
        is_error: true,
    }
}

fn join(parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Returns the data of the tool's result, in the form recorded in
/// `fixtures/claude-2.1.39/stream-json/team-lifecycle.ndjson`.
fn output_data(stdout: &str, stderr: &str, interrupted: bool) -> Value {
    json!({
        "stdout": stdout,
        "stderr": stderr,
        "interrupted": interrupted,
        "isImage": false,
        "noOutputExpected": false,
    })
}
