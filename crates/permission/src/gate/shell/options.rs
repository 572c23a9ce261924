//! A table of programs that read files. Each row has one program, its known options, and its
//! options about which a person is asked.
//!
//! An option in neither list is unknown. A command with an unknown option is *unproven*: without a
//! permission request, it runs only in the sandbox profile *read*, where the kernel blocks any
//! write.
//!
//! A person is asked about an option that writes a file (`sort -o`), runs a program (`rg --pre`) or
//! reads a list of file names from a file (`wc --files0-from`). In the profile *read*, a command
//! with such an option would fail.
//!
//! Short options are listed as for `getopt`: `n` is a flag, `n:` takes a value, `n@` takes a path,
//! `n?` takes only a joined value, and `#` is any digit. Long options end in `=`, `@` or `?`. These
//! endings mean the same as `:`, `@` and `?` after a short option.

use super::shell_word::{Fate, ShellWord};

/// A program that only reads files, or one git subcommand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) operands: Operands,
    /// Short options that change only the output.
    short: &'static str,
    /// Long options that change only the output.
    long: &'static str,
    /// Options about which a person is asked. Single letters are short options, and longer names
    /// are long options.
    asked: &'static str,
}

/// The meaning of a program's operands (arguments that are not options).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// The operands are files to read.
    Files,
    /// The first operand is the file to read. If there is a second operand, the program writes to
    /// the file that the second operand names.
    OneFile,
    /// The operands are files to read. For a folder, the program reads the files directly in the
    /// folder and follows symbolic links.
    FilesOrFolders,
    /// The first operand is a pattern, and the others are files to read.
    PatternAndFiles,
    /// The first operand is a pattern, and the others are files to read. For a folder, the program
    /// reads all files below it.
    PatternAndTrees,
    /// The first operand is a program text in a language that can do more than read. The others are
    /// files to read.
    Code(Language),
}

/// A language whose program texts the module `code` checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Awk,
    Jq,
    Sed,
}

/// The parsed arguments of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    /// The known options with their values.
    pub(super) options: Vec<(String, Option<ShellWord>)>,
    pub(super) operands: Vec<ShellWord>,
    /// The number of operands before `--`. `None` if there is no `--`.
    pub(super) before_dashes: Option<usize>,
    /// The values of options that name files, such as the `x` of `--file x`.
    pub(super) paths: Vec<ShellWord>,
    /// Texts that are joined to unknown options. Such a text is treated as a path if a file of that
    /// name exists.
    pub(super) mentioned: Vec<ShellWord>,
    /// True if there is an unknown option.
    pub(super) unproven: bool,
}

impl Arguments {
    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    pub(super) fn values<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'a ShellWord> {
        self.options
            .iter()
            .filter(move |(name, _)| name == option)
            .filter_map(|(_, value)| value.as_ref())
    }
}

const fn program(
    name: &'static str,
    operands: Operands,
    short: &'static str,
    asked: &'static str,
) -> Program {
    Program { name, operands, short, long: LONG, asked }
}

use Operands::{Code, Files, FilesOrFolders, OneFile, PatternAndFiles, PatternAndTrees};

/// Long options that, in every program that has them, change only the output. A value is accepted
/// only if it is joined with `=`. Without `=`, the next word could be a file, because some program
/// may have a flag of the same name.
const LONG: &str = "all almost-all block-size? bytes? canonical chars classify? color? colour? column compact-output complement \
    count? count-matches delimiter? directory exclude? exclude-dir? exit-status extended-regexp fields? files files-with-matches \
    files-without-match fixed-strings format? full-time glob? group-directories-first heading help hidden human-readable iglob? \
    ignore-all-space ignore-case ignore-space-change include? invert-match key? line-number line-regexp lines? max-columns? \
    max-count? max-depth? mime mime-type multiline no-filename no-heading no-ignore no-ignore-vcs no-line-number no-messages \
    null null-input number numeric-sort numeric-uid-gid only-matching perl-regexp printf? quiet raw-output recursive regexp? \
    regexp-extended replace? reverse show-all si silent slurp smart-case sort? sort-keys squeeze-blank stats summarize tab table \
    time-style? trim type? type-list type-not? unified? unique version version-sort width? with-filename word-regexp words \
    after-context? before-context? context? zero zero-terminated";

const GREP: &str = "EFGPivwxcloLqsbHhnTzUZyrIa#e:A:B:C:m:d:D:f@";
const GREP_ASKED: &str = "exclude-from file";
const DIGEST: &str = "btz";
const CHECK: &str = "c check";

