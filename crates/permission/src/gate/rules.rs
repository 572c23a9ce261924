//! The permission rules. Defines their syntax, and which calls, commands and paths each rule
//! matches.

use std::path::{Path, PathBuf};

use pitcrew_protocol::{RuleScope, ToolKind, ToolTraits, canonical_tool, tool_name};

use super::overlap::{Piece, letters, overlap};
use super::paths::{PathPattern, PatternError, Target};
use super::tools::{is_known, is_whole, kind_of, meant};
use crate::settings::{Layer, Permissions, SourcedRule};

/// A rule that is invalid, with the settings layer that contains the rule and the reason.
#[derive(Debug, thiserror::Error)]
#[error("invalid permission rule `{rule}` in the {origin}")]
pub struct RuleError {
    /// The rule as written.
    pub rule: String,
    /// The settings layer and file of the rule.
    pub origin: String,
    /// The error in the rule.
    #[source]
    pub fault: RuleFault,
}

/// The ways in which a rule can be malformed.
#[derive(Debug, thiserror::Error)]
pub enum RuleFault {
    /// The tool name is missing or contains invalid characters.
    #[error("`{0}` is not a tool name")]
    Tool(String),
    /// There is no tool of this name.
    #[error("there is no tool `{tool}`{}", meant.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// The tool name as written in the rule.
        tool: String,
        /// The existing tool with the most similar name.
        meant: Option<String>,
    },
    /// The rule has an argument in parentheses, but rules for this tool take no argument. The rule
    /// would match no call.
    #[error(
        "a rule for {tool} takes nothing in parentheses and would match no call; {}",
        instead(tool)
    )]
    Whole {
        /// The name of the tool.
        tool: String,
    },
    /// A parenthesis is missing or misplaced.
    #[error("a rule is `Tool` or `Tool(what)`, with the parenthesis closed at the end")]
    Parentheses,
    /// The path pattern of a file rule is invalid.
    #[error("the path pattern is wrong: {0}")]
    Pattern(String),
    /// The command pattern is empty.
    #[error("the command before `:*` is empty")]
    EmptyCommand,
}

fn instead(tool: &str) -> String {
    match kind_of(tool) {
        ToolKind::Reader => {
            format!("a rule `{}(...)` speaks of the files it reads", tool_name::READ)
        }
        _ => format!("write `{tool}`"),
    }
}

impl From<PatternError> for RuleFault {
    fn from(error: PatternError) -> Self {
        Self::Pattern(error.to_string())
    }
}

/// All permission rules of the settings in parsed form.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSet {
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
    pub ask: Vec<Rule>,
    /// Descriptions of the malformed rules that are ignored.
    pub unheeded: Vec<String>,
}

impl RuleSet {
    /// Parses all rules. A malformed allow rule from a settings file is ignored and noted in
    /// `unheeded`.
    ///
    /// # Errors
    /// The first malformed deny or ask rule, or the first malformed rule from the command line.
    /// Ignoring a deny or ask rule would allow agents to do more than intended.
    pub(crate) fn parse(permissions: &Permissions, home: Option<&Path>) -> Result<Self, RuleError> {
        let (mut allow, mut unheeded) = (Vec::new(), Vec::new());
        for rule in &permissions.allow {
            match Rule::parse(rule, home) {
                Ok(rule) => allow.push(rule),
                // The user typed this rule on the command line, so report the mistake and do not
                // ignore the rule.
                Err(error) if rule.layer == Layer::Cli => return Err(error),
                Err(error) => {
                    let told = format!("{error} is not heeded: {}", error.fault);
                    if !unheeded.contains(&told) {
                        unheeded.push(told);
                    }
                }
            }
        }
        let all = |rules: &[SourcedRule]| {
            rules.iter().map(|rule| Rule::parse(rule, home)).collect::<Result<_, _>>()
        };
        Ok(Self { allow, deny: all(&permissions.deny)?, ask: all(&permissions.ask)?, unheeded })
    }
}

