//! Reads the words of a command character by character, with quotes, escapes and expansions, like a
//! shell.
//!
//! Text that some shells may read differently is recorded as a doubt. The module `script` combines
//! the words into commands.

use super::ansi::decoded;
use super::script::Script;
use super::shell_word::{Quoting, ShellWord, Unit};

/// Maximum nesting depth. A command with deeper nesting is recorded as a doubt. This also limits
/// the use of the stack.
const DEPTH_LIMIT: usize = 60;

/// The path that stands for the result of every process substitution. In a real shell, the number
/// in this path varies.
const PIPE: &str = "/dev/fd/63";

/// Reads a command text from beginning to end.
#[derive(Debug)]
pub(super) struct Reader {
    text: Vec<char>,
    at: usize,
    depth: usize,
    /// Number of command substitutions around the current position.
    pub(super) substitutions: usize,
    /// Number of loops around the current position.
    pub(super) loops: usize,
    /// Here-documents that were started on this line. Their bodies begin on the next line.
    pub(super) documents: Vec<Document>,
    pub(super) script: Script,
}

/// A here-document whose operator was read and whose body follows.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) end: String,
    pub(super) expands: bool,
    pub(super) strips_tabs: bool,
}

impl Reader {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.chars().collect(),
            at: 0,
            depth: 0,
            substitutions: 0,
            loops: 0,
            documents: Vec::new(),
            script: Script::default(),
        }
    }

    pub(super) fn doubt(&mut self, what: &str) {
        if !self.script.doubts.iter().any(|doubt| doubt == what) {
            self.script.doubts.push(what.to_owned());
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.text.len());
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek_at(ahead) == Some(c))
    }

    /// Skips `text` if it comes next. Returns true if `text` was skipped.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let is_next = self.starts_with(text);
        if is_next {
            self.skip(text.chars().count());
        }
        is_next
    }

    pub(super) fn since(&self, start: usize) -> String {
        self.text.get(start..self.at).unwrap_or_default().iter().collect()
    }

    /// Skips blanks, line breaks after a backslash, and a comment, up to the start of the next
    /// token.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.skip(1),
                Some('\\') if self.peek_at(1) == Some('\n') => self.skip(2),
                Some('#') => {
                    if self.substitutions > 0 {
                        self.doubt("it contains a `#` that is perhaps not a comment");
                    }
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.skip(1);
                    }
                }
                _ => return,
            }
        }
    }

    /// Returns the next word. Returns `None` if the word has quotes, escapes or expansions. The
    /// word stays unread.
    pub(super) fn bare_word(&self) -> Option<String> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|c| ends_word(*c)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        let is_bare =
            !word.is_empty() && !word.iter().any(|c| matches!(c, '\'' | '"' | '\\' | '$' | '`'));
        is_bare.then(|| word.iter().collect())
    }

    /// Reads the next word. Returns `None` if no word follows.
    pub(super) fn word(&mut self) -> Option<ShellWord> {
        let start = self.at;
        let mut units = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    self.skip(2);
                    self.substitution();
                    units.extend(PIPE.chars().map(Unit::Quoted));
                }
                c if ends_word(c) => break,
                '\\' => {
                    match self.peek_at(1) {
                        Some('\n') => {}
                        Some(escaped) => units.push(Unit::Quoted(escaped)),
                        None => self.doubt("it ends in a backslash"),
                    }
                    self.skip(2);
                }
                '\'' => self.single_quoted(&mut units),
                '"' => self.double_quoted(&mut units),
                '$' => self.dollar(Quoting::None, &mut units),
                '`' => self.backquoted(Quoting::None, &mut units),
                c => {
                    units.push(Unit::Plain(c));
                    self.skip(1);
                }
            }
        }
        (self.at > start).then(|| ShellWord::from_units(self.since(start), units))
    }

    fn single_quoted(&mut self, units: &mut Vec<Unit>) {
        self.skip(1);
        units.push(Unit::Quotes);
        loop {
            match self.peek() {
                Some('\'') => return self.skip(1),
                Some(c) => units.push(Unit::Quoted(c)),
                None => return self.doubt("it has a quote without an end"),
            }
            self.skip(1);
        }
    }

    fn double_quoted(&mut self, units: &mut Vec<Unit>) {
        self.skip(1);
        units.push(Unit::Quotes);
        loop {
            match self.peek() {
                Some('"') => return self.skip(1),
                Some('\\') => self.escaped_in_quotes(units),
                Some('$') => self.dollar(Quoting::Double, units),
                Some('`') => self.backquoted(Quoting::Double, units),
                Some(c) => {
                    units.push(Unit::Quoted(c));
                    self.skip(1);
                }
                None => return self.doubt("it has a quote without an end"),
            }
        }
    }

    fn escaped_in_quotes(&mut self, units: &mut Vec<Unit>) {
        match self.peek_at(1) {
            Some('\n') => self.skip(2),
            Some(c @ ('$' | '`' | '"' | '\\')) => {
                units.push(Unit::Quoted(c));
                self.skip(2);
            }
            _ => {
                units.push(Unit::Quoted('\\'));
                self.skip(1);
            }
        }
    }

    /// Reads the expansion that a `$` starts. A `$` that starts no expansion is an ordinary
    /// character.
    pub(super) fn dollar(&mut self, quoting: Quoting, units: &mut Vec<Unit>) {
        self.skip(1);
        match self.peek() {
            Some('(') => {
                if self.peek_at(1) == Some('(') {
                    self.doubt("it contains an arithmetic expansion");
                }
                self.skip(1);
                self.substitution();
                units.push(Unit::Open(quoting));
            }
            Some('{') => self.braced(quoting, units),
            Some('[') => {
                self.doubt("it contains an arithmetic expansion");
                units.push(Unit::Open(quoting));
            }
            Some('\'') if quoting == Quoting::None => {
                self.doubt("it contains a quote with escapes");
                self.skip(1);
                let start = self.at;
                self.skip_to('\'');
                let end = self.at.saturating_sub(1).max(start);
                units.extend(decoded(self.text.get(start..end).unwrap_or_default()));
            }
            Some('"') if quoting == Quoting::None => {
                self.doubt("it contains a text to be translated")
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let start = self.at;
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.skip(1);
                }
                units.push(Unit::Variable(self.since(start), quoting));
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                self.skip(1);
                // Inside double quotes, a parameter such as `$1` or `$?` expands to one word. The
                // exception is `$@`, the list of all arguments, which may become several words.
                units.push(Unit::Open(if c == '@' { Quoting::None } else { quoting }));
            }
            _ => units.push(Unit::Quoted('$')),
        }
    }

    /// Reads `${name}`. Any other content of the braces is recorded as a doubt, and is searched for
    /// commands.
    fn braced(&mut self, quoting: Quoting, units: &mut Vec<Unit>) {
        self.skip(1);
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.skip(1);
        }
        let name = self.since(start);
        if self.peek() == Some('}')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            self.skip(1);
            units.push(Unit::Variable(name, quoting));
            return;
        }
        self.doubt("it computes in an expansion");
        // The braces contain more than a variable name, such as in `${array[@]}`. Such an expansion
        // may become several words even between quotes.
        units.push(Unit::Open(Quoting::None));
        self.nested(|reader| reader.until_brace(quoting));
    }

    /// Reads up to the brace that closes an expansion.
    fn until_brace(&mut self, quoting: Quoting) {
        let mut within = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                '}' => return self.skip(1),
                '\\' => self.skip(2),
                '\'' if quoting == Quoting::None => self.single_quoted(&mut within),
                '"' => self.double_quoted(&mut within),
                '$' => self.dollar(quoting, &mut within),
                '`' => self.backquoted(quoting, &mut within),
                _ => self.skip(1),
            }
        }
    }

    /// Reads a command substitution after its opening parenthesis.
    pub(super) fn substitution(&mut self) {
        self.nested(|reader| {
            reader.substitutions += 1;
            reader.list(&[]);
            reader.substitutions -= 1;
            if !reader.take(")") {
                reader.doubt("it has a parenthesis without an end");
            }
        });
    }

    pub(super) fn backquoted(&mut self, quoting: Quoting, units: &mut Vec<Unit>) {
        self.skip(1);
        let start = self.at;
        self.skip_to('`');
        let inner = self.since(start);
        let inner = inner.strip_suffix('`').unwrap_or(&inner);
        // Between backquotes, the shell removes one level of backslashes before it reads the
        // command. Not every shell removes the same ones, so this is a doubt.
        if inner.contains('\\') {
            self.doubt("it contains escapes between backquotes");
        }
        let mut within = Self::new(&without_escapes(inner));
        within.depth = self.depth + 1;
        within.loops = self.loops;
        within.substitutions = self.substitutions + 1;
        within.whole();
        self.script.parts.append(&mut within.script.parts);
        self.script.is_partial |= within.script.is_partial;
        for doubt in within.script.doubts {
            self.doubt(&doubt);
        }
        units.push(Unit::Open(quoting));
    }

    /// Skips everything up to and including the next unescaped `end`.
    fn skip_to(&mut self, end: char) {
        loop {
            match self.peek() {
                Some('\\') => self.skip(2),
                Some(c) if c == end => return self.skip(1),
                Some(_) => self.skip(1),
                None => return self.doubt("it has a quote without an end"),
            }
        }
    }

    /// Reads the bodies of the here-documents that the previous line started.
    pub(super) fn read_documents(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            loop {
                if self.peek().is_none() {
                    self.doubt("it has a here-document without an end");
                    break;
                }
                let start = self.at;
                while self.peek().is_some_and(|c| c != '\n') {
                    self.skip(1);
                }
                let line = self.since(start);
                self.skip(1);
                let line = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if line == document.end {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            if document.expands {
                self.read_document(&body);
            }
        }
    }

    /// Searches a here-document for commands. A doubt is already recorded for the document itself.
    fn read_document(&mut self, body: &str) {
        let mut within = Self::new(body);
        within.depth = self.depth + 1;
        within.substitutions = self.substitutions + 1;
        let mut units = Vec::new();
        while let Some(c) = within.peek() {
            match c {
                '\\' => within.skip(2),
                '$' => within.dollar(Quoting::Double, &mut units),
                '`' => within.backquoted(Quoting::Double, &mut units),
                _ => within.skip(1),
            }
        }
        self.script.parts.append(&mut within.script.parts);
    }

    /// Returns true if the position is outside any construct, function or substitution.
    pub(super) fn is_top(&self) -> bool {
        self.depth == 0
    }

    /// Reads a nested construct. If the construct is nested too deeply, reading stops.
    pub(super) fn nested(&mut self, read: impl FnOnce(&mut Self)) {
        if self.depth >= DEPTH_LIMIT {
            self.doubt("it is nested too deeply");
            self.script.is_partial = true;
            // Skip the rest of the text. This ends the recursion.
            self.at = self.text.len();
            return;
        }
        self.depth += 1;
        read(self);
        self.depth -= 1;
    }
}

/// Removes the level of backslashes that a shell removes between backquotes.
fn without_escapes(text: &str) -> String {
    let mut letters = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = letters.next() {
        let is_escape = c == '\\' && matches!(letters.peek(), Some('$' | '`' | '\\'));
        plain.extend(if is_escape { letters.next() } else { Some(c) });
    }
    plain
}

/// Returns true if the character ends a word.
fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}
