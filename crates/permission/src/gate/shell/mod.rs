//! Determines the effect of a shell command without running the command.
//!
//! - `reader` splits the text into words, `script` groups words into commands.
//! - `ansi` decodes the quotes `$'...'`.
//! - `shell_word` and `expand` determine how much of a word is known and to which words it expands.
//! - `wrapper` finds the inner command of `timeout`, `sh -c` and similar commands.
//! - `unread` finds scripts that a command is fed, and commands that cannot be read.
//! - `options` is a table of programs that only read files, with their options.
//! - `effect` classifies a command by that table, `git` classifies git commands, and `code` checks
//!   sed, awk and jq programs.
//! - `writes` lists the files that a command changes.
//!
//! Everything uncertain is recorded as a doubt. A command with a doubt is never allowed without a
//! rule or an approval.

mod ansi;
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
mod unread;
mod wrapper;
mod writes;

pub(crate) use effect::{Effect, Reach, Reading, effect, is_known_name};
pub(crate) use expand::Scope;
pub(crate) use git::{History, history, is_blob, named as git_path, verb as git_verb};
pub(crate) use script::{Assigned, Redirect, Script, SimpleCommand, Values};
pub(crate) use shell_word::ShellWord;
pub(crate) use unread::{fed, filled};
pub(crate) use wrapper::{Inner, is_own_variable, is_safe_variable, unwrap};
pub(crate) use writes::{Written, written};
