//! The table of tools. It has a descriptor for each tool, and the traits that are assumed for a
//! tool that is not in the table.
//!
//! Code that depends on properties of a tool reads the tool's [`ToolTraits`] instead of comparing
//! names. Traits can also be created at run time, for the tools of an MCP server. [`ToolSet`] holds
//! the traits of one agent's tools. The permission gate decides which calls are allowed. Each
//! tool's implementation decides how the tool works.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schemas;
use crate::tool_name as name;

/// The facts about a tool that are known before a call.
#[derive(Clone, Debug)]
pub struct ToolDescriptor {
    /// The tool's name, as models use it.
    pub name: &'static str,
    /// Another name of the same tool, used by other versions of the reference client.
    pub alias: Option<&'static str>,
    /// The JSON schema of the tool's input. `None` for a tool that pitcrew does not have.
    pub schema: Option<fn() -> Value>,
    /// The properties of the tool's calls.
    pub traits: ToolTraits,
}

/// The properties of a tool's calls. Code that makes, checks or shows a call reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTraits {
    /// The kind of the tool. The permission gate decides by this kind.
    pub kind: ToolKind,
    /// The parameter that names the file or folder of a call.
    pub file: FileParameter,
    /// What a permission rule for the tool can contain in parentheses.
    pub rule: RuleScope,
    /// The effect of a call on the agent that makes the call.
    pub effect: CallEffect,
    /// How a call is shown to a person.
    pub view: CallView,
    /// The form of the tool's results in the stream.
    pub result: ResultForm,
    /// Whether the tool's calls change nothing. Several such calls of one turn can run at the same
    /// time.
    pub is_read_only: bool,
    /// Whether a call that a crash interrupted is allowed to run again. Each call has its own key.
    /// The team recognises a repeated call by this key and knows what the first call has already
    /// done.
    pub is_repeatable: bool,
}

/// The kinds of tools. The permission modes and the permission gate decide by these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// A tool that runs shell commands.
    Shell,
    /// A tool that reads files.
    Reader,
    /// A tool that changes one file.
    Writer,
    /// A tool that starts an agent.
    Spawn,
    /// A tool that creates the team, sends messages or uses the task list, and changes nothing
    /// else.
    Talk,
    /// A tool that deletes a team or stops an agent.
    TeamControl,
    /// A tool that asks to leave plan mode.
    ExitPlan,
    /// A tool that reads the output of a background task.
    Output,
    /// Any other tool.
    Other,
}

/// The parameter that names the file or folder of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileParameter {
    /// No parameter names a file or folder.
    None,
    /// The parameter `file_path` names the file.
    FilePath,
    /// The parameter `notebook_path` names the file.
    NotebookPath,
    /// The parameter `path` names the file or folder. If the call does not give it, the working
    /// folder is used.
    Folder,
    /// The parameter `path` names the folder, together with the folder at the beginning of the
    /// parameter `pattern`.
    FolderAndPattern,
}

/// What a permission rule for a tool can contain in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// The rule can contain nothing: a rule with parentheses matches no call of the tool.
    WholeTool,
    /// The rule can contain a shell command.
    Command,
    /// The rule can contain a pattern of paths.
    Path,
    /// The rule can contain the name of an agent type.
    AgentType,
    /// The rule can contain any text, but the permission gate does not know what the text means for
    /// the tool.
    Unchecked,
}

/// The effect of a call on the agent that makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEffect {
    /// The call has no effect except its result.
    None,
    /// The call writes a whole file. After a crash, the file shows whether the write was done.
    WritesFile,
    /// The call replaces text in a file. After a crash, the file shows whether the replacement was
    /// done.
    EditsFile,
    /// The call submits a plan. For a teammate, the result contains the id of the approval request.
    SubmitsPlan,
    /// The call sends a message. The message can be the answer to a request to shut down.
    SendsMessage,
    /// The call starts an agent: a teammate if the call gives a name, otherwise a subagent.
    StartsAgent,
    /// The call adds a task to the team's list.
    CreatesTask,
    /// The call changes a task.
    ChangesTask,
    /// The call checks the progress of other agents' tasks. An agent is allowed to repeat such a
    /// call without a permission, because the progress can change between two calls.
    ChecksTasks,
    /// The call ends the team.
    EndsTeam,
}

/// How a call is shown to the person who decides whether it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallView {
    /// Each parameter is shown separately.
    Fields,
    /// The parameter `command` is shown as text.
    Command,
    /// The parameter `content` is shown as a diff against the current file.
    WholeFile,
    /// The replaced text is shown as a diff against the current file.
    Replacement,
    /// The parameter `plan` is shown as text.
    Plan,
}

/// The form of a tool's results in the stream (`fixtures/claude-2.1.39/stream-json`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultForm {
    /// The result is a text.
    Text,
    /// The result is a list of blocks. If the call failed, the result is a text.
    Blocks,
}

