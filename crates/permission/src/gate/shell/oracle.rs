//! Tests pitcrew's shell parser against the parser of brush, another shell. For every command,
//! pitcrew's parser must find all commands and files that brush finds, or record a doubt.

use std::collections::BTreeSet;
use std::io::Cursor;

use brush_parser::ast::{
    AndOr, AndOrList, AssignmentValue, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand,
    CompoundList, IoFileRedirectKind as Kind, IoFileRedirectTarget as File, IoRedirect, Pipeline,
    SimpleCommand, Word as BrushWord,
};
use brush_parser::word::{self, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::rules::squeeze;
use super::{Redirect, Script};

/// The commands that a script runs and the files that it writes, each spelled as in the script.
#[derive(Debug, Default)]
struct Effects {
    commands: BTreeSet<Vec<String>>,
    writes: BTreeSet<String>,
}

fn ours(command: &str) -> Option<Effects> {
    let script = Script::parse(command);
    if !script.doubts.is_empty() {
        return None;
    }
    let mut seen = Effects::default();
    for part in script.parts {
        seen.commands.insert(part.words.iter().map(|word| word.raw.clone()).collect());
        for redirect in part.redirects {
            if let Redirect::Write(word) = redirect {
                seen.writes.insert(word.raw);
            }
        }
    }
    Some(seen)
}

/// Parses the command with brush. Returns `None` if brush rejects the command.
fn theirs(command: &str) -> Option<Effects> {
    let options = ParserOptions::default();
    let program = Parser::new(Cursor::new(command), &options).parse_program().ok()?;
    let mut seen = Effects::default();
    for list in &program.complete_commands {
        seen.list(list);
    }
    Some(seen)
}

impl Effects {
    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            let AndOrList { first, additional } = &item.0;
            self.pipeline(first);
            for AndOr::And(pipeline) | AndOr::Or(pipeline) in additional {
                self.pipeline(pipeline);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for command in &pipeline.seq {
            match command {
                Command::Simple(simple) => self.simple(simple),
                Command::Compound(compound, redirects) => {
                    self.compound(compound);
                    redirects
                        .iter()
                        .flat_map(|list| &list.0)
                        .for_each(|redirect| self.redirect(redirect));
                }
                Command::Function(_) => self.foreign("function"),
                Command::ExtendedTest(_, redirects) => {
                    redirects
                        .iter()
                        .flat_map(|list| &list.0)
                        .for_each(|redirect| self.redirect(redirect));
                }
            }
        }
    }

    /// Records a construct for which pitcrew's parser must record a doubt. The construct is stored
    /// as a command name that pitcrew's parser can never produce.
    fn foreign(&mut self, what: &str) {
        self.commands.insert(vec![format!("<{what}>")]);
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(shell) => self.list(&shell.list),
            CompoundCommand::ForClause(clause) => {
                clause.values.iter().flatten().for_each(|word| self.word(word));
                self.list(&clause.body.list);
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for branch in clause.elses.iter().flatten() {
                    branch.condition.iter().for_each(|list| self.list(list));
                    self.list(&branch.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Arithmetic(_)
            | CompoundCommand::ArithmeticForClause(_)
            | CompoundCommand::CaseClause(_)
            | CompoundCommand::Coprocess(_) => self.foreign("compound"),
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let mut words: Vec<String> = Vec::new();
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        prefix.for_each(|item| self.item(item, &mut words));
        words.clear();
        if let Some(name) = &simple.word_or_name {
            self.word(name);
            words.push(name.value.clone());
        }
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        suffix.for_each(|item| self.item(item, &mut words));
        if !words.is_empty() && words.first().is_none_or(|name| name != "[") {
            self.commands.insert(words);
        }
    }

    fn item(&mut self, item: &Item, words: &mut Vec<String>) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect),
            Item::Word(word) => {
                self.word(word);
                words.push(word.value.clone());
            }
            Item::AssignmentWord(assignment, word) => {
                match &assignment.value {
                    AssignmentValue::Scalar(value) => self.word(value),
                    AssignmentValue::Array(_) => self.foreign("array"),
                }
                words.push(word.value.clone());
            }
            Item::ProcessSubstitution(_, shell) => {
                self.list(&shell.list);
                // Brush does not keep the spelling of a process substitution. Use an empty text
                // instead, so that at least the number of words can be compared.
                words.push(String::new());
            }
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect) {
        match redirect {
            IoRedirect::File(_, kind, File::Filename(word)) => {
                self.word(word);
                match kind {
                    Kind::Write
                    | Kind::Append
                    | Kind::Clobber
                    | Kind::ReadAndWrite
                    | Kind::DuplicateOutput => {
                        self.writes.insert(word.value.clone());
                    }
                    Kind::Read | Kind::DuplicateInput => {}
                }
            }
            IoRedirect::File(_, Kind::DuplicateOutput, File::Duplicate(word)) => {
                self.word(word);
                if !word.value.trim_end_matches('-').chars().all(|c| c.is_ascii_digit()) {
                    self.writes.insert(word.value.clone());
                }
            }
            IoRedirect::File(_, _, File::Fd(_) | File::Duplicate(_)) => {}
            IoRedirect::File(_, _, File::ProcessSubstitution(_, shell)) => self.list(&shell.list),
            IoRedirect::OutputAndError(word, _) => {
                self.word(word);
                self.writes.insert(word.value.clone());
            }
            IoRedirect::HereString(_, word) => self.word(word),
            IoRedirect::HereDocument(..) => self.foreign("here-document"),
        }
    }

    fn word(&mut self, word: &BrushWord) {
        if let Ok(pieces) = word::parse(&word.value, &ParserOptions::default()) {
            self.pieces(&pieces);
        }
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource]) {
        for piece in pieces {
            match &piece.piece {
                WordPiece::CommandSubstitution(text)
                | WordPiece::BackquotedCommandSubstitution(text) => {
                    if let Some(inner) = theirs(text) {
                        self.commands.extend(inner.commands);
                        self.writes.extend(inner.writes);
                    }
                }
                WordPiece::DoubleQuotedSequence(pieces)
                | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                    self.pieces(pieces);
                }
                WordPiece::Text(_)
                | WordPiece::SingleQuotedText(_)
                | WordPiece::AnsiCQuotedText(_)
                | WordPiece::TildeExpansion(_)
                | WordPiece::ParameterExpansion(_)
                | WordPiece::EscapeSequence(_)
                | WordPiece::ArithmeticExpression(_) => {}
            }
        }
    }
}