/// The kind of access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// One permission rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    text: String,
    origin: String,
    tool: String,
    subject: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    /// The rule matches every call of the tool.
    All,
    /// The rule matches shell commands of this form.
    Command(CommandPattern),
    /// The rule matches files by this pattern.
    Path(PathPattern),
    /// The rule has an argument that is neither a command nor a path. It is a subagent type, or a
    /// text that only the tool itself understands.
    ShellWord(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CommandPattern {
    Exact(String),
    /// Matches this command without arguments, and this command followed by a space and any text.
    Prefix(String),
    /// Matches commands that fit this pattern, in which `*` stands for any text.
    Wildcard(String),
}

impl Rule {
    pub(crate) fn parse(rule: &SourcedRule, home: Option<&Path>) -> Result<Self, RuleError> {
        let (tool, subject) = parse_subject(rule, home).map_err(|fault| RuleError {
            rule: rule.text.clone(),
            origin: rule.origin.clone(),
            fault,
        })?;
        Ok(Self { text: rule.text.clone(), origin: rule.origin.clone(), tool, subject })
    }

    /// Returns the rule's text and settings layer, for use in a denial reason.
    pub(crate) fn cite(&self) -> String {
        format!("rule `{}` of the {}", self.text, self.origin)
    }

    /// Returns the rule as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the settings layer of the rule and its file.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns true if the rule's text contains `name` literally.
    pub(crate) fn spells_out(&self, name: &str) -> bool {
        self.text.contains(name)
    }

    /// Returns true if the rule matches every call of the tool.
    pub(crate) fn names_tool(&self, tool: &str) -> bool {
        matches!(self.subject, Subject::All) && self.is_for(tool)
    }

    /// Returns true if the rule matches calls of the tool with this argument (a subagent type).
    pub(crate) fn names_word(&self, tool: &str, word: Option<&str>) -> bool {
        let Subject::ShellWord(own) = &self.subject else { return false };
        self.is_for(tool) && word == Some(own.as_str())
    }

    /// Returns true if the rule restricts the tool by an argument that the gate cannot check.
    pub(crate) fn is_opaque_for(&self, tool: &str) -> bool {
        matches!(self.subject, Subject::ShellWord(_))
            && ToolTraits::of(&self.tool).rule != RuleScope::AgentType
            && self.is_for(tool)
    }

    /// Returns true if the rule matches particular shell commands.
    pub(crate) fn is_about_commands(&self) -> bool {
        matches!(self.subject, Subject::Command(_))
    }

    /// Returns true if the rule matches this command text.
    pub(crate) fn matches_command(&self, command: &str) -> bool {
        let Subject::Command(pattern) = &self.subject else { return false };
        pattern.matches(command)
    }

    /// Returns true if the rule matches a command that fits these pieces.
    pub(crate) fn may_match_command(&self, command: &[Piece]) -> bool {
        let Subject::Command(pattern) = &self.subject else { return false };
        pattern.shapes().iter().any(|shape| overlap(shape, command))
    }

    /// Returns true if the rule's text is exactly this command. The command may consist of several
    /// commands.
    pub(crate) fn is_exactly(&self, command: &str) -> bool {
        matches!(&self.subject, Subject::Command(CommandPattern::Exact(text)) if text == command)
    }

    /// Returns true if the rule may match this access to the file. Used for deny and ask rules.
    pub(crate) fn touches(&self, access: Access, cwd: &Path, target: &Target) -> bool {
        self.is_about(access)
            && match &self.subject {
                Subject::All => true,
                Subject::Path(pattern) => pattern.touches(cwd, target),
                Subject::Command(_) | Subject::ShellWord(_) => false,
            }
    }

    /// Returns true if the rule certainly matches this access to the file. Used for allow rules.
    pub(crate) fn covers(&self, access: Access, cwd: &Path, target: &Target) -> bool {
        self.is_about(access)
            && match &self.subject {
                Subject::All => true,
                Subject::Path(pattern) => pattern.covers(cwd, target),
                Subject::Command(_) | Subject::ShellWord(_) => false,
            }
    }

    /// Returns true if the rule may match a file below this folder.
    pub(crate) fn may_lie_below(&self, access: Access, cwd: &Path, folder: &Target) -> bool {
        self.is_about(access)
            && match &self.subject {
                Subject::All => true,
                Subject::Path(pattern) => pattern.may_lie_below(cwd, folder),
                Subject::Command(_) | Subject::ShellWord(_) => false,
            }
    }

    /// Returns true if the rule is for this kind of file access at all.
    pub(crate) fn is_about(&self, access: Access) -> bool {
        let traits = ToolTraits::of(&self.tool);
        let kind = match access {
            Access::Read => ToolKind::Reader,
            Access::Write => ToolKind::Writer,
        };
        traits.rule == RuleScope::Path && traits.kind == kind
    }

    /// Returns the rule's path pattern, or `None` if the rule has no path pattern.
    pub(crate) fn path_pattern(&self) -> Option<&PathPattern> {
        match &self.subject {
            Subject::Path(pattern) => Some(pattern),
            Subject::All | Subject::Command(_) | Subject::ShellWord(_) => None,
        }
    }

    fn is_for(&self, tool: &str) -> bool {
        let tool = canonical_tool(tool);
        let server =
            || tool.strip_prefix(self.tool.as_str()).is_some_and(|rest| rest.starts_with("__"));
        self.tool == tool
            || self.tool == tool_name::EDIT && kind_of(tool) == ToolKind::Writer
            || self.tool.starts_with("mcp__") && server()
    }
}

fn parse_subject(rule: &SourcedRule, home: Option<&Path>) -> Result<(String, Subject), RuleFault> {
    let text = rule.text.trim();
    let (tool, inner) = match text.split_once('(') {
        None if text.contains(')') => return Err(RuleFault::Parentheses),
        None => (text, None),
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or(RuleFault::Parentheses)?)),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let tool = canonical_tool(tool);
    if tool.is_empty() || !tool.strip_suffix("__*").unwrap_or(tool).chars().all(is_name) {
        return Err(RuleFault::Tool(tool.to_owned()));
    }
    if !is_known(tool) {
        let meant = meant(tool);
        // A settings file may have rules for tools of newer clients. Therefore an unknown tool in a
        // file is an error only if its name looks misspelled. On the command line, an unknown tool
        // is always an error.
        if meant.is_some() || rule.layer == Layer::Cli {
            return Err(RuleFault::Unknown { tool: tool.to_owned(), meant });
        }
    }
    let subject = match inner.map(str::trim) {
        None | Some("*") => Subject::All,
        Some("") => return Err(RuleFault::Parentheses),
        Some(_) if is_whole(tool) => {
            return Err(RuleFault::Whole { tool: tool.to_owned() });
        }
        Some(inner) => specific(tool, inner, rule.base.as_ref(), home)?,
    };
    Ok((tool.strip_suffix("__*").unwrap_or(tool).to_owned(), subject))
}

