//! The types of agents that exist, and the instructions that every agent receives from the user and
//! the project.
//!
//! `agent` parses one definition file, `catalog` finds definitions by name, and `instructions`
//! reads `CLAUDE.md` and `AGENTS.md`. Other modules spawn agents from these definitions.

mod catalog;
mod instructions;

pub(crate) use catalog::definitions_digest;
pub use catalog::{Definitions, UnknownAgentType};
pub use instructions::{Instruction, InstructionSources, Instructions};
pub use pitcrew_permission::agent_files::{
    AgentDefinition, AgentFiles, DefinitionError, DefinitionFault, Origin,
};
