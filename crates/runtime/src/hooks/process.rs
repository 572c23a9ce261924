//! Runs one hook with `sh -c` in its own process group. The hook has a time limit, and its output
//! is limited.

use std::collections::BTreeMap;
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

/// Maximum number of output bytes that are kept. Further output is read and dropped. The hook
/// therefore never blocks on a full pipe, and the use of memory stays limited.
const OUTPUT_LIMIT_BYTES: usize = 1024 * 1024;

/// Time to wait for more output after the hook has ended. A grandchild may still hold the pipe
/// open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// The exit code and output of a hook that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// The exit code. `None` if a signal ended the hook.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Why a hook gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("cannot be run: {0}")]
    Start(#[source] io::Error),
    #[error("took longer than {} s and was killed", .0.as_secs_f64())]
    Deadline(Duration),
    #[error("was cancelled")]
    Cancelled,
}

/// Runs a hook until it ends. Kills the hook with its whole process group in three cases: at the
/// time limit, on cancellation, or if the future is dropped.
pub(super) async fn run(
    command: &str,
    payload: &str,
    cwd: &Path,
    env: &BTreeMap<String, String>,
    deadline: Duration,
    cancel: &CancellationToken,
) -> Result<Finished, RunError> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(cwd)
        .envs(env)
        .env("CLAUDE_PROJECT_DIR", cwd)
        .envs([owner_variable(), outlives_variable()])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(RunError::Start)?;
    // Write the hook's input and read its output at the same time. Otherwise both sides could block
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
                let status = status.map_err(RunError::Start)?;
                // The hook has ended, but a grandchild may hold the pipes open. Wait only a limited
                // time for more output.
                let quiet = timeout(LAST_OUTPUT, &mut reading).await.is_ok();
                Ok((status, quiet))
            }
            () = &mut reading => Ok((child.wait().await.map_err(RunError::Start)?, true)),
        }
    };
    let ended = tokio::select! {
        ended = timeout(deadline, ending) => ended.unwrap_or(Err(RunError::Deadline(deadline))),
        () = cancel.cancelled() => Err(RunError::Cancelled),
    };
    let (status, quiet) = ended?;
    if quiet {
        // The hook's process is reaped, and no process holds its pipes. Another process group may
        // soon have the same number, so never signal this number again.
        group.forget();
    }
    Ok(Finished {
        code: status.code(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

/// Writes the payload to the hook's standard input. If the hook ends early or does not read the
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
        tracing::debug!(%error, "a hook did not read its input");
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else {
        return;
    };
    let mut buffer = [0; 8 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        // Continue reading after the limit, so that the hook does not block on a full pipe.
        let room = OUTPUT_LIMIT_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(buffer.get(..read.min(room)).unwrap_or_default());
    }
}

/// The hook's process group. Dropping it kills the group.
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
            tracing::debug!(%error, "a hook's process group was already gone");
        }
    }
}
