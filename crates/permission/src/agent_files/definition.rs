//! Agent definitions. A definition is a Markdown file: its front matter describes the agent, and
//! its body is the system prompt.

use std::path::{Path, PathBuf};

use pitcrew_process::given_file::Refused;
use pitcrew_protocol::{PermissionMode, Program, YamlBounds, from_yaml};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A type of agent that can be spawned.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentDefinition {
    /// The name of the agent type. A request to spawn an agent contains this name.
    pub name: String,
    /// When to use this agent type. The model that spawns agents reads this text.
    pub description: String,
    /// The tools the agent has. `None` means all tools.
    pub tools: Option<Vec<String>>,
    /// The tools the agent does not have, even if `tools` names them.
    pub disallowed_tools: Vec<String>,
    /// The model the agent runs on. `None` means the model of the agent that spawns it.
    pub model: Option<String>,
    /// The permission mode the agent starts in. `None` means the permission mode of the agent that
    /// spawns it.
    pub permission_mode: Option<PermissionMode>,
    /// The color in which the agent is displayed.
    pub color: Option<String>,
    /// The client program that runs the agent. `None` means the default program of the run.
    pub program: Option<Program>,
    /// The system prompt of the agent.
    pub prompt: String,
    /// Where the definition was found.
    pub origin: Origin,
    /// All other fields of the front matter.
    pub other: Map<String, Value>,
}

/// Where a definition comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The definition is built into pitcrew.
    BuiltIn,
    /// The definition is in a file of the user, at this path.
    User(PathBuf),
    /// The definition is in a file of the project, at this path.
    Project(PathBuf),
}

/// The error for a definition file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the agent definition {}", path.display())]
pub struct DefinitionError {
    /// The path of the definition file.
    pub path: PathBuf,
    /// The reason why the file cannot be used.
    #[source]
    pub fault: DefinitionFault,
}

/// The possible problems of a definition file.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionFault {
    /// The file or its folder cannot be read, or the path does not lead to a plain file.
    #[error(transparent)]
    Read(#[from] Refused),
    /// The folder has too many definition files. The number is the maximum.
    #[error("it has more than {0} definitions, and the others are ignored")]
    TooMany(usize),
    /// The files of the folder are too long together. The number is the maximum in bytes.
    #[error("its definitions are longer than {0} bytes together, and the others are ignored")]
    TooLong(u64),
    /// Too many files of the folder cannot be used. The number is the maximum.
    #[error("{0} of its definitions cannot be used, and those after them are not read")]
    Unusable(usize),
    /// The file does not begin with front matter between two lines of `---`.
    #[error("it has no front matter")]
    NoFrontMatter,
    /// The front matter is not YAML.
    #[error("its front matter is not valid yaml: {0}")]
    Yaml(String),
    /// The front matter does not have a required field, or a field has the wrong type.
    #[error("its front matter is invalid")]
    Shape(#[source] serde_json::Error),
    /// The name contains characters that are not allowed in names.
    #[error("`{0}` is not a name: letters, digits, `-` and `_` are allowed")]
    Name(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrontMatter {
    name: String,
    description: String,
    #[serde(default)]
    tools: Option<Tools>,
    #[serde(default)]
    disallowed_tools: Option<Tools>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    permission_mode: Option<PermissionMode>,
    #[serde(default)]
    color: Option<String>,
    #[serde(default)]
    program: Option<Program>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tools {
    Line(String),
    List(Vec<String>),
}

impl AgentDefinition {
    /// Parses a definition file's text.
    pub(super) fn parse(text: &str, origin: Origin) -> Result<Self, DefinitionFault> {
        let (front, body) = split(text).ok_or(DefinitionFault::NoFrontMatter)?;
        let value: Value =
            from_yaml(front, YamlBounds::FRONT_MATTER).map_err(DefinitionFault::Yaml)?;
        let front: FrontMatter = serde_json::from_value(value).map_err(DefinitionFault::Shape)?;
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        if front.name.is_empty() || !front.name.chars().all(is_name) {
            return Err(DefinitionFault::Name(front.name));
        }
        Ok(Self {
            name: front.name,
            description: front.description,
            tools: front.tools.and_then(Tools::names),
            disallowed_tools: front.disallowed_tools.map_or_else(Vec::new, Tools::all),
            // In the reference client, `inherit` means the model of the spawning agent. A missing
            // `model` field means the same.
            model: front.model.filter(|model| model != "inherit"),
            permission_mode: front.permission_mode,
            color: front.color,
            program: front.program,
            prompt: body.trim().to_owned(),
            origin,
            other: front.other,
        })
    }

    /// Returns the path of the file from which the definition was read, or `None` for a built-in
    /// definition.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.origin {
            Origin::BuiltIn => None,
            Origin::User(path) | Origin::Project(path) => Some(path),
        }
    }

    /// Returns true if the definition gives the tool to agents of this type.
    #[must_use]
    pub fn has_tool(&self, tool: &str) -> bool {
        // In `disallowed_tools`, a rule such as `Bash(git:*)` forbids the whole tool, because a
        // definition cannot restrict single calls.
        let names = |name: &str| {
            name == "*" || name.split('(').next().is_some_and(|it| it.eq_ignore_ascii_case(tool))
        };
        let is_disallowed = self.disallowed_tools.iter().any(|name| names(name));
        !is_disallowed
            && self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool))
    }
}

