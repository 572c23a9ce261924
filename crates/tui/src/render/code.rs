//! Highlights program code. The grammars are loaded at the first use. Code of an unknown language,
//! very long code and very long lines stay plain.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::text::clean;
use super::wrap::{Blanks, rows};
use crate::theme::Theme;

/// Maximum number of bytes of code that one call highlights. The rest stays plain.
const MOST_BYTES: usize = 256 * 1024;

/// Maximum number of characters of a line that is highlighted.
const LINE_CHARS: usize = 2_000;

/// Maximum time that one call spends on highlighting. A grammar is slow on some texts, and the
/// person waits for the screen. The rest stays plain.
const MOST_TIME: Duration = Duration::from_millis(300);

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Other names of languages, as models write them, with an extension that the grammars know.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("console", "sh"),
    ("golang", "go"),
    ("jsonc", "json"),
    ("jsx", "js"),
    ("shell", "sh"),
    ("zsh", "sh"),
];

/// The meanings of words in code. For each scope of a grammar, the first entry with a beginning of
/// that scope counts.
const MEANINGS: [(&str, Meaning); 19] = [
    ("comment", Meaning::Comment),
    ("constant", Meaning::Constant),
    ("entity.name.class", Meaning::Type),
    ("entity.name.enum", Meaning::Type),
    ("entity.name.function", Meaning::Function),
    ("entity.name.section", Meaning::Heading),
    ("entity.name.struct", Meaning::Type),
    ("entity.name.tag", Meaning::Type),
    ("entity.name.type", Meaning::Type),
    ("keyword.operator", Meaning::Plain),
    ("keyword", Meaning::Keyword),
    ("markup.deleted", Meaning::Removed),
    ("markup.inserted", Meaning::Added),
    ("storage", Meaning::Keyword),
    ("string", Meaning::String),
    ("support.class", Meaning::Type),
    ("support.function", Meaning::Function),
    ("support.type", Meaning::Type),
    ("variable.function", Meaning::Function),
];

static SCOPES: LazyLock<Vec<(Scope, Meaning)>> = LazyLock::new(|| {
    let scope = |(name, meaning): &(&str, Meaning)| Some((Scope::new(name).ok()?, *meaning));
    MEANINGS.iter().filter_map(scope).collect()
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Plain,
    Comment,
    Constant,
    Function,
    Keyword,
    String,
    Type,
    Heading,
    Added,
    Removed,
}

/// Draws program code. `language` is the name or the file extension of a language.
#[must_use]
pub fn code(text: &str, language: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut effort = Effort::default();
    let mut highlighter = Highlighter::new(grammar(language), theme, &mut effort);
    let mut lines = Vec::new();
    for line in text.lines() {
        let spans = highlighter.line(line);
        lines.extend(rows(&spans, usize::from(width), Blanks::Kept).map(Line::from));
    }
    lines
}

/// Returns the grammar of a language, by its name or its file extension.
pub(super) fn grammar(language: &str) -> Option<&'static SyntaxReference> {
    let name = language.to_ascii_lowercase();
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
    let name = other.map_or(name.as_str(), |(_, extension)| extension);
    (!name.is_empty()).then(|| GRAMMARS.find_syntax_by_token(name)).flatten()
}

/// Returns the grammar for a file, by its name or its extension.
pub(super) fn grammar_of_file(path: &str) -> Option<&'static SyntaxReference> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let by_name = GRAMMARS.find_syntax_by_extension(name);
    by_name.or_else(|| GRAMMARS.find_syntax_by_extension(extension?))
}

/// What is left of the limits of one call.
#[derive(Debug)]
pub(super) struct Effort {
    bytes: usize,
    until: Option<Instant>,
}

impl Default for Effort {
    fn default() -> Self {
        Self { bytes: MOST_BYTES, until: None }
    }
}

impl Effort {
    /// No highlighting at all.
    pub(super) fn none() -> Self {
        Self { bytes: 0, until: None }
    }

    /// Takes the effort for a line. Returns `false` if too little is left.
    fn take(&mut self, line: &str) -> bool {
        let until = *self.until.get_or_insert_with(|| Instant::now() + MOST_TIME);
        let left = self.bytes.checked_sub(line.len()).filter(|_| Instant::now() <= until);
        self.bytes = left.unwrap_or_default();
        left.is_some()
    }
}

/// Highlights the lines of one text, from its first line on.
pub(super) struct Highlighter<'a> {
    theme: &'a Theme,
    effort: &'a mut Effort,
    /// `None` if the rest of the text stays plain.
    parser: Option<ParseState>,
    scopes: ScopeStack,
}

impl<'a> Highlighter<'a> {
    pub(super) fn new(
        grammar: Option<&SyntaxReference>,
        theme: &'a Theme,
        effort: &'a mut Effort,
    ) -> Self {
        Self { theme, effort, parser: grammar.map(ParseState::new), scopes: ScopeStack::new() }
    }

