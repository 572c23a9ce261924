//! What a shell command would do, as far as it can be told without running it.
//!
//! `script` reads the syntax tree into parts, `word` says what is known of one word, `wrapper` looks
//! through `timeout`, `sh -c` and their like, `effect` knows the commands that only read, `git`
//! those of git, and `writes` what the others write to. Whatever is not known for sure is a doubt, and a doubt is never allowed by itself.

mod effect;
mod git;
#[cfg(test)]
mod oracle;
mod script;
mod word;
mod wrapper;
mod writes;

pub(crate) use effect::{Effect, Reach, effect};
pub(crate) use script::{Part, Redirect, Script};
pub(crate) use word::Word;
pub(crate) use wrapper::{Inner, is_own_variable, is_safe_variable, unwrap};
pub(crate) use writes::{Written, written};
