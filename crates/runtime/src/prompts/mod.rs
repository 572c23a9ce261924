//! What agents are told about their part, one Markdown file each, in this folder.
//!
//! A file may hold `{{name}}` placeholders; `prompt` says which file is which and fills them in.

mod prompt;

pub(crate) use prompt::PlanApprover;
pub use prompt::{Prompt, RenderError};
