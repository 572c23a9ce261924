//! Where the teammates of a run live, and what runs them.
//!
//! A teammate lives in the lead's process, or in a process of its own in a pane. In a pane it is one of ours or the
//! reference client. How such a process is called is the face's to say ([`Launcher`]): it knows its own executable, the
//! environment and the keys. Panes are `panes`', what becomes of the teammates in them is the crew's.

pub use pitcrew_protocol::Program;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pitcrew_protocol::{AgentName, Member, PermissionMode, TeamName};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::definitions::{AgentFiles, definitions_digest};
use crate::identity::ProcessIdentity;
use crate::panes::Panes;
use crate::run::RunLimits;
use crate::settings::Settings;

/// How long a new teammate has to take its prompt, unless the settings say otherwise. The reference client needs 4 seconds.
pub const PROMPT_DEADLINE: Duration = Duration::from_secs(60);

/// How many bytes of a root's digest stand in the tags of its panes.
const ROOT_WORD_BYTES: usize = 6;

/// Says how a teammate is called.
pub type Launcher = Arc<dyn Fn(&LaunchSpec) -> Launch + Send + Sync>;

/// Says at its first call what the user is to know of the other client that teammates run in, and nothing later.
pub type ClientRemark = Arc<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// Where a teammate lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeammatePlace {
    /// In the lead's process.
    InProcess,
    /// In a process of its own, in a pane.
    Pane,
}

/// Where the teammates of a run live, unless a spawn says otherwise.
#[derive(Clone)]
pub struct Hosting {
    /// Where those live for whom nothing else is said.
    pub default: TeammatePlace,
    /// The panes there are.
    pub panes: Option<Arc<dyn Panes>>,
    /// The panes of an earlier run of the team, where those are of another kind: whoever lives in one goes on there, and what
    /// is left of them is closed. Nobody new is put there.
    pub former_panes: Option<Arc<dyn Panes>>,
    /// The pane programs that the user named, each with its arguments; no other one that a record names is run.
    pub pane_programs: Vec<Vec<String>>,
    /// How the processes in panes are called.
    pub launch: Launcher,
    /// What runs those for whom nothing else is said, in panes.
    pub program: Program,
    /// Asked when the first teammate starts that another client runs.
    pub client_remark: Option<ClientRemark>,
    /// The command line's own layer of settings, which teammates of ours in panes go by too.
    pub settings: Map<String, Value>,
    /// How long a new teammate has to take its prompt before the lead is told that it does not.
    pub prompt_deadline: Duration,
}

impl Hosting {
    /// Everybody in the lead's process, and no panes at all.
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

/// Everything about a teammate that the call of its process may say.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchSpec {
    /// What runs it.
    pub program: Program,
    /// `NAME@TEAM`.
    pub agent_id: String,
    /// Its name.
    pub name: AgentName,
    /// Its team, as it was given.
    pub team: TeamName,
    /// Its color.
    pub color: Option<String>,
    /// The session of its lead.
    pub session_id: String,
    /// Whether it must have a plan approved first.
    pub plan_mode_required: bool,
    /// The agent definition it runs.
    pub agent_type: Option<String>,
    /// The permission mode it starts in.
    pub mode: PermissionMode,
    /// Its model.
    pub model: Option<String>,
    /// What the signatures of its lead are verified by.
    pub verify_key: Option<String>,
    /// The process that has the key to these signatures.
    pub lead_process: Option<ProcessIdentity>,
    /// Its working folder.
    pub cwd: PathBuf,
    /// Model calls after which it ends.
    pub max_turns: Option<u32>,
    /// The file with the command line's own layer of settings.
    pub settings: Option<PathBuf>,
    /// The conversation of another client; ours keep theirs by their names.
    pub conversation: Option<Conversation>,
}

/// The conversation that another client starts with, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// A new one.
    New(String),
    /// The one that its process before had.
    Former(String),
}

/// How a process is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The variables it needs beside those the pane has.
    pub env: Vec<(String, String)>,
}

/// The word for a root in the tags of panes: short, and another for every root.
#[must_use]
pub fn root_word(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    digest.iter().take(ROOT_WORD_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// What bounds all members, as a digest: the settings, and the kinds of agents that are defined.
#[must_use]
pub fn rules_digest(settings: &Settings, root: &Path, project: &AgentFiles) -> String {
    format!("{} {}", settings.digest(), definitions_digest(root, project))
}

/// What bounds the process of a member beside its mode, as a digest: the settings and the kinds of agents, by their own digest,
/// and its limit.
#[must_use]
pub fn member_bounds(rules: &str, limits: RunLimits, member: &Member) -> String {
    let all = format!("{rules} {:?}", limits.turns_of(member));
    Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How far the launch of a teammate in a pane has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaunchStage {
    /// Its process is alive in its pane.
    Started,
    /// It has taken its prompt.
    PromptTaken,
    /// It works.
    Working,
}

impl LaunchStage {
    /// The stage in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::PromptTaken => "prompt taken",
            Self::Working => "working",
        }
    }
}