impl Tools {
    fn all(self) -> Vec<String> {
        let names: Vec<String> = match self {
            Self::Line(line) => line.split(',').map(|name| name.trim().to_owned()).collect(),
            Self::List(names) => names,
        };
        names.into_iter().filter(|name| !name.is_empty()).collect()
    }

    fn names(self) -> Option<Vec<String>> {
        let names = self.all();
        // A list that contains `*` means all tools. A missing list means the same, so return
        // `None`.
        (!names.iter().any(|name| name == "*")).then_some(names)
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    // Some editors write a byte order mark at the start of a file.
    let text = text.trim_start_matches('\u{feff}');
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((rest.get(..at)?, rest.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AgentDefinition, DefinitionFault> {
        AgentDefinition::parse(text, Origin::BuiltIn)
    }

    #[test]
    fn a_definition_is_read_whole() {
        let agent = parse(
            "---\nname: reviewer\ndescription: \"Reviews: all\"\ntools: Read, Grep,Glob\nmodel: opus\npermissionMode: plan\nprogram: claude\ncolor: red\nskills: [a]\n---\n\nYou review.\n---\nReally.\n",
        )
        .unwrap();
        assert_eq!((agent.name.as_str(), agent.description.as_str()), ("reviewer", "Reviews: all"));
        assert_eq!(agent.tools.as_deref().unwrap(), ["Read", "Grep", "Glob"]);
        assert_eq!(agent.model.as_deref(), Some("opus"));
        assert_eq!(agent.permission_mode, Some(PermissionMode::Plan));
        assert_eq!(agent.program, Some(Program::Claude));
        assert_eq!(agent.prompt, "You review.\n---\nReally.");
        assert_eq!(agent.other.get("skills"), Some(&serde_json::json!(["a"])));
        assert!(agent.has_tool("Grep") && !agent.has_tool("Bash"));
    }

    #[test]
    fn a_tool_that_is_disallowed_is_not_there() {
        for disallowed in ["Bash", "[bash]", "Edit, Bash(rm:*)", "'*'"] {
            let agent = parse(&format!(
                "---\nname: a\ndescription: b\ndisallowedTools: {disallowed}\n---\nx"
            ))
            .unwrap();
            assert!(!agent.has_tool("Bash"), "{disallowed}");
            assert_eq!(agent.has_tool("Read"), disallowed != "'*'", "{disallowed}");
        }
        for odd in ["7", "[Bash, 7]", "{Bash: true}"] {
            parse(&format!("---\nname: a\ndescription: b\ndisallowedTools: {odd}\n---\nx"))
                .unwrap_err();
        }
    }

    #[test]
    fn tools_may_be_a_list_a_star_or_absent() {
        let tools = |line: &str| {
            parse(&format!("---\nname: a\ndescription: b\n{line}\n---\nx")).unwrap().tools
        };
        assert_eq!(tools("tools: [Read, Bash]"), Some(vec!["Read".to_owned(), "Bash".to_owned()]));
        assert_eq!(tools("tools:\n  - Read"), Some(vec!["Read".to_owned()]));
        assert_eq!(tools("tools: \"*\""), None);
        assert_eq!(tools("model: inherit"), None);
        assert_eq!(tools("tools: []"), Some(Vec::new()));
    }

    #[test]
    fn malformed_definitions_say_why() {
        for (text, fault) in [
            ("You review.", "it has no front matter"),
            ("---\nname: a\n", "it has no front matter"),
            ("---\nname: a\n---\n", "its front matter is invalid"),
            (
                "---\nname: ../a\ndescription: b\n---\n",
                "`../a` is not a name: letters, digits, `-` and `_` are allowed",
            ),
            (
                "---\nname: a\ndescription: b\npermissionMode: yolo\n---\n",
                "its front matter is invalid",
            ),
            ("---\nname: a\ndescription: b\nprogram: emacs\n---\n", "its front matter is invalid"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), fault, "{text}");
        }
        assert!(matches!(parse("---\nname: [\n---\n"), Err(DefinitionFault::Yaml(_))));
    }
}
