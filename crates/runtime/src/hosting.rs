//! Defines where the teammates of a run execute, and which program runs each teammate.
//!
//! A teammate runs inside the lead's process, or in its own process in a pane. A process in a pane
//! is either pitcrew or the reference client. The user interface knows pitcrew's executable, the
//! environment and the keys. It therefore provides the [`Launcher`], which builds the command line
//! of a process in a pane. The crate `panes` opens and closes panes, and the team's run handles the
//! teammates in them.

pub use pitcrew_protocol::Program;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pitcrew_protocol::{AgentName, Member, PermissionMode, TeamName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::definitions::{AgentFiles, definitions_digest};
use crate::run::RunLimits;
use pitcrew_panes::Panes;
use pitcrew_permission::settings::Settings;
use pitcrew_process::identity::ProcessIdentity;

/// Time within which a new teammate must accept its prompt, unless the settings give another time.
/// The reference client (Claude Code) needs 4 seconds.
pub const PROMPT_DEADLINE: Duration = Duration::from_secs(60);

/// The tag of a pane contains this number of bytes of the digest of the root folder's path.
const ROOT_WORD_BYTES: usize = 6;

/// Builds the command line and environment of a teammate's process.
pub type Launcher = Arc<dyn Fn(&LaunchSpec) -> Launch + Send + Sync>;

/// Returns a message for the user about a client other than pitcrew that runs teammates. The first
/// call returns the message, and later calls return `None`.
pub type ClientRemark = Arc<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// Where a teammate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeammatePlace {
    /// The teammate runs inside the lead's process.
    InProcess,
    /// The teammate runs in its own process in a pane.
    Pane,
}

/// The place and the program for the teammates of a run, unless a spawn request names others.
#[derive(Clone)]
pub struct Hosting {
    /// The place for a teammate whose spawn request names no place.
    pub default: TeammatePlace,
    /// The pane backend that creates new panes. `None` if no panes are available.
    pub panes: Option<Arc<dyn Panes>>,
    /// The pane backend of an earlier run of this team, if the panes of that run belong to another
    /// terminal. Teammates that still run in those panes continue, and leftover panes are closed.
    /// No new teammate is placed in a pane of this backend.
    pub former_panes: Option<Arc<dyn Panes>>,
    /// The pane programs that the user named, each with its arguments. Only these programs are run.
    /// A pane program that only a stored record names is never run.
    pub pane_programs: Vec<Vec<String>>,
    /// Builds the command line of each process in a pane.
    pub launch: Launcher,
    /// The program that runs a teammate in a pane, if the spawn request names no program.
    pub program: Program,
    /// Returns a message for the user about a client other than pitcrew. It is called when a
    /// teammate that such a client runs is about to start.
    pub client_remark: Option<ClientRemark>,
    /// The settings from the command line. Teammates in panes use these settings too if pitcrew
    /// runs them.
    pub settings: Map<String, Value>,
    /// Time within which a new teammate must accept its prompt. If the teammate is slower, the lead
    /// is notified.
    pub prompt_deadline: Duration,
}

impl Hosting {
    /// Places all teammates in the lead's process and uses no panes.
    #[must_use]
    pub fn in_process() -> Self {
        Self {
            default: TeammatePlace::InProcess,
            panes: None,
            former_panes: None,
            pane_programs: Vec::new(),
            launch: Arc::new(|_| Launch::default()),
            program: Program::Pitcrew,
            client_remark: None,
            settings: Map::new(),
            prompt_deadline: PROMPT_DEADLINE,
        }
    }
}

impl fmt::Debug for Hosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosting")
            .field("default", &self.default)
            .field("panes", &self.panes)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// All data about a teammate from which [`Launcher`] builds the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchSpec {
    /// The program that runs the teammate.
    pub program: Program,
    /// The teammate's id in the form `NAME@TEAM`.
    pub agent_id: String,
    /// The teammate's name.
    pub name: AgentName,
    /// The team's name, as the user gave it.
    pub team: TeamName,
    /// The teammate's color.
    pub color: Option<String>,
    /// The session id of the lead.
    pub session_id: String,
    /// Whether the teammate needs an approved plan before it works.
    pub plan_mode_required: bool,
    /// The type of the agent definition that the teammate uses.
    pub agent_type: Option<String>,
    /// The permission mode in which the teammate starts.
    pub mode: PermissionMode,
    /// The teammate's model.
    pub model: Option<String>,
    /// The key that verifies the lead's signatures.
    pub verify_key: Option<String>,
    /// The process that holds the private key of the lead's signatures.
    pub lead_process: Option<ProcessIdentity>,
    /// The teammate's working folder.
    pub cwd: PathBuf,
    /// Maximum number of model calls of the teammate. The teammate ends after the last of them.
    pub max_turns: Option<u32>,
    /// The file with the settings from the command line.
    pub settings: Option<PathBuf>,
    /// The conversation, if another client runs the teammate. `None` if pitcrew runs the teammate,
    /// because pitcrew finds the conversation by the teammate's name.
    pub conversation: Option<Conversation>,
}

/// The conversation with which a client other than pitcrew starts. Each variant contains the
/// conversation's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// The client starts a new conversation with this id.
    New(String),
    /// The client continues the conversation of the teammate's previous process.
    Former(String),
}

/// The command line and environment of a new process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The environment variables that the process needs in addition to those of the pane.
    pub env: Vec<(String, String)>,
}

/// Returns a short text that identifies a root folder in the tags of panes. It is the beginning of
/// a digest, so two different root folders practically always have different texts.
#[must_use]
pub fn root_word(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    digest.iter().take(ROOT_WORD_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a digest of the rules that limit all members: the settings and the agent definitions.
#[must_use]
pub fn rules_digest(settings: &Settings, root: &Path, project: &AgentFiles) -> String {
    format!("{} {}", settings.digest(), definitions_digest(root, project))
}

/// Returns a digest of the limits under which a member's process was started. The digest covers
/// `rules` (the digest of the settings and the agent definitions) and the member's maximum number
/// of model calls. It does not cover the permission mode.
#[must_use]
pub fn member_bounds(rules: &str, limits: RunLimits, member: &Member) -> String {
    let all = format!("{rules} {:?}", limits.turns_of(member));
    Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The stages of launching a teammate in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchStage {
    /// The process runs in its pane.
    Started,
    /// The teammate has accepted its prompt.
    PromptTaken,
    /// The teammate works.
    Working,
}

impl LaunchStage {
    /// Returns the stage as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::PromptTaken => "prompt taken",
            Self::Working => "working",
        }
    }
}