    /// Returns the next line of the text, without a line break, in styles.
    pub(super) fn line(&mut self, line: &str) -> Vec<Span<'static>> {
        let line = clean(line);
        if line.chars().nth(LINE_CHARS).is_some() {
            return vec![self.plain(line)];
        }
        match self.highlighted(&line) {
            Some(spans) => spans,
            None => {
                self.parser = None;
                vec![self.plain(line)]
            }
        }
    }

    fn plain(&self, line: Cow<'_, str>) -> Span<'static> {
        Span::styled(line.into_owned(), self.theme.text)
    }

    /// Returns `None` if the limits are reached or if the grammar fails on the line.
    fn highlighted(&mut self, line: &str) -> Option<Vec<Span<'static>>> {
        let parser = self.parser.as_mut()?;
        if !self.effort.take(line) {
            return None;
        }
        // The grammars expect the line break at the end.
        let changes = parser.parse_line(&format!("{line}\n"), &GRAMMARS).ok()?;
        let (mut spans, mut from) = (Vec::new(), 0);
        for (at, change) in changes {
            let at = at.min(line.len());
            push(&mut spans, line.get(from..at)?, self.style());
            from = at;
            self.scopes.apply(&change).ok()?;
        }
        push(&mut spans, line.get(from..)?, self.style());
        Some(spans)
    }

    /// Returns the style at the present place of the text. The innermost scope with a meaning
    /// counts.
    fn style(&self) -> Style {
        let of_scope = |scope: &Scope| {
            let entry = SCOPES.iter().find(|(beginning, _)| beginning.is_prefix_of(*scope))?;
            Some(entry.1)
        };
        let meaning = self.scopes.as_slice().iter().rev().find_map(of_scope);
        let Theme { text, heading, added, removed, syntax, .. } = self.theme;
        match meaning.unwrap_or(Meaning::Plain) {
            Meaning::Plain => *text,
            Meaning::Comment => syntax.comment,
            Meaning::Constant => syntax.constant,
            Meaning::Function => syntax.function,
            Meaning::Keyword => syntax.keyword,
            Meaning::String => syntax.string,
            Meaning::Type => syntax.type_name,
            Meaning::Heading => *heading,
            Meaning::Added => *added,
            Meaning::Removed => *removed,
        }
    }
}

fn push(spans: &mut Vec<Span<'static>>, text: &str, style: Style) {
    if text.is_empty() {
        return;
    }
    match spans.last_mut() {
        Some(last) if last.style == style => last.content.to_mut().push_str(text),
        Some(_) | None => spans.push(Span::styled(text.to_owned(), style)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ThemeKind;

    fn text_of(lines: &[Line<'_>]) -> String {
        lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Returns the style of the first span with this text.
    fn style_of(lines: &[Line<'_>], text: &str) -> Option<Style> {
        let spans = || lines.iter().flat_map(|line| &line.spans);
        spans().find(|span| span.content.trim() == text).map(|span| span.style)
    }

    #[test]
    fn words_of_a_program_have_the_style_of_their_meaning() {
        let theme = Theme::new(ThemeKind::Dark);
        let text = "fn main() { let x = \"a\"; } // done";
        let lines = code(text, "rust", 80, &theme);
        assert_eq!(text_of(&lines), text);
        assert_eq!(style_of(&lines, "main"), Some(theme.syntax.function), "{lines:?}");
        assert_eq!(style_of(&lines, "\"a\""), Some(theme.syntax.string), "{lines:?}");
        assert_eq!(style_of(&lines, "// done"), Some(theme.syntax.comment), "{lines:?}");
        assert_eq!(style_of(&lines, "let"), Some(theme.syntax.keyword), "{lines:?}");
    }

    #[test]
    fn languages_are_known_by_the_names_that_models_write() {
        for language in [
            "rust",
            "Rust",
            "rs",
            "python",
            "py",
            "js",
            "javascript",
            "jsx",
            "typescript",
            "ts",
            "tsx",
            "sh",
            "bash",
            "shell",
            "zsh",
            "console",
            "go",
            "golang",
            "json",
            "jsonc",
            "yaml",
            "yml",
            "toml",
            "html",
            "css",
            "sql",
            "c",
            "cpp",
            "c++",
            "java",
            "kotlin",
            "swift",
            "ruby",
            "php",
            "dockerfile",
            "makefile",
            "diff",
            "xml",
            "lua",
        ] {
            assert!(grammar(language).is_some(), "{language}");
        }
        assert!(grammar("").is_none() && grammar("no such language").is_none());
        for path in ["src/main.rs", "Makefile", "/a/b.c/Dockerfile", "x.test.ts", "Cargo.toml"] {
            assert!(grammar_of_file(path).is_some(), "{path}");
        }
        assert!(grammar_of_file("notes").is_none());
    }

    #[test]
    fn an_unknown_language_a_long_line_and_a_long_text_are_plain() {
        let theme = Theme::new(ThemeKind::Dark);
        let is_plain = |lines: &[Line<'_>]| {
            lines.iter().flat_map(|line| &line.spans).all(|span| span.style == theme.text)
        };
        assert!(is_plain(&code("let x = 1;", "no such language", 80, &theme)));
        let long_line = format!("let x = {};", "1 + ".repeat(LINE_CHARS));
        let lines = code(&long_line, "rust", 80, &theme);
        assert!(is_plain(&lines));
        assert_eq!(lines.iter().map(ToString::to_string).collect::<String>(), long_line);
        let mut effort = Effort { bytes: 12, ..Effort::default() };
        let mut highlighter = Highlighter::new(grammar("rust"), &theme, &mut effort);
        let [first, second] = ["let x = 1;", "let y = 2;"].map(|line| highlighter.line(line));
        assert!(first.len() > 1, "{first:?}");
        assert_eq!(second, [Span::styled("let y = 2;", theme.text)]);
    }

    #[test]
    fn code_cannot_steer_the_terminal_and_keeps_its_blanks() {
        let theme = Theme::new(ThemeKind::NoColor);
        let lines = code("\tx\u{1b}[2J  =  1", "python", 8, &theme);
        assert_eq!(
            lines.iter().map(ToString::to_string).collect::<String>(),
            "    x\u{fffd}[2J  =  1"
        );
    }
}
