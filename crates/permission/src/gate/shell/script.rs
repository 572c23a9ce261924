//! Splits a command into the parts that run. The module `reader` reads the single words. This
//! module parses the shell grammar that combines the words.
//!
//! Text that cannot be parsed with certainty is recorded as a doubt. The commands inside such text
//! are still collected, so that deny rules can match them.

use super::reader::{Document, Reader};
use super::shell_word::{ShellWord, Unit};

/// Maximum length of a command. A longer command is not parsed and is recorded as a doubt.
const LENGTH_LIMIT_BYTES: usize = 32 * 1024;

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Every command that could run, in the order in which the commands are written.
    pub parts: Vec<SimpleCommand>,
    /// Descriptions of the text that was not understood.
    pub doubts: Vec<String>,
    /// True if a part of the text was skipped, because it is too long or nested too deeply.
    pub is_partial: bool,
}

/// One simple command, or the redirects of one compound command.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimpleCommand {
    /// The command and its arguments. Empty if there are only redirects or assignments.
    pub words: Vec<ShellWord>,
    /// The variables that the command sets.
    pub assigned: Vec<Assigned>,
    /// The files that the redirects open.
    pub redirects: Vec<Redirect>,
    /// The text that the command reads as its standard input, where a here-string or an `echo`
    /// before the pipe writes it out.
    pub input: Option<String>,
    /// True if the part is in a loop's body or condition, so that it may run several times.
    pub repeated: bool,
    /// True if the part certainly runs, in the main shell, before everything written after it.
    pub certain: bool,
}

/// A variable assignment.
#[derive(Clone, Debug)]
pub(crate) struct Assigned {
    pub name: String,
    pub values: Values,
}

/// The values that are assigned to a variable.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// The variable gets exactly one value. The word is neither split nor expanded to file names.
    One(ShellWord),
    /// The variable gets each word of this list in turn, after expansion (a `for` loop).
    Each(Vec<ShellWord>),
    /// The value is not known.
    Unknown,
}

/// A file that a redirect opens.
#[derive(Clone, Debug)]
pub(crate) enum Redirect {
    /// The file is opened for reading.
    Read(ShellWord),
    /// The file is created, truncated or appended to.
    Write(ShellWord),
}

impl Script {
    /// Parses a command. This function never fails, because text that is not understood is recorded
    /// as a doubt.
    pub(crate) fn parse(command: &str) -> Self {
        let mut reader = Reader::new(command);
        if let Some(doubt) = odd_text(command) {
            reader.doubt(doubt);
        }
        if command.len() <= LENGTH_LIMIT_BYTES {
            reader.whole();
        } else {
            reader.script.is_partial = true;
        }
        reader.script
    }
}

/// Returns a description if the command contains text that different shells may read differently.
fn odd_text(command: &str) -> Option<&'static str> {
    let odd =
        |c: char| c.is_control() && c != '\n' && c != '\t' || c.is_whitespace() && !c.is_ascii();
    if command.len() > LENGTH_LIMIT_BYTES {
        return Some("it is too long to be read");
    }
    if command.chars().any(odd) {
        return Some("it contains control characters or unusual spaces");
    }
    // Shells join lines before they look for tokens. Therefore `$\`, a newline and `(` together
    // form `$(`, which starts an expansion.
    let glued = |(at, _): (usize, &str)| {
        !command.get(..at).is_some_and(|before| before.ends_with([' ', '\t']))
    };
    command.match_indices("\\\n").any(glued).then_some("it joins lines within a word")
}

impl Reader {
    pub(super) fn whole(&mut self) {
        self.list(&[]);
        while self.peek().is_some() {
            self.doubt("it has a syntax error");
            self.skip(1);
            self.list(&[]);
        }
        if !self.documents.is_empty() {
            self.doubt("it has a here-document without an end");
        }
    }

