//! Reads a command's syntax tree into the parts that run, by an allow-list of node kinds.
//!
//! A kind that is not on the list is a doubt; the commands inside it are still collected, so that a
//! deny rule finds them.

use tree_sitter::{Node, Parser};

use super::word::{Fate, Quoted, Word, variable_fate};

/// A longer command is not looked at: it is a doubt.
const LENGTH_LIMIT_BYTES: usize = 32 * 1024;

/// A deeper nesting is not looked at: it is a doubt, and the stack stays small.
const DEPTH_LIMIT: usize = 60;

/// A command line taken apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Everything that would run, in the order written.
    pub(crate) parts: Vec<Part>,
    /// What could not be understood.
    pub(crate) doubts: Vec<String>,
}

/// One simple command, or the redirects of a compound one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// The command and its arguments; empty when there are only redirects or assignments.
    pub(crate) words: Vec<Word>,
    /// The names of the variables it sets.
    pub(crate) assigned: Vec<String>,
    /// The files its redirects open.
    pub(crate) redirects: Vec<Redirect>,
    /// Whether it stands in a loop's body or condition.
    pub(crate) repeated: bool,
}

/// A file that a redirect opens.
#[derive(Clone, Debug)]
pub(crate) enum Redirect {
    /// Opened to be read.
    Read(Word),
    /// Created, cut or appended to.
    Write(Word),
}

impl Script {
    /// Takes a command apart. Never fails: what is not understood becomes a doubt.
    pub(crate) fn parse(command: &str) -> Self {
        let mut script = Self::default();
        if let Some(doubt) = odd_text(command) {
            script.doubts.push(doubt.to_owned());
        }
        if command.len() > LENGTH_LIMIT_BYTES {
            return script;
        }
        let mut parser = Parser::new();
        let language = parser.set_language(&tree_sitter_bash::LANGUAGE.into());
        let Some(tree) = language.ok().and_then(|()| parser.parse(command, None)) else {
            script.doubts.push("no parser is there to read it".to_owned());
            return script;
        };
        if tree.root_node().has_error() {
            script.doubts.push("it has a syntax error".to_owned());
        }
        let mut reader = Reader { source: command, script, depth: 0, loops: 0 };
        reader.statement(tree.root_node());
        reader.script
    }
}

/// Whether the braces stand apart, as the shell wants them to.
fn is_brace_group(text: &str) -> bool {
    let body = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    body.is_some_and(|body| body.starts_with([' ', '\t', '\n']) && body.ends_with([' ', '\t', '\n', ';', '&']))
}

/// Whether the node stands in a command substitution of this kind.
fn is_substituted(node: Node<'_>, is_it: impl Fn(Node<'_>) -> bool) -> bool {
    let around = std::iter::successors(node.parent(), Node::parent);
    around.into_iter().any(|around| around.kind() == "command_substitution" && is_it(around))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Finds text that a shell and the parser may read differently.
fn odd_text(command: &str) -> Option<&'static str> {
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t' || c.is_whitespace() && !c.is_ascii();
    if command.len() > LENGTH_LIMIT_BYTES {
        return Some("it is too long to be read");
    }
    if command.chars().any(odd) {
        return Some("it holds control characters or unusual spaces");
    }
    if command.contains("\\ ") || command.contains("\\\t") {
        return Some("it holds an escaped space");
    }
    let glued = |(at, _): (usize, &str)| !command.get(..at).is_some_and(|before| before.ends_with([' ', '\t']));
    command.match_indices("\\\n").any(glued).then_some("it joins lines within a word")
}

struct Reader<'a> {
    source: &'a str,
    script: Script,
    depth: usize,
    loops: usize,
}

impl<'a> Reader<'a> {
    fn text(&self, node: Node<'_>) -> &'a str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    fn doubt(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.script.doubts.contains(&what) {
            self.script.doubts.push(what);
        }
    }

    fn add(&mut self, mut part: Part) {
        part.repeated = self.loops > 0;
        self.script.parts.push(part);
    }

    fn statement(&mut self, node: Node<'_>) {
        if self.depth >= DEPTH_LIMIT {
            self.doubt("it is nested too deeply");
            return;
        }
        self.depth += 1;
        self.known_statement(node);
        self.depth -= 1;
    }

    fn known_statement(&mut self, node: Node<'_>) {
        match node.kind() {
            "program" | "list" | "pipeline" | "subshell" | "negated_command" | "if_statement" | "elif_clause"
            | "else_clause" => self.inside(node),
            "while_statement" | "do_group" => {
                self.loops += 1;
                self.inside(node);
                self.loops -= 1;
            }
            "compound_statement" if is_brace_group(self.text(node)) => self.inside(node),
            "for_statement" if self.text(node).starts_with("for") => self.for_loop(node),
            "redirected_statement" => self.redirected(node),
            "command" => self.command(node),
            "test_command" => self.test(node),
            "variable_assignment" => {
                let mut part = Part::default();
                self.assignment(node, &mut part);
                self.add(part);
            }
            "variable_assignments" => self.inside(node),
            "comment" => self.comment(node),
            kind => {
                self.doubt(format!("it holds a {}", kind.replace('_', " ")));
                self.inside(node);
            }
        }
    }

    fn inside(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            self.statement(child);
        }
    }

