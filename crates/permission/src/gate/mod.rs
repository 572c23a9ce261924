//! The permission gate decides whether a tool call is allowed, is denied, or needs the decision of
//! a person or of the lead. It checks the permission mode first and then the rules.
//!
//! - `judge` decides.
//! - `rules` and `paths` determine which calls and files a rule matches.
//! - `shell` parses commands.
//! - `bash` judges calls of the tool Bash, and `files` judges calls of the tools that read or
//!   change files.
//! - `condition` matches calls with rules that are not the gate's own.
//! - `allowing` finds rules that would allow a call, and `in_force` lists the rules.
//! - `guarded` protects the team's own files and the user's settings. No rule and no mode allows an
//!   agent to change them.
//!
//! A project also contains files that control the permissions of agents. An agent can change these
//! files without asking only in the mode `bypassPermissions`, or under a rule that contains
//! `.claude`.
//!
//! Judging a call changes nothing and starts no program. It reads the file system, mainly to
//! resolve symbolic links. The code that runs the agent decides whom to ask and how.

mod allowing;
mod bash;
mod condition;
mod copies;
mod denied;
mod files;
mod git_index;
mod git_programs;
mod guarded;
mod history;
mod in_force;
mod judge;
mod need;
mod overlap;
mod paths;
mod programs;
mod repositories;
mod rules;
mod shell;
mod steps;
mod tools;

pub use allowing::{AllowingRules, allow_flag};
pub use condition::CallCondition;
pub use in_force::{RuleInForce, RuleList};
pub use judge::DEFAULT_TYPE;
pub use judge::{Call, Gate, Judged, Spawns, UpdateError, Verdict};
pub use paths::{expand_home, resolve};
pub use rules::{RuleError, RuleFault};
pub use tools::offers;