/// The known programs, sorted by purpose.
const PROGRAMS: &[Program] = &[
    program("cat", Files, "AbeEnstTuv", ""),
    program("head", Files, "#qvzn:c:", ""),
    program("tail", Files, "#qvzfFrn:c:s:", ""),
    program("tac", Files, "brs:", ""),
    program("nl", Files, "pb:d:f:h:i:l:n:s:v:w:", ""),
    program("rev", Files, "", ""),
    program("wc", Files, "clmwL", "files0-from"),
    program("cut", Files, "szb:c:d:f:n", ""),
    program("paste", Files, "szd:", ""),
    program("comm", Files, "#iz", ""),
    program("join", Files, "izea:e:j:o:t:v:1:2:", ""),
    program("fold", Files, "bsw:", ""),
    program("expand", Files, "it:", ""),
    program("unexpand", Files, "at:", ""),
    program("column", Files, "txneJs:o:c:N:R:H:W:O:", ""),
    program("od", Files, "abcdfiloxvA:j:N:t:w?S:", ""),
    program("hexdump", Files, "bcCdovxn:s:e:", "f"),
    program("base64", Files, "diw:", "o output"),
    program("cmp", Files, "bblsi:n:", ""),
    program("md5sum", Files, DIGEST, CHECK),
    program("sha1sum", Files, DIGEST, CHECK),
    program("sha256sum", Files, DIGEST, CHECK),
    program("sha512sum", Files, DIGEST, CHECK),
    program("cksum", Files, "", CHECK),
    program("ls", Files, "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ#1I:w:T:", ""),
    program("stat", Files, "Lftc:", ""),
    program("du", Files, "aAbchklmPsSxd:B:t:", "files0-from X exclude-from"),
    program("df", Files, "ahHiklPTB:t:x:", ""),
    program("realpath", Files, "eEmLPqsz", ""),
    program("readlink", Files, "femnqsvz", ""),
    program(
        "file",
        Files,
        "bEhiLklnNprsSv0",
        "f m C z Z files-from magic-file compile uncompress uncompress-noreport",
    ),
    program(
        "tree",
        Files,
        "adfipsugDhCnAJXSqNQFrtvULcI:P:L:",
        "o R output fromfile fromtabfile infofile",
    ),
    program(
        "sort",
        Files,
        "bcCdfghiMmnRrsuVzk:t:S:",
        "o T output temporary-directory compress-program files0-from random-source",
    ),
    program("uniq", OneFile, "#cdDiuzf:s:w:", ""),
    program(
        "diff",
        FilesOrFolders,
        "#abBcdeEiNpqstTuwyU:C:W:I:",
        "X exclude-from from-file to-file l paginate",
    ),
    program("grep", PatternAndFiles, GREP, GREP_ASKED),
    program("egrep", PatternAndFiles, GREP, GREP_ASKED),
    program("fgrep", PatternAndFiles, GREP, GREP_ASKED),
    program(
        "rg",
        PatternAndTrees,
        "#vwxclLioqsSFHhInNpPUuaE:0e:f@g:t:T:A:B:C:m:M:d:r:j:",
        "pre hostname-bin file ignore-file z search-zip",
    ),
    program(
        "jq",
        Code(Language::Jq),
        "ncCMrjasSeRh",
        "f L from-file library-path slurpfile rawfile argfile run-tests",
    ),
    program("sed", Code(Language::Sed), "nErsuze:", "i I in-place f file expression"),
    program(
        "awk",
        Code(Language::Awk),
        "F:v:",
        "f i l E o d p D file include load exec pretty-print dump-variables profile debug",
    ),
];

/// Common long options of git that change the output. The module `git` checks which of these
/// options make git print contents. With any other option, git may print any contents.
const GIT_LONG: &str = "\
    abbrev? abbrev-commit abbrev-ref? after= after-context= all all-match always and author= before= before-context= \
    boundary branch branches? cached cc cherry color? color-moved? color-words? column? committer= compact-summary \
    contains context= count date= decorate? deleted diff-filter= directory dirty? exclude= exclude-standard exit-code \
    extended-regexp files-with-matches files-without-match find-copies? find-renames? first-parent fixed-strings follow \
    format= full-name function-context git-dir glob= graph grep= heading ignore-all-space ignore-case ignore-space-change \
    ignored? invert-grep invert-match is-ancestor is-inside-work-tree left-right line-number long match= max-count= \
    max-depth= merge-base merges name-only name-status no-abbrev-commit no-color no-decorate no-ext-diff no-merges \
    no-patch no-prefix no-renames not numbered numstat oneline only-matching or others patch patch-with-raw \
    patch-with-stat perl-regexp pickaxe-all porcelain? pretty? quiet raw recursive regexp-ignore-case relative? remotes? \
    reverse short? shortstat show-toplevel since= skip= stage staged stat? summary tags? text topo-order unified= until= \
    untracked untracked-files? verbose verify word-diff? word-diff-regex= word-regexp";

