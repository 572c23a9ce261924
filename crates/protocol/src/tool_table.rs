//! The table of tools: a descriptor for each tool, and the assumptions about a tool that is not in
//! the table.
//!
//! Code that depends on properties of a tool reads the tool's [`ToolTraits`] and does not compare
//! names. Traits can also be created at run time, for the tools of an MCP server. [`ToolSet`] holds
//! the traits of one agent's tools. The permission gate decides which calls are allowed, and each
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
    /// Another name of the same tool, in another dialect.
    pub alias: Option<&'static str>,
    /// The JSON schema of the tool's input. `None` for a tool that only the reference client has.
    pub schema: Option<fn() -> Value>,
    /// The properties of the tool's calls.
    pub traits: ToolTraits,
}

/// The properties of a tool's calls, for the code that makes, checks or shows the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTraits {
    /// The kind of the tool, for the permission gate.
    pub kind: ToolKind,
    /// The parameter that names the file or folder of a call.
    pub file: FileParameter,
    /// What a permission rule for the tool may contain in parentheses.
    pub rule: RuleScope,
    /// The effect of a call, for the agent that makes the call.
    pub effect: CallEffect,
    /// How a call is shown to a person.
    pub view: CallView,
    /// The form of the tool's results in the stream.
    pub result: ResultForm,
    /// Whether the tool's calls change nothing. Several such calls of one turn may run at the same
    /// time.
    pub is_read_only: bool,
    /// Whether a call that a crash interrupted may be made again. The team recognises the call by
    /// its key and knows what is already done.
    pub is_repeatable: bool,
}

/// The kinds of tools for the permission gate. The permission modes are defined by these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Runs shell commands.
    Shell,
    /// Reads files.
    Reader,
    /// Changes one file.
    Writer,
    /// Starts an agent.
    Spawn,
    /// Creates the team, sends messages or uses the task list, and changes nothing else.
    Talk,
    /// Deletes a team or stops an agent.
    TeamControl,
    /// Asks to leave plan mode.
    ExitPlan,
    /// Reads the output of a background task.
    Output,
    /// Any other tool.
    Other,
}

/// The parameter that names the file or folder of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileParameter {
    /// No parameter names a file or folder.
    None,
    /// The parameter `file_path`.
    FilePath,
    /// The parameter `notebook_path`.
    NotebookPath,
    /// The parameter `path`, otherwise the working folder.
    Folder,
    /// The parameter `path`, followed by the folder with which the parameter `pattern` begins.
    FolderAndPattern,
}

/// What a permission rule for a tool may contain in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// Nothing: a rule with parentheses would match no call.
    WholeTool,
    /// A shell command.
    Command,
    /// A pattern of paths.
    Path,
    /// An agent type.
    AgentType,
    /// Something that the permission gate cannot check.
    Unchecked,
}

/// The effect of a call, for the agent that makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEffect {
    /// No effect except the result.
    None,
    /// Writes a whole file. After a crash, the file shows whether the write was done.
    WritesFile,
    /// Replaces text in a file. After a crash, the file shows whether the replacement was done.
    EditsFile,
    /// Submits a plan. When a teammate submits a plan, the result names the approval request.
    SubmitsPlan,
    /// Sends a message, which may answer a request to shut down.
    SendsMessage,
    /// Starts an agent: a teammate if the call gives a name, otherwise a subagent.
    StartsAgent,
    /// Adds a task to the team's list.
    CreatesTask,
    /// Changes a task.
    ChangesTask,
    /// Checks the progress of other agents' tasks. Repeated calls are useful.
    ChecksTasks,
    /// Ends the team.
    EndsTeam,
}

/// The form in which a call is shown to a person who decides about the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallView {
    /// Each parameter separately.
    Fields,
    /// The parameter `command` as text.
    Command,
    /// The parameter `content` as a diff against the current file.
    WholeFile,
    /// The replaced text as a diff against the current file.
    Replacement,
    /// The parameter `plan` as text.
    Plan,
}

/// The form of a tool's results in the stream (`fixtures/claude-2.1.39/stream-json`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultForm {
    /// A text.
    Text,
    /// A list of blocks, unless the call failed.
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

    /// Returns the traits of a team tool. Its calls are repeatable, because the team recognises
    /// each call by its key.
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

    /// Returns the reference client's tools that pitcrew does not have. Users of the reference
    /// client have permission rules for these tools. Such rules are read, and some of them also
    /// apply to our tools: a call that a rule denies to MultiEdit is denied to Edit too.
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

/// Returns the tool's name in the table. For example, `Agent` of the session dialect becomes
/// `Task`.
#[must_use]
pub fn canonical_tool(tool: &str) -> &str {
    ToolDescriptor::find(tool).map_or(tool, |found| found.name)
}

/// The traits of one agent's tools by name, including tools that were added at run time. For any
/// other tool, the traits come from the table.
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
