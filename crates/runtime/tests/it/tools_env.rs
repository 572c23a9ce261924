//! The test environment for tools: a folder, and the context in which an agent calls its tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pitcrew_process::sandbox::{Profile, Sandbox};
use pitcrew_protocol::PermissionMode;
use pitcrew_tools::{
    PathLocks, ReadLog, Shells, ToolContext, ToolLimits, ToolOutcome, Toolbox, plain_tools,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::patience::{in_time, until};

/// A temporary folder and one agent that works in it.
pub(crate) struct TestEnv {
    folder: TempDir,
    tools: Toolbox,
    pub(crate) context: ToolContext,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let cwd = root.join("project");
        fs::create_dir(&cwd).unwrap();
        let context = ToolContext {
            cwd,
            // If the environment names a locale that the machine does not have, a shell prints a
            // warning. `C.UTF-8` avoids the warning.
            env: [("LC_ALL", "C.UTF-8"), ("GIT_CONFIG_GLOBAL", "/dev/null")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            call: "toolu_1".to_owned(),
            judged: None,
            cancel: CancellationToken::new(),
            gate: Arc::default(),
            sandbox: Sandbox::default(),
            mode: PermissionMode::default(),
            profile: Profile::Free,
            may_unconfine: false,
            reads: ReadLog::new(PathLocks::new()),
            shells: Shells::new(root.join("shells")),
            limits: ToolLimits::default(),
        };
        Self { folder, tools: Toolbox::new(plain_tools()), context }
    }

    /// Returns the context of another agent in the same process and the same folder.
    pub(crate) fn colleague(&self, locks: &PathLocks) -> ToolContext {
        ToolContext { reads: ReadLog::new(locks.clone()), ..self.context.clone() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.context.cwd.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> ToolOutcome {
        self.call_as(&self.context, tool, input).await
    }

    pub(crate) async fn call_as(
        &self,
        context: &ToolContext,
        tool: &str,
        input: Value,
    ) -> ToolOutcome {
        let call = self.tools.call(tool, input, context);
        let outcome = in_time("the call has ended", call).await;
        let root = self.folder.path().canonicalize().unwrap();
        ToolOutcome { text: outcome.text.replace(root.to_str().unwrap(), "ROOT"), ..outcome }
    }

    pub(crate) async fn done(&self, tool: &str, input: Value) -> String {
        let outcome = self.call(tool, input).await;
        assert!(!outcome.is_error, "{}", outcome.text);
        outcome.text
    }

    pub(crate) async fn refused(&self, tool: &str, input: Value) -> String {
        let outcome = self.call(tool, input).await;
        assert!(outcome.is_error, "{}", outcome.text);
        outcome.text
    }
}

pub(crate) fn pids_in(file: &Path) -> Vec<i32> {
    let content = fs::read_to_string(file).unwrap_or_default();
    let whole = content.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until a file contains `count` process ids, and returns them.
pub(crate) async fn pids(file: &Path, count: usize) -> Vec<i32> {
    until("all processes have told their numbers", async || {
        Some(pids_in(file)).filter(|pids| pids.len() == count)
    })
    .await
}

/// Returns true if a process runs. A zombie does not count as running.
pub(crate) fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|line| !line.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

pub(crate) async fn until_gone(pids: &[i32]) {
    until("all processes are gone", async || {
        (!pids.iter().any(|pid| is_alive(*pid))).then_some(())
    })
    .await;
}
