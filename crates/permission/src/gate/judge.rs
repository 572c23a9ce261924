//! The verdict on one tool call: the mode's hard limits, deny, ask and allow rules, the mode's default.

use pitcrew_protocol::{PermissionMode, ToolKind, canonical_tool};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::denied::denied_reads;
use super::files::named_file;
use super::guarded::Guarded;
use super::paths::{Target, expand_home, lexical};
use super::rules::{Access, Rule, RuleError, RuleSet};
use super::tools::{is_delegation, is_free, kind_of};
use super::{bash, files};
use crate::settings::{Layer, Settings, SourcedRule};
use pitcrew_process::sandbox::{Grant, Profile, Sandbox};

/// A tool call to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its input as the model gave it.
    pub input: &'a Value,
    /// The folder the agent works in, absolute.
    pub cwd: &'a Path,
    /// The one file an agent in plan mode may write.
    pub plan_file: Option<&'a Path>,
}

/// What is to happen with a call.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may run.
    Allow {
        /// What it can do, if it is a command; other calls are bounded by what they are.
        profile: Profile,
    },
    /// It may not, and the model is told why.
    Deny {
        /// A sentence for the model.
        reason: String,
    },
    /// Somebody has to decide.
    Ask {
        /// What the call would do, in a few words.
        description: String,
        /// Permission updates that would answer this and similar asks, in the wire's form.
        suggestions: Vec<Value>,
    },
}

/// A verdict with the real path that it is about.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// What is to happen.
    pub verdict: Verdict,
    /// The file or folder of the call, links resolved; none for a call that is about none. The verdict holds for this path
    /// alone, whatever the path in the call leads to by the time it is opened.
    pub path: Option<PathBuf>,
    /// Whether a link below the working folder, or elsewhere, is part of the path in the call.
    pub is_by_link: bool,
}

impl Judged {
    /// Why nobody is asked about the path, if a link is part of it: whoever answers, a person or a rule of the run, looks at
    /// the path later, and the link may lead elsewhere by then.
    #[must_use]
    pub fn link_refusal(&self) -> Option<String> {
        let real = self.path.as_ref().filter(|_| self.is_by_link)?;
        Some(format!(
            "the path goes through a symbolic link to {}. Permission is asked for paths without links only: use that path",
            real.display()
        ))
    }
}

impl Verdict {
    pub(super) fn freely() -> Self {
        Self::Allow { profile: Profile::Free }
    }

    pub(super) fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

/// The rules and folders calls are judged by.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    pub(super) rules: RuleSet,
    pub(super) directories: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
    pub(super) guarded: Guarded,
    /// The outputs of the team's agents, which everybody may read.
    pub(super) outputs: Option<PathBuf>,
    pub(super) sandbox: Sandbox,
    /// The folders in which commands are looked for, as in `PATH`.
    pub(super) search_path: Vec<PathBuf>,
    pub(super) runs_sandboxed: bool,
    pub(super) spawns: Spawns,
}

/// The agent type of a spawn that names none.
pub const DEFAULT_TYPE: &str = "general-purpose";

/// Whether the agent of a spawn does one job for its spawner and is no teammate.
fn is_subagent(input: &Value) -> bool {
    input.get("name").is_none_or(Value::is_null)
}

/// In what modes spawned agents work.
#[derive(Clone, Debug, Default)]
pub struct Spawns {
    /// The mode of an agent for which nothing else is said.
    pub handed_down: PermissionMode,
    /// The modes that agent definitions say, by their names.
    pub defined: BTreeMap<String, PermissionMode>,
}

