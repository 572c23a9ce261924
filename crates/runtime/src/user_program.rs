//! Runs a program that the user names in the settings, in its own process group. The program gets
//! data on stdin. It has a time limit, and its output is limited. Such programs are hooks and the
//! user's command for notifications.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use pitcrew_process::job::{Reaped, outlives_variable, owner_variable};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum number of output bytes that are kept. Further output is read and dropped. The program
/// therefore never blocks on a full pipe, and the use of memory stays limited.
const OUTPUT_LIMIT_BYTES: usize = 1024 * 1024;

/// Time to wait for more output after the program has ended. A grandchild may still hold the pipe
/// open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// The exit code and output of a program that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The exit code. `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why a program of the user gave no answer. The text continues a sentence that names the program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program was not started, or its end is not known.
    #[error("cannot be run: {0}")]
    Start(#[source] io::Error),
    /// The program reached its time limit.
    #[error("took longer than {} s and was killed", .0.as_secs_f64())]
    Deadline(Duration),
    /// The caller cancelled the program.
    #[error("was cancelled")]
    Cancelled,
    /// The program ended with an error.
    #[error("{how}")]
    Failed {
        /// How the program ended, with its error output.
        how: String,
    },
}

/// Runs a program and its arguments, with `input` on stdin, until it ends. No shell reads the
/// arguments. The program's output is ignored.
///
/// # Errors
/// If the program cannot be started, reaches the time limit, or ends with an error.
pub async fn tell(
    argv: &[String],
    input: &str,
    cwd: &Path,
    deadline: Duration,
) -> Result<(), ProgramError> {
    let Some((program, arguments)) = argv.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments);
    let finished = run(command, input, cwd, deadline, &CancellationToken::new()).await?;
    let end = match finished.code {
        Some(0) => return Ok(()),
        Some(code) => format!("failed with code {code}"),
        None => "was killed".to_owned(),
    };
    let said = finished.stderr.trim();
    let colon = if said.is_empty() { "" } else { ": " };
    Err(ProgramError::Failed { how: format!("{end}{colon}{said}") })
}

/// Runs a program until it ends. Kills the program with its whole process group in three cases: at
/// the time limit, on cancellation, or if the future is dropped.
pub(crate) async fn run(
    mut command: Command,
    payload: &str,
    cwd: &Path,
    deadline: Duration,
    cancel: &CancellationToken,
) -> Result<Finished, ProgramError> {
    let mut child = command
        .current_dir(cwd)
        .envs([owner_variable(), outlives_variable()])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(ProgramError::Start)?;
    // Write the program's input and read its output at the same time. Otherwise both sides could block
    // on full pipes.
    let feeding = feed(child.stdin.take(), payload);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Declare the group after the child, so that the group is dropped and killed before the child
    // is reaped. Until the child is reaped, no other process group can have the same number.
    let (id, mut child) = (child.id(), Reaped::new(child));
    let group = Group::of(id);
    let reading = async {
        tokio::join!(drain(out, &mut stdout), drain(err, &mut stderr), feeding);
    };
    let ending = async {
        tokio::pin!(reading);
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(ProgramError::Start)?;
                // The program has ended, but a grandchild may hold the pipes open. Wait only a limited
                // time for more output.
                let quiet = timeout(LAST_OUTPUT, &mut reading).await.is_ok();
                Ok((status, quiet))
            }
            () = &mut reading => Ok((child.wait().await.map_err(ProgramError::Start)?, true)),
        }
    };
    let ended = tokio::select! {
        ended = timeout(deadline, ending) => ended.unwrap_or(Err(ProgramError::Deadline(deadline))),
        () = cancel.cancelled() => Err(ProgramError::Cancelled),
    };
    let (status, quiet) = ended?;
    if quiet {
        // The program's process is reaped, and no process holds its pipes. Another process group may
        // soon have the same number, so never signal this number again.
        group.forget();
    }
    Ok(Finished {
        code: status.code(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

/// Writes the payload to the program's standard input. If the program ends early or does not read the
/// payload, this is not an error.
async fn feed(stdin: Option<ChildStdin>, payload: &str) {
    if let Some(mut stdin) = stdin
        && let Err(error) = async {
            stdin.write_all(payload.as_bytes()).await?;
            stdin.write_all(b"\n").await?;
            stdin.shutdown().await
        }
        .await
    {
        tracing::debug!(%error, "a program of the user did not read its input");
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else {
        return;
    };
    let mut buffer = [0; 8 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        // Continue reading after the limit, so that the program does not block on a full pipe.
        let room = OUTPUT_LIMIT_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(buffer.get(..read.min(room)).unwrap_or_default());
    }
}

/// The program's process group. Dropping it kills the group.
struct Group(Option<Pid>);

impl Group {
    fn of(id: Option<u32>) -> Self {
        Self(id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0
            && let Err(error) = kill_process_group(leader, Signal::KILL)
        {
            tracing::debug!(%error, "the process group of a program of the user was already gone");
        }
    }
}
