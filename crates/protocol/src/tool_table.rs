//! The table of tools: one descriptor each, and what is assumed of a tool that is not in it.
//!
//! Whoever must know something of a tool reads its [`ToolTraits`] and compares no names. Traits can
//! also be made at run time, for the tools of an MCP server; [`ToolSet`] holds those of one agent.
//! What is allowed is the gate's to decide, and how a tool works is its implementation's.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schemas;
use crate::tool_name as name;

/// What is known of a tool before it is called.
#[derive(Clone, Debug)]
pub struct ToolDescriptor {
    /// Returns the tool's name, as models use it.
    pub name: &'static str,
    /// Another name of the same tool, of another dialect.
    pub alias: Option<&'static str>,
    /// The JSON schema of its input; none for a tool of the reference client only.
    pub schema: Option<fn() -> Value>,
    /// What its calls mean to those who make, judge and show them.
    pub traits: ToolTraits,
}

/// What the calls of a tool mean to those who make, judge and show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTraits {
    /// What the gate judges its calls as.
    pub kind: ToolKind,
    /// Which parameter names the file or folder that a call is about.
    pub file: FileParameter,
    /// What a permission rule for it may name in parentheses.
    pub rule: RuleScope,
    /// What a call means to the agent that makes it.
    pub effect: CallEffect,
    /// How a call is shown to a person.
    pub view: CallView,
    /// The form of its results in the stream.
    pub result: ResultForm,
    /// Whether its calls change nothing, so that several of one turn may run at the same time.
    pub is_read_only: bool,
    /// Whether a call that a crash interrupted may be made again: the team knows by its key what is
    /// done already.
    pub is_repeatable: bool,
}

/// What the gate judges calls of a tool as; the modes are written against this list.
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
    /// Anything else.
    Other,
}

/// Which parameter of a call names the file or folder that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileParameter {
    /// None.
    None,
    /// `file_path`.
    FilePath,
    /// `notebook_path`.
    NotebookPath,
    /// `path`; without it the working folder.
    Folder,
    /// `path`, and the folder that the `pattern` below it begins with.
    FolderAndPattern,
}

/// What a permission rule for a tool may name in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// Nothing: such a rule would match no call.
    WholeTool,
    /// A shell command.
    Command,
    /// A pattern of paths.
    Path,
    /// An agent type.
    AgentType,
    /// Something that the gate cannot check.
    Unchecked,
}

/// What a call means to the agent that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEffect {
    /// Nothing but its result.
    None,
    /// Writes a file whole: after a crash the file tells whether that was done.
    WritesFile,
    /// Replaces text in a file: after a crash the file tells whether that was done.
    EditsFile,
    /// Submits a plan; the result of a teammate's names the request.
    SubmitsPlan,
    /// Sends a message, which may answer a request to shut down.
    SendsMessage,
    /// Starts an agent: a teammate when the call names it, else a subagent.
    StartsAgent,
    /// Adds a task to the team's list.
    CreatesTask,
    /// Changes a task.
    ChangesTask,
    /// Looks how the tasks of others come on: to look again is its use.
    ChecksTasks,
    /// Ends the team.
    EndsTeam,
}

/// How a call is shown to a person who decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallView {
    /// Field by field.
    Fields,
    /// The `command` as text.
    Command,
    /// The `content` as a diff of the file as it is.
    WholeFile,
    /// The replaced text as a diff of the file as it is.
    Replacement,
    /// The `plan` as text.
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
    /// What is assumed of a tool of which nothing is known, such as one of an MCP server.
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

    /// The traits of the tool that is called so, by either of its names.
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

    /// A tool of the team: the team knows its calls by their key.
    const fn of_team(kind: ToolKind, effect: CallEffect) -> Self {
        let rule = RuleScope::WholeTool;
        Self { kind, rule, effect, is_repeatable: true, ..Self::UNKNOWN }
    }

    const fn in_blocks(self) -> Self {
        Self { result: ResultForm::Blocks, ..self }
    }
}

impl ToolDescriptor {
    /// The tool that is called so, by either of its names; none for one that is not in the table.
    #[must_use]
    pub fn find(tool: &str) -> Option<&'static Self> {
        let mut all = Self::own().iter().chain(Self::of_client());
        all.find(|known| known.name == tool || known.alias == Some(tool))
    }

    /// The tools that agents can have here.
    #[must_use]
    pub fn own() -> &'static [Self] {
        &OWN
    }

    /// Tools of the reference client that are not ours. Its users have rules for them, which are
    /// read, and some of these bound our tools too: what a rule for MultiEdit denies, Edit does not
    /// do.
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

/// The name by which the table has a tool: the session dialect calls Task `Agent`.
#[must_use]
pub fn canonical_tool(tool: &str) -> &str {
    ToolDescriptor::find(tool).map_or(tool, |found| found.name)
}

/// The tools of one agent by name, with those that came at run time. Of a tool that it does not
/// have, the table tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSet(BTreeMap<String, ToolTraits>);

impl ToolSet {
    /// The traits of the tool that is called so.
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