fn specific(
    tool: &str,
    inner: &str,
    base: Option<&PathBuf>,
    home: Option<&Path>,
) -> Result<Subject, RuleFault> {
    Ok(match ToolTraits::of(tool).rule {
        RuleScope::Command => Subject::Command(CommandPattern::parse(inner)?),
        RuleScope::Path => {
            Subject::Path(PathPattern::parse(inner, base.map(PathBuf::as_path), home)?)
        }
        RuleScope::AgentType | RuleScope::Unchecked | RuleScope::WholeTool => {
            Subject::ShellWord(inner.to_owned())
        }
    })
}

impl CommandPattern {
    fn parse(text: &str) -> Result<Self, RuleFault> {
        if let Some(prefix) = text.strip_suffix(":*") {
            let prefix = squeeze(prefix);
            return match prefix.as_str() {
                "" => Err(RuleFault::EmptyCommand),
                // A prefix that contains `*` becomes a wildcard pattern. Append ` *` for further
                // arguments.
                plain if plain.contains('*') => Ok(Self::Wildcard(format!("{plain} *"))),
                _ => Ok(Self::Prefix(prefix)),
            };
        }
        let text = squeeze(text);
        Ok(if text.contains('*') { Self::Wildcard(text) } else { Self::Exact(text) })
    }

    /// Returns the shapes of the commands that the pattern matches.
    fn shapes(&self) -> Vec<Vec<Piece>> {
        let star = |text: &str| -> Vec<Piece> {
            text.chars()
                .map(|c| if c == '*' { Piece::Anything } else { Piece::Letter(c) })
                .collect()
        };
        match self {
            Self::Exact(text) => vec![letters(text).collect()],
            Self::Prefix(prefix) => vec![letters(prefix).collect(), star(&format!("{prefix} *"))],
            Self::Wildcard(pattern) => {
                let bare = pattern.strip_suffix(" *").map(star);
                std::iter::once(star(pattern)).chain(bare).collect()
            }
        }
    }