/// Returns true if two spellings of a word are equal apart from spaces and joined lines. Brush
/// changes spaces and joined lines inside words.
fn same_letters(own: &str, theirs: &str) -> bool {
    squeeze(&own.replace("\\\n", "")) == squeeze(&theirs.replace("\\\n", ""))
}

/// Asserts that pitcrew's parser finds everything that brush finds, or records a doubt. Returns
/// true if both parsers accepted the command.
fn check(command: &str) -> bool {
    let (Some(ours), Some(theirs)) = (ours(command), theirs(command)) else { return false };
    for words in &theirs.commands {
        let equal = |own: &[String]| {
            own.len() == words.len()
                && own
                    .iter()
                    .zip(words)
                    .all(|(own, word)| word.is_empty() || same_letters(own, word))
        };
        // Brush treats `time` as a keyword before a pipeline and its assignments, and not as a
        // command.
        let untimed = |own: &[String]| {
            let before = |word: &&String| *word == "time" || *word == "-p" || word.contains('=');
            let skipped = own.iter().take_while(before).count();
            own.first().is_some_and(|name| name == "time")
                && (1..=skipped).any(|from| equal(&own[from..]))
        };
        let same = |own: &Vec<String>| equal(own) || untimed(own);
        assert!(
            ours.commands.iter().any(same),
            "{command:?}: unseen command {words:?} among {ours:?}"
        );
    }
    for file in &theirs.writes {
        assert!(
            ours.writes.iter().any(|own| same_letters(own, file)),
            "{command:?}: unseen write to {file} among {ours:?}"
        );
    }
    true
}

