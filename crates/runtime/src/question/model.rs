//! A question and its answers.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{AgentName, CallView, ToolTraits, tool_name};
use serde_json::Value;

use super::Digest;
use super::content::{self, Kind, Line};
use super::visible::visible;
use crate::gate::AllowingRules;

/// The most that is shown of what an asker says of its call.
const SAYS_CHARS: usize = 160;

/// A permission that somebody is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionQuestion {
    /// Who wants to make the call.
    pub asker: AgentName,
    /// The tool.
    pub tool: String,
    /// The folder that the call is made in.
    pub folder: String,
    /// Why it is asked, in words; empty where the call says all.
    pub reason: String,
    /// The call, whole.
    pub lines: Vec<Line>,
    /// What may be allowed from now on.
    pub offers: Vec<Offer>,
    digest: Digest,
}

/// What may be allowed from now on, for this run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Offer {
    /// This very call, in this folder.
    Exactly {
        /// The rule that says so, where a rule can; only such an answer can be saved.
        rule: Option<String>,
    },
    /// All calls that a rule speaks of, such as `Bash(npm test:*)`.
    Rule(String),
    /// All edits of files in the working folder, by this agent.
    Edits,
}

impl Offer {
    /// What it allows, for those who do not see the question: its rule, or words with the tool where there is none.
    #[must_use]
    pub fn allows(&self, tool: &str) -> String {
        match self {
            Self::Exactly { rule: Some(rule) } | Self::Rule(rule) => rule.clone(),
            Self::Exactly { rule: None } => format!("this very call of {tool}"),
            Self::Edits => "all edits in its folder, and commands that only write there".to_owned(),
        }
    }

    /// Whether the agent keeps it in its conversation, and so when it is resumed.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match self {
            Self::Exactly { .. } => false,
            Self::Rule(_) | Self::Edits => true,
        }
    }

    /// The rule that is written into the settings when the answer is saved; none for one that holds for the run only.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Exactly { rule } => rule.as_deref(),
            Self::Rule(rule) => Some(rule),
            Self::Edits => None,
        }
    }
}

/// What a person chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Go ahead, this once.
    Once,
    /// Go ahead, and from now on.
    Always {
        /// With what; one of the question's offers.
        offer: Offer,
        /// For how long.
        keep: Keep,
    },
    /// No.
    No {
        /// Why, for the model.
        reason: Option<String>,
    },
}

/// How long an answer holds that is for more than one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// For this run.
    Run,
    /// For this run, and by the user's settings for those to come.
    Saved,
}

/// A call to ask about.
#[derive(Clone, Debug)]
pub struct AskedCall<'a> {
    /// Who wants to make it.
    pub asker: &'a AgentName,
    /// Its tool.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// The folder it is made in, absolute.
    pub folder: &'a Path,
    /// The file that it would change, as its path was judged; none for a call that is about none.
    pub file: Option<AskedFile>,
    /// Why it is asked about; what of it are the asker's own words is left out.
    pub reason: &'a str,
    /// What the asker says of the call, where that is not in its input.
    pub says: Option<&'a str>,
    /// The rules that would allow it.
    pub rules: AllowingRules,
}

/// The file of a call that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFile {
    /// Its path with links resolved. Only what is there, without a link in its path, is shown.
    pub real: PathBuf,
    /// Whether a link is part of the path in the call.
    pub is_by_link: bool,
}

impl PermissionQuestion {
    /// Makes the question. For a change of a file it reads the file as it is now, and so may block.
    #[must_use]
    pub fn of(call: AskedCall<'_>) -> Self {
        let AskedCall { asker, tool, input, folder, file, reason, says, rules } = call;
        let one_line = |text: &str| visible(text.trim()).replace('\n', " ");
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
        question.digest = question.digest_of_all();
        question
    }

    /// The digest of all that is shown and of the call itself. An answer that carries another one is to another question.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Whether a plan is to be approved.
    #[must_use]
    pub fn is_plan(&self) -> bool {
        ToolTraits::of(&self.tool).view == CallView::Plan
    }

    /// Who asks for what, in a line.
    #[must_use]
    pub fn heading(&self) -> String {
        let asker = visible(self.asker.as_str());
        if self.is_plan() {
            return format!("{asker} asks you to approve its plan");
        }
        format!("{asker} asks permission for {}", self.tool)
    }

    /// Where the call is made, and why it is asked about: to be shown before its lines.
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

/// What the model says of its command.
fn described(input: &Value) -> Option<&str> {
    input.get("command")?;
    input.get("description").and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// What of a reason is not the asker's own words, and not what the call says anyway.
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

/// The asker's words, in one line of bounded length.
fn shortened(says: &str) -> String {
    if says.chars().count() <= SAYS_CHARS {
        return says.to_owned();
    }
    says.chars().take(SAYS_CHARS).chain("...".chars()).collect()
}

fn offers(tool: &str, rules: AllowingRules) -> Vec<Offer> {
    let first = match ToolTraits::of(tool).view {
        // The same edit is hardly ever made twice, and a plan is approved each on its own.
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
