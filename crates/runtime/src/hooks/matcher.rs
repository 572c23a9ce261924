//! Matches the text of an event, such as the name of its tool, with a hook's `matcher`.

use regex::Regex;

/// A hook's matcher.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    Everything,
    OneOf(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Parses a matcher: a name, several names separated by `|` or `,`, or a regular expression. A
    /// name must be equal to the whole text, and a regular expression may match any part of it. An
    /// empty matcher or `*` matches everything.
    pub(super) fn parse(text: &str) -> Result<Self, regex::Error> {
        if text.is_empty() || text == "*" {
            return Ok(Self::Everything);
        }
        // A plain name must match the whole subject. If `Edit` were used as a regular expression,
        // it would also match `NotebookEdit`.
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '|' | '-' | ',' | ' ');
        if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
            return Ok(Self::OneOf(names.collect()));
        }
        Regex::new(text).map(Self::Pattern)
    }

    pub(super) fn matches(&self, subject: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::OneOf(names) => names.iter().any(|name| name == subject),
            Self::Pattern(pattern) => pattern.is_match(subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_match_as_in_the_reference() {
        for (matcher, subject, expected) in [
            ("", "Bash", true),
            ("*", "Bash", true),
            ("bash", "Bash", false),
            ("Edit|Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("Edit,Bash", "Bash", true),
            ("Edit, Bash", "Bash", true),
            ("Edit | Bash", "Bash", true),
            ("Ba..", "Bash", true),
            ("a.h", "Bash", true),
            ("mcp__.*", "mcp__x__y", true),
            ("Notebook.*", "Bash", false),
            ("^Task", "TaskUpdate", true),
        ] {
            assert_eq!(
                Matcher::parse(matcher).unwrap().matches(subject),
                expected,
                "{matcher} on {subject}"
            );
        }
        assert!(Matcher::parse("(").is_err());
    }
}
