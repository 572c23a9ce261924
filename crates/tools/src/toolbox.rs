//! The set of tools of one agent.

use std::sync::Arc;

use serde_json::Value;

use super::{Bash, Edit, Glob, Grep, Read, TaskStop, Tool, ToolContext, ToolOutcome, Write};

/// Returns the tools for commands, files and searches, which every agent can have.
pub fn plain_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Bash),
        Arc::new(Read),
        Arc::new(Write),
        Arc::new(Edit),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(TaskStop),
    ]
}

/// Tools by name, in the order in which models see them.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// Creates a set of tools. If two tools have the same name, the first one is kept and the other
    /// ignored.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut toolbox = Self::default();
        for tool in tools {
            if toolbox.get(tool.name()).is_none() {
                toolbox.tools.push(tool);
            }
        }
        toolbox
    }

    /// Returns the tool with this name, or `None` if there is no such tool.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// Returns all tools, in the order in which models see them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Returns the tool with this name.
    ///
    /// # Errors
    /// When there is no tool with this name. The outcome lists the names of all tools.
    pub fn find(&self, name: &str) -> Result<&Arc<dyn Tool>, ToolOutcome> {
        self.get(name).ok_or_else(|| {
            let names: Vec<_> = self.iter().map(|tool| tool.name()).collect();
            ToolOutcome::refused(format_args!(
                "Error: No such tool available: {name}. There are: {}",
                names.join(", ")
            ))
        })
    }

    /// Calls the tool with this name. If there is no such tool, returns a failed outcome that lists
    /// the names of all tools.
    pub async fn call(&self, name: &str, input: Value, context: &ToolContext) -> ToolOutcome {
        match self.find(name) {
            Ok(tool) => tool.call(input, context).await,
            Err(unknown) => unknown,
        }
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter().map(|tool| tool.name())).finish()
    }
}