    fn matches(&self, command: &str) -> bool {
        match self {
            Self::Exact(text) => text == command,
            Self::Prefix(prefix) => {
                let rest = command.strip_prefix(prefix.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            Self::Wildcard(pattern) => {
                // A final ` *` also matches the command without further arguments.
                wildcard(pattern, command)
                    || pattern.strip_suffix(" *").is_some_and(|bare| wildcard(bare, command))
            }
        }
    }
}

/// Replaces each run of spaces and tabs outside quotes by one space. Line breaks stay.
pub(crate) fn squeeze(text: &str) -> String {
    let mut squeezed = String::new();
    let mut quote = None;
    let mut letters = text.trim_matches([' ', '\t', '\n']).chars();
    while let Some(c) = letters.next() {
        let is_blank = matches!(c, ' ' | '\t') && quote.is_none();
        if is_blank && squeezed.ends_with(' ') {
            continue;
        }
        squeezed.push(if is_blank { ' ' } else { c });
        match c {
            '\\' if quote != Some('\'') => squeezed.extend(letters.next()),
            '\'' | '"' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            _ => {}
        }
    }
    squeezed
}

/// Returns true if the whole text matches a pattern in which `*` stands for any text. The time is
/// at most proportional to the length of the pattern times the length of the text.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    // `middle` contains the parts of the pattern that are between two `*`. Take the first
    // occurrence of each part in the text. If a later occurrence leads to a match, the first one
    // does too, so no backtracking is needed.
    for piece in middle {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Layer;

    fn rule(text: &str) -> Result<Rule, RuleError> {
        let sourced = SourcedRule {
            text: text.to_owned(),
            layer: Layer::Project,
            origin: "project settings (a.json)".to_owned(),
            base: Some(PathBuf::from("/p")),
        };
        Rule::parse(&sourced, Some(Path::new("/home/me")))
    }

    #[test]
    fn command_rules_match_what_they_say() {
        for (text, command, expected) in [
            ("Bash(npm test)", "npm test", true),
            ("Bash(npm test)", "npm test --all", false),
            ("Bash(npm run test:*)", "npm run test", true),
            ("Bash(npm run test:*)", "npm run test --all", true),
            ("Bash(npm run test:*)", "npm run tests", false),
            ("Bash(npm run *)", "npm run build", true),
            ("Bash(npm run *)", "npm run", true),
            ("Bash(npm run *)", "npm runner", false),
            ("Bash(git * main)", "git push origin main", true),
            ("Bash(git * main)", "git push origin maintenance", false),
            ("Bash(* --version)", "rustc --version", true),
            ("Bash(a*a)", "a", false),
        ] {
            assert_eq!(
                rule(text).unwrap().matches_command(command),
                expected,
                "{text} on {command}"
            );
        }
    }

    #[test]
    fn a_rule_that_cannot_match_is_refused_with_the_one_that_was_meant() {
        for (text, expected) in [
            ("bash(rm:*)", "there is no tool `bash`; did you mean `Bash`?"),
            ("read(./a)", "there is no tool `read`; did you mean `Read`?"),
            ("Wirte", "there is no tool `Wirte`; did you mean `Write`?"),
            ("SendMesage", "there is no tool `SendMesage`; did you mean `SendMessage`?"),
            (
                "Grep(./secrets/**)",
                "a rule for Grep takes nothing in parentheses and would match no call; a rule `Read(...)` speaks of the files it reads",
            ),
            (
                "SendMessage(bob)",
                "a rule for SendMessage takes nothing in parentheses and would match no call; write `SendMessage`",
            ),
        ] {
            assert_eq!(rule(text).unwrap_err().fault.to_string(), expected, "{text}");
        }
        for text in [
            "Frobnicate",
            "WebFetch(domain:a.b)",
            "mcp__a__b",
            "Agent(Explore)",
            "Grep",
            "MultiEdit(src/**)",
        ] {
            assert!(rule(text).is_ok(), "{text}");
        }
        let typed = |text: &str| SourcedRule {
            text: text.to_owned(),
            layer: Layer::Cli,
            origin: "command-line settings".to_owned(),
            base: None,
        };
        let error = Rule::parse(&typed("Frobnicate(x)"), None).unwrap_err();
        assert_eq!(error.fault.to_string(), "there is no tool `Frobnicate`");
        assert!(Rule::parse(&typed("Skill(commit)"), None).is_ok());
    }

    #[test]
    fn blanks_are_squeezed_but_in_quotes_and_lines_stay_apart() {
        for (text, expected) in [
            ("  a   b\t c ", "a b c"),
            ("a\nb", "a\nb"),
            ("a 'b  c'", "a 'b  c'"),
            ("a \"b  'c\"  d", "a \"b  'c\" d"),
            ("a\\'  b", "a\\' b"),
        ] {
            assert_eq!(squeeze(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_bare_tool_and_a_star_are_the_same() {
        for text in ["Bash", "Bash(*)", " Bash ( * )"] {
            let parsed = rule(text);
            assert_eq!(
                parsed.is_ok_and(|rule| rule.names_tool("Bash")),
                !text.contains(" ("),
                "{text}"
            );
        }
        assert!(rule("Edit").unwrap().names_tool("Write"));
        assert!(!rule("Write").unwrap().names_tool("Edit"));
        assert!(rule("Agent").unwrap().names_tool("Task"));
        assert!(rule("mcp__github").unwrap().names_tool("mcp__github__list"));
        assert!(rule("mcp__github__*").unwrap().names_tool("mcp__github__list"));
        assert!(rule("Task(Explore)").unwrap().names_word("Agent", Some("Explore")));
    }

    #[test]
    fn malformed_rules_are_refused_with_their_layer() {
        for text in [
            "",
            "(x)",
            "Bash(",
            "Bash(x",
            "Bash()",
            "Bash)x",
            "Ba sh",
            "Bash(:*)",
            "Read(!x)",
            "Read(a/../b)",
        ] {
            assert!(rule(text).is_err(), "{text:?}");
        }
        let error = rule("Bash(ls").unwrap_err();
        insta::assert_snapshot!(error, @"invalid permission rule `Bash(ls` in the project settings (a.json)");
        insta::assert_snapshot!(error.fault, @"a rule is `Tool` or `Tool(what)`, with the parenthesis closed at the end");
    }
}