    /// A comment hides what follows it, so it must be one for the shell too.
    fn comment(&mut self, node: Node<'_>) {
        let before = self.source.get(..node.start_byte()).unwrap_or_default();
        let begins = before.is_empty() || before.ends_with([' ', '\t', '\n', ';', '&', '|', '(']);
        if !begins || is_substituted(node, |_| true) {
            self.doubt("it holds a `#` that may be no comment");
        }
    }

    fn for_loop(&mut self, node: Node<'_>) {
        let mut part = Part::default();
        if let Some(variable) = node.child_by_field_name("variable") {
            part.assigned.push(self.text(variable).to_owned());
        }
        let mut cursor = node.walk();
        let values: Vec<Node<'_>> = node.children_by_field_name("value", &mut cursor).collect();
        for value in values {
            self.word(value);
        }
        self.add(part);
        if let Some(body) = node.child_by_field_name("body") {
            self.statement(body);
        }
    }

    fn redirected(&mut self, node: Node<'_>) {
        let mut part = Part::default();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => self.redirect(child, &mut part),
                _ => self.statement(child),
            }
        }
        self.add(part);
    }

    fn command(&mut self, node: Node<'_>) {
        let mut part = Part::default();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "variable_assignment" => self.assignment(child, &mut part),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => self.redirect(child, &mut part),
                "comment" => self.comment(child),
                "command_name" => {
                    let word = child.named_child(0).map(|name| self.word(name));
                    part.words.push(word.unwrap_or_else(|| Word::unknown(self.text(child))));
                }
                "subshell" => {
                    self.doubt("it has a parenthesis after a command");
                    self.statement(child);
                }
                _ => {
                    let word = self.word(child);
                    part.words.push(word);
                }
            }
        }
        let mut names =
            part.words.iter().map(|word| word.raw.as_str()).skip_while(|name| matches!(*name, "time" | "-p"));
        if names.next().is_some_and(|name| RESERVED.contains(&name)) {
            self.doubt("it holds a reserved word as a command");
        }
        self.add(part);
    }

    fn assignment(&mut self, node: Node<'_>, part: &mut Part) {
        let name = node.child_by_field_name("name");
        let plain = |name: &Node<'_>| {
            let after = self.source.get(name.end_byte()..).unwrap_or_default();
            is_name(self.text(*name)) && self.begins(*name) && (after.starts_with('=') || after.starts_with("+="))
        };
        match name.filter(plain) {
            Some(name) => part.assigned.push(self.text(name).to_owned()),
            None => self.doubt("it sets something other than a variable"),
        }
        match node.child_by_field_name("value") {
            Some(value) if value.kind() == "array" => self.doubt("it sets an array"),
            Some(value) => {
                self.word(value);
            }
            None => {}
        }
    }

    fn redirect(&mut self, node: Node<'_>, part: &mut Part) {
        let descriptor = node.child_by_field_name("descriptor");
        let plain = |node: Node<'_>| self.text(node).bytes().all(|byte| byte.is_ascii_digit()) && self.begins(node);
        if !descriptor.is_none_or(plain) {
            self.doubt("it redirects something that is no number");
        }
        let mut cursor = node.walk();
        let operator = node.children(&mut cursor).find(|child| !child.is_named()).map_or("", |child| child.kind());
        if node.kind() == "heredoc_redirect" {
            self.doubt("it holds a here-document");
            self.inside(node);
            return;
        }
        if node.kind() == "herestring_redirect" {
            let mut cursor = node.walk();
            let words: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
            for word in words.into_iter().filter(|word| word.kind() != "file_descriptor") {
                self.word(word);
            }
            return;
        }
        let mut cursor = node.walk();
        let targets: Vec<Node<'_>> = node.children_by_field_name("destination", &mut cursor).collect();
        let mut words = targets.iter().map(|target| self.word(*target)).collect::<Vec<_>>().into_iter();
        let mut target = words.next();
        if words.next().is_some() {
            self.doubt("it has words after a redirect");
        }
        // The grammar cuts some words in two: then only the beginning is known.
        if let (Some(node), Some(word)) = (targets.first(), &mut target)
            && !self.stands_alone(*node)
        {
            word.expand(Fate::Begins);
        }
        let is_number = |word: &Word| word.raw == "-" || word.raw.chars().all(|c| c.is_ascii_digit());
        match (operator, target) {
            ("<&-" | ">&-", None) => {}
            ("<&" | ">&", Some(word)) if is_number(&word) => {}
            ("<", Some(word)) => part.redirects.push(Redirect::Read(word)),
            (">" | ">>" | "&>" | "&>>" | ">|" | ">&", Some(word)) => part.redirects.push(Redirect::Write(word)),
            _ => self.doubt("it has an unusual redirect"),
        }
    }

    /// `[ ... ]` and `[[ ... ]]`: plain comparisons of plain words.
    fn test(&mut self, node: Node<'_>) {
        let text = self.text(node);
        let inside = text.trim_start_matches('[').trim_end_matches(']');
        if !self.stands_alone(node) || text.contains('\n') || !inside.starts_with(' ') || !inside.ends_with(' ') {
            self.doubt("it holds brackets that may be no test");
        }
        let mut todo = vec![node];
        let mut computes = false;
        let mut plain = true;
        while let Some(node) = todo.pop() {
            match node.kind() {
                "test_command" | "unary_expression" | "binary_expression" | "parenthesized_expression" => {
                    let mut cursor = node.walk();
                    todo.extend(node.children(&mut cursor));
                }
                "word"
                | "string"
                | "raw_string"
                | "concatenation"
                | "simple_expansion"
                | "expansion"
                | "command_substitution" => {
                    plain = false;
                    self.word(node);
                }
                "test_operator" => computes |= ARITHMETIC_TESTS.contains(&self.text(node)),
                "number" | "regex" | "extglob_pattern" | "comment" => {}
                _ if !node.is_named() => {}
                kind => self.doubt(format!("it tests a {}", kind.replace('_', " "))),
            }
        }
        if computes && !plain {
            self.doubt("it computes inside a test");
        }
        self.add(Part::default());
    }

    fn word(&mut self, node: Node<'_>) -> Word {
        let mut word = Word { raw: self.text(node).to_owned(), ..Word::default() };
        if self.depth >= DEPTH_LIMIT {
            self.doubt("it is nested too deeply");
            return Word::unknown(&word.raw);
        }
        if !self.stands_alone(node) {
            self.doubt("it holds a word that runs into the next");
        }
        self.depth += 1;
        self.piece(node, &mut word, Quoted::No);
        self.depth -= 1;
        word
    }

    /// Whether the shell, too, ends the word where the grammar does.
    fn stands_alone(&self, node: Node<'_>) -> bool {
        let after = self.source.get(node.end_byte()..).unwrap_or_default();
        let closes =
            || after.starts_with('`') && is_substituted(node, |around| around.end_byte() == node.end_byte() + 1);
        self.begins(node) && (after.is_empty() || after.starts_with(BREAKS) || closes())
    }

    fn begins(&self, node: Node<'_>) -> bool {
        let before = self.source.get(..node.start_byte()).unwrap_or_default();
        let opens =
            || before.ends_with('`') && is_substituted(node, |around| around.start_byte() + 1 == node.start_byte());
        let is_value =
            || before.ends_with('=') && node.parent().is_some_and(|parent| parent.kind() == "variable_assignment");
        before.is_empty() || before.ends_with(BREAKS) || opens() || is_value()
    }

    fn piece(&mut self, node: Node<'_>, word: &mut Word, quoted: Quoted) {
        let text = self.text(node);
        match node.kind() {
            "word" | "number" if node.named_child_count() == 0 && !text.contains([' ', '\t', '\n']) => {
                word.push_unquoted(text);
            }
            "raw_string" => word.push(text.trim_start_matches('\'').trim_end_matches('\'')),
            "string" => self.double_quoted(node, word),
            "concatenation" => self.glued(node, word),
            "simple_expansion" => word.expand(variable_fate(node, self.source, quoted)),
            "expansion" => {
                let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
                if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.doubt("it computes in an expansion");
                    self.inside(node);
                }
                word.expand(variable_fate(node, self.source, quoted));
            }
            "command_substitution" | "process_substitution" => {
                self.substitution(node);
                word.expand(if quoted == Quoted::Yes { Fate::Begins } else { Fate::Anything });
            }
            "brace_expression" => word.expand(Fate::Begins),
            "$" | "==" | "=~" => word.push(text),
            kind => {
                self.doubt(format!("it holds a {}", kind.replace('_', " ")));
                self.inside(node);
                word.expand(Fate::Anything);
            }
        }
    }

    fn double_quoted(&mut self, node: Node<'_>, word: &mut Word) {
        // The grammar leaves spaces between expansions out of its nodes, so the gaps are read too.
        let mut at = node.start_byte() + 1;
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children.into_iter().filter(|child| child.kind() != "string_content") {
            word.push_double_quoted(self.source.get(at..child.start_byte()).unwrap_or_default());
            self.piece(child, word, Quoted::Yes);
            at = child.end_byte();
        }
        let end = node.end_byte().saturating_sub(1);
        word.push_double_quoted(self.source.get(at..end).unwrap_or_default());
    }

    fn glued(&mut self, node: Node<'_>, word: &mut Word) {
        let mut at = node.start_byte();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        for child in children {
            if child.start_byte() != at || child.kind() == "process_substitution" {
                self.doubt("it holds a word that is oddly put together");
            }
            self.piece(child, word, Quoted::No);
            at = child.end_byte();
        }
    }

    fn substitution(&mut self, node: Node<'_>) {
        let text = self.text(node);
        if text.starts_with('`') && (text.contains('\\') || text.matches('`').count() != 2) {
            self.doubt("it holds escapes or more backquotes between backquotes");
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            if child.kind() == "file_redirect" {
                let mut part = Part::default();
                self.redirect(child, &mut part);
                self.add(part);
            } else {
                self.statement(child);
            }
        }
    }
}

