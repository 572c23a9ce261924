//! What kinds of agents there are, and what the project tells every one of them.
//!
//! `agent` is one definition and its file form, `catalog` finds and looks them up, `instructions` reads
//! `CLAUDE.md` and `AGENTS.md`. Spawning is done elsewhere.

mod catalog;
mod instructions;

pub(crate) use catalog::definitions_digest;
pub use catalog::{Definitions, UnknownAgentType};
pub use instructions::{Instruction, InstructionSources, Instructions};
pub use pitcrew_permission::agent_files::{
    AgentDefinition, AgentFiles, DefinitionError, DefinitionFault, Origin,
};