#[test]
fn both_parsers_see_the_same_commands() {
    let read_by_both = SNIPPETS.iter().filter(|command| check(command)).count();
    assert!(SNIPPETS.len() >= 60);
    assert!(read_by_both >= 50, "only {read_by_both} snippets were read by both");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn no_jumble_of_pieces_hides_a_command(pieces in prop::collection::vec((prop::sample::select(PIECES), any::<bool>()), 1..14)) {
        let glue = |(piece, spaced): &(&str, bool)| format!("{piece}{}", if *spaced { " " } else { "" });
        let command: String = pieces.iter().map(glue).collect();
        // Skip here-documents, because brush uses up all memory on an unfinished here-document. Our
        // parser records a doubt for every here-document.
        prop_assume!(!command.replace("<<<", "").contains("<<"));
        check(&command);
    }
}

const PIECES: &[&str] = &[
    "ls",
    "rm",
    "cat",
    "echo",
    "a",
    "b/c",
    "-n",
    "'",
    "'x y'",
    "\"",
    "\"x $y\"",
    "$(",
    "$(rm z)",
    "`",
    "`rm q`",
    ")",
    "(",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    ">",
    ">>",
    "<",
    "&>",
    "2>&1",
    ">&",
    ">|",
    "#",
    "\\",
    "{",
    "}",
    "if",
    "then",
    "fi",
    "else",
    "for i in a b",
    "while",
    "do",
    "done",
    "$x",
    "${x}",
    "!",
    "A=1",
    "[",
    "]",
    "<<<",
    "<(",
    "*",
    "~",
    "=",
    ",",
    "time",
    "\t",
];

const SNIPPETS: &[&str] = &[
    "ls",
    "ls -la src",
    "ls; rm x",
    "ls && rm x",
    "ls || rm x",
    "ls | tee x",
    "ls |& tee x",
    "ls & rm x",
    "ls\nrm x",
    "(ls; rm x)",
    "{ ls; rm x; }",
    "! rm x",
    "echo $(rm x)",
    "echo \"$(rm x)\"",
    "echo `rm x`",
    "echo \"`rm x`\"",
    "echo '$(rm x)'",
    "echo \"a $(echo $(rm x)) b\"",
    "cat <(rm x)",
    "tee >(rm x)",
    "diff <(ls a) <(ls b)",
    "if rm x; then ls; fi",
    "if ls; then rm x; fi",
    "if ls; then pwd; else rm x; fi",
    "if ls; then pwd; elif rm x; then ls; fi",
    "while ls; do rm x; done",
    "until ls; do rm x; done",
    "for i in a b; do rm $i; done",
    "for i in $(rm x); do ls; done",
    "A=1 rm x",
    "A=$(rm x)",
    "A=$(rm x) ls",
    "A=1 B=2",
    "> out",
    "ls > out",
    "ls >> out",
    "ls &> out",
    "ls &>> out",
    "ls >| out",
    "ls >& out",
    "ls 2> err",
    "ls 2>&1",
    "ls > out 2>&1",
    "> out rm x",
    "ls > out x",
    "cat < in > out",
    "cat <> file",
    "cat <<< $(rm x)",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<'EOF'\n$(rm x)\nEOF",
    "ls #rm x",
    "ls a#b; rm x",
    "ls '#'; rm x",
    "ls \\; rm x",
    "ls \\\n-l",
    "r\\m x",
    "r''m x",
    "\"rm\" x",
    "$'rm' x",
    "$x y",
    "${x} y",
    "${x:-$(rm x)}",
    "time rm x",
    "coproc rm x",
    "f() { rm x; }; f",
    "function f { rm x; }",
    "case a in a) rm x;; esac",
    "[ -f a ] && rm x",
    "[[ -f a && $(rm x) ]]",
    "((a=1))",
    "echo $((1+1))",
    "a=(1 2)",
    "export A=$(rm x)",
    "ls -- -x",
    "(ls) > out",
    "{ ls; } 2> err | cat",
    "ls;rm x;",
    "ls&&rm x",
    "ls|rm x",
    "echo a{b,c} *.rs ?x [ab]",
    "git log --format='%h %s' | head -5",
];