impl ToolTraits {
    /// The traits that are assumed for an unknown tool, such as a tool of an MCP server.
    pub const UNKNOWN: Self = Self {
        kind: ToolKind::Other,
        file: FileParameter::None,
        rule: RuleScope::Unchecked,
        effect: CallEffect::None,
        view: CallView::Fields,
        result: ResultForm::Text,
        is_read_only: false,
        is_repeatable: false,
    };

    /// Returns the traits of the tool with this name or alias.
    #[must_use]
    pub fn of(tool: &str) -> Self {
        ToolDescriptor::find(tool).map_or(Self::UNKNOWN, |found| found.traits)
    }

    const fn reading(file: FileParameter, rule: RuleScope) -> Self {
        Self { kind: ToolKind::Reader, file, rule, is_read_only: true, ..Self::UNKNOWN }
    }

    const fn writing(file: FileParameter, effect: CallEffect, view: CallView) -> Self {
        let (kind, rule) = (ToolKind::Writer, RuleScope::Path);
        Self { kind, file, rule, effect, view, ..Self::UNKNOWN }
    }

    /// Returns the traits of a team tool. A call of a team tool is repeatable, because each call
    /// has its own key, and the team recognises a repeated call by this key.
    const fn of_team(kind: ToolKind, effect: CallEffect) -> Self {
        let rule = RuleScope::WholeTool;
        Self { kind, rule, effect, is_repeatable: true, ..Self::UNKNOWN }
    }

    const fn in_blocks(self) -> Self {
        Self { result: ResultForm::Blocks, ..self }
    }
}

impl ToolDescriptor {
    /// Finds the tool with this name or alias. Returns `None` for a tool that is not in the table.
    #[must_use]
    pub fn find(tool: &str) -> Option<&'static Self> {
        let mut all = Self::own().iter().chain(Self::of_client());
        all.find(|known| known.name == tool || known.alias == Some(tool))
    }

    /// Returns the tools that pitcrew's agents can have.
    #[must_use]
    pub fn own() -> &'static [Self] {
        &OWN
    }

    /// Returns the tools of the reference client that pitcrew does not have. Users of the reference
    /// client have permission rules for these tools, and pitcrew reads the rules. Some of the rules
    /// also apply to pitcrew's tools: if a rule denies a call of MultiEdit, the same call of Edit
    /// is denied too.
    #[must_use]
    pub fn of_client() -> &'static [Self] {
        &OF_CLIENT
    }

    const fn new(name: &'static str, schema: fn() -> Value, traits: ToolTraits) -> Self {
        Self { name, alias: None, schema: Some(schema), traits }
    }

    const fn foreign(name: &'static str, traits: ToolTraits) -> Self {
        Self { name, alias: None, schema: None, traits }
    }
}

/// Returns the tool's name in the table. For example, the alias `Agent` becomes `Task`. A name that
/// is not in the table is returned unchanged.
#[must_use]
pub fn canonical_tool(tool: &str) -> &str {
    ToolDescriptor::find(tool).map_or(tool, |found| found.name)
}

/// The traits of one agent's tools, by tool name. The tools include those that were added at run
/// time. For a tool that is not in the set, the traits come from the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSet(BTreeMap<String, ToolTraits>);

impl ToolSet {
    /// Returns the traits of the tool with this name.
    #[must_use]
    pub fn traits(&self, tool: &str) -> ToolTraits {
        self.0.get(canonical_tool(tool)).copied().unwrap_or_else(|| ToolTraits::of(tool))
    }
}

impl<N: Into<String>> FromIterator<(N, ToolTraits)> for ToolSet {
    fn from_iter<I: IntoIterator<Item = (N, ToolTraits)>>(tools: I) -> Self {
        Self(tools.into_iter().map(|(name, traits)| (name.into(), traits)).collect())
    }
}