    /// Reads commands up to a closing parenthesis, the end of a case or one of the words in `ends`.
    /// The kind of operator between commands is not recorded, because each command may run.
    pub(super) fn list(&mut self, ends: &[&str]) {
        let mut follows_end = true;
        let mut piped = None;
        loop {
            self.skip_lines();
            let is_end = self.bare_word().is_some_and(|word| ends.contains(&word.as_str()));
            if is_end
                || matches!(self.peek(), None | Some(')'))
                || self.starts_with(";;")
                || self.starts_with(";&")
            {
                return;
            }
            let before = self.position();
            let first = self.script.parts.len();
            let word = self.bare_word().unwrap_or_default();
            let is_plain =
                self.peek() != Some('(') && (word == "for" || !RESERVED.contains(&word.as_str()));
            self.nested(Self::command);
            if self.position() == before {
                self.doubt("it has a syntax error");
            }
            self.skip_blanks();
            piped = self.pipe_from(first, piped.take());
            if self.starts_with(";;")
                || self.starts_with(";&")
                || matches!(self.peek(), None | Some(')'))
            {
                return;
            }
            // After `&&` or `||`, in a pipeline or inside a construct, it is not certain that a
            // command runs, or that it runs in this shell.
            let is_certain = self.is_top() && is_plain && follows_end;
            let joined =
                ["&&", "||", "|&", "|", "&", ";", "\n"].iter().find(|joint| self.take(joint));
            if joined == Some(&"\n") {
                self.read_documents();
            }
            let ends_command = matches!(joined, Some(&(";" | "\n")));
            if let Some(part) = self.script.parts.get_mut(first) {
                let is_list =
                    matches!(part.assigned.as_slice(), [Assigned { values: Values::Each(_), .. }]);
                part.certain = is_certain && ends_command && (is_list || part.words.is_empty());
            }
            follows_end = ends_command;
            if joined.is_none() {
                self.doubt("it has a syntax error");
            }
            if self.position() == before {
                self.skip(1);
            }
        }
    }

    /// Gives the text before a pipe to the command after it. Returns the text that the command
    /// itself prints into a pipe. Only a single command on each side of the pipe is looked at.
    fn pipe_from(&mut self, first: usize, text: Option<String>) -> Option<String> {
        let is_piped = self.peek() == Some('|') && self.peek_at(1) != Some('|');
        let is_single = self.script.parts.len() == first + 1;
        let part = self.script.parts.get_mut(first).filter(|_| is_single)?;
        part.input = part.input.take().or(text);
        printed(part).filter(|_| is_piped)
    }

    /// Skips blanks and line ends.
    fn skip_lines(&mut self) {
        self.skip_blanks();
        while self.take("\n") {
            self.read_documents();
            self.skip_blanks();
        }
    }

    fn command(&mut self) {
        self.skip_blanks();
        if self.peek() == Some('(') {
            if self.peek_at(1) == Some('(') {
                self.doubt("it computes");
            }
            self.skip(1);
            self.list(&[]);
            self.close(")");
            return self.redirects();
        }
        let word = self.bare_word().unwrap_or_default();
        let length = word.chars().count();
        match word.as_str() {
            "{" => {
                self.skip(1);
                self.list(&["}"]);
                self.close("}");
                self.redirects();
            }
            "!" => {
                self.skip(length);
                self.nested(Self::command);
            }
            "coproc" => {
                self.doubt("it contains a coprocess");
                self.skip(length);
                self.nested(Self::command);
            }
            "if" => self.conditional(),
            "while" | "until" => {
                self.skip(length);
                self.repeated(&["do"]);
                self.close("do");
                self.repeated(&["done"]);
                self.close("done");
                self.redirects();
            }
            "for" | "select" => self.for_loop(&word),
            "case" => self.case(),
            "function" => {
                self.skip(length);
                self.skip_blanks();
                self.word();
                self.skip_blanks();
                self.function();
            }
            "[[" => self.test(),
            "time" => self.timed(),
            "then" | "elif" | "else" | "fi" | "do" | "done" | "esac" | "in" | "}" | "]]" => {
                self.doubt("it contains a reserved word as a command");
                self.skip(length);
                self.simple(Vec::new());
            }
            _ => self.simple(Vec::new()),
        }
    }

