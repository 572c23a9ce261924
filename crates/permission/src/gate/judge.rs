//! The permission gate: it decides about one tool call. It checks, in this order: the permission
//! mode's hard limits, deny rules, ask rules, what a repository makes of a command, allow rules, the
//! mode's default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pitcrew_process::sandbox::{Grant, Profile, Sandbox};
use pitcrew_protocol::{PermissionMode, ToolKind, canonical_tool, tool_name};
use serde::Deserialize;
use serde_json::{Value, json};

use super::condition::restricts;
use super::denied::denied_paths;
use super::files::named_file;
use super::guarded::Guarded;
use super::paths::{Target, expand_home, lexical};
use super::rules::{Access, Rule, RuleError, RuleSet};
use super::tools::{is_delegation, is_free, kind_of};
use super::{bash, files};
use crate::settings::{Layer, Settings, SourcedRule};

/// A tool call that the gate judges.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The tool's input, as the model wrote it.
    pub input: &'a Value,
    /// The absolute path of the agent's working folder.
    pub cwd: &'a Path,
    /// The only file that an agent in plan mode is allowed to write.
    pub plan_file: Option<&'a Path>,
}

/// The gate's decision about a call.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The call is allowed to run.
    Allow {
        /// The sandbox profile in which a command must run. Tools that run no command need no
        /// sandbox, because their own code limits what they do.
        profile: Profile,
    },
    /// The call is not allowed to run. The model is told the reason.
    Deny {
        /// The reason, as one sentence for the model.
        reason: String,
    },
    /// A person or the lead of the team must decide.
    Ask {
        /// Short description of the call's effect.
        description: String,
        /// Permission updates that would allow this call and similar calls, in the format of the
        /// messages between agents.
        suggestions: Vec<Value>,
        /// True if the call would do something only because of a repository's files. Then only a
        /// person answers: no allow rule and no hook does.
        is_about_repository: bool,
    },
}

impl Verdict {
    /// Makes a question that does not exist because of a repository.
    pub(super) fn ask(description: String, suggestions: Vec<Value>) -> Self {
        Self::Ask { description, suggestions, is_about_repository: false }
    }
}

/// A verdict, together with the resolved path for which the verdict is valid.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The gate's decision about the call.
    pub verdict: Verdict,
    /// The file or folder of the call, with symbolic links resolved. `None` if the call names no
    /// file. The verdict is valid for this path only, even if the path in the call leads elsewhere
    /// when the file is opened.
    pub path: Option<PathBuf>,
    /// True if the path in the call contains a symbolic link. Links in the path of the working
    /// folder itself do not count.
    pub is_by_link: bool,
}

impl Judged {
    /// Returns a reason to deny the call without asking a person, if the path in the call contains
    /// a symbolic link. While the person decides, such a link could be changed so that it leads
    /// elsewhere. Returns `None` if the path contains no symbolic link.
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

/// The permission gate: the rules and folders by which tool calls are judged.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    pub(super) rules: RuleSet,
    pub(super) directories: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
    pub(super) guarded: Guarded,
    /// The folder with the agents' outputs. Every agent is allowed to read it.
    pub(super) outputs: Option<PathBuf>,
    pub(super) sandbox: Sandbox,
    /// The folders in which commands are searched, in the order of `PATH`.
    pub(super) search_path: Vec<PathBuf>,
    pub(super) runs_sandboxed: bool,
    pub(super) spawns: Spawns,
}

/// The agent type of a spawn that names no type.
pub const DEFAULT_TYPE: &str = "general-purpose";

/// Returns true if the call spawns a subagent, and false if it spawns a teammate.
fn is_subagent(input: &Value) -> bool {
    input.get("name").is_none_or(Value::is_null)
}

/// The permission modes of spawned agents.
#[derive(Clone, Debug, Default)]
pub struct Spawns {
    /// The permission mode of an agent if neither the spawn nor the agent's definition names a
    /// mode.
    pub handed_down: PermissionMode,
    /// The permission modes that agent definitions set. The key is the definition's name.
    pub defined: BTreeMap<String, PermissionMode>,
}