static OWN: [ToolDescriptor; 16] = [
    ToolDescriptor::new(
        name::BASH,
        schemas::bash,
        ToolTraits {
            kind: ToolKind::Shell,
            rule: RuleScope::Command,
            view: CallView::Command,
            ..ToolTraits::UNKNOWN
        },
    ),
    ToolDescriptor::new(
        name::READ,
        schemas::read,
        ToolTraits::reading(FileParameter::FilePath, RuleScope::Path),
    ),
    ToolDescriptor::new(
        name::WRITE,
        schemas::write,
        ToolTraits::writing(FileParameter::FilePath, CallEffect::WritesFile, CallView::WholeFile),
    ),
    ToolDescriptor::new(
        name::EDIT,
        schemas::edit,
        ToolTraits::writing(FileParameter::FilePath, CallEffect::EditsFile, CallView::Replacement),
    ),
    ToolDescriptor::new(
        name::GLOB,
        schemas::glob,
        ToolTraits::reading(FileParameter::FolderAndPattern, RuleScope::WholeTool),
    ),
    ToolDescriptor::new(
        name::GREP,
        schemas::grep,
        ToolTraits::reading(FileParameter::Folder, RuleScope::WholeTool),
    ),
    ToolDescriptor::new(
        name::TEAM_CREATE,
        schemas::team_create,
        ToolTraits::of_team(ToolKind::Talk, CallEffect::None).in_blocks(),
    ),
    ToolDescriptor::new(
        name::TEAM_DELETE,
        schemas::team_delete,
        ToolTraits::of_team(ToolKind::TeamControl, CallEffect::EndsTeam).in_blocks(),
    ),
    ToolDescriptor {
        name: name::TASK,
        alias: Some(name::AGENT),
        schema: Some(schemas::task),
        traits: ToolTraits {
            rule: RuleScope::AgentType,
            ..ToolTraits::of_team(ToolKind::Spawn, CallEffect::StartsAgent).in_blocks()
        },
    },
    ToolDescriptor::new(
        name::TASK_CREATE,
        schemas::task_create,
        ToolTraits::of_team(ToolKind::Talk, CallEffect::CreatesTask),
    ),
    ToolDescriptor::new(
        name::TASK_GET,
        schemas::task_get,
        ToolTraits {
            is_read_only: true,
            ..ToolTraits::of_team(ToolKind::Talk, CallEffect::ChecksTasks)
        },
    ),
    ToolDescriptor::new(
        name::TASK_UPDATE,
        schemas::task_update,
        ToolTraits::of_team(ToolKind::Talk, CallEffect::ChangesTask),
    ),
    ToolDescriptor::new(
        name::TASK_LIST,
        schemas::task_list,
        ToolTraits {
            is_read_only: true,
            ..ToolTraits::of_team(ToolKind::Talk, CallEffect::ChecksTasks)
        },
    ),
    ToolDescriptor::new(
        name::SEND_MESSAGE,
        schemas::send_message,
        ToolTraits::of_team(ToolKind::Talk, CallEffect::SendsMessage).in_blocks(),
    ),
    ToolDescriptor::new(
        name::EXIT_PLAN_MODE,
        schemas::exit_plan_mode,
        ToolTraits {
            view: CallView::Plan,
            ..ToolTraits::of_team(ToolKind::ExitPlan, CallEffect::SubmitsPlan)
        },
    ),
    ToolDescriptor::new(
        name::TASK_STOP,
        schemas::task_stop,
        ToolTraits::of_team(ToolKind::TeamControl, CallEffect::None),
    ),
];

static OF_CLIENT: [ToolDescriptor; 18] = [
    ToolDescriptor::foreign(
        "MultiEdit",
        ToolTraits::writing(FileParameter::FilePath, CallEffect::None, CallView::Fields),
    ),
    ToolDescriptor::foreign(
        "NotebookEdit",
        ToolTraits::writing(FileParameter::NotebookPath, CallEffect::None, CallView::Fields),
    ),
    ToolDescriptor::foreign(
        "TaskOutput",
        ToolTraits { kind: ToolKind::Output, rule: RuleScope::WholeTool, ..ToolTraits::UNKNOWN },
    ),
    ToolDescriptor::foreign("AskUserQuestion", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("BashOutput", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("EnterPlanMode", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("KillShell", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("ListMcpResourcesTool", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("LS", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("LSP", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("MCPSearch", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("NotebookRead", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("ReadMcpResourceTool", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("Skill", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("SlashCommand", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("TodoWrite", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("WebFetch", ToolTraits::UNKNOWN),
    ToolDescriptor::foreign("WebSearch", ToolTraits::UNKNOWN),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_in_the_table_is_one_tools_own() {
        let all = || OWN.iter().chain(&OF_CLIENT);
        let names: Vec<&str> =
            all().flat_map(|tool| [tool.name].into_iter().chain(tool.alias)).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn a_file_is_named_by_tools_that_work_on_files_and_by_no_others() {
        for tool in OWN.iter().chain(&OF_CLIENT) {
            let is_about_file = matches!(tool.traits.kind, ToolKind::Reader | ToolKind::Writer);
            assert_eq!(tool.traits.file != FileParameter::None, is_about_file, "{}", tool.name);
        }
    }

    #[test]
    fn a_tool_has_one_name_in_both_dialects() {
        assert_eq!(canonical_tool(name::AGENT), name::TASK);
        assert_eq!(canonical_tool("mcp__a__b"), "mcp__a__b");
        assert_eq!(ToolTraits::of(name::AGENT), ToolTraits::of(name::TASK));
    }

    #[test]
    fn tools_that_come_at_run_time_have_traits_of_their_own() {
        let reads = ToolTraits { is_read_only: true, ..ToolTraits::UNKNOWN };
        let tools = ToolSet::from_iter([("mcp__docs__search", reads)]);
        assert!(tools.traits("mcp__docs__search").is_read_only);
        assert_eq!(tools.traits("mcp__docs__write"), ToolTraits::UNKNOWN);
        assert_eq!(tools.traits(name::AGENT).effect, CallEffect::StartsAgent);
    }
}