    fn repeated(&mut self, ends: &[&str]) {
        self.loops += 1;
        self.list(ends);
        self.loops -= 1;
    }

    /// Skips the word that ends a construct.
    fn close(&mut self, end: &str) {
        self.skip_lines();
        let is_there = if end == ")" {
            self.peek() == Some(')')
        } else {
            self.bare_word().as_deref() == Some(end)
        };
        if !is_there || !self.take(end) {
            self.doubt("it has a syntax error");
        }
    }

    fn conditional(&mut self) {
        self.skip("if".len());
        self.list(&["then"]);
        self.close("then");
        loop {
            self.list(&["elif", "else", "fi"]);
            match self.bare_word().as_deref() {
                Some("elif") => {
                    self.skip("elif".len());
                    self.list(&["then"]);
                    self.close("then");
                }
                Some("else") => self.skip("else".len()),
                _ => break,
            }
        }
        self.close("fi");
        self.redirects();
    }

    fn for_loop(&mut self, keyword: &str) {
        self.skip(keyword.len());
        self.skip_blanks();
        if keyword == "select" || self.peek() == Some('(') {
            self.doubt("it contains an unusual loop");
        }
        let name = self.word().map(|word| word.raw).unwrap_or_default();
        if !is_name(&name) {
            self.doubt("it sets something other than a variable");
        }
        self.skip_lines();
        let mut values = Values::Unknown;
        if self.bare_word().as_deref() == Some("in") {
            self.skip("in".len());
            let mut words = Vec::new();
            self.skip_blanks();
            while let Some(word) = self.word() {
                words.push(word);
                self.skip_blanks();
            }
            values = Values::Each(words);
        }
        // Record the loop variable as an assignment, so that its uses in the body can be expanded.
        self.add(SimpleCommand {
            assigned: vec![Assigned { name, values }],
            ..SimpleCommand::default()
        });
        self.skip_blanks();
        self.take(";");
        self.skip_lines();
        let braced = self.bare_word().as_deref() == Some("{");
        self.close(if braced { "{" } else { "do" });
        let end = if braced { "}" } else { "done" };
        self.repeated(&[end]);
        self.close(end);
        self.redirects();
    }

    fn case(&mut self) {
        self.doubt("it contains a case");
        self.skip("case".len());
        self.skip_blanks();
        self.word();
        self.close("in");
        loop {
            self.skip_lines();
            if self.peek().is_none() || self.bare_word().as_deref() == Some("esac") {
                break;
            }
            let before = self.position();
            self.take("(");
            while self.word().is_some() || self.take("|") {
                self.skip_blanks();
            }
            self.take(")");
            self.list(&["esac"]);
            let _ = self.take(";;&") || self.take(";;") || self.take(";&");
            if self.position() == before {
                self.skip(1);
            }
        }
        self.close("esac");
        self.redirects();
    }

    /// Reads a function's body, after its name.
    fn function(&mut self) {
        self.doubt("it makes a function");
        if self.take("(") {
            self.skip_blanks();
            self.take(")");
        }
        self.skip_lines();
        self.loops += 1;
        self.nested(Self::command);
        self.loops -= 1;
    }

    fn timed(&mut self) {
        let mut prefix = Vec::new();
        while self.bare_word().as_deref() == Some("time")
            || !prefix.is_empty() && self.bare_word().as_deref() == Some("-p")
        {
            prefix.extend(self.word());
            self.skip_blanks();
        }
        let is_compound = self.bare_word().is_some_and(|word| RESERVED.contains(&word.as_str()));
        if is_compound || self.peek() == Some('(') {
            self.add(SimpleCommand { words: prefix, ..SimpleCommand::default() });
            self.nested(Self::command);
        } else {
            self.simple(prefix);
        }
    }

