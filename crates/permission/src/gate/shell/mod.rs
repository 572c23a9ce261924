//! What a shell command would do, as far as it can be told without running it.
//!
//! `reader` reads the letters into words and `script` the words into parts, `word` and `expand` say what is known of a word
//! and what it becomes, `wrapper` looks through `timeout`, `sh -c` and their like, `options` has the programs that read and
//! their options that do not, `effect` says what a command does by that table, `git` the same for git and `code` for sed, awk
//! and jq, and `writes` what the others write to. Whatever is not known for sure is a doubt, and a doubt is never allowed
//! by itself.

mod code;
mod effect;
mod expand;
mod git;
mod options;
#[cfg(test)]
mod oracle;
mod reader;
mod script;
mod shell_word;
mod wrapper;
mod writes;

pub(crate) use effect::{Effect, Reach, Reading, effect};
pub(crate) use expand::Scope;
pub(crate) use git::{History, history, is_blob, named as git_path};
pub(crate) use script::{Redirect, Script, SimpleCommand};
pub(crate) use shell_word::ShellWord;
pub(crate) use wrapper::{Inner, is_own_variable, is_safe_variable, unwrap};
pub(crate) use writes::{Written, written};
