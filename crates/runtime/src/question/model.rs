//! A question for permission and its possible answers.

use std::path::{Path, PathBuf};

use pitcrew_permission::gate::AllowingRules;
use pitcrew_protocol::{AgentName, CallView, ToolTraits, tool_name};
use serde_json::Value;

use super::Digest;
use super::content::{self, Kind, Line};
use super::visible::visible;

/// Maximum number of characters shown of the agent's own description of its call.
const SAYS_CHARS: usize = 160;

/// A question for permission to make a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionQuestion {
    /// The agent that wants to make the call.
    pub asker: AgentName,
    /// The tool.
    pub tool: String,
    /// The folder in which the call is made.
    pub folder: String,
    /// The reason for asking, as text. Empty if the call alone explains it.
    pub reason: String,
    /// The whole call, as lines.
    pub lines: Vec<Line>,
    /// The permissions that the user can give for later calls too.
    pub offers: Vec<Offer>,
    digest: Digest,
}

/// A permission for later calls too, at least for this run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Offer {
    /// Exactly this call, in this folder.
    Exactly {
        /// The rule for exactly this call, if a rule can express it. Only then can the answer be
        /// saved.
        rule: Option<String>,
    },
    /// All calls that a rule matches, such as `Bash(npm test:*)`.
    Rule(String),
    /// All edits of files in the working folder by this agent.
    Edits,
}

impl Offer {
    /// Describes the permission for a reader who does not see the question. Returns the rule of the
    /// permission. If there is no rule, returns a text that names the tool.
    #[must_use]
    pub fn allows(&self, tool: &str) -> String {
        match self {
            Self::Exactly { rule: Some(rule) } | Self::Rule(rule) => rule.clone(),
            Self::Exactly { rule: None } => format!("this very call of {tool}"),
            Self::Edits => "all edits in its folder, and commands that only write there".to_owned(),
        }
    }

    /// Returns true if the agent stores the permission in its conversation, so that it is still
    /// valid after a resume.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match self {
            Self::Exactly { .. } => false,
            Self::Rule(_) | Self::Edits => true,
        }
    }

    /// Returns the rule that is written to the settings when the answer is saved. Returns `None` if
    /// the permission is valid only for this run.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Exactly { rule } => rule.as_deref(),
            Self::Rule(rule) => Some(rule),
            Self::Edits => None,
        }
    }
}

/// A person's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Allows this one call.
    Once,
    /// Allows this call and later ones.
    Always {
        /// The permission for later calls. It is one of the question's offers.
        offer: Offer,
        /// How long the permission is valid.
        keep: Keep,
    },
    /// Denies the call.
    No {
        /// The reason, for the model.
        reason: Option<String>,
    },
}

/// How long a permission for more than one call is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// For this run only.
    Run,
    /// For this run, and through the user's settings for later runs.
    Saved,
}

/// A call that needs a question.
#[derive(Clone, Debug)]
pub struct AskedCall<'a> {
    /// The agent that wants to make the call.
    pub asker: &'a AgentName,
    /// The tool of the call.
    pub tool: &'a str,
    /// The input of the call.
    pub input: &'a Value,
    /// The folder in which the call is made, as an absolute path.
    pub folder: &'a Path,
    /// The file that the call would change, with the path that the gate has judged. `None` if the
    /// call changes no file.
    pub file: Option<AskedFile>,
    /// The reason for asking. The agent's own words in it are left out.
    pub reason: &'a str,
    /// The agent's description of the call, if it is not part of the input.
    pub says: Option<&'a str>,
    /// The rules that would allow the call.
    pub rules: AllowingRules,
}

/// The file that a call would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFile {
    /// The file's path with all links resolved. The file is shown only if it exists and its path
    /// contains no link now.
    pub real: PathBuf,
    /// Whether the path in the call contains a link.
    pub is_by_link: bool,
}