    fn simple(&mut self, prefix: Vec<ShellWord>) {
        let bare = prefix.len();
        let mut part = SimpleCommand { words: prefix, ..SimpleCommand::default() };
        loop {
            self.skip_blanks();
            if self.redirect(&mut part) {
                continue;
            }
            if self.peek() == Some('(') {
                if part.words.len() == bare + 1 && part.assigned.is_empty() {
                    return self.function();
                }
                self.doubt("it has a parenthesis after a command");
                self.skip(1);
                self.list(&[]);
                self.close(")");
                continue;
            }
            if part.words.len() == bare && self.assignment(&mut part) {
                continue;
            }
            let Some(word) = self.word() else { break };
            // `{name}>file` is a redirect too, although it begins like a word.
            if word.raw.starts_with('{') && matches!(self.peek(), Some('<' | '>')) {
                self.doubt("it has an unusual redirect");
            }
            part.words.push(word);
        }
        let name = part.words.get(bare).map_or("", |word| word.raw.as_str());
        if DECLARING.contains(&name) {
            self.doubt("it declares variables");
        }
        if !part.words.is_empty() || !part.assigned.is_empty() || !part.redirects.is_empty() {
            self.add(part);
        }
    }

    /// Reads `name=value` if it comes next. Returns true if an assignment was read.
    fn assignment(&mut self, part: &mut SimpleCommand) -> bool {
        let mut length = 0;
        while self.peek_at(length).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            length += 1;
        }
        let start = self.position();
        let is_name = length > 0 && !self.peek().is_some_and(|c| c.is_ascii_digit());
        let (adds, sign) = match (self.peek_at(length), self.peek_at(length + 1)) {
            (Some('='), _) => (false, 1),
            (Some('+'), Some('=')) => (true, 2),
            (Some('['), _) if is_name => {
                self.doubt("it sets something other than a variable");
                return false;
            }
            _ => return false,
        };
        if !is_name {
            return false;
        }
        self.skip(length);
        let name = self.since(start);
        self.skip(sign);
        let is_array = self.peek() == Some('(');
        if is_array {
            self.doubt("it sets an array");
            self.skip(1);
            self.list(&[]);
            self.close(")");
        }
        let value = self.word().unwrap_or_default();
        let values = if adds || is_array { Values::Unknown } else { Values::One(value) };
        part.assigned.push(Assigned { name, values });
        true
    }

    /// Reads the redirects after a compound command.
    fn redirects(&mut self) {
        let mut part = SimpleCommand::default();
        self.skip_blanks();
        while self.redirect(&mut part) {
            self.skip_blanks();
        }
        if !part.redirects.is_empty() {
            self.add(part);
        }
    }

    /// Reads one redirect if it comes next. Returns true if a redirect was read.
    fn redirect(&mut self, part: &mut SimpleCommand) -> bool {
        let mut digits = 0;
        while self.peek_at(digits).is_some_and(|c| c.is_ascii_digit()) {
            digits += 1;
        }
        let is_arrow = |c: Option<char>| matches!(c, Some('<' | '>'));
        let opens = is_arrow(self.peek_at(digits)) && self.peek_at(digits + 1) != Some('(');
        if !(opens || digits == 0 && self.starts_with("&>")) {
            if digits > 0 && is_arrow(self.peek_at(digits)) {
                self.doubt("it has an unusual redirect");
            }
            return false;
        }
        self.skip(digits);
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"];
        let operator =
            operators.iter().find(|operator| self.take(operator)).copied().unwrap_or_default();
        self.skip_blanks();
        let Some(word) = self.word() else {
            self.doubt("it has a syntax error");
            return true;
        };
        let is_number = || word.raw.trim_end_matches('-').chars().all(|c| c.is_ascii_digit());
        match operator {
            "<<<" => part.input = word.exact().map(str::to_owned),
            "<<" | "<<-" => self.announce(&word, operator == "<<-"),
            // With a number as the target, the redirect duplicates a file descriptor and opens no
            // file.
            "<&" | ">&" if is_number() => {}
            "<" => part.redirects.push(Redirect::Read(word)),
            ">" | ">>" | "&>" | "&>>" | ">|" | ">&" => part.redirects.push(Redirect::Write(word)),
            _ => {
                self.doubt("it has an unusual redirect");
                part.redirects.push(Redirect::Write(word));
            }
        }
        true
    }

    fn announce(&mut self, end: &ShellWord, strips_tabs: bool) {
        self.doubt("it contains a here-document");
        // The shell expands a here-document only if the delimiter after `<<` has no quotes.
        let expands = end.units.iter().all(|unit| matches!(unit, Unit::Plain(_)));
        let letter = |unit: &Unit| match unit {
            Unit::Plain(c) | Unit::Quoted(c) => Some(*c),
            Unit::Quotes | Unit::Variable(..) | Unit::Open(_) => None,
        };
        let end = end.units.iter().filter_map(letter).collect();
        self.documents.push(Document { end, expands, strips_tabs });
    }

    /// Reads `[[ ... ]]`. Only plain comparisons of plain words are accepted.
    fn test(&mut self) {
        self.skip("[[".len());
        let mut computes = false;
        let mut is_plain = true;
        loop {
            self.skip_lines();
            match self.bare_word().as_deref() {
                Some("]]") => {
                    self.skip("]]".len());
                    break;
                }
                Some("=~") => self.doubt("it tests with a pattern"),
                Some(word) => computes |= ARITHMETIC_TESTS.contains(&word),
                None => {}
            }
            let joins = ["&&", "||", "(", ")", "<", ">"];
            if !self.starts_with("<(")
                && !self.starts_with(">(")
                && joins.iter().any(|joint| self.take(joint))
            {
                continue;
            }
            match self.word() {
                Some(word) => {
                    let is_number = word.raw.chars().all(|c| c.is_ascii_digit());
                    is_plain &= is_number || ARITHMETIC_TESTS.contains(&word.raw.as_str());
                }
                None => {
                    self.doubt("it has a syntax error");
                    break;
                }
            }
        }
        if computes && !is_plain {
            self.doubt("it computes inside a test");
        }
        self.add(SimpleCommand::default());
        self.redirects();
    }

    fn add(&mut self, mut part: SimpleCommand) {
        part.repeated = self.loops > 0;
        self.script.parts.push(part);
    }
}

/// Returns the text that a plain `echo` or `printf` prints.
fn printed(part: &SimpleCommand) -> Option<String> {
    let (name, args) = part.words.split_first()?;
    let texts: Vec<&str> = args.iter().map(ShellWord::exact).collect::<Option<_>>()?;
    let is_plain = texts.iter().all(|text| !text.contains('\\') && !text.starts_with('-'));
    let is_printed = match name.exact()? {
        "echo" => true,
        "printf" => texts.len() == 1 && !texts.iter().any(|text| text.contains('%')),
        _ => false,
    };
    (is_plain && is_printed && part.redirects.is_empty()).then(|| texts.join(" "))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Words that start a shell construct.
const RESERVED: [&str; 12] =
    ["!", "[[", "{", "case", "coproc", "for", "function", "if", "select", "time", "until", "while"];

/// Shell builtins that set variables or aliases by their arguments.
const DECLARING: [&str; 7] =
    ["declare", "export", "local", "readonly", "typeset", "unset", "alias"];

/// Tests that evaluate arithmetic. An operand may be an array element, and its index can run a
/// command.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

#[cfg(test)]
mod tests;