/// Options of git that write a file or run a program.
const GIT_ASKED: &str = "O output ext-diff open-files-in-pager textconv filters";

/// Returns the table row of a program, or `None` if the program is not in the table.
pub(super) fn known(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

impl Program {
    /// Creates the row of a git subcommand with these short options.
    pub(super) const fn of_git(name: &'static str, short: &'static str) -> Self {
        Self { name, operands: Files, short, long: GIT_LONG, asked: GIT_ASKED }
    }

    /// Parses the arguments. Returns `None` if there is an option about which a person must be
    /// asked, or a word that could expand to such an option.
    pub(super) fn arguments(&self, args: &[ShellWord]) -> Option<Arguments> {
        let mut found = Arguments::default();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            match word.exact() {
                None if word.may_be_flag() => return None,
                Some("--") => {
                    found.before_dashes = Some(found.operands.len());
                    found.operands.extend(rest.cloned());
                    return Some(found);
                }
                Some(text) if text.starts_with("--") => {
                    self.long_option(text, &mut rest, &mut found)?
                }
                Some(text) if text.starts_with('-') && text.len() > 1 => {
                    self.short_options(text, &mut rest, &mut found)?;
                }
                Some(_) | None => found.operands.push(word.clone()),
            }
        }
        Some(found)
    }

    fn long_option<'a>(
        &self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a ShellWord>,
        found: &mut Arguments,
    ) -> Option<()> {
        let (name, joined) =
            text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let bare = name.trim_start_matches('-');
        let is_asked = |exact: bool| {
            let mut asked = self.asked.split_whitespace().filter(|it| it.len() > 1);
            // Programs accept the beginning of a long option instead of its full name.
            asked.any(|it| if exact { it == bare } else { it.starts_with(bare) })
        };
        let known = self
            .long
            .split_whitespace()
            .find(|option| option.trim_end_matches(['=', '@', '?']) == bare);
        match known {
            _ if is_asked(true) => None,
            Some(option) => {
                found.take(name, option.chars().last().unwrap_or_default(), joined, rest)
            }
            // The table does not contain this name. The name may be the abbreviation of an option
            // about which a person must be asked, so compare only the beginning of these options.
            None if is_asked(false) => None,
            None => {
                found.unproven = true;
                found.mentioned.extend(joined.map(ShellWord::literal));
                Some(())
            }
        }
    }

    fn short_options<'a>(
        &self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a ShellWord>,
        found: &mut Arguments,
    ) -> Option<()> {
        let is_asked =
            |letter: char| self.asked.split_whitespace().any(|it| it.chars().eq([letter]));
        let mut letters = text.trim_start_matches('-').chars();
        while let Some(letter) = letters.next() {
            let joined = letters.as_str();
            let listed =
                if letter.is_ascii_digit() && !self.short.contains(letter) { '#' } else { letter };
            let at = self.short.find(listed).filter(|_| !matches!(letter, ':' | '@' | '?' | '#'));
            let Some(at) = at else {
                if is_asked(letter) || joined.chars().any(is_asked) {
                    return None;
                }
                found.unproven = true;
                // The value of an unknown short option may start at any of the following letters.
                // Treat the text from each of these letters to the end of the word as a possible
                // path.
                let tails = joined.char_indices().filter_map(|(at, _)| joined.get(at..));
                found.mentioned.extend(tails.map(ShellWord::literal));
                return Some(());
            };
            let kind = self
                .short
                .get(at + listed.len_utf8()..)
                .and_then(|after| after.chars().next())
                .unwrap_or_default();
            let kind = if matches!(kind, ':' | '@' | '?') { kind } else { '-' };
            let takes = kind != '-';
            found.take(
                &format!("-{letter}"),
                kind,
                Some(joined).filter(|it| takes && !it.is_empty()),
                rest,
            )?;
            if takes {
                return Some(());
            }
        }
        Some(())
    }
}