impl PermissionQuestion {
    /// Creates the question. For a file change, this function reads the current file, so it may
    /// block.
    #[must_use]
    pub fn of(call: AskedCall<'_>) -> Self {
        let AskedCall { asker, tool, input, folder, file, reason, says, rules } = call;
        let one_line = |text: &str| visible(text.trim()).replace('\n', " ");
        // The agent's words go on one line, so that they cannot imitate other parts of the
        // question.
        let says = says.or_else(|| described(input)).map(&one_line).filter(|says| !says.is_empty());
        let mut lines = content::lines(tool, input, file.as_ref());
        lines.extend(
            says.map(|says| Line {
                kind: Kind::Note,
                text: format!("it says: {}", shortened(&says)),
            }),
        );
        let mut question = Self {
            asker: asker.clone(),
            tool: one_line(tool),
            folder: one_line(&folder.to_string_lossy()),
            reason: one_line(own_reason(tool, input, reason)),
            lines,
            offers: offers(tool, rules),
            digest: Digest::of_call(tool, input),
        };
        // Include the shown text too: if the file changes meanwhile, an answer to the old text is
        // rejected.
        question.digest = question.digest_of_all();
        question
    }

    /// Returns the digest of all shown text and of the call itself. An answer with another digest
    /// belongs to another question.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns true if the question is about approving a plan.
    #[must_use]
    pub fn is_plan(&self) -> bool {
        ToolTraits::of(&self.tool).view == CallView::Plan
    }

    /// Returns one line that names the asking agent and its request.
    #[must_use]
    pub fn heading(&self) -> String {
        let asker = visible(self.asker.as_str());
        if self.is_plan() {
            return format!("{asker} asks you to approve its plan");
        }
        format!("{asker} asks permission for {}", self.tool)
    }

    /// Returns the folder of the call and the reason for asking, as lines to show before the call.
    #[must_use]
    pub fn notes(&self) -> Vec<Line> {
        let note = |text: String| Line { kind: Kind::Note, text };
        let because = (!self.reason.is_empty()).then(|| note(format!("because {}", self.reason)));
        std::iter::once(note(format!("in {}", self.folder))).chain(because).collect()
    }

    fn digest_of_all(&self) -> Digest {
        let heading = self.heading();
        let offers: Vec<String> = self.offers.iter().map(|offer| format!("{offer:?}")).collect();
        let lines: Vec<String> =
            self.lines.iter().map(|line| format!("{:?} {}", line.kind, line.text)).collect();
        let first = [self.digest.as_str(), &heading, &self.folder, &self.reason];
        let rest = offers.iter().chain(&lines).map(String::as_str);
        Digest::of_texts(first.into_iter().chain(rest))
    }
}

/// Returns the model's own description of its command.
fn described(input: &Value) -> Option<&str> {
    input.get("command")?;
    input.get("description").and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the part of a reason that is neither the agent's own words nor already visible in the
/// call.
fn own_reason<'a>(tool: &str, input: &Value, reason: &'a str) -> &'a str {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let words = described(input).or(text("command"));
    if let Some(rest) = words.and_then(|words| reason.strip_prefix(words)) {
        let rest = rest.trim();
        return rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest);
    }
    let is_call = |(verb, about): (&str, &str)| {
        let path = text("file_path").or(text("path")).or(text("notebook_path"));
        let is_path = path.is_some_and(|path| about.ends_with(path.trim_start_matches("./")));
        (verb == "Use" && about == tool) || ((verb == tool || verb == tool_name::READ) && is_path)
    };
    if reason.split_once(' ').is_some_and(is_call) { "" } else { reason }
}

/// Shortens the agent's words to a limited length.
fn shortened(says: &str) -> String {
    if says.chars().count() <= SAYS_CHARS {
        return says.to_owned();
    }
    says.chars().take(SAYS_CHARS).chain("...".chars()).collect()
}

fn offers(tool: &str, rules: AllowingRules) -> Vec<Offer> {
    let first = match ToolTraits::of(tool).view {
        // The same edit is rarely repeated, and each plan is approved on its own, so no exact
        // permission is offered.
        CallView::Replacement | CallView::WholeFile | CallView::Plan if rules.accept_edits => {
            Some(Offer::Edits)
        }
        CallView::Replacement | CallView::WholeFile => None,
        CallView::Fields | CallView::Command | CallView::Plan => {
            Some(Offer::Exactly { rule: rules.exact })
        }
    };
    first.into_iter().chain(rules.wider.map(Offer::Rule)).collect()
}

#[cfg(test)]
mod tests;