impl Spawns {
    /// Returns the permission mode of the agent that this call spawns. For an agent that plans
    /// first, the result is the mode after its plan is approved. If neither the call nor the
    /// agent's definition sets a mode, a subagent (an agent without a name) gets the mode that its
    /// spawner hands down. A teammate then gets `handed_down`.
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

/// Reason why a permission update was refused. No part of the update was applied.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The update has an unknown kind or cannot be applied to a session.
    #[error("cannot apply the permission update {0}")]
    Unknown(Value),
    /// The update contains a malformed rule.
    #[error("the permission update contains an invalid rule")]
    Rule(#[from] RuleError),
}

/// A permission update in the form that a `permission_response` message contains.
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
    /// Builds the gate from `permissions` in the settings.
    ///
    /// # Errors
    /// If a rule from the command line is malformed, or if any deny or ask rule is malformed.
    /// Without that deny or ask rule, agents could do more than intended. The error names the rule
    /// and its settings layer.
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

    /// Returns descriptions of the rules that are ignored because they are malformed.
    pub fn unheeded(&self) -> &[String] {
        &self.rules.unheeded
    }

    /// Sets the folders in which commands are searched. They must be the `PATH` with which the
    /// commands run.
    #[must_use]
    pub fn searching(self, search_path: Vec<PathBuf>) -> Self {
        Self { search_path, ..self }
    }

    /// Sets the permission modes of spawned agents. The gate asks about a spawn if the new agent's
    /// mode allows more than the spawner's mode.
    #[must_use]
    pub fn spawning(self, spawns: Spawns) -> Self {
        Self { spawns, ..self }
    }

    /// Makes the gate deny every change to the teams, tasks, settings, agents and hooks below
    /// `root`, in every permission mode and under any rule.
    #[must_use]
    pub fn guarding(self, root: &Path) -> Self {
        Self { guarded: Guarded::of_root(root), ..self }
    }

    /// Allows every agent to read the files in the folder `outputs`. The team's agents write their
    /// output to this folder, and messages tell the lead to read it.
    #[must_use]
    pub fn showing(self, outputs: &Path) -> Self {
        Self { outputs: Some(outputs.to_path_buf()), ..self }
    }

    /// Sets the sandbox. A command runs without a permission request only in sandbox profiles that
    /// the sandbox can enforce.
    #[must_use]
    pub fn held_by(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }

    /// Judges a call. It checks, in this order: the permission mode's hard limits and the protected
    /// files, deny rules (which win in every mode), ask rules, what a command would do only because
    /// of a repository, allow rules, and the mode's default for a call that no rule matches.
    pub fn judge(&self, mode: PermissionMode, call: &Call<'_>) -> Verdict {
        self.judge_path(mode, call).verdict
    }

    /// Returns true if the tool works on a file or folder that its input names.
    #[must_use]
    pub fn is_about_file(tool: &str) -> bool {
        matches!(kind_of(tool), ToolKind::Reader | ToolKind::Writer)
    }

