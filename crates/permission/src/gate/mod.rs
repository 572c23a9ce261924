//! The gate every tool call passes: mode, then rules, then ask.
//!
//! `judge` decides, `rules` and `paths` say what a rule speaks of, `shell` reads commands, `bash` and
//! `files` judge the calls of those tools; `allowing` finds the rules that would allow one; `guarded` is what no rule or mode opens. What decides in a project what agents may
//! do is opened by no mode but `bypassPermissions`, and by a rule only that has `.claude` in it. Judging changes nothing and
//! runs nothing; it reads the file system only to follow symbolic links. Who is asked, and how, is the agent's business.

mod allowing;
mod bash;
mod copies;
mod denied;
mod files;
mod git_index;
mod git_programs;
mod guarded;
mod history;
mod judge;
mod need;
mod paths;
mod programs;
mod rules;
mod shell;
mod steps;
mod tools;

pub use allowing::{AllowingRules, allow_flag};
pub use judge::DEFAULT_TYPE;
pub use judge::{Call, Gate, Judged, Spawns, UpdateError, Verdict};
pub use paths::{expand_home, resolve};
pub use rules::{RuleError, RuleFault};
pub use tools::offers;