impl Spawns {
    /// The mode that the agent of this call works in, once its plan is approved if it plans first. A subagent, which has no
    /// name, works in the mode of its spawner unless something else is said.
    fn mode(&self, input: &Value, spawner: PermissionMode) -> PermissionMode {
        let plans = |mode: &PermissionMode| *mode == PermissionMode::Plan;
        let asked = input.get("mode").and_then(|mode| PermissionMode::deserialize(mode).ok());
        let kind = input.get("subagent_type").and_then(Value::as_str).unwrap_or(DEFAULT_TYPE);
        let defined = self.defined.get(kind).copied();
        let handed_down = if is_subagent(input) { spawner.handed_down() } else { self.handed_down };
        asked
            .filter(|mode| !plans(mode))
            .or(defined.filter(|mode| !plans(mode)))
            .unwrap_or(handed_down)
    }
}

/// Says why a permission update was refused; nothing of it was applied.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The update is not one that can be applied to a session.
    #[error("cannot apply the permission update {0}")]
    Unknown(Value),
    /// A rule in it is malformed.
    #[error("the permission update holds a bad rule")]
    Rule(#[from] RuleError),
}

/// A permission update as a `permission_response` carries it.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Update {
    AddDirectories { directories: Vec<PathBuf> },
    SetMode { mode: PermissionMode },
    AddRules { rules: Vec<UpdateRule>, behavior: Behavior },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateRule {
    tool_name: String,
    rule_content: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Behavior {
    Allow,
    Deny,
    Ask,
}

impl Gate {
    /// Builds the gate from the settings' `permissions`.
    ///
    /// # Errors
    /// When a malformed rule was typed on the command line, or agents could do more without it; the error names the rule and
    /// its layer.
    pub fn from_settings(settings: &Settings, home: Option<&Path>) -> Result<Self, RuleError> {
        let permissions = settings.permissions();
        let folder = |path: &PathBuf| expand_home(&path.to_string_lossy(), home);
        Ok(Self {
            rules: RuleSet::parse(&permissions, home)?,
            directories: permissions.additional_directories.iter().map(folder).collect(),
            home: home.map(Path::to_path_buf),
            guarded: Guarded::default(),
            outputs: None,
            sandbox: Sandbox::default(),
            search_path: Vec::new(),
            spawns: Spawns::default(),
            runs_sandboxed: settings.runs_sandboxed_commands(),
        })
    }

    /// The rules that are not heeded, in words.
    pub fn unheeded(&self) -> &[String] {
        &self.rules.unheeded
    }

    /// Says in which folders commands are looked for: the `PATH` that they run with.
    #[must_use]
    pub fn searching(self, search_path: Vec<PathBuf>) -> Self {
        Self { search_path, ..self }
    }

    /// Says in what modes spawned agents work: one that is freer than its spawner is asked about.
    #[must_use]
    pub fn spawning(self, spawns: Spawns) -> Self {
        Self { spawns, ..self }
    }

    /// Denies every change to the teams, tasks, settings, agents and hooks of a root, in every mode and whatever the rules
    /// say.
    #[must_use]
    pub fn guarding(self, root: &Path) -> Self {
        Self { guarded: Guarded::of_root(root), ..self }
    }

    /// Lets everybody read what is in a folder: the outputs of the team's agents, which their lead is told to read.
    #[must_use]
    pub fn showing(self, outputs: &Path) -> Self {
        Self { outputs: Some(outputs.to_path_buf()), ..self }
    }

    /// Lets commands run unasked only in profiles that this sandbox holds.
    #[must_use]
    pub fn held_by(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }

    /// Judges a call: the mode's hard limits and what is guarded first, then deny rules (which win in every mode), ask
    /// rules, allow rules, and at last what the mode does with a call no rule speaks of.
    pub fn judge(&self, mode: PermissionMode, call: &Call<'_>) -> Verdict {
        self.judge_path(mode, call).verdict
    }

    /// Whether a tool works on a file or folder that its input names.
    #[must_use]
    pub fn is_about_file(tool: &str) -> bool {
        matches!(kind_of(tool), ToolKind::Reader | ToolKind::Writer)
    }

    /// As [`Gate::judge`], with the path that was judged: the path in the call is resolved once, and what is answered is
    /// what was judged.
    pub fn judge_path(&self, mode: PermissionMode, call: &Call<'_>) -> Judged {
        let target = if Self::is_about_file(call.tool) { named_file(self, call) } else { None };
        let verdict = self.judge_target(mode, call, target.as_ref());
        let is_by_link = target.as_ref().is_some_and(|target| target.is_by_link(call.cwd));
        Judged { verdict, path: target.and_then(|target| target.resolved), is_by_link }
    }

    fn judge_target(
        &self,
        mode: PermissionMode,
        call: &Call<'_>,
        target: Option<&Target>,
    ) -> Verdict {
        let verdict = match kind_of(call.tool) {
            ToolKind::Shell => bash::judge(self, mode, call),
            ToolKind::Reader | ToolKind::Writer => files::judge(self, mode, call, target),
            kind @ (ToolKind::Spawn
            | ToolKind::Talk
            | ToolKind::TeamControl
            | ToolKind::ExitPlan
            | ToolKind::Output
            | ToolKind::Other) => self.judge_other(mode, kind, call),
        };
        match (mode, verdict) {
            (PermissionMode::DontAsk, Verdict::Ask { description, .. }) => {
                let how = self.how_to_allow(call);
                Verdict::deny(format!(
                    "nobody is asked in mode dontAsk, and no rule allows this: {description}; {how}"
                ))
            }
            (_, verdict) => verdict,
        }
    }

    /// Whether a deny rule keeps this file from being read: for tools that walk a tree, file by file.
    /// The file is given as it was named and by its real path.
    #[must_use]
    pub fn is_read_denied(&self, cwd: &Path, path: &Path, real: PathBuf) -> bool {
        let mut rules =
            self.rules.deny.iter().filter(|rule| rule.is_about(Access::Read)).peekable();
        if rules.peek().is_none() {
            return false;
        }
        let target = Target { written: lexical(cwd, path), resolved: Some(real) };
        rules.any(|rule| rule.touches(Access::Read, cwd, &target))
    }

    /// What a command that starts in a folder is granted: the working folders, less what `Read` deny rules name.
    pub fn grant(&self, cwd: &Path) -> Grant {
        let denied = denied_reads(&self.rules.deny, cwd);
        Grant { cwd: cwd.to_path_buf(), beside: self.directories.clone(), denied }
    }

    /// Applies a permission update to this session. A `setMode` update returns the mode: it is the
    /// agent's to keep.
    ///
    /// # Errors
    /// When the update is of an unknown kind or holds a malformed rule.
    pub fn apply(&mut self, update: &Value) -> Result<Option<PermissionMode>, UpdateError> {
        match Update::deserialize(update).map_err(|_| UpdateError::Unknown(update.clone()))? {
            Update::SetMode { mode } => return Ok(Some(mode)),
            Update::AddDirectories { directories } => self.directories.extend(directories),
            Update::AddRules { rules, behavior } => {
                let parsed = rules
                    .iter()
                    .map(|rule| self.session_rule(rule))
                    .collect::<Result<Vec<_>, _>>()?;
                match behavior {
                    Behavior::Allow => self.rules.allow.extend(parsed),
                    Behavior::Deny => self.rules.deny.extend(parsed),
                    Behavior::Ask => self.rules.ask.extend(parsed),
                }
            }
        }
        Ok(None)
    }

    fn session_rule(&self, rule: &UpdateRule) -> Result<Rule, RuleError> {
        let text = match &rule.rule_content {
            Some(content) => format!("{}({content})", rule.tool_name),
            None => rule.tool_name.clone(),
        };
        let sourced =
            SourcedRule { text, layer: Layer::Cli, origin: "session".to_owned(), base: None };
        Rule::parse(&sourced, self.home.as_deref())
    }

    fn judge_other(&self, mode: PermissionMode, kind: ToolKind, call: &Call<'_>) -> Verdict {
        if let Some(verdict) = hard_limit(mode, kind, call.tool) {
            return verdict;
        }
        let word = call.input.get("subagent_type").and_then(Value::as_str);
        let names = |rule: &&Rule| rule.names_tool(call.tool) || rule.names_word(call.tool, word);
        let restricts = |rule: &&Rule| names(rule) || rule.is_opaque_for(call.tool);
        if let Some(rule) = self.rules.deny.iter().find(restricts) {
            return denied_by(rule);
        }
        if mode == PermissionMode::BypassPermissions {
            return Verdict::freely();
        }
        if self.rules.ask.iter().any(|rule| restricts(&rule)) {
            return ask_to_use(call);
        }
        let spawned = self.spawns.mode(call.input, mode);
        // A subagent of one that the user let bypass permissions is given nothing that its spawner has not.
        let is_given = self.spawns.handed_down == PermissionMode::BypassPermissions
            || (is_subagent(call.input) && mode == PermissionMode::BypassPermissions);
        if kind == ToolKind::Spawn && spawned == PermissionMode::BypassPermissions && !is_given {
            return Verdict::deny("Only the user can let an agent bypass permissions");
        }
        if self.rules.allow.iter().any(|rule| names(&rule)) {
            return Verdict::freely();
        }
        if kind == ToolKind::Spawn && spawned.freedom() > mode.freedom() {
            let name = call.input.get("name").and_then(Value::as_str).unwrap_or("an agent");
            let description = format!(
                "Spawn {name} in mode {spawned}, which is freer than its spawner's, {mode}"
            );
            return Verdict::Ask { description, suggestions: Vec::new() };
        }
        if is_free(kind) { Verdict::freely() } else { ask_to_use(call) }
    }

    /// The folders that count as the working folder.
    pub(super) fn working_folders<'a>(&'a self, cwd: &'a Path) -> impl Iterator<Item = &'a Path> {
        std::iter::once(cwd).chain(self.directories.iter().map(PathBuf::as_path))
    }

    pub(super) fn target(&self, cwd: &Path, path: &str) -> Target {
        Target::new(cwd, &expand_home(path, self.home.as_deref()))
    }

    pub(super) fn is_inside(&self, cwd: &Path, target: &Target) -> bool {
        target.is_inside(cwd, self.working_folders(cwd))
    }
}

/// What plan and delegate mode rule out whatever the rules say. Shell and file tools in plan mode are
/// looked at more closely by their own judges.
pub(super) fn hard_limit(mode: PermissionMode, kind: ToolKind, tool: &str) -> Option<Verdict> {
    match mode {
        PermissionMode::Plan => match kind {
            ToolKind::Talk | ToolKind::ExitPlan | ToolKind::Output | ToolKind::Reader => None,
            ToolKind::Shell | ToolKind::Writer => None,
            ToolKind::Spawn | ToolKind::TeamControl | ToolKind::Other => {
                Some(Verdict::deny(format!(
                    "{tool} is not available in plan mode: nothing may change before the plan is approved"
                )))
            }
        },
        PermissionMode::Delegate if !is_delegation(kind) => Some(Verdict::deny(format!(
            "{tool} is not available in delegate mode: only team and task tools are"
        ))),
        PermissionMode::Delegate
        | PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::DontAsk
        | PermissionMode::BypassPermissions => None,
    }
}

pub(super) fn denied_by(rule: &Rule) -> Verdict {
    Verdict::deny(format!("denied by {}", rule.cite()))
}

fn ask_to_use(call: &Call<'_>) -> Verdict {
    Verdict::Ask {
        description: format!("Use {}", canonical_tool(call.tool)),
        suggestions: Vec::new(),
    }
}

/// The suggestions recorded with asks that change files (`fixtures/claude-2.1.39/tmux-permissions`).
pub(super) fn edit_suggestions(folders: &[PathBuf]) -> Vec<Value> {
    vec![
        directory_suggestion(folders),
        json!({"type": "setMode", "mode": PermissionMode::AcceptEdits, "destination": "session"}),
    ]
}

pub(super) fn directory_suggestion(folders: &[PathBuf]) -> Value {
    json!({"type": "addDirectories", "directories": folders, "destination": "session"})
}
