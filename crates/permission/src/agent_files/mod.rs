//! The files that define kinds of agents. What such a file grants counts only when its project is
//! trusted.

mod definition;
mod folder;

pub use definition::{AgentDefinition, DefinitionError, DefinitionFault, Origin};
pub use folder::AgentFiles;
