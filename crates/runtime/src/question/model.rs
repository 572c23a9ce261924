//! A permission request for a call, and its possible answers.

use std::path::{Path, PathBuf};

use pitcrew_permission::gate::AllowingRules;
use pitcrew_protocol::{AgentName, CallView, ToolTraits, tool_name};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Digest;
use super::content::{self, Kind, Line, read_visible};
use super::visible::visible;

/// Maximum number of characters that are shown of the agent's own description of its call.
const SAYS_CHARS: usize = 160;

/// A permission request: asks a person whether an agent is allowed to make a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionQuestion {
    /// The agent that wants to make the call.
    pub asker: AgentName,
    /// The tool of the call.
    #[serde(deserialize_with = "read_visible")]
    pub tool: String,
    /// The folder in which the call is made.
    #[serde(deserialize_with = "read_visible")]
    pub folder: String,
    /// Why permission is needed, as text. The text is empty if the call alone explains the reason.
    #[serde(deserialize_with = "read_visible")]
    pub reason: String,
    /// The whole call, as lines of text.
    pub lines: Vec<Line>,
    /// The permissions for later calls. When the user allows this call, the user can also choose
    /// one of them.
    #[serde(deserialize_with = "read_offers")]
    pub offers: Vec<Offer>,
    digest: Digest,
}

/// A permission for this call and for later calls. It is valid at least for the rest of this run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// The permission covers exactly this call, in this folder.
    Exactly {
        /// The rule for exactly this call. `None` if no rule can express the call. A permission
        /// without a rule cannot be saved in the settings.
        rule: Option<String>,
    },
    /// The permission covers all calls that this rule matches, such as `Bash(npm test:*)`.
    Rule(String),
    /// The permission covers all edits of files in the working folder by this agent.
    Edits,
}

impl Offer {
    /// Describes the permission for a reader who does not see the permission request. Returns the
    /// permission's rule. If the permission has no rule, returns a text that names the tool.
    #[must_use]
    pub fn allows(&self, tool: &str) -> String {
        match self {
            Self::Exactly { rule: Some(rule) } | Self::Rule(rule) => rule.clone(),
            Self::Exactly { rule: None } => format!("this very call of {tool}"),
            Self::Edits => "all edits in its folder, and commands that only write there".to_owned(),
        }
    }

    /// Returns true if the permission is still valid after a resume, because the agent stores the
    /// permission in its conversation.
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

/// A person's answer to a permission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Allows this one call.
    Once,
    /// Allows this call and later ones.
    Always {
        /// The permission for later calls. It is one of the request's `offers`.
        offer: Offer,
        /// How long the permission is valid.
        keep: Keep,
    },
    /// Denies the call.
    No {
        /// The reason for the refusal. The model receives this text.
        reason: Option<String>,
    },
}

/// How long a permission for more than one call is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The permission is valid only for this run.
    Run,
    /// The permission is valid for this run. The user's settings keep it for later runs.
    Saved,
}

/// A call for which a person must be asked.
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
    /// The file that the call would change, with the path that the permission gate has checked.
    /// `None` if the call changes no file.
    pub file: Option<AskedFile>,
    /// Why permission is needed. If this text begins with the agent's command or the agent's
    /// description of it, that part is not shown.
    pub reason: &'a str,
    /// The agent's own description of the call, if the description is not part of the input.
    pub says: Option<&'a str>,
    /// The rules that would allow the call, and that the person can therefore choose as
    /// permissions.
    pub rules: AllowingRules,
}

/// The file that a call would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFile {
    /// The file's path with all links resolved. The file's content is shown only if the file exists
    /// and this path contains no link now.
    pub real: PathBuf,
    /// Whether the path in the call contains a link.
    pub is_by_link: bool,
}

impl PermissionQuestion {
    /// Creates the permission request. For a file change, this function reads the current file, so
    /// it may block.
    #[must_use]
    pub fn of(call: AskedCall<'_>) -> Self {
        let AskedCall { asker, tool, input, folder, file, reason, says, rules } = call;
        let one_line = |text: &str| visible(text.trim()).replace('\n', " ");
        // Put the agent's words on one line, so that they cannot imitate other parts of the
        // permission request.
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
        // The digest also covers the shown text. For a file change, the shown text depends on the
        // current file. If that file changes before the answer, the digest no longer matches and
        // the answer is rejected.
        question.digest = question.digest_of_all();
        question
    }

    /// Returns the digest of all shown text and of the call itself. An answer with another digest
    /// belongs to another permission request.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns true if the permission request is about the approval of a plan.
    #[must_use]
    pub fn is_plan(&self) -> bool {
        ToolTraits::of(&self.tool).view == CallView::Plan
    }

    /// Returns one line that names the agent and says what it wants to do.
    #[must_use]
    pub fn heading(&self) -> String {
        let asker = visible(self.asker.as_str());
        if self.is_plan() {
            return format!("{asker} asks you to approve its plan");
        }
        format!("{asker} asks permission for {}", self.tool)
    }

    /// Returns lines to show before the call: the folder of the call, and the reason why permission
    /// is needed.
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

/// Reads the offers of a permission request from another process. A rule with characters that a
/// person could not see is left out, because nobody could choose it knowingly.
fn read_offers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Offer>, D::Error> {
    let mut offers = Vec::<Offer>::deserialize(deserializer)?;
    offers.retain(|offer| offer.rule().is_none_or(|rule| visible(rule) == rule));
    Ok(offers)
}

/// Returns the agent's own description of a command, if the call has one.
fn described(input: &Value) -> Option<&str> {
    input.get("command")?;
    input.get("description").and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the reason without the agent's command or description at its beginning. Returns an empty
/// text if the reason only repeats the tool and the file of the call.
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

/// Shortens the agent's words to the length limit.
fn shortened(says: &str) -> String {
    if says.chars().count() <= SAYS_CHARS {
        return says.to_owned();
    }
    says.chars().take(SAYS_CHARS).chain("...".chars()).collect()
}

fn offers(tool: &str, rules: AllowingRules) -> Vec<Offer> {
    let first = match ToolTraits::of(tool).view {
        // Offer the mode `acceptEdits`, and no permission for exactly this call: the same edit is
        // rarely repeated, and each plan of the lead is approved on its own.
        CallView::Replacement | CallView::WholeFile | CallView::Plan if rules.accept_edits => {
            Some(Offer::Edits)
        }
        CallView::Replacement | CallView::WholeFile | CallView::Plan => None,
        CallView::Fields | CallView::Command => Some(Offer::Exactly { rule: rules.exact }),
    };
    first.into_iter().chain(rules.wider.map(Offer::Rule)).collect()
}

#[cfg(test)]
mod tests;
