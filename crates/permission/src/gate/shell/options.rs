//! The programs that read, one row each: which options are known, and which write a file or run a program.
//!
//! An option in neither list is unknown: the command is then *unproven*, and runs unasked in the profile *read* alone, where
//! the kernel refuses whatever the option does. Options that write (`sort -o`), that run programs (`rg --pre`) or that name
//! files with further names in them (`wc --files0-from`) are asked about, because they would fail in *read*.
//! Short options are listed as for `getopt`: `n` is a flag, `n:` takes a value, `n@` a path, `n?` only a joined value, and `#`
//! is any digit. Long ones end in `=`, `@` or `?` for the same.

use super::shell_word::{Fate, ShellWord};

/// A program, or one command of git.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) operands: Operands,
    /// Short options that only change what is printed.
    short: &'static str,
    /// Long options of that kind.
    long: &'static str,
    /// Options that are asked about: letters, and names of more than one letter.
    asked: &'static str,
}

/// What the words are that are no options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// Files to read.
    Files,
    /// One file to read; a second would be written.
    OneFile,
    /// Files to read, and of a folder the files in it, through links.
    FilesOrFolders,
    /// A pattern, and then files to read.
    PatternAndFiles,
    /// The same, with what is below a folder.
    PatternAndTrees,
    /// A program in a language that could do more than read, and then files to read.
    Code(Language),
}

/// A language whose programs are looked at in `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Awk,
    Jq,
    Sed,
}

/// The arguments of a program, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    /// The known options with their values.
    pub(super) options: Vec<(String, Option<ShellWord>)>,
    pub(super) operands: Vec<ShellWord>,
    /// How many operands are before `--`, if that is there.
    pub(super) before_dashes: Option<usize>,
    /// Values of options that name files.
    pub(super) paths: Vec<ShellWord>,
    /// What is joined to unknown options: a path, where a file of that name exists.
    pub(super) mentioned: Vec<ShellWord>,
    /// There is an unknown option.
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

/// Long options that mean nothing but another way to print, whichever program has them. A value counts as one only when it
/// is joined: a program may have a flag of that name, and then the next word is a file.
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

/// Sorted by what they are for.
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

/// Common long options of git that change what is printed; `git` tells which of them make it print contents. With any other
/// option it may print everything.
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

/// Options of git that write a file, or run a program.
const GIT_ASKED: &str = "O output ext-diff open-files-in-pager textconv filters";

/// The program of this name, if it is in the table.
pub(super) fn known(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

impl Program {
    /// A git command, by its short options.
    pub(super) const fn of_git(name: &'static str, short: &'static str) -> Self {
        Self { name, operands: Files, short, long: GIT_LONG, asked: GIT_ASKED }
    }

    /// Takes the arguments apart. None when there is an option that is asked about, or a word that may be one.
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
            // Programs take the beginning of a long option for the option.
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
                // Where its value begins is not known.
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
    /// Notes an option with its value, which is joined to it or the next word.
    fn take<'a>(
        &mut self,
        name: &str,
        kind: char,
        joined: Option<&str>,
        rest: &mut impl Iterator<Item = &'a ShellWord>,
    ) -> Option<()> {
        let joined = joined.map(ShellWord::literal);
        let value = match kind {
            ':' | '=' | '@' if joined.is_none() => {
                let next = rest.next()?.clone();
                if next.fate == Fate::Anything {
                    return None;
                }
                // Systems that stop at the first operand read both as operands.
                if !self.operands.is_empty() {
                    self.paths.push(next.clone());
                }
                Some(next)
            }
            ':' | '=' | '@' | '?' => joined,
            _ => {
                // A flag takes no value: this is another program than the table knows.
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
