//! Finds the installed version of the reference client, and whether pitcrew was tested with that
//! version.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pitcrew_process::job::{Job, Stream};
use pitcrew_protocol::RECORDED_VERSIONS;
use pitcrew_runtime::hosting::ClientRemark;
use tokio::process::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::output::printable;

/// `VERSION_TIME` is the time limit for running the reference client with `--version`. After that
/// time the client is stopped and has `GRACE` to end.
const VERSION_TIME: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(1);

/// The approximate number of bytes of the version output that are kept. The rest is dropped.
const VERSION_BYTES: usize = 1024;

/// Finds a program by its path, or by its name on the `PATH`.
pub(crate) fn find(context: &Context, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(context.cwd.join(program)).filter(|path| is_program(path));
    }
    let mut folders = std::env::split_paths(context.environment.get("PATH")?);
    // Relative entries of the `PATH` are skipped, because a relative entry can lead to a program in
    // the repository in which pitcrew runs.
    folders
        .by_ref()
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    Path::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Runs the client with `--version` and returns the version. Returns `None` if the client reports
/// no version.
pub(crate) async fn of(client: &Path) -> Option<String> {
    let mut said = Vec::new();
    let job = Job::spawn(Command::new(client).arg("--version")).ok()?;
    let sink = |stream: Stream, bytes: &[u8]| match stream {
        Stream::Stdout if said.len() < VERSION_BYTES => said.extend_from_slice(bytes),
        Stream::Stdout | Stream::Stderr => {}
    };
    let ended = job
        .run(Some(Instant::now() + VERSION_TIME), GRACE, &CancellationToken::new(), sink)
        .await
        .ok()?;
    let version = String::from_utf8_lossy(&said).split_whitespace().next()?.to_owned();
    // If the client failed, its output is not a version.
    (ended.ending.exit_code() == Some(0)).then_some(version)
}

/// Returns a function that pitcrew calls when it starts a teammate that the reference client runs.
/// The first call returns a remark about the client's version, unless pitcrew was tested with this
/// version. All later calls return `None`.
pub(crate) fn remark(client: PathBuf) -> ClientRemark {
    let was_asked = Arc::new(AtomicBool::new(false));
    Arc::new(move || {
        let (client, was_asked) = (client.clone(), was_asked.clone());
        Box::pin(async move {
            // The remark is made only once in a run, for the first teammate.
            if was_asked.swap(true, Ordering::Relaxed) {
                return None;
            }
            let version = of(&client).await;
            let is = match version.as_deref() {
                Some(version) if RECORDED_VERSIONS.contains(&version) => return None,
                Some(version) => format!("has version {}", printable(version)),
                None => "does not tell its version".to_owned(),
            };
            Some(format!(
                "{} {is}; tested are {}. `pitcrew doctor --reference` lists the unknown data that it writes",
                printable(&client.to_string_lossy()),
                RECORDED_VERSIONS.join(", ")
            ))
        })
    })
}
