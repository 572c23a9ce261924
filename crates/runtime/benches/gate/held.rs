//! Runs commands in the sandbox profile `read`, in which the kernel prevents changes. Agents use
//! this profile for a command if the permission gate is not sure that the command only reads.

use std::path::Path;
use std::sync::Arc;

use pitcrew_permission::gate::Gate;
use pitcrew_process::sandbox::{Machine, Profile, Sandbox, Support};
use pitcrew_protocol::PermissionMode;
use pitcrew_tools::{Bash, PathLocks, ReadLog, Shells, Tool, ToolContext, ToolLimits};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Time limit of one command in milliseconds. It is needed because some commands wait for standard
/// input, or follow a file.
const TIMEOUT_MS: u64 = 2_000;

/// The tool Bash of an agent whose commands run in the sandbox profile `read`.
#[derive(Debug)]
pub(crate) struct Held {
    context: ToolContext,
    runtime: Runtime,
}

impl Held {
    /// Creates the tool Bash for the folder `cwd`. Returns `None` if this machine cannot enforce
    /// the sandbox profile `read`.
    pub(crate) fn new(cwd: &Path, home: &Path, work: &Path, gate: Gate) -> Option<Self> {
        let path = "/usr/local/bin:/usr/bin:/bin";
        let machine = Machine {
            root: work.join("root"),
            temporary: std::env::temp_dir(),
            path: std::env::split_paths(path).collect(),
            home: Some(home.to_path_buf()),
            ..Machine::default()
        };
        let sandbox = Sandbox::new(machine);
        if let Support::Missing { reason } = sandbox.support(Profile::Read) {
            println!("commands that only *read* holds are not run here: {reason}");
            return None;
        }
        let env = [("HOME", home.to_string_lossy().into_owned()), ("PATH", path.to_owned())];
        let context = ToolContext {
            cwd: cwd.to_path_buf(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            call: "fuzz".to_owned(),
            judged: None,
            cancel: CancellationToken::new(),
            gate: Arc::new(gate),
            sandbox,
            mode: PermissionMode::default(),
            profile: Profile::Read,
            may_unconfine: false,
            reads: ReadLog::new(PathLocks::new()),
            shells: Shells::new(work.join("shells")),
            limits: ToolLimits::default(),
        };
        Some(Self { context, runtime: Runtime::new().expect("a runtime") })
    }

    pub(crate) fn run(&self, command: &str) -> String {
        let input = json!({ "command": command, "timeout": TIMEOUT_MS });
        self.runtime.block_on(Bash.call(input, &self.context)).text
    }
}