/// Characters that end a word.
const BREAKS: [char; 10] = [' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>'];

/// Words that begin or end a construct of the shell: as a command's name they mean a misreading.
const RESERVED: [&str; 20] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while", "{",
];

/// Tests that compute: an operand may name an array element and run a command in its index.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(command: &str) -> String {
        let script = Script::parse(command);
        let mut lines: Vec<String> = script
            .parts
            .iter()
            .map(|part| {
                let words: Vec<_> = part.words.iter().map(|word| format!("{:?}/{:?}", word.text, word.fate)).collect();
                format!("{:?} {} {:?}", part.assigned, words.join(" "), part.redirects.len())
            })
            .collect();
        lines.extend(script.doubts.iter().map(|doubt| format!("doubt: {doubt}")));
        lines.join("\n")
    }

    #[test]
    fn quotes_are_taken_off_and_expansions_marked() {
        insta::assert_snapshot!(seen(r#"cat 'a b' "c \"d\"" e\*f g*.rs "x$HOME" $y r''m ~/z ~bob"#), @r#"
        [] "cat"/Exact "a b"/Exact "c \"d\""/Exact "e*f"/Exact "g"/Begins "x"/Begins ""/Anything "rm"/Exact "~/z"/Exact ""/Begins 0
        "#);
    }

    #[test]
    fn every_part_of_a_compound_command_is_seen() {
        insta::assert_snapshot!(seen("A=1 ls -l && (pwd; rm x) | tee y > z & echo $(id -u) `who`\nwhoami"), @r#"
        ["A"] "ls"/Exact "-l"/Exact 0
        [] "pwd"/Exact 0
        [] "rm"/Exact "x"/Exact 0
        [] "tee"/Exact "y"/Exact 0
        []  1
        [] "id"/Exact "-u"/Exact 0
        [] "who"/Exact 0
        [] "echo"/Exact ""/Anything ""/Anything 0
        [] "whoami"/Exact 0
        "#);
    }

    #[test]
    fn what_is_not_on_the_list_is_a_doubt_and_still_looked_into() {
        for command in [
            "f() { rm x; }",
            "case a in a) rm x;; esac",
            "export PATH=/x",
            "echo ${x:=y}",
            "echo $((1+1))",
            "cat <<EOF\nx\nEOF",
            "ls\u{a0}x",
            "ls\rrm x",
            "rm\\\nx y",
            "[ -v 'a[$(rm x)]' ]",
            "[[ $x -eq 1 ]]",
            "echo $'a'",
            "a=(1 2)",
            "((x=1))",
            "echo 'unfinished",
        ] {
            assert!(!Script::parse(command).doubts.is_empty(), "{command}: {}", seen(command));
        }
        let inner = Script::parse("f() { rm x; }");
        assert!(inner.parts.iter().any(|part| part.words.first().is_some_and(|word| word.text == "rm")));
    }

    #[test]
    fn a_deep_or_long_command_is_a_doubt_and_no_overflow() {
        let deep = format!("{}ls{}", "$(".repeat(3_000), ")".repeat(3_000));
        assert!(!Script::parse(&deep).doubts.is_empty());
        assert!(!Script::parse(&"ls;".repeat(20_000)).doubts.is_empty());
    }
}