impl Arguments {
    /// Records an option with its value. The value is the text joined to the option. If no text is
    /// joined and the option needs a value, the value is the next word.
    fn take<'a>(
        &mut self,
        name: &str,
        kind: char,
        joined: Option<&str>,
        rest: &mut impl Iterator<Item = &'a ShellWord>,
    ) -> Option<()> {
        let joined = joined.map(ShellWord::literal);
        let value = match kind {
            ':' | '=' | '@' if joined.is_none() => Some(self.next_value(rest)?),
            ':' | '=' | '@' | '?' => joined,
            _ => {
                // If a flag has a value, the installed program differs from the program in the
                // table.
                self.unproven |= joined.is_some();
                self.mentioned.extend(joined);
                None
            }
        };
        if kind == '@' {
            self.paths.extend(value.clone());
        }
        self.options.push((name.to_owned(), value));
        Some(())
    }

    /// Takes the next word as the value of an option.
    fn next_value<'a>(
        &mut self,
        rest: &mut impl Iterator<Item = &'a ShellWord>,
    ) -> Option<ShellWord> {
        let next = rest.next()?.clone();
        // The next word may expand to several words, so it is unclear which of them are options.
        if next.fate == Fate::Anything {
            return None;
        }
        // Some systems stop parsing options at the first operand. On these systems the option and
        // its value are both files, so record the value as a path.
        if !self.operands.is_empty() {
            self.paths.push(next.clone());
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    fn taken(command: &str) -> String {
        let script = Script::parse(command);
        let (name, args) = script.parts.last().unwrap().words.split_first().unwrap();
        let Some(found) = known(&name.text).unwrap().arguments(args) else {
            return "asked".to_owned();
        };
        let list = |words: &[ShellWord]| {
            words.iter().map(|word| word.raw.clone()).collect::<Vec<_>>().join(" ")
        };
        let unproven = if found.unproven {
            format!(" | unproven: {}", list(&found.mentioned))
        } else {
            String::new()
        };
        format!("{} | {}{unproven}", list(&found.operands), list(&found.paths))
    }

    #[test]
    fn options_are_told_from_operands_and_paths() {
        for (command, expected) in [
            ("head -n 5 a", "a | "),
            ("head -n5 a b", "a b | "),
            ("head -20 a", "a | "),
            ("head a -n 5", "a | 5"),
            ("head --lines=5 a", "a | "),
            ("head --lines 5 a", "5 a | "),
            ("head --lin=5 a", "a |  | unproven: 5"),
            ("head -n", "asked"),
            ("head -x a", "a |  | unproven: "),
            ("head -qx/o a", "a |  | unproven: /o o"),
            ("head --x=/o a", "a |  | unproven: /o"),
            ("head -- -x a", "-x a | "),
            ("cat -", "- | "),
            ("cat --number=3 a", "a |  | unproven: 3"),
            ("grep -rnf words src", "src | words"),
            ("grep -fwords src", "src | words"),
            ("grep --file=words src", "asked"),
            ("grep -rn foo src", "foo src | "),
            ("sort -o x y", "asked"),
            ("sort -uoout y", "asked"),
            ("sort -?o y", "asked"),
            ("sort --outp=x y", "asked"),
            ("sort -to y", "y | "),
            ("ls $x", "asked"),
            ("ls a$x", "asked"),
            ("ls \"a$x\"", "\"a$x\" | "),
            ("cut -d: -f1 a", "a | "),
            ("cut -: a", "a |  | unproven: "),
        ] {
            assert_eq!(taken(command), expected, "{command}");
        }
    }

    #[test]
    fn every_option_is_listed_once_and_none_is_both_harmless_and_asked() {
        for list in [LONG, GIT_LONG] {
            let bare =
                list.split_whitespace().map(|option| option.trim_end_matches(['=', '@', '?']));
            let mut long: Vec<_> = bare.collect();
            let count = long.len();
            long.sort_unstable();
            long.dedup();
            assert_eq!(long.len(), count);
            assert!(!long.contains(&"output"));
        }
        for program in PROGRAMS {
            assert_eq!(
                PROGRAMS.iter().filter(|other| other.name == program.name).count(),
                1,
                "{}",
                program.name
            );
            let is_short = |option: &str| option.len() == 1 && program.short.contains(option);
            assert!(!program.asked.split_whitespace().any(is_short), "{}", program.name);
        }
    }
}
