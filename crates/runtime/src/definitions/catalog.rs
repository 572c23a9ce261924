//! All agent definitions. They come from three sources: pitcrew itself (built-in definitions), the
//! user, and the project, in this order. If two definitions have the same name, the later source
//! wins.

use std::collections::BTreeMap;
use std::path::Path;

use pitcrew_protocol::tool_name::{BASH, GLOB, GREP, READ};
use serde_json::Map;
use sha2::{Digest as _, Sha256};

use pitcrew_permission::agent_files::{AgentDefinition, AgentFiles, DefinitionError, Origin};
use pitcrew_process::given_file::Given;

use crate::prompts::Prompt;

/// The tools of the built-in agent types that must not change any file. The prompts of these types
/// forbid commands that change anything.
const READING_TOOLS: [&str; 4] = [READ, GLOB, GREP, BASH];

/// The agent types that can be spawned.
#[derive(Debug)]
pub struct Definitions {
    by_name: BTreeMap<String, AgentDefinition>,
    warnings: Vec<DefinitionError>,
}

/// The error for an unknown agent type. It lists the types that exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent type `{name}`; there are: {}", valid.join(", "))]
pub struct UnknownAgentType {
    /// The unknown name that was requested.
    pub name: String,
    /// The names of the existing agent types, sorted.
    pub valid: Vec<String>,
}

/// Returns a digest of the agent definitions of a root folder and of a project. Definitions also
/// limit what a member is allowed to do, so pitcrew must notice when they change.
pub(crate) fn definitions_digest(root: &Path, project: &AgentFiles) -> String {
    let of_user = AgentFiles::read(Given::ByUser, &root.join("agents"), Origin::User);
    let digest = Sha256::digest(format!("{of_user:?} {project:?}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Definitions {
    /// Loads all definitions: first the built-in types, then the user's files
    /// (`<root>/agents/*.md`), then the project's files. A later definition replaces an earlier one
    /// of the same name. A file that cannot be used adds a warning, and the other files are still
    /// loaded.
    #[must_use]
    pub fn load(root: Option<&Path>, project: AgentFiles) -> Self {
        let mut definitions = Self { by_name: BTreeMap::new(), warnings: Vec::new() };
        definitions.add(built_in());
        if let Some(root) = root {
            let found = AgentFiles::read(Given::ByUser, &root.join("agents"), Origin::User);
            definitions.add(found.agents);
            definitions.warnings.extend(found.warnings);
        }
        // Add the project's definitions last, because they replace others of the same name.
        definitions.add(project.agents);
        definitions.warnings.extend(project.warnings);
        definitions
    }

    /// Finds an agent type by name.
    ///
    /// # Errors
    /// If no type has this name. The error lists the existing types.
    pub fn get(&self, name: &str) -> Result<&AgentDefinition, UnknownAgentType> {
        self.by_name.get(name).ok_or_else(|| UnknownAgentType {
            name: name.to_owned(),
            valid: self.by_name.keys().cloned().collect(),
        })
    }

    /// Iterates over all agent types, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.by_name.values()
    }

    /// Returns the errors of the definition files that could not be used.
    #[must_use]
    pub fn warnings(&self) -> &[DefinitionError] {
        &self.warnings
    }

    fn add(&mut self, agents: impl IntoIterator<Item = AgentDefinition>) {
        self.by_name.extend(agents.into_iter().map(|agent| (agent.name.clone(), agent)));
    }
}

fn built_in() -> [AgentDefinition; 3] {
    let agent =
        |name: &str, description: &str, tools: Option<&[&str]>, prompt: Prompt| AgentDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            tools: tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect()),
            disallowed_tools: Vec::new(),
            model: None,
            permission_mode: None,
            color: None,
            program: None,
            prompt: prompt.text().to_owned(),
            origin: Origin::BuiltIn,
            other: Map::new(),
        };
    [
        agent(
            "general-purpose",
            "Does a whole job on its own, with every tool.",
            None,
            Prompt::GeneralPurpose,
        ),
        agent(
            "Explore",
            "Finds things in the code and reports them; only reads.",
            Some(&READING_TOOLS),
            Prompt::Explore,
        ),
        agent(
            "Plan",
            "Designs how a change should be made; only reads.",
            Some(&READING_TOOLS),
            Prompt::PlanAgent,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_project_wins_over_the_user_and_both_over_the_built_in() {
        let dir = tempfile::tempdir().unwrap();
        let (project, root) = (dir.path().join("project"), dir.path().join("root"));
        fs::create_dir_all(project.join(".claude/agents")).unwrap();
        fs::create_dir_all(root.join("agents")).unwrap();
        let agent =
            |name: &str, body: &str| format!("---\nname: {name}\ndescription: d\n---\n{body}");
        fs::write(root.join("agents/a.md"), agent("a", "user")).unwrap();
        fs::write(root.join("agents/p.md"), agent("Plan", "user")).unwrap();
        fs::write(project.join(".claude/agents/other.md"), agent("a", "project")).unwrap();
        fs::write(project.join(".claude/agents/bad.md"), "nothing").unwrap();
        fs::write(project.join(".claude/agents/notes.txt"), "nothing").unwrap();
        let agents =
            AgentFiles::read(Given::ByUser, &project.join(".claude/agents"), Origin::Project);
        let definitions = Definitions::load(Some(&root), agents);
        assert_eq!(definitions.get("a").unwrap().prompt, "project");
        assert_eq!(definitions.get("Plan").unwrap().prompt, "user");
        assert_eq!(definitions.warnings().len(), 1);
        assert!(definitions.warnings().first().unwrap().path.ends_with("bad.md"));
    }

    #[test]
    fn an_unknown_type_lists_the_valid_ones() {
        let definitions = Definitions::load(None, AgentFiles::default());
        let error = definitions.get("explore").unwrap_err();
        insta::assert_snapshot!(error, @"unknown agent type `explore`; there are: Explore, Plan, general-purpose");
    }

    #[test]
    fn the_reading_types_cannot_write() {
        let definitions = Definitions::load(None, AgentFiles::default());
        for name in ["Explore", "Plan"] {
            let agent = definitions.get(name).unwrap();
            assert!(agent.has_tool("Read") && !agent.has_tool("Write") && !agent.has_tool("Edit"));
        }
    }
}
