//! The files that define types of agents. The rights that a project's definition file grants are
//! valid only if the user trusts the project.

mod definition;
mod folder;

pub use definition::{AgentDefinition, DefinitionError, DefinitionFault, Origin};
pub use folder::{AgentFiles, DEFINITION_BYTES, DEFINITIONS, DEFINITIONS_BYTES, UNUSABLE};
