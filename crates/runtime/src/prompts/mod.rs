//! The prompts for agents. Each prompt is one Markdown file in this folder.
//!
//! A file can contain `{{name}}` placeholders. The module `prompt` names the files and fills the
//! placeholders.

mod prompt;

pub(crate) use prompt::PlanApprover;
pub use prompt::{Prompt, RenderError};
