//! The types of agents that exist, and the instructions that every agent receives from the user and
//! the project.
//!
//! `agent` parses one definition file, `catalog` finds definitions and looks them up by name,
//! `instructions` reads `CLAUDE.md` and `AGENTS.md`. Spawning happens in other modules.

mod catalog;
mod instructions;

pub(crate) use catalog::definitions_digest;
pub use catalog::{Definitions, UnknownAgentType};
pub use instructions::{Instruction, InstructionSources, Instructions};
pub use pitcrew_permission::agent_files::{
    AgentDefinition, AgentFiles, DefinitionError, DefinitionFault, Origin,
};