    /// Judges a call like [`Gate::judge`], and also returns the judged path. The path is resolved
    /// only once. The returned path is therefore exactly the judged path.
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
            // In the mode `dontAsk` nobody is asked, so the call is denied. The reason for the
            // denial tells which rule would allow the call.
            (PermissionMode::DontAsk, Verdict::Ask { description, .. }) => {
                let how = self.how_to_allow(call);
                Verdict::deny(format!(
                    "nobody is asked in mode dontAsk, and no rule allows this: {description}; {how}"
                ))
            }
            (_, verdict) => verdict,
        }
    }

    /// Returns true if a deny rule forbids to read this file. Tools that search a folder tree call
    /// this function for each file, with the path as named and the resolved path.
    #[must_use]
    pub fn is_read_denied(&self, cwd: &Path, path: &Path, real: PathBuf) -> bool {
        let mut rules =
            self.rules.deny.iter().filter(|rule| rule.is_about(Access::Read)).peekable();
        // Return early if there is no deny rule for reading. Search tools call this function for
        // every file, and usually there is no such rule.
        if rules.peek().is_none() {
            return false;
        }
        let target = Target { written: lexical(cwd, path), resolved: Some(real) };
        rules.any(|rule| rule.touches(Access::Read, cwd, &target))
            || self.is_remembered(Access::Read, &target)
    }

    /// Returns true if deny rules once matched the file or a folder around it, under another name.
    pub(super) fn is_remembered(&self, access: Access, target: &Target) -> bool {
        let rules = self.rules.deny.iter().filter(|rule| rule.is_about(access));
        let texts: Vec<String> = rules.map(Rule::cite).collect();
        target.resolved.as_ref().is_some_and(|path| self.sandbox.is_remembered(&texts, path))
    }

    /// Returns the files that a command started in `cwd` is allowed to use: the working folders
    /// without the files that deny rules match.
    pub fn grant(&self, cwd: &Path) -> Grant {
        let denied = |access| denied_paths(&self.rules.deny, access, cwd);
        Grant {
            cwd: cwd.to_path_buf(),
            beside: self.directories.clone(),
            denied: denied(Access::Read),
            unwritable: denied(Access::Write),
            decided: Vec::new(),
        }
    }

    /// Returns the grant of a command that this gate has allowed to run in the sandbox profile
    /// *free*. It names the protected files that the command changes, as far as its text shows it.
    pub fn grant_freely(&self, cwd: &Path, command: &str) -> Grant {
        let input = Value::Null;
        let call = Call { tool: tool_name::BASH, input: &input, cwd, plan_file: None };
        Grant { decided: bash::protected_changes(self, &call, command), ..self.grant(cwd) }
    }

    /// Applies a permission update to this session. For a `setMode` update, this function returns
    /// the new permission mode, and the caller must store it.
    ///
    /// # Errors
    /// If the update is of an unknown kind or contains a malformed rule.
    pub fn apply(&mut self, update: &Value) -> Result<Option<PermissionMode>, UpdateError> {
        match Update::deserialize(update).map_err(|_| UpdateError::Unknown(update.clone()))? {
            Update::SetMode { mode } => return Ok(Some(mode)),
            Update::AddDirectories { directories } => self.directories.extend(directories),
            Update::AddRules { rules, behavior } => {
                // Parse all rules before adding any, so that a refused update changes nothing.
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
        // Use the layer of the command line, so that a malformed rule is an error and is not
        // ignored.
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
        // Some rules have an argument that the gate cannot check. Such a rule can still deny a call
        // or ask about it, but cannot allow it.
        let restricts = |rule: &&Rule| restricts(rule, call);
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
        // A subagent in bypass mode gains nothing if its spawner is already in bypass mode with the
        // user's consent.
        let is_given = self.spawns.handed_down == PermissionMode::BypassPermissions
            || (is_subagent(call.input) && mode == PermissionMode::BypassPermissions);
        // This check comes before the allow rules, because no rule can allow an agent to bypass
        // permissions.
        if kind == ToolKind::Spawn && spawned == PermissionMode::BypassPermissions && !is_given {
            return Verdict::deny("Only the user can let an agent bypass permissions");
        }
        if self.rules.allow.iter().any(|rule| names(&rule)) {
            return Verdict::freely();
        }
        // An agent must not escape the limits of its own permission mode by spawning an agent in a
        // mode with fewer limits.
        if kind == ToolKind::Spawn && spawned.freedom() > mode.freedom() {
            let name = call.input.get("name").and_then(Value::as_str).unwrap_or("an agent");
            let description = format!(
                "Spawn {name} in mode {spawned}, which is freer than its spawner's, {mode}"
            );
            return Verdict::ask(description, Vec::new());
        }
        if is_free(kind) { Verdict::freely() } else { ask_to_use(call) }
    }

    /// Returns the working folder and the additional folders that are treated as working folders.
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

/// Returns a denial if the permission mode `plan` or `delegate` forbids the tool, whatever the
/// rules say. Shell and file tools in plan mode are checked in the modules `bash` and `files`
/// instead.
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
    Verdict::ask(format!("Use {}", canonical_tool(call.tool)), Vec::new())
}

/// Returns the suggestions for a permission request about a file change. Their form was recorded
/// from the reference client (`fixtures/claude-2.1.39/tmux-permissions`).
pub(super) fn edit_suggestions(folders: &[PathBuf]) -> Vec<Value> {
    vec![
        directory_suggestion(folders),
        json!({"type": "setMode", "mode": PermissionMode::AcceptEdits, "destination": "session"}),
    ]
}

pub(super) fn directory_suggestion(folders: &[PathBuf]) -> Value {
    json!({"type": "addDirectories", "directories": folders, "destination": "session"})
}
